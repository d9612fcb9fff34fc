//! The web dashboard: all workloads of a cluster with their state and wait reason, one workload with its chart, pods,
//! events and revisions, nodes, and quotas.
//!
//! Start with [`Dashboard`]. It reads a [`Cluster`] with the rights of the connected user. `berth-follow` keeps the
//! data current, as for terminals. The server renders the pages ([`pages`]), so that a page costs what it shows, not
//! what the cluster contains. One stream of changes keeps an open page current and resumes after an interruption
//! ([`stream`]). One script replaces the changed parts. Without it the pages are complete but static.
//!
//! Any client can send requests to the address. [`guard`] and [`session`] decide which ones get a response before any
//! other code reads them.
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
