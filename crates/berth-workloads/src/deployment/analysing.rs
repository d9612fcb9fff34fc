//! The wait of a step for an analysis: what is to be asked, and what the step comes to by what was answered.
//!
//! Who asks is told by the plan ([`crate::Plan::question`]) and tells by the state ([`super::DeploymentState::asked`]). An answer that passes is written with the step after it, in one
//! patch. One that does not, or that is missing for too long, is written on the set first: whoever leads then goes back from what is written, and asks nobody again.

use super::{
    annotations::Annotations,
    observe::Observed,
    progress,
    status::{Conditions, Verdict},
    steps::{self, Stand, StepPosition},
};
use crate::analysis::{Asked, Note, Outcome, Question};
use berth_api::{
    annotations::{BERTH_PROMOTED, POD_TEMPLATE_HASH},
    apps::steps::Step,
};
use berth_identity::TemplateHash;
use jiff::{SignedDuration, Timestamp};

/// How long nobody may answer where the Deployment has no progress deadline: that of one that does not say.
const UNANSWERED_MAX: SignedDuration = SignedDuration::from_mins(10);
/// The condition that the analysis of a step has failed.
const ANALYSIS_FAILED: &str = "AnalysisFailed";

/// What the step of this position asks of whom; `set` is the new one.
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

/// What this question has come to: what is written of it, if that is an end; else what whoever asks tells. `None`: there was no time for an answer yet.
pub(super) fn outcome(observed: &Observed<'_>, set: &Annotations, question: &Question) -> Option<Outcome> {
    let kept = Note::of(set, question).map(|note| note.outcome);
    if let Some(Outcome::Passed { .. } | Outcome::Failed { .. } | Outcome::Unanswered { .. }) = kept {
        return kept;
    }
    let asked = observed.state.asked.as_ref().filter(|asked| asked.question == *question);
    asked.and_then(|asked| told(asked, patience(observed), observed.state.now)).or(kept)
}

fn told(asked: &Asked, patience: SignedDuration, now: Timestamp) -> Option<Outcome> {
    Some(match asked.last? {
        Ok(answer) if answer.passes() => Outcome::Passed { answer },
        Ok(answer) => Outcome::Failed { answer },
        Err(why) if ends_at(asked, patience) <= now => Outcome::Unanswered { why },
        Err(why) => Outcome::Waits { why },
    })
}

/// When to look again for that nobody has answered.
pub(super) fn look_again(observed: &Observed<'_>, question: &Question) -> Option<Timestamp> {
    let asked = observed.state.asked.as_ref().filter(|asked| asked.question == *question)?;
    // One that has waited for its turn since it was due is awaited: who answers wakes.
    Some(ends_at(asked, patience(observed))).filter(|end| observed.state.now < *end)
}

fn ends_at(asked: &Asked, patience: SignedDuration) -> Timestamp {
    asked.since.checked_add(patience).unwrap_or(Timestamp::MAX)
}

/// How long nobody may answer: as long as the rollout may stand still.
fn patience(observed: &Observed<'_>) -> SignedDuration {
    progress::deadline(observed.deployment().spec.progress_deadline_seconds).unwrap_or(UNANSWERED_MAX)
}

/// The analysis of the step at hand that has failed, by what is written of it; `None` too where somebody has said that the rollout goes on all the same.
fn failed(observed: &Observed<'_>, stand: &Stand<'_>, set: &Annotations) -> Option<(Question, Outcome)> {
    let position = stand.position();
    if stand.step() != Step::Analysis || is_promoted(observed, position) {
        return None;
    }
    let question = question(observed, position);
    let outcome = Note::of(set, &question)?.outcome;
    outcome.is_failure().then_some((question, outcome))
}

/// Whether a promotion says that the wait of this position is over, for this template.
pub(super) fn is_promoted(observed: &Observed<'_>, position: &StepPosition) -> bool {
    let promotion = observed.new_set().map(|new| position.promotion(&new.meta));
    promotion.is_some_and(|promotion| observed.deployment().annotations.get(BERTH_PROMOTED) == Some(&promotion))
}

/// What the analysis of the step at hand has failed by, in words, as it is written on the set whose annotations these are.
pub(super) fn failure(observed: &Observed<'_>, set: &Annotations) -> Option<(Outcome, String)> {
    let stand = steps::stand(observed)?;
    let (question, outcome) = failed(observed, &stand, set)?;
    Some((outcome, format!("{}: the analysis by provider {:?} {outcome}", stand.at(observed), question.provider)))
}

/// Says that the analysis of the step at hand has failed, or no longer says so.
pub(super) fn set_failed(conditions: &mut Conditions, observed: &Observed<'_>, new: Option<&Annotations>) {
    match new.and_then(|set| failure(observed, set)) {
        Some((outcome, message)) => {
            let reason = if matches!(outcome, Outcome::Unanswered { .. }) { "Unanswered" } else { "Answered" };
            conditions.set(ANALYSIS_FAILED, Verdict { status: "True", reason, message }, observed.state.now);
        }
        None => conditions.remove(ANALYSIS_FAILED),
    }
}
