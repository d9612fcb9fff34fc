//! Validates a Deployment. The errors have upstream's order.

use super::{Deployment, DeploymentSpec, DeploymentStatus, DeploymentStrategy, RECREATE, ROLLING_UPDATE, RollingUpdateDeployment};
use crate::{
    FieldError, Path,
    annotations::{BERTH_ANALYSIS_PROVIDER, BERTH_ANALYSIS_QUERY, BERTH_STEPS},
    apps::{
        NO_STATUS_REPLICAS, NotGreater, REPLICATED, choices, collision_count_kept, not_greater, not_negative,
        replacement::validate_policy,
        steps::{self, Step},
        validate_new_template, validate_selector_and_template, validate_selector_kept, without_old_deletion_cost,
    },
    int_or_string::{is_zero, validate_at_most_100_percent, validate_not_negative},
};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::json;

pub(super) fn create(deployment: &Deployment) -> Vec<FieldError> {
    let faults = choices::validate(choices::OF_DEPLOYMENTS, &deployment.metadata, None);
    let faults = faults.into_iter().chain(validate_steps(deployment, None)).chain(validate_analysis(deployment, None));
    faults.chain(validate_spec(&deployment.spec, None)).collect()
}

pub(super) fn update(new: &Deployment, old: &Deployment) -> Vec<FieldError> {
    let mut faults = annotations(new, old);
    faults.extend(validate_steps(new, Some(old)));
    faults.extend(validate_analysis(new, Some(old)));
    faults.extend(without_old_deletion_cost(validate_spec(&new.spec, Some(&old.spec.template)), &old.spec.template));
    faults.extend(validate_selector_kept(new.spec.selector.as_ref(), old.spec.selector.as_ref()));
    faults
}

fn annotations(new: &Deployment, old: &Deployment) -> Vec<FieldError> {
    choices::validate(choices::OF_DEPLOYMENTS, &new.metadata, Some(&old.metadata))
}

/// Steps require a rolling update. Stored values are not validated again.
fn validate_steps(new: &Deployment, old: Option<&Deployment>) -> Option<FieldError> {
    let is_contradiction =
        |deployment: &Deployment| deployment.spec.strategy.type_ == RECREATE && choices::value(&deployment.metadata, BERTH_STEPS).is_some();
    let path = Path::new("metadata").child("annotations").key(BERTH_STEPS);
    let is_new = is_contradiction(new) && !old.is_some_and(is_contradiction);
    is_new.then(|| FieldError::forbidden(&path, "may not be specified when strategy `type` is 'Recreate'"))
}

/// Steps with an `analysis` require a provider and a query. Stored values are not validated again.
fn validate_analysis(new: &Deployment, old: Option<&Deployment>) -> Vec<FieldError> {
    let lacks = |deployment: &Deployment, key: &str| asks(deployment) && choices::value(&deployment.metadata, key).is_none();
    let path = Path::new("metadata").child("annotations");
    let keys = [BERTH_ANALYSIS_PROVIDER, BERTH_ANALYSIS_QUERY].into_iter();
    let missing = keys.filter(|key| lacks(new, key) && !old.is_some_and(|old| lacks(old, key)));
    missing.map(|key| FieldError::required(&path.key(key), format!("{BERTH_STEPS} has an `analysis`"))).collect()
}

fn asks(deployment: &Deployment) -> bool {
    let steps = choices::value(&deployment.metadata, BERTH_STEPS).and_then(|text| steps::parse(text).ok());
    steps.is_some_and(|steps| steps.contains(&Step::Analysis))
}

