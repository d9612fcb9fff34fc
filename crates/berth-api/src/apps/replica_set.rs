//! ReplicaSet: types, defaults, validation.

use super::{
    NO_STATUS_REPLICAS, NotGreater, choices, is_zero, misplaced_annotations, name_warning, not_greater, not_negative, null_as_default,
    template_path, validate_new_template, validate_selector_and_template, validate_selector_kept, without_old_deletion_cost,
};
use crate::{
    FeatureGates, FieldError, Kind, Path,
    object::{GenerationRule, Scaled, ScaledSelector},
    pod::{fill_template, template_warnings},
};
use berth_identity::Generation;
use k8s_openapi::{
    api::{apps::v1::ReplicaSetCondition, core::v1::PodTemplateSpec},
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A number of equal pods (`apps/v1`).
#[derive(Clone, Debug, Default, PartialEq, JsonSchema)]
pub struct ReplicaSet {
    /// Standard object metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: ReplicaSetSpec,
    /// What was last observed.
    pub status: ReplicaSetStatus,
}

/// What a ReplicaSet's owner wants.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaSetSpec {
    /// How many pods; 1 if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// How long a pod must be ready before it counts as available.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_zero")]
    pub min_ready_seconds: i32,
    /// Which pods belong to it. Required, immutable, must match the template's labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// The pods to run.
    #[serde(default, deserialize_with = "null_as_default")]
    pub template: PodTemplateSpec,
}

/// What was last observed of a ReplicaSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaSetStatus {
    /// Pods that are neither terminating nor finished.
    #[serde(default, deserialize_with = "null_as_default")]
    pub replicas: i32,
    /// Those of them that carry all labels of the template.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_zero")]
    pub fully_labeled_replicas: i32,
    /// Those of them that are ready.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_zero")]
    pub ready_replicas: i32,
    /// Those of them that have been ready for `minReadySeconds`.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_zero")]
    pub available_replicas: i32,
    /// Pods with a deletion timestamp that have not finished; unset where it is not known (KEP-3973).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i32>,
    /// The generation that this status speaks of.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_zero")]
    #[schemars(with = "i64")]
    pub observed_generation: Generation,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-patch-merge-key" = "type", "x-kubernetes-patch-strategy" = "merge"))]
    pub conditions: Option<Vec<ReplicaSetCondition>>,
}

apps_kind!(ReplicaSet, ReplicaSetSpec, ReplicaSetStatus, "replicasets", "ReplicaSetList");

impl Kind for ReplicaSet {
    const GENERATION_RULE: GenerationRule = GenerationRule::Spec;
    const HAS_STATUS: bool = true;

    fn set_defaults(&mut self) {
        self.spec.replicas.get_or_insert(1);
        fill_template(&mut self.spec.template);
    }

    fn prepare_create(&mut self, _gates: &FeatureGates) {
        self.status = ReplicaSetStatus::default();
    }

    fn prepare_update(&mut self, old: &Self, _gates: &FeatureGates) {
        self.status = old.status.clone();
    }

    fn prepare_status_update(&mut self, old: &Self, gates: &FeatureGates) {
        self.spec = old.spec.clone();
        super::drop_disabled_terminating(&mut self.status.terminating_replicas, old.status.terminating_replicas, gates);
    }

    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        let faults = choices::validate(choices::OF_REPLICA_SETS, &self.metadata, None);
        faults.into_iter().chain(validate_spec(&self.spec, None)).collect()
    }

    fn validate_update(&self, old: &Self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = choices::validate(choices::OF_REPLICA_SETS, &self.metadata, Some(&old.metadata));
        faults.extend(without_old_deletion_cost(validate_spec(&self.spec, Some(&old.spec.template)), &old.spec.template));
        faults.extend(validate_selector_kept(self.spec.selector.as_ref(), old.spec.selector.as_ref()));
        faults
    }

    fn validate_status_update(&self, _old: &Self, _gates: &FeatureGates) -> Vec<FieldError> {
        validate_status(&self.status)
    }

    fn warnings(&self, old: Option<&Self>) -> Vec<String> {
        let name = old.is_none().then(|| name_warning(&self.metadata)).flatten();
        let template = match old {
            Some(old) if !self.spec_differs(old) => Vec::new(),
            _ => template_warnings(&self.spec.template, &template_path()),
        };
        name.into_iter().chain(misplaced_annotations(&self.metadata, old.map(|old| &old.metadata))).chain(template).collect()
    }

    fn spec_differs(&self, old: &Self) -> bool {
        self.spec != old.spec
    }

    fn scale(&self) -> Option<Scaled<'_>> {
        Some(Scaled {
            replicas: self.spec.replicas,
            current: self.status.replicas,
            selector: self.spec.selector.as_ref().map(ScaledSelector::Labels),
        })
    }

    fn set_replicas(&mut self, replicas: i32) {
        self.spec.replicas = Some(replicas);
    }
}

