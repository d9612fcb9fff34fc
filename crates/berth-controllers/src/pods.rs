//! Pods by owner and node, with running counts for each ReplicaSet, so that a reconcile costs only the changes.

mod counted;

use crate::{
    by_labels::ByLabels,
    cache::{Delta, Index},
    owners::{Orphans, remove_from},
    sorted::Sorted,
};
use berth_identity::{Generation, Namespace, NodeName, ObjectKey, Uid};
use berth_workloads::{
    cause::{self, Kind},
    counts::{LeftBehind, PodCounts, PodsOfSet, Role, former_deployment, role},
    deployment::NODES_MAX,
    pod_gc::Candidates,
    replica_set::{SinglePods, WantedPods},
    selector::{Labels, Selector},
    stateful_set::ControlledPods,
    view::{DeploymentView, PodView, ReplicaSetView, StatefulSetView, View},
};
use counted::{Counted, Sign};
use jiff::Timestamp;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

type Pods = Sorted<ObjectKey, Arc<PodView>>;

/// Whether a pod's change can affect the set that counts it. Binding to a node does not.
pub(crate) fn counts_change(delta: &Delta<PodView>) -> bool {
    let counted = |pod: &PodView| (pod.phase, pod.ready, pod.ready_since, pod.meta.deleted);
    match (&delta.old, &delta.new) {
        (Some(old), Some(new)) => counted(old) != counted(new) || old.meta.labels != new.meta.labels || old.meta.owners != new.meta.owners,
        _ => true,
    }
}

/// The index of a cache of pods.
#[derive(Default)]
pub struct PodIndex {
    /// By the uid of the controller.
    owned: BTreeMap<Uid, Owned>,
    /// Without a controller.
    orphans: Orphans<PodView>,
    by_labels: ByLabels<PodView>,
    /// By node. Unbound pods have the empty name.
    nodes: BTreeMap<NodeName, BTreeMap<ObjectKey, Arc<PodView>>>,
    /// Uids of ReplicaSets that have pods, by namespace and the Deployment's name in their own name. The name is empty if it cannot be
    /// derived.
    sets: BTreeMap<(Namespace, String), BTreeSet<Uid>>,
    collectable: Candidates,
}

/// The pods of one controller.
#[derive(Default)]
struct Owned {
    pods: Pods,
    /// Its key in [`PodIndex::sets`]. `None` if the controller is not a ReplicaSet.
    listed: Option<(Namespace, String)>,
    /// Absent until a caller requests the counts.
    counted: Option<Counted>,
    /// Absent until a StatefulSet requests it. Valid for this generation of the set. Shared with states, so it is copied only if a state
    /// outlives its plan.
    controlled: Option<(Generation, Arc<ControlledPods>)>,
    /// Terminating pods by the end of their grace period.
    going: BTreeSet<(Timestamp, ObjectKey)>,
    /// Active pods that do not become ready, by the rank of their causes.
    failing: BTreeSet<(Kind, ObjectKey)>,
}

impl PodIndex {
    /// The counts of a set's pods at `now`, and when the next ready pod becomes available. `now` must not decrease.
    ///
    /// The cost is linear in the pods that became available since the last call, and in the orphans with a label of the selector. After a
    /// change that affects the counts ([`counts_alike`]), it is linear in the set's pods.
    pub fn counts(&mut self, set: &Arc<ReplicaSetView>, now: Timestamp) -> (PodCounts, Option<Timestamp>) {
        let (mut counts, next) = self.owned.get_mut(&set.meta.uid).map(|owned| owned.counts(set, now)).unwrap_or_default();
        counts.adoptable = u32::try_from(self.adoptable(set).count()).unwrap_or(u32::MAX);
        (counts, next)
    }

    /// Updates a StatefulSet's index to `now`, which must not decrease.
    ///
    /// The cost is linear in the pods that became available since the last call. After a change of the set's spec, it is linear in the
    /// set's pods.
    pub fn refresh_controlled(&mut self, set: &StatefulSetView, now: Timestamp) {
        if let Some(owned) = self.owned.get_mut(&set.meta.uid) {
            owned.refresh_controlled(set, now);
        }
    }

    /// The pods of the StatefulSet with this uid, as of the last [`PodIndex::refresh_controlled`]. `None` if it controls no pods.
    #[must_use]
    pub fn controlled(&self, uid: &str) -> Option<&Arc<ControlledPods>> {
        self.owned.get(uid)?.controlled.as_ref().map(|(_, controlled)| controlled)
    }

