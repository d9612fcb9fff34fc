//! Nodes that are not well, and what becomes of their pods (upstream: node lifecycle and taint eviction controllers).
//!
//! [`nodes`] decides what a node's conditions and taints say, [`pods`] when a pod has to leave its node. Unlike upstream, nodes are not counted
//! by zone: however many are lost, each is tainted at once.

pub mod nodes;
pub mod pods;
mod taints;
mod view;

pub use view::{BoundPodView, LeaseView, NodeView, Readiness};

/// The namespace of the nodes' leases.
pub const NODE_LEASES: &str = "kube-node-lease";
