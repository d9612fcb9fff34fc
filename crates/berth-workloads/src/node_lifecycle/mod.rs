//! Unhealthy nodes, and the eviction of their pods (upstream: node lifecycle and taint eviction controllers).
//!
//! [`nodes`] decides on a node's conditions and taints, and [`pods`] decides when a node's pods are evicted. Unlike upstream, berth has no
//! rate limit by zone: however many nodes are lost, each is tainted at once.

pub mod nodes;
pub mod pods;
mod taints;
mod view;

pub use view::{BoundPodView, LeaseView, NodeView, Readiness};

/// The namespace of the nodes' leases.
pub const NODE_LEASES: &str = "kube-node-lease";
