//! Pod affinity and anti-affinity: the pods that a pod requires, avoids or prefers in its part of the cluster, in both directions.

use super::{
    Inconsistent,
    fit::{Misfit, NodeState},
    pod_set::{NamespaceLabels, PodSet, SetIndex},
    sums::{Division, Nodes, Parts, Sums},
    tallies::Tallies,
    view::{NodeView, PodInfo, PodTerm},
};
use std::{collections::BTreeMap, sync::Arc};

/// How much a required term of a placed pod counts for a new pod that it selects, beside preferred terms of 1 to 100.
///
/// Source: kube-scheduler, `hardPodAffinityWeight`.
const REQUIRED_TERM_WEIGHT: i64 = 1;

/// The terms of all pods with a node, each once for all pods that have it.
#[derive(Debug, Default)]
pub(super) struct PlacedTerms {
    terms: BTreeMap<TermKey, PlacedTerm>,
    index: SetIndex<TermKey>,
}

/// What a term requires of other pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Effect {
    /// They must not come.
    Forbid,
    /// They are more or less welcome.
    Weigh,
}

type TermKey = (Effect, Arc<str>, String);

#[derive(Debug)]
struct PlacedTerm {
    pods: PodSet,
    by: Division,
    /// Pods with the term, or the sum of its weights.
    sums: Sums,
    users: usize,
}

/// The terms of a pod that concern other pods, with their weights.
fn placed_terms(pod: &PodInfo) -> impl Iterator<Item = (Effect, i64, &PodTerm)> {
    let terms = pod.terms.as_deref().into_iter();
    terms.flat_map(|terms| {
        let forbids = terms.anti_affinity.iter().map(|term| (Effect::Forbid, 1, term));
        let requires = terms.affinity.iter().map(|term| (Effect::Weigh, REQUIRED_TERM_WEIGHT, term));
        let prefers = terms.preferred.iter().map(|(weight, term)| (Effect::Weigh, *weight, term));
        forbids.chain(requires).chain(prefers)
    })
}

impl PlacedTerms {
    /// Takes in that a pod has got a node (1), or has lost it (-1).
    pub(super) fn change(&mut self, pod: &PodInfo, node: &str, by: i64, nodes: &Nodes) {
        for (effect, weight, term) in placed_terms(pod) {
            let key = (effect, Arc::clone(term.pods.text()), term.topology_key.clone());
            let placed = self.terms.entry(key.clone()).or_insert_with(|| {
                self.index.insert(&term.pods, key.clone());
                PlacedTerm { pods: term.pods.clone(), by: Division::by(&term.topology_key), sums: Sums::default(), users: 0 }
            });
            placed.sums.add(node, by * weight, nodes);
            placed.users = placed.users.saturating_add_signed(isize::try_from(by).unwrap_or_default());
            if placed.users == 0 {
                self.terms.remove(&key);
                self.index.remove(&term.pods, &key);
            }
        }
    }

    /// Brings the sums up to date that concern the pod.
    fn require(&mut self, pod: &PodInfo, nodes: &Nodes, namespaces: &NamespaceLabels) {
        for key in self.index.candidates(&pod.labels) {
            if let Some(placed) = self.terms.get_mut(key).filter(|placed| pod.is_in(&placed.pods, namespaces)) {
                // A term has only one division.
                placed.sums.divide(&placed.by, nodes, 0);
            }
        }
    }

