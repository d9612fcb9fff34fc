//! The DaemonSet controller's decisions: one pod on each node that its template fits, and how the pods get a new template.
//!
//! A pod names its node by a required affinity, and the scheduler binds it. So a plan knows the node of each pod before it is bound.
//!
//! A plan first makes sure that the revision of the template is stored, because pods name it. Then it creates missing pods and deletes surplus ones.
//! It replaces pods of older templates only when none is missing or surplus, so that both never count against the same limit.
//!
//! Source: kubernetes `pkg/controller/daemon`; KEP-1591 (`maxSurge`).

mod changes;
mod failed_pods;
mod fit;
mod history;
mod manage;
mod observe;
mod plan;
mod pod;
mod rolling;
mod status;
mod tolerations;

pub use failed_pods::FailedPods;
pub use fit::{Fit, fit};
pub use history::wanted_revision;
pub use plan::{plan, wait_event};
pub use rolling::Limits;

use crate::{
    shared,
    view::{DaemonNodeView, DaemonSetView, PodView, RevisionView},
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// How many pods a reconcile creates at most, and how many it deletes.
pub const BURST_PODS: usize = 250;

/// The input of a DaemonSet's plan: one consistent reading of the caches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DaemonSetState {
    /// The set.
    #[serde(with = "shared")]
    pub set: Arc<DaemonSetView>,
    /// All nodes. In any order.
    #[serde(with = "shared::list")]
    pub nodes: Vec<Arc<DaemonNodeView>>,
    /// Pods of its namespace that it controls, or that have no controller and match its selector. In any order.
    #[serde(with = "shared::list")]
    pub pods: Vec<Arc<PodView>>,
    /// ControllerRevisions of its namespace that it controls, or that have no controller and match its selector. In any order.
    #[serde(with = "shared::list")]
    pub revisions: Vec<Arc<RevisionView>>,
    /// The answers to [`wanted_revision`]: ControllerRevisions with names that a new one would have, of any controller.
    #[serde(with = "shared::map")]
    pub found_revisions: BTreeMap<String, Arc<RevisionView>>,
    /// When failed pods were deleted last.
    pub failed_pods: FailedPods,
    /// The time of this reading.
    pub now: Timestamp,
}

#[cfg(test)]
mod tests;
