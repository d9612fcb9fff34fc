//! One reconcile of one Deployment: the order of the decisions.

use super::{
    DeploymentState, auto_rollback,
    auto_rollback::Decision,
    draft::event,
    observe::{Observed, observe},
    recreate, rollback, rolling, scaling, stepping,
    steps::{self, CurrentStep},
    work::{StatusStep, Work},
};
use crate::{
    claim,
    plan::{Action, EventRecord, Outcome, Plan, Reason, Repeat, Severity, Stage, Subresource, Urgency, Wait},
    resources::DEPLOYMENT,
    rollback::WayBack,
    view::{DeploymentStrategy, ReplicaSetView, UnknownChoice},
};
use berth_api::{
    Gate,
    annotations::{BERTH_AUTO_ROLLBACK, BERTH_POD_REPLACEMENT_POLICY, BERTH_STEPS},
};
use serde_json::json;

/// Plans one Deployment.
///
/// Adopting and releasing ReplicaSets comes first and alone. Then the first that applies: only the status (terminating), scaling (paused),
/// rollback (requested or automatic), scaling (changed size), rollout. A rollback that needs confirmation from a node comes last: scaling
/// and the rollout continue until then. The plan's waits contain what it defers.
#[must_use]
pub fn plan(state: &DeploymentState) -> Plan {
    if state.deployment.selector.as_ref().is_none_or(crate::selector::Selector::is_empty) {
        return selects_all(state);
    }
    let claims = claims(state);
    if !claims.is_empty() {
        return Plan { stages: claims, ..Plan::default() };
    }
    let mut plan = match observe(state) {
        Ok(observed) => decide(&observed),
        Err(fault) => Plan { events: vec![once(state, "InvalidStrategy", fault.to_string())], ..Plan::default() },
    };
    plan.events.extend(invalid_annotations(state));
    plan
}

fn decide(observed: &Observed<'_>) -> Plan {
    let deployment = observed.deployment();
    if deployment.meta.deleted.is_some() {
        let mut work = Work::unchanged(observed);
        work.wait(Wait::BeingDeleted { kind: "Deployment".to_owned(), name: deployment.meta.name.to_string() });
        return work.finish(StatusStep::Counts);
    }
    if deployment.spec.paused {
        return paused(observed);
    }
    if let Some(revision) = rollback::requested(deployment) {
        return if observed.new.is_some() { rollback::plan(observed, revision) } else { create_first(observed) };
    }
    match auto_rollback::decide(observed) {
        Some(Decision::RollBack(back)) => match auto_rollback::way_back(observed, &back) {
            WayBack::Now(stage) => Plan { stages: vec![stage], ..Plan::default() },
            WayBack::IfConfirmed(stages) => {
                let mut plan = scale_or_roll_out(observed);
                plan.stages.extend(stages);
                plan
            }
        },
        Some(Decision::Stays { .. }) | None => scale_or_roll_out(observed),
    }
}

fn scale_or_roll_out(observed: &Observed<'_>) -> Plan {
    if scaling::is_due(observed) {
        return scaling::plan(observed);
    }
    match observed.strategy {
        DeploymentStrategy::RollingUpdate => roll(observed),
        DeploymentStrategy::Recreate => recreate::plan(observed),
    }
}

/// One reconcile of a rolling update, in steps if the Deployment has some.
fn roll(observed: &Observed<'_>) -> Plan {
    let work = Work::new(observed);
    match steps::current_step(observed).filter(CurrentStep::steers) {
        Some(current_step) => stepping::plan(work, observed, &current_step),
        None => rolling::plan(work, observed),
    }
}

/// A rollback starts from the newest template. As upstream, its set is created first so that it has a revision, under Recreate without
/// pods.
fn create_first(observed: &Observed<'_>) -> Plan {
    match observed.strategy {
        DeploymentStrategy::RollingUpdate => roll(observed),
        DeploymentStrategy::Recreate => Work::new(observed).create(0),
    }
}

/// Scaling and clean-up continue while the rollout is paused.
fn paused(observed: &Observed<'_>) -> Plan {
    let mut work = Work::new(observed);
    let lacking = scaling::scale_paused(&mut work, observed);
    work.clean_up();
    if !work.has_rolled_out(lacking) {
        work.wait(Wait::Paused);
    }
    work.finish(StatusStep::Counts)
}

/// Adopts matching ReplicaSets without a controller, and releases those that the Deployment no longer selects.
fn claims(state: &DeploymentState) -> Vec<Stage> {
    let deployment = &*state.deployment;
    if deployment.meta.deleted.is_some() {
        return Vec::new();
    }
    let selects = |set: &ReplicaSetView| deployment.selector.as_ref().is_some_and(|selector| selector.matches(&set.meta.labels));
    let owner = claim::controller_reference(&DEPLOYMENT, &deployment.meta);
    let orphans = state.sets.iter().filter(|set| set.meta.controller().is_none() && set.meta.deleted.is_none() && selects(set));
    let adopt = orphans.map(|set| claim::adopt(set.reference(), &set.meta, owner.clone())).collect();
    let strays = state.sets.iter().filter(|set| set.meta.is_controlled_by(&deployment.meta.uid) && !selects(set));
    let release = strays.map(|set| claim::release(set.reference(), &set.meta, &deployment.meta.uid)).collect();
    claim::stages(deployment.reference(), adopt, release)
}

/// A Deployment that selects every pod is not reconciled.
fn selects_all(state: &DeploymentState) -> Plan {
    let deployment = &*state.deployment;
    let message = "This deployment is selecting all pods. A non-empty selector is required.".to_owned();
    let observed = (deployment.status.observed_generation < deployment.meta.generation).then(|| Action::Patch {
        target: deployment.reference(),
        subresource: Some(Subresource::Status),
        patch: json!({"status": {"observedGeneration": deployment.meta.generation}}),
        urgency: Urgency::Now,
        reason: Reason::SelectsAll,
        events: Outcome::default(),
    });
    Plan {
        stages: observed.into_iter().map(|action| Stage { actions: vec![action] }).collect(),
        events: vec![once(state, "SelectingAll", message)],
        ..Plan::default()
    }
}

fn invalid_annotations(state: &DeploymentState) -> impl Iterator<Item = EventRecord> {
    let choices = &state.deployment.choices;
    let policy = choices.policy.as_ref().err().filter(|_| state.gates.enabled(Gate::DeploymentPodReplacementPolicy));
    let policy =
        policy.map(|UnknownChoice(text)| (BERTH_POD_REPLACEMENT_POLICY, text, "\"TerminationStarted\" or \"TerminationComplete\""));
    let rollback = choices.auto_rollback.as_ref().err().map(|UnknownChoice(text)| (BERTH_AUTO_ROLLBACK, text, "\"OnDeadline\""));
    let steps = choices.steps.as_ref().err().map(|error| (BERTH_STEPS, error));
    let steps = steps.map(|(key, error)| once(state, "InvalidAnnotation", format!("{key}: {error}: it is ignored")));
    let invalid_annotation =
        |(key, text, known)| once(state, "InvalidAnnotation", format!("{key} is {text:?}, not {known}: it is ignored"));
    policy.into_iter().chain(rollback).map(invalid_annotation).chain(steps)
}

fn once(state: &DeploymentState, reason: &'static str, message: String) -> EventRecord {
    EventRecord { repeat: Repeat::Once, ..event(&state.deployment, Severity::Warning, reason, message) }
}
