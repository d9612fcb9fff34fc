//! The StatefulSet controller: the changes that enqueue sets, and the input of their plans.

use crate::{
    cache::{Cache, Delta, Known},
    claim_doubts::{ClaimDoubts, named},
    metrics::Metrics,
    owners::OwnerIndex,
    plan_loop::{PlanInputs, Planner},
    pods::{PodIndex, counts_change},
    replica_set::PodCache,
    worker::Queue,
};
use berth_api::{
    FeatureGates,
    apps::stateful_set::{ORDERED_READY, PARALLEL},
};
use berth_identity::{ObjectKey, Ordinal};
use berth_workloads::{
    Plan, cause,
    plan::{EventRecord, Wait},
    selector::Labels,
    stateful_set::{self, ControlledPods, PodName, StatefulSetState, member_ordinal},
    view::{ClaimView, PodView, RevisionView, StatefulSetView, View},
};
use jiff::Timestamp;
use std::sync::Arc;

/// All StatefulSets of one group.
pub type StatefulSetCache = Cache<StatefulSetView, OwnerIndex<StatefulSetView>>;
/// All ControllerRevisions.
pub type RevisionCache = Cache<RevisionView, OwnerIndex<RevisionView>>;
/// All PersistentVolumeClaims, as far as StatefulSets read them.
pub type ClaimCache = Cache<ClaimView>;

/// Plans StatefulSets.
pub struct StatefulSetPlanner {
    caches: StatefulSetCaches,
    gates: Arc<FeatureGates>,
    metrics: Arc<Metrics>,
    doubts: Arc<ClaimDoubts>,
}

/// The caches that plans of StatefulSets read.
pub struct StatefulSetCaches {
    /// The sets.
    pub sets: Arc<StatefulSetCache>,
    /// Their revisions.
    pub revisions: Arc<RevisionCache>,
    /// Their pods.
    pub pods: Arc<PodCache>,
    /// Their pods' claims.
    pub claims: Arc<ClaimCache>,
}

impl StatefulSetPlanner {
    /// A planner over these caches with the controllers' gates. `metrics` contains the sets' gauges.
    #[must_use]
    pub fn new(caches: StatefulSetCaches, gates: Arc<FeatureGates>, metrics: Arc<Metrics>) -> Self {
        Self { caches, gates, metrics, doubts: Arc::default() }
    }

    /// Adds the keys of sets to `queue` when sets, pods, revisions or claims change. Call it before the caches start.
    pub fn wake(&self, queue: &Queue<ObjectKey>) {
        let StatefulSetCaches { sets, revisions, pods, claims } = &self.caches;
        let added = queue.clone();
        sets.on_change(move |delta| delta.sides().take(1).for_each(|set| added.add(set.key())));
        let (known, woken, doubts) = (Arc::clone(sets), queue.clone(), Arc::clone(&self.doubts));
        pods.on_change(move |delta| {
            doubt_pod(&known.read(), &doubts, delta);
            wake_for_pod(&known.read(), &woken, delta);
        });
        let (known, woken) = (Arc::clone(sets), queue.clone());
        revisions.on_change(move |delta| wake_for_revision(&known.read(), &woken, delta));
        let (known, woken, doubts) = (Arc::clone(sets), queue.clone(), Arc::clone(&self.doubts));
        claims.on_change(move |delta| wake_for_claim(&known.read(), &woken, &doubts, delta));
    }

    fn show(&self, set: &StatefulSetView, controlled: &ControlledPods) {
        let Some(figures) = stateful_set::figures(set, controlled, &self.gates) else { return };
        let labels = [&*set.meta.namespace, &*set.meta.name, &*set.spec.pod_management_policy];
        self.metrics.stateful_set_unavailable.with_label_values(&labels).set(figures.unavailable);
        self.metrics.stateful_set_max_unavailable.with_label_values(&labels).set(figures.max_unavailable);
    }

