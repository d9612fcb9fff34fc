//! Scaling: the Deployment's size differs from the one that its ReplicaSets were sized for.

use super::{
    observe::Observed,
    partial_scale,
    scale::{self, Scale},
    steering::Steering,
    steps::{self, CurrentStep},
    work::{StatusStep, Work},
};
use crate::{
    plan::Plan,
    view::{DeploymentStrategy, PodReplacementPolicy},
};

/// Whether a scaling is pending: an active set was last sized for another size, or is below its share.
///
/// Deviation from upstream: never under Recreate with several active sets. Upstream would consider the scaling pending indefinitely without
/// acting. berth lets the rollout scale the old sets to 0.
pub(super) fn is_due(observed: &Observed<'_>) -> bool {
    let active = observed.active();
    if observed.strategy == DeploymentStrategy::Recreate && active.len() > 1 {
        return false;
    }
    active.iter().any(|&index| is_of_another_size(observed, index))
}

/// Whether a set was last sized for another size of the Deployment, or is below its share.
fn is_of_another_size(observed: &Observed<'_>, index: usize) -> bool {
    let set = observed.scale_of(index);
    let is_short = observed.policy == PodReplacementPolicy::TerminationComplete && set.before.is_some();
    set.desired.is_some_and(|desired| desired != observed.size.desired) || is_short
}

/// One reconcile of a Deployment whose size has changed. While terminating pods delay the scaling, it has a progress deadline as a rollout
/// has.
pub(super) fn plan(observed: &Observed<'_>) -> Plan {
    let mut work = Work::new(observed);
    if let Some(current_step) = steered(observed) {
        let lacking = Steering::of_new_size(observed, &current_step).scale(&mut work);
        return work.finish(if lacking > 0 { StatusStep::Rollout } else { StatusStep::Counts });
    }
    if gives_up(observed) {
        for index in observed.active() {
            let finished = observed.scale_of(index).finished(observed.sets[index].replicas.into(), observed.size);
            work.drafts[index].apply(finished, observed.before_scale);
        }
        return work.finish(StatusStep::Counts);
    }
    let lacking = scale(&mut work, observed);
    work.finish(if lacking > 0 { StatusStep::Rollout } else { StatusStep::Counts })
}

/// The step that determines the size of each set.
fn steered<'a>(observed: &Observed<'a>) -> Option<CurrentStep<'a>> {
    steps::current_step(observed).filter(CurrentStep::steers)
}

/// Sizes the sets of a paused Deployment. Returns how many pods are still missing for lack of room.
///
/// Deviation from upstream, which creates all possible pods in every sync. If terminating pods count, or the Deployment rolls out in steps,
/// berth scales only for a new size. Otherwise the room that terminating pods leave would finish the paused rollout. This holds for every
/// template: a template that was complete once has no steps, and an undo to it also waits until the Deployment is resumed.
pub(super) fn scale_paused(work: &mut Work<'_, '_>, observed: &Observed<'_>) -> i64 {
    let only_if_due = steps::has_steps(observed) || observed.policy == PodReplacementPolicy::TerminationComplete;
    match steered(observed) {
        _ if only_if_due && !is_due_while_paused(observed) => 0,
        Some(current_step) => Steering::of_new_size(observed, &current_step).scale(work),
        None => scale(work, observed),
    }
}

/// If no set has replicas, the set that would get them records the size that it was sized for.
fn is_due_while_paused(observed: &Observed<'_>) -> bool {
    let latest = || observed.new.or(observed.sets.len().checked_sub(1));
    is_due(observed) || observed.active().is_empty() && latest().is_some_and(|index| is_of_another_size(observed, index))
}

/// Whether a scaling that terminating pods delay is dropped, because it would only create pods of old templates. A new revision or a
/// rollback does not wait for the size of the old one.
fn gives_up(observed: &Observed<'_>) -> bool {
    let has_no_pods = observed.new_set().is_none_or(|new| new.replicas == 0);
    has_no_pods && observed.lagging(None).is_none() && observed.room().is_some_and(|room| room < lacking(observed))
}

