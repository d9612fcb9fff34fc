//! Topology spread constraints: how many pods like a pod there are in each part of the cluster, and how many more there may be.

use super::{
    affinity::NodeRules,
    fit::{Misfit, NodeState},
    pod_set::NamespaceLabels,
    spread_constraint::SpreadConstraint,
    sums::{Division, Nodes, Parts, Sums},
    tallies::Tallies,
    view::{NodeView, PodInfo, Wishes},
};
use std::{collections::BTreeSet, sync::Arc};

impl SpreadConstraint {
    /// The division of the nodes that it counts over, for a pod with these wishes.
    pub(super) fn division(&self, wishes: &Wishes, required_labels: &[String]) -> Division {
        Division {
            topology_key: self.topology_key.clone(),
            required_labels: required_labels.to_vec(),
            rules: self.honors_affinity.then(|| NodeRules::of(wishes)).filter(|rules| !rules.is_empty()),
            tolerations: self.honors_taints.then(|| wishes.tolerations.clone()),
            has_empty_parts: self.required,
        }
    }
}

/// The constraints that a pod is placed with.
#[derive(Debug, Default)]
pub(super) struct Constraints {
    pub(super) all: Vec<SpreadConstraint>,
    /// Whether the scheduler has added them. Then nodes count that lack some of the labels.
    pub(super) are_default: bool,
}

impl Constraints {
    /// Required or preferred ones, each with the division that it counts over.
    fn divided(&self, pod: &PodInfo, required: bool) -> impl Iterator<Item = (&SpreadConstraint, Division)> {
        let constraints = self.all.iter().filter(move |constraint| constraint.required == required);
        let keys = constraints.clone().map(|constraint| constraint.topology_key.clone());
        let labels: Vec<String> = if self.are_default { Vec::new() } else { keys.collect() };
        let divided = constraints.map(|constraint| (constraint, constraint.division(pod.wishes(), &labels)));
        divided.collect::<Vec<_>>().into_iter()
    }
}

/// The constraints of one pod, with the counts of now.
pub(super) struct Spread<'a> {
    required: Vec<Counts<'a>>,
    preferred: Vec<Counts<'a>>,
    needs_all_labels: bool,
    namespaces: &'a NamespaceLabels,
}

/// One constraint, and the pods it counts.
struct Counts<'a> {
    constraint: &'a SpreadConstraint,
    /// 1 if the pod counts itself.
    own: i64,
    sums: &'a Sums,
    /// `None`: only the sums of nodes count.
    parts: Option<&'a Parts>,
}

