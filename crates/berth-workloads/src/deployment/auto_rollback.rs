//! Automatic rollback. A template that was never complete, and that misses the progress deadline or fails a step's analysis, is replaced by
//! the last complete one. This happens once for each template. The record is on the Deployment and its sets.

use super::{
    analyzing,
    annotations::{self, Annotations, REVISION},
    complete,
    draft::{Draft, event},
    observe::Observed,
    progress::{self, DEADLINE_EXCEEDED, NEW_AVAILABLE},
    rollback::patch,
    status::{self, Conditions, PROGRESSING, Verdict},
    steps,
    subject::Subject,
};
use crate::{
    cause::{self, Cause, Kind},
    hash::{template_hash, without_hash},
    plan::{Action, EventRecord, Outcome, Reason, Repeat, Severity, Urgency},
    rollback::{self, Record, Stays, WayBack},
    view::{AutoRollback, DeploymentView, ReplicaSetView},
};
use berth_api::{
    annotations::{BERTH_ROLLBACK, BERTH_ROLLED_BACK_TEMPLATES, CHANGE_CAUSE},
    apps::steps::Step,
};
use berth_identity::{RolloutRevision, TemplateHash};
use jiff::Timestamp;

/// The condition that the target of the rollback has missed its deadline too.
const ROLLBACK_FAILED: &str = "RollbackFailed";

/// The decision about a failed template.
pub(super) enum Decision<'a> {
    /// The Deployment is rolled back.
    RollBack(Back<'a>),
    /// The template remains, because no rollback is possible.
    Stays { hash: TemplateHash, failure: Failure, why: Stays },
}

/// How a template has failed.
pub(super) enum Failure {
    /// It has missed its progress deadline, for this cause if one is known.
    Deadline(Option<Cause>),
    /// The analysis of a step has failed.
    Analysis {
        /// As one word.
        reason: &'static str,
        /// As a sentence.
        message: String,
    },
}

impl Failure {
    /// The text after the name of the revision.
    fn words(&self) -> &'static str {
        match self {
            Self::Deadline(_) => "has missed its progress deadline",
            Self::Analysis { .. } => "has failed its analysis",
        }
    }

    /// Distinguishes its events from those of other failures of the same template.
    fn prefix(&self) -> &'static str {
        match self {
            Self::Deadline(_) => "",
            Self::Analysis { reason, .. } => reason,
        }
    }
}

/// The source and the target of a rollback, and its reason.
pub(super) struct Back<'a> {
    from: &'a ReplicaSetView,
    to: &'a ReplicaSetView,
    /// The hash of the template that is rolled back.
    hash: TemplateHash,
    failure: Failure,
}

impl Back<'_> {
    /// Whether the cause of the failure is unknown. Then nodes have to confirm it.
    fn is_unexplained(&self) -> bool {
        matches!(self.failure, Failure::Deadline(None))
    }
}

/// The set whose failure the nodes of its pods have to confirm, if there is one.
pub(super) fn needs_nodes<'a>(observed: &Observed<'a>) -> Option<&'a ReplicaSetView> {
    match decide(observed)? {
        Decision::RollBack(back) => back.is_unexplained().then_some(back.from),
        Decision::Stays { .. } => None,
    }
}

