//! The progress of an update that has a deadline, stored on its ControllerRevision. The present pods do not show when the last step was
//! taken, nor whether the update had succeeded before.

use super::{
    EffectiveStrategy, is_ready,
    kept_progress::{Progress, begun_at, patience},
    observe::Observed,
    rollout::revision_of,
};
use crate::{
    rollback::{self, steady},
    view::{PodView, RevisionView},
};
use berth_identity::Ordinal;
use jiff::Timestamp;

/// Why an update has missed its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missed {
    /// Its pods are not ready, or are rejected.
    Failing,
    /// Something else delays it: none of its pods fails.
    Waiting,
}

/// The progress of the update: the stored progress plus this observation. `None` if there is no deadline, or no revision yet.
pub(super) fn progress(observed: &Observed<'_>) -> Option<Progress> {
    let set = observed.set();
    let steady = steady(patience(set)?);
    if set.meta.deleted.is_some() || observed.strategy == EffectiveStrategy::OnDelete {
        return None;
    }
    let revision = observed.history.update_revision()?;
    let (left, now) = (steps_left(observed), observed.state.now);
    let goal = (observed.update_from().min(observed.end()), observed.end());
    let begun = Progress { left, ..begun_at(revision.number, goal, now) };
    let stored = Progress::of(revision);
    let progress = match stored.filter(|stored| stored.revision == revision.number) {
        Some(stored) if (stored.from, stored.end) == goal => stored,
        Some(stored) => Progress { succeeded: stored.succeeded && is_noted_complete(revision), ..begun },
        None => {
            let was_complete = stored.is_none() && was_complete(observed, revision);
            Progress { succeeded: was_complete, was_complete, ..begun }
        }
    };
    Some(progress.observed(left, steady, now))
}

fn is_noted_complete(revision: &RevisionView) -> bool {
    rollback::completed_revision(&revision.annotations) == Some(revision.number)
}

/// Whether a rollout that began without a deadline was complete: an annotation records it, or the stored status reports the end of the
/// update. The status always reports that for the first template.
fn was_complete(observed: &Observed<'_>, revision: &RevisionView) -> bool {
    let status = &observed.set().status;
    let is_over = [&status.current_revision, &status.update_revision].iter().all(|name| *revision.meta.name == ***name);
    is_noted_complete(revision) || is_over && observed.history.listed().len() > 1
}

/// How many steps remain until all pods of the update are available. A pod terminates, is deleted, is created, becomes ready and becomes
/// available. Under Recreate, surplus pods count too.
fn steps_left(observed: &Observed<'_>) -> i64 {
    let (controlled, update) = (observed.pods(), &observed.history.update);
    let steps = |ordinal: Ordinal, pod: Option<&PodView>| match pod {
        None => 3,
        Some(pod) if pod.meta.deleted.is_some() => 4,
        Some(pod) if revision_of(pod) != update => 5,
        Some(_) if controlled.is_available(ordinal) => 0,
        Some(pod) if is_ready(pod) => 1,
        Some(_) => 2,
    };
    let wanted: i64 = observed.update_from().up_to(observed.end()).map(|ordinal| steps(ordinal, controlled.pod(ordinal))).sum();
    if observed.strategy != EffectiveStrategy::Recreate {
        return wanted;
    }
    let old = controlled.condemned().filter(|(_, pod)| revision_of(pod) != update);
    wanted + old.map(|(_, pod)| if pod.meta.deleted.is_some() { 1 } else { 2 }).sum::<i64>()
}

/// When the update will have made no progress for the whole deadline.
fn deadline(observed: &Observed<'_>, progress: &Progress) -> Option<Timestamp> {
    let is_running = !progress.succeeded && progress.available_since.is_none();
    progress.at.checked_add(patience(observed.set())?).ok().filter(|_| is_running)
}

/// When to check whether the deadline has passed or the rollout has succeeded. `None` if that is known, or there is no deadline.
pub(super) fn next_check(observed: &Observed<'_>) -> Option<Timestamp> {
    let progress = progress(observed)?;
    let steady = steady(patience(observed.set())?);
    let succeeds = progress.available_since.filter(|_| !progress.succeeded).and_then(|since| since.checked_add(steady).ok());
    let next = deadline(observed, &progress).or(succeeds);
    next.filter(|at| observed.state.now < *at)
}

/// Whether the update has missed its deadline, and why.
pub(super) fn missed(observed: &Observed<'_>) -> Option<Missed> {
    let progress = progress(observed)?;
    deadline(observed, &progress).filter(|at| *at <= observed.state.now)?;
    let (controlled, update) = (observed.pods(), &observed.history.update);
    let is_failing = |pod: &PodView| pod.meta.deleted.is_none() && revision_of(pod) == update && !is_ready(pod);
    let is_refused = observed.state.last_error.is_some() && controlled.missing().next().is_some();
    if is_refused || controlled.slots().any(|(_, pod)| is_failing(pod)) {
        return Some(Missed::Failing);
    }
    // Terminating pods and pods within `minReadySeconds` need their time, whatever the template.
    let takes_time = controlled.is_any_slot_deleting()
        || controlled.outdated_deleting(update).next().is_some()
        || controlled.next_available_at().is_some();
    (!takes_time).then_some(Missed::Waiting)
}
