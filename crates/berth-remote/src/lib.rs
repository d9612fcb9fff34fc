//! A [`Cluster`] over the network: the API server of a kubeconfig, berth's or another.
//!
//! Start with [`RemoteCluster`]. [`Options`] finds the cluster and the user as kubectl does. The `kube` crate does HTTP
//! and TLS. Objects are passed on as bytes, and views are decoded from the server's bytes. Only `answer.rs` maps a
//! server's errors to those of controllers. One of several processes leads, by a Lease ([`election`]). Time comes in
//! through `Env`. Futures must be polled on the tokio runtime of the connection.
//!
//! [`Cluster`]: berth_controllers::Cluster
//! [`election`]: berth_controllers::election

mod answer;
mod backoff;
mod caller;
mod cluster;
mod connection;
mod contact;
mod denials;
mod discovery;
mod follower;
mod options;
mod refusal;
mod vendor;

pub use cluster::{ConnectError, RemoteCluster};
pub use connection::Connection;
pub use contact::Contact;
pub use follower::{Only, WatchError, follow_some};
pub use options::{Impersonated, OpenError, Options};
pub use refusal::Refusal;
pub use vendor::Vendor;
