//! Pods that nobody else will remove: finished ones beyond a number, those of nodes that are gone, and those being deleted that never had a node
//! (upstream: pod garbage collector).

use crate::{
    plan::{Action, Outcome, Plan, Reason, Stage},
    view::PodView,
};
use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// How many finished pods may be kept: as many as upstream keeps.
pub const TERMINATED_PODS_MAX: usize = 12_500;
/// How long a node must be missing before its pods are removed: it may only not have shown in the cache yet.
pub const QUARANTINE: SignedDuration = SignedDuration::from_secs(40);

/// What the plan is made from.
pub struct State<'a> {
    /// All pods.
    pub pods: Vec<&'a PodView>,
    /// Names of all nodes.
    pub nodes: BTreeSet<&'a str>,
    /// Since when nodes that pods name have been missing, as the plan before said ([`missing_nodes`]).
    pub missing_since: &'a BTreeMap<String, Timestamp>,
    /// The time of this reading.
    pub now: Timestamp,
}

/// The nodes that pods name and that are not there, with the time since when: remembered from one look to the next.
#[must_use]
pub fn missing_nodes(state: &State<'_>) -> BTreeMap<String, Timestamp> {
    let named = state.pods.iter().map(|pod| pod.node_name.as_str());
    let missing = named.filter(|node| !node.is_empty() && !state.nodes.contains(node));
    missing.map(|node| (node.to_owned(), state.missing_since.get(node).copied().unwrap_or(state.now))).collect()
}

/// Decides which pods to remove at once, without a grace period.
#[must_use]
pub fn plan(state: &State<'_>) -> Plan {
    let missing = missing_nodes(state);
    let expiry = |since: &Timestamp| since.checked_add(QUARANTINE).ok();
    let is_lost = |pod: &PodView| missing.get(&pod.node_name).and_then(expiry).is_some_and(|expiry| expiry <= state.now);
    let (lost, rest): (Vec<&PodView>, Vec<&PodView>) = state.pods.iter().copied().partition(|pod| is_lost(pod));
    let (unbound, rest): (Vec<&PodView>, Vec<&PodView>) =
        rest.into_iter().partition(|pod| pod.meta.deleted.is_some() && pod.node_name.is_empty());
    let removals = lost
        .into_iter()
        .map(|pod| remove(pod, Reason::NodeGone))
        .chain(unbound.into_iter().map(|pod| remove(pod, Reason::NeverPlaced)))
        .chain(surplus(rest).into_iter().map(|pod| remove(pod, Reason::TooManyFinished)));
    let actions: Vec<_> = removals.collect();
    Plan {
        stages: if actions.is_empty() { Vec::new() } else { vec![Stage { actions }] },
        look_again: missing.values().filter_map(expiry).filter(|expiry| *expiry > state.now).min(),
        ..Plan::default()
    }
}

/// The oldest finished pods beyond [`TERMINATED_PODS_MAX`].
fn surplus(pods: Vec<&PodView>) -> Vec<&PodView> {
    let mut finished: Vec<_> = pods.into_iter().filter(|pod| pod.phase.is_finished()).collect();
    finished.sort_by(|a, b| (a.meta.created, &a.meta.name).cmp(&(b.meta.created, &b.meta.name)));
    finished.truncate(finished.len().saturating_sub(TERMINATED_PODS_MAX));
    finished
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
        PodView { meta: Meta { name: name.into(), ..Meta::default() }, node_name: node.to_owned(), ..PodView::default() }
    }

    fn removed(pods: &[PodView], missing_since: &BTreeMap<String, Timestamp>, now: i64) -> (Vec<String>, Option<Timestamp>) {
        let plan = read_back(plan(&State { pods: pods.iter().collect(), nodes: ["here"].into(), missing_since, now: at(now) }));
        let names = plan.stages.into_iter().flat_map(|stage| stage.actions).map(|action| match action {
            Action::Delete { target, grace_period_seconds: Some(0), .. } => target.key.name.into(),
            other => panic!("{other:?}"),
        });
        (names.collect(), plan.look_again)
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
}
