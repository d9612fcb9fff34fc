//! Moves a progressive rollout from one step to the next, and decides what it waits for in between.

use super::{
    analyzing,
    draft::event,
    observe::Observed,
    progress,
    steering::{Grown, Steering},
    steps::CurrentStep,
    work::{StatusStep, Work, count},
};
use crate::{
    analysis::{Note, Outcome},
    plan::{Plan, Severity, Wait},
    rollback,
};
use berth_api::{
    annotations::{BERTH_ANALYSIS, BERTH_STEP},
    apps::steps::Step,
};
use jiff::{SignedDuration, Timestamp};

/// One reconcile of a rollout at a step before the last: sets grow, otherwise shrink, otherwise the step advances.
pub(super) fn plan(mut work: Work<'_, '_>, observed: &Observed<'_>, current_step: &CurrentStep<'_>) -> Plan {
    let steering = Steering::new(observed, current_step);
    let wanted: i64 = observed.sets.iter().map(|set| i64::from(set.replicas)).sum();
    let Grown { sizes, only, lacking } = steering.grown(observed.size.max() - wanted);
    work.wait_for_room(only, lacking);
    let mut created = 0;
    for (index, to) in sizes {
        match index {
            Some(index) => work.resize(index, to),
            None => created = to,
        }
    }
    if observed.new.is_none() {
        return work.create(created);
    }
    if !work.is_resized() {
        steering.shrink(&mut work);
    }
    if !work.is_resized() {
        go_on(&mut work, observed, current_step, &steering);
    }
    work.finish(StatusStep::Rollout)
}

/// Advances to the next step if this one is over, or waits. The wait starts after the step's pods have been available for a while, so a pod
/// that crashes right after its start does not count. A step without pods proves nothing.
fn go_on(work: &mut Work<'_, '_>, observed: &Observed<'_>, current_step: &CurrentStep<'_>, steering: &Steering<'_, '_>) {
    let position = current_step.position();
    let (Some(new), true) = (observed.new, steering.is_reached()) else { return };
    let (now, step) = (observed.state.now, current_step.step());
    if observed.size.desired == 0 {
        return work.wait_at_step(Wait::StepWithoutPods { at: current_step.at(observed) }, None);
    }
    if analyzing::is_promoted(observed, position) {
        return next(work, observed, current_step, new);
    }
    let (at, steady) = (current_step.at(observed), steady(observed));
    let settled = available_since(observed, new).and_then(|since| since.checked_add(steady).ok());
    if settled.is_none_or(|settled| now < settled) {
        return work.wait_until(Wait::StepSettles { at, seconds: count(steady.as_secs()), until: settled }, settled);
    }
    match step {
        Step::Percent(_) => next(work, observed, current_step, new),
        Step::Pause => work.wait_at_step(Wait::StepPaused { at }, None),
        Step::Seconds(seconds) => {
            let until = position.since.unwrap_or(now).checked_add(SignedDuration::from_secs(seconds.into())).unwrap_or(Timestamp::MAX);
            if until <= now {
                return next(work, observed, current_step, new);
            }
            work.wait_at_step(Wait::StepLasts { at, until }, Some(until));
        }
        Step::Analysis => wait_for_analysis(work, observed, current_step, new),
    }
}

/// Since when all pods of the new set have been available. `None` if one is not.
fn available_since(observed: &Observed<'_>, new: usize) -> Option<Timestamp> {
    let set = observed.sets[new];
    let ready = observed.state.found.all_ready_since?;
    ready.checked_add(SignedDuration::from_secs(set.min_ready_seconds.max(0).into())).ok()
}

/// How long pods must stay available until a step is reached.
fn steady(observed: &Observed<'_>) -> SignedDuration {
    let deadline = progress::deadline(observed.deployment().spec.progress_deadline_seconds);
    deadline.map_or(rollback::STEADY, rollback::steady)
}

/// Begins the next step, if there is one.
fn next(work: &mut Work<'_, '_>, observed: &Observed<'_>, current_step: &CurrentStep<'_>, new: usize) {
    if let Some(next) = current_step.next() {
        work.drafts[new].annotate(BERTH_STEP, Some(&next.value(observed.state.now)));
    }
}

/// Waits for an answer, or acts on it. The outcome is written on the set: with the next step, or before a rollback.
fn wait_for_analysis(work: &mut Work<'_, '_>, observed: &Observed<'_>, current_step: &CurrentStep<'_>, new: usize) {
    let question = analyzing::question(observed, current_step.position());
    let outcome = analyzing::outcome(observed, work.drafts[new].annotations(), &question);
    if let Some(outcome) = outcome {
        work.drafts[new].annotate(BERTH_ANALYSIS, Some(&Note::new(&question, outcome).value()));
    }
    let (at, provider) = (current_step.at(observed), question.provider.clone());
    match outcome {
        Some(outcome @ Outcome::Passed { .. }) => {
            let message = format!("{at}: the analysis by provider {provider:?} {outcome}");
            work.drafts[new].write_event = Some(event(observed.deployment(), Severity::Normal, "AnalysisPassed", message));
            next(work, observed, current_step, new);
        }
        Some(outcome @ (Outcome::Failed { .. } | Outcome::Unanswered { .. })) => {
            work.wait_at_step(Wait::StepFailed { at, provider, outcome }, None);
        }
        None | Some(Outcome::Waits { .. }) => {
            let last = outcome.and_then(|outcome| if let Outcome::Waits { why } = outcome { Some(why) } else { None });
            work.wait_at_step(Wait::StepAnalyzed { at, provider, last }, analyzing::requeue_at(observed, &question));
            work.ask(question);
        }
    }
}
