//! Sums over pods, by node and by the values of a node label.
//!
//! A change of one pod changes one sum of each kind. Only a change of nodes requires that sums by label are computed again.

use super::{
    affinity::NodeRules,
    fit::{NodeState, tolerates_all},
    view::NodeView,
};
use berth_api::k8s_openapi::api::core::v1::Toleration;
use berth_identity::Lookup;
use std::collections::BTreeMap;

/// All nodes, by name.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    pub(super) by_name: BTreeMap<String, NodeState>,
    /// Raised when a node is added or removed, or when its labels or taints change.
    pub(super) generation: u64,
}

impl Nodes {
    pub(super) fn get(&self, name: &str) -> Option<&NodeState> {
        self.by_name.get(name)
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &NodeState> {
        self.by_name.values()
    }
}

/// How nodes are divided: by the value of a label, and only those nodes that count.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Division {
    /// The label.
    pub(super) topology_key: String,
    /// Other labels that a node that counts must have.
    pub(super) required_labels: Vec<String>,
    /// If set, only nodes that these rules allow count.
    pub(super) rules: Option<NodeRules>,
    /// If set, only nodes count whose taints these tolerate.
    pub(super) tolerations: Option<Vec<Toleration>>,
    /// Whether parts whose sum is 0 are parts too.
    pub(super) has_empty_parts: bool,
}

impl Division {
    /// All nodes with the label count. Parts whose sum is 0 are no parts.
    pub(super) fn by(topology_key: &str) -> Self {
        Self { topology_key: topology_key.to_owned(), required_labels: Vec::new(), rules: None, tolerations: None, has_empty_parts: false }
    }

    /// The part that the node belongs to, if it counts.
    pub(super) fn part<'a>(&self, node: &'a NodeView) -> Option<&'a str> {
        let value = node.labels.get(&self.topology_key)?;
        let counts = self.required_labels.iter().all(|key| node.labels.get(key).is_some())
            && self.rules.as_ref().is_none_or(|rules| rules.allow(node))
            && self.tolerations.as_ref().is_none_or(|tolerations| tolerates_all(tolerations, node));
        counts.then_some(value)
    }
}

/// A sum for each node, and for each part of some divisions.
#[derive(Debug, Default)]
pub(super) struct Sums {
    /// No sum is 0.
    nodes: Lookup<String, i64>,
    divisions: Vec<Parts>,
}

/// The sums of the parts of one division.
#[derive(Debug)]
pub(super) struct Parts {
    division: Division,
    generation: u64,
    /// The round of their last use.
    last_use: u64,
    sums: BTreeMap<String, i64>,
    /// How many parts have each sum.
    levels: BTreeMap<i64, usize>,
}

/// How many divisions of one set of pods are kept beside those that one pod needs: pods of one workload use at most a few.
const DIVISIONS_MAX: usize = 16;

impl Sums {
    /// Adds to the sum of a node.
    pub(super) fn add(&mut self, node: &str, by: i64, nodes: &Nodes) {
        match self.nodes.get_mut(node) {
            Some(sum) if *sum + by == 0 => _ = self.nodes.remove(node),
            Some(sum) => *sum += by,
            None if by == 0 => return,
            None => _ = self.nodes.insert(node.to_owned(), by),
        }
        let Some(state) = nodes.get(node) else { return };
        for parts in self.divisions.iter_mut().filter(|parts| parts.generation == nodes.generation) {
            parts.add(&state.view, by);
        }
    }

    /// The sum of one node.
    pub(super) fn on(&self, node: &str) -> i64 {
        self.nodes.get(node).copied().unwrap_or(0)
    }

    /// The sum of each node.
    pub(super) fn by_node(&self) -> BTreeMap<&str, i64> {
        self.nodes.unordered().map(|(node, sum)| (node.as_str(), *sum)).collect()
    }

