//! The annotations that say when pods are replaced, beside the field `podReplacementPolicy`: they follow its gate and its values.

use super::deployment::{TERMINATION_COMPLETE, TERMINATION_STARTED};
use crate::{
    FeatureGates, FieldError, Gate, Path,
    annotations::{BERTH_DELETED_POD_REPLACEMENT_POLICY, BERTH_POD_REPLACEMENT_POLICY},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Those of a Deployment.
pub(super) const OF_DEPLOYMENTS: &[&str] = &[BERTH_POD_REPLACEMENT_POLICY, BERTH_DELETED_POD_REPLACEMENT_POLICY];
/// Those of a ReplicaSet. What else one has of its Deployment means nothing on it.
pub(super) const OF_REPLICA_SETS: &[&str] = &[BERTH_DELETED_POD_REPLACEMENT_POLICY];

/// Takes the annotations off where the gate is off, as the field, but for those that the stored object has.
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

/// Faults of the annotations `keys`. What is stored already is not judged again.
pub(super) fn validate(keys: &[&str], new: &ObjectMeta, old: Option<&ObjectMeta>) -> Vec<FieldError> {
    let value = |object: &ObjectMeta, key: &str| object.annotations.as_ref()?.get(key).cloned();
    let changed = keys.iter().filter(|key| value(new, key) != old.and_then(|old| value(old, key)));
    let path = Path::new("metadata").child("annotations");
    changed.filter_map(|key| validate_policy(value(new, key).as_deref(), &path.key(key))).collect()
}

/// The fault of a text that is no policy.
pub(super) fn validate_policy(policy: Option<&str>, path: &Path) -> Option<FieldError> {
    let supported = [TERMINATION_COMPLETE, TERMINATION_STARTED];
    let unknown = policy.filter(|policy| !supported.contains(policy))?;
    Some(FieldError::not_supported(path, unknown, &supported))
}
