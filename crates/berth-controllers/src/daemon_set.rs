//! The DaemonSet controller: which changes wake which set, and what its plan is made from.

use crate::{
    cache::{Cache, Delta, Known},
    lock,
    owners::{HasMeta, OwnerIndex},
    plan_loop::Planner,
    pods::{PodIndex, counts_change},
    replica_set::PodCache,
    stateful_set::RevisionCache,
    worker::Queue,
};
use berth_identity::{Generation, ObjectKey, Uid};
use berth_workloads::{
    Plan,
    daemon_set::{self, DaemonSetState, FailedPods},
    plan::{EventRecord, Wait},
    selector::Labels,
    view::{DaemonNodeView, DaemonSetView, RevisionView, View},
};
use jiff::Timestamp;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

/// All DaemonSets.
pub type DaemonSetCache = Cache<DaemonSetView, OwnerIndex<DaemonSetView>>;
/// All nodes, as DaemonSets read them.
pub type DaemonNodeCache = Cache<DaemonNodeView>;

/// Plans DaemonSets.
pub struct DaemonSetPlanner {
    caches: DaemonSetCaches,
    /// By the set's key: the back-off after failed pods.
    failed_pods: Mutex<BTreeMap<ObjectKey, (Uid, FailedPods)>>,
}

/// The caches that DaemonSets are planned from.
#[derive(Clone)]
pub struct DaemonSetCaches {
    /// The sets.
    pub sets: Arc<DaemonSetCache>,
    /// Their revisions.
    pub revisions: Arc<RevisionCache>,
    /// Their pods.
    pub pods: Arc<PodCache>,
    /// All nodes.
    pub nodes: Arc<DaemonNodeCache>,
}

impl DaemonSetPlanner {
    /// A planner over these caches.
    #[must_use]
    pub fn new(caches: DaemonSetCaches) -> Self {
        Self { caches, failed_pods: Mutex::default() }
    }

    /// Has changes of sets, pods, revisions and nodes put the keys of sets into `queue`. To be called before the caches start.
    pub fn wake(&self, queue: &Queue<ObjectKey>) {
        let DaemonSetCaches { sets, revisions, pods, nodes } = &self.caches;
        let added = queue.clone();
        sets.on_change(move |delta| delta.sides().take(1).for_each(|set| added.add(set.key())));
        let (known, woken) = (Arc::clone(sets), queue.clone());
        pods.on_change(move |delta| {
            if counts_change(delta) {
                wake_for_owned(&known.read(), &woken, delta);
            }
        });
        let (known, woken) = (Arc::clone(sets), queue.clone());
        revisions.on_change(move |delta| wake_for_owned(&known.read(), &woken, delta));
        let (known, woken) = (Arc::clone(sets), queue.clone());
        nodes.on_change(move |delta| {
            if delta.old != delta.new {
                known.read().iter().for_each(|set| woken.add(set.key()));
            }
        });
    }

    /// The back-off of a set. That of another one of its name is forgotten.
    fn failed_pods(&self, set: &DaemonSetView) -> FailedPods {
        let known = lock(&self.failed_pods);
        known.get(&set.key()).filter(|(uid, _)| *uid == set.meta.uid).map(|(_, failed)| failed.clone()).unwrap_or_default()
    }

    fn observe(&self, set: &Arc<DaemonSetView>, now: Timestamp) -> DaemonSetState {
        let DaemonSetCaches { revisions, pods, nodes, .. } = &self.caches;
        let (revisions, pods, nodes) = (revisions.read(), pods.read(), nodes.read());
        observe(set, Belongings { revisions: &revisions, pods: pods.index(), nodes: &nodes }, self.failed_pods(set), now)
    }
}

/// The objects that plans of DaemonSets read besides the sets: at least all of the set's namespace, whether the set controls or selects them or
/// not, and all nodes.
pub struct Belongings<'a> {
    /// The revisions.
    pub revisions: &'a Known<RevisionView, OwnerIndex<RevisionView>>,
    /// The pods.
    pub pods: &'a PodIndex,
    /// The nodes.
    pub nodes: &'a Known<DaemonNodeView>,
}

/// Builds the state for a DaemonSet's plan. Only this function does, for the controller and for the commands that show its plans.
#[must_use]
pub fn observe(set: &Arc<DaemonSetView>, of: Belongings<'_>, failed_pods: FailedPods, now: Timestamp) -> DaemonSetState {
    let Belongings { revisions, pods, nodes } = of;
    let (namespace, selector) = (&set.meta.namespace, set.selector.as_ref());
    let (own, orphans) = (pods.controlled_by(&set.meta.uid), pods.orphans(namespace, selector));
    let of_set = revisions.index().controlled_by(&set.meta.uid).chain(revisions.index().orphans(namespace, selector));
    let mut state = DaemonSetState {
        set: Arc::clone(set),
        nodes: nodes.iter().cloned().collect(),
        pods: own.chain(orphans).cloned().collect(),
        revisions: of_set.cloned().collect(),
        found_revisions: BTreeMap::new(),
        failed_pods,
        now,
    };
    while let Some(name) = daemon_set::wanted_revision(&state) {
        let Some(revision) = revisions.get(&ObjectKey::new(namespace, &name)) else { break };
        state.found_revisions.insert(name, revision);
    }
    state
}

type Sets = Known<DaemonSetView, OwnerIndex<DaemonSetView>>;

/// Wakes the set that controls the object or did, and every set that selects an orphan.
fn wake_for_owned<V: HasMeta>(sets: &Sets, queue: &Queue<ObjectKey>, delta: &Delta<V>) {
    for object in delta.sides() {
        let set = object.meta().controller().and_then(|owner| sets.index().by_uid(&owner.uid));
        set.into_iter().for_each(|set| queue.add(set.key()));
    }
    if let Some(orphan) = delta.new.as_ref().map(|new| new.meta()).filter(|orphan| orphan.controller().is_none()) {
        let selecting = sets.in_namespace(&orphan.namespace).filter(|set| selects(set, &orphan.labels));
        selecting.for_each(|set| queue.add(set.key()));
    }
}

fn selects(set: &DaemonSetView, labels: &Labels) -> bool {
    set.selector.as_ref().is_some_and(|selector| !selector.is_empty() && selector.matches(labels))
}

impl Planner for DaemonSetPlanner {
    fn plan(&self, key: &ObjectKey, _last_error: Option<&str>, now: Timestamp) -> Option<Plan> {
        let Some(set) = self.caches.sets.get(key) else {
            lock(&self.failed_pods).remove(key);
            return None;
        };
        let state = self.observe(&set, now);
        let plan = daemon_set::plan(&state);
        let mut failed = state.failed_pods;
        failed.record(&plan, Generation(set.status.observed_generation.unwrap_or(0)), now);
        lock(&self.failed_pods).insert(key.clone(), (set.meta.uid.clone(), failed));
        Some(plan)
    }

    fn wait_event(&self, key: &ObjectKey, wait: &Wait) -> Option<EventRecord> {
        daemon_set::wait_event(&*self.caches.sets.get(key)?, wait)
    }
}
