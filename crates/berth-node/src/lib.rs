//! A scheduler and simulated nodes: pods are bound, start, crash and stop, with the statuses of a kubelet, but without a container engine.
//!
//! Both parts decide in plain structs that take the time as a parameter ([`scheduler::Board`], [`kubelet::PodStage`], [`kubelet::step`]),
//! and act through [`berth_controllers::Cluster`] in a small loop. The behavior of a pod is data: the node's defaults and the pod's
//! `sim.berth.dev/…` annotations.

mod about;
mod condition;
pub mod kubelet;
pub mod resources;
pub mod scheduler;

pub use kubelet::{
    ForeignNodes, Latencies, MissingImages, NodeOptionError, NodeShape, Nodes, Zone, parse_amount, parse_cpu, parse_label, parse_resource,
};
pub use scheduler::Scheduler;