    /// Removes the state and the gauges of a deleted set.
    fn forget(&self, key: &ObjectKey) {
        self.doubts.forget(key);
        for policy in [ORDERED_READY, PARALLEL] {
            let labels = [&*key.namespace, &*key.name, policy];
            // An error means that there was none.
            drop(self.metrics.stateful_set_unavailable.remove_label_values(&labels));
            drop(self.metrics.stateful_set_max_unavailable.remove_label_values(&labels));
        }
    }
}

/// The objects that plans of StatefulSets read besides the sets: at least all of the set's namespace, whether the set controls or selects
/// them or not.
pub struct Belongings<'a> {
    /// The revisions.
    pub revisions: &'a Known<RevisionView, OwnerIndex<RevisionView>>,
    /// The pods.
    pub pods: &'a mut Known<PodView, PodIndex>,
    /// The claims.
    pub claims: &'a Known<ClaimView>,
    /// Which claims must be checked.
    pub doubts: &'a ClaimDoubts,
}

/// Builds the state for a StatefulSet's plan. Only this function does, for the controller and for the commands that show its plans.
#[must_use]
pub fn observe(set: &Arc<StatefulSetView>, of: Belongings<'_>, inputs: PlanInputs<'_>) -> StatefulSetState {
    let (Belongings { revisions, pods, claims, doubts }, PlanInputs { last_error, gates, now }) = (of, inputs);
    let (namespace, selector) = (&set.meta.namespace, set.selector.as_ref());
    let orphans = revisions.index().orphans(namespace, selector);
    let listed = revisions.index().controlled_by(&set.meta.uid).chain(orphans).cloned().collect();
    pods.index_mut().refresh_controlled(set, now);
    let controlled = pods.index().controlled(&set.meta.uid).cloned().unwrap_or_else(|| Arc::new(ControlledPods::new(set, [], now)));
    let mut state = StatefulSetState::new(Arc::clone(set), controlled, gates.clone(), now);
    state.revisions = listed;
    state.orphans = pods.index().orphans(namespace, selector).cloned().collect();
    state.claims_in_doubt = doubts.settle(set, &state.pods, claims);
    state.last_error = last_error.map(str::to_owned);
    let wanted = stateful_set::wanted(&state);
    let is_there = |name: &String| pods.get(&ObjectKey::new(namespace, name)).is_some();
    state.found.pods = wanted.pods.into_iter().filter(is_there).collect();
    state.found.claims = named(claims, namespace, wanted.claims);
    while let Some(name) = stateful_set::wanted_revision(&state) {
        let Some(revision) = revisions.get(&ObjectKey::new(namespace, &name)) else { break };
        state.found.revisions.insert(name, revision);
    }
    state
}

type Sets = Known<StatefulSetView, OwnerIndex<StatefulSetView>>;

/// Records that the claims of a pod may have wrong owners, because the pod is new to its set or deleted.
fn doubt_pod(sets: &Sets, doubts: &ClaimDoubts, delta: &Delta<PodView>) {
    if matches!((&delta.old, &delta.new), (Some(old), Some(new)) if old.meta.owners == new.meta.owners) {
        return;
    }
    for pod in delta.sides() {
        let set = pod.meta.controller().and_then(|owner| sets.index().by_uid(&owner.uid));
        if let Some((set, ordinal)) = set.and_then(|set| Some((set, member_ordinal(&set.meta.name, &pod.meta.name)?))) {
            doubts.add(&set.key(), ordinal);
        }
    }
}

/// Enqueues the set that controls the pod or did, and for an orphan or a deleted pod also the set in its name.
fn wake_for_pod(sets: &Sets, queue: &Queue<ObjectKey>, delta: &Delta<PodView>) {
    if !matters(delta) {
        return;
    }
    for pod in delta.sides() {
        let set = pod.meta.controller().and_then(|owner| sets.index().by_uid(&owner.uid));
        set.into_iter().for_each(|set| queue.add(set.key()));
    }
    let free = match &delta.new {
        Some(pod) => pod.meta.controller().is_none(),
        None => true,
    };
    if let Some(pod) = delta.sides().last().filter(|_| free) {
        let parent = PodName::parse(&pod.meta.name).parent;
        let set = sets.get(&ObjectKey::new(&pod.meta.namespace, parent));
        set.into_iter().for_each(|set| queue.add(set.key()));
    }
}

