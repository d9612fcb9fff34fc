//! Room for a pod of a higher priority: which pods have to go, and on which node that does the least harm. No clock, no IO.
//!
//! Source: kube-scheduler, plugin `DefaultPreemption`.

use super::view::PodInfo;
use berth_identity::{ObjectKey, Uid};
use berth_workloads::view::BudgetView;
use jiff::Timestamp;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// How many nodes with room to make are compared at least, and what part of all nodes.
const CANDIDATES_MIN: usize = 100;
const CANDIDATES_PART: usize = 10;

/// What has to go from a node for a pod to fit there.
#[derive(Clone, Debug)]
pub(super) struct Room {
    pub(super) node: String,
    /// More important ones first.
    pub(super) victims: Vec<Arc<PodInfo>>,
    /// How many of them their disruption budget does not want to lose.
    pub(super) violations: usize,
}

/// How many candidates are enough to choose from.
pub(super) fn enough(nodes: usize) -> usize {
    CANDIDATES_MIN.max(nodes / CANDIDATES_PART)
}

/// The candidate that does the least harm: fewest budgets broken, then the lowest highest priority, the lowest sum of priorities, the fewest pods, those
/// that started last, the first by name.
pub(super) fn least_harm(rooms: Vec<Room>) -> Option<Room> {
    rooms.into_iter().min_by_key(|room| {
        let highest = room.victims.iter().map(|victim| victim.priority).max();
        // Each counts as more than nothing, however low its priority.
        let sum: i64 = room.victims.iter().map(|victim| i64::from(victim.priority) - i64::from(i32::MIN)).sum();
        let highest_ones = room.victims.iter().filter(|victim| Some(victim.priority) == highest);
        let earliest = highest_ones.map(|victim| started(victim)).min();
        (room.violations, highest, sum, room.victims.len(), Reverse(earliest), room.node.clone())
    })
}

/// In the order in which they are kept if there is room for some: higher priorities first, then those that run for longer.
pub(super) fn by_importance(pods: &mut [Arc<PodInfo>]) {
    pods.sort_by_key(|pod| (Reverse(pod.priority), started(pod), pod.namespace.clone(), pod.name.clone()));
}

/// A pod that has not started yet counts as one that starts now.
fn started(pod: &PodInfo) -> Timestamp {
    pod.started.unwrap_or(Timestamp::MAX)
}

/// All disruption budgets.
#[derive(Debug, Default)]
pub(super) struct Budgets(BTreeMap<ObjectKey, Arc<BudgetView>>);

impl Budgets {
    pub(super) fn set(&mut self, budget: Arc<BudgetView>) {
        self.0.insert(budget.meta.key(), budget);
    }

    pub(super) fn remove(&mut self, budget: &BudgetView) {
        self.0.remove(&budget.meta.key());
    }

    /// Those of `pods`, by uid, that would go against the will of a budget if all went, in this order.
    pub(super) fn violated_by(&self, pods: &[Arc<PodInfo>]) -> BTreeSet<Uid> {
        let mut allowed: BTreeMap<&ObjectKey, i32> = BTreeMap::new();
        let mut violating = BTreeSet::new();
        for pod in pods.iter().filter(|_| !self.0.is_empty()) {
            for (key, budget) in self.0.iter().filter(|(_, budget)| protects(budget, pod)) {
                let left = allowed.entry(key).or_insert(budget.status.disruptions_allowed.unwrap_or(0));
                *left -= 1;
                if *left < 0 {
                    violating.insert(pod.uid.clone());
                }
            }
        }
        violating
    }
}

/// Whether the budget still has to be asked about the pod: one that it has let go already is none of its business.
fn protects(budget: &BudgetView, pod: &PodInfo) -> bool {
    let selector = budget.selector.as_ref().filter(|selector| !selector.is_empty() && selector.matches(&pod.labels));
    budget.meta.namespace == pod.namespace
        && selector.is_some()
        && !budget.status.disrupted_pods.iter().flatten().any(|(name, _)| *name == pod.name)
}

/// Where room is being made, and for which pods. A nomination counts from when it is decided, before the pod shows it.
#[derive(Debug, Default)]
pub(super) struct Nominations {
    nodes: BTreeMap<String, BTreeMap<Uid, Arc<PodInfo>>>,
    /// By uid: the node, and whether the pod shows the nomination.
    pods: BTreeMap<Uid, (String, bool)>,
}

impl Nominations {
    /// Records the nomination in a pod. A decision that the pod cannot show yet stays.
    pub(super) fn hear(&mut self, pod: &Arc<PodInfo>) {
        match (self.pods.get(&pod.uid), &pod.nominated_node) {
            (Some((decided, false)), said) if said.as_ref() != Some(decided) => {
                let node = decided.clone();
                self.put(pod, &node, false);
            }
            (_, Some(node)) => self.put(pod, node, true),
            (_, None) => _ = self.remove(&pod.uid),
        }
    }

    /// Decides that room is made there.
    pub(super) fn decide(&mut self, pod: &Arc<PodInfo>, node: &str) {
        self.put(pod, node, pod.nominated_node.as_deref() == Some(node));
    }

    fn put(&mut self, pod: &Arc<PodInfo>, node: &str, said: bool) {
        self.remove(&pod.uid);
        self.nodes.entry(node.to_owned()).or_default().insert(pod.uid.clone(), Arc::clone(pod));
        self.pods.insert(pod.uid.clone(), (node.to_owned(), said));
    }

    pub(super) fn remove(&mut self, uid: &str) -> bool {
        let Some((node, _)) = self.pods.remove(uid) else { return false };
        if let Some(pods) = self.nodes.get_mut(&node) {
            pods.remove(uid);
            if pods.is_empty() {
                self.nodes.remove(&node);
            }
        }
        true
    }

    /// The node where room is being made for the pod.
    pub(super) fn node_of(&self, uid: &str) -> Option<&str> {
        self.pods.get(uid).map(|(node, _)| node.as_str())
    }

    /// The pods for which room is being made on the node, and which `pod` may not block.
    pub(super) fn before(&self, pod: &PodInfo, node: &str) -> Vec<&Arc<PodInfo>> {
        let there = self.nodes.get(node).into_iter().flat_map(BTreeMap::values);
        there.filter(|other| other.uid != pod.uid && other.priority >= pod.priority).collect()
    }

    /// The pods that lose the room that is being made for them there, because `pod` needs it.
    pub(super) fn outbid(&self, pod: &PodInfo, node: &str) -> Vec<Arc<PodInfo>> {
        let there = self.nodes.get(node).into_iter().flat_map(BTreeMap::values);
        there.filter(|other| other.priority < pod.priority).cloned().collect()
    }
}
