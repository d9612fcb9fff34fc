//! Deployment: types, defaults, what writes keep and drop.

mod validate;

use super::{is_false, is_zero, name_warning, null_as_default, template_path};
use crate::{
    FeatureGates, FieldError, Kind,
    object::GenerationRule,
    pod::{set_template_defaults, template_warnings},
};
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
    pub observed_generation: i64,
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

/// The strategy that replaces pods step by step; the default.
pub const ROLLING_UPDATE: &str = "RollingUpdate";
/// The strategy that removes all old pods first.
pub const RECREATE: &str = "Recreate";
/// Replacements may be created as soon as the pods they replace are being deleted.
pub const TERMINATION_STARTED: &str = "TerminationStarted";
/// Replacements may be created only when the pods they replace are gone.
pub const TERMINATION_COMPLETE: &str = "TerminationComplete";

impl Kind for Deployment {
    const GENERATION_RULE: GenerationRule = GenerationRule::SpecAndAnnotations;
    const HAS_STATUS: bool = true;

    fn set_defaults(&mut self) {
        let spec = &mut self.spec;
        spec.replicas.get_or_insert(1);
        spec.revision_history_limit.get_or_insert(10);
        spec.progress_deadline_seconds.get_or_insert(600);
        spec.strategy.set_defaults();
        set_template_defaults(&mut spec.template);
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
        super::drop_disabled_terminating(&mut self.status.terminating_replicas, old.status.terminating_replicas, gates);
    }

    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        validate::create(self)
    }

    fn validate_update(&self, old: &Self, _gates: &FeatureGates) -> Vec<FieldError> {
        validate::update(self, old)
    }

    fn validate_status_update(&self, old: &Self, _gates: &FeatureGates) -> Vec<FieldError> {
        validate::status_update(&self.status, &old.status)
    }

    fn warnings(&self, old: Option<&Self>) -> Vec<String> {
        let Some(old) = old else {
            let name = name_warning(&self.metadata);
            return name.into_iter().chain(template_warnings(&self.spec.template, &template_path())).collect();
        };
        let generation_rises = self.spec_differs(old) || self.metadata.annotations != old.metadata.annotations;
        if generation_rises { template_warnings(&self.spec.template, &template_path()) } else { Vec::new() }
    }

    fn spec_differs(&self, old: &Self) -> bool {
        self.spec != old.spec
    }
}

impl Deployment {
    /// Drops `podReplacementPolicy` where its gate is off, unless the stored object uses it.
    fn drop_disabled_policy(&mut self, old: Option<&Self>, gates: &FeatureGates) {
        let in_use = old.is_some_and(|old| old.spec.pod_replacement_policy.is_some());
        if !in_use && !gates.enabled("DeploymentPodReplacementPolicy") {
            self.spec.pod_replacement_policy = None;
        }
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
