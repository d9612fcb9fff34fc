//! Pods that no other controller deletes: finished pods beyond a limit, pods of deleted nodes, and terminating pods that never had a node
//! (upstream: pod garbage collector).

use crate::{
    plan::{Action, Outcome, Plan, Reason, Stage},
    view::PodView,
};
use berth_identity::{Name, Namespace, ObjectKey};
use jiff::{SignedDuration, Timestamp};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// How many finished pods are kept, as upstream.
pub const TERMINATED_PODS_MAX: usize = 12_500;
/// How long a node must be missing before its pods are deleted. The cache may not contain a new node yet.
pub const QUARANTINE: SignedDuration = SignedDuration::from_secs(40);

/// The pods that may have to be deleted whatever their node. Every pod event updates them.
#[derive(Debug, Default, PartialEq)]
pub struct Candidates {
    /// The oldest first.
    finished: BTreeMap<(Option<Timestamp>, Name, Namespace), Arc<PodView>>,
    /// Terminating without ever having had a node.
    never_placed: BTreeMap<ObjectKey, Arc<PodView>>,
}

impl Candidates {
    /// Adds the current version of a pod.
    pub fn add(&mut self, pod: &Arc<PodView>) {
        if pod.phase.is_finished() {
            self.finished.insert(age(pod), Arc::clone(pod));
        }
        if is_unplaced(pod) {
            self.never_placed.insert(pod.meta.key(), Arc::clone(pod));
        }
    }

    /// Removes a version of a pod.
    pub fn remove(&mut self, pod: &PodView) {
        if pod.phase.is_finished() {
            self.finished.remove(&age(pod));
        }
        if is_unplaced(pod) {
            self.never_placed.remove(&pod.meta.key());
        }
    }
}

fn age(pod: &PodView) -> (Option<Timestamp>, Name, Namespace) {
    (pod.meta.created, pod.meta.name.clone(), pod.meta.namespace.clone())
}

fn is_unplaced(pod: &PodView) -> bool {
    pod.meta.deleted.is_some() && pod.node_name.is_empty()
}

/// The input of the plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PodGcState<'a> {
    /// Nodes that pods name and that do not exist, with the time since when: see [`missing_since`].
    pub missing: BTreeMap<String, Timestamp>,
    /// The pods of the nodes that [`lost_nodes`] names.
    pub lost: Vec<&'a PodView>,
    /// The other pods that may be deleted. Shared, because there may be many.
    pub candidates: &'a Candidates,
    /// The time of the snapshot.
    pub now: Timestamp,
}

/// The missing nodes, with the time since when. `before` is the result of the last reconcile.
#[must_use]
pub fn missing_since(
    missing_nodes: impl IntoIterator<Item = impl Into<String>>,
    before: &BTreeMap<String, Timestamp>,
    now: Timestamp,
) -> BTreeMap<String, Timestamp> {
    let since = |node: String| {
        let since = before.get(&node).copied().unwrap_or(now);
        (node, since)
    };
    missing_nodes.into_iter().map(|node| since(node.into())).collect()
}

/// The nodes that have been missing for [`QUARANTINE`]: the state needs their pods.
pub fn lost_nodes(missing: &BTreeMap<String, Timestamp>, now: Timestamp) -> impl Iterator<Item = &str> {
    let is_over = move |since: &Timestamp| quarantine_end(since).is_some_and(|end| end <= now);
    missing.iter().filter(move |(_, since)| is_over(since)).map(|(node, _)| node.as_str())
}

fn quarantine_end(since: &Timestamp) -> Option<Timestamp> {
    since.checked_add(QUARANTINE).ok()
}

/// Plans which pods to delete at once, without a grace period. The cost is linear in the missing nodes and the deleted pods.
#[must_use]
pub fn plan(state: &PodGcState<'_>) -> Plan {
    let lost = state.lost.clone();
    let never_placed: Vec<&PodView> = state.candidates.never_placed.values().map(|pod| &**pod).collect();
    let surplus = surplus(state.candidates, lost.iter().chain(&never_placed).copied());
    let all = [(lost, Reason::NodeGone), (never_placed, Reason::NeverPlaced), (surplus, Reason::TooManyFinished)];
    let actions: Vec<_> = all.into_iter().flat_map(|(pods, reason)| pods.into_iter().map(move |pod| remove(pod, reason.clone()))).collect();
    Plan {
        stages: if actions.is_empty() { Vec::new() } else { vec![Stage { actions }] },
        requeue_at: state.missing.values().filter_map(quarantine_end).filter(|end| *end > state.now).min(),
        ..Plan::default()
    }
}

