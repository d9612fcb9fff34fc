//! Faults of a Deployment, in upstream's order.

use super::{Deployment, DeploymentSpec, DeploymentStatus, DeploymentStrategy, RECREATE, ROLLING_UPDATE, RollingUpdateDeployment};
use super::{TERMINATION_COMPLETE, TERMINATION_STARTED};
use crate::{
    FieldError, Path,
    apps::{
        NO_STATUS_REPLICAS, NotGreater, REPLICATED, collision_count_kept, not_greater, not_negative, template_path,
        validate_selector_and_template, validate_selector_kept, without_old_deletion_cost,
    },
    int_or_string::{is_zero, validate_at_most_100_percent, validate_not_negative},
    pod::validate_template,
};
use serde_json::json;

pub(super) fn create(deployment: &Deployment) -> Vec<FieldError> {
    validate_spec(&deployment.spec)
}

pub(super) fn update(new: &Deployment, old: &Deployment) -> Vec<FieldError> {
    let mut faults = without_old_deletion_cost(validate_spec(&new.spec), &old.spec.template);
    faults.extend(validate_selector_kept(new.spec.selector.as_ref(), old.spec.selector.as_ref()));
    faults
}

fn validate_spec(spec: &DeploymentSpec) -> Vec<FieldError> {
    let path = Path::new("spec");
    let not_negative = |field: &str, value: Option<i32>| value.and_then(|value| not_negative(&path.child(field), value));
    let mut faults = Vec::new();
    faults.extend(not_negative("replicas", spec.replicas));
    faults.extend(validate_selector_and_template(spec.selector.as_ref(), &spec.template, REPLICATED, || {
        validate_template(&spec.template, &template_path())
    }));
    faults.extend(validate_strategy(&spec.strategy, &path.child("strategy")));
    faults.extend(not_negative("minReadySeconds", Some(spec.min_ready_seconds)));
    faults.extend(not_negative("revisionHistoryLimit", spec.revision_history_limit));
    faults.extend(not_negative("progressDeadlineSeconds", spec.progress_deadline_seconds));
    if let Some(deadline) = spec.progress_deadline_seconds.filter(|deadline| *deadline <= spec.min_ready_seconds) {
        faults.push(FieldError::invalid(&path.child("progressDeadlineSeconds"), deadline, "must be greater than minReadySeconds"));
    }
    faults.extend(validate_policy(spec.pod_replacement_policy.as_deref(), &path.child("podReplacementPolicy")));
    faults
}

fn validate_policy(policy: Option<&str>, path: &Path) -> Option<FieldError> {
    let supported = [TERMINATION_COMPLETE, TERMINATION_STARTED];
    let unknown = policy.filter(|policy| !supported.contains(policy))?;
    Some(FieldError::not_supported(path, unknown, &supported))
}

fn validate_strategy(strategy: &DeploymentStrategy, path: &Path) -> Vec<FieldError> {
    let rolling_path = path.child("rollingUpdate");
    match (strategy.type_.as_str(), &strategy.rolling_update) {
        (RECREATE, None) => Vec::new(),
        (RECREATE, Some(_)) => vec![FieldError::forbidden(&rolling_path, "may not be specified when strategy `type` is 'Recreate'")],
        (ROLLING_UPDATE, None) => vec![FieldError::required(&rolling_path, "this should be defaulted and never be nil")],
        (ROLLING_UPDATE, Some(rolling)) => validate_rolling(rolling, &rolling_path),
        _ => vec![FieldError::not_supported(path, json!(strategy), &[RECREATE, ROLLING_UPDATE])],
    }
}

fn validate_rolling(rolling: &RollingUpdateDeployment, path: &Path) -> Vec<FieldError> {
    let (unavailable_path, surge_path) = (path.child("maxUnavailable"), path.child("maxSurge"));
    let mut faults = Vec::new();
    faults.extend(rolling.max_unavailable.iter().flat_map(|unavailable| validate_not_negative(unavailable, &unavailable_path)));
    faults.extend(rolling.max_surge.iter().flat_map(|surge| validate_not_negative(surge, &surge_path)));
    if rolling.max_unavailable.as_ref().is_none_or(is_zero) && rolling.max_surge.as_ref().is_none_or(is_zero) {
        faults.push(FieldError::invalid(&unavailable_path, json!(rolling.max_unavailable), "may not be 0 when `maxSurge` is 0"));
    }
    faults.extend(rolling.max_unavailable.as_ref().and_then(|value| validate_at_most_100_percent(value, &unavailable_path)));
    faults
}

pub(super) fn status_update(new: &DeploymentStatus, old: &DeploymentStatus) -> Vec<FieldError> {
    let path = Path::new("status");
    let counts = [
        ("observedGeneration", new.observed_generation),
        ("replicas", i64::from(new.replicas)),
        ("updatedReplicas", i64::from(new.updated_replicas)),
        ("readyReplicas", i64::from(new.ready_replicas)),
        ("availableReplicas", i64::from(new.available_replicas)),
        ("unavailableReplicas", i64::from(new.unavailable_replicas)),
        ("terminatingReplicas", i64::from(new.terminating_replicas.unwrap_or_default())),
        ("collisionCount", i64::from(new.collision_count.unwrap_or_default())),
    ];
    let mut faults: Vec<FieldError> = counts.into_iter().filter_map(|(field, count)| not_negative(&path.child(field), count)).collect();
    let of_replicas = |field, count| NotGreater { field, count, bound: new.replicas, detail: NO_STATUS_REPLICAS };
    faults.extend(not_greater(
        &path,
        &[
            of_replicas("updatedReplicas", new.updated_replicas),
            of_replicas("readyReplicas", new.ready_replicas),
            of_replicas("availableReplicas", new.available_replicas),
            NotGreater {
                field: "availableReplicas",
                count: new.available_replicas,
                bound: new.ready_replicas,
                detail: "cannot be greater than readyReplicas",
            },
        ],
    ));
    faults.extend(collision_count_kept(new.collision_count, old.collision_count));
    faults
}