    /// Pods of a namespace without a controller that `selector` matches, by key. No selector matches nothing.
    pub fn orphans<'a>(&'a self, namespace: &'a str, selector: Option<&'a Selector>) -> impl Iterator<Item = &'a Arc<PodView>> {
        selector.into_iter().flat_map(|selector| self.orphans.selected(namespace, selector))
    }

    /// Pods of a namespace that `selector` matches, by name. The cost is linear in these and in the namespace's distinct sets of labels.
    #[must_use]
    pub fn selected(&self, namespace: &Namespace, selector: &Selector) -> Vec<&Arc<PodView>> {
        self.by_labels.selected(namespace, selector)
    }

    /// Pods that this uid controls, by key.
    pub fn controlled_by(&self, uid: &str) -> impl Iterator<Item = &Arc<PodView>> {
        self.owned.get(uid).into_iter().flat_map(|owned| owned.pods.values())
    }

    /// Pods on a node, by key. The empty name returns the unbound ones.
    pub fn on_node(&self, node: &str) -> impl Iterator<Item = &Arc<PodView>> {
        self.nodes.get(node).into_iter().flat_map(BTreeMap::values)
    }

    /// Nodes with pods, including the empty name if some are unbound.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.nodes.keys().map(NodeName::as_str)
    }

    /// Pods that the pod garbage collector may have to delete whatever their node.
    #[must_use]
    pub fn collectable(&self) -> &Candidates {
        &self.collectable
    }

    /// The individual pods of a set that its plan reads. `siblings` returns all sets with the same controller as `set`, itself included.
    #[must_use]
    pub fn single<'a, I: IntoIterator<Item = &'a Arc<ReplicaSetView>>>(
        &self,
        set: &ReplicaSetView,
        wanted: WantedPods,
        siblings: impl FnOnce() -> I,
    ) -> SinglePods {
        match wanted {
            WantedPods::None => SinglePods::default(),
            WantedPods::Adoption => SinglePods {
                mismatched: self.owned(set, Role::Mismatched),
                adoptable: self.adoptable(set).cloned().collect(),
                ..SinglePods::default()
            },
            WantedPods::Victims { ranked } => {
                let active = self.owned(set, Role::Owned);
                let related_on_node = if ranked { self.related(set, &active, siblings) } else { BTreeMap::new() };
                SinglePods { active, related_on_node, ..SinglePods::default() }
            }
        }
    }

    /// Active pods of a set that have this role, by key.
    fn owned(&self, set: &ReplicaSetView, wanted: Role) -> Vec<Arc<PodView>> {
        self.controlled_by(&set.meta.uid).filter(|pod| pod.is_active() && role(set, pod) == wanted).cloned().collect()
    }

    /// The number of related pods on the nodes of these pods. A set without a controller has none.
    fn related<'a, I: IntoIterator<Item = &'a Arc<ReplicaSetView>>>(
        &self,
        set: &ReplicaSetView,
        pods: &[Arc<PodView>],
        siblings: impl FnOnce() -> I,
    ) -> BTreeMap<NodeName, u32> {
        if set.meta.controller().is_none() {
            return BTreeMap::new();
        }
        let siblings = siblings().into_iter().collect();
        let mut related = Related { index: self, namespace: &set.meta.namespace, siblings, asked: <[_; 2]>::default() };
        let mut counts = BTreeMap::new();
        for pod in pods {
            if !counts.contains_key(&pod.node_name) {
                counts.insert(pod.node_name.clone(), related.on_node(&pod.node_name));
            }
        }
        counts
    }

    /// The pods of a Deployment's set, for its plan.
    #[must_use]
    pub fn of_set(&mut self, set: &Arc<ReplicaSetView>, now: Timestamp) -> PodsOfSet {
        let (counts, _) = self.counts(set, now);
        let Some(owned) = self.owned.get(&set.meta.uid) else { return PodsOfSet { counts, ..PodsOfSet::default() } };
        let pod = |key: &ObjectKey| owned.pods.get(key).cloned();
        PodsOfSet {
            counts,
            last_to_go: owned.going.last().and_then(|(_, key)| pod(key)),
            failing: owned.failing.first().and_then(|(_, key)| pod(key)),
        }
    }

    /// The nodes of unready active pods that this uid controls, at most [`NODES_MAX`]. The empty name is that of pods without a node.
    #[must_use]
    pub fn unready_on(&self, uid: &str) -> Vec<NodeName> {
        let unready = self.controlled_by(uid).filter(|pod| pod.is_active() && !pod.ready);
        let nodes: BTreeSet<_> = unready.map(|pod| pod.node_name.clone()).take(NODES_MAX).collect();
        nodes.into_iter().collect()
    }

    /// Since when all active pods that this uid controls are ready. `None` if one is not, or there is none. The cost is linear in its pods.
    #[must_use]
    pub fn all_ready_since(&self, uid: &str) -> Option<Timestamp> {
        let active = self.controlled_by(uid).filter(|pod| pod.is_active());
        let since: Option<Vec<_>> = active.map(|pod| pod.ready_since.filter(|_| pod.ready)).collect();
        since?.into_iter().max()
    }

    fn adoptable<'a>(&'a self, set: &'a ReplicaSetView) -> impl Iterator<Item = &'a Arc<PodView>> {
        self.orphans(&set.meta.namespace, set.selector.as_ref()).filter(|pod| pod.is_active())
    }

    fn add(&mut self, pod: &Arc<PodView>) {
        let key = pod.key();
        self.nodes.entry(pod.node_name.clone()).or_default().insert(key.clone(), Arc::clone(pod));
        self.collectable.add(pod);
        let Some(owner) = pod.meta.controller() else {
            return self.orphans.add(pod);
        };
        let owned = match self.owned.get_mut(owner.uid.as_str()) {
            Some(owned) => owned,
            None => self.owned.entry(Uid::from(&owner.uid)).or_default(),
        };
        if owned.pods.is_empty() && owned.listed.is_none() && owner.kind == "ReplicaSet" {
            let list = (pod.meta.namespace.clone(), former_deployment(pod).unwrap_or_default().to_owned());
            self.sets.entry(list.clone()).or_default().insert(Uid::from(&owner.uid));
            owned.listed = Some(list);
        }
        owned.add(key, pod);
    }

    fn remove(&mut self, pod: &Arc<PodView>) {
        let key = pod.key();
        remove_from(&mut self.nodes, pod.node_name.as_str(), &key);
        self.collectable.remove(pod);
        let Some(owner) = pod.meta.controller() else {
            return self.orphans.remove(pod);
        };
        if let Some(owned) = self.owned.get_mut(owner.uid.as_str()) {
            owned.remove(&key, pod);
        }
    }

    /// Replaces a pod whose node and controller do not change. Most changes are status updates.
    fn replace(&mut self, old: &Arc<PodView>, new: &Arc<PodView>) {
        let key = new.key();
        if let Some(here) = self.nodes.get_mut(new.node_name.as_str()).and_then(|pods| pods.get_mut(&key)) {
            *here = Arc::clone(new);
        }
        self.collectable.remove(old);
        self.collectable.add(new);
        let owned = new.meta.controller().and_then(|owner| self.owned.get_mut(owner.uid.as_str()));
        if let Some(owned) = owned {
            owned.replace(&key, old, new);
        }
    }

    /// The pods that match the selector of `deployment` and whose former set may have been its own, if `is_left_behind` returns `true` for
    /// the set: see [`berth_workloads::counts::is_left_behind`].
    #[must_use]
    pub fn left_behind(&self, deployment: &DeploymentView, is_left_behind: impl Fn(&str) -> bool) -> LeftBehind {
        let lists = [deployment.meta.name.as_str(), ""].map(|name| (deployment.meta.namespace.clone(), name.to_owned()));
        let uids = lists.into_iter().filter_map(|list| self.sets.get(&list)).flatten();
        let pods = uids.filter(|uid| is_left_behind(uid)).flat_map(|uid| self.controlled_by(uid));
        let selected = pods.filter(|pod| deployment.selector.as_ref().is_some_and(|selector| selector.matches(&pod.meta.labels)));
        selected.fold(LeftBehind::default(), LeftBehind::with)
    }
}

