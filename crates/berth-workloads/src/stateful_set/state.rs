//! What the plan of one StatefulSet is made from.

use super::{ControlledPods, member_ordinal, revision_data};
use crate::{
    shared,
    view::{ClaimView, PodView, RevisionView, StatefulSetView},
};
use berth_api::FeatureGates;
use berth_identity::Ordinal;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What the plan of one StatefulSet is made from: one consistent reading of the caches, in which every own write is already visible.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Saved", into = "Saved")]
pub struct StatefulSetState {
    /// The set.
    pub set: Arc<StatefulSetView>,
    /// The pods that it controls, at `now`.
    pub pods: Arc<ControlledPods>,
    /// The ControllerRevisions that it controls, and at least those of its namespace that it selects and that have no controller. Any order.
    pub revisions: Vec<Arc<RevisionView>>,
    /// Pods of its namespace without a controller, at least those that it selects.
    pub orphans: Vec<Arc<PodView>>,
    /// Numbers of pods whose claims may not go with whom they should: all that [`super::claims_in_doubt`] would name are among them.
    pub claims_in_doubt: BTreeSet<Ordinal>,
    /// The answers to [`super::wanted`] and [`super::wanted_revision`].
    pub found: Found,
    /// Why pods or claims could not be made in the last reconcile.
    pub last_error: Option<String>,
    /// The controllers' feature gates.
    pub gates: FeatureGates,
    /// The time of this reading.
    pub now: Timestamp,
    /// The set's template as a revision keeps it: made once, as it is compared several times.
    pub(super) data: Arc<Value>,
}

/// What was found of the set's namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Found {
    /// Of the names in [`super::Wanted::pods`], those that a pod has, of any controller.
    pub pods: BTreeSet<String>,
    /// Of the names in [`super::Wanted::claims`], those that there are.
    #[serde(with = "shared::map")]
    pub claims: BTreeMap<String, Arc<ClaimView>>,
    /// The ControllerRevisions with names that a new one would have, of any controller.
    #[serde(with = "shared::map")]
    pub revisions: BTreeMap<String, Arc<RevisionView>>,
}

impl StatefulSetState {
    /// A set and its pods, and nothing else.
    #[must_use]
    pub fn new(set: Arc<StatefulSetView>, pods: Arc<ControlledPods>, gates: FeatureGates, now: Timestamp) -> Self {
        let data = Arc::new(revision_data(&set.spec.template));
        Self {
            set,
            pods,
            revisions: Vec::new(),
            orphans: Vec::new(),
            claims_in_doubt: BTreeSet::new(),
            found: Found::default(),
            last_error: None,
            gates,
            now,
            data,
        }
    }

    /// Whether the namespace has a pod of this name, of any controller. Known of the set's own pods, and of those that [`super::wanted`] names.
    #[must_use]
    pub fn is_pod_there(&self, name: &str) -> bool {
        let own = member_ordinal(&self.set.meta.name, name).and_then(|ordinal| self.pods.pod(ordinal));
        own.is_some_and(|pod| pod.meta.name == name) || self.found.pods.contains(name)
    }
}

/// The state as it is written down. What follows from the rest is left out.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Saved {
    #[serde(with = "shared")]
    set: Arc<StatefulSetView>,
    /// Those that the set controls.
    #[serde(with = "shared::list")]
    pods: Vec<Arc<PodView>>,
    /// Availability is as of this time.
    pods_at: Timestamp,
    #[serde(with = "shared::list")]
    revisions: Vec<Arc<RevisionView>>,
    #[serde(with = "shared::list")]
    orphans: Vec<Arc<PodView>>,
    claims_in_doubt: BTreeSet<Ordinal>,
    found: Found,
    last_error: Option<String>,
    gates: FeatureGates,
    now: Timestamp,
}

impl From<StatefulSetState> for Saved {
    fn from(state: StatefulSetState) -> Self {
        let StatefulSetState { set, pods: controlled, revisions, orphans, claims_in_doubt, found, last_error, gates, now, data: _ } = state;
        let (pods, pods_at) = (controlled.all().cloned().collect(), controlled.now());
        Self { set, pods, pods_at, revisions, orphans, claims_in_doubt, found, last_error, gates, now }
    }
}

impl From<Saved> for StatefulSetState {
    fn from(saved: Saved) -> Self {
        let Saved { set, pods, pods_at, revisions, orphans, claims_in_doubt, found, last_error, gates, now } = saved;
        let controlled = Arc::new(ControlledPods::new(&set, &pods, pods_at));
        Self { revisions, orphans, claims_in_doubt, found, last_error, ..Self::new(set, controlled, gates, now) }
    }
}