/// Returns `None` if no rollback is configured or nothing has failed. A deadline that another template missed does not count. A template
/// that was complete once has shown that it works.
pub(super) fn decide<'a>(observed: &Observed<'a>) -> Option<Decision<'a>> {
    let from = observed.new_set().filter(|new| rollback::completed_revision(&new.annotations).is_none())?;
    let failure = failed_analysis(observed, from).or_else(|| missed_deadline(observed, from));
    let failure = failure.or_else(|| fell_over(observed, from)).or_else(|| crashes_at_step(observed, from))?;
    let hash = template_hash(&observed.deployment().spec.template, None);
    let stays = |hash, failure, why| Some(Decision::Stays { hash, failure, why });
    if all_annotations(observed).any(|annotations| rollback::is_remembered(annotations, &hash)) {
        return stays(hash, failure, Stays::BroughtBack);
    }
    match &failure {
        Failure::Deadline(None) if from.status.available_replicas >= from.status.replicas => return stays(hash, failure, Stays::NoneFails),
        Failure::Deadline(Some(cause)) if !cause.kind.may_be_the_templates() => {
            let why = Stays::NotItsOwn(cause.clone());
            return stays(hash, failure, why);
        }
        Failure::Deadline(_) | Failure::Analysis { .. } => (),
    }
    let there = observed.old().map(|(_, set)| set).filter(|set| set.meta.deleted.is_none());
    let complete = there.filter_map(|set| Some((rollback::completed_revision(&set.annotations)?, set)));
    match complete.max_by_key(|(revision, _)| *revision) {
        Some((_, to)) => Some(Decision::RollBack(Back { from, to, hash, failure })),
        None => stays(hash, failure, Stays::NothingBefore),
    }
}

/// Steps with an analysis opt in to its consequences. No other annotation is required.
fn failed_analysis(observed: &Observed<'_>, new: &ReplicaSetView) -> Option<Failure> {
    let (outcome, message) = analyzing::failure(observed, &new.annotations)?;
    Some(Failure::Analysis { reason: outcome.reason()?, message })
}

fn missed_deadline(observed: &Observed<'_>, new: &ReplicaSetView) -> Option<Failure> {
    let deployment = observed.deployment();
    let is_asked_for = deployment.choices.auto_rollback == Ok(AutoRollback::OnDeadline);
    // A rollout that has progressed since, for example because a quota has room again, gets a new deadline.
    let has_progressed = || progress::has_progressed(observed.policy, &deployment.status, &status::counts(observed, 0));
    let is_way_back = || record_of(deployment, &new.annotations).is_some();
    let has_failed = is_asked_for && has_missed_deadline(deployment, new) && !has_progressed() && !is_way_back();
    has_failed.then(|| Failure::Deadline(observed.failing(new)))
}

/// The failure of a rollout that was complete by its counts, but whose pods did not stay available and fail after its deadline.
fn fell_over(observed: &Observed<'_>, new: &ReplicaSetView) -> Option<Failure> {
    let deployment = observed.deployment();
    let is_asked_for =
        deployment.choices.auto_rollback == Ok(AutoRollback::OnDeadline) && record_of(deployment, &new.annotations).is_none();
    let is_over = is_asked_for && deadline_of_success(observed, new)? <= observed.state.now;
    let cause = observed.failing(new).filter(|cause| is_over && cause.kind.may_be_the_templates())?;
    Some(Failure::Deadline(Some(cause)))
}

/// The failure of a step whose pod crashes repeatedly until the deadline. Each start of such a pod is counted as progress.
fn crashes_at_step(observed: &Observed<'_>, new: &ReplicaSetView) -> Option<Failure> {
    let (ends_at, cause) = crashing_until(observed, new)?;
    (ends_at <= observed.state.now).then_some(Failure::Deadline(Some(cause)))
}

/// Until when a pod may crash at a step that waits for pods only. The deadline starts when both the pod and the step exist.
fn crashing_until(observed: &Observed<'_>, new: &ReplicaSetView) -> Option<(Timestamp, Cause)> {
    let deployment = observed.deployment();
    let is_asked_for =
        deployment.choices.auto_rollback == Ok(AutoRollback::OnDeadline) && record_of(deployment, &new.annotations).is_none();
    let current_step =
        steps::current_step(observed).filter(|current_step| is_asked_for && matches!(current_step.step(), Step::Percent(_)))?;
    let pod = observed.state.pods.get(&new.meta.uid)?.failing.as_ref()?;
    let cause = cause::of_pod(pod).filter(|cause| cause.kind == Kind::Crash)?;
    let since = current_step.position().since?.max(pod.meta.created?);
    let deadline = progress::deadline(deployment.spec.progress_deadline_seconds)?;
    Some((since.checked_add(deadline).ok()?, cause))
}

