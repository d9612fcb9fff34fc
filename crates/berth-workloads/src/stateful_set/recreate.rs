//! Recreate (KEP-3541): all pods of older revisions are deleted at once, and none is created before the last one is deleted.

use super::{
    Phase,
    status::Recreation,
    work::{Work, delete},
};
use crate::{
    plan::{Reason, Wait},
    view::PodView,
};
use berth_identity::Ordinal;
use std::ops::ControlFlow;

/// Deletes old pods, or waits for their deletion. Ends the reconcile while there are any. The phase follows from the pods alone.
pub(super) fn old_pods(work: &mut Work<'_, '_>) -> ControlFlow<()> {
    let observed = work.observed;
    let counts = observed.pods().phase_counts(&observed.history.update);
    let phase = counts.phase(observed.ordinals.replicas);
    work.recreation = match phase {
        Phase::NeedsDeletion => Recreation::Deleting,
        Phase::WaitingTermination => Recreation::Waiting,
        Phase::ReadyForCreation => Recreation::Creating { there: counts.new },
        Phase::Complete => Recreation::Complete,
    };
    match phase {
        Phase::NeedsDeletion => delete_all(work),
        Phase::WaitingTermination => wait_for_all(work),
        Phase::ReadyForCreation | Phase::Complete => return ControlFlow::Continue(()),
    }
    ControlFlow::Break(())
}

fn delete_all(work: &mut Work<'_, '_>) {
    let observed = work.observed;
    let controlled = observed.pods();
    let old = controlled.outdated(&observed.history.update, Ordinal::MIN..Ordinal::MAX);
    let reason = |ordinal| if observed.ordinals.contains(ordinal) { Reason::Recreated } else { Reason::NumberNotWanted };
    let pods = old.into_iter().filter_map(|ordinal| Some(delete(observed, controlled.pod(ordinal)?, reason(ordinal))));
    work.status_first();
    work.then(pods.collect());
}

fn wait_for_all(work: &mut Work<'_, '_>) {
    let observed = work.observed;
    let old = || observed.pods().outdated_deleting(&observed.history.update);
    let last = old().max_by_key(|pod: &&PodView| pod.meta.deleted).and_then(|pod| work.terminating(pod));
    let then_create = u32::try_from(observed.ordinals.replicas).unwrap_or(u32::MAX);
    work.wait(Wait::PodsTerminating { pods: super::work::count(old().count()), then_create, last });
}