    fn concerning<'a>(&'a self, pod: &'a PodInfo, effect: Effect, namespaces: &'a NamespaceLabels) -> impl Iterator<Item = &'a Parts> {
        let keys = self.index.candidates(&pod.labels).filter(move |(found, ..)| *found == effect);
        let placed = keys.filter_map(|key| self.terms.get(key)).filter(|placed| pod.is_in(&placed.pods, namespaces));
        placed.filter_map(|placed| placed.sums.parts(&placed.by))
    }

    /// Checks the sums against `placed`, for tests and the simulation.
    pub(super) fn check<'a>(&self, placed: impl Iterator<Item = (&'a PodInfo, &'a str)>, nodes: &Nodes) -> Result<(), Inconsistent> {
        let mut recount = Self::default();
        placed.for_each(|(pod, node)| recount.change(pod, node, 1, nodes));
        let shown = |terms: &Self| -> Vec<String> {
            let shown = |(key, term): (&TermKey, &PlacedTerm)| format!("{key:?} of {} pods: {:?}", term.users, term.sums.by_node());
            terms.terms.iter().map(shown).collect()
        };
        let (counted, found) = (shown(self), shown(&recount));
        if counted == found { Ok(()) } else { Err(Inconsistent(format!("terms: counted {counted:?}, found {found:?}"))) }
    }
}

/// The terms of one pod, and those of placed pods that concern it, with the counts of now.
pub(super) struct Neighbors<'a> {
    pod: &'a PodInfo,
    namespaces: &'a NamespaceLabels,
    /// The pods that all its required terms select.
    required: Option<PodSet>,
    affinity: Vec<&'a Parts>,
    /// Whether the pod itself is one of the pods that it requires.
    requires_itself: bool,
    anti_affinity: Vec<(&'a PodTerm, &'a Parts)>,
    /// Pods that forbid it, by part.
    forbidding: Vec<&'a Parts>,
    /// Pods that it prefers or that prefer it, with their weights.
    weighed: Vec<(i64, &'a Parts)>,
}

/// The pods that each required term of the pod selects.
pub(super) fn required_pods(pod: &PodInfo) -> Option<PodSet> {
    let affinity = pod.terms.as_deref().map(|terms| &terms.affinity).filter(|terms| !terms.is_empty())?;
    Some(PodSet::intersection(affinity.iter().map(|term| &term.pods)))
}

