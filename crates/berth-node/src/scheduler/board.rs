//! Who is where, who waits, and where the next one goes. No clock, no IO.

use super::{
    affinity::shuns,
    fit::{Misfit, NodeState},
    view::{AntiAffinityTerm, DEFAULT_SCHEDULER, NodeView, PodView},
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
    places: BTreeMap<String, Place>,
    waiting: BTreeMap<Order, Arc<PodView>>,
    /// Pods for which no node was found; they wait again when anything changes that could help.
    parked: BTreeMap<String, Arc<PodView>>,
    /// How many placed pods shun others beyond their own node.
    wide_terms: usize,
}

#[derive(Debug)]
struct Place {
    node: String,
    pod: Arc<PodView>,
    /// Whether the pod itself says so; else it is this scheduler's decision, not yet seen to be carried out.
    bound: bool,
}

/// Higher priority first, then older, then by name.
type Order = (Reverse<i32>, Option<Timestamp>, String, String, String);

/// What becomes of one pod.
#[derive(Clone, Debug)]
pub enum Placement {
    /// It fits there; it counts as being there from now on.
    Node(Arc<PodView>, String),
    /// It fits nowhere: a sentence for people.
    Nowhere(Arc<PodView>, String),
}

impl Board {
    /// Takes in a pod's new version.
    pub fn set_pod(&mut self, pod: Arc<PodView>) {
        if pod.finished {
            return self.remove_pod(&pod);
        }
        if !pod.node_name.is_empty() {
            self.unqueue(&pod);
            return self.place(&pod, &pod.node_name, true);
        }
        let ours = pod.scheduler_name.is_empty() || pod.scheduler_name == DEFAULT_SCHEDULER;
        if !ours || pod.gated || pod.deleting {
            return self.unqueue(&pod);
        }
        // A pod that is about to be bound needs no second look, nor does a parked one that asks for what it asked before.
        if self.places.contains_key(&pod.uid) {
            return;
        }
        match self.parked.get_mut(&pod.uid) {
            Some(parked) if parked.asks_as(&pod) => *parked = pod,
            _ => {
                self.unqueue(&pod);
                self.waiting.insert(order(&pod), pod);
            }
        }
    }

    /// Takes in that a pod is gone, or holds nothing any more.
    pub fn remove_pod(&mut self, pod: &PodView) {
        self.unqueue(pod);
        if self.vacate(&pod.uid) {
            self.unpark();
        }
    }

    /// Takes in a node's new version.
    pub fn set_node(&mut self, node: Arc<NodeView>) {
        if let Some(state) = self.nodes.get_mut(&node.name) {
            state.view = node;
        } else {
            let mut state = NodeState { view: Arc::clone(&node), ..NodeState::default() };
            self.places.values().filter(|place| place.node == node.name).for_each(|place| state.insert(&place.pod));
            self.nodes.insert(node.name.clone(), state);
        }
        self.unpark();
    }

