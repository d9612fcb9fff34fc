//! Topology spread constraints: how many pods like a pod there are in each part of the cluster, and how many more there may be.
//!
//! Pods are counted as they are created and deleted, once for each selector that some pod's constraint uses: placing a pod costs one step per node, not
//! per pod.

use super::{
    Inconsistent, affinity,
    fit::{Misfit, NodeState, tolerates_all},
    spread_constraint::SpreadConstraint,
    view::{NodeView, PodInfo},
};
use berth_api::Selector;
use berth_identity::{Namespace, Uid};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

impl SpreadConstraint {
    /// Whether the node, and so its pods, counts for the pod.
    fn counts(&self, pod: &PodInfo, node: &NodeView) -> bool {
        (!self.honors_affinity || affinity::selects(pod, node)) && (!self.honors_taints || tolerates_all(pod, node))
    }

    /// Whether `other` is one of the pods that this constraint of `pod` counts.
    fn selects(&self, pod: &PodInfo, other: &PodInfo) -> bool {
        !other.deleting && other.namespace == pod.namespace && self.selector.matches(&other.labels)
    }
}

/// How many pods each selector that is in use finds on each node.
#[derive(Debug, Default)]
pub(super) struct Tallies {
    namespaces: BTreeMap<Namespace, BTreeMap<String, Tally>>,
    /// By uid, what the pods that have constraints count.
    users: BTreeMap<Uid, BTreeSet<Counted>>,
    /// Those that have changed since they were last asked for.
    changed: BTreeSet<Counted>,
}

/// Which pods a tally counts: their namespace, and the selector's text.
type Counted = (Namespace, String);

#[derive(Debug)]
struct Tally {
    selector: Selector,
    nodes: BTreeMap<String, i64>,
    users: usize,
}

impl Tallies {
    /// Adds the constraints of a pod. `placed` are all pods that have a node, with that node. It is read only if a selector is new.
    pub(super) fn add_user<'a>(&mut self, pod: &PodInfo, placed: impl Iterator<Item = (&'a PodInfo, &'a str)> + Clone) {
        let wanted: BTreeSet<Counted> = keys(pod).collect();
        if self.users.get(&pod.uid).map_or(wanted.is_empty(), |present| *present == wanted) {
            return;
        }
        self.remove_user(&pod.uid);
        for constraint in &pod.spread {
            let Some(text) = &constraint.text else { continue };
            let tallies = self.namespaces.entry(pod.namespace.clone()).or_default();
            let tally = tallies.entry(text.clone()).or_insert_with(|| {
                let found = placed.clone().filter(|(other, _)| constraint.selects(pod, other));
                let mut nodes = BTreeMap::new();
                found.for_each(|(_, node)| *nodes.entry(node.to_owned()).or_default() += 1);
                Tally { selector: constraint.selector.clone(), nodes, users: 0 }
            });
            // Two constraints of a pod may share a selector.
            if self.users.entry(pod.uid.clone()).or_default().insert((pod.namespace.clone(), text.clone())) {
                tally.users += 1;
            }
        }
    }

    /// Takes in that a pod is gone.
    pub(super) fn remove_user(&mut self, uid: &str) {
        for (namespace, text) in self.users.remove(uid).unwrap_or_default() {
            let Some(tallies) = self.namespaces.get_mut(&namespace) else { continue };
            let Some(tally) = tallies.get_mut(&text) else { continue };
            tally.users -= 1;
            if tally.users == 0 {
                tallies.remove(&text);
                if tallies.is_empty() {
                    self.namespaces.remove(&namespace);
                }
            }
        }
    }

    /// Counts a pod that has got a place.
    pub(super) fn add(&mut self, pod: &PodInfo, node: &str) {
        self.change(pod, node, 1);
    }

    /// Counts a pod no more that has lost its place.
    pub(super) fn remove(&mut self, pod: &PodInfo, node: &str) {
        self.change(pod, node, -1);
    }

    fn change(&mut self, pod: &PodInfo, node: &str, by: i64) {
        if pod.deleting {
            return;
        }
        let tallies = self.namespaces.get_mut(&pod.namespace);
        for (text, tally) in tallies.into_iter().flatten().filter(|(_, tally)| tally.selector.matches(&pod.labels)) {
            let count = tally.nodes.entry(node.to_owned()).or_default();
            *count += by;
            if *count == 0 {
                tally.nodes.remove(node);
            }
            self.changed.insert((pod.namespace.clone(), text.clone()));
        }
    }

    /// What has changed since the last call, for [`Changed::may_help`].
    pub(super) fn take_changed(&mut self) -> Changed {
        Changed(std::mem::take(&mut self.changed))
    }

    fn count(&self, pod: &PodInfo, constraint: &SpreadConstraint, node: &str) -> i64 {
        let tally = constraint.text.as_ref().and_then(|text| self.namespaces.get(&pod.namespace)?.get(text));
        tally.and_then(|tally| tally.nodes.get(node)).copied().unwrap_or(0)
    }

    /// The namespaces in which pods are counted.
    #[cfg(test)]
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        self.namespaces.keys()
    }

    /// Checks the counts against `placed`, for tests and the simulation.
    pub(super) fn check<'a>(&self, placed: impl Iterator<Item = (&'a PodInfo, &'a str)> + Clone) -> Result<(), Inconsistent> {
        for (namespace, text, tally) in
            self.namespaces.iter().flat_map(|(name, tallies)| tallies.iter().map(move |(text, t)| (name, text, t)))
        {
            let mut recount: BTreeMap<String, i64> = BTreeMap::new();
            for (pod, node) in placed.clone().filter(|(pod, _)| !pod.deleting && pod.namespace == *namespace) {
                if tally.selector.matches(&pod.labels) {
                    *recount.entry(node.to_owned()).or_default() += 1;
                }
            }
            if recount != tally.nodes {
                return Err(Inconsistent(format!("{text} in {namespace} is counted as {:?}, there are {recount:?}", tally.nodes)));
            }
        }
        Ok(())
    }
}

