//! A [`Cluster`] at the end of a network: whichever API server a kubeconfig names, berth's or another.
//!
//! Start with [`RemoteCluster`]. Where the cluster is, and as whom it is asked, is found as kubectl finds it ([`Options`]); HTTP and TLS are the `kube`
//! crate's. Objects pass through as bytes: views are decoded from what the server sent. What a refusal means to a controller is decided in one place
//! (`answer.rs`). Of several that could work on a cluster one leads, by a Lease ([`election`]). Time comes in through `Env`; futures are to be polled on the tokio runtime that the cluster was connected on.
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
