//! The status of a custom resource definition.
//!
//! Source: upstream `apiextensions-apiserver/pkg/controller/{status,establish,apiapproval,finalizer}`.

use super::{
    approval,
    condition::CustomCondition,
    names::{TakenNames, names_of, plan_names, to_value},
};
use crate::webhook_client::bundle_problem;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

/// The finalizer of a definition whose objects are still to be deleted. The server adds it when the definition is deleted.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// How far the deletion of a definition is: the condition `Terminating`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Termination {
    /// A client deleted the definition.
    Requested,
    /// Its objects are being deleted.
    InProgress,
    /// Objects could not be listed or deleted, for this reason.
    Failed(String),
    /// Objects are left, for example because of their finalizers: how many.
    Pending(usize),
    /// No object is left.
    Finished,
}

impl Termination {
    /// The condition of a definition in this state.
    #[must_use]
    pub fn condition(&self) -> CustomCondition {
        let condition = |status: &str, reason: &str, message: &str| CustomCondition::of("Terminating", status, reason, message);
        match self {
            Self::Requested => {
                let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
                condition("True", "InstanceDeletionPending", message)
            }
            Self::InProgress => condition("True", "InstanceDeletionInProgress", "CustomResource deletion is in progress"),
            Self::Failed(why) => condition("True", "InstanceDeletionFailed", why),
            Self::Pending(count) => {
                condition("True", "InstanceDeletionCheck", &format!("could not confirm zero CustomResources remaining: {count} are left"))
            }
            Self::Finished => condition("False", "InstanceDeletionCompleted", "removed all instances"),
        }
    }
}

/// Whether the server serves the resource.
#[must_use]
pub fn is_established(definition: &Value) -> bool {
    has_condition(definition, "Established")
}

/// Whether the objects of the resource are being deleted. The server rejects new ones.
#[must_use]
pub fn is_terminating(definition: &Value) -> bool {
    has_condition(definition, "Terminating")
}

fn has_condition(definition: &Value, kind: &str) -> bool {
    condition(&definition["status"], kind).is_some_and(|condition| condition["status"] == "True")
}

fn condition<'v>(status: &'v Value, kind: &str) -> Option<&'v Value> {
    status["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// Decides the status of a definition: the accepted names and the conditions `NamesAccepted`, `Established` and
/// `KubernetesAPIApprovalPolicyConformant`. `taken` are the names of the definitions of its group, which can include this one. `now` is the time of
/// conditions that change. `None`: the status is as it should be.
///
/// A definition whose names conflict is not established. One that is established stays so.
#[must_use]
pub fn plan_status(definition: &Value, taken: &TakenNames, now: &Time) -> Option<Value> {
    let (spec, metadata, status) = (&definition["spec"], &definition["metadata"], &definition["status"]);
    let group = spec["group"].as_str().unwrap_or_default();
    let own = metadata["name"].as_str().unwrap_or_default();
    let plan = plan_names(&names_of(&spec["names"]), &names_of(&status["acceptedNames"]), taken, own);
    let mut next = if status.is_object() { status.clone() } else { json!({}) };
    next["acceptedNames"] = to_value(&plan.accepted);
    let is_accepted = plan.condition.status == "True";
    set_condition(&mut next, &plan.condition, now);
    if is_accepted && !is_terminating(definition) {
        let has_invalid_bundle = bundle_problem(&spec["conversion"]["webhook"]["clientConfig"]).is_some();
        let established = if has_invalid_bundle {
            CustomCondition::of("Established", "False", "InvalidCABundle", "The conversion webhook CABundle is invalid")
        } else {
            CustomCondition::of("Established", "True", "InitialNamesAccepted", "the initial names have been accepted")
        };
        if !is_established(definition) {
            set_condition(&mut next, &established, now);
        }
    } else if condition(status, "Established").is_none() {
        set_condition(&mut next, &CustomCondition::of("Established", "False", "NotAccepted", "not all names are accepted"), now);
    }
    if let Some(condition) = approval::condition(group, &metadata["annotations"]) {
        set_condition(&mut next, &condition, now);
    }
    (next != *status).then_some(next)
}

/// Returns the status of a definition with a condition. `None`: it has the condition already.
#[must_use]
pub fn with_condition(definition: &Value, condition: &CustomCondition, now: &Time) -> Option<Value> {
    let status = &definition["status"];
    let mut next = if status.is_object() { status.clone() } else { json!({}) };
    set_condition(&mut next, condition, now);
    (next != *status).then_some(next)
}

/// Adds a condition, or changes the one of its type. The time is that of the last change of its status.
fn set_condition(status: &mut Value, wanted: &CustomCondition, now: &Time) {
    let CustomCondition { kind, status: value, reason, message } = wanted;
    let mut next = json!({"type": kind, "status": value, "reason": reason, "message": message, "lastTransitionTime": now});
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let conditions = status["conditions"].as_array_mut().expect("it has just been made a list");
    let Some(known) = conditions.iter_mut().find(|condition| condition["type"] == kind.as_str()) else { return conditions.push(next) };
    for field in ["lastTransitionTime", "observedGeneration"] {
        if known["status"] == value.as_str() && known.get(field).is_some() {
            next[field] = known[field].clone();
        }
    }
    *known = next;
}