impl Index<PodView> for PodIndex {
    fn change(&mut self, old: Option<&Arc<PodView>>, new: Option<&Arc<PodView>>) {
        self.by_labels.change(old, new);
        if let (Some(old), Some(new)) = (old, new)
            && keeps_its_places(old, new)
        {
            return self.replace(old, new);
        }
        old.into_iter().for_each(|pod| self.remove(pod));
        new.into_iter().for_each(|pod| self.add(pod));
        // Only at the end: an update of an owner's only pod must not drop its counts.
        let owner = old.and_then(|pod| pod.meta.controller());
        if let Some(owner) = owner.filter(|owner| self.owned.get(owner.uid.as_str()).is_some_and(|owned| owned.pods.is_empty())) {
            let list = self.owned.remove(owner.uid.as_str()).and_then(|owned| owned.listed).unwrap_or_default();
            if let Some(uids) = self.sets.get_mut(&list) {
                uids.remove(owner.uid.as_str());
                if uids.is_empty() {
                    self.sets.remove(&list);
                }
            }
        }
    }
}

/// Whether both versions of a pod have the same index keys, under a controller.
fn keeps_its_places(old: &PodView, new: &PodView) -> bool {
    let controllers = (old.meta.controller(), new.meta.controller());
    old.node_name == new.node_name && matches!(controllers, (Some(old), Some(new)) if old.uid == new.uid)
}

