//! The desired pods of a set: each one exists, is complete, and is created in order if the policy requires it.

use super::{
    EffectiveStrategy,
    events::{Verb, pod_failure, pod_outcome},
    is_ready,
    names::pod_name,
    observe::Observed,
    pod::new_pod,
    volumes::{self, Blocked, Readiness},
    work::{Work, delete},
};
use crate::{
    plan::{Action, Next, Reason, SlowStart, Urgency, Wait},
    view::{PodPhase, PodView},
};
use berth_api::annotations::{POD_INDEX, STATEFUL_SET_POD_NAME};
use berth_identity::Ordinal;
use serde_json::json;
use std::ops::ControlFlow;

/// How many pods one reconcile creates at most. The rest waits for the next reconcile, so that one set cannot block the others.
pub(super) const BURST_PODS: usize = 500;

/// One pod at a time, lowest ordinal first. Ends the reconcile at a pod that others have to wait for.
pub(super) fn ordered(work: &mut Work<'_, '_>) -> ControlFlow<()> {
    let observed = work.observed;
    for ordinal in observed.pods().attention() {
        match observed.pods().pod(ordinal) {
            None => return create_one(work, ordinal),
            Some(pod) => {
                let goes = upkeep(work, ordinal, pod) && pod.meta.deleted.is_none();
                if goes || wait_for(work, ordinal, pod) {
                    return ControlFlow::Break(());
                }
                repair(work, ordinal, pod);
            }
        }
    }
    ControlFlow::Continue(())
}

/// All at once, without waiting for any pod.
pub(super) fn parallel(work: &mut Work<'_, '_>) {
    let observed = work.observed;
    for ordinal in observed.pods().unsettled() {
        if let Some(pod) = observed.pods().pod(ordinal)
            && !upkeep(work, ordinal, pod)
        {
            repair(work, ordinal, pod);
        }
    }
    create_all(work);
}

/// Deletes a finished pod, and creates the missing claims of a pending one. Returns whether the pod has finished.
fn upkeep(work: &mut Work<'_, '_>, ordinal: Ordinal, pod: &PodView) -> bool {
    let observed = work.observed;
    if pod.phase.is_finished() {
        if pod.meta.deleted.is_none() {
            work.beside(vec![delete(observed, pod, Reason::PodFinished)]);
        }
        return true;
    }
    if pod.phase == PodPhase::Pending && pod.meta.deleted.is_none() {
        match volumes::readiness(&observed.claims, ordinal, Some(pod)) {
            Readiness::Prepare(claims) => work.beside(claims),
            Readiness::Wait(blocked) => block(work, Verb::Update, ordinal, blocked),
        }
    }
    false
}

/// Whether the pods after this one have to wait for it.
fn wait_for(work: &mut Work<'_, '_>, ordinal: Ordinal, pod: &PodView) -> bool {
    let observed = work.observed;
    let name = pod.meta.name.to_string();
    let then = next(observed, ordinal);
    if let Some(last) = pod.meta.deleted.map(|_| work.terminating(pod)) {
        work.wait(Wait::PodTerminating { pod: name, last, then });
        return true;
    }
    let is_waiting = !observed.pods().is_available(ordinal);
    if is_waiting {
        let outdated = super::revision_of(pod) != observed.history.update && ordinal >= observed.update_from();
        work.wait(match (is_ready(pod), outdated) {
            (true, _) => Wait::PodNotAvailable { pod: name, then },
            (false, true) => {
                Wait::OutdatedPodNotReady { pod: name, on_delete: observed.strategy == EffectiveStrategy::OnDelete, unheeded: false }
            }
            (false, false) => Wait::PodNotReady { pod: name, then },
        });
    }
    is_waiting
}

/// The action that waits for the pod with this ordinal.
pub(super) fn next(observed: &Observed<'_>, ordinal: Ordinal) -> Option<Next> {
    let (set, controlled) = (&observed.set().meta.name, observed.pods());
    let missing = controlled.missing().find(|missing| *missing != ordinal).map(|missing| Next::Create(pod_name(set, missing)));
    let condemned = || controlled.condemned().next().map(|(_, pod)| Next::Delete(pod.meta.name.to_string()));
    let range = observed.update_from()..observed.end();
    let outdated = || controlled.highest_outdated(&observed.history.update, range).map(|ordinal| Next::Replace(pod_name(set, ordinal)));
    missing.or_else(condemned).or_else(outdated)
}

