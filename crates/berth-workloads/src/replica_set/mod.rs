//! The decisions of the controllers of ReplicaSets and of ReplicationControllers: as many active pods as the spec requires.

mod plan;
pub mod rank;
pub mod status;

pub use plan::{BURST_PODS, WantedPods, plan, wait_event, wanted_pods};

use crate::{
    counts::PodCounts,
    shared,
    view::{PodView, ReplicaSetView},
};
use berth_api::FeatureGates;
use berth_identity::NodeName;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// The input of one ReplicaSet's plan: one consistent snapshot of the caches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaSetState {
    /// The set.
    #[serde(with = "shared")]
    pub set: Arc<ReplicaSetView>,
    /// Its pods, counted at `now`.
    pub counts: PodCounts,
    /// When the next ready pod becomes available. `None` if no ready pod waits for that.
    pub next_available_at: Option<Timestamp>,
    /// Its individual pods, as far as [`wanted_pods`] requests them.
    pub pods: SinglePods,
    /// The error of the last execution; `None` if it succeeded. It becomes the condition `ReplicaFailure`.
    pub last_error: Option<String>,
    /// The controllers' feature gates.
    pub gates: FeatureGates,
    /// The time of the snapshot.
    pub now: Timestamp,
}

/// Individual pods of one ReplicaSet. The order of each list is deterministic.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SinglePods {
    /// Those counted in [`PodCounts::active`].
    #[serde(with = "shared::list")]
    pub active: Vec<Arc<PodView>>,
    /// Those counted in [`PodCounts::mismatched`].
    #[serde(with = "shared::list")]
    pub mismatched: Vec<Arc<PodView>>,
    /// Those counted in [`PodCounts::adoptable`].
    #[serde(with = "shared::list")]
    pub adoptable: Vec<Arc<PodView>>,
    /// For each node of an active pod: the number of active pods that match the selector of any set with the same controller, this set
    /// included. Pods without a node count for the empty name. An absent node has 0.
    pub related_on_node: BTreeMap<NodeName, u32>,
}

#[cfg(test)]
mod tests;
