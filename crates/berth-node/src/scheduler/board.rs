//! Who is where, who waits, and where the next one goes. No clock, no IO.

mod search;
mod volumes;

use super::{
    Inconsistent,
    affinity::named_nodes,
    claims::{ByClaim, ClaimChoice, Claims, Verdict, VolumeNeeds},
    defaults::{SelectorView, Selectors},
    fit::NodeState,
    neighbors::{Neighbors, PlacedTerms, required_pods},
    pod_set::{NamespaceLabels, PodSet},
    preempt::{Budgets, Nominations},
    selecting_kind::SelectingKind,
    spread::{Constraints, Spread},
    sums::Nodes,
    tallies::{Tallies, Watches},
    view::{DEFAULT_SCHEDULER, NamespaceView, NodeView, PodInfo},
};
use berth_identity::{Lookup, Name, Namespace, NodeName, Uid};
use berth_workloads::view::BudgetView;
use jiff::Timestamp;
use search::{Found, Next, Nowhere, Request};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

/// How many different pods without a node are remembered, so that others like them need no search of their own.
const FAILURES_MAX: usize = 128;

/// How many pods in a row can be searched for again before a pod of the same priority that was not searched for yet. So pods that fit nowhere hold up no
/// others, however many they are and however often they wait again.
const RETRIES_MAX: usize = 16;

/// All that placing pods depends on. Fed with every change of pods and nodes, and with the scheduler's own decisions, which count at once.
#[derive(Debug, Default)]
pub struct Board {
    nodes: Nodes,
    /// Where each pod is, or is about to be: uid to node.
    assignments: Lookup<Uid, Assignment>,
    waiting: BTreeMap<Order, Arc<PodInfo>>,
    /// Those of the waiting pods that were not searched for yet.
    fresh: BTreeSet<Order>,
    /// How many pods were searched for again since the last fresh one.
    retries: usize,
    /// Pods for which no node was found; they wait again when anything changes that could help.
    parked: ByClaim,
    /// The sets of pods that parked pods wait for.
    watches: Watches,
    /// Pods that one of their claims holds up; they wait again when something happens to any of these.
    held: ByClaim,
    /// Pods that have a place and are bound to it as soon as their claims have volumes. They wait as well when a claim has changed.
    mounting: ByClaim,
    claims: Claims,
    namespaces: NamespaceLabels,
    selectors: Selectors,
    tallies: Tallies,
    placed_terms: PlacedTerms,
    budgets: Budgets,
    nominations: Nominations,
    /// Uids of pods that were evicted to make room, but do not show it yet.
    going: BTreeSet<Uid>,
    /// The node where the next search begins, in a cluster with more nodes than are searched.
    next_node: String,
    /// Raised with each change that the outcome of a search can depend on.
    changes: u64,
    /// Pods that found no node, with the text and the number of changes until then.
    failures: VecDeque<(Arc<PodInfo>, String, u64)>,
}

#[derive(Debug)]
struct Assignment {
    node: NodeName,
    pod: Arc<PodInfo>,
    /// Whether the pod itself shows it. Otherwise it is this scheduler's decision, whose execution was not seen yet.
    bound: bool,
}

/// Higher priority first, then older, then by name.
type Order = (Reverse<i32>, Option<Timestamp>, Namespace, Name, Uid);

/// What becomes of one pod.
#[derive(Clone, Debug)]
pub enum Placement {
    /// It fits there; it counts as being there from now on.
    Node(Arc<PodInfo>, String),
    /// As `Node`, but these choices must first be written to claims and volumes: the pod is bound when its claims have volumes.
    Volumes(Arc<PodInfo>, String, Vec<ClaimChoice>),
    /// It fits nowhere: a sentence for people.
    Nowhere(Arc<PodInfo>, String),
    /// It fits nowhere, but room can be made for it.
    Room(MakeRoom),
}

impl Placement {
    /// Whose it is.
    #[must_use]
    pub fn pod(&self) -> &Arc<PodInfo> {
        match self {
            Self::Node(pod, _) | Self::Volumes(pod, ..) | Self::Nowhere(pod, _) | Self::Room(MakeRoom { pod, .. }) => pod,
        }
    }
}