impl Owned {
    fn counts(&mut self, set: &Arc<ReplicaSetView>, now: Timestamp) -> (PodCounts, Option<Timestamp>) {
        let known = self.counted.take().filter(|counted| counted.is_of(set));
        let mut counted = known.unwrap_or_else(|| Counted::count(set, &self.pods, now));
        // The next comparison is with this generation.
        counted.set = Arc::clone(set);
        counted.advance(now);
        let counted = self.counted.insert(counted);
        (counted.counts, counted.pending.first().map(|(at, _)| *at))
    }

    fn refresh_controlled(&mut self, set: &StatefulSetView, now: Timestamp) {
        let known = self.controlled.take().filter(|(generation, _)| *generation == set.meta.generation);
        let (_, mut controlled) =
            known.unwrap_or_else(|| (set.meta.generation, Arc::new(ControlledPods::new(set, self.pods.values(), now))));
        Arc::make_mut(&mut controlled).advance(now);
        self.controlled = Some((set.meta.generation, controlled));
    }

    fn add(&mut self, key: ObjectKey, pod: &Arc<PodView>) {
        if let Some(counted) = &mut self.counted {
            counted.change(&key, pod, Sign::Plus);
        }
        if let Some((_, controlled)) = &mut self.controlled {
            Arc::make_mut(controlled).add(pod);
        }
        if let Some(until) = pod.meta.deleted.filter(|_| pod.is_terminating()) {
            self.going.insert((until, key.clone()));
        }
        if let Some(kind) = failing(pod) {
            self.failing.insert((kind, key.clone()));
        }
        self.pods.insert(key, Arc::clone(pod));
    }

    /// The same as removing the old version and adding the new one.
    fn replace(&mut self, key: &ObjectKey, old: &Arc<PodView>, new: &Arc<PodView>) {
        if let Some(counted) = &mut self.counted {
            counted.change(key, old, Sign::Minus);
            counted.change(key, new, Sign::Plus);
        }
        if let Some((_, controlled)) = &mut self.controlled {
            let controlled = Arc::make_mut(controlled);
            controlled.remove(old);
            controlled.add(new);
        }
        let until = |pod: &PodView| pod.meta.deleted.filter(|_| pod.is_terminating());
        move_in(&mut self.going, (until(old), until(new)), key);
        move_in(&mut self.failing, (failing(old), failing(new)), key);
        self.pods.insert(key.clone(), Arc::clone(new));
    }

    fn remove(&mut self, key: &ObjectKey, pod: &Arc<PodView>) {
        if let Some(counted) = &mut self.counted {
            counted.change(key, pod, Sign::Minus);
        }
        if let Some((_, controlled)) = &mut self.controlled {
            Arc::make_mut(controlled).remove(pod);
        }
        if let Some(until) = pod.meta.deleted {
            self.going.remove(&(until, key.clone()));
        }
        if let Some(kind) = failing(pod) {
            self.failing.remove(&(kind, key.clone()));
        }
        self.pods.remove(key);
    }
}

/// Moves a pod from its old position in an order to its new one. `None` if it has none.
fn move_in<T: Ord>(order: &mut BTreeSet<(T, ObjectKey)>, (old, new): (Option<T>, Option<T>), key: &ObjectKey) {
    if old == new {
        return;
    }
    old.into_iter().for_each(|old| _ = order.remove(&(old, key.clone())));
    new.into_iter().for_each(|new| _ = order.insert((new, key.clone())));
}

