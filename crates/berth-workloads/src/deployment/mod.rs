//! The Deployment controller's decisions: how many pods of which template, and how a new template replaces the old one.

mod analyzing;
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

/// The input of one Deployment's plan: one consistent snapshot of the caches that includes the controller's own writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentState {
    /// The Deployment.
    #[serde(with = "shared")]
    pub deployment: Arc<DeploymentView>,
    /// The ReplicaSets of its namespace (and group) that it controls, and matching ones without a controller, in any order.
    #[serde(with = "shared::list")]
    pub sets: Vec<Arc<ReplicaSetView>>,
    /// The pods of the sets, by the uid of the set that controls them.
    pub pods: BTreeMap<Uid, PodsOfSet>,
    /// The Deployment's pods that none of its sets controls any more: see [`crate::counts::is_left_behind`].
    pub left_behind: LeftBehind,
    /// The answers to [`wanted`].
    pub found: Found,
    /// The error of the last execution; `None` if it succeeded. If a ReplicaSet could not be created, the error becomes part of the
    /// condition `Progressing`.
    pub last_error: Option<String>,
    /// The state of an analysis that an earlier plan requested. `None` if no component asks, for example in a reader that only forecasts.
    pub asked: Option<Asked>,
    /// The controllers' feature gates.
    pub gates: FeatureGates,
    /// The time of the snapshot.
    pub now: Timestamp,
}

/// The answers. Those that [`wanted`] does not name keep their defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Found {
    /// Whether any ReplicaSet of the namespace has the name of the set to create. Then the new set needs another name.
    pub is_name_taken: bool,
    /// Since when all active pods of the new set are ready. `None` if one is not, or if there is none. The cost is linear in the set's
    /// pods.
    pub all_ready_since: Option<Timestamp>,
    /// The nodes of unready active pods of the set that is rolled back, at most [`NODES_MAX`]. The empty name is that of pods without a
    /// node.
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