/// Until when a rollout that is complete by its counts must have succeeded.
fn deadline_of_success(observed: &Observed<'_>, new: &ReplicaSetView) -> Option<Timestamp> {
    let deadline = progress::deadline(observed.deployment().spec.progress_deadline_seconds)?;
    completed_by_counts(observed.deployment(), new)?.checked_add(deadline).ok()
}

/// When the stored status first reported that the rollout to this set is complete.
fn completed_by_counts(deployment: &DeploymentView, set: &ReplicaSetView) -> Option<Timestamp> {
    let mut conditions = deployment.status.conditions.iter().flatten().filter(|condition| condition.type_ == PROGRESSING);
    let progressing = conditions.next().filter(|_| has_progressing_reason(deployment, set, NEW_AVAILABLE))?;
    progressing.last_update_time.as_ref().map(|time| time.0)
}

/// When the rollout to the new set has succeeded if its pods stay available. `None` if not all of them are, or if success does not depend
/// on time.
fn succeeds_at(observed: &Observed<'_>, new: &ReplicaSetView) -> Option<Timestamp> {
    let deadline = progress::deadline(observed.deployment().spec.progress_deadline_seconds)?;
    let since = observed.state.found.all_ready_since?.max(completed_by_counts(observed.deployment(), new)?);
    since.checked_add(rollback::steady(deadline)).ok()
}

/// When the success of the rollout to the new set, which is complete by its counts, is decided.
pub(super) fn next_decision(observed: &Observed<'_>) -> Option<Timestamp> {
    let deployment = observed.deployment();
    let new = observed.new_set().filter(|new| rollback::completed_revision(&new.annotations).is_none())?;
    let fails_at = deadline_of_success(observed, new).filter(|_| deployment.choices.auto_rollback == Ok(AutoRollback::OnDeadline));
    let succeeds_at = if is_complete(observed, new) { succeeds_at(observed, new) } else { None };
    let crashes_until = crashing_until(observed, new).map(|(until, _)| until);
    [succeeds_at, fails_at, crashes_until].into_iter().flatten().filter(|at| observed.state.now < *at).min()
}

/// Whether the stored status reports that the deadline of this set's rollout has passed.
fn has_missed_deadline(deployment: &DeploymentView, new: &ReplicaSetView) -> bool {
    let has_deadline = progress::deadline(deployment.spec.progress_deadline_seconds).is_some();
    has_deadline && has_progressing_reason(deployment, new, DEADLINE_EXCEEDED)
}

/// Whether the stored condition `Progressing` is about this set and has this reason.
fn has_progressing_reason(deployment: &DeploymentView, set: &ReplicaSetView, reason: &str) -> bool {
    Subject::ReplicaSet(set.meta.name.to_string()).has_reason(&deployment.status, reason)
}

/// The record of the rollback that caused the present rollout. `new` contains the annotations of its set.
fn record_of(deployment: &DeploymentView, new: &Annotations) -> Option<Record> {
    Record::of(&deployment.annotations).filter(|record| record.has_made(revision(new), &deployment.spec.template))
}

fn revision(annotations: &Annotations) -> RolloutRevision {
    annotations::revision(annotations).unwrap_or_default()
}

/// The Deployment's annotations come last, because they are authoritative.
fn all_annotations<'a>(observed: &Observed<'a>) -> impl Iterator<Item = &'a Annotations> {
    observed.sets.iter().map(|set| &set.annotations).chain([&observed.deployment().annotations])
}