fn validate_spec(spec: &DeploymentSpec, old_template: Option<&PodTemplateSpec>) -> Vec<FieldError> {
    let path = Path::new("spec");
    let not_negative = |field: &str, value: Option<i32>| value.and_then(|value| not_negative(&path.child(field), value));
    let mut faults = Vec::new();
    faults.extend(not_negative("replicas", spec.replicas));
    faults.extend(validate_selector_and_template(spec.selector.as_ref(), &spec.template, REPLICATED, || {
        validate_new_template(&spec.template, old_template)
    }));
    faults.extend(validate_strategy(&spec.strategy, &path.child("strategy")));
    faults.extend(not_negative("minReadySeconds", Some(spec.min_ready_seconds)));
    faults.extend(not_negative("revisionHistoryLimit", spec.revision_history_limit));
    faults.extend(not_negative("progressDeadlineSeconds", spec.progress_deadline_seconds));
    if let Some(deadline) = spec.progress_deadline_seconds.filter(|deadline| *deadline <= spec.min_ready_seconds) {
        faults.push(FieldError::invalid(&path.child("progressDeadlineSeconds"), deadline, "must be greater than minReadySeconds"));
    }
    let policy = spec.pod_replacement_policy.as_deref();
    faults.extend(policy.and_then(|policy| validate_policy(policy, &path.child("podReplacementPolicy"))));
    faults
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

/// A write of the status can change annotations too.
pub(super) fn status_update(new: &Deployment, old: &Deployment) -> Vec<FieldError> {
    let annotations = annotations(new, old).into_iter().chain(validate_analysis(new, Some(old)));
    annotations.chain(validate_status(&new.status, &old.status)).collect()
}

fn validate_status(new: &DeploymentStatus, old: &DeploymentStatus) -> Vec<FieldError> {
    let path = Path::new("status");
    let counts = [
        ("observedGeneration", new.observed_generation.0),
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

#[cfg(test)]
mod tests {
    use crate::{
        FeatureGates, Kind,
        apps::testing::{check, deployment},
    };
    use serde_json::{Value, json};

    #[expect(clippy::needless_pass_by_value, reason = "a table reads better without borrows")]
    fn check_create(spec: Value, wanted: &[&str]) {
        check(&deployment(json!({"spec": spec})).validate(&FeatureGates::default()), wanted);
    }

    #[test]
    fn numbers_have_bounds() {
        check_create(json!({}), &[]);
        check_create(
            json!({"replicas": -1, "minReadySeconds": -2, "revisionHistoryLimit": -3, "progressDeadlineSeconds": -4}),
            &[
                "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
                "spec.minReadySeconds: Invalid value: -2: must be greater than or equal to 0",
                "spec.revisionHistoryLimit: Invalid value: -3: must be greater than or equal to 0",
                "spec.progressDeadlineSeconds: Invalid value: -4: must be greater than or equal to 0",
                "spec.progressDeadlineSeconds: Invalid value: -4: must be greater than minReadySeconds",
            ],
        );
        check_create(
            json!({"minReadySeconds": 600}),
            &["spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds"],
        );
    }

    #[test]
    fn strategies_are_checked() {
        let check_strategy = |strategy: Value, wanted: &[&str]| check_create(json!({"strategy": strategy}), wanted);
        check_strategy(json!({"type": "Recreate"}), &[]);
        check_strategy(
            json!({"type": "Foo"}),
            &["spec.strategy: Unsupported value: {\"type\":\"Foo\"}: supported values: \"Recreate\", \"RollingUpdate\""],
        );
        check_strategy(
            json!({"type": "Recreate", "rollingUpdate": {}}),
            &["spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"],
        );
        let check_rolling = |rolling: Value, wanted: &[&str]| check_strategy(json!({"rollingUpdate": rolling}), wanted);
        check_rolling(json!({"maxUnavailable": "100%", "maxSurge": "300%"}), &[]);
        check_rolling(json!({"maxUnavailable": 0, "maxSurge": 1}), &[]);
        let both_zero = "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: ";
        check_rolling(json!({"maxUnavailable": 0, "maxSurge": "0%"}), &[&format!("{both_zero}0: may not be 0 when `maxSurge` is 0")]);
        check_rolling(json!({"maxUnavailable": "0%", "maxSurge": 0}), &[&format!("{both_zero}\"0%\": may not be 0 when `maxSurge` is 0")]);
        check_rolling(
            json!({"maxUnavailable": "101%", "maxSurge": "x"}),
            &[
                "spec.strategy.rollingUpdate.maxSurge: Invalid value: \"x\": a valid percent string must be",
                "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%",
            ],
        );
        check_rolling(
            json!({"maxUnavailable": -1}),
            &["spec.strategy.rollingUpdate.maxUnavailable: Invalid value: -1: must be greater than or equal to 0"],
        );
    }

    #[test]
    fn the_selector_must_fit_the_template() {
        let mismatch = "spec.template.metadata.labels: Invalid value: {\"app\":\"w\"}: `selector` does not match template `labels`";
        check_create(json!({"selector": null}), &["spec.selector: Required value", mismatch]);
        check_create(
            json!({"selector": {"matchLabels": null}}),
            &["spec.selector: Invalid value: {}: empty selector is invalid for deployment"],
        );
        check_create(json!({"selector": {"matchLabels": {"b": "c"}}}), &[mismatch]);
        check_create(
            json!({"template": {"metadata": null}}),
            &["spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`"],
        );
        check_create(
            json!({"selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}, "template": {"spec": {"restartPolicy": "Never"}}}),
            &[
                "spec.selector.matchExpressions[0].operator: Invalid value: \"Is\": not a valid selector operator",
                "spec.selector: Invalid value: {\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"Is\"}],\"matchLabels\":{\"app\":\"w\"}}: \
                 invalid label selector",
            ],
        );
    }

    #[test]
    fn the_template_must_run_indefinitely() {
        check_create(
            json!({"template": {"spec": {"restartPolicy": "Never", "activeDeadlineSeconds": 5}}}),
            &[
                "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
                "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported",
            ],
        );
    }

    #[test]
    fn the_policy_is_one_of_two() {
        for good in ["TerminationStarted", "TerminationComplete"] {
            check_create(json!({"podReplacementPolicy": good}), &[]);
        }
        for bad in ["", "terminationComplete"] {
            let wanted = format!(
                "spec.podReplacementPolicy: Unsupported value: \"{bad}\": supported values: \"TerminationComplete\", \"TerminationStarted\""
            );
            check_create(json!({"podReplacementPolicy": bad}), &[&wanted]);
        }
    }

    #[test]
    fn the_selector_never_changes() {
        let gates = FeatureGates::default();
        let old = deployment(json!({}));
        let new = deployment(json!({"spec": {
            "selector": {"matchLabels": {"app": null, "x": "y"}},
            "template": {"metadata": {"labels": {"x": "y"}}},
        }}));
        check(&new.validate_update(&old, &gates), &["spec.selector: Invalid value: {\"matchLabels\":{\"x\":\"y\"}}: field is immutable"]);
        let same = deployment(json!({"spec": {"selector": {"matchExpressions": []}}}));
        check(&same.validate_update(&old, &gates), &[]);
        assert!(!same.spec_differs(&old));
    }

    #[test]
    fn counts_of_the_status_fit_together() {
        let check_status = |old: Value, new: Value, wanted: &[&str]| {
            let (old, new) = (deployment(json!({"status": old})), deployment(json!({"status": new})));
            check(&new.validate_status_update(&old, &FeatureGates::default()), wanted);
        };
        check_status(json!({}), json!({"replicas": 2, "readyReplicas": 2, "availableReplicas": 1, "terminatingReplicas": 9}), &[]);
        check_status(
            json!({}),
            json!({"observedGeneration": -1, "unavailableReplicas": -1, "terminatingReplicas": -1, "collisionCount": -1}),
            &[
                "status.observedGeneration: Invalid value: -1: must be",
                "status.unavailableReplicas: Invalid value: -1: must be",
                "status.terminatingReplicas: Invalid value: -1: must be",
                "status.collisionCount: Invalid value: -1: must be",
            ],
        );
        check_status(
            json!({}),
            json!({"replicas": 1, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 3}),
            &[
                "status.updatedReplicas: Invalid value: 2: cannot be greater than status.replicas",
                "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
                "status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas",
                "status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas",
            ],
        );
        check_status(
            json!({"collisionCount": 2}),
            json!({"collisionCount": 1}),
            &["status.collisionCount: Invalid value: 1: cannot be decremented"],
        );
        check_status(json!({"collisionCount": 2}), json!({}), &["status.collisionCount: Invalid value: null: cannot be decremented"]);
        check_status(json!({}), json!({"collisionCount": 1}), &[]);
    }
}
