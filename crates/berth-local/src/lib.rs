//! The controllers' [`Cluster`](berth_controllers::Cluster) over a registry in the same process, and the server's own loops over it.
//!
//! Start with [`LocalCluster`]. Controllers, nodes and clients know only the trait. Their crates depend neither on this one nor on the registry
//! (docs/decisions/0054-clients-without-the-registry.md).

pub mod api_services;
mod cluster;
pub mod definitions;
mod error;
pub mod service_allocation;

pub use cluster::LocalCluster;
pub use error::cluster_error;
