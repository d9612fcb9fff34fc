//! Validates a StatefulSet. The errors have upstream's order.

use super::{
    ON_DELETE, ORDERED_READY, PARALLEL, RECREATE, ROLLING_UPDATE, RollingUpdateStatefulSet, StatefulSet, StatefulSetSpec,
    StatefulSetStatus, StatefulSetUpdateStrategy,
};
use crate::{
    FeatureGates, FieldError, Path,
    annotations::{BERTH_AUTO_ROLLBACK, BERTH_PROGRESS_DEADLINE_SECONDS},
    apps::{
        NO_STATUS_REPLICAS, NotGreater, TemplateRules, choices, collision_count_kept, not_greater, not_negative, template_path,
        validate_selector_and_template, without_old_deletion_cost,
    },
    gates::{Gate, Maturity},
    int_or_string::{is_zero, validate_at_most_100_percent, validate_not_negative},
    metadata::check_dns_label,
    pod::{claim::validate_claim_spec, validate_template_with_claims},
};
use k8s_openapi::api::apps::v1::StatefulSetPersistentVolumeClaimRetentionPolicy;
use serde_json::json;

const ORDERED: TemplateRules = TemplateRules {
    empty_selector: "empty selector is invalid for statefulset",
    invalid_selector: "",
    active_deadline: "activeDeadlineSeconds in StatefulSet is not Supported",
};

const FORBIDDEN_UPDATE: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
     'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";

pub(super) fn create(set: &StatefulSet, gates: &FeatureGates) -> Vec<FieldError> {
    let mut faults = choices::validate(choices::OF_STATEFUL_SETS, &set.metadata, None);
    faults.extend(hasty_deadline(set));
    faults.extend(validate_spec(&set.spec, None, gates));
    faults
}

pub(super) fn update(new: &StatefulSet, old: &StatefulSet, gates: &FeatureGates) -> Vec<FieldError> {
    let mut faults = annotations(new, old);
    faults.extend(without_old_deletion_cost(validate_spec(&new.spec, Some(&old.spec), gates), &old.spec.template));
    if gates.enabled(Gate::StatefulSetRecreateStrategy) {
        let stage = Gate::StatefulSetRecreateStrategy.maturity();
        faults.extend(leaving_recreate(&new.spec.update_strategy, &old.spec.update_strategy, stage));
    }
    if differs_beyond_allowed(&new.spec, &old.spec) {
        faults.push(FieldError::forbidden(&Path::new("spec"), FORBIDDEN_UPDATE));
    }
    faults
}

fn annotations(new: &StatefulSet, old: &StatefulSet) -> Vec<FieldError> {
    let mut faults = choices::validate(choices::OF_STATEFUL_SETS, &new.metadata, Some(&old.metadata));
    faults.extend(hasty_deadline(new).filter(|_| hasty_deadline(old).is_none()));
    faults
}

/// Rejects a progress deadline that could pass while pods are ready but not yet available, as for a Deployment.
fn hasty_deadline(set: &StatefulSet) -> Option<FieldError> {
    choices::value(&set.metadata, BERTH_AUTO_ROLLBACK)?;
    let seconds = choices::value(&set.metadata, BERTH_PROGRESS_DEADLINE_SECONDS)?.parse::<i32>().ok()?;
    let path = Path::new("metadata").child("annotations").key(BERTH_PROGRESS_DEADLINE_SECONDS);
    let is_hasty = 0 < seconds && seconds <= set.spec.min_ready_seconds;
    is_hasty.then(|| FieldError::invalid(&path, seconds.to_string(), "must be greater than minReadySeconds"))
}

/// The alpha stage of KEP-3541 forbids a change from `Recreate` to another type. Later stages permit it.
fn leaving_recreate(new: &StatefulSetUpdateStrategy, old: &StatefulSetUpdateStrategy, stage: Maturity) -> Option<FieldError> {
    let leaves = old.type_ == RECREATE && new.type_ != RECREATE;
    let path = Path::new("spec").child("updateStrategy").child("type");
    (leaves && stage == Maturity::Alpha).then(|| FieldError::forbidden(&path, "switching away from 'Recreate' is not allowed in alpha"))
}

