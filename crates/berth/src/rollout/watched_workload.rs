//! The objects from the watches of a rollout: the workload and what belongs to it.

use super::{
    error::Error,
    features::{Feature, Features},
    target::Found,
};
use crate::progress::warn;
use berth_controllers::{Change, RawObject};
use berth_identity::{ObjectKey, Revision};
use berth_remote::WatchError;
use berth_rollout::{
    daemon_set,
    stateful_set::{self, Belongings},
    status::{self, RolloutStatus},
    waits::{self, Observed},
};
use berth_workloads::{
    cause::{self, Causes, DaemonSetFacts, DeploymentFacts, StatefulSetFacts},
    stateful_set::member_ordinal,
    view::{
        ClaimView, DaemonNodeView, DaemonSetView, DeploymentView, EventView, PodView, ReplicaSetView, RevisionView, StatefulSetView, View,
    },
    workload::WorkloadKind,
};
use jiff::Timestamp;
use std::{collections::BTreeMap, sync::Arc};

/// The objects of one watch.
struct Mirror<V> {
    shown: BTreeMap<ObjectKey, Arc<V>>,
    /// The list that is being read, until it is complete.
    filling: Option<BTreeMap<ObjectKey, Arc<V>>>,
    fill: Fill,
}

/// Whether the objects are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fill {
    /// Not yet.
    Awaited,
    /// A list was complete once, and changes have been applied since.
    Whole,
    /// The objects are not available, for example because the user may not read them.
    Missing,
}

impl<V> Default for Mirror<V> {
    fn default() -> Self {
        Self { shown: BTreeMap::new(), filling: None, fill: Fill::Awaited }
    }
}

impl<V> Mirror<V> {
    /// Applies a change.
    fn take(&mut self, change: Change, decode: impl Fn(&[u8]) -> serde_json::Result<V>) -> Result<(), Error> {
        self.take_if(change, decode, |_| true)
    }

    /// Applies a change if it concerns a relevant object.
    fn take_if(
        &mut self,
        change: Change,
        decode: impl Fn(&[u8]) -> serde_json::Result<V>,
        counts: impl Fn(&V) -> bool,
    ) -> Result<(), Error> {
        match change {
            Change::Restarted => self.filling = Some(BTreeMap::new()),
            Change::Applied { key, object } => {
                let view = read(&key, &object, decode)?;
                if counts(&view) {
                    self.filling.as_mut().unwrap_or(&mut self.shown).insert(key, view);
                }
            }
            Change::Deleted { key, .. } => drop(self.filling.as_mut().unwrap_or(&mut self.shown).remove(&key)),
            Change::Synced(_) => {
                self.shown = self.filling.take().unwrap_or_default();
                self.fill = Fill::Whole;
            }
            Change::Progress(_) => (),
        }
        Ok(())
    }

    /// Records that the watch failed.
    fn miss(&mut self) {
        if self.fill == Fill::Awaited {
            self.fill = Fill::Missing;
        }
    }

    /// All objects, if they can be read.
    fn whole(&self) -> Option<Vec<Arc<V>>> {
        (self.fill == Fill::Whole).then(|| self.all())
    }

    fn all(&self) -> Vec<Arc<V>> {
        self.shown.values().cloned().collect()
    }
}

fn read<V>(key: &ObjectKey, object: &RawObject, decode: impl Fn(&[u8]) -> serde_json::Result<V>) -> Result<Arc<V>, Error> {
    decode(&object.json).map(Arc::new).map_err(|source| Error::Decode { what: format!("object {}", key.name), source })
}

/// The kind of a changed object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Workload,
    Sets,
    Revisions,
    Claims,
    Pods,
    Nodes,
    /// Warnings.
    Events,
}

impl Of {
    /// The objects for a report on a workload of this kind.
    pub(super) fn all(kind: WorkloadKind) -> &'static [Self] {
        match kind {
            WorkloadKind::Deployment => &[Self::Workload, Self::Sets, Self::Pods, Self::Events],
            WorkloadKind::StatefulSet => &[Self::Workload, Self::Revisions, Self::Claims, Self::Pods, Self::Events],
            WorkloadKind::DaemonSet => &[Self::Workload, Self::Revisions, Self::Pods, Self::Nodes, Self::Events],
        }
    }
}