/// Why an active pod does not become ready.
fn failing(pod: &PodView) -> Option<Kind> {
    cause::of_pod(pod).filter(|_| pod.is_active()).map(|cause| cause.kind)
}

/// Counts active pods on nodes that any of these sets selects.
struct Related<'a> {
    index: &'a PodIndex,
    namespace: &'a Namespace,
    siblings: Vec<&'a Arc<ReplicaSetView>>,
    /// The last two results of `is_related`.
    asked: [Option<(Labels, bool)>; 2],
}

impl Related<'_> {
    fn on_node(&mut self, node: &str) -> u32 {
        let in_namespace = self.index.on_node(node).filter(|pod| pod.meta.namespace == *self.namespace);
        let count = in_namespace.filter(|pod| pod.is_active() && self.is_related(&pod.meta.labels)).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Whether any sibling selects these labels. Pods of one template usually share them, and a rollout has two templates.
    fn is_related(&mut self, labels: &Labels) -> bool {
        if let Some((_, is_related)) = self.asked.iter().flatten().find(|(known, _)| known.is_shared_with(labels)) {
            return *is_related;
        }
        let mut selectors = self.siblings.iter().filter_map(|set| set.selector.as_ref());
        let is_related = selectors.any(|selector| selector.matches(labels));
        self.asked.swap(0, 1);
        self.asked[0] = Some((labels.clone(), is_related));
        is_related
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_workloads::{
        owners::OwnerReferences,
        view::{ContainerSymptom, Meta, PodPhase, ReasonMessage, Symptoms},
    };
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
    use proptest::prelude::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn set(generation: i64, min_ready_seconds: i32) -> Arc<ReplicaSetView> {
        let labels: BTreeMap<_, _> = [("app".to_owned(), "web".to_owned())].into();
        let selector = LabelSelector { match_labels: Some(labels), ..LabelSelector::default() };
        let meta =
            Meta { namespace: "ns".into(), name: "web".into(), uid: "set".into(), generation: Generation(generation), ..Meta::default() };
        Arc::new(ReplicaSetView { meta, selector: Selector::parse(&selector), min_ready_seconds, ..ReplicaSetView::default() })
    }

    fn waits_for(reason: &str) -> Box<Symptoms> {
        let waiting = Some(ReasonMessage { reason: reason.to_owned(), ..ReasonMessage::default() });
        Box::new(Symptoms { containers: vec![ContainerSymptom { waiting, ..ContainerSymptom::default() }], ..Symptoms::default() })
    }

    prop_compose! {
        fn any_pod()(
            name in 0u8..6, owner in 0u8..3, labels in 0u8..2, phase in 0u8..3, ready_since in proptest::option::of(0i64..60),
            deleted in proptest::option::weighted(0.3, 0i64..90), node in 0u8..3, waiting in 0usize..3,
        ) -> Arc<PodView> {
            let owner_reference = OwnerReference {
                kind: "ReplicaSet".into(), uid: ["set", "other", ""][usize::from(owner)].into(), controller: Some(true), ..OwnerReference::default()
            };
            Arc::new(PodView {
                meta: Meta {
                    namespace: "ns".into(),
                    name: format!("p{name}").into(),
                    uid: format!("uid{name}").into(),
                    labels: [("app", ["web", "db"][usize::from(labels)])].into(),
                    owners: if owner == 2 { OwnerReferences::default() } else { vec![owner_reference].into() },
                    deleted: deleted.map(at),
                    ..Meta::default()
                },
                node_name: ["", "n1", "n2"][usize::from(node)].into(),
                phase: [PodPhase::Pending, PodPhase::Running, PodPhase::Failed][usize::from(phase)],
                ready: ready_since.is_some(),
                ready_since: ready_since.map(at),
                symptoms: ["ErrImagePull", "CrashLoopBackOff"].get(waiting).map(|reason| waits_for(reason)),
                ..PodView::default()
            })
        }
    }

    #[test]
    fn being_bound_changes_no_counts_and_being_ready_does() {
        let pod = Arc::new(PodView::default());
        let changes = |new: PodView| counts_change(&Delta { old: Some(Arc::clone(&pod)), new: Some(Arc::new(new)) });
        assert!(!changes(PodView { node_name: "n1".into(), deletion_cost: 1, ..PodView::default() }));
        assert!(changes(PodView { ready: true, ..PodView::default() }));
        assert!(counts_change(&Delta { old: Some(Arc::clone(&pod)), new: None }) && counts_change(&Delta { old: None, new: Some(pod) }));
    }

    proptest! {
        /// A change that is reported as irrelevant does not change the counts of any set, now or later.
        #[test]
        fn a_change_that_changes_no_counts_leaves_a_recount_as_it_is(
            old in any_pod(), new in any_pod(), min_ready in prop_oneof![Just(0), Just(7), Just(30)], now in 0i64..90,
        ) {
            let counted = |pod: &PodView| PodCounts::recount(&set(1, min_ready), [pod], at(now));
            let changed = counted(&old) != counted(&new);
            let says = counts_change(&Delta { old: Some(old), new: Some(new) });
            prop_assert!(says || !changed);
        }

        /// After any changes, at any time, running counts equal a recount.
        #[test]
        fn running_counts_equal_a_recount(
            steps in proptest::collection::vec((any_pod(), any::<bool>(), 0i64..5, 0u8..8), 1..60), first in 0i32..8,
        ) {
            let (mut index, mut pods, mut now) = (PodIndex::default(), BTreeMap::<String, Arc<PodView>>::new(), 0);
            let (mut generation, mut min_ready) = (1, first);
            for (pod, present, seconds, change) in steps {
                now += seconds;
                // Most changes do not concern the set. The others scale it or change what counts.
                generation += i64::from(change < 2);
                min_ready = if change == 0 { (min_ready + 7) % 31 } else { min_ready };
                let set = set(generation, min_ready);
                let old = if present { pods.insert(pod.meta.name.to_string(), Arc::clone(&pod)) } else { pods.remove(&*pod.meta.name) };
                index.change(old.as_ref(), present.then_some(&pod));
                let wanted = PodCounts::recount(&set, pods.values().map(|pod| &**pod), at(now));
                prop_assert_eq!(index.counts(&set, at(now)), wanted);
                let gone = |uid: &str| uid != "set";
                let all = pods.values();
                let left = all.clone().filter(|pod| pod.meta.is_controlled_by(&"other".into()) && pod.meta.labels.get("app") == Some("web"));
                let left = left.fold(LeftBehind::default(), LeftBehind::with);
                let wanted_last = all.clone().filter(|pod| pod.is_terminating() && pod.meta.is_controlled_by(&"set".into())).map(|pod| pod.meta.deleted).max();
                let worst = all.clone().filter(|pod| pod.meta.is_controlled_by(&"set".into())).filter_map(|pod| failing(pod)).min();
                let meta = Meta { namespace: "ns".into(), name: "web".into(), ..Meta::default() };
                let deployment = DeploymentView { meta, selector: set.selector.clone(), ..DeploymentView::default() };
                let view = index.of_set(&set, at(now));
                prop_assert_eq!(view.last_to_go.map(|pod| pod.meta.deleted), wanted_last);
                prop_assert_eq!(view.failing.and_then(|pod| failing(&pod)), worst);
                let found = index.left_behind(&deployment, gone);
                prop_assert_eq!((found.active, found.terminating), (left.active, left.terminating));
                prop_assert_eq!(found.last.map(|pod| pod.meta.deleted), left.last.map(|pod| pod.meta.deleted));
                let on_nodes: usize = index.nodes().map(|node| index.on_node(node).count()).sum();
                prop_assert_eq!(on_nodes, pods.len());
                let mut collectable = Candidates::default();
                pods.values().for_each(|pod| collectable.add(pod));
                prop_assert_eq!(index.collectable(), &collectable);
            }
            for pod in pods.values() { index.change(Some(pod), None); }
            prop_assert!(index.nodes.is_empty() && index.orphans.is_empty() && index.sets.is_empty());
        }
    }

    #[test]
    fn a_set_is_counted_again_once_pods_count_otherwise_and_not_when_it_is_scaled() {
        let mut index = PodIndex::default();
        let owner = OwnerReference { uid: "set".into(), controller: Some(true), ..OwnerReference::default() };
        let labels = [("app", "web")].into();
        let meta =
            Meta { namespace: "ns".into(), name: "a".into(), uid: "a".into(), labels, owners: vec![owner].into(), ..Meta::default() };
        index.change(None, Some(&Arc::new(PodView { meta, ..PodView::default() })));
        assert_eq!(index.counts(&set(1, 0), at(0)).0.active, 1);
        let planted = |index: &mut PodIndex| {
            let counted = index.owned.get_mut("set").and_then(|owned| owned.counted.as_mut());
            counted.expect("it was asked for").counts.active = 9;
        };
        planted(&mut index);
        assert_eq!([2, 3].map(|generation| index.counts(&set(generation, 0), at(0)).0.active), [9, 9], "it was scaled");
        assert_eq!(index.counts(&set(4, 5), at(0)).0.active, 1, "minReadySeconds");
        let of = |generation, change: fn(&mut ReplicaSetView)| {
            let mut set = (*set(generation, 5)).clone();
            change(&mut set);
            Arc::new(set)
        };
        let template: fn(&mut ReplicaSetView) = |set| {
            Arc::make_mut(&mut set.template).metadata.get_or_insert_default().labels = Some(BTreeMap::default());
        };
        let selector: fn(&mut ReplicaSetView) = |set| set.selector = None;
        for (generation, change, active) in [(5, template, 1), (6, selector, 0)] {
            planted(&mut index);
            assert_eq!(index.counts(&of(generation, change), at(0)).0.active, active, "generation {generation}");
        }
    }

    /// If the name of a deleted set contains its Deployment's name, no other Deployment counts its pods, whatever its selector.
    #[test]
    fn pods_that_are_left_behind_count_for_the_deployment_whose_set_they_had() {
        let mut index = PodIndex::default();
        let pod = |name: &str, set: &str, hash: &str| {
            let owner = OwnerReference {
                kind: "ReplicaSet".into(),
                name: set.into(),
                uid: set.into(),
                controller: Some(true),
                ..OwnerReference::default()
            };
            let labels = [("app", "web"), ("pod-template-hash", hash)].into();
            let meta =
                Meta { namespace: "ns".into(), name: name.into(), uid: name.into(), labels, owners: vec![owner].into(), ..Meta::default() };
            Arc::new(PodView { meta, ..PodView::default() })
        };
        for pod in [pod("a", "web-5d4", "5d4"), pod("b", "web-5d4", "5d4"), pod("c", "web-api-77f", "77f"), pod("d", "adopted", "")] {
            index.change(None, Some(&pod));
        }
        for (name, wanted) in [("web", 3), ("web-api", 2), ("other", 1)] {
            let meta = Meta { namespace: "ns".into(), name: name.into(), ..Meta::default() };
            let deployment = DeploymentView { meta, selector: set(1, 0).selector.clone(), ..DeploymentView::default() };
            assert_eq!(index.left_behind(&deployment, |_| true).active, wanted, "{name}");
            assert_eq!(index.left_behind(&deployment, |_| false).active, 0, "{name}: the sets are there");
        }
    }

    #[test]
    fn related_pods_are_those_that_any_sibling_selects() {
        let mut index = PodIndex::default();
        // As pods of one template, they share their labels.
        let [web, db, web_again] = ["web", "db", "web"].map(|app| Labels::from([("app", app)]));
        let pod = |name: &str, labels: &Labels, node: &str, phase| {
            let meta = Meta { namespace: "ns".into(), name: name.into(), uid: name.into(), labels: labels.clone(), ..Meta::default() };
            Arc::new(PodView { meta, node_name: node.into(), phase, ..PodView::default() })
        };
        for pod in [
            pod("a", &web, "n1", PodPhase::Running),
            pod("b", &web, "n1", PodPhase::Failed),
            pod("c", &db, "n1", PodPhase::Running),
            pod("d", &web, "n2", PodPhase::Running),
            pod("e", &db, "n2", PodPhase::Running),
            pod("f", &web_again, "n2", PodPhase::Running),
            pod("g", &web, "n2", PodPhase::Running),
        ] {
            index.change(None, Some(&pod));
        }
        let mut owned = (*set(1, 0)).clone();
        let (related, pods) =
            ([set(1, 0)], ["n1", "n2", "n3", "n1"].map(|node| Arc::new(PodView { node_name: node.into(), ..PodView::default() })));
        assert_eq!(index.related(&owned, &pods, || &related), BTreeMap::new(), "a set without a controller has no related pods");
        owned.meta.owners = vec![OwnerReference { uid: "deployment".into(), controller: Some(true), ..OwnerReference::default() }].into();
        let counts = [("n1", 1), ("n2", 3), ("n3", 0)].map(|(node, count)| (NodeName::from(node), count));
        assert_eq!(index.related(&owned, &pods, || &related), BTreeMap::from(counts));
    }
}