/// Room to be made for a pod on a node. It counts as the pod's from now on.
#[derive(Clone, Debug)]
pub struct MakeRoom {
    /// Whose room it is.
    pub pod: Arc<PodInfo>,
    /// Where.
    pub node: String,
    /// The pods to evict that are not evicted yet.
    pub victims: Vec<Arc<PodInfo>>,
    /// Pods that lose the room that was being made for them there.
    pub outbid: Vec<Arc<PodInfo>>,
    /// Why the pod fits nowhere: a sentence for people.
    pub why: String,
}

impl Board {
    /// Takes in a pod's new version.
    pub fn set_pod(&mut self, pod: Arc<PodInfo>) {
        if pod.finished {
            return self.remove_pod(&pod);
        }
        if pod.deleting {
            self.going.remove(&pod.uid);
        }
        if !pod.node_name.is_empty() {
            self.unqueue(&pod);
            self.forgo(&pod.uid);
            return self.place(&pod, &pod.node_name, true);
        }
        let scheduler = &pod.wishes().scheduler_name;
        let ours = scheduler.is_empty() || scheduler == DEFAULT_SCHEDULER;
        if !ours || pod.gated || pod.deleting {
            // The server refuses to bind it, so it needs no place either.
            return self.remove_pod(&pod);
        }
        // A pod that is about to be bound needs no second look, nor does a parked one that asks for what it asked before.
        if self.assignments.contains_key(&pod.uid) {
            return;
        }
        if pod.nominated_node.is_some() || self.nominations.node_of(&pod.uid).is_some() {
            self.changes += 1;
        }
        self.nominations.hear(&pod);
        if self.parked.get(&pod.uid).is_some_and(|parked| parked.asks_as(&pod)) {
            // What it waits for is the same, too.
            return self.parked.insert(pod);
        }
        let order = order(&pod);
        let was_tried = self.waiting.contains_key(&order) && !self.fresh.contains(&order);
        self.unqueue(&pod);
        if !was_tried {
            self.fresh.insert(order.clone());
        }
        self.waiting.insert(order, pod);
    }

    /// Takes in that a pod is gone, or holds nothing any more.
    pub fn remove_pod(&mut self, pod: &PodInfo) {
        self.unqueue(pod);
        self.going.remove(&pod.uid);
        self.forgo(&pod.uid);
        if self.vacate(&pod.uid) {
            self.unpark();
        }
    }

    /// The pod needs no room any more that was being made for it: others may have it.
    fn forgo(&mut self, uid: &str) {
        if self.nominations.remove(uid) {
            self.changes += 1;
            self.unpark();
        }
    }

    /// Takes in a node's new version.
    pub fn set_node(&mut self, node: Arc<NodeView>) {
        if let Some(state) = self.nodes.by_name.get_mut(&*node.name) {
            let old = std::mem::replace(&mut state.view, node);
            if state.view.is_equal_for_pods(&old) {
                return;
            }
            if (&old.labels, &old.taints) != (&state.view.labels, &state.view.taints) {
                self.nodes.generation += 1;
            }
        } else {
            let mut state = NodeState { view: Arc::clone(&node), ..NodeState::default() };
            self.assignments
                .unordered()
                .filter(|(_, assignment)| *assignment.node == *node.name)
                .for_each(|(_, assignment)| state.insert(&assignment.pod));
            self.nodes.by_name.insert(node.name.to_string(), state);
            self.nodes.generation += 1;
        }
        self.changes += 1;
        self.unpark();
    }

    /// Takes in that a node is gone.
    pub fn remove_node(&mut self, name: &str) {
        self.nodes.by_name.remove(name);
        self.nodes.generation += 1;
        self.changes += 1;
        // Pods are no longer spread over its part of the cluster, and claims that had selected it may have another node.
        self.unpark();
        let is_there = |pod: &PodInfo| self.assignments.get(&pod.uid).is_some_and(|assignment| assignment.node == name);
        let stranded: Vec<Arc<PodInfo>> = self.mounting.iter().filter(|pod| is_there(pod)).cloned().collect();
        stranded.iter().for_each(|pod| self.give_back(pod));
    }