/// The oldest finished pods beyond [`TERMINATED_PODS_MAX`], apart from those that are deleted anyway.
fn surplus<'a>(candidates: &'a Candidates, go: impl Iterator<Item = &'a PodView>) -> Vec<&'a PodView> {
    let go: BTreeSet<_> = go.filter(|pod| pod.phase.is_finished()).map(age).collect();
    let too_many = candidates.finished.len().saturating_sub(go.len() + TERMINATED_PODS_MAX);
    candidates.finished.iter().filter(|(age, _)| !go.contains(age)).map(|(_, pod)| &**pod).take(too_many).collect()
}

fn remove(pod: &PodView, reason: Reason) -> Action {
    Action::Delete {
        target: pod.reference().in_any_version(),
        propagation: None,
        grace_period_seconds: Some(0),
        reason,
        events: Outcome::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        read_back::read_back,
        view::{Meta, PodPhase},
    };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    fn pod(name: &str, node: &str) -> PodView {
        PodView { meta: Meta { name: name.into(), ..Meta::default() }, node_name: node.into(), ..PodView::default() }
    }

    fn removed(pods: &[PodView], missing_since: &BTreeMap<String, Timestamp>, now: i64) -> (Vec<String>, Option<Timestamp>) {
        let mut candidates = Candidates::default();
        pods.iter().for_each(|pod| candidates.add(&Arc::new(pod.clone())));
        let nodes = pods.iter().map(|pod| &*pod.node_name).filter(|node| !["", "here"].contains(node));
        let (missing, now) = (super::missing_since(nodes, missing_since, at(now)), at(now));
        let lost = lost_nodes(&missing, now).flat_map(|node| pods.iter().filter(move |pod| pod.node_name == node)).collect();
        let plan = read_back(plan(&PodGcState { lost, candidates: &candidates, now, missing: missing.clone() }));
        let names = plan.stages.into_iter().flat_map(|stage| stage.actions).map(|action| match action {
            Action::Delete { target, grace_period_seconds: Some(0), .. } => target.key.name.into(),
            other => panic!("{other:?}"),
        });
        (names.collect(), plan.requeue_at)
    }

    #[test]
    fn pods_of_a_node_that_is_gone_are_removed_after_the_quarantine() {
        let pods = [pod("stays", "here"), pod("lost", "there"), pod("waiting", "")];
        assert_eq!(removed(&pods, &BTreeMap::new(), 100), (vec![], Some(at(140))));
        let since = BTreeMap::from([("there".to_owned(), at(100))]);
        assert_eq!(removed(&pods, &since, 139), (vec![], Some(at(140))));
        assert_eq!(removed(&pods, &since, 140), (vec!["lost".to_owned()], None));
    }

    #[test]
    fn a_pod_without_a_node_that_is_being_deleted_is_removed() {
        let mut unbound = pod("unbound", "");
        unbound.meta.deleted = Some(at(1));
        assert_eq!(removed(&[unbound], &BTreeMap::new(), 100).0, ["unbound"]);
    }

    #[test]
    fn the_oldest_finished_pods_beyond_the_limit_are_removed() {
        let finished = |index: i64| {
            let mut pod = pod(&format!("p{index}"), "here");
            (pod.phase, pod.meta.created) = (PodPhase::Failed, Some(at(1_000_000 - index)));
            pod
        };
        let pods: Vec<_> = (0..12_502).map(finished).collect();
        assert_eq!(removed(&pods, &BTreeMap::new(), 100).0, ["p12501", "p12500"]);
    }

    #[test]
    fn finished_pods_that_are_deleted_anyway_do_not_count() {
        let finished = |index: i64| {
            let mut pod = pod(&format!("p{index:05}"), if index < 2 { "there" } else { "here" });
            (pod.phase, pod.meta.created) = (PodPhase::Succeeded, Some(at(index)));
            pod
        };
        let pods: Vec<_> = (0..12_503).map(finished).collect();
        let since = BTreeMap::from([("there".to_owned(), at(100))]);
        assert_eq!(removed(&pods, &since, 140).0, ["p00000", "p00001", "p00002"]);
        assert_eq!(removed(&pods[..2], &since, 140).0, ["p00000", "p00001"], "each once");
    }

    #[test]
    fn a_pod_is_a_candidate_only_as_long_as_it_is_one() {
        let mut candidates = Candidates::default();
        let placed = pod("a", "here");
        let unplaced =
            PodView { meta: Meta { deleted: Some(at(1)), ..placed.meta.clone() }, phase: PodPhase::Failed, ..PodView::default() };
        for version in [&placed, &unplaced] {
            candidates.add(&Arc::new(version.clone()));
            assert_eq!([candidates.finished.len(), candidates.never_placed.len()], [usize::from(*version == unplaced); 2]);
            candidates.remove(version);
            assert!(candidates.finished.is_empty() && candidates.never_placed.is_empty());
        }
    }
}
