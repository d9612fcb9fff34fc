//! The controllers of ReplicaSets and of ReplicationControllers: which changes wake which set, and what its plan is made from.

use crate::{
    cache::{AnyCache, Cache, Delta, Known},
    creations::Creations,
    metrics::Metrics,
    owners::OwnerIndex,
    plan_loop::{PlanInputs, Planner},
    pods::{PodIndex, counts_change},
    worker::Queue,
};
use berth_api::FeatureGates;
use berth_identity::{GroupResource, ObjectKey};
use berth_workloads::{
    Plan,
    plan::{EventRecord, Wait},
    replica_set::{self, ReplicaSetState, wanted_pods},
    resources::REPLICATION_CONTROLLERS,
    view::{PodView, ReplicaSetView, View},
};
use jiff::Timestamp;
use std::sync::Arc;

/// All pods.
pub type PodCache = Cache<PodView, PodIndex>;
/// All ReplicaSets of one group, or all ReplicationControllers.
pub type ReplicaSetCache = Cache<ReplicaSetView, OwnerIndex<ReplicaSetView>>;

/// An empty cache of ReplicationControllers.
#[must_use]
pub fn replication_controllers() -> ReplicaSetCache {
    ReplicaSetCache::decoding(REPLICATION_CONTROLLERS, |object| ReplicaSetView::decode_controller(&object.json, object.revision))
}

/// Plans the sets of one kind: ReplicaSets or ReplicationControllers.
pub struct ReplicaSetPlanner {
    /// The sets.
    pub sets: Arc<ReplicaSetCache>,
    /// Their pods.
    pub pods: Arc<PodCache>,
    /// The controllers' gates.
    pub gates: Arc<FeatureGates>,
    /// Counts deferred reconciles.
    pub metrics: Arc<Metrics>,
    /// Where pods are counted that are on their way.
    pub creations: Arc<Creations>,
}

impl ReplicaSetPlanner {
    /// Has changes of sets and pods put the keys of sets into `queue`. To be called before the caches start.
    pub fn wake(&self, queue: &Queue<ObjectKey>) {
        let (sets, changed) = (Arc::clone(&self.sets), queue.clone());
        self.sets.on_change(move |delta| match (&delta.old, &delta.new) {
            (None, Some(created)) if is_first_of_owner(&sets, created) => changed.add_new(created.key()),
            _ => delta.sides().take(1).for_each(|set| changed.add(set.key())),
        });
        let (sets, queue) = (Arc::clone(&self.sets), queue.clone());
        self.pods.on_change(move |delta| wake_for_pod(&sets, &queue, delta));
        let creations = Arc::clone(&self.creations);
        self.pods.on_revision(Box::new(move |revision| creations.advance(revision)));
    }
}

/// Whether the set is the first one of its owner. The further sets of an owner are steps of a rollout, not new work.
fn is_first_of_owner(sets: &ReplicaSetCache, set: &ReplicaSetView) -> bool {
    set.meta.controller().is_none_or(|owner| sets.read().index().controlled_by(&owner.uid).count() == 1)
}

/// Wakes the set that controls the pod or did, and for an orphan every set that selects it.
fn wake_for_pod(sets: &ReplicaSetCache, queue: &Queue<ObjectKey>, delta: &Delta<PodView>) {
    if !counts_change(delta) {
        return;
    }
    let known = sets.read();
    for pod in delta.sides() {
        let set = pod.meta.controller().and_then(|owner| known.index().by_uid(&owner.uid));
        set.into_iter().for_each(|set| queue.add(set.key()));
    }
    if let Some(orphan) = delta.new.as_ref().filter(|pod| pod.meta.controller().is_none()).filter(|_| is_new_orphan(delta)) {
        let selects = |set: &&Arc<ReplicaSetView>| {
            set.selector.as_ref().is_some_and(|selector| !selector.is_empty() && selector.matches(&orphan.meta.labels))
        };
        known.in_namespace(&orphan.meta.namespace).filter(selects).for_each(|set| queue.add(set.key()));
    }
}

/// Whether an orphan's change can make a difference to a set: it is new, or its labels or owners have changed.
fn is_new_orphan(delta: &Delta<PodView>) -> bool {
    match (&delta.old, &delta.new) {
        (Some(old), Some(new)) => old.meta.labels != new.meta.labels || old.meta.owners != new.meta.owners,
        (None, Some(_)) => true,
        _ => false,
    }
}

/// Makes the state that a ReplicaSet is planned from.
///
/// `sets` and `pods` are all of its namespace, at least: where pods of its siblings run decides which of its own go first. Costs what has changed, and the pods
/// that the plan reads one by one: those to adopt, release or choose victims from.
#[must_use]
pub fn observe(
    set: &Arc<ReplicaSetView>,
    sets: &Known<ReplicaSetView, OwnerIndex<ReplicaSetView>>,
    pods: &mut PodIndex,
    inputs: PlanInputs<'_>,
) -> ReplicaSetState {
    let PlanInputs { last_error, gates, now } = inputs;
    let (counts, next_available_at) = pods.counts(set, now);
    let siblings = || set.meta.controller().into_iter().flat_map(|owner| sets.index().controlled_by(&owner.uid));
    let pods = pods.single(set, wanted_pods(set, &counts), siblings);
    ReplicaSetState {
        set: Arc::clone(set),
        counts,
        next_available_at,
        pods,
        last_error: last_error.map(str::to_owned),
        gates: gates.clone(),
        now,
    }
}

impl Planner for ReplicaSetPlanner {
    fn plan(&self, key: &ObjectKey, last_error: Option<&str>, now: Timestamp) -> Option<Plan> {
        let set = self.sets.get(key)?;
        let (sets, mut pods) = (self.sets.read(), self.pods.read());
        let inputs = PlanInputs { last_error, gates: &self.gates, now };
        let plan = replica_set::plan(&observe(&set, &sets, pods.index_mut(), inputs));
        // The histogram takes floating point numbers; ratios are whole and small.
        let ratios = plan.deletion_age_ratios.iter().map(|ratio| f64::from(i32::try_from(*ratio).unwrap_or(i32::MAX)));
        ratios.for_each(|ratio| self.metrics.sorting_deletion_age_ratio.observe(ratio));
        Some(plan)
    }

    fn creations(&self) -> Option<&Arc<Creations>> {
        Some(&self.creations)
    }

    fn wait_event(&self, key: &ObjectKey, wait: &Wait) -> Option<EventRecord> {
        replica_set::wait_event(&*self.sets.get(key)?, wait)
    }

    fn deferred(&self, resource: GroupResource) {
        self.metrics.replica_set_stale_sync_skips.with_label_values(&[resource.group, resource.plural]).inc();
    }
}
