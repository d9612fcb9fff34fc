//! Plans one volume.

use super::{
    BOUND_BY_CONTROLLER, PROVISIONED_BY, VOLUME_PROTECTION,
    view::{ClaimRef, ClaimView, VolumeView},
    write::{about_volume, let_go, patch, patch_status, protect, stages},
};
use crate::{
    plan::{Action, Outcome, Plan, Reason, Severity},
    resources::CLAIMS,
};
use berth_identity::{ObjectKey, ObjectRef};
use serde_json::json;

/// The input of the plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VolumeState<'a> {
    /// The volume.
    pub volume: &'a VolumeView,
    /// The claim with the name in its `claimRef`, if that exists.
    pub claim: Option<&'a ClaimView>,
}

/// Plans the volume.
#[must_use]
pub fn plan(state: &VolumeState<'_>) -> Plan {
    let volume = state.volume;
    if !volume.meta.deleting && !is_protected(volume) {
        return stages([protect(volume.reference(), &volume.meta.finalizers, VOLUME_PROTECTION)]);
    }
    let plan = match (&volume.claim_ref, state.claim) {
        (None, _) => become_phase(volume, "Available"),
        (Some(claim_ref), _) if claim_ref.uid.is_empty() => become_phase(volume, "Available"),
        (Some(claim_ref), Some(claim)) if claim_ref.uid == claim.meta.uid => plan_claimed(volume, claim),
        (Some(claim_ref), _) => plan_released(volume, Some(confirm_gone(claim_ref))),
    };
    if plan.stages.is_empty() { plan_deletion(volume) } else { plan }
}

fn is_protected(volume: &VolumeView) -> bool {
    volume.meta.finalizers.iter().any(|finalizer| finalizer == VOLUME_PROTECTION)
}

/// A terminating volume is deleted when it is not bound.
fn plan_deletion(volume: &VolumeView) -> Plan {
    if !volume.meta.deleting || !is_protected(volume) || volume.phase == "Bound" {
        return Plan::default();
    }
    stages([let_go(volume.reference(), &volume.meta.finalizers, VOLUME_PROTECTION, Reason::VolumeUnused)])
}

fn become_phase(volume: &VolumeView, phase: &'static str) -> Plan {
    if volume.phase == phase {
        return Plan::default();
    }
    let status = json!({"phase": phase, "message": null, "reason": null});
    stages([patch_status(volume.reference(), status, Reason::PhaseChanged)])
}

fn plan_claimed(volume: &VolumeView, claim: &ClaimView) -> Plan {
    if claim.volume_name == volume.meta.name {
        return become_phase(volume, "Bound");
    }
    if claim.volume_name.is_empty() {
        // The claim's own reconcile continues the binding.
        return Plan::default();
    }
    if volume.is_provisioned_here() && volume.reclaim_policy == "Delete" {
        return plan_released(volume, None);
    }
    unbind(volume)
}

/// Its claim has another volume. It becomes available again, unless a user had reserved it.
fn unbind(volume: &VolumeView) -> Plan {
    let chosen_here = volume.meta.annotations.contains_key(BOUND_BY_CONTROLLER);
    let change = if chosen_here {
        json!({"metadata": {"annotations": {BOUND_BY_CONTROLLER: null}}, "spec": {"claimRef": null}})
    } else {
        json!({"spec": {"claimRef": {"uid": null, "resourceVersion": null}}})
    };
    stages([patch(volume.reference(), change, Reason::ClaimElsewhere)])
}

/// Its claim is deleted, which `confirm` checks, or does not use it. The reclaim policy determines what follows.
fn plan_released(volume: &VolumeView, confirm: Option<Action>) -> Plan {
    if !matches!(volume.phase.as_str(), "Released" | "Failed") {
        let released = patch_status(volume.reference(), json!({"phase": "Released"}), Reason::ClaimGone);
        return stages(confirm.into_iter().chain([released]));
    }
    match volume.reclaim_policy.as_str() {
        "Delete" if volume.meta.deleting => Plan::default(),
        "Delete" if volume.is_provisioned_here() => stages([delete(volume)]),
        // Its own provisioner deletes it.
        "Delete" if volume.meta.annotations.contains_key(PROVISIONED_BY) => Plan::default(),
        "Delete" => fail(volume, "VolumeFailedDelete", "error getting deleter volume plugin", "no deletable volume plugin matched"),
        "Recycle" => fail(volume, "VolumeFailedRecycle", "error getting recycler volume plugin", "no recyclable volume plugin matched"),
        _ => Plan::default(),
    }
}

fn confirm_gone(claim_ref: &ClaimRef) -> Action {
    let ClaimRef { namespace, name, uid } = claim_ref.clone();
    let target = ObjectRef { resource: CLAIMS, key: ObjectKey { namespace, name }, uid, resource_version: None };
    Action::ConfirmGone { target, reason: Reason::ClearsAway }
}

fn delete(volume: &VolumeView) -> Action {
    Action::Delete {
        target: volume.reference(),
        propagation: None,
        grace_period_seconds: None,
        reason: Reason::Reclaimed,
        events: Outcome::default(),
    }
}

/// A volume that no controller of berth can reclaim is left to a user.
fn fail(volume: &VolumeView, reason: &'static str, what: &str, why: &str) -> Plan {
    if volume.phase == "Failed" {
        return Plan::default();
    }
    let message = format!("{what} for volume \"{}\": {why}", volume.meta.name);
    let status = json!({"phase": "Failed", "message": message});
    let events = vec![about_volume(volume, Severity::Warning, reason, message)];
    Plan { events, ..stages([patch_status(volume.reference(), status, Reason::NotReclaimable)]) }
}
