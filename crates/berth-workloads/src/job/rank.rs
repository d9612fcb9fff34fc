//! Which of the surplus pods of a Job are deleted.

use super::observe::Observed;
use crate::{
    plan::{Rule, Victims},
    view::{JobPodView, PodPhase},
};
use jiff::Timestamp;
use std::{cmp::Ordering, collections::BTreeMap};

/// The active pods that are deleted so that at most `wanted` are left, at most `max` of them.
///
/// Of an Indexed Job, pods without an index of the Job are never wanted, and neither are pods of an index that has another pod.
///
/// Source: kubernetes `pkg/controller/job/job_controller.go`, `activePodsForRemoval`; `pkg/controller/controller_utils.go`, `ActivePods`.
pub(super) fn victims<'a>(observed: &Observed<'a>, wanted: usize, max: usize) -> Vec<(Rule, &'a JobPodView)> {
    let (mut chosen, mut left) = if observed.is_indexed() { misplaced(observed) } else { (Vec::new(), observed.active().collect()) };
    let surplus = left.len().saturating_sub(wanted);
    if 0 < surplus {
        left.sort_by(|a, b| compare(a, b).0);
        let stays = left.get(surplus).copied();
        let rule = |pod: &JobPodView| stays.map_or(Rule::AllGo, |stays| compare(pod, stays).1);
        chosen.extend(left[..surplus].iter().map(|pod| (rule(pod), *pod)));
    }
    chosen.truncate(max);
    chosen
}

/// The pods that are not wanted because of their index, and the others.
fn misplaced<'a>(observed: &Observed<'a>) -> (Vec<(Rule, &'a JobPodView)>, Vec<&'a JobPodView>) {
    let (mut chosen, mut left) = (Vec::new(), Vec::new());
    let mut by_index: BTreeMap<u32, Vec<&JobPodView>> = BTreeMap::new();
    for pod in observed.active() {
        match pod.index.filter(|index| *index < observed.index_count()) {
            Some(index) => by_index.entry(index).or_default().push(pod),
            None => chosen.push((Rule::IndexNotWanted, pod)),
        }
    }
    for pods in by_index.values_mut() {
        pods.sort_by(|a, b| compare(a, b).0);
        left.extend(pods.pop());
        chosen.extend(pods.iter().map(|pod| (Rule::IndexTaken, *pod)));
    }
    (chosen, left)
}

/// Pods in groups of one rule, for a plan.
pub(super) fn grouped(chosen: &[(Rule, &JobPodView)]) -> Vec<Victims> {
    // A status update of the pod must not save it: only its identity counts.
    let reference = |(_, pod): &(Rule, &JobPodView)| pod.pod.reference().in_any_version();
    let alike = chosen.chunk_by(|(one, _), (next, _)| one == next);
    alike.map(|group| Victims { rule: group[0].0, pods: group.iter().map(reference).collect() }).collect()
}

/// Orders two active pods, `Less` is deleted first, and names the criterion. A total order.
fn compare(one: &JobPodView, other: &JobPodView) -> (Ordering, Rule) {
    let (a, b) = (&one.pod, &other.pod);
    // A later time is deleted first, and no time before all.
    let later_first = |a: Option<Timestamp>, b: Option<Timestamp>| match (a, b) {
        (Some(a), Some(b)) => b.cmp(&a),
        (a, b) => a.is_some().cmp(&b.is_some()),
    };
    let ready_since = || if a.ready && b.ready { later_first(a.ready_since, b.ready_since) } else { Ordering::Equal };
    let criteria = [
        ((!a.node_name.is_empty()).cmp(&!b.node_name.is_empty()), Rule::NoNode),
        (phase_order(a.phase).cmp(&phase_order(b.phase)), Rule::NotRunning),
        (a.ready.cmp(&b.ready), Rule::NotReady),
        (ready_since(), Rule::ReadyLater),
        (b.restarts.cmp(&a.restarts), Rule::Restarts { than: b.restarts }),
        (b.sidecar_restarts.cmp(&a.sidecar_restarts), Rule::SidecarRestarts { than: b.sidecar_restarts }),
        (later_first(a.meta.created, b.meta.created), Rule::Newer),
    ];
    let decisive = criteria.into_iter().find(|(order, _)| order.is_ne());
    decisive.unwrap_or_else(|| (a.meta.name.cmp(&b.meta.name), Rule::Alike))
}

/// Pods that have not started are deleted before those whose node does not respond, and those before running ones.
fn phase_order(phase: PodPhase) -> u8 {
    match phase {
        PodPhase::Unset | PodPhase::Pending | PodPhase::Succeeded | PodPhase::Failed | PodPhase::Other => 0,
        PodPhase::Unknown => 1,
        PodPhase::Running => 2,
    }
}