/// One write: the target's template, the record of the rollback, and the record that the failed template must not be rolled back again.
/// Other annotations of the Deployment remain, except the change cause.
pub(super) fn way_back(observed: &Observed<'_>, back: &Back<'_>) -> WayBack {
    let deployment = observed.deployment();
    let record = record(observed, back);
    let given_up = Annotations::from([(BERTH_ROLLED_BACK_TEMPLATES.to_owned(), back.hash.to_string())]);
    let mut annotations = deployment.annotations.clone();
    let known: Vec<&Annotations> = all_annotations(observed).collect();
    annotations.insert(BERTH_ROLLED_BACK_TEMPLATES.to_owned(), rollback::remembered(known.into_iter().chain([&given_up])));
    annotations.insert(BERTH_ROLLBACK.to_owned(), record.value());
    match back.to.annotations.get(CHANGE_CAUSE) {
        Some(cause) => annotations.insert(CHANGE_CAUSE.to_owned(), cause.clone()),
        None => annotations.remove(CHANGE_CAUSE),
    };
    let action = Action::Patch {
        target: deployment.reference(),
        subresource: None,
        patch: patch(deployment, &without_hash(&back.to.template), &annotations).unwrap_or_default(),
        urgency: Urgency::Now,
        reason: Reason::AutomaticRollback { from: record.from_revision, to: record.to_revision },
        events: Outcome { success: Some(event(deployment, Severity::Warning, "AutomaticRollback", record.to_string())), failure: None },
    };
    WayBack::new(nodes_to_confirm(observed, back, &record), action)
}

/// Returns the nodes that have to confirm a failure without a known cause.
fn nodes_to_confirm(observed: &Observed<'_>, back: &Back<'_>, record: &Record) -> Option<Action> {
    if !back.is_unexplained() {
        return None;
    }
    let message = format!("Revision {} {} and stays: a rollback would not help: ", record.from_revision, back.failure.words());
    let skipped = event(observed.deployment(), Severity::Warning, "AutomaticRollbackSkipped", message);
    let nodes = observed.state.found.unready_on.iter().map(ToString::to_string).collect();
    rollback::nodes_to_confirm(nodes, record, (&back.hash, skipped), observed.state.now)
}

fn record(observed: &Observed<'_>, Back { from, to, failure, .. }: &Back<'_>) -> Record {
    let others = observed.sets.iter().filter(|set| set.meta.uid != to.meta.uid);
    let highest = others.map(|set| revision(&set.annotations)).max().unwrap_or_default();
    let (there, available) = (from.status.replicas, from.status.available_replicas);
    let (reason, message) = match failure {
        Failure::Analysis { reason, message } => (Some(*reason), message.clone()),
        Failure::Deadline(Some(cause)) => (Some(cause.kind.reason()), cause.to_string()),
        Failure::Deadline(None) => (None, format!("{} of its {there} pods are not available", there - available)),
    };
    Record {
        // The number that the target set will get.
        revision: revision(&to.annotations).max(highest.next()),
        template_hash: template_hash(&without_hash(&to.template), None),
        from_revision: revision(&from.annotations),
        to_revision: revision(&to.annotations),
        reason: reason.map(str::to_owned),
        message,
    }
}

