//! The ReplicaSet controller's decisions: as many active pods as its spec says.

mod plan;
pub mod rank;
pub mod status;

pub use plan::{BURST_PODS, plan, wait_event};

use crate::{
    counts::{PodCounts, PodSource},
    view::ReplicaSetView,
};
use berth_api::FeatureGates;
use jiff::Timestamp;

/// What the plan of one ReplicaSet is made from: one consistent reading of the caches.
pub struct State<'a> {
    /// The set.
    pub set: &'a ReplicaSetView,
    /// Its pods, counted at `now`.
    pub counts: PodCounts,
    /// When the next ready pod becomes available; `None` if none is waiting for that.
    pub next_available_at: Option<Timestamp>,
    /// Its pods, to look at.
    pub pods: &'a dyn PodSource,
    /// What went wrong when the plan before was carried out; `None` if nothing did. It becomes the condition `ReplicaFailure`.
    pub last_error: Option<&'a str>,
    /// The controllers' feature gates.
    pub gates: &'a FeatureGates,
    /// The time of this reading.
    pub now: Timestamp,
}

#[cfg(test)]
mod tests;