    /// Takes in a namespace's new version.
    pub fn set_namespace(&mut self, namespace: &NamespaceView) {
        let old = self.namespaces.insert(namespace.name(), namespace.labels.clone());
        if old.unwrap_or_default() != namespace.labels {
            self.namespaces_changed();
        }
    }

    /// Takes in that a namespace is gone.
    pub fn remove_namespace(&mut self, namespace: &NamespaceView) {
        if self.namespaces.remove(&namespace.name()).is_some_and(|labels| !labels.is_empty()) {
            self.namespaces_changed();
        }
    }

    fn namespaces_changed(&mut self) {
        self.tallies.namespaces_changed();
        self.changes += 1;
        self.unpark();
    }

    /// Takes in a new version of a Service or of a set of pods.
    pub fn set_selector(&mut self, kind: SelectingKind, view: &SelectorView) {
        self.selectors.set(kind, view);
    }

    /// Takes in that a Service or a set of pods is gone.
    pub fn remove_selector(&mut self, kind: SelectingKind, view: &SelectorView) {
        self.selectors.remove(kind, view);
    }

    /// Takes in a disruption budget's new version.
    pub fn set_budget(&mut self, budget: Arc<BudgetView>) {
        self.changes += 1;
        self.budgets.set(budget);
    }

    /// Takes in that a disruption budget is gone.
    pub fn remove_budget(&mut self, budget: &BudgetView) {
        self.changes += 1;
        self.budgets.remove(budget);
    }

    /// Reverts a decision that could not be executed. The pod waits again, unless it is bound or deleted by now.
    pub fn give_back(&mut self, pod: &Arc<PodInfo>) {
        if self.assignments.get(&pod.uid).is_some_and(|assignment| !assignment.bound) && self.vacate(&pod.uid) {
            self.dismount(&pod.uid);
            // It may get another place, or may be deleted before it gets one.
            self.unpark();
            self.waiting.insert(order(pod), Arc::clone(pod));
        }
    }

    /// Takes back that room is made for the pod, after that could not be written. The pod waits again, unless it is gone by now.
    pub fn give_room_back(&mut self, pod: &Arc<PodInfo>, victims: &[Arc<PodInfo>]) {
        victims.iter().for_each(|victim| _ = self.going.remove(&victim.uid));
        self.forgo(&pod.uid);
    }

    /// Records that some of the pods to evict for this one could not be evicted. It waits again: the others may make room enough.
    pub fn try_room_again(&mut self, pod: &Arc<PodInfo>, spared: &[Arc<PodInfo>]) {
        spared.iter().for_each(|victim| _ = self.going.remove(&victim.uid));
        self.changes += 1;
        if let Some(pod) = self.parked.get(&pod.uid).cloned() {
            self.requeue(pod);
        }
    }

    /// Whether room is being made for the pod.
    #[must_use]
    pub fn has_room(&self, uid: &str) -> bool {
        self.nominations.node_of(uid).is_some()
    }

    /// Whether a pod waits for a place.
    #[must_use]
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Decides about up to `count` waiting pods, one after the other, each knowing of those before it.
    pub fn decide(&mut self, count: usize) -> Vec<Placement> {
        // New pods can make room as well as deleted ones: a part of the cluster is no longer the emptiest by as much.
        for uid in self.watches.take_woken() {
            if let Some(pod) = self.parked.get(&uid).cloned() {
                self.requeue(pod);
            }
        }
        std::iter::from_fn(|| self.decide_next()).take(count).collect()
    }

    fn decide_next(&mut self) -> Option<Placement> {
        loop {
            let pod = self.take_waiting()?;
            let needs = match self.claims.verdict(&pod) {
                Verdict::Held { why } => return Some(self.hold(pod, &why)),
                Verdict::Placeable(needs) => needs,
            };
            if self.mounting.contains(&pod.uid) {
                match self.bind_mounted(&pod, &needs) {
                    Some(placement) => return Some(placement),
                    None => continue,
                }
            }
            if let Some(why) = self.known_failure(&pod) {
                return Some(self.park(pod, Nowhere { why, next: Next::Wait }));
            }
            return Some(match self.find(&pod, &needs) {
                Ok(Found { node, choices }) => {
                    let gives_room = self.nominations.node_of(&pod.uid).is_some_and(|nominated| nominated != node);
                    self.nominations.remove(&pod.uid);
                    if gives_room {
                        self.unpark();
                    }
                    self.place(&pod, &node, false);
                    if choices.is_empty() {
                        Placement::Node(pod, node)
                    } else {
                        self.claims.choose(&choices);
                        self.mounting.insert(Arc::clone(&pod));
                        Placement::Volumes(pod, node, choices)
                    }
                }
                Err(nowhere) => self.park(pod, nowhere),
            });
        }
    }

