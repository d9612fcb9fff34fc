//! The problems that block workloads, read inside the process.

use berth_api::FeatureGates;
use berth_identity::{GroupVersionKind, Revision};
use berth_registry::{Actor, Collection, ListOptions, Registry, resource};
use berth_workloads::{
    cause::{self, Causes, DaemonSetFacts, DeploymentFacts, JobFacts, Kind, PodFacts, ReplicaSetFacts, StatefulSetFacts},
    resources::{EVENT, POD, REPLICA_SET},
    view::{DaemonSetView, DeploymentView, EventView, JobView, PodView, ReplicaSetView, StatefulSetView, View},
};
use jiff::Timestamp;
use std::{collections::BTreeSet, error::Error, sync::Arc};

/// The problems that block one workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// The most important one is first.
    pub(crate) causes: Vec<String>,
    /// Whether one of its pods crashes repeatedly.
    pub(crate) crashes: bool,
}

impl From<Causes> for Trouble {
    fn from(found: Causes) -> Self {
        let crashes = found.list.iter().any(|cause| cause.kind == Kind::Crash);
        Self { causes: found.list.iter().map(ToString::to_string).collect(), crashes }
    }
}

/// ReplicaSets, pods and warnings of some namespaces.
pub(crate) struct Seen {
    sets: Vec<Arc<ReplicaSetView>>,
    pods: Vec<Arc<PodView>>,
    events: Vec<Arc<EventView>>,
    now: Timestamp,
}

impl Seen {
    /// Reads the current objects.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) async fn read(registry: &Registry, namespaces: impl Iterator<Item = &String>) -> Result<Self, Box<dyn Error>> {
        let mut seen = Self { sets: Vec::new(), pods: Vec::new(), events: Vec::new(), now: Timestamp::now() };
        let (all, warnings) = (ListOptions::default(), ListOptions { field_selector: "type=Warning".to_owned(), ..ListOptions::default() });
        for namespace in namespaces.collect::<BTreeSet<_>>() {
            seen.sets.extend(list(registry, &REPLICA_SET, namespace, &all, |json| ReplicaSetView::decode(json, Revision(0))).await?);
            seen.pods.extend(list(registry, &POD, namespace, &all, |json| PodView::decode(json, Revision(0))).await?);
            seen.events.extend(list(registry, &EVENT, namespace, &warnings, EventView::decode).await?);
        }
        Ok(seen)
    }

    /// Finds the problems of a Deployment. `gates` are those of the controllers.
    pub(crate) fn of_deployment(&self, deployment: &DeploymentView, gates: &FeatureGates) -> Trouble {
        let Self { sets, pods, events, now } = self;
        cause::of_deployment(&DeploymentFacts { deployment, sets, pods, events, gates, unobserved_since: None, now: *now }).into()
    }

    pub(crate) fn of_daemon_set(&self, set: &DaemonSetView) -> Trouble {
        let Self { pods, events, now, .. } = self;
        cause::of_daemon_set(&DaemonSetFacts { set, pods, events, unobserved_since: None, now: *now }).into()
    }

    pub(crate) fn of_stateful_set(&self, set: &StatefulSetView) -> Trouble {
        let Self { pods, events, now, .. } = self;
        cause::of_stateful_set(&StatefulSetFacts { set, pods, events, unobserved_since: None, now: *now }).into()
    }

    pub(crate) fn of_replica_set(&self, set: &ReplicaSetView) -> Trouble {
        let Self { pods, events, now, .. } = self;
        cause::of_replica_set(&ReplicaSetFacts { set, pods, events, unobserved_since: None, now: *now }).into()
    }

    pub(crate) fn of_pod(&self, pod: &PodView) -> Trouble {
        cause::of_one_pod(&PodFacts { pod, events: &self.events, now: self.now }).into()
    }

    /// A Job replaces pods that fail, so a crash of one is not the end.
    pub(crate) fn of_job(&self, job: &JobView) -> Trouble {
        let Self { pods, events, now, .. } = self;
        Trouble { crashes: false, ..cause::of_job(&JobFacts { job, pods, events, unobserved_since: None, now: *now }).into() }
    }
}

async fn list<V>(
    registry: &Registry,
    kind: &GroupVersionKind,
    namespace: &str,
    options: &ListOptions,
    decode: impl Fn(&[u8]) -> serde_json::Result<V>,
) -> Result<Vec<Arc<V>>, Box<dyn Error>> {
    let resource = resource::built_in().by_kind(kind).ok_or("a kind is not in the resource table")?;
    let at = Collection { resource: Arc::clone(resource), namespace: Some(namespace.to_owned()) };
    let list = registry.list(&Actor::System, &at, options).await?;
    // Unreadable entries are ignored.
    Ok(list.items.iter().filter_map(|entry| decode(&entry.value).ok().map(Arc::new)).collect())
}
