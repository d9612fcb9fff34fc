//! The search for a pod's node: which nodes can take it, which of them is best, and how room can be made if none can.

use super::{
    super::{
        claims::{ClaimChoice, VolumeNeeds},
        fit::{Misfit, NodeState},
        neighbors::Neighbors,
        preempt::{self, Room},
        score,
        spread::Spread,
        view::PodInfo,
    },
    Board,
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

/// How many nodes that can take a pod are enough to choose from, at least, and in a cluster of any size the least part of all nodes in percent.
///
/// Source: kube-scheduler, `numFeasibleNodesToFind`.
const CHOICES_MIN: usize = 100;
const CHOICES_MIN_PERCENT: usize = 5;

/// How many nodes that can take a pod are enough to choose from.
pub(super) fn enough_choices(nodes: usize) -> usize {
    let percent = 50_usize.saturating_sub(nodes / 125).max(CHOICES_MIN_PERCENT);
    if nodes < CHOICES_MIN { nodes } else { (nodes * percent / 100).max(CHOICES_MIN) }
}

/// What upstream's plug-in for resource claims reports before preemption.
const NO_CLAIMS: &str = "no new claims to deallocate, ";

/// Why a node is not available, or why preemption does not help there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    Misfit(Misfit),
    NotHelpful,
    NoVictims,
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Misfit(misfit) => misfit.fmt(f),
            Self::NotHelpful => f.write_str("Preemption is not helpful for scheduling"),
            Self::NoVictims => f.write_str("No preemption victims found for incoming pod"),
        }
    }
}

/// Reasons, with the number of nodes that they apply to.
#[derive(Debug, Default)]
struct Reasons(BTreeMap<Reason, usize>);

impl Reasons {
    fn add(&mut self, reason: Reason, nodes: usize) {
        if nodes > 0 {
            *self.0.entry(reason).or_default() += nodes;
        }
    }

    fn add_all(&mut self, misfits: &[Misfit]) {
        misfits.iter().for_each(|misfit| self.add(Reason::Misfit(misfit.clone()), 1));
    }

    /// `0/3 nodes are available: 1 …, 2 ….`
    fn sentence(&self, nodes: usize) -> String {
        // Reasons that differ for berth can be one for users.
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        self.0.iter().for_each(|(reason, count)| *counts.entry(reason.to_string()).or_default() += count);
        let mut texts: Vec<String> = counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        texts.sort();
        format!("0/{nodes} nodes are available: {}.", texts.join(", "))
    }
}

/// A pod that is placed, with all that the rules read of other objects.
pub(super) struct Request<'a> {
    pub(super) pod: &'a PodInfo,
    pub(super) needs: &'a VolumeNeeds,
    pub(super) spread: Spread<'a>,
    pub(super) neighbors: Neighbors<'a>,
    /// The only nodes that it can be on.
    pub(super) named: Option<BTreeSet<&'a str>>,
}

impl Request<'_> {
    fn may_be_on(&self, node: &NodeState) -> bool {
        self.named.as_ref().is_none_or(|named| named.contains(node.view.name.as_str()))
    }
}

/// The node for a pod, and how its claims get volumes there.
pub(super) struct Found {
    pub(super) node: String,
    pub(super) choices: Vec<ClaimChoice>,
}

/// A pod that fits nowhere.
pub(super) struct Nowhere {
    pub(super) why: String,
    pub(super) next: Next,
}

/// What becomes of a pod that fits nowhere.
pub(super) enum Next {
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

impl Board {
    /// As [`Board::find`], with the node where the next search begins if that changes.
    pub(super) fn search(&self, request: &Request<'_>) -> (Result<Found, Nowhere>, Option<String>) {
        let pod = request.pod;
        let choices = |node: &NodeState| {
            let choices = self.claims.choices(request.needs, &node.view, |name| self.nodes.get(name).is_some());
            Found { node: node.view.name.to_string(), choices: choices.unwrap_or_default() }
        };
        let nominated = self.nominations.node_of(&pod.uid).and_then(|name| self.nodes.get(name));
        if let Some(node) = nominated.filter(|node| request.may_be_on(node) && self.misfits(request, node).is_empty()) {
            return (Ok(choices(node)), None);
        }
        let enough = enough_choices(self.nodes.len());
        let (mut fitting, mut misfits, mut next_node) = (Vec::new(), Vec::new(), None);
        let mut nodes = self.candidates(request);
        for node in nodes.by_ref() {
            let found = self.misfits(request, node);
            if found.is_empty() {
                fitting.push(node);
            } else {
                misfits.push((node, found));
            }
            if fitting.len() == enough {
                break;
            }
        }
        if request.named.is_none() && self.nodes.len() > CHOICES_MIN {
            next_node = nodes.next().map(|node| node.view.name.to_string());
        }
        let scores =
            if fitting.len() > 1 { score::scores(pod, &fitting, &request.spread, &request.neighbors) } else { vec![0; fitting.len()] };
        let best = fitting.into_iter().zip(scores).max_by_key(|(node, score)| (*score, Reverse(node.pods.len()), Reverse(&node.view.name)));
        (best.map(|(node, _)| choices(node)).ok_or_else(|| self.nowhere(request, &misfits)), next_node)
    }