    /// How many sums are kept.
    pub(super) fn count(&self) -> usize {
        self.nodes.count() + self.divisions.iter().map(|parts| parts.sums.len()).sum::<usize>()
    }

    /// Computes the sums by this division unless they are up to date. Those of one `round` stay until the next one.
    pub(super) fn divide(&mut self, by: &Division, nodes: &Nodes, round: u64) {
        let known = self.divisions.iter_mut().find(|parts| parts.division == *by && parts.generation == nodes.generation);
        if let Some(parts) = known {
            parts.last_use = round;
            return;
        }
        self.divisions.retain(|parts| parts.division != *by);
        while self.divisions.len() >= DIVISIONS_MAX {
            let unused = self.divisions.iter().enumerate().filter(|(_, parts)| parts.last_use < round);
            let Some((index, _)) = unused.min_by_key(|(_, parts)| parts.last_use) else { break };
            self.divisions.remove(index);
        }
        let (sums, levels) = (BTreeMap::new(), BTreeMap::new());
        let mut parts = Parts { division: by.clone(), generation: nodes.generation, last_use: round, sums, levels };
        if by.has_empty_parts {
            nodes.by_name.iter().for_each(|(name, node)| parts.add(&node.view, self.on(name)));
        } else {
            let known = self.nodes.unordered().filter_map(|(name, sum)| Some((nodes.get(name)?, *sum)));
            known.for_each(|(node, sum)| parts.add(&node.view, sum));
        }
        self.divisions.push(parts);
    }

    /// The sums by a division, after [`Sums::divide`].
    pub(super) fn parts(&self, by: &Division) -> Option<&Parts> {
        self.divisions.iter().find(|parts| parts.division == *by)
    }
}

impl Parts {
    fn add(&mut self, node: &NodeView, by: i64) {
        let Some(part) = self.division.part(node) else { return };
        let old = self.sums.get_mut(part);
        let new = old.as_ref().map_or(0, |sum| **sum) + by;
        if let Some(sum) = old {
            lower(&mut self.levels, *sum);
            *sum = new;
        } else {
            self.sums.insert(part.to_owned(), new);
        }
        if new == 0 && !self.division.has_empty_parts {
            self.sums.remove(part);
        } else {
            *self.levels.entry(new).or_default() += 1;
        }
    }

    pub(super) fn division(&self) -> &Division {
        &self.division
    }

    /// The sum of one part. `None` if no node that counts is in it.
    pub(super) fn of(&self, part: &str) -> Option<i64> {
        self.sums.get(part).copied()
    }

    /// The sum of the part that a node belongs to.
    pub(super) fn of_node(&self, node: &NodeView) -> i64 {
        node.labels.get(&self.division.topology_key).and_then(|part| self.of(part)).unwrap_or(0)
    }

    /// How many parts there are.
    pub(super) fn count(&self) -> usize {
        self.sums.len()
    }

    /// The lowest sum of all parts, if `part` had `change` more.
    pub(super) fn lowest(&self, part: &str, change: i64) -> Option<i64> {
        let here = self.of(part);
        let elsewhere = self.levels.iter().find(|(level, parts)| Some(**level) != here || **parts > 1).map(|(level, _)| *level);
        elsewhere.into_iter().chain(here.map(|sum| sum + change)).min()
    }

    /// Whether a part has a positive sum, if the part of the node had `change` more.
    pub(super) fn has_any(&self, node: &NodeView, change: i64) -> bool {
        let here = self.division.part(node).and_then(|part| self.of(part));
        let positive: usize = self.levels.range(1..).map(|(_, parts)| parts).sum();
        let elsewhere = positive - usize::from(here.is_some_and(|sum| sum > 0));
        elsewhere > 0 || here.is_some_and(|sum| sum + change > 0)
    }
}

