//! The decisions of each controller: from observed objects, gates and the time to a [`Plan`]. No IO, no clock, no randomness, no async.
//!
//! Start with [`view`] (the fields that a plan reads), [`counts`] (the counts of pods), and the state and `plan` of a controller:
//! [`replica_set`], [`deployment`].

pub mod analysis;
pub mod autoscaler;
pub mod cause;
pub mod certificate;
pub mod claim;
pub mod counts;
pub mod cron_job;
pub mod daemon_set;
pub mod deployment;
pub mod disruption;
pub mod endpoints;
pub mod gc;
pub mod hash;
pub mod job;
pub mod load_balancer;
pub mod lru;
pub mod namespace;
pub mod node_lifecycle;
pub mod ordinals;
pub mod owners;
pub mod placement;
pub mod plan;
pub mod pod_gc;
pub mod pod_state;
#[cfg(test)]
#[path = "../tests/it/cluster_model/read_back.rs"]
mod read_back;
pub mod replica_set;
pub mod resource_quota;
pub mod resources;
pub mod rollback;
pub mod rollout_record;
mod rounding;
pub mod second_writer;
pub mod selector;
mod shared;
pub mod stateful_set;
pub mod view;
pub mod volume_binding;
pub mod workload;

pub use plan::{Action, Plan, Stage, Wait};
