//! Plans one claim.

use super::{
    BETA_STORAGE_PROVISIONER, BIND_COMPLETED, BOUND_BY_CONTROLLER, CLAIM_PROTECTION, PROVISIONER, STORAGE_PROVISIONER,
    provision::{claim_ref, name_for, volume_for},
    view::{BindingMode, ClaimUserView, ClaimView, ClassView, VolumeView},
    write::{about_claim, let_go, patch, patch_status, protect, stage, stages},
};
use crate::plan::{Action, EventRecord, Outcome, Plan, Reason, Severity, Stage, merge_patch};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{PersistentVolumeClaimStatus, PersistentVolumeSpec};
use serde_json::{Value, json};

/// The delay until the next reconcile if a cache is behind. The cache advances with the next write.
const CACHE_CATCHES_UP: SignedDuration = SignedDuration::from_millis(20);

/// The input of the plan.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimState<'a> {
    /// The claim.
    pub claim: &'a ClaimView,
    /// Its class, if it names an existing one.
    pub class: Option<&'a ClassView>,
    /// The volume that it names, if that exists.
    pub named: Option<&'a VolumeView>,
    /// The volumes that are reserved for it.
    pub reserved: Vec<&'a VolumeView>,
    /// The volumes of its class that are available to any claim.
    pub free: Vec<&'a VolumeView>,
    /// The pods that use it.
    pub users: Vec<&'a ClaimUserView>,
    /// Whether the caches of volumes and users are as new as this version of the claim, or newer.
    pub is_all_known: bool,
    /// Since when its volume is being provisioned, as far as is known.
    pub provisioning_since: Timestamp,
    /// How long provisioning takes.
    pub provision_latency: SignedDuration,
    /// The time of the snapshot.
    pub now: Timestamp,
}

/// Plans the claim.
#[must_use]
pub fn plan(state: &ClaimState<'_>) -> Plan {
    let claim = state.claim;
    match (claim.meta.deleting, claim.is_bind_completed()) {
        (true, _) => plan_deletion(state),
        // A replace without finalizers has removed it.
        (false, _) if !is_protected(claim) => stages([protect(claim.reference(), &claim.meta.finalizers, CLAIM_PROTECTION)]),
        (false, true) => plan_bound(state),
        (false, false) => plan_unbound(state),
    }
}

fn is_protected(claim: &ClaimView) -> bool {
    claim.meta.finalizers.iter().any(|finalizer| finalizer == CLAIM_PROTECTION)
}

/// A terminating claim is deleted when no pod with a node uses it.
fn plan_deletion(state: &ClaimState<'_>) -> Plan {
    let claim = state.claim;
    if !is_protected(claim) || state.users.iter().any(|user| user.is_placed) {
        return Plan::default();
    }
    if !state.is_all_known {
        return requeue_soon(state);
    }
    stages([let_go(claim.reference(), &claim.meta.finalizers, CLAIM_PROTECTION, Reason::ClaimUnused)])
}

fn requeue_soon(state: &ClaimState<'_>) -> Plan {
    Plan { requeue_at: Some(state.now + CACHE_CATCHES_UP), ..Plan::default() }
}

/// Checks a bound claim: whether its volume still exists and still belongs to it.
fn plan_bound(state: &ClaimState<'_>) -> Plan {
    let claim = state.claim;
    let lost = |reason, message: &str| plan_lost(state, about_claim(claim, Severity::Warning, reason, message.to_owned()));
    if claim.volume_name.is_empty() {
        return lost("ClaimLost", "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!");
    }
    match state.named {
        None if !state.is_all_known => requeue_soon(state),
        None => lost("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!"),
        Some(volume) if volume.claim_ref.is_none() || volume.is_for(claim) => plan_binding(state, volume),
        Some(_) if !state.is_all_known => requeue_soon(state),
        Some(_) => lost("ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly"),
    }
}

fn plan_lost(state: &ClaimState<'_>, event: EventRecord) -> Plan {
    let claim = state.claim;
    if claim.phase == "Lost" {
        return Plan::default();
    }
    let status = json!({"phase": "Lost", "accessModes": null, "capacity": null});
    Plan { events: vec![event], ..stages([patch_status(claim.reference(), status, Reason::VolumeLost)]) }
}