    /// Takes in that a node is gone.
    pub fn remove_node(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    /// Takes back a decision that could not be carried out; the pod waits again, unless it is bound or gone by now.
    pub fn give_back(&mut self, pod: &Arc<PodView>) {
        if self.places.get(&pod.uid).is_some_and(|place| !place.bound) && self.vacate(&pod.uid) {
            self.waiting.insert(order(pod), Arc::clone(pod));
        }
    }

    /// Whether a pod waits for a place.
    #[must_use]
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Decides about up to `count` waiting pods, one after the other, each knowing of those before it.
    pub fn decide(&mut self, count: usize) -> Vec<Placement> {
        std::iter::from_fn(|| self.decide_next()).take(count).collect()
    }

    fn decide_next(&mut self) -> Option<Placement> {
        let (_, pod) = self.waiting.pop_first()?;
        Some(match self.find(&pod) {
            Ok(node) => {
                self.place(&pod, &node, false);
                Placement::Node(pod, node)
            }
            Err(message) => {
                self.parked.insert(pod.uid.clone(), Arc::clone(&pod));
                Placement::Nowhere(pod, message)
            }
        })
    }

    /// The emptiest node that can take the pod; the one with fewer pods, then the first by name, if several are alike.
    fn find(&self, pod: &PodView) -> Result<String, String> {
        let mut best: Option<(i64, Reverse<usize>, &str)> = None;
        let mut misfits: BTreeMap<Misfit, usize> = BTreeMap::new();
        for (name, node) in &self.nodes {
            match node.misfit(pod).or_else(|| self.unwanted(node, pod)) {
                Some(misfit) => *misfits.entry(misfit).or_default() += 1,
                None => {
                    let rank = (node.score(pod), Reverse(node.pods.len()), name.as_str());
                    if best.is_none_or(|best| (rank.0, rank.1) > (best.0, best.1)) {
                        best = Some(rank);
                    }
                }
            }
        }
        best.map(|(.., name)| name.to_owned()).ok_or_else(|| self.nowhere(&misfits))
    }

    fn nowhere(&self, misfits: &BTreeMap<Misfit, usize>) -> String {
        if self.nodes.is_empty() {
            return "no nodes available to schedule pods".to_owned();
        }
        let mut reasons: Vec<String> = misfits.iter().map(|(misfit, count)| format!("{count} {misfit}")).collect();
        reasons.sort();
        format!("0/{} nodes are available: {}.", self.nodes.len(), reasons.join(", "))
    }

    /// Whether the pod and a pod in the same part of the cluster do not want each other.
    fn unwanted(&self, node: &NodeState, pod: &PodView) -> Option<Misfit> {
        let shuns_here = |term: &AntiAffinityTerm| self.neighbours(node, &term.topology_key).any(|other| shuns(term, other));
        if pod.anti_affinity.iter().any(shuns_here) {
            return Some(Misfit::AntiAffinity);
        }
        let on_node = node.shy.values().any(|other| other.anti_affinity.iter().any(|term| shuns(term, pod)));
        (on_node || (self.wide_terms > 0 && self.shunned_from_afar(node, pod))).then_some(Misfit::ExistingAntiAffinity)
    }

    fn shunned_from_afar(&self, node: &NodeState, pod: &PodView) -> bool {
        self.nodes.values().any(|elsewhere| {
            let terms = elsewhere.shy.values().flat_map(|other| &other.anti_affinity);
            terms
                .into_iter()
                .any(|term| term.topology_key != HOSTNAME && same_part(node, elsewhere, &term.topology_key) && shuns(term, pod))
        })
    }

    /// The pods of all nodes that share the label's value with `node`.
    fn neighbours<'a>(&'a self, node: &'a NodeState, topology_key: &'a str) -> Box<dyn Iterator<Item = &'a Arc<PodView>> + 'a> {
        if topology_key == HOSTNAME {
            return Box::new(node.pods.values());
        }
        Box::new(self.nodes.values().filter(move |other| same_part(node, other, topology_key)).flat_map(|other| other.pods.values()))
    }

    fn place(&mut self, pod: &Arc<PodView>, node: &str, bound: bool) {
        self.vacate(&pod.uid);
        if let Some(state) = self.nodes.get_mut(node) {
            state.insert(pod);
        }
        self.wide_terms += wide_terms(pod);
        self.places.insert(pod.uid.clone(), Place { node: node.to_owned(), pod: Arc::clone(pod), bound });
    }

    fn vacate(&mut self, uid: &str) -> bool {
        let Some(place) = self.places.remove(uid) else { return false };
        if let Some(state) = self.nodes.get_mut(&place.node) {
            state.remove(uid);
        }
        self.wide_terms -= wide_terms(&place.pod);
        true
    }

