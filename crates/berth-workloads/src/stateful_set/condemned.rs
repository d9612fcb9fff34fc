//! The pods that a set no longer wants.

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

/// One at a time, highest number first; ends the look after it. To be called when every wanted pod is available.
pub(super) fn ordered(work: &mut Work<'_, '_>) -> ControlFlow<()> {
    let controlled = work.observed.pods();
    let Some((ordinal, pod)) = controlled.condemned().next() else { return ControlFlow::Continue(()) };
    // The lowest that is not available may go, so that one that never comes up does not hold up the others for ever.
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

/// Two pods out of range that are not ready would keep each other for ever: the higher goes first, but only the lowest may go unready. Where
/// the annotation asks for repair, one of an older revision goes too; no partition keeps what is not wanted at all.
fn is_to_be_repaired(work: &Work<'_, '_>, pod: &PodView) -> bool {
    let observed = work.observed;
    observed.repair != Repair::Never && !is_ready(pod) && revision_of(pod) != observed.history.update
}

/// All at once. They go before missing pods are created: those may need the room that these take up.
pub(super) fn parallel(work: &mut Work<'_, '_>) {
    let pods: Vec<_> = work.observed.pods().condemned().filter(|(_, pod)| pod.meta.deleted.is_none()).collect();
    remove(work, &pods);
}

/// Deletes pods that the set no longer wants.
fn remove(work: &mut Work<'_, '_>, pods: &[(Ordinal, &PodView)]) {
    let observed = work.observed;
    work.then(pods.iter().map(|(_, pod)| delete(observed, pod, Reason::NumberNotWanted)).collect());
}
