//! The annotations that have the meaning of the field `podReplacementPolicy`, with its gate and its values.

use crate::{
    FeatureGates, FieldError, Gate, Path,
    annotations::{BERTH_DELETED_POD_REPLACEMENT_POLICY, BERTH_POD_REPLACEMENT_POLICY},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Replacements may be created as soon as the pods are terminating.
pub(super) const TERMINATION_STARTED: &str = "TerminationStarted";
/// Replacements may be created only after the pods are deleted.
pub(super) const TERMINATION_COMPLETE: &str = "TerminationComplete";

/// The annotations of a Deployment.
const OF_DEPLOYMENTS: &[&str] = &[BERTH_POD_REPLACEMENT_POLICY, BERTH_DELETED_POD_REPLACEMENT_POLICY];

/// Drops the annotations if the gate is off, like the field, unless the stored object has them.
pub(super) fn drop_disabled(new: &mut ObjectMeta, old: Option<&ObjectMeta>, gates: &FeatureGates) {
    if gates.enabled(Gate::DeploymentPodReplacementPolicy) {
        return;
    }
    let is_new = |key: &&&str| old.and_then(|old| old.annotations.as_ref()).is_none_or(|stored| !stored.contains_key(**key));
    if let Some(annotations) = &mut new.annotations {
        OF_DEPLOYMENTS.iter().filter(is_new).for_each(|key| drop(annotations.remove(*key)));
    }
    new.annotations.take_if(|annotations| annotations.is_empty());
}

/// Validates a policy.
pub(super) fn validate_policy(policy: &str, path: &Path) -> Option<FieldError> {
    let supported = [TERMINATION_COMPLETE, TERMINATION_STARTED];
    (!supported.contains(&policy)).then(|| FieldError::not_supported(path, policy, &supported))
}