impl<'a> Spread<'a> {
    /// Counts what [`Spread::of`] reads.
    pub(super) fn require<'p>(
        pod: &PodInfo,
        constraints: &Constraints,
        tallies: &mut Tallies,
        placed: impl Iterator<Item = (&'p PodInfo, &'p str)> + Clone,
        nodes: &Nodes,
        namespaces: &NamespaceLabels,
    ) {
        for (constraint, division) in [true, false].into_iter().flat_map(|required| constraints.divided(pod, required)) {
            let divided = [division];
            let divisions: &[Division] = if constraint.required || !constraint.is_by_node() { &divided } else { &[] };
            tallies.require(&constraint.pods, divisions, placed.clone(), nodes, namespaces);
        }
    }

    pub(super) fn of(pod: &PodInfo, constraints: &'a Constraints, tallies: &'a Tallies, namespaces: &'a NamespaceLabels) -> Self {
        let counts = |(constraint, division): (&'a SpreadConstraint, Division)| {
            let (sums, parts) = (tallies.sums(&constraint.pods)?, tallies.parts(&constraint.pods, &division));
            Some(Counts { constraint, own: i64::from(constraint.matches_itself), sums, parts })
        };
        Self {
            required: constraints.divided(pod, true).filter_map(counts).collect(),
            preferred: constraints.divided(pod, false).filter_map(counts).collect(),
            needs_all_labels: !constraints.are_default,
            namespaces,
        }
    }

    /// Why the pod may not go there. `changes`: pods that are taken as being on the node (1), or as not being there (-1).
    pub(super) fn misfit(&self, node: &NodeView, changes: &[(Arc<PodInfo>, i64)]) -> Option<Misfit> {
        for counts in &self.required {
            let constraint = counts.constraint;
            let Some(domain) = node.labels.get(&constraint.topology_key) else { return Some(Misfit::SpreadLabel) };
            let counted = changes.iter().filter(|(other, _)| other.is_in(&constraint.pods, self.namespaces));
            let Some(parts) = counts.parts else { continue };
            let change = if parts.division().part(node).is_some() { counted.map(|(_, by)| by).sum() } else { 0 };
            if counts.skew(parts, domain, change) > constraint.max_skew {
                return Some(Misfit::Spread);
            }
        }
        None
    }

    /// Whether nodes differ in how well they suit the preferred constraints.
    pub(super) fn has_preferences(&self) -> bool {
        !self.preferred.is_empty()
    }

    /// How well each of `nodes`, all of which can take the pod, suits the preferred constraints: 0 to 100, in their order.
    ///
    /// Source: kube-scheduler, plugin `PodTopologySpread`, score and its normalization.
    pub(super) fn scores(&self, nodes: &[&NodeState]) -> Vec<i64> {
        let has_all = |node: &NodeView| self.preferred.iter().all(|counts| node.labels.get(&counts.constraint.topology_key).is_some());
        let counted: Vec<&NodeView> = nodes.iter().map(|node| &*node.view).filter(|node| !self.needs_all_labels || has_all(node)).collect();
        let weights: Vec<i64> = self.preferred.iter().map(|counts| counts.weight(&counted)).collect();
        let raw = |node: &NodeView| -> Option<i64> {
            let score = |(counts, weight): (&Counts<'_>, &i64)| {
                let domain = node.labels.get(&counts.constraint.topology_key)?;
                let pods = if counts.constraint.is_by_node() { counts.sums.on(&node.name) } else { counts.parts?.of(domain).unwrap_or(0) };
                Some(pods * weight + (counts.constraint.max_skew - 1) * WEIGHT_UNIT)
            };
            let sum: i64 = self.preferred.iter().zip(&weights).filter_map(score).sum();
            (!self.needs_all_labels || has_all(node)).then_some((sum + WEIGHT_UNIT / 2) / WEIGHT_UNIT)
        };
        let raw: Vec<Option<i64>> = nodes.iter().map(|node| raw(&node.view)).collect();
        let most = raw.iter().flatten().max().copied().unwrap_or(0);
        let least = raw.iter().flatten().min().copied().unwrap_or(0);
        let score = |raw: Option<i64>| raw.map_or(0, |raw| if most == 0 { 100 } else { 100 * (most + least - raw) / most });
        raw.into_iter().map(score).collect()
    }
}

/// Weights are whole thousandths.
const WEIGHT_UNIT: i64 = 1000;

impl Counts<'_> {
    /// How far ahead of the part with the fewest pods `domain` is with the pod, and with `change` more pods.
    fn skew(&self, parts: &Parts, domain: &str, change: i64) -> i64 {
        let here = parts.of(domain).map_or(0, |count| count + change);
        let fewest = if parts.count() < self.constraint.min_domains { 0 } else { parts.lowest(domain, change).unwrap_or(0) };
        here + self.own - fewest
    }

    /// More for keys with many values, as there are few pods for each: the logarithm of their number.
    fn weight(&self, nodes: &[&NodeView]) -> i64 {
        let values = || nodes.iter().filter_map(|node| node.labels.get(&self.constraint.topology_key)).collect::<BTreeSet<&str>>().len();
        let count = u32::try_from(if self.constraint.is_by_node() { nodes.len() } else { values() }).unwrap_or(u32::MAX);
        #[expect(clippy::cast_possible_truncation, reason = "a logarithm of 32 bits, times a thousand, is small")]
        let weight = ((f64::from(count) + 2.0).ln() * 1000.0).round() as i64;
        weight
    }
}