/// A change from one of the watches, or its error. The watch then retries.
pub(super) type Seen = (Of, Result<Change, WatchError>);

/// The input of a report.
pub(super) struct WatchedWorkload<'a> {
    subject: &'a Found,
    workload: Mirror<Found>,
    sets: Mirror<ReplicaSetView>,
    revisions: Mirror<RevisionView>,
    claims: Mirror<ClaimView>,
    pods: Mirror<PodView>,
    nodes: Mirror<DaemonNodeView>,
    events: Mirror<EventView>,
    /// Since when the controller has not observed the workload's spec.
    unobserved_since: Option<Timestamp>,
    /// The known features of the cluster.
    pub(super) features: Features,
    /// The last printed warning, so that it is printed once.
    warning: String,
}

impl<'a> WatchedWorkload<'a> {
    /// Starts without any observation of the followed workload.
    pub(super) fn new(subject: &'a Found) -> Self {
        Self {
            subject,
            workload: Mirror::default(),
            sets: Mirror::default(),
            revisions: Mirror::default(),
            claims: Mirror::default(),
            pods: Mirror::default(),
            nodes: Mirror::default(),
            events: Mirror::default(),
            unobserved_since: None,
            features: Features::default(),
            warning: String::new(),
        }
    }

    /// Processes the item of a watch.
    ///
    /// # Errors
    /// The object has another kind.
    pub(super) fn take(&mut self, (of, seen): Seen) -> Result<(), Error> {
        let change = match seen {
            Ok(change) => change,
            Err(error) => {
                self.miss(of, &error);
                return Ok(());
            }
        };
        match of {
            Of::Workload => self.workload.take(change, |json| {
                Ok(Found { kind: self.subject.kind, name: self.subject.name.clone(), json: String::from_utf8_lossy(json).into_owned() })
            }),
            Of::Sets => self.sets.take(change, |json| ReplicaSetView::decode(json, Revision(0))),
            Of::Revisions => self.revisions.take(change, |json| RevisionView::decode(json, Revision(0))),
            Of::Claims => self.claims.take(change, |json| ClaimView::decode(json, Revision(0))),
            Of::Pods => {
                let (kind, name) = (self.subject.kind, &self.subject.name);
                let is_its_own = |pod: &PodView| kind != WorkloadKind::StatefulSet || member_ordinal(name, &pod.meta.name).is_some();
                self.pods.take_if(change, |json| PodView::decode(json, Revision(0)), is_its_own)
            }
            Of::Nodes => self.nodes.take(change, |json| DaemonNodeView::decode(json, Revision(0))),
            Of::Events => self.events.take(change, EventView::decode),
        }
    }

    /// A rollout can be followed without the objects that belong to it, for example by a user who may not read them, but not without the
    /// workload.
    fn miss(&mut self, of: Of, error: &WatchError) {
        match of {
            Of::Workload => (),
            Of::Sets => self.sets.miss(),
            Of::Revisions => self.revisions.miss(),
            Of::Claims => self.claims.miss(),
            Of::Pods => self.pods.miss(),
            Of::Nodes => self.nodes.miss(),
            Of::Events => self.events.miss(),
        }
        // The next list replaces the lost events.
        let WatchError::Broken(cause) = error else { return };
        let warning = match of {
            Of::Workload => format!("Warning: lost the connection, retrying: {cause}"),
            Of::Sets | Of::Revisions | Of::Claims | Of::Pods | Of::Nodes | Of::Events => {
                format!("Warning: cannot determine everything that it waits for: {cause}")
            }
        };
        if self.warning != warning {
            warn(&warning);
            self.warning = warning;
        }
    }

    fn is_awaited(&self) -> bool {
        Of::all(self.subject.kind).iter().any(|of| self.fill(*of) == Fill::Awaited)
    }

    fn fill(&self, of: Of) -> Fill {
        match of {
            Of::Workload => self.workload.fill,
            Of::Sets => self.sets.fill,
            Of::Revisions => self.revisions.fill,
            Of::Claims => self.claims.fill,
            Of::Pods => self.pods.fill,
            Of::Nodes => self.nodes.fill,
            Of::Events => self.events.fill,
        }
    }

