//! The web page: all workloads of a cluster, how they stand and why they wait; one workload as a picture over time, with its pods, events and revisions; nodes; quotas.
//!
//! Start with [`Dashboard`]. What is shown is read through a [`Cluster`], with the rights of whoever that was connected as, and kept current by
//! `berth-follow`, as for terminals; pages are rendered of it here, by the server ([`pages`]), so that a page costs what it shows and not what there is.
//! A page that is open is kept live by one stream of changes, which is resumed where it breaks ([`stream`]). One script of our own puts its parts in place; without it
//! all is there but the movement.
//!
//! Anybody may send requests to an address: who gets an answer is decided in [`guard`] and [`session`], before anything else is looked at.
//!
//! [`Cluster`]: berth_controllers::Cluster

mod address;
mod guard;
mod pages;
mod route;
mod server;
mod session;
mod stream;

use berth_follow::{act, board, cluster_cache, facts, rows, text, views};
pub use route::FirstPage;
pub use server::{BindError, Dashboard, Following, Links, Options, TlsOptions};
