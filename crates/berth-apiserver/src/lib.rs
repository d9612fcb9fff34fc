//! The HTTP shell around the API's rules: TLS, who asks and whether they may, encodings, watch streams, discovery, health, metrics.
//!
//! Start with [`Server`]; what a part of a control plane says of itself, and nothing else, is [`part::PartServer`]'s. A request is authenticated and authorised by its path alone, then becomes one call of
//! [`berth_registry::Registry`]; what that gives back, or refuses, becomes bytes here and nowhere else. No rule of the API stands in
//! this crate, and nothing below it knows HTTP.
//!
//! Time and tasks are tokio's. Certificates are made by [`pki`], the file for kubectl by [`kubeconfig`].

mod answer;
pub mod audit;
pub mod auth;
mod body;
mod brief;
pub mod credentials;
mod current;
mod decoded;
mod flow;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod handlers;
mod health;
pub mod kubeconfig;
mod limits;
mod listening;
mod listing;
mod metrics;
pub mod negotiate;
pub mod part;
pub mod path;
pub mod pki;
pub mod query;
mod sending;
mod server;
pub mod shared_pki;
mod state_metrics;
pub mod status;
mod storage_metrics;
mod tls;
mod warnings;
mod watch;
mod x509;

pub use credentials::Credentials;
pub use health::{CheckError, Failure, Found, Readiness};
pub use kubeconfig::Kubeconfig;
pub use limits::Limits;
pub use listening::BindError;
pub use metrics::register_gates;
pub use pki::{Pki, PkiOptions};
pub use server::{Access, Config, Server, Storage};
pub use tls::TlsError;
