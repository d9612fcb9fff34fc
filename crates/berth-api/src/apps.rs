//! Deployment, ReplicaSet, StatefulSet and ControllerRevision: types, defaults, validation (`apps/v1`).
//!
//! The first three are berth's own structs around upstream's pod template, because upstream's lack the fields of the proposals.

// The macro precedes the modules that use it.
/// Makes a struct of metadata, spec and status an object of `apps/v1`.
macro_rules! apps_kind {
    ($kind:ident, $spec:ident, $status:ident, $plural:literal, $list:literal) => {
        impl k8s_openapi::Resource for $kind {
            const API_VERSION: &'static str = "apps/v1";
            const GROUP: &'static str = "apps";
            const KIND: &'static str = stringify!($kind);
            const VERSION: &'static str = "v1";
            const URL_PATH_SEGMENT: &'static str = $plural;
            type Scope = k8s_openapi::NamespaceResourceScope;
        }

        impl k8s_openapi::ListableResource for $kind {
            const LIST_KIND: &'static str = $list;
        }

        impl k8s_openapi::Metadata for $kind {
            type Ty = ObjectMeta;

            fn metadata(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }

        impl serde::Serialize for $kind {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeStruct;
                let mut object = serializer.serialize_struct(<Self as k8s_openapi::Resource>::KIND, 5)?;
                object.serialize_field("apiVersion", <Self as k8s_openapi::Resource>::API_VERSION)?;
                object.serialize_field("kind", <Self as k8s_openapi::Resource>::KIND)?;
                object.serialize_field("metadata", &self.metadata)?;
                object.serialize_field("spec", &self.spec)?;
                object.serialize_field("status", &self.status)?;
                object.end()
            }
        }

        impl<'de> serde::Deserialize<'de> for $kind {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                use k8s_openapi::Resource;
                #[derive(serde::Deserialize)]
                #[serde(rename_all = "camelCase")]
                struct Wire {
                    api_version: Option<String>,
                    kind: Option<String>,
                    metadata: Option<ObjectMeta>,
                    spec: Option<$spec>,
                    status: Option<$status>,
                }
                let wire = Wire::deserialize(deserializer)?;
                $crate::apps::check_type::<D::Error>(wire.api_version.as_deref(), <$kind>::API_VERSION)?;
                $crate::apps::check_type::<D::Error>(wire.kind.as_deref(), <$kind>::KIND)?;
                Ok(Self {
                    metadata: wire.metadata.unwrap_or_default(),
                    spec: wire.spec.unwrap_or_default(),
                    status: wire.status.unwrap_or_default(),
                })
            }
        }
    };
}

pub mod analysis;
mod choices;
mod controller_revision;
pub mod deployment;
pub mod records;
mod replacement;
mod replica_set;
pub mod stateful_set;
pub mod steps;
#[cfg(test)]
mod testing;

pub use deployment::{Deployment, DeploymentSpec, DeploymentStatus, DeploymentStrategy, RollingUpdateDeployment};
pub use replica_set::{ReplicaSet, ReplicaSetSpec, ReplicaSetStatus};
pub use stateful_set::{RollingUpdateStatefulSet, StatefulSet, StatefulSetSpec, StatefulSetStatus, StatefulSetUpdateStrategy};

use crate::{
    FeatureGates, FieldError, Gate, Path, Selector,
    annotations::POD_DELETION_COST,
    label_selector::validate_label_selector,
    metadata::check_dns_label,
    normal::normal,
    pod::{is_deletion_cost_error, is_valid_deletion_cost, validate_template},
    simulation,
};
use k8s_openapi::{
    api::core::v1::PodTemplateSpec,
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta},
};
use serde::{Deserialize, Deserializer};
use serde_json::json;

normal! {
    Deployment { visit: metadata spec status; }
    DeploymentSpec { visit: selector template; }
    DeploymentStatus { drop: conditions; visit: conditions; }
    ReplicaSet { visit: metadata spec status; }
    ReplicaSetSpec { visit: selector template; }
    ReplicaSetStatus { drop: conditions; visit: conditions; }
    StatefulSet { visit: metadata spec status; }
    StatefulSetSpec { drop: volume_claim_templates; visit: selector template volume_claim_templates ordinals persistent_volume_claim_retention_policy; }
    StatefulSetStatus { drop: conditions; visit: conditions; }
}

/// The fields that a template of a kind must not have, with upstream's messages for that kind.
#[derive(Clone, Copy)]
struct TemplateRules {
    empty_selector: &'static str,
    invalid_selector: &'static str,
    active_deadline: &'static str,
}

/// Upstream has one set of texts for Deployment and ReplicaSet.
const REPLICATED: TemplateRules = TemplateRules {
    empty_selector: "empty selector is invalid for deployment",
    invalid_selector: "invalid label selector",
    active_deadline: "activeDeadlineSeconds in ReplicaSet is not Supported",
};

fn template_path() -> Path {
    Path::new("spec").child("template")
}

fn not_negative(path: &Path, value: impl Into<i64>) -> Option<FieldError> {
    let value = value.into();
    (value < 0).then(|| FieldError::invalid(path, value, "must be greater than or equal to 0"))
}

/// A count of a status that must not exceed another.
struct NotGreater {
    field: &'static str,
    count: i32,
    bound: i32,
    detail: &'static str,
}

const NO_STATUS_REPLICAS: &str = "cannot be greater than status.replicas";