    fn unqueue(&mut self, pod: &PodView) {
        self.waiting.remove(&order(pod));
        self.parked.remove(&pod.uid);
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
    pub fn check(&self) -> Result<(), String> {
        for (name, node) in &self.nodes {
            let mut recount = crate::resources::Amounts::default();
            node.pods.values().for_each(|pod| recount.add(&pod.requests));
            if let Some((resource, amount)) = recount.iter().find(|(resource, amount)| node.used.get(resource) != *amount) {
                return Err(format!("{name}: {resource} is counted as {}, its pods ask for {amount}", node.used.get(resource)));
            }
            if let Some((resource, has)) = node.view.allocatable.iter().find(|(resource, has)| node.used.get(resource) > *has) {
                return Err(format!("{name}: {} of {resource} are taken, it has {has}", node.used.get(resource)));
            }
        }
        let queued: BTreeSet<&str> = self.waiting.values().chain(self.parked.values()).map(|pod| pod.uid.as_str()).collect();
        self.places.keys().find(|uid| queued.contains(uid.as_str())).map_or(Ok(()), |uid| Err(format!("pod {uid} is placed and waits")))
    }
}

fn wide_terms(pod: &PodView) -> usize {
    pod.anti_affinity.iter().filter(|term| term.topology_key != HOSTNAME).count()
}

fn same_part(node: &NodeState, other: &NodeState, topology_key: &str) -> bool {
    let value = node.view.labels.get(topology_key);
    value.is_some() && value == other.view.labels.get(topology_key)
}

fn order(pod: &PodView) -> Order {
    (Reverse(pod.priority), pod.created, pod.namespace.clone(), pod.name.clone(), pod.uid.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::Amounts;
    use berth_api::{
        Selector,
        k8s_openapi::api::core::v1::{Taint, Toleration},
    };

    fn node(name: &str, cpu: i64) -> NodeView {
        let labels = BTreeMap::from([(HOSTNAME.to_owned(), name.to_owned()), ("zone".to_owned(), "z".to_owned())]);
        NodeView {
            name: name.to_owned(),
            labels,
            allocatable: Amounts::from([("cpu", cpu), ("memory", 1 << 30), ("pods", 3)]),
            ..NodeView::default()
        }
    }

    fn pod(name: &str, cpu: i64) -> PodView {
        PodView {
            name: name.to_owned(),
            uid: name.to_owned(),
            labels: BTreeMap::from([("app".to_owned(), name.split('-').next().unwrap_or_default().to_owned())]),
            requests: Amounts::from([("cpu", cpu), ("pods", 1)]),
            ..PodView::default()
        }
    }

    fn shunning(mut pod: PodView, app: &str, topology_key: &str) -> PodView {
        let selector = Selector::parse(&format!("app={app}")).expect("a selector");
        pod.anti_affinity.push(AntiAffinityTerm { topology_key: topology_key.to_owned(), selector, namespaces: vec![String::new()] });
        pod
    }

    /// Places `pods` in order on `nodes`; gives `pod@node` or `pod: why not`.
    fn check(nodes: Vec<NodeView>, pods: Vec<PodView>, expected: &[&str]) -> Board {
        let mut board = Board::default();
        nodes.into_iter().for_each(|node| board.set_node(Arc::new(node)));
        pods.into_iter().for_each(|pod| board.set_pod(Arc::new(pod)));
        assert_eq!(decided(&mut board), expected);
        board
    }

    fn decided(board: &mut Board) -> Vec<String> {
        let placements = board.decide(usize::MAX);
        board.check().expect("the board is consistent");
        placements
            .into_iter()
            .map(|placement| match placement {
                Placement::Node(pod, node) => format!("{}@{node}", pod.name),
                Placement::Nowhere(pod, why) => format!("{}: {why}", pod.name),
            })
            .collect()
    }

    #[test]
    fn the_least_allocated_node_is_taken() {
        check(
            vec![node("a", 1000), node("b", 2000)],
            vec![pod("p-1", 500), pod("p-2", 500), pod("p-3", 500)],
            &["p-1@b", "p-2@a", "p-3@b"],
        );
    }

    #[test]
    fn a_pod_that_fits_nowhere_is_told_why() {
        check(vec![], vec![pod("p", 1)], &["p: no nodes available to schedule pods"]);
        check(vec![node("a", 100), node("b", 100)], vec![pod("p", 200)], &["p: 0/2 nodes are available: 2 Insufficient cpu."]);
        let cordoned = NodeView { unschedulable: true, ..node("b", 100) };
        check(
            vec![node("a", 100), cordoned],
            vec![pod("p", 200)],
            &["p: 0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable."],
        );
    }

    #[test]
    fn a_node_takes_no_more_pods_than_it_has_room_for() {
        let pods = (0..4).map(|number| pod(&format!("p-{number}"), 0)).collect();
        check(vec![node("a", 1000)], pods, &["p-0@a", "p-1@a", "p-2@a", "p-3: 0/1 nodes are available: 1 Too many pods."]);
    }

    #[test]
    fn taints_and_selectors_are_obeyed() {
        let taint = Taint { key: "gpu".to_owned(), value: Some("yes".to_owned()), effect: "NoSchedule".to_owned(), ..Taint::default() };
        let tainted = NodeView { taints: vec![taint], ..node("a", 1000) };
        let tolerant = PodView {
            tolerations: vec![Toleration { key: Some("gpu".to_owned()), operator: Some("Exists".to_owned()), ..Toleration::default() }],
            ..pod("p-2", 1)
        };
        check(
            vec![tainted],
            vec![pod("p-1", 1), tolerant],
            &["p-1: 0/1 nodes are available: 1 node(s) had untolerated taint(s) {gpu: yes}.", "p-2@a"],
        );
        let choosy = PodView { node_selector: BTreeMap::from([(HOSTNAME.to_owned(), "b".to_owned())]), ..pod("p-1", 1) };
        check(vec![node("a", 9000), node("b", 1000)], vec![choosy], &["p-1@b"]);
    }

    #[test]
    fn pods_that_shun_each_other_are_kept_apart_both_ways() {
        let pods = vec![shunning(pod("p-1", 1), "p", HOSTNAME), shunning(pod("p-2", 1), "p", HOSTNAME), pod("p-3", 1)];
        let why = "p-3: 0/2 nodes are available: 2 node(s) didn't satisfy existing pods anti-affinity rules.";
        check(vec![node("a", 1000), node("b", 1000)], pods, &["p-1@a", "p-2@b", why]);
        let wide = vec![shunning(pod("p-1", 1), "p", "zone"), pod("p-2", 1)];
        check(
            vec![node("a", 1000), node("b", 1000)],
            wide,
            &["p-1@a", "p-2: 0/2 nodes are available: 2 node(s) didn't satisfy existing pods anti-affinity rules."],
        );
    }

    #[test]
    fn a_parked_pod_waits_again_when_room_is_made() {
        let mut board = check(
            vec![node("a", 100)],
            vec![pod("p-1", 100), pod("p-2", 100)],
            &["p-1@a", "p-2: 0/1 nodes are available: 1 Insufficient cpu."],
        );
        assert!(!board.has_waiting());
        board.remove_pod(&pod("p-1", 100));
        assert_eq!(decided(&mut board), ["p-2@a"]);
    }

    #[test]
    fn a_failed_binding_gives_the_room_back() {
        let mut board = check(vec![node("a", 100)], vec![pod("p-1", 100)], &["p-1@a"]);
        board.give_back(&Arc::new(pod("p-1", 100)));
        assert_eq!(decided(&mut board), ["p-1@a"]);
    }

    #[test]
    fn a_node_seen_after_its_pods_counts_them() {
        let mut board = Board::default();
        board.set_pod(Arc::new(PodView { node_name: "a".to_owned(), ..pod("p-1", 100) }));
        board.set_node(Arc::new(node("a", 100)));
        board.set_pod(Arc::new(pod("p-2", 100)));
        assert_eq!(decided(&mut board), ["p-2: 0/1 nodes are available: 1 Insufficient cpu."]);
    }

    #[test]
    fn higher_priority_is_placed_first() {
        let urgent = PodView { priority: 10, ..pod("p-2", 100) };
        check(vec![node("a", 100)], vec![pod("p-1", 100), urgent], &["p-2@a", "p-1: 0/1 nodes are available: 1 Insufficient cpu."]);
    }
}
