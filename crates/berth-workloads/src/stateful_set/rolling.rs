//! How a rolling update replaces pods of older revisions.

use super::{
    EffectiveStrategy,
    observe::{Budget, Observed, Repair},
    work::{Work, count},
};
use crate::{
    plan::Wait,
    view::{PodManagement, PodView},
};
use berth_identity::Ordinal;
use std::ops::ControlFlow;

/// Deletes the pods that a rolling update replaces now, highest ordinal first.
pub(super) fn update(work: &mut Work<'_, '_>) {
    match (work.observed.strategy, work.observed.budget) {
        (EffectiveStrategy::OnDelete, _) => wait_for_hands(work),
        (EffectiveStrategy::Recreate, _) => (),
        (EffectiveStrategy::RollingUpdate, Budget::OneByOne) => one_by_one(work),
        (EffectiveStrategy::RollingUpdate, Budget::Pods(max)) => within_budget(work, max),
    }
}

fn wait_for_hands(work: &mut Work<'_, '_>) {
    let observed = work.observed;
    let pods = observed.pods().outdated(&observed.history.update, Ordinal::MIN..observed.end());
    if !pods.is_empty() {
        work.wait(Wait::DeletionByHand { pods: count(pods.len()) });
    }
}

/// Goes down from the highest ordinal. Deletes the first outdated pod, or waits for the first unavailable one.
fn one_by_one(work: &mut Work<'_, '_>) {
    let observed = work.observed;
    let (controlled, from) = (observed.pods(), observed.update_from());
    let outdated = controlled.highest_outdated(&observed.history.update, from..observed.end());
    let unavailable = controlled.highest_unavailable(from);
    match outdated.filter(|outdated| Some(*outdated) >= unavailable).and_then(|ordinal| controlled.pod(ordinal)) {
        Some(pod) => work.replace(&[pod], &[]),
        None if outdated.is_some() => wait_for_available(work),
        None => keep(work),
    }
}

/// Deletes as many pods as may be unavailable. Where order does not matter, unready pods are deleted first without using the budget, which
/// they would otherwise exhaust indefinitely (kubernetes#137409). A pod that is ready but not available yet may become available before its
/// deletion, so it stays until then.
fn within_budget(work: &mut Work<'_, '_>, max: i64) {
    let observed = work.observed;
    let controlled = observed.pods();
    let outdated = controlled.outdated(&observed.history.update, observed.update_from()..observed.end());
    let available: Vec<Ordinal> = outdated.iter().copied().filter(|ordinal| controlled.is_available(*ordinal)).collect();
    let broken: Vec<Ordinal> = outdated.iter().copied().filter(|ordinal| controlled.pod(*ordinal).is_some_and(|pod| !pod.ready)).collect();
    let budget = usize::try_from((max - controlled.unavailable_slots()).max(0)).unwrap_or(usize::MAX);
    let pods = |ordinals: &[Ordinal]| ordinals.iter().filter_map(|ordinal| controlled.pod(*ordinal)).collect::<Vec<&PodView>>();
    let (chosen, broken) = match observed.management {
        PodManagement::OrderedReady => (&outdated[..budget.min(outdated.len())], &[][..]),
        PodManagement::Parallel => (&available[..budget.min(available.len())], &broken[..]),
    };
    if !chosen.is_empty() || !broken.is_empty() {
        work.replace(&pods(chosen), &pods(broken));
    } else if outdated.is_empty() {
        keep(work);
    } else {
        wait_for_available(work);
    }
}

fn wait_for_available(work: &mut Work<'_, '_>) {
    let observed = work.observed;
    let number = |pods: i64| u32::try_from(pods).unwrap_or(u32::MAX);
    work.wait(Wait::PodsUnavailable { pods: number(observed.pods().unavailable_slots()), of: number(observed.ordinals.replicas) });
}

/// Adds the wait for the pods that the partition keeps.
fn keep(work: &mut Work<'_, '_>) {
    let observed = work.observed;
    let kept = observed.pods().outdated(&observed.history.update, observed.ordinals.start..observed.update_from().min(observed.end()));
    if !kept.is_empty() {
        work.wait(Wait::Partition { pods: count(kept.len()), from: observed.update_from() });
    }
}

/// Deletes the highest outdated pod that is not ready if the annotation requests it, because the update would wait for it indefinitely
/// (kubernetes#67250). The next pod follows only after its deletion.
pub(super) fn repair(work: &mut Work<'_, '_>) -> ControlFlow<()> {
    let observed = work.observed;
    if observed.repair == Repair::Never || observed.pods().is_any_slot_deleting() {
        return ControlFlow::Continue(());
    }
    match broken(observed) {
        Some(pod) => {
            work.repair(pod);
            ControlFlow::Break(())
        }
        None => ControlFlow::Continue(()),
    }
}

fn broken<'a>(observed: &Observed<'a>) -> Option<&'a PodView> {
    let controlled = observed.pods();
    let outdated = controlled.outdated(&observed.history.update, observed.update_from()..observed.end());
    outdated.into_iter().filter_map(|ordinal| controlled.pod(ordinal)).find(|pod| !pod.ready)
}