/// Whether the specs differ in a field that an update must not change.
fn differs_beyond_allowed(new: &StatefulSetSpec, old: &StatefulSetSpec) -> bool {
    (&new.selector, &new.volume_claim_templates, &new.service_name, &new.pod_management_policy)
        != (&old.selector, &old.volume_claim_templates, &old.service_name, &old.pod_management_policy)
}

fn validate_spec(spec: &StatefulSetSpec, old: Option<&StatefulSetSpec>, gates: &FeatureGates) -> Vec<FieldError> {
    let path = Path::new("spec");
    let mut faults = Vec::new();
    faults.extend(validate_management(&spec.pod_management_policy, &path.child("podManagementPolicy")));
    let recreate = gates.enabled(Gate::StatefulSetRecreateStrategy) || old.is_some_and(|old| old.update_strategy.type_ == RECREATE);
    let supported = if recreate { &[ON_DELETE, RECREATE, ROLLING_UPDATE][..] } else { &[ON_DELETE, ROLLING_UPDATE] };
    faults.extend(validate_strategy(&spec.update_strategy, supported, &path.child("updateStrategy")));
    let retention = spec.persistent_volume_claim_retention_policy.iter();
    faults.extend(retention.flat_map(|policy| validate_retention(policy, &path.child("persistentVolumeClaimRetentionPolicy"))));
    if old.is_none() {
        faults.extend(validate_claims(spec, &path.child("volumeClaimTemplates")));
    }
    faults.extend(spec.replicas.and_then(|replicas| not_negative(&path.child("replicas"), replicas)));
    faults.extend(not_negative(&path.child("minReadySeconds"), spec.min_ready_seconds));
    let start = spec.ordinals.as_ref().and_then(|ordinals| ordinals.start);
    faults.extend(start.and_then(|start| not_negative(&path.child("ordinals").child("start"), start)));
    if old.is_none() && !spec.service_name.is_empty() {
        let path = path.child("serviceName");
        let messages = check_dns_label(&spec.service_name).into_iter();
        faults.extend(messages.map(|message| FieldError::invalid(&path, spec.service_name.as_str(), message)));
    }
    faults.extend(validate_selector_and_template(spec.selector.as_ref(), &spec.template, ORDERED, || validate_pods(spec, old)));
    faults
}

fn validate_management(policy: &str, path: &Path) -> Option<FieldError> {
    match policy {
        ORDERED_READY | PARALLEL => None,
        "" => Some(FieldError::required(path, "")),
        other => Some(FieldError::invalid(path, other, format!("must be '{ORDERED_READY}' or '{PARALLEL}'"))),
    }
}

fn validate_strategy(strategy: &StatefulSetUpdateStrategy, supported: &[&str], path: &Path) -> Vec<FieldError> {
    let rolling_path = path.child("rollingUpdate");
    match (strategy.type_.as_str(), &strategy.rolling_update) {
        ("", _) => vec![FieldError::required(path, "")],
        (unknown, _) if !supported.contains(&unknown) => vec![FieldError::not_supported(&path.child("type"), unknown, supported)],
        (_, None) => Vec::new(),
        (ROLLING_UPDATE, Some(rolling)) => validate_rolling(rolling, &rolling_path),
        (_, Some(rolling)) => vec![FieldError::invalid(&rolling_path, json!(rolling), "only allowed for updateStrategy 'RollingUpdate'")],
    }
}

fn validate_rolling(rolling: &RollingUpdateStatefulSet, path: &Path) -> Vec<FieldError> {
    let mut faults = Vec::new();
    faults.extend(rolling.partition.and_then(|partition| not_negative(&path.child("partition"), partition)));
    if let Some(unavailable) = &rolling.max_unavailable {
        let path = path.child("maxUnavailable");
        faults.extend(validate_not_negative(unavailable, &path));
        faults.extend(is_zero(unavailable).then(|| FieldError::invalid(&path, json!(unavailable), "cannot be 0")));
        faults.extend(validate_at_most_100_percent(unavailable, &path));
    }
    faults
}

fn validate_retention(policy: &StatefulSetPersistentVolumeClaimRetentionPolicy, path: &Path) -> Vec<FieldError> {
    let check = |(field, value): (&str, &Option<String>)| {
        let value = value.as_deref().unwrap_or_default();
        let known = ["Retain", "Delete"];
        (!known.contains(&value)).then(|| FieldError::not_supported(&path.child(field), value, &known))
    };
    [("whenDeleted", &policy.when_deleted), ("whenScaled", &policy.when_scaled)].into_iter().filter_map(check).collect()
}