impl<'a> Neighbors<'a> {
    /// Counts what [`Neighbors::of`] reads.
    pub(super) fn require<'p>(
        pod: &PodInfo,
        tallies: &mut Tallies,
        placed_terms: &mut PlacedTerms,
        placed: impl Iterator<Item = (&'p PodInfo, &'p str)> + Clone,
        nodes: &Nodes,
        namespaces: &NamespaceLabels,
    ) {
        placed_terms.require(pod, nodes, namespaces);
        let Some(terms) = pod.terms.as_deref() else { return };
        if let Some(required) = required_pods(pod) {
            let divisions: Vec<Division> = terms.affinity.iter().map(|term| Division::by(&term.topology_key)).collect();
            tallies.require(&required, &divisions, placed.clone(), nodes, namespaces);
        }
        for term in terms.anti_affinity.iter().chain(terms.preferred.iter().map(|(_, term)| term)) {
            tallies.require(&term.pods, &[Division::by(&term.topology_key)], placed.clone(), nodes, namespaces);
        }
    }

    pub(super) fn of(pod: &'a PodInfo, tallies: &'a Tallies, placed_terms: &'a PlacedTerms, namespaces: &'a NamespaceLabels) -> Self {
        let required = required_pods(pod);
        let terms = pod.terms.as_deref();
        let parts = |pods: &PodSet, term: &PodTerm| tallies.parts(pods, &Division::by(&term.topology_key));
        let affinity = match (&required, terms) {
            (Some(required), Some(terms)) => terms.affinity.iter().filter_map(|term| parts(required, term)).collect(),
            _ => Vec::new(),
        };
        let anti_affinity = terms.into_iter().flat_map(|terms| &terms.anti_affinity);
        let preferred = terms.into_iter().flat_map(|terms| &terms.preferred);
        let weighed = preferred.filter_map(|(weight, term)| Some((*weight, parts(&term.pods, term)?)));
        Self {
            pod,
            namespaces,
            affinity,
            requires_itself: required.as_ref().is_some_and(|required| pod.is_in(required, namespaces)),
            required,
            anti_affinity: anti_affinity.filter_map(|term| Some((term, parts(&term.pods, term)?))).collect(),
            forbidding: placed_terms.concerning(pod, Effect::Forbid, namespaces).collect(),
            weighed: weighed.chain(placed_terms.concerning(pod, Effect::Weigh, namespaces).map(|parts| (1, parts))).collect(),
        }
    }

    /// Why the pod may not go there. `changes`: pods that are taken as being on the node (1), or as not being there (-1).
    ///
    /// Source: kube-scheduler, plugin `InterPodAffinity`, filter.
    pub(super) fn misfit(&self, node: &NodeView, changes: &[(Arc<PodInfo>, i64)]) -> Option<Misfit> {
        if !self.has_required(node, changes) {
            return Some(Misfit::Affinity);
        }
        let changed_by =
            |pods: &PodSet| -> i64 { changes.iter().filter(|(other, _)| other.is_in(pods, self.namespaces)).map(|(_, by)| by).sum() };
        let is_avoided = |(term, parts): &(&PodTerm, &Parts)| {
            node.labels.get(&term.topology_key).is_some() && parts.of_node(node) + changed_by(&term.pods) > 0
        };
        if self.anti_affinity.iter().any(is_avoided) {
            return Some(Misfit::AntiAffinity);
        }
        self.is_forbidden(node, changes).then_some(Misfit::ExistingAntiAffinity)
    }

    fn has_required(&self, node: &NodeView, changes: &[(Arc<PodInfo>, i64)]) -> bool {
        let Some(required) = &self.required else { return true };
        if self.affinity.iter().any(|parts| parts.division().part(node).is_none()) {
            return false;
        }
        let change: i64 = changes.iter().filter(|(other, _)| other.is_in(required, self.namespaces)).map(|(_, by)| by).sum();
        if self.affinity.iter().all(|parts| parts.of_node(node) + change > 0) {
            return true;
        }
        // The first pods of a workload that requires itself.
        self.requires_itself && !self.affinity.iter().any(|parts| parts.has_any(node, change))
    }

    fn is_forbidden(&self, node: &NodeView, changes: &[(Arc<PodInfo>, i64)]) -> bool {
        if changes.is_empty() {
            return self.forbidding.iter().any(|parts| parts.of_node(node) > 0);
        }
        // The node's part, and how many pods there forbid this one.
        let mut counts: BTreeMap<(&str, &str), i64> = BTreeMap::new();
        for parts in &self.forbidding {
            let key = parts.division().topology_key.as_str();
            if let Some(part) = node.labels.get(key) {
                *counts.entry((key, part)).or_default() += parts.of(part).unwrap_or(0);
            }
        }
        for (other, by) in changes {
            let terms = other.terms.as_deref().into_iter().flat_map(|terms| &terms.anti_affinity);
            for term in terms.filter(|term| self.pod.is_in(&term.pods, self.namespaces)) {
                if let Some(part) = node.labels.get(&term.topology_key) {
                    *counts.entry((&term.topology_key, part)).or_default() += by;
                }
            }
        }
        counts.values().any(|count| *count > 0)
    }

    /// Whether nodes differ in how well they suit the preferred terms.
    pub(super) fn has_preferences(&self) -> bool {
        !self.weighed.is_empty()
    }

    /// How well each of `nodes` suits the preferred terms: 0 to 100, in their order.
    ///
    /// Source: kube-scheduler, plugin `InterPodAffinity`, score and its normalization.
    pub(super) fn scores(&self, nodes: &[&NodeState]) -> Vec<i64> {
        let raw = |node: &&NodeState| -> i64 { self.weighed.iter().map(|(weight, parts)| weight * parts.of_node(&node.view)).sum() };
        let raw: Vec<i64> = nodes.iter().map(raw).collect();
        let least = raw.iter().min().copied().unwrap_or(0);
        let range = raw.iter().max().copied().unwrap_or(0) - least;
        raw.into_iter().map(|score| if range == 0 { 0 } else { 100 * (score - least) / range }).collect()
    }
}
