//! The records of rollouts on a Deployment's sets, if the feature gate is on ([`crate::rollout_record`]).

use super::{
    annotations::{self, Annotations},
    draft::Draft,
    observe::Observed,
    progress::DEADLINE_EXCEEDED,
    steps::StepPosition,
    subject::Subject,
};
use crate::{
    hash::{template_hash, without_hash},
    rollback::{self, Record},
    rollout_record::{Ended, Rollout, ended},
};
use berth_api::{Gate, apps::DeploymentStatus};
use berth_identity::RolloutRevision;

/// The state of the rollout to the new set in this reconcile.
pub(super) struct RolloutProgress {
    pub(super) is_complete: bool,
    /// How the condition `Progressing` names the set.
    pub(super) subject: Subject,
}

fn is_on(observed: &Observed<'_>) -> bool {
    observed.state.gates.enabled(Gate::RolloutRecords)
}

/// Records that a rollout of this number begins, to a set with these annotations whose number was `former`. The record and the number are
/// in one write, so neither exists without the other.
pub(super) fn begin(set: &mut Annotations, observed: &Observed<'_>, revision: RolloutRevision, former: Option<RolloutRevision>) {
    if is_on(observed) {
        let former = former.filter(|former| *former > RolloutRevision::UNSET);
        Rollout::begun(revision, former, &observed.deployment().annotations, observed.state.now).keep(set);
    }
}

/// Records that earlier rollouts ended when the one of the number `by` began. While a Deployment is paused, a template without a set is not
/// rolled out yet.
pub(super) fn supersede(drafts: &mut [Draft<'_>], observed: &Observed<'_>, by: RolloutRevision) {
    if !is_on(observed) || observed.new.is_none() && observed.deployment().spec.paused {
        return;
    }
    for (index, set) in observed.old() {
        let Some(number) = annotations::revision(&set.annotations) else { continue };
        let end = match gone_back_from(observed, index, number) {
            Some(record) => Ended::rolled_back(observed.state.now, &record),
            None => Ended::superseded(observed.state.now, by, at_step(observed, &set.annotations)),
        };
        keep(&mut drafts[index], number, &end);
    }
}

/// The automatic rollback from this set's rollout, if it is the latest rollback.
fn gone_back_from(observed: &Observed<'_>, index: usize, number: RolloutRevision) -> Option<Record> {
    let deployment = observed.deployment();
    let record = Record::of(&deployment.annotations).filter(|record| record.from_revision == number)?;
    // Numbers restart from 1 after a user has deleted all sets.
    let hash = template_hash(&without_hash(&observed.sets[index].template), None);
    rollback::is_remembered(&deployment.annotations, &hash).then_some(record)
}

/// The step that a progressive rollout had reached.
fn at_step(observed: &Observed<'_>, set: &Annotations) -> Option<String> {
    let steps = observed.deployment().choices.steps.as_deref().ok().filter(|steps| !steps.is_empty())?;
    let place = StepPosition::of(set);
    Some(format!("at step {} of {}", place.index.min(steps.len() - 1) + 1, steps.len()))
}

/// Records the end of the rollout to the new set, if it has ended.
pub(super) fn end(draft: &mut Draft<'_>, observed: &Observed<'_>, status: &DeploymentStatus, progress: RolloutProgress) {
    if !is_on(observed) {
        return;
    }
    let Some(number) = annotations::revision(draft.annotations()) else { return };
    let now = observed.state.now;
    if progress.is_complete {
        keep(draft, number, &Ended::complete(now));
    } else if progress.subject.has_reason(status, DEADLINE_EXCEEDED) {
        let cause = observed.failing(draft.set);
        let (available, there) = (draft.set.status.available_replicas, draft.set.status.replicas);
        let of_its_pods = || format!("{} of its {there} pods are not available", there - available);
        keep(draft, number, &Ended::failed(now, cause.as_ref(), of_its_pods));
    }
}

fn keep(draft: &mut Draft<'_>, number: RolloutRevision, end: &Ended) {
    if let Some(rollout) = ended(draft.annotations(), number, end) {
        rollout.keep(draft.annotations_mut());
    }
}