/// One part fewer has this sum.
fn lower(levels: &mut BTreeMap<i64, usize>, level: i64) {
    if let Some(parts) = levels.get_mut(&level) {
        *parts -= 1;
        if *parts == 0 {
            levels.remove(&level);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn nodes(zones: &[(&str, &str)]) -> Nodes {
        let state = |(name, zone): &(&str, &str)| {
            let view = NodeView { name: (*name).into(), labels: [("zone", *zone)].into(), ..NodeView::default() };
            ((*name).to_owned(), NodeState { view: Arc::new(view), ..NodeState::default() })
        };
        Nodes { by_name: zones.iter().map(state).collect(), generation: 1 }
    }

    /// Sums that are kept up to date are those that are computed from scratch.
    #[test]
    fn kept_sums_are_computed_sums() {
        let by = Division { has_empty_parts: true, ..Division::by("zone") };
        let parts = check_kept(&by);
        assert_eq!([parts.of("x"), parts.of("y"), parts.of("z"), parts.of("w")], [Some(0), Some(4), Some(0), None]);
        let parts = check_kept(&Division::by("zone"));
        assert_eq!((parts.of("x"), parts.of("y"), parts.of("z"), parts.count()), (None, Some(4), None, 1));
    }

    fn check_kept(by: &Division) -> Parts {
        let mut nodes = nodes(&[("a", "x"), ("b", "y"), ("c", "y"), ("d", "z")]);
        let mut kept = Sums::default();
        kept.divide(by, &nodes, 1);
        for (node, change) in [("a", 2), ("b", 1), ("c", 1), ("a", -1), ("b", -1), ("gone", 1), ("c", 3), ("a", -1)] {
            kept.add(node, change, &nodes);
            let mut computed = Sums::default();
            kept.by_node().into_iter().for_each(|(node, sum)| computed.add(node, sum, &nodes));
            computed.divide(by, &nodes, 1);
            let (kept, computed) = (kept.parts(by).expect("divided"), computed.parts(by).expect("divided"));
            assert_eq!((&kept.sums, &kept.levels), (&computed.sums, &computed.levels), "{node} {change}");
        }
        let node = nodes.by_name.remove("c").expect("a node");
        nodes.generation += 1;
        kept.divide(by, &nodes, 1);
        assert_eq!(kept.parts(by).expect("divided").of("y").unwrap_or(0), 0, "a node that is gone does not count");
        nodes.by_name.insert("c".to_owned(), node);
        nodes.generation += 1;
        kept.divide(by, &nodes, 1);
        kept.divisions.remove(0)
    }

    #[test]
    fn the_lowest_sum_takes_a_change_into_account() {
        let nodes = nodes(&[("a", "x"), ("b", "y"), ("c", "z")]);
        let by = Division { has_empty_parts: true, ..Division::by("zone") };
        let mut sums = Sums::default();
        [("a", 1), ("b", 2), ("c", 2)].into_iter().for_each(|(node, count)| sums.add(node, count, &nodes));
        assert_eq!(sums.count(), 3, "one for each node");
        sums.divide(&by, &nodes, 1);
        assert_eq!(sums.count(), 6, "and one for each zone");
        let parts = sums.parts(&by).expect("divided");
        let lowest = |part: &str, change: i64| parts.lowest(part, change);
        assert_eq!(
            (lowest("x", 0), lowest("x", 5), lowest("x", -1), lowest("y", -2), lowest("w", 0)),
            (Some(1), Some(2), Some(0), Some(0), Some(1))
        );
        let view = |name: &str| &*nodes.get(name).expect("a node").view;
        assert!(parts.has_any(view("a"), -1));
        let mut one = Sums::default();
        one.add("a", 1, &nodes);
        one.divide(&by, &nodes, 1);
        let parts = one.parts(&by).expect("divided");
        assert_eq!(
            [("a", 0), ("a", -1), ("b", -1), ("b", 0)].map(|(node, change)| parts.has_any(view(node), change)),
            [true, false, true, true]
        );
    }
}