fn create_one(work: &mut Work<'_, '_>, ordinal: Ordinal) -> ControlFlow<()> {
    if let Some(claims) = prepare(work, ordinal) {
        work.then(claims);
        work.then(vec![create(work.observed, ordinal)]);
        if let Some(then) = next(work.observed, ordinal) {
            let pod = pod_name(&work.observed.set().meta.name, ordinal);
            work.wait(Wait::PodNotReady { pod, then: Some(then) });
        }
    }
    ControlFlow::Break(())
}

/// Creates all missing pods in slow-start batches, so that an exhausted quota rejects few requests.
fn create_all(work: &mut Work<'_, '_>) {
    let missing: Vec<Ordinal> = work.observed.pods().missing().take(BURST_PODS).collect();
    let mut left = &missing[..];
    for size in SlowStart::new(missing.len()) {
        let (batch, rest) = left.split_at(size);
        left = rest;
        let ready: Vec<_> = batch.iter().filter_map(|ordinal| Some((*ordinal, prepare(work, *ordinal)?))).collect();
        let pods = ready.iter().map(|(ordinal, _)| create(work.observed, *ordinal)).collect();
        work.then(ready.into_iter().flat_map(|(_, claims)| claims).collect());
        work.then(pods);
    }
}

/// The claims that have to be created before a pod. `None` if the pod cannot be created yet.
fn prepare(work: &mut Work<'_, '_>, ordinal: Ordinal) -> Option<Vec<Action>> {
    let observed = work.observed;
    let name = pod_name(&observed.set().meta.name, ordinal);
    if observed.state.is_pod_there(&name) {
        work.wait(Wait::NameTaken { pod: name });
        return None;
    }
    match volumes::readiness(&observed.claims, ordinal, None) {
        Readiness::Prepare(claims) => Some(claims),
        Readiness::Wait(blocked) => {
            block(work, Verb::Create, ordinal, blocked);
            None
        }
    }
}

fn create(observed: &Observed<'_>, ordinal: Ordinal) -> Action {
    let pod = new_pod(observed, ordinal);
    let name = pod_name(&observed.set().meta.name, ordinal);
    let events = pod_outcome(observed.set(), Verb::Create, &name);
    Action::Create { object: pod.into(), reason: Reason::PodMissing, events }
}

/// Waits for a terminating claim. If a user deletes it, an event is recorded too.
fn block(work: &mut Work<'_, '_>, verb: Verb, ordinal: Ordinal, blocked: Blocked) {
    let set = work.observed.set();
    let pod = pod_name(&set.meta.name, ordinal);
    let claim = match blocked {
        Blocked::Stale(claim) => claim,
        Blocked::Deleting(claim) => {
            work.event(pod_failure(set, verb, &pod, &format!("pvc {claim} is being deleted")));
            claim
        }
    };
    work.wait(Wait::ClaimLeaving { claim, pod });
}

/// Corrects a pod's identity labels. Its volumes cannot be changed, which is recorded once.
fn repair(work: &mut Work<'_, '_>, ordinal: Ordinal, pod: &PodView) {
    let observed = work.observed;
    let set = observed.set();
    if !observed.pods().has_volumes(ordinal, pod) {
        work.event(pod_failure(set, Verb::Update, &pod.meta.name, "its volumes are not those of its claims, and cannot be changed"));
    }
    if !observed.pods().has_identity(pod) {
        let labels = json!({STATEFUL_SET_POD_NAME: pod.meta.name, POD_INDEX: ordinal.to_string()});
        work.beside(vec![Action::Patch {
            target: pod.reference(),
            subresource: None,
            patch: json!({"metadata": {"labels": labels}}),
            urgency: Urgency::Now,
            reason: Reason::LabelsDoNotName,
            events: pod_outcome(set, Verb::Update, &pod.meta.name),
        }]);
    }
}
