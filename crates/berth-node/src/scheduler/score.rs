//! How well a node suits a pod, among the nodes that can take it.
//!
//! Source: kube-scheduler, the score plugins of the default profile and their weights. `ImageLocality` is missing: simulated nodes have no images.

use super::{
    fit::{NodeState, avoided_taints},
    neighbors::Neighbors,
    spread::Spread,
    view::{NodeView, PodInfo},
};
use crate::resources::Amounts;
use berth_workloads::placement::matches_term;

const NODE_AFFINITY_WEIGHT: i64 = 2;
const TAINT_WEIGHT: i64 = 3;
const SPREAD_WEIGHT: i64 = 2;
const NEIGHBORS_WEIGHT: i64 = 2;

/// The best score of a plug-in.
const SCORE_MAX: i64 = 100;

/// The scores of `nodes`, in their order.
pub(super) fn scores(pod: &PodInfo, nodes: &[&NodeState], spread: &Spread<'_>, neighbors: &Neighbors<'_>) -> Vec<i64> {
    let mut scores: Vec<i64> = nodes.iter().map(|node| least_allocated(pod, node) + balanced(pod, node)).collect();
    let mut add = |weight: i64, found: Vec<i64>| scores.iter_mut().zip(found).for_each(|(score, found)| *score += weight * found);
    if nodes.iter().any(|node| node.view.taints.iter().any(|taint| taint.effect == "PreferNoSchedule")) {
        let taints = nodes.iter().map(|node| avoided_taints(pod, &node.view)).collect();
        add(TAINT_WEIGHT, shares(taints).into_iter().map(|share| SCORE_MAX - share).collect());
    }
    if !pod.wishes().preferred_nodes.is_empty() {
        add(NODE_AFFINITY_WEIGHT, shares(nodes.iter().map(|node| preference(pod, &node.view)).collect()));
    }
    if spread.has_preferences() {
        add(SPREAD_WEIGHT, spread.scores(nodes));
    }
    if neighbors.has_preferences() {
        add(NEIGHBORS_WEIGHT, neighbors.scores(nodes));
    }
    scores
}

/// The parts of the largest, in percent.
fn shares(mut found: Vec<i64>) -> Vec<i64> {
    let most = found.iter().max().copied().unwrap_or(0);
    if most > 0 {
        found.iter_mut().for_each(|one| *one = SCORE_MAX * *one / most);
    }
    found
}

/// The weights of the preferred terms of node affinity that the node matches.
fn preference(pod: &PodInfo, node: &NodeView) -> i64 {
    let terms = pod.wishes().preferred_nodes.iter();
    terms.filter(|term| matches_term(&term.preference, &node.name, &node.labels)).map(|term| i64::from(term.weight)).sum()
}

/// How much of cpu and memory would be left: their mean in percent. Pods that request nothing count as small ones.
fn least_allocated(pod: &PodInfo, node: &NodeState) -> i64 {
    let left = |has: i64, used: i64, nominal: i64| {
        let taken = used.saturating_add(nominal);
        if taken > has { 0 } else { (has - taken).saturating_mul(SCORE_MAX) / has }
    };
    let has = &node.view.allocatable;
    let (used, nominal) = (node.nominal, pod.nominal);
    let found = [(has.cpu(), used.cpu, nominal.cpu), (has.memory(), used.memory, nominal.memory)];
    let counted = found.into_iter().filter(|(has, ..)| *has > 0);
    let (sum, count) = counted.fold((0, 0), |(sum, count), (has, used, nominal)| (sum + left(has, used, nominal), count + 1));
    if count == 0 { 0 } else { sum / count }
}

/// Whether the parts of cpu and memory in use become more equal (above 75), or less (below). 0 for a pod that requests nothing.
fn balanced(pod: &PodInfo, node: &NodeState) -> i64 {
    if pod.requests.cpu() == 0 && pod.requests.memory() == 0 {
        return 0;
    }
    let (with, without) = (balance(node, &pod.requests), balance(node, &Amounts::default()));
    (150 + with - without).div_euclid(2)
}

