//! Recreate: every pod of an older template is deleted before the first new one is created.

use super::{
    observe::Observed,
    work::{StatusStep, Work, wait_for_old_pods},
};
use crate::{plan::Plan, view::PodReplacementPolicy};

/// The pods of one old set, or those left behind by deleted sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OldPods {
    /// `status.replicas`.
    pub reported: i64,
    /// Whether the set's controller has not observed the set's present size. Then its report is outdated.
    pub lags: bool,
    /// Pods that are neither finished nor terminating.
    pub running: i64,
    /// Pods that are terminating and not finished.
    pub terminating: i64,
}

/// Whether pods of old sets block the new one.
#[must_use]
pub fn must_wait(policy: PodReplacementPolicy, old: &[OldPods]) -> bool {
    old.iter().any(|set| {
        let terminating = if policy == PodReplacementPolicy::TerminationStarted { 0 } else { set.terminating };
        set.lags || set.reported > 0 || set.running > 0 || terminating > 0
    })
}

/// One reconcile: old sets are scaled to 0. After their pods are deleted, the new set gets its size. Then history is cleaned up.
pub(super) fn plan(observed: &Observed<'_>) -> Plan {
    let mut work = Work::new(observed);
    for (index, _) in observed.old() {
        work.resize(index, 0);
    }
    let current = observed.new_set().map_or(0, |set| i64::from(set.replicas));
    let missing = observed.size.desired - current;
    if work.is_resized() {
        work.hold_back(missing);
        return work.finish(StatusStep::Rollout);
    }
    if must_wait(observed.policy, &old_pods(observed)) {
        wait_for_old_pods(&mut work, missing);
        return work.finish(StatusStep::Rollout);
    }
    let growth = observed.room().map_or(missing, |room| missing.min(room));
    work.wait_for_room(observed.new, missing - growth);
    let Some(new) = observed.new else { return work.create(growth) };
    work.resize(new, current + growth);
    work.clean_up_if_complete();
    work.finish(StatusStep::Rollout)
}

fn old_pods(observed: &Observed<'_>) -> Vec<OldPods> {
    let pods = observed.old().map(|(_, set)| {
        let counts = observed.state.counts(&set.meta.uid);
        OldPods {
            reported: set.status.replicas.into(),
            lags: set.status.observed_generation < set.meta.generation,
            running: (counts.active + counts.mismatched).into(),
            terminating: counts.all_terminating().into(),
        }
    });
    let left = observed.left_behind();
    let left_behind = OldPods { running: left.staying().into(), terminating: left.terminating.into(), ..OldPods::default() };
    pods.chain([left_behind]).collect()
}