/// Stores on the sets what must survive when a user replaces the Deployment or restores it by `kubectl rollout undo`. All sets record the
/// rolled-back templates. The two sets of the last rollback record it. A set records that it was complete while the stored status reports
/// so. That status is not overwritten before this write.
pub(super) fn keep(drafts: &mut [Draft<'_>], observed: &Observed<'_>) {
    let deployment = observed.deployment();
    let remembered = rollback::remembered(all_annotations(observed));
    let record = Record::of(&deployment.annotations);
    for draft in drafts {
        if !remembered.is_empty() {
            draft.annotate(BERTH_ROLLED_BACK_TEMPLATES, Some(&remembered));
        }
        if record.as_ref().is_some_and(|record| record.is_about(revision(draft.annotations()), &draft.set.template)) {
            draft.annotate(BERTH_ROLLBACK, deployment.annotations.get(BERTH_ROLLBACK));
        }
        let set = draft.set;
        let number = revision(&set.annotations);
        if has_succeeded(observed, set) && rollback::completed_revision(&set.annotations) != Some(number) {
            rollback::completion(number, observed.state.now).iter().for_each(|(key, value)| draft.annotate(key, Some(value)));
        }
    }
}

/// Whether the rollout to this set is complete, and its pods show it. Unknown if anything but a rollout has removed pods since.
pub(super) fn is_complete(observed: &Observed<'_>, set: &ReplicaSetView) -> bool {
    let deployment = observed.deployment();
    let has_all =
        set.replicas > 0 && set.status.available_replicas >= set.replicas && set.status.observed_generation >= set.meta.generation;
    let has_steps = deployment.choices.steps.as_ref().is_ok_and(|steps| !steps.is_empty());
    let is_asked_for = has_steps || deployment.choices.auto_rollback == Ok(AutoRollback::OnDeadline);
    let is_recorded = deployment.annotations.get(REVISION) == set.annotations.get(REVISION);
    is_asked_for && has_all && is_recorded && is_reported_complete(observed, set)
}

/// Whether its pods have stayed available for long enough. A set that another one replaces can only be judged by its completion.
fn has_succeeded(observed: &Observed<'_>, set: &ReplicaSetView) -> bool {
    let is_newest = observed.new_set().is_some_and(|new| new.meta.uid == set.meta.uid);
    let has_deadline = progress::deadline(observed.deployment().spec.progress_deadline_seconds).is_some();
    let was_before = rollback::completed_revision(&set.annotations).is_some();
    let is_steady = || succeeds_at(observed, set).is_some_and(|at| at <= observed.state.now);
    is_complete(observed, set) && (!is_newest || !has_deadline || was_before || is_steady())
}

/// Whether the stored status reports that the rollout to this set is complete. Without a deadline, the counts decide.
fn is_reported_complete(observed: &Observed<'_>, set: &ReplicaSetView) -> bool {
    let deployment = observed.deployment();
    match progress::deadline(deployment.spec.progress_deadline_seconds) {
        Some(_) => has_progressing_reason(deployment, set, NEW_AVAILABLE),
        None => observed.new_set().is_some_and(|new| new.meta.uid == set.meta.uid) && complete::is_complete(observed, &deployment.status),
    }
}

/// Sets or removes the condition that the target of the rollback has failed as well.
pub(super) fn set_failed(conditions: &mut Conditions, observed: &Observed<'_>, new: Option<&Draft<'_>>) {
    let failed = new.filter(|_| conditions.reason(PROGRESSING) == DEADLINE_EXCEEDED).and_then(|new| {
        let record = record_of(observed.deployment(), new.annotations())?;
        (rollback::completed_revision(new.annotations()) != Some(record.revision)).then_some(record)
    });
    match failed {
        Some(record) => {
            let verdict = Verdict { status: "True", reason: "TargetFailed", message: record.failure() };
            conditions.set(ROLLBACK_FAILED, verdict, observed.state.now);
        }
        None => conditions.remove(ROLLBACK_FAILED),
    }
}

/// The events for users: a failed template remains, or the target of a rollback has failed.
pub(super) fn events(observed: &Observed<'_>) -> Option<EventRecord> {
    let deployment = observed.deployment();
    let new = observed.new_set()?;
    let number = revision(&new.annotations);
    let warning =
        |reason, message, per| Some(EventRecord { repeat: Repeat::OncePer(per), ..event(deployment, Severity::Warning, reason, message) });
    let record = record_of(deployment, &new.annotations)
        .filter(|record| has_missed_deadline(deployment, new) && rollback::completed_revision(&new.annotations) != Some(record.revision));
    if let Some(record) = record {
        return warning(ROLLBACK_FAILED, record.failure(), number.to_string());
    }
    let Some(Decision::Stays { hash, failure, why }) = decide(observed) else { return None };
    let message = format!("Revision {number} {} and stays: {why}", failure.words());
    warning("AutomaticRollbackSkipped", message, format!("{hash}/{}{}", failure.prefix(), why.word()))
}
