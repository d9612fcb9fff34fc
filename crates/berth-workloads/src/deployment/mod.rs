//! The Deployment controller's decisions: how many pods of which template, and how one template gives way to the next.

mod analysing;
pub mod annotations;
mod auto_rollback;
mod complete;
mod draft;
pub mod history;
pub mod limits;
pub mod observe;
pub mod partial_scale;
mod plan;
pub mod progress;
mod records;
pub mod recreate;
mod revision;
pub mod rollback;
pub mod rolling;
pub mod scale;
mod scaling;
pub mod status;
mod steering;
mod stepping;
pub mod steps;
mod subject;
mod wanted;
mod work;

pub use draft::wait_event;
pub use plan::plan;
pub use subject::Subject;
pub use wanted::{NODES_MAX, Wanted, wanted};

use crate::{
    analysis::Asked,
    counts::{LeftBehind, PodCounts, PodsOfSet},
    shared,
    view::{DeploymentView, ReplicaSetView},
};
use berth_api::FeatureGates;
use berth_identity::{NodeName, Uid};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// What the plan of one Deployment is made from: one consistent reading of the caches, in which every own write is already visible.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentState {
    /// The Deployment.
    #[serde(with = "shared")]
    pub deployment: Arc<DeploymentView>,
    /// The ReplicaSets of its namespace (and group) that it controls, and those that nobody controls and that its selector matches. Any order.
    #[serde(with = "shared::list")]
    pub sets: Vec<Arc<ReplicaSetView>>,
    /// The pods of the sets, by the uid of the set that controls them.
    pub pods: BTreeMap<Uid, PodsOfSet>,
    /// The Deployment's pods that no set of it controls any more: see [`crate::counts::is_left_behind`].
    pub left_behind: LeftBehind,
    /// The answers to [`wanted`].
    pub found: Found,
    /// What went wrong when the plan before was carried out; `None` if nothing did. If it was the creation of a ReplicaSet, it becomes part of
    /// the condition `Progressing`.
    pub last_error: Option<String>,
    /// What an analysis that an earlier plan wanted has come to so far; `None` where nobody asks, as where somebody else only looks.
    pub asked: Option<Asked>,
    /// The controllers' feature gates.
    pub gates: FeatureGates,
    /// The time of this reading.
    pub now: Timestamp,
}

/// What was found. What [`wanted`] does not name stays at its default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Found {
    /// Whether the namespace has a ReplicaSet with the name of the set to create, of any controller: then the new one needs another name.
    pub is_name_taken: bool,
    /// Since when all active pods of the new set are ready; `None` if one is not, or there is none. Costs what the set owns.
    pub all_ready_since: Option<Timestamp>,
    /// The nodes of unready active pods of the set that is rolled back, at most [`NODES_MAX`]; the empty name means none.
    pub unready_on: Vec<NodeName>,
}

impl DeploymentState {
    /// The counts of a set's pods.
    #[must_use]
    pub fn counts(&self, set: &Uid) -> PodCounts {
        self.pods.get(set).map(|pods| pods.counts).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