    fn belongings(&self) -> Belongings {
        Belongings { revisions: self.revisions.whole(), pods: self.pods.whole(), claims: self.claims.all() }
    }

    /// The state of sets and pods. Empty if they cannot be read.
    fn observed(&self, deployment: &DeploymentView, now: Timestamp) -> Observed {
        match (self.sets.fill, self.pods.fill) {
            (Fill::Whole, Fill::Whole) => waits::observe(deployment, &self.sets.all(), &self.pods.all(), &self.features.gates, now),
            _ => Observed::default(),
        }
    }

    /// The feature that the workload requires, if it is unknown whether the cluster has it.
    ///
    /// # Errors
    /// The workload has another kind.
    pub(super) fn open_feature(&self) -> Result<Option<Feature>, Error> {
        let Some(current) = self.workload.shown.values().next().filter(|_| !self.is_awaited()) else { return Ok(None) };
        let needed = Feature::needed_by(current)?;
        Ok(needed.filter(|feature| !self.features.is_known(feature.gate)))
    }

    /// The present state of the workload. `None` while it could not be read.
    ///
    /// # Errors
    /// The workload no longer exists, or has another kind.
    pub(super) fn read_status(&mut self, now: Timestamp) -> Result<Option<RolloutStatus>, Error> {
        if self.is_awaited() {
            return Ok(None);
        }
        let Some(current) = self.workload.shown.values().next() else { return Err(self.subject.fault("has been deleted")) };
        match current.kind {
            WorkloadKind::Deployment => {
                let deployment: DeploymentView = current.view()?;
                self.unobserved_since = since(
                    deployment.status.observed_generation < deployment.meta.generation,
                    self.unobserved_since,
                    current.changed(),
                    now,
                );
                let causes = self.causes_of_deployment(&deployment, now);
                Ok(Some(status::of_deployment(&deployment, self.observed(&deployment, now), causes, &self.features.gates)))
            }
            WorkloadKind::StatefulSet => {
                let set: StatefulSetView = current.view()?;
                self.unobserved_since =
                    since(set.status.observed_generation < set.meta.generation, self.unobserved_since, current.changed(), now);
                let causes = self.causes_of_stateful_set(&set, now);
                Ok(Some(stateful_set::status(&set, &self.belongings(), causes, &self.features.gates, now)))
            }
            WorkloadKind::DaemonSet => {
                let set: DaemonSetView = current.view()?;
                let lags = set.status.observed_generation.unwrap_or(0) < set.meta.generation.0;
                self.unobserved_since = since(lags, self.unobserved_since, current.changed(), now);
                let of = daemon_set::Belongings { revisions: self.revisions.whole(), pods: self.pods.whole(), nodes: self.nodes.whole() };
                Ok(Some(daemon_set::status(&set, &of, self.causes_of_daemon_set(&set, now), now)))
            }
        }
    }

    fn causes_of_deployment(&self, deployment: &DeploymentView, now: Timestamp) -> Causes {
        let (sets, pods, events) = (self.sets.all(), self.pods.all(), self.events.all());
        let (gates, unobserved_since) = (&self.features.gates, self.unobserved_since);
        cause::of_deployment(&DeploymentFacts { deployment, sets: &sets, pods: &pods, events: &events, gates, unobserved_since, now })
    }

    fn causes_of_stateful_set(&self, set: &StatefulSetView, now: Timestamp) -> Causes {
        let (pods, events) = (self.pods.all(), self.events.all());
        cause::of_stateful_set(&StatefulSetFacts { set, pods: &pods, events: &events, unobserved_since: self.unobserved_since, now })
    }

    fn causes_of_daemon_set(&self, set: &DaemonSetView, now: Timestamp) -> Causes {
        let (pods, events) = (self.pods.all(), self.events.all());
        cause::of_daemon_set(&DaemonSetFacts { set, pods: &pods, events: &events, unobserved_since: self.unobserved_since, now })
    }
}

/// Since when a spec has not been observed: since that was first detected, or since it was written.
fn since(lags: bool, known: Option<Timestamp>, written: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
    lags.then(|| known.or(written).unwrap_or(now))
}
