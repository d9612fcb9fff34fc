//! The ReplicaSet controller's decisions: as many active pods as its spec says.

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

/// What the plan of one ReplicaSet is made from: one consistent reading of the caches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaSetState {
    /// The set.
    #[serde(with = "shared")]
    pub set: Arc<ReplicaSetView>,
    /// Its pods, counted at `now`.
    pub counts: PodCounts,
    /// When the next ready pod becomes available; `None` if none is waiting for that.
    pub next_available_at: Option<Timestamp>,
    /// Its single pods, as far as [`wanted_pods`] asks for them.
    pub pods: SinglePods,
    /// What went wrong when the plan before was carried out; `None` if nothing did. It becomes the condition `ReplicaFailure`.
    pub last_error: Option<String>,
    /// The controllers' feature gates.
    pub gates: FeatureGates,
    /// The time of this reading.
    pub now: Timestamp,
}

/// Single pods of one ReplicaSet. Each list has an order that does not depend on chance.
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
    /// How many active pods on a node match the selector of any set with the same controller as this set, this set included. Nodes of active pods;
    /// the empty name means none. A node that is absent has 0.
    pub related_on_node: BTreeMap<NodeName, u32>,
}

#[cfg(test)]
mod tests;