fn not_greater(status: &Path, rules: &[NotGreater]) -> Vec<FieldError> {
    let broken = rules.iter().filter(|rule| rule.count > rule.bound);
    broken.map(|rule| FieldError::invalid(&status.child(rule.field), rule.count, rule.detail)).collect()
}

/// Returns the error of a collision count that decreases or disappears. The controllers would choose an existing name
/// again.
fn collision_count_kept(new: Option<i32>, old: Option<i32>) -> Option<FieldError> {
    let path = Path::new("status").child("collisionCount");
    (new < old).then(|| FieldError::invalid(&path, json!(new), "cannot be decremented"))
}

/// Validates `spec.selector` and, if the selector is valid, `spec.template` with `check_template`.
fn validate_selector_and_template(
    selector: Option<&LabelSelector>,
    template: &PodTemplateSpec,
    rules: TemplateRules,
    check_template: impl FnOnce() -> Vec<FieldError>,
) -> Vec<FieldError> {
    let path = Path::new("spec").child("selector");
    let mut faults = Vec::new();
    let usable = match selector {
        None => {
            faults.push(FieldError::required(&path, ""));
            Ok(Selector::nothing())
        }
        Some(selector) => {
            faults.extend(validate_label_selector(selector, &path));
            Selector::from_label_selector(selector)
        }
    };
    match usable {
        Err(_) => faults.push(FieldError::invalid(&path, json!(selector), rules.invalid_selector)),
        Ok(usable) => {
            if usable.is_everything() {
                faults.push(FieldError::invalid(&path, json!(selector), rules.empty_selector));
            }
            faults.extend(labels_match(&usable, template));
            faults.extend(check_template());
            faults.extend(validate_template_of_workload(template, rules));
        }
    }
    faults
}

/// Validates the pods of a template. A stored template is not validated again, because newer rules may reject it.
fn validate_new_template(template: &PodTemplateSpec, old: Option<&PodTemplateSpec>) -> Vec<FieldError> {
    if old == Some(template) { Vec::new() } else { validate_template(template, &template_path()) }
}

fn labels_match(selector: &Selector, template: &PodTemplateSpec) -> Option<FieldError> {
    let labels = template.metadata.as_ref().and_then(|metadata| metadata.labels.as_ref());
    let matches = selector.matches(&labels);
    let path = template_path().child("metadata").child("labels");
    (!matches).then(|| FieldError::invalid(&path, json!(labels), "`selector` does not match template `labels`"))
}

/// Validates rules for the pods of a controller that do not apply to other pods.
fn validate_template_of_workload(template: &PodTemplateSpec, rules: TemplateRules) -> Vec<FieldError> {
    let path = template_path().child("spec");
    let spec = template.spec.as_ref();
    let restart = spec.and_then(|spec| spec.restart_policy.as_deref()).unwrap_or_default();
    let deadline = spec.and_then(|spec| spec.active_deadline_seconds);
    let mut faults = Vec::new();
    if restart != "Always" {
        faults.push(FieldError::not_supported(&path.child("restartPolicy"), restart, &["Always"]));
    }
    if deadline.is_some() {
        faults.push(FieldError::forbidden(&path.child("activeDeadlineSeconds"), rules.active_deadline));
    }
    faults
}

/// Returns the error of a selector that an update changes.
fn validate_selector_kept(new: Option<&LabelSelector>, old: Option<&LabelSelector>) -> Option<FieldError> {
    (new != old).then(|| FieldError::invalid(&Path::new("spec").child("selector"), json!(new), "field is immutable"))
}

/// Removes the error of an invalid pod-deletion-cost from the `faults` of an update if the stored template has one too
/// (KEP-2255).
fn without_old_deletion_cost(mut faults: Vec<FieldError>, old: &PodTemplateSpec) -> Vec<FieldError> {
    let annotations = old.metadata.as_ref().and_then(|metadata| metadata.annotations.as_ref());
    let stored = annotations.and_then(|annotations| annotations.get(POD_DELETION_COST));
    if stored.is_some_and(|cost| !is_valid_deletion_cost(cost)) {
        faults.retain(|fault| !is_deletion_cost_error(fault));
    }
    faults
}

/// Drops a status field whose gate is off, unless the stored status has it.
fn drop_disabled_terminating(new: &mut Option<i32>, old: Option<i32>, gates: &FeatureGates) {
    if old.is_none() && !gates.enabled(Gate::DeploymentReplicaSetTerminatingReplicas) {
        *new = None;
    }
}

/// Returns warnings about new annotations of a workload that only have a meaning in its template.
fn misplaced_annotations(metadata: &ObjectMeta, old: Option<&ObjectMeta>) -> Vec<String> {
    let is_new = old.is_none_or(|old| old.annotations != metadata.annotations);
    if is_new { simulation::misplaced(metadata) } else { Vec::new() }
}

/// Returns the warning about a name that is too long for the names and host names of pods.
fn name_warning(metadata: &ObjectMeta) -> Option<String> {
    let reasons = check_dns_label(metadata.name.as_deref().unwrap_or_default());
    let text = "this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended";
    (!reasons.is_empty()).then(|| format!("metadata.name: {text}: [{}]", reasons.join(" ")))
}

fn check_type<E: serde::de::Error>(found: Option<&str>, wanted: &'static str) -> Result<(), E> {
    match found {
        Some(found) if found != wanted && !found.is_empty() => Err(E::invalid_value(serde::de::Unexpected::Str(found), &wanted)),
        _ => Ok(()),
    }
}

fn null_as_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_false(value: &bool) -> bool {
    !value
}