fn validate_claims(spec: &StatefulSetSpec, path: &Path) -> Vec<FieldError> {
    let claims = spec.volume_claim_templates.iter().flatten().enumerate();
    let specs = claims.filter_map(|(index, claim)| claim.spec.as_ref().map(|spec| (path.index(index).child("spec"), spec)));
    specs.flat_map(|(path, spec)| validate_claim_spec(spec, &path)).collect()
}

/// Validates the template, whose containers may mount the claims. Returns no errors on an update if the stored template
/// has some.
fn validate_pods(spec: &StatefulSetSpec, old: Option<&StatefulSetSpec>) -> Vec<FieldError> {
    let validate = |spec: &StatefulSetSpec| validate_template_with_claims(&spec.template, &template_path(), &claim_names(spec));
    let faults = validate(spec);
    let old_has_faults = || old.is_some_and(|old| !validate(old).is_empty());
    if faults.is_empty() || old_has_faults() { Vec::new() } else { faults }
}

fn claim_names(spec: &StatefulSetSpec) -> Vec<String> {
    spec.volume_claim_templates.iter().flatten().map(|claim| claim.metadata.name.clone().unwrap_or_default()).collect()
}

/// A write of the status can change annotations too.
pub(super) fn status_update(new: &StatefulSet, old: &StatefulSet) -> Vec<FieldError> {
    annotations(new, old).into_iter().chain(validate_status(&new.status, &old.status)).collect()
}