/// Whether a pod's change can affect a set. This includes the cause of a failure, which is reported.
fn matters(delta: &Delta<PodView>) -> bool {
    let failing = |pod: &PodView| cause::of_pod(pod).map(|cause| cause.kind);
    counts_change(delta) || delta.old.as_deref().map(failing) != delta.new.as_deref().map(failing)
}

/// Enqueues the set that controls the revision or did, every set that selects an orphan, and the set whose revision name becomes free.
fn wake_for_revision(sets: &Sets, queue: &Queue<ObjectKey>, delta: &Delta<RevisionView>) {
    for revision in delta.sides() {
        let set = revision.meta.controller().and_then(|owner| sets.index().by_uid(&owner.uid));
        set.into_iter().for_each(|set| queue.add(set.key()));
    }
    match (&delta.old, &delta.new) {
        (_, Some(orphan)) if orphan.meta.controller().is_none() => {
            let selecting = sets.in_namespace(&orphan.meta.namespace).filter(|set| selects(set, &orphan.meta.labels));
            selecting.for_each(|set| queue.add(set.key()));
        }
        (Some(gone), None) => {
            let parent = gone.meta.name.rsplit_once('-').map_or("", |(parent, _)| parent);
            let set = sets.get(&ObjectKey::new(&gone.meta.namespace, parent));
            set.into_iter().for_each(|set| queue.add(set.key()));
        }
        _ => (),
    }
}

fn selects(set: &StatefulSetView, labels: &Labels) -> bool {
    set.selector.as_ref().is_some_and(|selector| !selector.is_empty() && selector.matches(labels))
}

/// Enqueues the set in a claim's name if the claim belongs to another object now, is terminating or is deleted.
fn wake_for_claim(sets: &Sets, queue: &Queue<ObjectKey>, doubts: &ClaimDoubts, delta: &Delta<ClaimView>) {
    let matters = match (&delta.old, &delta.new) {
        (Some(old), Some(new)) => old.meta.owners != new.meta.owners || old.meta.deleted != new.meta.deleted,
        _ => true,
    };
    for claim in delta.sides().take(1).filter(|_| matters) {
        let PodName { parent: set_part, ordinal } = PodName::parse(&claim.meta.name);
        let is_of = |set: &&Arc<StatefulSetView>| {
            let templates = set.spec.volume_claim_templates.iter().flatten().filter_map(|template| template.metadata.name.as_ref());
            let prefix = set_part.strip_suffix(&*set.meta.name).and_then(|rest| rest.strip_suffix('-'));
            prefix.is_some_and(|prefix| templates.into_iter().any(|template| template == prefix))
        };
        for set in sets.in_namespace(&claim.meta.namespace).filter(is_of) {
            ordinal.into_iter().for_each(|ordinal| doubts.add(&set.key(), Ordinal(ordinal.into())));
            queue.add(set.key());
        }
    }
}

impl Planner for StatefulSetPlanner {
    fn plan(&self, key: &ObjectKey, last_error: Option<&str>, now: Timestamp) -> Option<Plan> {
        let Some(set) = self.caches.sets.get(key) else {
            self.forget(key);
            return None;
        };
        let StatefulSetCaches { revisions, pods, claims, .. } = &self.caches;
        let (revisions, claims, mut pods) = (revisions.read(), claims.read(), pods.read());
        let belongings = Belongings { revisions: &revisions, pods: &mut pods, claims: &claims, doubts: &self.doubts };
        let inputs = PlanInputs { last_error, gates: &self.gates, now };
        let state = observe(&set, belongings, inputs);
        self.show(&set, &state.pods);
        Some(stateful_set::plan(&state))
    }

    fn wait_event(&self, key: &ObjectKey, wait: &Wait) -> Option<EventRecord> {
        stateful_set::wait_event(&*self.caches.sets.get(key)?, wait)
    }
}
