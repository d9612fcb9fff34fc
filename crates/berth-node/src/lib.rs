//! A scheduler and simulated nodes: pods get a place, start, crash, stop, as a kubelet would report it, without a container engine.
//!
//! Both halves decide in plain structs that are given the time ([`scheduler::Board`], [`kubelet::PodStage`], [`kubelet::step`]) and act through
//! [`berth_controllers::Cluster`] in a small loop. What a pod does is data: the node's defaults and the pod's `sim.berth.dev/…` annotations.

mod about;
mod condition;
pub mod kubelet;
pub mod resources;
pub mod scheduler;

pub use kubelet::{
    ForeignNodes, Latencies, MissingImages, NodeOptionError, NodeShape, Nodes, Zone, parse_amount, parse_cpu, parse_label, parse_resource,
};
pub use scheduler::Scheduler;