fn keys(pod: &PodInfo) -> impl Iterator<Item = Counted> + '_ {
    pod.spread.iter().filter_map(|constraint| Some((pod.namespace.clone(), constraint.text.clone()?)))
}

/// Counts that have changed.
#[derive(Debug)]
pub(super) struct Changed(BTreeSet<Counted>);

impl Changed {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a pod that found no node may find one now.
    pub(super) fn may_help(&self, pod: &PodInfo) -> bool {
        pod.spread.iter().any(|constraint| constraint.required) && keys(pod).any(|key| self.0.contains(&key))
    }
}

/// The constraints of one pod, with the counts of now.
pub(super) struct Spread<'a> {
    pod: &'a PodInfo,
    required: Vec<Counts<'a>>,
    preferred: Vec<Counts<'a>>,
}

/// One constraint, and the pods it counts in each part of the cluster.
struct Counts<'a> {
    constraint: &'a SpreadConstraint,
    /// 1 if the pod counts itself.
    own: i64,
    domains: BTreeMap<&'a str, i64>,
    /// The two parts with the fewest pods.
    fewest: [Option<(&'a str, i64)>; 2],
}

impl<'a> Spread<'a> {
    pub(super) fn of(pod: &'a PodInfo, nodes: &'a BTreeMap<String, NodeState>, tallies: &Tallies) -> Self {
        let counts = |required: bool| {
            let constraints: Vec<&SpreadConstraint> = pod.spread.iter().filter(|constraint| constraint.required == required).collect();
            let has_all = |node: &NodeView| constraints.iter().all(|constraint| node.labels.get(&constraint.topology_key).is_some());
            let mut counts: Vec<Counts<'a>> = constraints.iter().map(|constraint| Counts::new(constraint, pod)).collect();
            if !counts.is_empty() {
                for (name, node) in nodes.iter().filter(|(_, node)| has_all(&node.view)) {
                    counts.iter_mut().for_each(|counts| counts.add(pod, &node.view, || tallies.count(pod, counts.constraint, name)));
                }
            }
            counts.iter_mut().for_each(Counts::find_fewest);
            counts
        };
        Self { pod, required: counts(true), preferred: counts(false) }
    }

    /// Why the pod may not go there. `changes`: pods that are taken as being on the node, or as not being there, with `1` or `-1`.
    pub(super) fn misfit(&self, node: &NodeView, changes: &[(Arc<PodInfo>, i64)]) -> Option<Misfit> {
        for counts in &self.required {
            let constraint = counts.constraint;
            let Some(domain) = node.labels.get(&constraint.topology_key) else { return Some(Misfit::SpreadLabel) };
            let relevant = changes.iter().filter(|(other, _)| constraint.selects(self.pod, other) && constraint.counts(self.pod, node));
            if counts.skew(domain, relevant.map(|(_, by)| by).sum()) > constraint.max_skew {
                return Some(Misfit::Spread);
            }
        }
        None
    }

    /// Whether nodes differ in how well they suit the constraints that are only wished for.
    pub(super) fn has_wishes(&self) -> bool {
        !self.preferred.is_empty()
    }

    /// How well each of `nodes`, all of which can take the pod, suits the preferred constraints: 0 to 100, in their order.
    ///
    /// Source: kube-scheduler, plugin `PodTopologySpread`, score and its normalization.
    pub(super) fn scores(&self, nodes: &[&NodeState]) -> Vec<i64> {
        let has_all = |node: &NodeView| self.preferred.iter().all(|counts| node.labels.get(&counts.constraint.topology_key).is_some());
        let weights: Vec<i64> =
            self.preferred.iter().map(|counts| counts.weight(nodes.iter().filter(|node| has_all(&node.view)))).collect();
        let raw = |node: &NodeView| -> Option<i64> {
            let worst = |(counts, weight): (&Counts<'_>, &i64)| {
                let domain = node.labels.get(&counts.constraint.topology_key)?;
                Some(counts.domains.get(domain).copied().unwrap_or(0) * weight + (counts.constraint.max_skew - 1) * WEIGHT_UNIT)
            };
            has_all(node).then(|| self.preferred.iter().zip(&weights).filter_map(worst).sum())
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

impl<'a> Counts<'a> {
    fn new(constraint: &'a SpreadConstraint, pod: &PodInfo) -> Self {
        let own = i64::from(constraint.selector.matches(&pod.labels));
        Self { constraint, own, domains: BTreeMap::new(), fewest: [None, None] }
    }

    fn add(&mut self, pod: &PodInfo, node: &'a NodeView, count: impl FnOnce() -> i64) {
        if let Some(domain) = node.labels.get(&self.constraint.topology_key).filter(|_| self.constraint.counts(pod, node)) {
            *self.domains.entry(domain).or_default() += count();
        }
    }

    fn find_fewest(&mut self) {
        for (domain, count) in &self.domains {
            let found = Some((*domain, *count));
            let [first, second] = self.fewest;
            if first.is_none_or(|(_, fewest)| *count < fewest) {
                self.fewest = [found, first];
            } else if second.is_none_or(|(_, fewest)| *count < fewest) {
                self.fewest[1] = found;
            }
        }
    }

    /// How far ahead of the part with the fewest pods `domain` is with the pod, and with `change` more pods.
    fn skew(&self, domain: &str, change: i64) -> i64 {
        let here = self.domains.get(domain).map(|count| count + change);
        let elsewhere = self.fewest.iter().flatten().find(|(other, _)| *other != domain).map(|(_, count)| *count);
        let fewest = if self.domains.len() < self.constraint.min_domains { Some(0) } else { here.into_iter().chain(elsewhere).min() };
        // A node that does not count has no pods that count.
        here.unwrap_or(0) + self.own - fewest.unwrap_or(0)
    }

    /// More for keys with many values, as there are few pods for each: the logarithm of their number.
    fn weight<'n>(&self, nodes: impl Iterator<Item = &'n &'n NodeState>) -> i64 {
        let domains: BTreeSet<&str> = nodes.filter_map(|node| node.view.labels.get(&self.constraint.topology_key)).collect();
        let count = u32::try_from(domains.len()).unwrap_or(u32::MAX);
        #[expect(clippy::cast_possible_truncation, reason = "a logarithm of 32 bits, times a thousand, is small")]
        let weight = ((f64::from(count) + 2.0).ln() * 1000.0).round() as i64;
        weight
    }
}
