//! Deployment: types, defaults, and the fields that writes keep and drop.

mod validate;

use super::{choices, is_false, is_zero, misplaced_annotations, name_warning, null_as_default, replacement, template_path};
use crate::{
    FeatureGates, FieldError, Gate, Kind,
    annotations::BERTH_AUTO_ROLLBACK,
    object::{GenerationRule, Scaled, ScaledSelector},
    pod::{fill_template, template_warnings},
};
use berth_identity::Generation;
use k8s_openapi::{
    api::{apps::v1::DeploymentCondition, core::v1::PodTemplateSpec},
    apimachinery::pkg::{
        apis::meta::v1::{LabelSelector, ObjectMeta},
        util::intstr::IntOrString,
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Pods of one template, replaced revision by revision (`apps/v1`).
#[derive(Clone, Debug, Default, PartialEq, JsonSchema)]
pub struct Deployment {
    /// Standard object metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: DeploymentSpec,
    /// What was last observed.
    pub status: DeploymentStatus,
}

/// What a Deployment's owner wants.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentSpec {
    /// How many pods; 1 if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Which pods belong to it. Required, immutable, must match the template's labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// The pods to run. A change starts a rollout.
    #[serde(default, deserialize_with = "null_as_default")]
    pub template: PodTemplateSpec,
    /// How pods of an older template are replaced.
    #[serde(default, deserialize_with = "null_as_default")]
    pub strategy: DeploymentStrategy,
    /// How long a pod must be ready before it counts as available.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_zero")]
    pub min_ready_seconds: i32,
    /// How many old ReplicaSets are kept for rollback; 10 if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision_history_limit: Option<i32>,
    /// Whether template changes are held back.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_false")]
    pub paused: bool,
    /// How long a rollout may go without progress before it counts as failed; 600 if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress_deadline_seconds: Option<i32>,
    /// When replacement pods are created: `TerminationStarted` as soon as the pods they replace are being deleted, `TerminationComplete`
    /// only when those are gone. Unset: Recreate waits on a rollout but not on scaling, RollingUpdate never waits (KEP-5882).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["TerminationComplete", "TerminationStarted"]))]
    pub pod_replacement_policy: Option<String>,
}

/// How pods of an older template are replaced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentStrategy {
    /// `RollingUpdate` (default) or `Recreate`.
    #[serde(rename = "type", default, deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub type_: String,
    /// Limits of a rolling update; only with `RollingUpdate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdateDeployment>,
}

/// Limits of a rolling update.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RollingUpdateDeployment {
    /// How many pods may be missing: a number, or a percentage of `replicas` rounded down; 25% if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// How many pods there may be too many: a number, or a percentage of `replicas` rounded up; 25% if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_surge: Option<IntOrString>,
}

/// What was last observed of a Deployment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentStatus {
    /// The generation that this status speaks of.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_zero")]
    #[schemars(with = "i64")]
    pub observed_generation: Generation,
    /// Pods that are neither terminating nor finished.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_zero")]
    pub replicas: i32,
    /// Those of them that have the newest template.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_zero")]
    pub updated_replicas: i32,
    /// Those of them that are ready.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_zero")]
    pub ready_replicas: i32,
    /// Those of them that have been ready for `minReadySeconds`.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_zero")]
    pub available_replicas: i32,
    /// How many available pods are missing.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_zero")]
    pub unavailable_replicas: i32,
    /// Pods with a deletion timestamp that have not finished; unset where it is not known (KEP-3973).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i32>,
    /// The state of the rollout.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-patch-merge-key" = "type", "x-kubernetes-patch-strategy" = "merge"))]
    pub conditions: Option<Vec<DeploymentCondition>>,
    /// How often the name of a new ReplicaSet was already taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
}

apps_kind!(Deployment, DeploymentSpec, DeploymentStatus, "deployments", "DeploymentList");

/// The strategy that replaces pods step by step. The default.
pub const ROLLING_UPDATE: &str = "RollingUpdate";
/// The strategy that deletes all old pods first.
pub const RECREATE: &str = "Recreate";

impl Kind for Deployment {
    const GENERATION_RULE: GenerationRule = GenerationRule::SpecAndAnnotations;
    const HAS_STATUS: bool = true;

    fn set_defaults(&mut self) {
        let spec = &mut self.spec;
        spec.replicas.get_or_insert(1);
        spec.revision_history_limit.get_or_insert(10);
        spec.progress_deadline_seconds.get_or_insert(600);
        spec.strategy.set_defaults();
        fill_template(&mut spec.template);
    }

    fn prepare_create(&mut self, gates: &FeatureGates) {
        self.status = DeploymentStatus::default();
        self.drop_disabled_policy(None, gates);
    }

