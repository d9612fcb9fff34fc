//! From one step of a progressive rollout to the next, and what is waited for between.

use super::{analysing, draft::event, observe::Observed, steps::Stand, work::Work};
use crate::{
    analysis::{Note, Outcome},
    plan::{Severity, Wait},
};
use berth_api::{
    annotations::{BERTH_ANALYSIS, BERTH_STEP},
    apps::steps::Step,
};
use jiff::{SignedDuration, Timestamp};

/// Goes on to the next step where this one is over, or waits. What waits at a step waits for nothing else: its pods are available.
pub(super) fn go_on(work: &mut Work<'_, '_>, observed: &Observed<'_>, stand: &Stand<'_>) {
    let place = stand.place();
    let (Some(new), true) = (observed.new, stand.is_reached(observed)) else { return };
    let (now, step) = (observed.state.now, stand.step());
    if matches!(step, Step::Percent(_)) || analysing::is_promoted(observed, place) {
        return next(work, observed, stand, new);
    }
    let at = stand.at(observed);
    match step {
        Step::Percent(_) => (),
        Step::Pause => work.wait_at_step(Wait::StepPaused { at }, None),
        Step::Seconds(seconds) => {
            let until = place.since.unwrap_or(now).checked_add(SignedDuration::from_secs(seconds.into())).unwrap_or(Timestamp::MAX);
            if until <= now {
                return next(work, observed, stand, new);
            }
            work.wait_at_step(Wait::StepLasts { at, until }, Some(until));
        }
        Step::Analysis => analyse(work, observed, stand, new),
    }
}

/// The step after this one begins, if there is one.
fn next(work: &mut Work<'_, '_>, observed: &Observed<'_>, stand: &Stand<'_>, new: usize) {
    if let Some(next) = stand.next() {
        let since = observed.state.now.strftime("%Y-%m-%dT%H:%M:%SZ");
        work.drafts[new].annotate(BERTH_STEP, Some(&format!("{}@{since}", next.name())));
    }
}

/// Waits for an answer, or does as it says. What it came to is written on the set: with the step after it, or before anything goes back.
fn analyse(work: &mut Work<'_, '_>, observed: &Observed<'_>, stand: &Stand<'_>, new: usize) {
    let question = analysing::question(observed, stand.place());
    let outcome = analysing::outcome(observed, work.drafts[new].annotations(), &question);
    if let Some(outcome) = outcome {
        work.drafts[new].annotate(BERTH_ANALYSIS, Some(&Note::new(&question, outcome).value()));
    }
    let (at, provider) = (stand.at(observed), question.provider.clone());
    match outcome {
        Some(outcome @ Outcome::Passed { .. }) => {
            let message = format!("{at}: the analysis by provider {provider:?} {outcome}");
            work.drafts[new].told = Some(event(observed.deployment(), Severity::Normal, "AnalysisPassed", message));
            next(work, observed, stand, new);
        }
        Some(outcome @ (Outcome::Failed { .. } | Outcome::Unanswered { .. })) => {
            work.wait_at_step(Wait::StepFailed { at, provider, outcome }, None);
        }
        None | Some(Outcome::Waits { .. }) => {
            let last = outcome.and_then(|outcome| if let Outcome::Waits { why } = outcome { Some(why) } else { None });
            work.wait_at_step(Wait::StepAnalysed { at, provider, last }, analysing::look_again(observed, &question));
            work.ask(question);
        }
    }
}