/// How many pods scaling up would add.
fn lacking(observed: &Observed<'_>) -> i64 {
    let active: Vec<_> = observed.active().into_iter().map(|index| observed.scale_of(index)).collect();
    match active.as_slice() {
        [single] => observed.size.desired - single.size,
        several => scale::to_add(several, observed.size),
    }
}

/// Sizes the sets. Returns how many pods are still missing for lack of room.
pub(super) fn scale(work: &mut Work<'_, '_>, observed: &Observed<'_>) -> i64 {
    let active = observed.active();
    match active.as_slice() {
        [] => observed.new.or(observed.sets.len().checked_sub(1)).map_or(0, |latest| scale_single(work, observed, latest)),
        [single] => scale_single(work, observed, *single),
        _ if is_saturated(observed) => {
            active.into_iter().filter(|&index| Some(index) != observed.new).for_each(|index| work.resize(index, 0));
            0
        }
        _ if observed.strategy == DeploymentStrategy::RollingUpdate => scale_several(work, observed, &active),
        _ => 0,
    }
}

/// Whether the new set already has every desired pod, all available.
fn is_saturated(observed: &Observed<'_>) -> bool {
    let desired = observed.size.desired;
    observed.new.is_some_and(|index| {
        let set = observed.scale_of(index);
        set.size == desired && set.desired == Some(desired) && i64::from(observed.sets[index].status.available_replicas) == desired
    })
}

/// Deviation from upstream: a set that already has the right size is still written if it was last sized for another one. Otherwise the
/// scaling would be pending indefinitely.
fn scale_single(work: &mut Work<'_, '_>, observed: &Observed<'_>, index: usize) -> i64 {
    let (set, desired) = (observed.scale_of(index), observed.size.desired);
    let missing = desired - set.size;
    if missing > 0 && must_wait(observed, &[(index, desired)]) {
        work.wait_for_room(Some(index), missing);
        return missing;
    }
    let target = match observed.room() {
        Some(room) => partial_scale::grow_single(set, observed.size, room),
        None => set.finished(desired, observed.size),
    };
    let is_due = set.before.is_some() || set.desired.is_some_and(|former| former != desired);
    if target.size != set.size || is_due {
        work.drafts[index].apply(target, observed.before_scale);
    }
    let lacking = desired - target.size;
    work.wait_for_room(Some(index), lacking);
    lacking
}

/// Whether sets cannot grow to these sizes yet, not even in part.
fn must_wait(observed: &Observed<'_>, sizes: &[(usize, i64)]) -> bool {
    match observed.policy {
        PodReplacementPolicy::TerminationComplete => observed.lagging(None).is_some(),
        PodReplacementPolicy::Unset | PodReplacementPolicy::TerminationStarted => !observed.fits(sizes),
    }
}

fn scale_several(work: &mut Work<'_, '_>, observed: &Observed<'_>, active: &[usize]) -> i64 {
    let sets: Vec<_> = active.iter().map(|&index| observed.scale_of(index)).collect();
    let to_add = scale::to_add(&sets, observed.size);
    let (size, status_replicas) = (observed.size, i64::from(observed.deployment().status.replicas));
    let scaled = match observed.room() {
        None => scale::proportional(&sets, size, status_replicas),
        Some(room) if to_add > 0 => partial_scale::grow(&sets, size, status_replicas, room),
        Some(_) => scale::shrink(&sets, size, status_replicas),
    };
    let sizes: Vec<_> = active.iter().zip(&scaled).map(|(&index, scale)| (index, scale.size)).collect();
    if to_add > 0 && must_wait(observed, &sizes) {
        work.wait_for_room(None, to_add);
        return to_add;
    }
    for (&index, scale) in active.iter().zip(&scaled) {
        work.drafts[index].apply(*scale, observed.before_scale);
    }
    let total = |sets: &[Scale]| sets.iter().map(|set| set.size).sum::<i64>();
    let lacking = to_add - (total(&scaled) - total(&sets));
    work.wait_for_room(None, lacking);
    lacking
}