fn validate_status(new: &StatefulSetStatus, old: &StatefulSetStatus) -> Vec<FieldError> {
    let path = Path::new("status");
    let counts = [
        ("replicas", i64::from(new.replicas)),
        ("readyReplicas", i64::from(new.ready_replicas)),
        ("currentReplicas", i64::from(new.current_replicas)),
        ("updatedReplicas", i64::from(new.updated_replicas)),
        ("availableReplicas", i64::from(new.available_replicas)),
        ("observedGeneration", new.observed_generation.0),
        ("collisionCount", i64::from(new.collision_count.unwrap_or_default())),
    ];
    let mut faults: Vec<FieldError> = counts.into_iter().filter_map(|(field, count)| not_negative(&path.child(field), count)).collect();
    let of_replicas = |field, count| NotGreater { field, count, bound: new.replicas, detail: NO_STATUS_REPLICAS };
    faults.extend(not_greater(
        &path,
        &[
            of_replicas("readyReplicas", new.ready_replicas),
            of_replicas("currentReplicas", new.current_replicas),
            of_replicas("updatedReplicas", new.updated_replicas),
            of_replicas("availableReplicas", new.available_replicas),
            NotGreater {
                field: "availableReplicas",
                count: new.available_replicas,
                bound: new.ready_replicas,
                // Unlike the other two kinds with the prefix.
                detail: "cannot be greater than status.readyReplicas",
            },
        ],
    ));
    faults.extend(collision_count_kept(new.collision_count, old.collision_count));
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Kind,
        apps::testing::{check, gates, stateful_set},
    };
    use serde_json::Value;

    const RECREATE_OFF: &str = "StatefulSetRecreateStrategy=false";

    #[expect(clippy::needless_pass_by_value, reason = "a table reads better without borrows")]
    fn check_create(spec: Value, wanted: &[&str]) {
        check(&stateful_set(json!({"spec": spec})).validate(&FeatureGates::default()), wanted);
    }

    #[expect(clippy::needless_pass_by_value, reason = "a table reads better without borrows")]
    fn check_update(old: Value, new: Value, off: &str, wanted: &[&str]) {
        let (old, new) = (stateful_set(json!({"spec": old})), stateful_set(json!({"spec": new})));
        check(&new.validate_update(&old, &gates(off)), wanted);
    }

    #[test]
    fn a_deadline_that_passes_while_pods_become_available_is_refused_once() {
        let set = |min_ready: i32, deadline: &str, rollback: Option<&str>| -> StatefulSet {
            let mut annotations = json!({"berth.dev/progress-deadline-seconds": deadline});
            rollback.into_iter().for_each(|rollback| annotations["berth.dev/auto-rollback"] = json!(rollback));
            stateful_set(json!({"metadata": {"annotations": annotations}, "spec": {"minReadySeconds": min_ready}}))
        };
        let on = Some("OnDeadline");
        let text = hasty_deadline(&set(6, "3", on)).map(|fault| fault.to_string()).unwrap_or_default();
        let wanted =
            "metadata.annotations[berth.dev/progress-deadline-seconds]: Invalid value: \"3\": must be greater than minReadySeconds";
        assert_eq!(text, wanted);
        for (min_ready, deadline, rollback, is_hasty) in
            [(3, "3", on, true), (2, "3", on, false), (6, "3", None, false), (6, "x", on, false)]
        {
            assert_eq!(hasty_deadline(&set(min_ready, deadline, rollback)).is_some(), is_hasty, "{min_ready} {deadline} {rollback:?}");
        }
        let is_refused = |new: &StatefulSet, old: &StatefulSet| annotations(new, old).iter().any(|fault| fault.to_string() == wanted);
        assert!(is_refused(&set(6, "3", on), &set(0, "3", on)) && is_refused(&set(6, "3", on), &set(6, "3", None)));
        assert!(!is_refused(&set(6, "3", on), &set(5, "3", on)), "what was stored before is not judged again");
    }

    #[test]
    fn a_claim_without_a_name_is_a_volume_without_one() {
        let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        check_create(
            json!({"volumeClaimTemplates": [{"metadata": {"name": "a"}, "spec": claim}, {"metadata": {"name": ""}, "spec": claim}]}),
            &[
                "spec.template.spec.volumes[1].persistentVolumeClaim.claimName: Required value",
                "spec.template.spec.volumes[1].name: Required value",
            ],
        );
    }

    #[test]
    fn faults_come_in_upstreams_order() {
        check_create(json!({"revisionHistoryLimit": -1, "serviceName": ""}), &[]);
        check_create(
            json!({
                "podManagementPolicy": "Odd", "updateStrategy": {"type": "Odd"},
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Odd", "whenScaled": "Keep"},
                "volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {"accessModes": ["Odd"]}}],
                "replicas": -1, "minReadySeconds": -2, "ordinals": {"start": -3}, "serviceName": "a.b", "selector": {"matchLabels": null},
                "template": {"spec": {"restartPolicy": "Never", "activeDeadlineSeconds": 1}},
            }),
            &[
                "spec.podManagementPolicy: Invalid value: \"Odd\": must be 'OrderedReady' or 'Parallel'",
                "spec.updateStrategy.type: Unsupported value: \"Odd\": supported values: \"OnDelete\", \"Recreate\", \"RollingUpdate\"",
                "spec.persistentVolumeClaimRetentionPolicy.whenDeleted: Unsupported value: \"Odd\": supported values: \"Retain\", \"Delete\"",
                "spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: \"Keep\": supported values: \"Retain\", \"Delete\"",
                "spec.volumeClaimTemplates[0].spec.accessModes: Unsupported value: \"Odd\": supported values: \"ReadOnlyMany\", ",
                "spec.volumeClaimTemplates[0].spec.resources[storage]: Required value",
                "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
                "spec.minReadySeconds: Invalid value: -2: must be greater than or equal to 0",
                "spec.ordinals.start: Invalid value: -3: must be greater than or equal to 0",
                "spec.serviceName: Invalid value: \"a.b\": must not contain dots",
                "spec.selector: Invalid value: {}: empty selector is invalid for statefulset",
                "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
                "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in StatefulSet is not Supported",
            ],
        );
    }

    #[test]
    fn the_rolling_block_belongs_to_rolling_updates() {
        let check_strategy = |strategy: Value, wanted: &[&str]| check_create(json!({"updateStrategy": strategy}), wanted);
        let path = "spec.updateStrategy.rollingUpdate";
        for other in ["OnDelete", "Recreate"] {
            check_strategy(json!({"type": other}), &[]);
            check_strategy(
                json!({"type": other, "rollingUpdate": {"partition": 1}}),
                &[&format!("{path}: Invalid value: {{\"partition\":1}}: only allowed for updateStrategy 'RollingUpdate'")],
            );
        }
        check_strategy(json!({"rollingUpdate": {"partition": 3, "maxUnavailable": "50%"}}), &[]);
        check_strategy(
            json!({"rollingUpdate": {"partition": -1, "maxUnavailable": 0}}),
            &[
                &format!("{path}.partition: Invalid value: -1: must be greater than or equal to 0"),
                &format!("{path}.maxUnavailable: Invalid value: 0: cannot be 0"),
            ],
        );
        check_strategy(
            json!({"rollingUpdate": {"maxUnavailable": "101%"}}),
            &[&format!("{path}.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%")],
        );
    }

    #[test]
    fn recreate_follows_its_gate_and_what_is_stored() {
        let strategy = |type_: &str| json!({"updateStrategy": {"type": type_}});
        let refused = "spec.updateStrategy.type: Unsupported value: \"Recreate\": supported values: \"OnDelete\", \"RollingUpdate\"";
        check(&stateful_set(json!({"spec": strategy("Recreate")})).validate(&gates(RECREATE_OFF)), &[refused]);
        check_update(strategy("OnDelete"), strategy("Recreate"), RECREATE_OFF, &[refused]);
        check_update(strategy("Recreate"), json!({"replicas": 3, "updateStrategy": {"type": "Recreate"}}), RECREATE_OFF, &[]);
        for other in ["OnDelete", "RollingUpdate"] {
            check_update(strategy("Recreate"), strategy(other), RECREATE_OFF, &[]);
            check_update(strategy("Recreate"), strategy(other), "", &[]);
            check_update(strategy(other), strategy("Recreate"), "", &[]);
        }
    }

    #[test]
    fn only_an_alpha_keeps_sets_on_recreate() {
        let strategy = |type_: &str| StatefulSetUpdateStrategy { type_: type_.to_owned(), rolling_update: None };
        let faults = |old, new, stage| leaving_recreate(&strategy(new), &strategy(old), stage).into_iter().collect::<Vec<_>>();
        check(&faults(RECREATE, ON_DELETE, Maturity::Alpha), &["spec.updateStrategy.type: Forbidden: "]);
        check(&faults(RECREATE, RECREATE, Maturity::Alpha), &[]);
        check(&faults(ON_DELETE, RECREATE, Maturity::Alpha), &[]);
        check(&faults(RECREATE, ON_DELETE, Maturity::Beta), &[]);
    }

    #[test]
    fn updates_change_only_what_the_list_allows() {
        let forbidden = format!("spec: Forbidden: {FORBIDDEN_UPDATE}");
        let claim = json!([{"metadata": {"name": "d"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]);
        for allowed in [
            json!({"replicas": 2}),
            json!({"ordinals": {"start": 1}}),
            json!({"template": {"metadata": {"annotations": {"a": "b"}}}}),
            json!({"updateStrategy": {"type": "OnDelete"}}),
            json!({"revisionHistoryLimit": 1}),
            json!({"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"}}),
            json!({"minReadySeconds": 1}),
            json!({"volumeClaimTemplates": []}),
        ] {
            check_update(json!({}), allowed, "", &[]);
        }
        for refused in [
            json!({"serviceName": "s"}),
            json!({"podManagementPolicy": "Parallel"}),
            json!({"selector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}),
            json!({"volumeClaimTemplates": claim}),
        ] {
            check_update(json!({}), refused, "", &[&forbidden]);
        }
        // A stored value is tolerated although a create would reject it.
        let odd = json!({"serviceName": "a.b", "volumeClaimTemplates": [{"metadata": {"name": "d"}}]});
        check_update(odd.clone(), odd, "", &[]);
    }

    #[test]
    fn counts_of_the_status_fit_together() {
        let check_status = |old: Value, new: Value, wanted: &[&str]| {
            let (old, new) = (stateful_set(json!({"status": old})), stateful_set(json!({"status": new})));
            check(&new.validate_status_update(&old, &FeatureGates::default()), wanted);
        };
        check_status(json!({}), json!({"replicas": 2, "readyReplicas": 1, "availableReplicas": 1}), &[]);
        check_status(
            json!({"collisionCount": 1}),
            json!({"replicas": 1, "currentReplicas": 2, "updatedReplicas": 2, "availableReplicas": 1, "observedGeneration": -1}),
            &[
                "status.observedGeneration: Invalid value: -1: must be greater than or equal to 0",
                "status.currentReplicas: Invalid value: 2: cannot be greater than status.replicas",
                "status.updatedReplicas: Invalid value: 2: cannot be greater than status.replicas",
                "status.availableReplicas: Invalid value: 1: cannot be greater than status.readyReplicas",
                "status.collisionCount: Invalid value: null: cannot be decremented",
            ],
        );
    }
}