    fn prepare_update(&mut self, old: &Self, gates: &FeatureGates) {
        self.status = old.status.clone();
        self.drop_disabled_policy(Some(old), gates);
    }

    fn prepare_status_update(&mut self, old: &Self, gates: &FeatureGates) {
        self.spec = old.spec.clone();
        self.metadata.labels.clone_from(&old.metadata.labels);
        replacement::drop_disabled(&mut self.metadata, Some(&old.metadata), gates);
        super::drop_disabled_terminating(&mut self.status.terminating_replicas, old.status.terminating_replicas, gates);
    }

    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        validate::create(self)
    }

    fn validate_update(&self, old: &Self, _gates: &FeatureGates) -> Vec<FieldError> {
        validate::update(self, old)
    }

    fn validate_status_update(&self, old: &Self, _gates: &FeatureGates) -> Vec<FieldError> {
        validate::status_update(self, old)
    }

    fn warnings(&self, old: Option<&Self>) -> Vec<String> {
        let mut warnings = misplaced_annotations(&self.metadata, old.map(|old| &old.metadata));
        let generation_rises = |old: &Self| self.spec_differs(old) || self.metadata.annotations != old.metadata.annotations;
        if old.is_none() {
            warnings.extend(name_warning(&self.metadata));
        }
        if old.is_none_or(generation_rises) {
            warnings.extend(template_warnings(&self.spec.template, &template_path()));
            warnings.extend(self.idle_rollback());
        }
        warnings
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

impl Deployment {
    /// Returns the warning that a rollback will never happen.
    fn idle_rollback(&self) -> Option<String> {
        let is_asked_for = choices::value(&self.metadata, BERTH_AUTO_ROLLBACK).is_some();
        let has_deadline = self.spec.progress_deadline_seconds != Some(i32::MAX);
        let text = "has no effect: spec.progressDeadlineSeconds disables the deadline";
        (is_asked_for && !has_deadline).then(|| format!("metadata.annotations[{BERTH_AUTO_ROLLBACK}]: {text}"))
    }

    /// Drops `podReplacementPolicy` and its annotations if their gate is off, unless the stored object uses them.
    fn drop_disabled_policy(&mut self, old: Option<&Self>, gates: &FeatureGates) {
        let in_use = old.is_some_and(|old| old.spec.pod_replacement_policy.is_some());
        if !in_use && !gates.enabled(Gate::DeploymentPodReplacementPolicy) {
            self.spec.pod_replacement_policy = None;
        }
        replacement::drop_disabled(&mut self.metadata, old.map(|old| &old.metadata), gates);
    }
}

impl DeploymentStrategy {
    fn set_defaults(&mut self) {
        if self.type_.is_empty() {
            ROLLING_UPDATE.clone_into(&mut self.type_);
        }
        if self.type_ == ROLLING_UPDATE {
            let rolling = self.rolling_update.get_or_insert_default();
            let quarter = || IntOrString::String("25%".to_owned());
            rolling.max_unavailable.get_or_insert_with(quarter);
            rolling.max_surge.get_or_insert_with(quarter);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apps::testing::{check_round_trip, deployment, gates};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    const POLICY_OFF: &str = "DeploymentPodReplacementPolicy=false";
    const TERMINATING_OFF: &str = "DeploymentReplicaSetTerminatingReplicas=false";

    #[test]
    fn what_is_left_out_is_filled_in() {
        let found = crate::Object::to_value(&deployment(json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": 1}}}})));
        let spec = &found["spec"];
        assert_eq!(
            (&spec["replicas"], &spec["revisionHistoryLimit"], &spec["progressDeadlineSeconds"]),
            (&json!(1), &json!(10), &json!(600))
        );
        assert_eq!(spec["strategy"], json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "25%"}}));
        assert_eq!((&spec["paused"], &spec["minReadySeconds"], &spec["podReplacementPolicy"]), (&Value::Null, &Value::Null, &Value::Null));
        assert_eq!(found["status"], json!({}));
        let recreate = deployment(json!({"spec": {"replicas": 0, "strategy": {"type": "Recreate"}}}));
        assert_eq!((recreate.spec.replicas, recreate.spec.strategy.rolling_update), (Some(0), None));
    }

    fn with_policy(policy: Option<&str>) -> Deployment {
        deployment(json!({"spec": {"podReplacementPolicy": policy}}))
    }

    /// Writes `new` over `old` (or creates it) with `off`, and checks the resulting policy.
    fn check_policy(old: Option<Option<&str>>, new: Option<&str>, off: &str, wanted: Option<&str>) {
        let mut object = with_policy(new);
        match old {
            None => object.prepare_create(&gates(off)),
            Some(old) => object.prepare_update(&with_policy(old), &gates(off)),
        }
        assert_eq!(object.spec.pod_replacement_policy.as_deref(), wanted, "{new:?} over {old:?} with {off}");
    }

    #[test]
    fn a_policy_whose_gate_is_off_is_dropped_unless_in_use() {
        let (started, complete) = (Some(replacement::TERMINATION_STARTED), Some(replacement::TERMINATION_COMPLETE));
        check_policy(None, complete, "", complete);
        for off in [POLICY_OFF, TERMINATING_OFF] {
            check_policy(None, complete, off, None);
            check_policy(Some(None), complete, off, None);
            check_policy(Some(started), complete, off, complete);
            check_policy(Some(started), None, off, None);
        }
    }

    #[test]
    fn each_endpoint_keeps_what_is_not_its_own() {
        let old = deployment(json!({"metadata": {"labels": {"a": "old"}}, "spec": {"replicas": 1}, "status": {"replicas": 1}}));
        let sent = deployment(json!({
            "metadata": {"labels": {"a": "new"}, "annotations": {"b": "new"}}, "spec": {"replicas": 2}, "status": {"replicas": 2},
        }));
        let on = FeatureGates::default();
        let mut created = sent.clone();
        created.prepare_create(&on);
        assert_eq!(created.status, DeploymentStatus::default());
        let mut updated = sent.clone();
        updated.prepare_update(&old, &on);
        assert_eq!((updated.spec.replicas, updated.status.replicas), (Some(2), 1));
        let mut status = sent;
        status.prepare_status_update(&old, &on);
        assert_eq!((status.spec.replicas, status.status.replicas), (Some(1), 2));
        assert_eq!(status.metadata.labels, old.metadata.labels);
        assert!(status.metadata.annotations.is_some());
    }

    #[test]
    fn terminating_replicas_follow_their_gate() {
        let with = |count: Option<i32>| deployment(json!({"status": {"terminatingReplicas": count}}));
        for (old, off, wanted) in [(None, "", Some(3)), (None, TERMINATING_OFF, None), (Some(1), TERMINATING_OFF, Some(3))] {
            let mut new = with(Some(3));
            new.prepare_status_update(&with(old), &gates(off));
            assert_eq!(new.status.terminating_replicas, wanted, "{old:?} {off}");
        }
        assert!(crate::Object::encode(&with(Some(0))).ends_with(br#""status":{"terminatingReplicas":0}}"#));
    }

    #[test]
    fn long_names_are_warned_about_once() {
        let dotted = deployment(json!({"metadata": {"name": "a.b"}}));
        let warning = "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is \
                       recommended: [must not contain dots]";
        assert_eq!(dotted.warnings(None), [warning]);
        assert!(dotted.warnings(Some(&dotted)).is_empty());
    }

    #[test]
    fn a_rollback_by_a_deadline_that_there_is_not_is_warned_about() {
        let with = |deadline: i32| {
            let metadata = json!({"annotations": {"berth.dev/auto-rollback": "OnDeadline"}});
            deployment(json!({"metadata": metadata, "spec": {"progressDeadlineSeconds": deadline}}))
        };
        let warning = "metadata.annotations[berth.dev/auto-rollback]: has no effect: spec.progressDeadlineSeconds disables the deadline";
        assert_eq!(with(i32::MAX).warnings(None), [warning]);
        assert_eq!(with(i32::MAX).warnings(Some(&with(600))), [warning]);
        assert!(with(600).warnings(None).is_empty() && with(i32::MAX).warnings(Some(&with(i32::MAX))).is_empty());
    }

    fn arbitrary_spec() -> impl Strategy<Value = Value> {
        let type_ = proptest::option::of(prop_oneof![Just("RollingUpdate"), Just("Recreate"), Just(""), Just("X")]);
        let number = || proptest::option::of(-1..3_i32);
        (type_, proptest::option::of((number(), number())), number(), number(), any::<bool>()).prop_map(|(type_, rolling, a, b, paused)| {
            let rolling = rolling.map(|(surge, unavailable)| json!({"maxSurge": surge, "maxUnavailable": unavailable}));
            json!({
                "replicas": a, "progressDeadlineSeconds": b, "minReadySeconds": a, "paused": paused,
                "strategy": {"type": type_, "rollingUpdate": rolling},
            })
        })
    }

    proptest! {
        #[test]
        fn defaults_are_idempotent_and_survive_storing(spec in arbitrary_spec()) {
            let once = deployment(json!({"spec": spec}));
            let mut twice = once.clone();
            twice.set_defaults();
            prop_assert_eq!(&once, &twice);
            check_round_trip(&once);
        }
    }
}
