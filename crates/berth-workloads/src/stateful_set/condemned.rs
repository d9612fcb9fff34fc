//! The pods whose ordinals a set no longer has.

use super::{
    is_ready,
    observe::Repair,
    revision_of,
    work::{Work, delete},
};
use crate::{
    plan::{Next, Reason, Wait},
    view::PodView,
};
use berth_identity::Ordinal;
use std::ops::ControlFlow;

/// Deletes one pod at a time, highest ordinal first, and ends the reconcile after it. The caller ensures that every desired pod is
/// available.
pub(super) fn ordered(work: &mut Work<'_, '_>) -> ControlFlow<()> {
    let controlled = work.observed.pods();
    let Some((ordinal, pod)) = controlled.condemned().next() else { return ControlFlow::Continue(()) };
    // The lowest unavailable pod may be deleted, so that one that never becomes ready does not block the others indefinitely.
    let lowest_unavailable =
        || controlled.condemned().map(|(ordinal, _)| ordinal).filter(|ordinal| !controlled.is_available(*ordinal)).min();
    let name = pod.meta.name.to_string();
    if pod.meta.deleted.is_some() {
        let last = work.terminating(pod);
        let then = controlled.condemned().nth(1).map(|(_, pod)| Next::Delete(pod.meta.name.to_string()));
        work.wait(Wait::PodTerminating { pod: name, last, then });
    } else if controlled.is_available(ordinal) || lowest_unavailable() == Some(ordinal) {
        remove(work, &[(ordinal, pod)]);
    } else if is_to_be_repaired(work, pod) {
        work.repair(pod);
    } else {
        let then = Some(Next::Delete(name.clone()));
        work.wait(if is_ready(pod) { Wait::PodNotAvailable { pod: name, then } } else { Wait::PodNotReady { pod: name, then } });
    }
    ControlFlow::Break(())
}

/// Two unready pods out of range would block each other indefinitely: the higher one is deleted first, but only the lowest may be deleted
/// while unready. With the repair annotation, an unready pod of an older revision is deleted too. No partition protects a pod out of range.
fn is_to_be_repaired(work: &Work<'_, '_>, pod: &PodView) -> bool {
    let observed = work.observed;
    observed.repair != Repair::Never && !is_ready(pod) && revision_of(pod) != observed.history.update
}

/// Deletes all at once. This comes before missing pods are created, which may need the resources.
pub(super) fn parallel(work: &mut Work<'_, '_>) {
    let pods: Vec<_> = work.observed.pods().condemned().filter(|(_, pod)| pod.meta.deleted.is_none()).collect();
    remove(work, &pods);
}

/// Deletes pods whose ordinals the set no longer has.
fn remove(work: &mut Work<'_, '_>, pods: &[(Ordinal, &PodView)]) {
    let observed = work.observed;
    work.then(pods.iter().map(|(_, pod)| delete(observed, pod, Reason::NumberNotWanted)).collect());
}