    /// The nodes that may take the pod as far as its node affinity names nodes, in the order of the search.
    fn candidates<'a>(&'a self, request: &'a Request<'_>) -> Box<dyn Iterator<Item = &'a NodeState> + 'a> {
        if let Some(named) = &request.named {
            return Box::new(named.iter().filter_map(|name| self.nodes.get(name)));
        }
        if self.nodes.len() <= CHOICES_MIN {
            return Box::new(self.nodes.values());
        }
        let (start, by_name) = (self.next_node.as_str(), &self.nodes.by_name);
        let after = by_name.range::<str, _>((Bound::Included(start), Bound::Unbounded));
        let before = by_name.range::<str, _>((Bound::Unbounded, Bound::Excluded(start)));
        Box::new(after.chain(before).map(|(_, node)| node))
    }

    /// Why the node cannot take the pod, pods that have been promised room there taken as being there.
    fn misfits(&self, request: &Request<'_>, node: &NodeState) -> Vec<Misfit> {
        let promised = self.nominations.before(request.pod, &node.view.name);
        if !promised.is_empty() {
            let mut trial = Trial::of(node);
            promised.into_iter().for_each(|other| trial.add(other));
            let misfits = self.misfits_as(request, &trial.node, &trial.changes);
            if !misfits.is_empty() {
                return misfits;
            }
        }
        self.misfits_as(request, node, &[])
    }

    /// Why a node as it is, or as it would be with `changes`, cannot take the pod: all reasons of the first violated rule.
    ///
    /// Source: the order of the filter plugins of kube-scheduler.
    fn misfits_as(&self, request: &Request<'_>, node: &NodeState, changes: &[(Arc<PodInfo>, i64)]) -> Vec<Misfit> {
        let own = node.misfits(request.pod);
        if !own.is_empty() {
            return own;
        }
        if !request.pod.claims.is_empty() {
            let of_volumes = self.claims.misfits(request.needs, &node.view, changes, |name| self.nodes.get(name).is_some());
            if !of_volumes.is_empty() {
                return of_volumes;
            }
        }
        let spread = request.spread.misfit(&node.view, changes);
        spread.or_else(|| request.neighbors.misfit(&node.view, changes)).into_iter().collect()
    }

    /// Why the pod fits nowhere, and how room can be made for it.
    fn nowhere(&self, request: &Request<'_>, misfits: &[(&NodeState, Vec<Misfit>)]) -> Nowhere {
        if self.nodes.len() == 0 {
            return Nowhere { why: "no nodes available to schedule pods".to_owned(), next: Next::Wait };
        }
        if request.named.as_ref().is_some_and(BTreeSet::is_empty) {
            let why = format!("0/{} nodes are available: pod affinity terms conflict. not found", self.nodes.len());
            return Nowhere { why, next: Next::Wait };
        }
        let pod = request.pod;
        let unnamed = self.nodes.len() - misfits.len();
        let mut reasons = Reasons::default();
        misfits.iter().for_each(|(_, misfits)| reasons.add_all(misfits));
        reasons.add(Reason::Misfit(Misfit::NotNamed), unnamed);
        let why = reasons.sentence(self.nodes.len());
        let without = |text: &str| format!("{why} {NO_CLAIMS}preemption: {text}");
        if !pod.preempts {
            return Nowhere { why: without("not eligible due to preemptionPolicy=Never."), next: Next::Wait };
        }
        if self.awaits_victims(pod, misfits) {
            return Nowhere { why: without("not eligible due to a terminating pod on the nominated node."), next: Next::Wait };
        }
        let (mut rooms, mut obstacles) = (Vec::new(), Reasons::default());
        obstacles.add(Reason::NotHelpful, unnamed);
        let enough = preempt::enough(self.nodes.len());
        for (node, misfits) in misfits {
            if !misfits.iter().all(Misfit::is_resolvable) {
                obstacles.add(Reason::NotHelpful, 1);
                continue;
            }
            match self.room_on(request, node) {
                Ok(Some(room)) => rooms.push(room),
                Ok(None) => obstacles.add(Reason::NoVictims, 1),
                Err(found) => obstacles.add_all(&found),
            }
            if rooms.len() == enough {
                break;
            }
        }
        match preempt::least_harm(rooms) {
            Some(room) => Nowhere { why, next: Next::MakeRoom(room) },
            None => Nowhere { why: without(&obstacles.sentence(self.nodes.len())), next: Next::Forgo },
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

    /// Which pods have to go from the node for this one: none that it could be spared. `None` if no pod may go. Else why the node cannot take the pod
    /// even without them.
    fn room_on(&self, request: &Request<'_>, node: &NodeState) -> Result<Option<Room>, Vec<Misfit>> {
        let pod = request.pod;
        if !node.has_below(pod.priority) {
            return Ok(None);
        }
        let mut trial = Trial::of(node);
        let mut lower: Vec<Arc<PodInfo>> = node.pods.values().filter(|other| other.priority < pod.priority).cloned().collect();
        lower.iter().for_each(|other| trial.remove(other));
        self.nominations.before(pod, &node.view.name).into_iter().for_each(|other| trial.add(other));
        let misfits = self.misfits_as(request, &trial.node, &trial.changes);
        if !misfits.is_empty() {
            return Err(misfits);
        }
        preempt::by_importance(&mut lower);
        let violated = self.budgets.violated_by(&lower);
        let is_violated = |other: &Arc<PodInfo>| violated.contains(&other.uid);
        let mut room = Room { node: node.view.name.to_string(), victims: Vec::new(), violations: 0 };
        // Those that a budget protects are kept first, then the more important ones.
        lower.sort_by_key(|other| !is_violated(other));
        for other in lower {
            trial.add(&other);
            if !self.misfits_as(request, &trial.node, &trial.changes).is_empty() {
                trial.remove(&other);
                room.violations += usize::from(is_violated(&other));
                room.victims.push(other);
            }
        }
        Ok(Some(room))
    }
}
