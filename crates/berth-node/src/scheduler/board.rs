//! Who is where, who waits, and where the next one goes. No clock, no IO.

use super::{
    affinity::shuns,
    claims::{ByClaim, Claims, Verdict},
    fit::{Misfit, NodeState},
    view::{AntiAffinityTerm, DEFAULT_SCHEDULER, NodeView, PodView},
};
use berth_controllers::cache::ObjectKey;
use berth_workloads::volume_binding::{ClaimView, ClassView};
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
    /// Pods that one of their claims holds up; they wait again when something happens to any of these.
    held: ByClaim,
    /// Pods that have a place and are bound to it as soon as their claims have volumes. They wait as well when a claim has changed.
    mounting: ByClaim,
    claims: Claims,
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
    /// As `Node`, but these claims must be told of the node first: it is bound when they have volumes.
    Volumes(Arc<PodView>, String, Vec<Arc<ClaimView>>),
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
            if self.mounting.contains(&pod.uid) {
                return self.remove_pod(&pod);
            }
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
        let is_there = |pod: &PodView| self.places.get(&pod.uid).is_some_and(|place| place.node == name);
        let stranded: Vec<Arc<PodView>> = self.mounting.iter().filter(|pod| is_there(pod)).cloned().collect();
        stranded.iter().for_each(|pod| self.give_back(pod));
    }

    /// Takes in a claim's new version.
    pub fn set_claim(&mut self, claim: Arc<ClaimView>) {
        let key = ObjectKey::new(&claim.meta.namespace, &claim.meta.name);
        self.claims.set_claim(claim);
        self.claim_changed(&key);
    }

    /// Takes in that a claim is gone.
    pub fn remove_claim(&mut self, claim: &ClaimView) {
        let key = ObjectKey::new(&claim.meta.namespace, &claim.meta.name);
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

    /// Lets pods wait again that the claim held up, or that are about to mount it.
    fn claim_changed(&mut self, key: &ObjectKey) {
        for pod in self.held.users(key) {
            self.held.remove(&pod.uid);
            self.waiting.insert(order(&pod), pod);
        }
        self.mounting.users(key).into_iter().for_each(|pod| _ = self.waiting.insert(order(&pod), pod));
    }

    /// Takes back a decision that could not be carried out; the pod waits again, unless it is bound or gone by now.
    pub fn give_back(&mut self, pod: &Arc<PodView>) {
        if self.places.get(&pod.uid).is_some_and(|place| !place.bound) && self.vacate(&pod.uid) {
            self.mounting.remove(&pod.uid);
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
                    self.place(&pod, &node, false);
                    if delayed.is_empty() {
                        Placement::Node(pod, node)
                    } else {
                        self.mounting.insert(Arc::clone(&pod));
                        Placement::Volumes(pod, node, delayed)
                    }
                }
                Err(message) => {
                    self.parked.insert(pod.uid.clone(), Arc::clone(&pod));
                    Placement::Nowhere(pod, message)
                }
            });
        }
    }

    /// A claim of the pod cannot be used: the pod gives up its place, if it had one.
    fn hold(&mut self, pod: Arc<PodView>, why: &str) -> Placement {
        if self.mounting.remove(&pod.uid).is_some() && self.vacate(&pod.uid) {
            self.unpark();
        }
        self.held.insert(Arc::clone(&pod));
        Placement::Nowhere(pod, format!("0/{} nodes are available: {why}.", self.nodes.len()))
    }

    /// The pod has a place, and all its claims have volumes now, or not yet.
    fn bind_mounted(&mut self, pod: &Arc<PodView>, delayed: &[Arc<ClaimView>]) -> Option<Placement> {
        if !delayed.is_empty() {
            return None;
        }
        self.mounting.remove(&pod.uid);
        let place = self.places.get(&pod.uid)?;
        Some(Placement::Node(Arc::clone(pod), place.node.clone()))
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
        let waiting = self.waiting.values().filter(|pod| !self.mounting.contains(&pod.uid));
        let queued: BTreeSet<&str> = waiting.chain(self.parked.values()).chain(self.held.iter()).map(|pod| pod.uid.as_str()).collect();
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
    use serde_json::json;

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
                Placement::Volumes(pod, node, claims) => format!("{}@{node} with {} claims", pod.name, claims.len()),
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

    fn claim(name: &str, json: serde_json::Value) -> Arc<ClaimView> {
        let mut claim = json!({"metadata": {"name": name, "uid": name, "annotations": {}}, "spec": {}, "status": {"phase": "Pending"}});
        for (member, values) in json.as_object().into_iter().flatten() {
            values.as_object().into_iter().flatten().for_each(|(key, value)| claim[member][key] = value.clone());
        }
        Arc::new(ClaimView::decode(claim.to_string().as_bytes(), 1).expect("a claim"))
    }

    fn bound(name: &str) -> Arc<ClaimView> {
        claim(
            name,
            json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "v"}, "status": {"phase": "Bound"}}),
        )
    }

    fn using(mut pod: PodView, claims: &[&str]) -> Arc<PodView> {
        pod.claims = claims.iter().map(|claim| (*claim).to_owned()).collect();
        Arc::new(pod)
    }

    fn waiting_class() -> ClassView {
        let class = json!({"metadata": {"name": "late"}, "provisioner": "p", "volumeBindingMode": "WaitForFirstConsumer"});
        ClassView::decode(class.to_string().as_bytes(), 1).expect("a class")
    }

    #[test]
    fn a_pod_waits_for_its_claims_and_only_for_them() {
        let mut board = check(vec![node("a", 1000)], vec![], &[]);
        board.set_pod(using(pod("p-1", 100), &["data", "logs"]));
        assert_eq!(decided(&mut board), [r#"p-1: 0/1 nodes are available: persistentvolumeclaim "data" not found."#]);
        board.set_claim(claim("data", json!({})));
        assert_eq!(decided(&mut board), ["p-1: 0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."]);
        board.set_node(Arc::new(node("b", 1000)));
        board.set_claim(bound("other"));
        assert_eq!(decided(&mut board), Vec::<String>::new(), "neither nodes nor other claims help");
        board.set_claim(bound("data"));
        assert_eq!(decided(&mut board), [r#"p-1: 0/2 nodes are available: persistentvolumeclaim "logs" not found."#]);
        board.set_claim(bound("logs"));
        assert_eq!(decided(&mut board), ["p-1@a"]);
        board.set_claim(claim("gone", json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})));
        board.set_claim(claim("lost", json!({"spec": {"volumeName": "v"}, "status": {"phase": "Lost"}})));
        board.set_pod(using(pod("p-2", 100), &["gone"]));
        board.set_pod(using(pod("p-3", 100), &["lost"]));
        let expected = [
            r#"p-2: 0/2 nodes are available: persistentvolumeclaim "gone" is being deleted."#,
            r#"p-3: 0/2 nodes are available: persistentvolumeclaim "lost" bound to non-existent persistentvolume "v"."#,
        ];
        assert_eq!(decided(&mut board), expected);
    }

    #[test]
    fn a_claim_that_waits_for_a_node_is_told_of_it_before_its_pod_is_bound() {
        let mut board = check(vec![node("a", 1000), node("b", 500)], vec![], &[]);
        let late = |annotations: serde_json::Value| {
            claim("data", json!({"metadata": {"annotations": annotations}, "spec": {"storageClassName": "late"}}))
        };
        board.set_claim(late(json!({})));
        board.set_pod(using(pod("p-1", 900), &["data"]));
        assert_eq!(decided(&mut board), ["p-1: 0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims."]);
        board.set_class(&waiting_class());
        assert_eq!(decided(&mut board), ["p-1@a with 1 claims"]);
        board.set_claim(late(json!({"volume.kubernetes.io/selected-node": "a"})));
        board.set_pod(Arc::new(pod("p-2", 900)));
        let full = "p-2: 0/2 nodes are available: 2 Insufficient cpu.";
        assert_eq!(decided(&mut board), [full], "the place is kept while the volume is made");
        board.remove_node("a");
        board.set_node(Arc::new(node("c", 2000)));
        assert_eq!(decided(&mut board), ["p-1@c with 1 claims", "p-2@c"], "a node that goes gives its pods back");
        board.set_claim(bound("data"));
        assert_eq!(decided(&mut board), ["p-1@c"]);
        assert_eq!(decided(&mut board), Vec::<String>::new());
    }

    #[test]
    fn a_pod_that_is_deleted_while_its_volume_is_made_gives_its_place_up() {
        let mut board = check(vec![node("a", 1000)], vec![], &[]);
        board.set_class(&waiting_class());
        board.set_claim(claim("data", json!({"spec": {"storageClassName": "late"}})));
        board.set_pod(using(pod("p-1", 900), &["data"]));
        board.set_pod(Arc::new(pod("p-2", 900)));
        assert_eq!(decided(&mut board), ["p-1@a with 1 claims", "p-2: 0/1 nodes are available: 1 Insufficient cpu."]);
        board.set_pod(using(PodView { deleting: true, ..pod("p-1", 900) }, &["data"]));
        assert_eq!(decided(&mut board), ["p-2@a"]);
        board.set_claim(bound("data"));
        assert_eq!(decided(&mut board), Vec::<String>::new());
    }
}
