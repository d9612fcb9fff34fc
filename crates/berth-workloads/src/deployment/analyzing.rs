//! The wait of a step for an analysis: the question, and the effect of the answer.
//!
//! The plan contains the question ([`crate::Plan::question`]), and the state contains the answer ([`super::DeploymentState::asked`]). A
//! passing answer is written with the next step in one patch. A failing or overdue answer is written on the set first. A later leader then
//! rolls back from that record and does not ask again.

use super::{
    annotations::Annotations,
    observe::Observed,
    progress,
    status::{Conditions, Verdict},
    steps::{self, CurrentStep, StepPosition},
};
use crate::analysis::{Asked, Note, Outcome, Question};
use berth_api::{
    annotations::{BERTH_PROMOTED, POD_TEMPLATE_HASH},
    apps::steps::Step,
};
use berth_identity::TemplateHash;
use jiff::{SignedDuration, Timestamp};

/// How long the provider may not answer if the Deployment has no progress deadline: the default deadline.
const UNANSWERED_MAX: SignedDuration = SignedDuration::from_mins(10);
/// The condition that a step's analysis has failed.
const ANALYSIS_FAILED: &str = "AnalysisFailed";

/// The question of the step at this position. `set` is the new one.
pub(super) fn question(observed: &Observed<'_>, position: &StepPosition) -> Question {
    let deployment = observed.deployment();
    let (provider, query) = Question::texts(&deployment.annotations);
    let hash = observed.new_set().and_then(|set| set.meta.labels.get(POD_TEMPLATE_HASH));
    Question {
        provider,
        query,
        namespace: deployment.meta.namespace.to_string(),
        deployment: deployment.meta.name.to_string(),
        revision: position.revision,
        template_hash: hash.map(TemplateHash::from).unwrap_or_default(),
        step: position.index + 1,
    }
}

/// The outcome of this question: the recorded one if it is final, otherwise the asker's. `None` if no answer could have arrived yet.
pub(super) fn outcome(observed: &Observed<'_>, set: &Annotations, question: &Question) -> Option<Outcome> {
    let kept = Note::of(set, question).map(|note| note.outcome);
    if let Some(Outcome::Passed { .. } | Outcome::Failed { .. } | Outcome::Unanswered { .. }) = kept {
        return kept;
    }
    let asked = observed.state.asked.as_ref().filter(|asked| asked.question == *question);
    asked.and_then(|asked| outcome_of(asked, patience(observed), observed.state.now)).or(kept)
}

fn outcome_of(asked: &Asked, patience: SignedDuration, now: Timestamp) -> Option<Outcome> {
    Some(match asked.last? {
        Ok(answer) if answer.passes() => Outcome::Passed { answer },
        Ok(answer) => Outcome::Failed { answer },
        Err(why) if ends_at(asked, patience) <= now => Outcome::Unanswered { why },
        Err(why) => Outcome::Waits { why },
    })
}

/// When to requeue, because the time for an answer ends.
pub(super) fn requeue_at(observed: &Observed<'_>, question: &Question) -> Option<Timestamp> {
    let asked = observed.state.asked.as_ref().filter(|asked| asked.question == *question)?;
    // After that time, a question that still waits for its turn needs no requeue: its answer enqueues the Deployment.
    Some(ends_at(asked, patience(observed))).filter(|end| observed.state.now < *end)
}

fn ends_at(asked: &Asked, patience: SignedDuration) -> Timestamp {
    asked.since.checked_add(patience).unwrap_or(Timestamp::MAX)
}

/// How long the provider may not answer: as long as the rollout may make no progress.
fn patience(observed: &Observed<'_>) -> SignedDuration {
    progress::deadline(observed.deployment().spec.progress_deadline_seconds).unwrap_or(UNANSWERED_MAX)
}

/// The current step's analysis if it is recorded as failed. `None` if a user has promoted the rollout all the same.
fn failed(observed: &Observed<'_>, current_step: &CurrentStep<'_>, set: &Annotations) -> Option<(Question, Outcome)> {
    let position = current_step.position();
    if current_step.step() != Step::Analysis || is_promoted(observed, position) {
        return None;
    }
    let question = question(observed, position);
    let outcome = Note::of(set, &question)?.outcome;
    outcome.is_failure().then_some((question, outcome))
}

/// Whether a promotion ends the wait of this position, for this template.
pub(super) fn is_promoted(observed: &Observed<'_>, position: &StepPosition) -> bool {
    let promotion = observed.new_set().map(|new| position.promotion(&new.meta));
    promotion.is_some_and(|promotion| observed.deployment().annotations.get(BERTH_PROMOTED) == Some(&promotion))
}

/// Why the current step's analysis has failed, as a sentence. `set` contains the annotations of the set that records the failure.
pub(super) fn failure(observed: &Observed<'_>, set: &Annotations) -> Option<(Outcome, String)> {
    let current_step = steps::current_step(observed)?;
    let (question, outcome) = failed(observed, &current_step, set)?;
    Some((outcome, format!("{}: the analysis by provider {:?} {outcome}", current_step.at(observed), question.provider)))
}

/// Sets or removes the condition that the current step's analysis has failed.
pub(super) fn set_failed(conditions: &mut Conditions, observed: &Observed<'_>, new: Option<&Annotations>) {
    match new.and_then(|set| failure(observed, set)) {
        Some((outcome, message)) => {
            let reason = if matches!(outcome, Outcome::Unanswered { .. }) { "Unanswered" } else { "Answered" };
            conditions.set(ANALYSIS_FAILED, Verdict { status: "True", reason, message }, observed.state.now);
        }
        None => conditions.remove(ANALYSIS_FAILED),
    }
}