    /// The next waiting pod.
    fn take_waiting(&mut self) -> Option<Arc<PodInfo>> {
        let (first, _) = self.waiting.first_key_value()?;
        let (priority, ..) = first;
        let fresh = self.fresh.first().filter(|(fresh, ..)| self.retries >= RETRIES_MAX && fresh == priority);
        let next = fresh.unwrap_or(first).clone();
        self.retries = if self.fresh.remove(&next) { 0 } else { self.retries.saturating_add(1) };
        self.waiting.remove(&next)
    }

    /// Why the pod fits nowhere, if that is known of a pod like it, and nothing has changed since.
    fn known_failure(&self, pod: &PodInfo) -> Option<String> {
        let is_same = |(other, _, changes): &&(Arc<PodInfo>, String, u64)| *changes == self.changes && other.is_like(pod);
        let known = self.failures.iter().find(is_same).filter(|_| self.nominations.node_of(&pod.uid).is_none());
        known.map(|(_, why, _)| why.clone())
    }

    /// A claim of the pod cannot be used: the pod gives up its place, if it had one.
    fn hold(&mut self, pod: Arc<PodInfo>, why: &str) -> Placement {
        if self.dismount(&pod.uid) && self.vacate(&pod.uid) {
            self.unpark();
        }
        self.held.insert(Arc::clone(&pod));
        // Upstream's plug-in for resource claims does not find what it has not prepared, and preemption does not follow.
        let message = format!("0/{} nodes are available: {why}. not found", self.nodes.len());
        Placement::Nowhere(pod, message)
    }

    /// The pod has a place, and all its claims have volumes now, or not yet.
    fn bind_mounted(&mut self, pod: &Arc<PodInfo>, needs: &VolumeNeeds) -> Option<Placement> {
        if !needs.delayed.is_empty() {
            return None;
        }
        self.dismount(&pod.uid);
        let assignment = self.assignments.get(&pod.uid)?;
        Some(Placement::Node(Arc::clone(pod), assignment.node.to_string()))
    }

    /// The node for the pod, and how its claims get volumes there: the node where room was made, if it can take the pod. Else the best one of those
    /// that can; the one with fewer pods, then the first by name, if several are alike. If there is none, why not, for each node.
    fn find(&mut self, pod: &PodInfo, needs: &VolumeNeeds) -> Result<Found, Nowhere> {
        let constraints = self.selectors.constraints(pod);
        self.count_for(pod, &constraints);
        let (found, next_node) = self.search(&self.request(pod, needs, &constraints));
        next_node.into_iter().for_each(|next| self.next_node = next);
        found
    }

    /// Brings all counts up to date that a request reads.
    fn count_for(&mut self, pod: &PodInfo, constraints: &Constraints) {
        self.tallies.begin_round();
        let placed = self.assignments.unordered().map(|(_, assignment)| (&*assignment.pod, assignment.node.as_str()));
        Spread::require(pod, constraints, &mut self.tallies, placed.clone(), &self.nodes, &self.namespaces);
        Neighbors::require(pod, &mut self.tallies, &mut self.placed_terms, placed, &self.nodes, &self.namespaces);
    }

    fn request<'a>(&'a self, pod: &'a PodInfo, needs: &'a VolumeNeeds, constraints: &'a Constraints) -> Request<'a> {
        Request {
            pod,
            needs,
            spread: Spread::of(pod, constraints, &self.tallies, &self.namespaces),
            neighbors: Neighbors::of(pod, &self.tallies, &self.placed_terms, &self.namespaces),
            named: named_nodes(pod.wishes()),
        }
    }

