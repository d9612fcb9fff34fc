//! One reconcile of one StatefulSet: the order of the decisions.

use super::{
    EffectiveStrategy, StatefulSetState, auto_rollback, condemned,
    events::warn_once,
    member_ordinal,
    observe::{Observed, observe},
    recreate, rolling, slots,
    volumes::References,
    work::Work,
};
use crate::{
    claim,
    plan::{Action, EventRecord, Plan, Stage, Wait},
    resources::STATEFUL_SET,
    rollback::WayBack,
    view::{PodManagement, UpdateStrategy},
};
use berth_api::{
    Gate,
    annotations::{BERTH_AUTO_ROLLBACK, BERTH_REPAIR, BERTH_UPDATE_STRATEGY},
    apps::stateful_set::RECREATE,
};
use std::ops::ControlFlow;

/// Plans one StatefulSet.
///
/// Every reconcile corrects the owners of volume claims before any write to a pod. Adopting and releasing pods and revisions comes next,
/// without other actions. Then a template that has missed its deadline is rolled back, alone. A rollback that needs confirmation from a
/// node comes last instead. Then old pods are deleted if the strategy is Recreate, missing pods are created, surplus pods are deleted, and
/// pods of older revisions are replaced. The plan's waits contain what it defers. A set without a valid selector is not reconciled.
#[must_use]
pub fn plan(state: &StatefulSetState) -> Plan {
    if state.set.selector.as_ref().is_none_or(crate::selector::Selector::is_empty) {
        return Plan::default();
    }
    let references = References::observe(state);
    let claiming = claims(state);
    if !claiming.is_empty() {
        return Plan { stages: claim_writes(references.writes).chain(claiming).collect(), events: references.events, ..Plan::default() };
    }
    let observed = observe(state);
    let back = auto_rollback::way_back(&observed);
    if let Some(WayBack::Now(stage)) = back {
        let stages = claim_writes(references.writes).chain([stage]).collect();
        return Plan { stages, events: references.events, ..Plan::default() };
    }
    let mut work = Work::new(&observed, references);
    let _ended_early = decide(&observed, &mut work);
    let mut plan = work.finish();
    plan.events.extend(invalid_annotations(state));
    if let Some(WayBack::IfConfirmed(stages)) = back {
        plan.stages.extend(stages);
    }
    plan
}

/// The stage of the writes to volume claims, if there are any.
fn claim_writes(writes: Vec<Action>) -> impl Iterator<Item = Stage> {
    Some(writes).filter(|writes| !writes.is_empty()).map(|actions| Stage { actions }).into_iter()
}

fn decide(observed: &Observed<'_>, work: &mut Work<'_, '_>) -> ControlFlow<()> {
    if observed.set().meta.deleted.is_some() {
        work.wait(Wait::BeingDeleted { kind: "StatefulSet".to_owned(), name: observed.set().meta.name.to_string() });
        return ControlFlow::Break(());
    }
    if observed.strategy == EffectiveStrategy::Recreate {
        recreate::old_pods(work)?;
    }
    rolling::repair(work)?;
    match observed.management {
        PodManagement::OrderedReady => {
            slots::ordered(work)?;
            condemned::ordered(work)?;
        }
        PodManagement::Parallel => {
            condemned::parallel(work);
            slots::parallel(work);
        }
    }
    rolling::update(work);
    ControlFlow::Continue(())
}

/// Adopts pods and revisions without a controller, and releases pods that no longer belong to the set.
fn claims(state: &StatefulSetState) -> Vec<Stage> {
    let set = &*state.set;
    if set.meta.deleted.is_some() {
        return Vec::new();
    }
    let selects = |labels| set.selector.as_ref().is_some_and(|selector| selector.matches(labels));
    let owner = claim::controller_reference(&STATEFUL_SET, &set.meta);
    let is_member = |name: &str| member_ordinal(&set.meta.name, name).is_some();
    let pods = state.orphans.iter().filter(|pod| pod.meta.deleted.is_none() && is_member(&pod.meta.name) && selects(&pod.meta.labels));
    let pods = pods.map(|pod| claim::adopt(pod.reference(), &pod.meta, owner.clone()));
    let revisions = state.revisions.iter().filter(|revision| revision.meta.controller().is_none() && revision.meta.deleted.is_none());
    let revisions = revisions.filter(|revision| selects(&revision.meta.labels));
    let revisions = revisions.map(|revision| claim::adopt(revision.reference(), &revision.meta, owner.clone()));
    let strays = state.pods.strays().filter(|pod| pod.meta.deleted.is_none());
    let release = strays.map(|pod| claim::release(pod.reference(), &pod.meta, &set.meta.uid)).collect();
    claim::stages(set.reference(), pods.chain(revisions).collect(), release)
}

/// Warns about annotations that cannot be parsed and so count as unset.
fn invalid_annotations(state: &StatefulSetState) -> impl Iterator<Item = EventRecord> {
    let set = &*state.set;
    let strategy_counts = set.choices.strategy == UpdateStrategy::OnDelete && state.gates.enabled(Gate::StatefulSetRecreateStrategy);
    let known =
        [(BERTH_REPAIR, "Revision", true), (BERTH_UPDATE_STRATEGY, RECREATE, strategy_counts), (BERTH_AUTO_ROLLBACK, "OnDeadline", true)];
    known.into_iter().filter_map(move |(key, value, counts)| {
        let text = set.annotations.get(key).filter(|text| counts && *text != value)?;
        Some(warn_once(set, "InvalidAnnotation", format!("{key} is {text:?}, not {value:?}: it is ignored")))
    })
}