/// How equal the parts of cpu and memory are that would be requested with `more`, in percent.
fn balance(node: &NodeState, more: &Amounts) -> i64 {
    #[expect(clippy::cast_precision_loss, reason = "upstream's result, which is the same on all machines")]
    let part = |amount: fn(&Amounts) -> i64| {
        let has = amount(&node.view.allocatable);
        let used = amount(&node.used).saturating_add(amount(more));
        (has > 0).then(|| (used as f64 / has as f64).min(1.0))
    };
    let (Some(cpu), Some(memory)) = (part(Amounts::cpu), part(Amounts::memory)) else { return SCORE_MAX };
    // The standard deviation of two parts is half their difference.
    #[expect(clippy::cast_possible_truncation, reason = "between 0 and 100")]
    let balance = ((1.0 - ((cpu - memory) / 2.0).abs()) * 100.0) as i64;
    balance
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::view::Nominal;
    use std::sync::Arc;

    fn node(cpu: i64, memory: i64, used: (i64, i64), nominal: (i64, i64)) -> NodeState {
        NodeState {
            view: Arc::new(NodeView { allocatable: Amounts::from([("cpu", cpu), ("memory", memory)]), ..NodeView::default() }),
            used: Amounts::from([("cpu", used.0), ("memory", used.1)]),
            nominal: Nominal { cpu: nominal.0, memory: nominal.1 },
            ..NodeState::default()
        }
    }

    fn pod(cpu: i64, memory: i64, nominal: (i64, i64)) -> PodInfo {
        let nominal = Nominal { cpu: nominal.0, memory: nominal.1 };
        PodInfo { requests: Amounts::from([("cpu", cpu), ("memory", memory)]), nominal, ..PodInfo::default() }
    }

    #[test]
    fn the_emptier_a_node_would_be_the_better() {
        let check = |node: &NodeState, expected: i64| assert_eq!(least_allocated(&pod(100, 10, (100, 10)), node), expected, "{node:?}");
        check(&node(1000, 100, (0, 0), (0, 0)), 90);
        check(&node(1000, 100, (500, 0), (500, 0)), 65);
        check(&node(1000, 100, (950, 0), (950, 0)), 45);
        check(&node(1000, 100, (0, 0), (500, 50)), 40);
        check(&node(0, 100, (0, 0), (0, 0)), 90);
        check(&node(0, 0, (0, 0), (0, 0)), 0);
        check(&node(333, 77, (0, 0), (0, 0)), 78);
    }

    #[test]
    fn a_pod_that_makes_the_parts_in_use_more_equal_is_better_there() {
        let check = |node: &NodeState, pod: &PodInfo, expected: i64| assert_eq!(balanced(pod, node), expected, "{node:?} {pod:?}");
        let (even, cpu) = (pod(100, 10, (0, 0)), pod(200, 0, (0, 0)));
        check(&node(1000, 100, (0, 0), (0, 0)), &even, 75);
        check(&node(1000, 100, (500, 0), (0, 0)), &even, 75);
        check(&node(1000, 100, (0, 0), (0, 0)), &cpu, 70);
        check(&node(1000, 100, (0, 50), (0, 0)), &cpu, 80);
        check(&node(1000, 100, (2000, 0), (0, 0)), &cpu, 75);
        check(&node(1000, 0, (400, 0), (0, 0)), &cpu, 75);
        check(&node(1000, 100, (400, 0), (0, 0)), &pod(0, 0, (100, 200)), 0);
        // Recorded from a real scheduler.
        let gibi = |number: i64| number << 30;
        let recorded = |used: (i64, i64), new: (i64, i64), expected: i64| {
            check(&node(10_000, gibi(10), used, (0, 0)), &pod(new.0, new.1, (0, 0)), expected);
        };
        recorded((5000, gibi(1)), (1000, gibi(1)), 75);
        recorded((5000, gibi(1)), (1000, gibi(3)), 80);
        recorded((3000, gibi(3)), (1000, gibi(3)), 70);
        recorded((4000, gibi(6)), (2000, 100 << 20), 79);
        check(&node(12_000, 7_516_192_768, (346, 0), (0, 0)), &pod(0, 1_117_782_016, (0, 0)), 73);
        check(&node(9000, 8_589_934_592, (634, 0), (0, 0)), &pod(420, 0, (0, 0)), 74);
    }

    #[test]
    fn shares_are_percents_of_the_largest() {
        assert_eq!((shares(vec![0, 0]), shares(vec![1, 3, 2]), shares(vec![])), (vec![0, 0], vec![33, 100, 66], vec![]));
    }
}