fn validate_spec(spec: &ReplicaSetSpec, old_template: Option<&PodTemplateSpec>) -> Vec<FieldError> {
    let path = Path::new("spec");
    let mut faults = Vec::new();
    faults.extend(spec.replicas.and_then(|replicas| not_negative(&path.child("replicas"), replicas)));
    faults.extend(not_negative(&path.child("minReadySeconds"), spec.min_ready_seconds));
    faults.extend(validate_selector_and_template(spec.selector.as_ref(), &spec.template, super::REPLICATED, || {
        validate_new_template(&spec.template, old_template)
    }));
    faults
}

fn validate_status(status: &ReplicaSetStatus) -> Vec<FieldError> {
    let path = Path::new("status");
    let counts = [
        ("replicas", i64::from(status.replicas)),
        ("fullyLabeledReplicas", i64::from(status.fully_labeled_replicas)),
        ("readyReplicas", i64::from(status.ready_replicas)),
        ("availableReplicas", i64::from(status.available_replicas)),
        ("observedGeneration", status.observed_generation.0),
        ("terminatingReplicas", i64::from(status.terminating_replicas.unwrap_or_default())),
    ];
    let mut faults: Vec<FieldError> = counts.into_iter().filter_map(|(field, count)| not_negative(&path.child(field), count)).collect();
    let of_replicas = |field, count| NotGreater { field, count, bound: status.replicas, detail: NO_STATUS_REPLICAS };
    faults.extend(not_greater(
        &path,
        &[
            of_replicas("fullyLabeledReplicas", status.fully_labeled_replicas),
            of_replicas("readyReplicas", status.ready_replicas),
            of_replicas("availableReplicas", status.available_replicas),
            NotGreater {
                field: "availableReplicas",
                count: status.available_replicas,
                bound: status.ready_replicas,
                detail: "cannot be greater than readyReplicas",
            },
        ],
    ));
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apps::testing::{check, check_round_trip, gates, replica_set};
    use serde_json::{Value, json};

    #[test]
    fn an_empty_one_prints_its_replicas() {
        let set = replica_set(json!({}));
        check_round_trip(&set);
        let found = crate::Object::to_value(&set);
        assert_eq!(found["status"], json!({"replicas": 0}));
        assert_eq!(found["spec"]["replicas"], json!(1));
        assert_eq!(found["spec"]["revisionHistoryLimit"], Value::Null);
    }

    #[test]
    fn faults_are_upstreams() {
        let gates = FeatureGates::default();
        let old = replica_set(json!({}));
        check(&old.validate(&gates), &[]);
        let bad = replica_set(json!({"spec": {
            "replicas": -1, "minReadySeconds": -1, "selector": null,
            "template": {"metadata": null, "spec": {"restartPolicy": "OnFailure", "activeDeadlineSeconds": 1}},
        }}));
        check(
            &bad.validate(&gates),
            &[
                "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
                "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
                "spec.selector: Required value",
                "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
                "spec.template.spec.restartPolicy: Unsupported value: \"OnFailure\": supported values: \"Always\"",
                "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported",
            ],
        );
        let empty = replica_set(json!({"spec": {"selector": {"matchLabels": null}}}));
        check(
            &empty.validate_update(&old, &gates),
            &[
                "spec.selector: Invalid value: {}: empty selector is invalid for deployment",
                "spec.selector: Invalid value: {}: field is immutable",
            ],
        );
    }

    #[test]
    fn counts_of_the_status_fit_together() {
        let check_status = |status: Value, wanted: &[&str]| check(&validate_status(&replica_set(json!({"status": status})).status), wanted);
        check_status(json!({"replicas": 2, "readyReplicas": 1, "availableReplicas": 1, "terminatingReplicas": 5}), &[]);
        check_status(
            json!({"replicas": 1, "fullyLabeledReplicas": 2, "readyReplicas": 2, "availableReplicas": 3, "terminatingReplicas": -1}),
            &[
                "status.terminatingReplicas: Invalid value: -1: must be greater than or equal to 0",
                "status.fullyLabeledReplicas: Invalid value: 2: cannot be greater than status.replicas",
                "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
                "status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas",
                "status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas",
            ],
        );
    }

    #[test]
    fn status_writes_keep_the_spec_and_may_label() {
        let old = replica_set(json!({}));
        let mut new =
            replica_set(json!({"metadata": {"labels": {"a": "b"}}, "spec": {"replicas": 9}, "status": {"terminatingReplicas": 1}}));
        new.prepare_status_update(&old, &gates("DeploymentReplicaSetTerminatingReplicas=false"));
        assert_eq!((new.spec.replicas, new.status.terminating_replicas), (Some(1), None));
        assert!(new.metadata.labels.is_some());
    }
}