    /// Puts a pod aside for which no node was found.
    fn park(&mut self, pod: Arc<PodInfo>, Nowhere { why, next }: Nowhere) -> Placement {
        if let Next::Forgo = next {
            self.forgo(&pod.uid);
        }
        self.watches.insert(&pod, watched(&pod).iter());
        self.parked.insert(Arc::clone(&pod));
        let Next::MakeRoom(room) = next else {
            if self.nominations.node_of(&pod.uid).is_none() && self.known_failure(&pod).is_none() {
                self.failures.truncate(FAILURES_MAX - 1);
                self.failures.push_front((Arc::clone(&pod), why.clone(), self.changes));
            }
            return Placement::Nowhere(pod, why);
        };
        self.changes += 1;
        let outbid = self.nominations.outbid(&pod, &room.node);
        for other in &outbid {
            self.nominations.remove(&other.uid);
            if let Some(other) = self.parked.get(&other.uid).cloned() {
                self.requeue(other);
            }
        }
        self.nominations.decide(&pod, &room.node);
        let is_told = |victim: &PodInfo| victim.deleting || self.going.contains(&victim.uid);
        let victims: Vec<Arc<PodInfo>> = room.victims.into_iter().filter(|victim| !is_told(victim)).collect();
        self.going.extend(victims.iter().map(|victim| victim.uid.clone()));
        Placement::Room(MakeRoom { pod, node: room.node, victims, outbid, why })
    }

    fn place(&mut self, pod: &Arc<PodInfo>, node: &str, bound: bool) {
        if self.renew(pod, node, bound) {
            return;
        }
        let before = self.take_off(&pod.uid);
        // A pod that stays on its node is not counted again: most changes are of its status.
        let alike = |old: &PodInfo| old.labels == pod.labels && old.deleting == pod.deleting;
        if before.as_ref().is_none_or(|assignment| assignment.node != node || !alike(&assignment.pod)) {
            before.iter().for_each(|assignment| self.count(&assignment.pod, &assignment.node, -1));
            self.count(pod, node, 1);
        }
        if let Some(state) = self.nodes.by_name.get_mut(node) {
            state.insert(pod);
        }
        self.placed_terms.change(pod, node, 1, &self.nodes);
        self.claims.change_uses(pod, 1);
        self.changes += 1;
        self.assignments.insert(pod.uid.clone(), Assignment { node: NodeName::shared(node), pod: Arc::clone(pod), bound });
        // Other pods may fit where it was, or beside it.
        let is_as_before = |old: &PodInfo| (&old.labels, &old.requests) == (&pod.labels, &pod.requests);
        if before.is_some_and(|before| before.node != node || !is_as_before(&before.pod)) {
            self.unpark();
        }
    }

    /// Counts a pod with a node (1), or counts it no more (-1). Both can help pods that found no node.
    fn count(&mut self, pod: &PodInfo, node: &str, by: i64) {
        self.tallies.change(pod, node, by, &self.nodes, &self.namespaces);
        self.watches.change(pod, &self.namespaces);
    }

    /// Takes over a pod's new version that stays where it was, if nothing is counted otherwise for it; gives whether it did. Most changes are of a status.
    fn renew(&mut self, pod: &Arc<PodInfo>, node: &str, bound: bool) -> bool {
        let Some(assignment) = self.assignments.get_mut(&pod.uid).filter(|assignment| assignment.node == node) else { return false };
        let old = &assignment.pod;
        let is_alike = (&old.labels, old.deleting, old.priority) == (&pod.labels, pod.deleting, pod.priority)
            && (&old.requests, old.nominal, &old.terms, &old.claims) == (&pod.requests, pod.nominal, &pod.terms, &pod.claims);
        if !is_alike {
            return false;
        }
        (assignment.pod, assignment.bound) = (Arc::clone(pod), bound);
        if let Some(here) = self.nodes.by_name.get_mut(node).and_then(|state| state.pods.get_mut(&pod.uid)) {
            *here = Arc::clone(pod);
        }
        true
    }

