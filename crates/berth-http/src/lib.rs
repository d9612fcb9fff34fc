//! The HTTP server of the API, of the page and of a part's health and metrics: connections, TLS, limits, and an orderly end.
//!
//! Start with [`Listener`]. A [`Service`] decides how a connection begins and which peer it has, and answers requests. This crate knows no API and no
//! user: an [`Owner`] is a text to it.
//!
//! Nothing of the interface is generic, so that hyper's connections are compiled in this crate, once, and optimized as it is
//! (docs/decisions/0055-one-http-server.md). Time and tasks are tokio's.

mod activity;
mod body;
mod connections;
mod in_hand;
mod io;
mod limits;
mod protocol;
mod rare;
mod server;
mod service;
mod stall;

pub use activity::{Activity, Open};
pub use body::Body;
pub use connections::{ConnectionSlot, Origin, Owner, TooMany, Unread};
pub use in_hand::{InHand, Piece, Stream};
pub use limits::Limits;
pub use rare::Rare;
pub use server::Listener;
pub use service::{Answering, Connection, Service};