fn plan_unbound(state: &ClaimState<'_>) -> Plan {
    if !state.claim.volume_name.is_empty() {
        return plan_requested(state);
    }
    if let Some(reserved) = state.reserved.iter().find(|volume| !volume.meta.deleting && misfit(volume, state.claim).is_none()) {
        return plan_binding(state, reserved);
    }
    if waits_for_consumer(state) {
        return Plan { events: vec![waiting_for_consumer(state)], ..Plan::default() };
    }
    if let Some(best) = best_free(state) {
        return plan_binding(state, best);
    }
    match (state.claim.class_name(), state.class) {
        (None, _) => {
            let message = "no persistent volumes available for this claim and no storage class is set".to_owned();
            Plan { events: vec![about_claim(state.claim, Severity::Normal, "FailedBinding", message)], ..Plan::default() }
        }
        (Some(name), None) => failed_provisioning(state, format!("storageclass.storage.k8s.io \"{name}\" not found")),
        (Some(_), Some(class)) => plan_provisioning(state, class),
    }
}

/// The claim's user has chosen the volume.
fn plan_requested(state: &ClaimState<'_>) -> Plan {
    let (claim, Some(volume)) = (state.claim, state.named) else { return Plan::default() };
    let refused = |reason, message| Plan { events: vec![about_claim(claim, Severity::Warning, reason, message)], ..Plan::default() };
    if volume.is_for(claim) {
        return plan_binding(state, volume);
    }
    if volume.claim_ref.is_some() {
        return refused("FailedBinding", format!("volume \"{}\" already bound to a different claim.", volume.meta.name));
    }
    match misfit(volume, claim).or_else(|| (volume.class != class_of(claim)).then_some("storageClassName does not match")) {
        Some(why) => refused("VolumeMismatch", format!("Cannot bind to requested volume \"{}\": {why}", volume.meta.name)),
        None => plan_binding(state, volume),
    }
}

fn waits_for_consumer(state: &ClaimState<'_>) -> bool {
    let waits = state.class.is_some_and(|class| class.binding_mode == BindingMode::WaitForFirstConsumer);
    waits && state.claim.selected_node().is_none()
}

fn waiting_for_consumer(state: &ClaimState<'_>) -> EventRecord {
    let names: Vec<&str> = state.users.iter().filter(|user| !user.is_placed).map(|user| user.meta.name.as_str()).collect();
    let (reason, message) = match names.as_slice() {
        [] => ("WaitForFirstConsumer", "waiting for first consumer to be created before binding".to_owned()),
        [name] => ("WaitForPodScheduled", format!("waiting for pod {name} to be scheduled")),
        names => ("WaitForPodScheduled", format!("waiting for pods {} to be scheduled", names.join(","))),
    };
    about_claim(state.claim, Severity::Normal, reason, message)
}

/// The smallest volume that fits. Of equals, the first by name.
fn best_free<'a>(state: &ClaimState<'a>) -> Option<&'a VolumeView> {
    smallest(state.free.iter().copied(), state.claim)
}

/// The smallest of the volumes that are free for the claim. Of equals, the first by name.
#[must_use]
pub fn smallest<'a>(volumes: impl Iterator<Item = &'a VolumeView>, claim: &ClaimView) -> Option<&'a VolumeView> {
    let is_selected = |volume: &VolumeView| match &claim.selector {
        None => true,
        Some(selector) => selector.as_ref().is_some_and(|selector| selector.matches(&volume.meta.labels)),
    };
    let fitting = volumes
        .filter(|volume| volume.is_free() && volume.class == class_of(claim) && misfit(volume, claim).is_none() && is_selected(volume));
    fitting.min_by(|a, b| (a.size(), &a.meta.name).cmp(&(b.size(), &b.meta.name)))
}

/// The class that a volume must have to fit this claim.
#[must_use]
pub fn class_of(claim: &ClaimView) -> &str {
    claim.class.as_deref().unwrap_or_default()
}

/// Why the claim does not fit the volume, whether a user or the controller chose it.
fn misfit(volume: &VolumeView, claim: &ClaimView) -> Option<&'static str> {
    if volume.size() < claim.size() {
        return Some("requested PV is too small");
    }
    if volume.volume_mode != claim.volume_mode {
        return Some("incompatible volumeMode");
    }
    let has_modes = claim.access_modes.iter().all(|mode| volume.access_modes.contains(mode));
    (!has_modes).then_some("incompatible accessMode")
}

fn failed_provisioning(state: &ClaimState<'_>, message: String) -> Plan {
    Plan { events: vec![about_claim(state.claim, Severity::Warning, "ProvisioningFailed", message)], ..Plan::default() }
}

