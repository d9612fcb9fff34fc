//! The input of one StatefulSet's plan.

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

/// The input of one StatefulSet's plan: one consistent snapshot of the caches that includes the controller's own writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Saved", into = "Saved")]
pub struct StatefulSetState {
    /// The set.
    pub set: Arc<StatefulSetView>,
    /// The pods that it controls, at `now`.
    pub pods: Arc<ControlledPods>,
    /// The ControllerRevisions that it controls, and at least those of its namespace that it selects and that have no controller, in any
    /// order.
    pub revisions: Vec<Arc<RevisionView>>,
    /// Pods of its namespace without a controller, at least those that it selects.
    pub orphans: Vec<Arc<PodView>>,
    /// Ordinals whose claims may have wrong owners. They include all that [`super::claims_in_doubt`] would return.
    pub claims_in_doubt: BTreeSet<Ordinal>,
    /// The answers to [`super::wanted`] and [`super::wanted_revision`].
    pub found: Found,
    /// Why pods or claims could not be created in the last reconcile.
    pub last_error: Option<String>,
    /// The controllers' feature gates.
    pub gates: FeatureGates,
    /// The time of the snapshot.
    pub now: Timestamp,
    /// The set's template in the form of a revision's data. Computed once, because it is compared several times.
    pub(super) data: Arc<Value>,
}

/// The answers about the set's namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Found {
    /// Of the names in [`super::Wanted::pods`], those of existing pods, of any controller.
    pub pods: BTreeSet<String>,
    /// The existing claims of the names in [`super::Wanted::claims`].
    #[serde(with = "shared::map")]
    pub claims: BTreeMap<String, Arc<ClaimView>>,
    /// The existing ControllerRevisions with the names of a new one, of any controller.
    #[serde(with = "shared::map")]
    pub revisions: BTreeMap<String, Arc<RevisionView>>,
}

impl StatefulSetState {
    /// A state with only a set and its pods.
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

    /// Whether the namespace has a pod of this name, of any controller. Known for the set's own pods, and for those that [`super::wanted`]
    /// names.
    #[must_use]
    pub fn is_pod_there(&self, name: &str) -> bool {
        let own = member_ordinal(&self.set.meta.name, name).and_then(|ordinal| self.pods.pod(ordinal));
        own.is_some_and(|pod| pod.meta.name == name) || self.found.pods.contains(name)
    }
}

/// The serialized state, without derived parts.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Saved {
    #[serde(with = "shared")]
    set: Arc<StatefulSetView>,
    /// The pods that the set controls.
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
