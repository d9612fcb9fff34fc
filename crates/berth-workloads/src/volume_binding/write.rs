//! The writes of a binding, each with its precondition.

use super::view::{ClaimView, VolumeView};
use crate::plan::{Action, EventRecord, Outcome, Plan, Reason, Repeat, Severity, Stage, Subresource, Urgency};
use berth_identity::ObjectRef;
use serde_json::{Value, json};

pub(super) fn stage(action: Action) -> Stage {
    Stage { actions: vec![action] }
}

pub(super) fn stages(actions: impl IntoIterator<Item = Action>) -> Plan {
    Plan { stages: actions.into_iter().map(stage).collect(), ..Plan::default() }
}

/// A change of the object in exactly this version.
pub(super) fn patch(target: ObjectRef, patch: Value, reason: Reason) -> Action {
    Action::Patch { target, subresource: None, patch, urgency: Urgency::Now, reason, events: Outcome::default() }
}

/// A change of the status in any version, because the stage before may have changed the object.
pub(super) fn patch_status(target: ObjectRef, status: Value, reason: Reason) -> Action {
    let patch = json!({ "status": status });
    Action::Patch {
        target: target.in_any_version(),
        subresource: Some(Subresource::Status),
        patch,
        urgency: Urgency::Now,
        reason,
        events: Outcome::default(),
    }
}

/// Adds one finalizer.
pub(super) fn protect(target: ObjectRef, finalizers: &[String], finalizer: &str) -> Action {
    let all: Vec<&str> = finalizers.iter().map(String::as_str).chain([finalizer]).collect();
    patch(target, json!({"metadata": {"finalizers": all}}), Reason::Unprotected)
}

/// Removes one finalizer.
pub(super) fn let_go(target: ObjectRef, finalizers: &[String], finalizer: &str, reason: Reason) -> Action {
    let rest: Vec<&String> = finalizers.iter().filter(|present| *present != finalizer).collect();
    patch(target, json!({"metadata": {"finalizers": rest}}), reason)
}

/// An event about a claim. Its cause lasts and every reconcile returns it, so it is recorded once.
pub(super) fn about_claim(claim: &ClaimView, severity: Severity, reason: &'static str, message: String) -> EventRecord {
    once(claim.reference(), severity, reason, message)
}

/// As [`about_claim`], about a volume.
pub(super) fn about_volume(volume: &VolumeView, severity: Severity, reason: &'static str, message: String) -> EventRecord {
    once(volume.reference(), severity, reason, message)
}

fn once(about: ObjectRef, severity: Severity, reason: &'static str, message: String) -> EventRecord {
    EventRecord { repeat: Repeat::Once, ..EventRecord::new(about, severity, reason, message) }
}
