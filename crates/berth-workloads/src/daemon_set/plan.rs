//! The plan of one DaemonSet.

use super::{
    BURST_PODS, DaemonSetState,
    changes::Changes,
    history::History,
    manage::manage,
    observe::Observed,
    pod,
    rolling::update,
    status::{next_available_at, status},
};
use crate::{
    claim,
    plan::{Action, EventRecord, Outcome, Plan, Reason, Severity, SlowStart, Stage, Subresource, Urgency, Wait, merge_patch},
    resources::DAEMON_SET,
    selector::Selector,
    view::{DaemonSetView, PodView},
};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSetStatus;
use serde_json::json;

/// Decides what to do for one DaemonSet.
///
/// Adoption comes first and alone, because pods are counted correctly only afterwards. A set without a valid selector is left alone, and so is one that
/// is being deleted: the garbage collector may delete its revisions before its pods.
#[must_use]
pub fn plan(state: &DaemonSetState) -> Plan {
    let set = &*state.set;
    if set.selector.as_ref().is_none_or(Selector::is_empty) {
        return Plan::default();
    }
    if set.meta.deleted.is_some() {
        let wait = Wait::BeingDeleted { kind: "DaemonSet".to_owned(), name: set.meta.name.to_string() };
        return Plan { waits: vec![wait], ..Plan::default() };
    }
    let claims = claims(state);
    if !claims.is_empty() {
        return Plan { stages: claims, ..Plan::default() };
    }
    let history = History::observe(state);
    let duplicates = history.without_duplicates();
    if !duplicates.is_empty() {
        return Plan { stages: stages([history.writes.clone(), history.relabeled(state), duplicates]), ..Plan::default() };
    }
    let observed = Observed::new(state, &history.hash);
    let managed = manage(&observed);
    let requeue_at = [managed.requeue_at, next_available_at(&observed)].into_iter().flatten().min();
    let changes = if managed.is_empty() { update(&observed) } else { managed };
    planned(&observed, &history, changes, requeue_at)
}

fn planned(observed: &Observed<'_>, history: &History<'_>, changes: Changes<'_>, requeue_at: Option<Timestamp>) -> Plan {
    let mut first: Vec<Action> = write_status(observed, &status(observed, history.collision_count)).into_iter().collect();
    first.extend(changes.delete.into_iter().take(BURST_PODS).map(|(pod, reason)| delete(observed.set(), pod, reason)));
    let mut creations = creations(observed, &changes.create_on).into_iter();
    first.extend(creations.next().into_iter().flatten());
    let before = [history.writes.clone(), first].into_iter();
    Plan {
        stages: stages(before.chain(creations).chain([history.clean_up(observed.state)])),
        events: changes.events,
        waits: changes.waits,
        requeue_at,
        ..Plan::default()
    }
}

fn stages(actions: impl IntoIterator<Item = Vec<Action>>) -> Vec<Stage> {
    actions.into_iter().filter(|actions| !actions.is_empty()).map(|actions| Stage { actions }).collect()
}

/// The stages that create pods. Each pod has its own node, so that the slow start is one of stages.
fn creations(observed: &Observed<'_>, nodes: &[(&str, Reason)]) -> Vec<Vec<Action>> {
    let nodes = &nodes[..nodes.len().min(BURST_PODS)];
    let create = |(node, reason): &(&str, Reason)| Action::CreatePods {
        template: Box::new(pod::on_node(observed, node)),
        count: 1,
        owner: observed.set().reference(),
        reason: reason.clone(),
    };
    let mut rest = nodes.iter();
    SlowStart::new(nodes.len()).map(|size| rest.by_ref().take(size).map(create).collect()).collect()
}

fn delete(set: &DaemonSetView, pod: &PodView, reason: Reason) -> Action {
    let event = |severity, reason: &'static str, message: String| Some(EventRecord::new(set.reference(), severity, reason, message));
    Action::Delete {
        // A status update of the pod must not save it: only its identity counts.
        target: pod.reference().in_any_version(),
        propagation: None,
        grace_period_seconds: None,
        reason,
        events: Outcome {
            success: event(Severity::Normal, "SuccessfulDelete", format!("Deleted pod: {}", pod.meta.name)),
            failure: event(Severity::Warning, "FailedDelete", "Error deleting: ".to_owned()),
        },
    }
}

fn write_status(observed: &Observed<'_>, new: &DaemonSetStatus) -> Option<Action> {
    let stored = &observed.set().status;
    let patch = merge_patch(stored, new)?;
    let is_observed = stored.observed_generation == new.observed_generation;
    Some(Action::Patch {
        target: observed.set().reference(),
        subresource: Some(Subresource::Status),
        patch: json!({"status": patch}),
        urgency: if is_observed && stored.collision_count == new.collision_count { Urgency::Soon } else { Urgency::Now },
        reason: Reason::PodsChanged,
        events: Outcome::default(),
    })
}

/// Adopts pods and revisions without a controller, and releases those that the selector no longer matches.
fn claims(state: &DaemonSetState) -> Vec<Stage> {
    let set = &*state.set;
    let owner = claim::controller_reference(&DAEMON_SET, &set.meta);
    let (mut adopt, mut release) = (Vec::new(), Vec::new());
    let pods = state.pods.iter().map(|pod| (&pod.meta, pod.reference()));
    let revisions = state.revisions.iter().map(|revision| (&revision.meta, revision.reference()));
    for (meta, reference) in pods.chain(revisions) {
        let matches = set.selector.as_ref().is_some_and(|selector| selector.matches(&meta.labels));
        match (meta.controller(), matches) {
            (None, true) if meta.deleted.is_none() => adopt.push(claim::adopt(reference, meta, owner.clone())),
            (Some(controller), false) if controller.uid == set.meta.uid => release.push(claim::release(reference, meta, &set.meta.uid)),
            _ => (),
        }
    }
    claim::stages(set.reference(), adopt, release)
}

/// The event that reports that `set` has begun to wait. `None`: the wait is too short.
#[must_use]
pub fn wait_event(set: &DaemonSetView, wait: &Wait) -> Option<EventRecord> {
    let severity = if wait.is_failure() { Severity::Warning } else { Severity::Normal };
    Some(EventRecord::new(set.reference(), severity, wait.event_reason()?, wait.to_string()))
}
