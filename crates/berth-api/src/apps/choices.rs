//! Annotations that configure a workload's rollouts, besides the fields of its spec.

use super::{
    analysis::{validate_provider, validate_query},
    replacement::validate_policy,
    steps,
};
use crate::{
    FieldError, Path,
    annotations::{
        BERTH_ANALYSIS_PROVIDER, BERTH_ANALYSIS_QUERY, BERTH_AUTO_ROLLBACK, BERTH_DELETED_POD_REPLACEMENT_POLICY,
        BERTH_POD_REPLACEMENT_POLICY, BERTH_PROGRESS_DEADLINE_SECONDS, BERTH_STEPS,
    },
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// An annotation, and the validation of its value.
pub(super) type Choice = (&'static str, fn(&str, &Path) -> Option<FieldError>);

/// The annotations of a Deployment.
pub(super) const OF_DEPLOYMENTS: &[Choice] = &[
    (BERTH_POD_REPLACEMENT_POLICY, validate_policy),
    (BERTH_DELETED_POD_REPLACEMENT_POLICY, validate_policy),
    (BERTH_AUTO_ROLLBACK, validate_auto_rollback),
    (BERTH_STEPS, validate_steps),
    (BERTH_ANALYSIS_PROVIDER, validate_provider),
    (BERTH_ANALYSIS_QUERY, validate_query),
];
/// The annotations of a ReplicaSet. Others that it inherits from its Deployment have no effect on it.
pub(super) const OF_REPLICA_SETS: &[Choice] = &[(BERTH_DELETED_POD_REPLACEMENT_POLICY, validate_policy)];
/// The annotations of a StatefulSet.
pub(super) const OF_STATEFUL_SETS: &[Choice] =
    &[(BERTH_AUTO_ROLLBACK, validate_auto_rollback), (BERTH_PROGRESS_DEADLINE_SECONDS, validate_deadline), (BERTH_STEPS, refuse_steps)];

/// The only valid value of [`BERTH_AUTO_ROLLBACK`].
pub(super) const ON_DEADLINE: &str = "OnDeadline";

/// Validates the annotations. Stored values are not validated again.
pub(super) fn validate(choices: &[Choice], new: &ObjectMeta, old: Option<&ObjectMeta>) -> Vec<FieldError> {
    let changed = choices.iter().filter(|(key, _)| value(new, key) != old.and_then(|old| value(old, key)));
    let path = Path::new("metadata").child("annotations");
    changed.filter_map(|(key, fault)| fault(value(new, key)?, &path.key(key))).collect()
}

/// Returns the value of an annotation.
pub(super) fn value<'a>(object: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    object.annotations.as_ref()?.get(key).map(String::as_str)
}

fn refuse_steps(_: &str, path: &Path) -> Option<FieldError> {
    Some(FieldError::forbidden(path, "Deployments alone have steps; a StatefulSet has `spec.updateStrategy.rollingUpdate.partition`"))
}

fn validate_deadline(text: &str, path: &Path) -> Option<FieldError> {
    let is_time = text.parse::<i32>().is_ok_and(|seconds| seconds > 0);
    (!is_time).then(|| FieldError::invalid(path, text, "must be a number of seconds, at least 1"))
}

fn validate_steps(text: &str, path: &Path) -> Option<FieldError> {
    steps::parse(text).err().map(|error| FieldError::invalid(path, text, error.to_string()))
}

fn validate_auto_rollback(text: &str, path: &Path) -> Option<FieldError> {
    (text != ON_DEADLINE).then(|| FieldError::not_supported(path, text, &[ON_DEADLINE]))
}