/// First, the claim names its provisioner. Provisioning then takes some time.
fn plan_provisioning(state: &ClaimState<'_>, class: &ClassView) -> Plan {
    let (claim, provisioner) = (state.claim, class.provisioner.as_str());
    if provisioner.starts_with("kubernetes.io/") {
        return failed_provisioning(state, format!("no volume plugin matched name: {provisioner}"));
    }
    if claim.meta.annotations.get(STORAGE_PROVISIONER).is_none_or(|set| set != provisioner) {
        let annotations = json!({STORAGE_PROVISIONER: provisioner, BETA_STORAGE_PROVISIONER: provisioner});
        let write = patch(claim.reference(), json!({"metadata": {"annotations": annotations}}), Reason::ToBeProvisioned);
        return Plan { events: provisioning(claim, provisioner), ..stages([write]) };
    }
    if provisioner != PROVISIONER {
        return Plan::default();
    }
    let due = state.provisioning_since + state.provision_latency;
    if state.now < due {
        return Plan { requeue_at: Some(due), ..Plan::default() };
    }
    let name = name_for(claim);
    let success = about_claim(claim, Severity::Normal, "ProvisioningSucceeded", format!("Successfully provisioned volume {name}"));
    let create = Action::Create {
        object: volume_for(claim, class).into(),
        reason: Reason::NoVolume,
        events: Outcome { success: Some(success), failure: None },
    };
    let volume = volume_for(claim, class).spec.unwrap_or_default();
    let mut plan = stages([create]);
    plan.stages.extend(claim_writes(claim, &name, &volume));
    plan
}

fn provisioning(claim: &ClaimView, provisioner: &str) -> Vec<EventRecord> {
    let waiting = format!(
        "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the system administrator. If volume \
         creation is delayed, please verify that the provisioner is running and correctly registered."
    );
    let begun = format!("External provisioner is provisioning volume for claim \"{}/{}\"", claim.meta.namespace, claim.meta.name);
    let mut events = vec![about_claim(claim, Severity::Normal, "ExternalProvisioning", waiting)];
    if provisioner == PROVISIONER {
        events.push(about_claim(claim, Severity::Normal, "Provisioning", begun));
    }
    events
}

/// The remaining writes until claim and volume refer to each other.
fn plan_binding(state: &ClaimState<'_>, volume: &VolumeView) -> Plan {
    let claim = state.claim;
    let spec = PersistentVolumeSpec {
        access_modes: Some(volume.access_modes.clone()),
        capacity: Some(volume.capacity.clone()),
        ..PersistentVolumeSpec::default()
    };
    let mut plan = stages(reserve(volume, claim));
    plan.stages.extend(claim_writes(claim, &volume.meta.name, &spec));
    plan
}

/// Writes the claim with its uid to the volume.
fn reserve(volume: &VolumeView, claim: &ClaimView) -> Option<Action> {
    let change = match &volume.claim_ref {
        Some(claim_ref) if claim_ref.uid == claim.meta.uid => return None,
        Some(_) => json!({"spec": {"claimRef": claim_ref(claim)}}),
        None => reservation(claim),
    };
    Some(patch(volume.reference(), change, Reason::Fits { claim: claim.meta.key() }))
}

/// The change of a free volume that reserves it for the claim.
#[must_use]
pub fn reservation(claim: &ClaimView) -> Value {
    json!({"metadata": {"annotations": {BOUND_BY_CONTROLLER: "yes"}}, "spec": {"claimRef": claim_ref(claim)}})
}

/// Writes the volume to the claim, then the result to its status.
fn claim_writes(claim: &ClaimView, volume: &str, spec: &PersistentVolumeSpec) -> impl Iterator<Item = Stage> {
    let named = name_volume(claim, volume).map(|change| patch(claim.reference(), change, Reason::VolumeFound));
    let old = PersistentVolumeClaimStatus {
        phase: Some(claim.phase.clone()),
        access_modes: Some(claim.status_access_modes.clone()),
        capacity: Some(claim.capacity.clone()),
        ..PersistentVolumeClaimStatus::default()
    };
    let new = PersistentVolumeClaimStatus {
        phase: Some("Bound".to_owned()),
        access_modes: spec.access_modes.clone(),
        capacity: spec.capacity.clone(),
        ..PersistentVolumeClaimStatus::default()
    };
    let status = merge_patch(&old, &new).map(|status| patch_status(claim.reference(), status, Reason::Bound));
    named.into_iter().chain(status).map(stage)
}

fn name_volume(claim: &ClaimView, volume: &str) -> Option<Value> {
    if claim.is_bind_completed() {
        return None;
    }
    let completed = json!({BIND_COMPLETED: "yes"});
    if claim.volume_name == volume {
        return Some(json!({"metadata": {"annotations": completed}}));
    }
    Some(json!({"metadata": {"annotations": {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"}}, "spec": {"volumeName": volume}}))
}
