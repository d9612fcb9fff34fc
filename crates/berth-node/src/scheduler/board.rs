//! Who is where, who waits, and where the next one goes. No clock, no IO.

use super::{
    Inconsistent,
    affinity::shuns,
    claims::{ByClaim, Claims, Verdict},
    fit::{Misfit, NodeState},
    preempt::{self, Budgets, Nominations, Room},
    spread::{Spread, Tallies},
    view::{AntiAffinityTerm, DEFAULT_SCHEDULER, NodeView, PodInfo},
};
use berth_identity::{Lookup, Name, Namespace, NodeName, ObjectKey, Uid};
use berth_workloads::{
    view::BudgetView,
    volume_binding::{ClaimView, ClassView},
};
use jiff::Timestamp;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The label whose value is the node itself; the usual topology of anti-affinity.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// All that placing pods depends on. Fed with every change of pods and nodes, and with the scheduler's own decisions, which count at once.
#[derive(Debug, Default)]
pub struct Board {
    nodes: BTreeMap<String, NodeState>,
    /// Where each pod is, or is about to be: uid to node.
    assignments: Lookup<Uid, Assignment>,
    waiting: BTreeMap<Order, Arc<PodInfo>>,
    /// Pods for which no node was found; they wait again when anything changes that could help.
    parked: BTreeMap<Uid, Arc<PodInfo>>,
    /// Pods that one of their claims holds up; they wait again when something happens to any of these.
    held: ByClaim,
    /// Pods that have a place and are bound to it as soon as their claims have volumes. They wait as well when a claim has changed.
    mounting: ByClaim,
    claims: Claims,
    tallies: Tallies,
    budgets: Budgets,
    nominations: Nominations,
    /// Uids of pods that were evicted to make room, but do not show it yet.
    going: BTreeSet<Uid>,
    /// How many placed pods shun others beyond their own node.
    wide_terms: usize,
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
    /// As `Node`, but the node must first be written to these claims: the pod is bound when they have volumes.
    Volumes(Arc<PodInfo>, String, Vec<Arc<ClaimView>>),
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
        let placed = self.assignments.unordered().map(|(_, assignment)| (&*assignment.pod, assignment.node.as_str()));
        self.tallies.add_user(&pod, placed);
        if pod.deleting {
            self.going.remove(&pod.uid);
        }
        if !pod.node_name.is_empty() {
            self.unqueue(&pod);
            self.nominations.remove(&pod.uid);
            return self.place(&pod, &pod.node_name, true);
        }
        let scheduler = &pod.wishes().scheduler_name;
        let ours = scheduler.is_empty() || scheduler == DEFAULT_SCHEDULER;
        if !ours || pod.gated || pod.deleting {
            if self.mounting.contains(&pod.uid) {
                return self.remove_pod(&pod);
            }
            self.unqueue(&pod);
            return self.forgo(&pod.uid);
        }
        // A pod that is about to be bound needs no second look, nor does a parked one that asks for what it asked before.
        if self.assignments.contains_key(&pod.uid) {
            return;
        }
        self.nominations.hear(&pod);
        match self.parked.get_mut(&pod.uid) {
            Some(parked) if parked.asks_as(&pod) => *parked = pod,
            _ => {
                self.unqueue(&pod);
                self.waiting.insert(order(&pod), pod);
            }
        }
    }

    /// Takes in that a pod is gone, or holds nothing any more.
    pub fn remove_pod(&mut self, pod: &PodInfo) {
        self.unqueue(pod);
        self.tallies.remove_user(&pod.uid);
        self.going.remove(&pod.uid);
        self.forgo(&pod.uid);
        if self.vacate(&pod.uid) {
            self.unpark();
        }
    }

    /// The pod needs no room any more that was being made for it: others may have it.
    fn forgo(&mut self, uid: &str) {
        if self.nominations.remove(uid) {
            self.unpark();
        }
    }

    /// Takes in a node's new version.
    pub fn set_node(&mut self, node: Arc<NodeView>) {
        if let Some(state) = self.nodes.get_mut(&*node.name) {
            state.view = node;
        } else {
            let mut state = NodeState { view: Arc::clone(&node), ..NodeState::default() };
            self.assignments
                .unordered()
                .filter(|(_, assignment)| *assignment.node == *node.name)
                .for_each(|(_, assignment)| state.insert(&assignment.pod));
            self.nodes.insert(node.name.to_string(), state);
        }
        self.unpark();
    }

    /// Takes in that a node is gone.
    pub fn remove_node(&mut self, name: &str) {
        self.nodes.remove(name);
        let is_there = |pod: &PodInfo| self.assignments.get(&pod.uid).is_some_and(|assignment| assignment.node == name);
        let stranded: Vec<Arc<PodInfo>> = self.mounting.iter().filter(|pod| is_there(pod)).cloned().collect();
        stranded.iter().for_each(|pod| self.give_back(pod));
    }

    /// Takes in a claim's new version.
    pub fn set_claim(&mut self, claim: Arc<ClaimView>) {
        let key = claim.meta.key();
        self.claims.set_claim(claim);
        self.claim_changed(&key);
    }

    /// Takes in that a claim is gone.
    pub fn remove_claim(&mut self, claim: &ClaimView) {
        let key = claim.meta.key();
        self.claims.remove_claim(&key);
        self.claim_changed(&key);
    }

    /// Takes in a storage class' new version.
    pub fn set_class(&mut self, class: &ClassView) {
        if self.claims.set_class(class) {
            let held = std::mem::take(&mut self.held);
            held.iter().for_each(|pod| _ = self.waiting.insert(order(pod), Arc::clone(pod)));
        }
    }

    /// Takes in that a storage class is gone.
    pub fn remove_class(&mut self, class: &ClassView) {
        self.claims.remove_class(&class.meta.name);
    }

    /// Takes in a disruption budget's new version.
    pub fn set_budget(&mut self, budget: Arc<BudgetView>) {
        self.budgets.set(budget);
    }

    /// Takes in that a disruption budget is gone.
    pub fn remove_budget(&mut self, budget: &BudgetView) {
        self.budgets.remove(budget);
    }

    /// Lets pods wait again that the claim held up, or that are about to mount it.
    fn claim_changed(&mut self, key: &ObjectKey) {
        for pod in self.held.users(key) {
            self.held.remove(&pod.uid);
            self.waiting.insert(order(&pod), pod);
        }
        self.mounting.users(key).into_iter().for_each(|pod| _ = self.waiting.insert(order(&pod), pod));
    }

    /// Reverts a decision that could not be executed. The pod waits again, unless it is bound or deleted by now.
    pub fn give_back(&mut self, pod: &Arc<PodInfo>) {
        if self.assignments.get(&pod.uid).is_some_and(|assignment| !assignment.bound) && self.vacate(&pod.uid) {
            self.mounting.remove(&pod.uid);
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
        if let Some(pod) = self.parked.remove(&pod.uid) {
            self.waiting.insert(order(&pod), pod);
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
        let changed = self.tallies.take_changed();
        if !changed.is_empty() {
            let helped = self.parked.extract_if(.., |_, pod| changed.may_help(pod));
            helped.for_each(|(_, pod)| _ = self.waiting.insert(order(&pod), pod));
        }
        std::iter::from_fn(|| self.decide_next()).take(count).collect()
    }

    fn decide_next(&mut self) -> Option<Placement> {
        loop {
            let (_, pod) = self.waiting.pop_first()?;
            let delayed = match self.claims.verdict(&pod) {
                Verdict::Held { why } => return Some(self.hold(pod, &why)),
                Verdict::Placeable { delayed } => delayed,
            };
            if self.mounting.contains(&pod.uid) {
                match self.bind_mounted(&pod, &delayed) {
                    Some(placement) => return Some(placement),
                    None => continue,
                }
            }
            return Some(match self.find(&pod) {
                Ok(node) => {
                    self.nominations.remove(&pod.uid);
                    self.place(&pod, &node, false);
                    if delayed.is_empty() {
                        Placement::Node(pod, node)
                    } else {
                        self.mounting.insert(Arc::clone(&pod));
                        Placement::Volumes(pod, node, delayed)
                    }
                }
                Err(nowhere) => self.park(pod, nowhere),
            });
        }
    }

    /// A claim of the pod cannot be used: the pod gives up its place, if it had one.
    fn hold(&mut self, pod: Arc<PodInfo>, why: &str) -> Placement {
        if self.mounting.remove(&pod.uid).is_some() && self.vacate(&pod.uid) {
            self.unpark();
        }
        self.held.insert(Arc::clone(&pod));
        let unhelpful = if pod.preempts {
            self.nothing_available(self.nodes.keys().map(|_| NOT_HELPFUL.to_owned()))
        } else {
            NEVER_PREEMPTS.to_owned()
        };
        let message = format!("0/{} nodes are available: {why}. preemption: {unhelpful}", self.nodes.len());
        Placement::Nowhere(pod, message)
    }

    /// The pod has a place, and all its claims have volumes now, or not yet.
    fn bind_mounted(&mut self, pod: &Arc<PodInfo>, delayed: &[Arc<ClaimView>]) -> Option<Placement> {
        if !delayed.is_empty() {
            return None;
        }
        self.mounting.remove(&pod.uid);
        let assignment = self.assignments.get(&pod.uid)?;
        Some(Placement::Node(Arc::clone(pod), assignment.node.to_string()))
    }

    /// The node for the pod: the one where room was made, if it can take it; else the emptiest one that can, as far as the pod's wishes about being spread
    /// leave that open; the one with fewer pods, then the first by name, if several are alike. If there is none, why not, for each node.
    fn find(&self, pod: &PodInfo) -> Result<String, Nowhere> {
        let spread = Spread::of(pod, &self.nodes, &self.tallies);
        let nominated = self.nominations.node_of(&pod.uid).and_then(|name| self.nodes.get_key_value(name));
        if let Some((name, _)) = nominated.filter(|(_, node)| self.misfits(pod, node, &spread).is_empty()) {
            return Ok(name.clone());
        }
        let (mut fitting, mut misfits) = (Vec::new(), Vec::new());
        for node in self.nodes.values() {
            let found = self.misfits(pod, node, &spread);
            if found.is_empty() { fitting.push(node) } else { misfits.push((node, found)) }
        }
        let wishes = if spread.has_wishes() { spread.scores(&fitting) } else { vec![0; fitting.len()] };
        // The last of equals is taken: the first by name.
        let ranked = fitting.into_iter().zip(wishes).rev();
        let best = ranked.max_by_key(|(node, wish)| (node.score(pod) + wish * WISH_WEIGHT, Reverse(node.pods.len())));
        best.map(|(node, _)| node.view.name.to_string()).ok_or_else(|| self.nowhere(pod, &misfits, &spread))
    }

    /// Why the node cannot take the pod, pods that have been promised room there taken as being there.
    fn misfits(&self, pod: &PodInfo, node: &NodeState, spread: &Spread<'_>) -> Vec<Misfit> {
        let promised = self.nominations.before(pod, &node.view.name);
        if !promised.is_empty() {
            let mut trial = Trial::of(node);
            promised.into_iter().for_each(|other| trial.add(other));
            let misfits = self.misfits_as(pod, &trial.node, spread, &trial.changes);
            if !misfits.is_empty() {
                return misfits;
            }
        }
        self.misfits_as(pod, node, spread, &[])
    }

    /// Why a node as it is, or as it would be with `changes`, cannot take the pod.
    fn misfits_as(&self, pod: &PodInfo, node: &NodeState, spread: &Spread<'_>, changes: &[(Arc<PodInfo>, i64)]) -> Vec<Misfit> {
        let own = node.misfits(pod);
        if !own.is_empty() {
            return own;
        }
        spread.misfit(&node.view, changes).or_else(|| self.unwanted(node, pod)).into_iter().collect()
    }

    /// Why the pod fits nowhere, and how room can be made for it.
    fn nowhere(&self, pod: &PodInfo, misfits: &[(&NodeState, Vec<Misfit>)], spread: &Spread<'_>) -> Nowhere {
        if self.nodes.is_empty() {
            return Nowhere { why: "no nodes available to schedule pods".to_owned(), next: Next::Wait };
        }
        let why = self.nothing_available(misfits.iter().flat_map(|(_, misfits)| misfits).map(ToString::to_string));
        if !pod.preempts {
            return Nowhere { why: format!("{why} preemption: {NEVER_PREEMPTS}"), next: Next::Wait };
        }
        if self.awaits_victims(pod, misfits) {
            let text = "not eligible due to a terminating pod on the nominated node.";
            return Nowhere { why: format!("{why} preemption: {text}"), next: Next::Wait };
        }
        let (mut rooms, mut obstacles) = (Vec::new(), Vec::new());
        let enough = preempt::enough(self.nodes.len());
        for (node, misfits) in misfits {
            if !misfits.iter().all(Misfit::is_resolvable) {
                obstacles.push(NOT_HELPFUL.to_owned());
                continue;
            }
            match self.room_on(pod, node, spread) {
                Ok(room) => rooms.push(room),
                Err(mut found) => obstacles.append(&mut found),
            }
            if rooms.len() == enough {
                break;
            }
        }
        match preempt::least_harm(rooms) {
            Some(room) => Nowhere { why, next: Next::MakeRoom(room) },
            None => Nowhere { why: format!("{why} preemption: {}", self.nothing_available(obstacles.into_iter())), next: Next::Forgo },
        }
    }

    /// Whether pods that make room for this one on its node are not gone yet.
    fn awaits_victims(&self, pod: &PodInfo, misfits: &[(&NodeState, Vec<Misfit>)]) -> bool {
        let Some(nominated) = self.nominations.node_of(&pod.uid) else { return false };
        let is_going = |other: &PodInfo| self.going.contains(&other.uid) || (other.deleting && other.preempted);
        let found = misfits.iter().find(|(node, _)| node.view.name == nominated);
        found.is_some_and(|(node, misfits)| {
            let mut victims = node.pods.values().filter(|other| other.priority < pod.priority && is_going(other));
            misfits.iter().all(Misfit::is_resolvable) && victims.next().is_some()
        })
    }

    /// Which pods have to go from the node for this one: none that it could be spared. Else why it cannot take the pod even without them.
    fn room_on(&self, pod: &PodInfo, node: &NodeState, spread: &Spread<'_>) -> Result<Room, Vec<String>> {
        if !node.has_below(pod.priority) {
            return Err(vec!["No preemption victims found for incoming pod".to_owned()]);
        }
        let mut trial = Trial::of(node);
        let mut lower: Vec<Arc<PodInfo>> = node.pods.values().filter(|other| other.priority < pod.priority).cloned().collect();
        lower.iter().for_each(|other| trial.remove(other));
        self.nominations.before(pod, &node.view.name).into_iter().for_each(|other| trial.add(other));
        let misfits = self.misfits_as(pod, &trial.node, spread, &trial.changes);
        if !misfits.is_empty() {
            return Err(misfits.iter().map(ToString::to_string).collect());
        }
        preempt::by_importance(&mut lower);
        let violated = self.budgets.violated_by(&lower);
        let is_violated = |other: &Arc<PodInfo>| violated.contains(&other.uid);
        let mut room = Room { node: node.view.name.to_string(), victims: Vec::new(), violations: 0 };
        // Those that a budget protects are kept first, then the more important ones.
        lower.sort_by_key(|other| !is_violated(other));
        for other in lower {
            trial.add(&other);
            if !self.misfits_as(pod, &trial.node, spread, &trial.changes).is_empty() {
                trial.remove(&other);
                room.violations += usize::from(is_violated(&other));
                room.victims.push(other);
            }
        }
        Ok(room)
    }

    /// `0/3 nodes are available: 1 …, 2 ….`
    fn nothing_available(&self, reasons: impl Iterator<Item = String>) -> String {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        reasons.for_each(|reason| *counts.entry(reason).or_default() += 1);
        let mut texts: Vec<String> = counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        texts.sort();
        format!("0/{} nodes are available: {}.", self.nodes.len(), texts.join(", "))
    }

    /// Puts a pod aside for which no node was found.
    fn park(&mut self, pod: Arc<PodInfo>, Nowhere { why, next }: Nowhere) -> Placement {
        if let Next::Forgo = next {
            self.forgo(&pod.uid);
        }
        self.parked.insert(pod.uid.clone(), Arc::clone(&pod));
        let Next::MakeRoom(room) = next else { return Placement::Nowhere(pod, why) };
        let outbid = self.nominations.outbid(&pod, &room.node);
        for other in &outbid {
            self.nominations.remove(&other.uid);
            if let Some(other) = self.parked.remove(&other.uid) {
                self.waiting.insert(order(&other), other);
            }
        }
        self.nominations.decide(&pod, &room.node);
        let is_told = |victim: &PodInfo| victim.deleting || self.going.contains(&victim.uid);
        let victims: Vec<Arc<PodInfo>> = room.victims.into_iter().filter(|victim| !is_told(victim)).collect();
        self.going.extend(victims.iter().map(|victim| victim.uid.clone()));
        Placement::Room(MakeRoom { pod, node: room.node, victims, outbid, why })
    }

    /// Whether the pod and a pod in the same part of the cluster do not want each other.
    fn unwanted(&self, node: &NodeState, pod: &PodInfo) -> Option<Misfit> {
        let shuns_here = |term: &AntiAffinityTerm| self.neighbors(node, &term.topology_key).any(|other| shuns(term, other));
        if pod.anti_affinity.iter().any(shuns_here) {
            return Some(Misfit::AntiAffinity);
        }
        let on_node = node.shy.values().any(|other| other.anti_affinity.iter().any(|term| shuns(term, pod)));
        (on_node || (self.wide_terms > 0 && self.shunned_from_afar(node, pod))).then_some(Misfit::ExistingAntiAffinity)
    }

    fn shunned_from_afar(&self, node: &NodeState, pod: &PodInfo) -> bool {
        self.nodes.values().any(|elsewhere| {
            let mut terms = elsewhere.shy.values().flat_map(|other| &other.anti_affinity);
            // Those on the node itself have been checked.
            elsewhere.view.name != node.view.name
                && terms.any(|term| term.topology_key != HOSTNAME && same_part(node, elsewhere, &term.topology_key) && shuns(term, pod))
        })
    }

    /// The pods of all nodes that share the label's value with `node`.
    fn neighbors<'a>(&'a self, node: &'a NodeState, topology_key: &'a str) -> Box<dyn Iterator<Item = &'a Arc<PodInfo>> + 'a> {
        if topology_key == HOSTNAME {
            return Box::new(node.pods.values());
        }
        // The node is taken as it is given: it may be another than the one on the board.
        let others = self.nodes.values().filter(|other| other.view.name != node.view.name);
        let there = std::iter::once(node).chain(others);
        Box::new(there.filter(move |other| same_part(node, other, topology_key)).flat_map(|other| other.pods.values()))
    }

    fn place(&mut self, pod: &Arc<PodInfo>, node: &str, bound: bool) {
        if self.renew(pod, node, bound) {
            return;
        }
        let before = self.take_off(&pod.uid);
        // A pod that stays on its node is not counted again: most changes are of its status.
        let alike = |old: &PodInfo| old.labels == pod.labels && old.deleting == pod.deleting;
        if before.as_ref().is_none_or(|assignment| assignment.node != node || !alike(&assignment.pod)) {
            before.iter().for_each(|assignment| self.tallies.remove(&assignment.pod, &assignment.node));
            self.tallies.add(pod, node);
        }
        if let Some(state) = self.nodes.get_mut(node) {
            state.insert(pod);
        }
        self.wide_terms += wide_terms(pod);
        self.assignments.insert(pod.uid.clone(), Assignment { node: NodeName::shared(node), pod: Arc::clone(pod), bound });
    }

    /// Takes over a pod's new version that stays where it was, if nothing is counted otherwise for it; gives whether it did. Most changes are of a status.
    fn renew(&mut self, pod: &Arc<PodInfo>, node: &str, bound: bool) -> bool {
        let Some(assignment) = self.assignments.get_mut(&pod.uid).filter(|assignment| assignment.node == node) else { return false };
        let old = &assignment.pod;
        let is_alike =
            old.labels == pod.labels && old.deleting == pod.deleting && old.requests == pod.requests && old.priority == pod.priority;
        if !is_alike || !old.anti_affinity.is_empty() || !pod.anti_affinity.is_empty() {
            return false;
        }
        (assignment.pod, assignment.bound) = (Arc::clone(pod), bound);
        if let Some(here) = self.nodes.get_mut(node).and_then(|state| state.pods.get_mut(&pod.uid)) {
            *here = Arc::clone(pod);
        }
        true
    }

    fn vacate(&mut self, uid: &str) -> bool {
        let Some(assignment) = self.take_off(uid) else { return false };
        self.tallies.remove(&assignment.pod, &assignment.node);
        true
    }

    fn take_off(&mut self, uid: &str) -> Option<Assignment> {
        let assignment = self.assignments.remove(uid)?;
        if let Some(state) = self.nodes.get_mut(assignment.node.as_str()) {
            state.remove(uid);
        }
        self.wide_terms -= wide_terms(&assignment.pod);
        Some(assignment)
    }

    fn unqueue(&mut self, pod: &PodInfo) {
        self.waiting.remove(&order(pod));
        self.parked.remove(&pod.uid);
        self.mounting.remove(&pod.uid);
        self.held.remove(&pod.uid);
    }

    fn unpark(&mut self) {
        for pod in std::mem::take(&mut self.parked).into_values() {
            self.waiting.insert(order(&pod), pod);
        }
    }

    /// Checks that the running sums are what a recount gives; for tests and the simulation.
    ///
    /// # Errors
    /// What differs.
    pub fn check(&self) -> Result<(), Inconsistent> {
        for (name, node) in &self.nodes {
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
        self.tallies.check(self.assignments.unordered().map(|(_, assignment)| (&*assignment.pod, assignment.node.as_str())))?;
        let waiting = self.waiting.values().filter(|pod| !self.mounting.contains(&pod.uid));
        let queued: BTreeSet<&str> = waiting.chain(self.parked.values()).chain(self.held.iter()).map(|pod| pod.uid.as_str()).collect();
        self.assignments
            .unordered()
            .find(|(uid, _)| queued.contains(uid.as_str()))
            .map_or(Ok(()), |(uid, _)| Err(Inconsistent(format!("pod {uid} is placed and waits"))))
    }
}

/// How much a pod's wish to be spread counts, beside how empty a node is: twice as much, as in kube-scheduler. A wish is 0 to 100, emptiness 0 to 2000.
const WISH_WEIGHT: i64 = 40;

const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";
const NEVER_PREEMPTS: &str = "not eligible due to preemptionPolicy=Never.";

/// A pod that fits nowhere.
struct Nowhere {
    why: String,
    next: Next,
}

/// What becomes of a pod that fits nowhere.
enum Next {
    /// It waits; if room is being made for it somewhere, that stays so.
    Wait,
    /// It waits, and what room was made for it is no use.
    Forgo,
    MakeRoom(Room),
}

/// A node as it would be.
struct Trial {
    node: NodeState,
    /// What is otherwise than on the real one: pods there (1) or gone (-1), one after the other.
    changes: Vec<(Arc<PodInfo>, i64)>,
}

impl Trial {
    fn of(node: &NodeState) -> Self {
        Self { node: node.clone(), changes: Vec::new() }
    }

    fn add(&mut self, pod: &Arc<PodInfo>) {
        self.node.insert(pod);
        self.changes.push((Arc::clone(pod), 1));
    }

    fn remove(&mut self, pod: &Arc<PodInfo>) {
        self.node.remove(&pod.uid);
        self.changes.push((Arc::clone(pod), -1));
    }
}

fn wide_terms(pod: &PodInfo) -> usize {
    pod.anti_affinity.iter().filter(|term| term.topology_key != HOSTNAME).count()
}

fn same_part(node: &NodeState, other: &NodeState, topology_key: &str) -> bool {
    let value = node.view.labels.get(topology_key);
    value.is_some() && value == other.view.labels.get(topology_key)
}

fn order(pod: &PodInfo) -> Order {
    (Reverse(pod.priority), pod.created, pod.namespace.clone(), pod.name.clone(), pod.uid.clone())
}

#[cfg(test)]
mod tests;
