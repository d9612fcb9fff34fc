//! The HTTP shell of the API: TLS, authentication, authorization, encodings, watch streams, discovery, health, metrics.
//!
//! Start with [`Server`]. [`part::PartServer`] serves only the health and metrics of a control plane component. The
//! server authenticates and authorizes a request by its head, then calls [`berth_registry::Registry`] once. Only this
//! crate converts the result or the error to bytes. It contains no rules of the API, and no crate below it uses HTTP.
//!
//! Time and tasks come from tokio. [`pki`] creates certificates, and [`kubeconfig`] creates the file for kubectl.

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