    fn vacate(&mut self, uid: &str) -> bool {
        let Some(assignment) = self.take_off(uid) else { return false };
        self.count(&assignment.pod, &assignment.node, -1);
        true
    }

    fn take_off(&mut self, uid: &str) -> Option<Assignment> {
        let assignment = self.assignments.remove(uid)?;
        if let Some(state) = self.nodes.by_name.get_mut(assignment.node.as_str()) {
            state.remove(uid);
        }
        self.placed_terms.change(&assignment.pod, &assignment.node, -1, &self.nodes);
        self.claims.change_uses(&assignment.pod, -1);
        self.changes += 1;
        Some(assignment)
    }

    fn unqueue(&mut self, pod: &PodInfo) {
        let order = order(pod);
        self.waiting.remove(&order);
        self.fresh.remove(&order);
        self.unpark_one(&pod.uid);
        self.dismount(&pod.uid);
        self.held.remove(&pod.uid);
    }

    /// The pod waits for volumes no more; gives whether it did. What was chosen for its claims, and is not written, is free again.
    fn dismount(&mut self, uid: &str) -> bool {
        let Some(pod) = self.mounting.remove(uid) else { return false };
        self.claims.release(&pod);
        true
    }

    fn unpark_one(&mut self, uid: &str) {
        if let Some(parked) = self.parked.remove(uid) {
            self.watches.remove(&parked, watched(&parked).iter());
        }
    }

    /// Lets a parked pod wait again.
    fn requeue(&mut self, pod: Arc<PodInfo>) {
        self.unpark_one(&pod.uid);
        self.waiting.insert(order(&pod), pod);
    }

    fn unpark(&mut self) {
        self.watches = Watches::default();
        for pod in std::mem::take(&mut self.parked).iter() {
            self.waiting.insert(order(pod), Arc::clone(pod));
        }
    }

    /// Checks that the running sums are what a recount gives; for tests and the simulation.
    ///
    /// # Errors
    /// What differs.
    pub fn check(&self) -> Result<(), Inconsistent> {
        for (name, node) in &self.nodes.by_name {
            let mut recount = crate::resources::Amounts::default();
            node.pods.values().for_each(|pod| recount.add(&pod.requests));
            if let Some((resource, amount)) = recount.iter().find(|(resource, amount)| node.used.get(resource) != *amount) {
                let counted = node.used.get(resource);
                return Err(Inconsistent(format!("{name}: {resource} is counted as {counted}, its pods request {amount}")));
            }
            let has = &node.view.allocatable;
            if let Some((resource, taken)) = node.used.iter().find(|(resource, taken)| *taken > has.get(resource)) {
                return Err(Inconsistent(format!("{name}: {taken} of {resource} are taken, it has {}", has.get(resource))));
            }
        }
        let placed = self.assignments.unordered().map(|(_, assignment)| (&*assignment.pod, assignment.node.as_str()));
        self.tallies.check(placed.clone(), &self.namespaces)?;
        self.placed_terms.check(placed, &self.nodes)?;
        if let Some(order) = self.fresh.iter().find(|order| !self.waiting.contains_key(order)) {
            return Err(Inconsistent(format!("pod {} is new and does not wait", order.4)));
        }
        let waiting = self.waiting.values().filter(|pod| !self.mounting.contains(&pod.uid));
        let queued: BTreeSet<&str> = waiting.chain(self.parked.iter()).chain(self.held.iter()).map(|pod| pod.uid.as_str()).collect();
        self.assignments
            .unordered()
            .find(|(uid, _)| queued.contains(uid.as_str()))
            .map_or(Ok(()), |(uid, _)| Err(Inconsistent(format!("pod {uid} is placed and waits"))))
    }
}

/// The sets of pods that a pod without a node waits for: more or fewer of them can help it.
fn watched(pod: &PodInfo) -> Vec<PodSet> {
    let spread = pod.wishes().spread.iter().filter(|constraint| constraint.required).map(|constraint| constraint.pods.clone());
    spread.chain(required_pods(pod)).collect()
}

fn order(pod: &PodInfo) -> Order {
    (Reverse(pod.priority), pod.created, pod.namespace.clone(), pod.name.clone(), pod.uid.clone())
}

#[cfg(test)]
mod tests;
