//! Deployment, ReplicaSet and StatefulSet: berth's own structs around upstream's pod template, because upstream's lack the fields of the
//! proposals. Wire form as `apps/v1`.

use crate::Kind;
use k8s_openapi::{
    Metadata, NamespaceResourceScope, Resource,
    api::{
        apps::v1::{
            ControllerRevision, DeploymentCondition, ReplicaSetCondition, StatefulSetCondition, StatefulSetOrdinals,
            StatefulSetPersistentVolumeClaimRetentionPolicy,
        },
        core::v1::{PersistentVolumeClaim, PodTemplateSpec},
    },
    apimachinery::pkg::{
        apis::meta::v1::{LabelSelector, ObjectMeta},
        util::intstr::IntOrString,
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::SerializeStruct};

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
    pub observed_generation: i64,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-patch-merge-key" = "type", "x-kubernetes-patch-strategy" = "merge"))]
    pub conditions: Option<Vec<ReplicaSetCondition>>,
}

/// Pods with identities of their own (`apps/v1`).
#[derive(Clone, Debug, Default, PartialEq, JsonSchema)]
pub struct StatefulSet {
    /// Standard object metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: StatefulSetSpec,
    /// What was last observed.
    pub status: StatefulSetStatus,
}

/// What a StatefulSet's owner wants.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatefulSetSpec {
    /// How many pods; 1 if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Which pods belong to it. Required, immutable, must match the template's labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// The pods to run. A change starts an update.
    #[serde(default, deserialize_with = "null_as_default")]
    pub template: PodTemplateSpec,
    /// Claims that every pod gets one each of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_claim_templates: Option<Vec<PersistentVolumeClaim>>,
    /// The headless Service that gives the pods their host names.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub service_name: String,
    /// `OrderedReady` (default): one pod after the other; `Parallel`: all at once.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub pod_management_policy: String,
    /// How pods of an older template are replaced.
    #[serde(default, deserialize_with = "null_as_default")]
    pub update_strategy: StatefulSetUpdateStrategy,
    /// How many old revisions are kept for rollback; 10 if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision_history_limit: Option<i32>,
    /// How long a pod must be ready before it counts as available.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_zero")]
    pub min_ready_seconds: i32,
    /// What becomes of claims when their pod or the set goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim_retention_policy: Option<StatefulSetPersistentVolumeClaimRetentionPolicy>,
    /// Where the numbering of pods starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordinals: Option<StatefulSetOrdinals>,
}

/// How a StatefulSet's pods of an older template are replaced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatefulSetUpdateStrategy {
    /// `RollingUpdate` (default): one by one, highest ordinal first; `OnDelete`: when somebody deletes them; `Recreate`: all are deleted at
    /// once and created anew when the last is gone, also out of a broken rollout (KEP-3541).
    #[serde(rename = "type", default, deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = ["OnDelete", "Recreate", "RollingUpdate"]))]
    pub type_: String,
    /// Limits of a rolling update; only with `RollingUpdate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdateStatefulSet>,
}

/// Limits of a StatefulSet's rolling update.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RollingUpdateStatefulSet {
    /// Pods below this slot keep the old template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<i32>,
    /// How many pods may be missing: a number, or a percentage of `replicas` rounded down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
}

/// What was last observed of a StatefulSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatefulSetStatus {
    /// The generation that this status speaks of.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    /// Pods that exist.
    #[serde(default, deserialize_with = "null_as_default")]
    pub replicas: i32,
    /// Those of them that are ready.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_zero")]
    pub ready_replicas: i32,
    /// Those of the current revision.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_zero")]
    pub current_replicas: i32,
    /// Those of the update revision.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_zero")]
    pub updated_replicas: i32,
    /// The revision that the update started from.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub current_revision: String,
    /// The revision that the update leads to.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub update_revision: String,
    /// How often the name of a new revision was already taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// The state of the set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-patch-merge-key" = "type", "x-kubernetes-patch-strategy" = "merge"))]
    pub conditions: Option<Vec<StatefulSetCondition>>,
    /// Pods that have been ready for `minReadySeconds`.
    #[serde(default, deserialize_with = "null_as_default")]
    pub available_replicas: i32,
}

/// Makes a struct of metadata, spec and status an object of `apps/v1`.
macro_rules! apps_kind {
    ($kind:ident, $spec:ident, $status:ident, $plural:literal, $list:literal) => {
        impl Resource for $kind {
            const API_VERSION: &'static str = "apps/v1";
            const GROUP: &'static str = "apps";
            const KIND: &'static str = stringify!($kind);
            const VERSION: &'static str = "v1";
            const URL_PATH_SEGMENT: &'static str = $plural;
            type Scope = NamespaceResourceScope;
        }

        impl k8s_openapi::ListableResource for $kind {
            const LIST_KIND: &'static str = $list;
        }

        impl Metadata for $kind {
            type Ty = ObjectMeta;

            fn metadata(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }

        impl Serialize for $kind {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut object = serializer.serialize_struct(Self::KIND, 5)?;
                object.serialize_field("apiVersion", Self::API_VERSION)?;
                object.serialize_field("kind", Self::KIND)?;
                object.serialize_field("metadata", &self.metadata)?;
                object.serialize_field("spec", &self.spec)?;
                object.serialize_field("status", &self.status)?;
                object.end()
            }
        }

        impl<'de> Deserialize<'de> for $kind {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                #[derive(Deserialize)]
                #[serde(rename_all = "camelCase")]
                struct Wire {
                    api_version: Option<String>,
                    kind: Option<String>,
                    metadata: Option<ObjectMeta>,
                    spec: Option<$spec>,
                    status: Option<$status>,
                }
                let wire = Wire::deserialize(deserializer)?;
                check_type::<D::Error>(wire.api_version.as_deref(), <$kind>::API_VERSION)?;
                check_type::<D::Error>(wire.kind.as_deref(), <$kind>::KIND)?;
                Ok(Self {
                    metadata: wire.metadata.unwrap_or_default(),
                    spec: wire.spec.unwrap_or_default(),
                    status: wire.status.unwrap_or_default(),
                })
            }
        }
    };
}

apps_kind!(Deployment, DeploymentSpec, DeploymentStatus, "deployments", "DeploymentList");
apps_kind!(ReplicaSet, ReplicaSetSpec, ReplicaSetStatus, "replicasets", "ReplicaSetList");
apps_kind!(StatefulSet, StatefulSetSpec, StatefulSetStatus, "statefulsets", "StatefulSetList");

impl Kind for Deployment {}
impl Kind for ReplicaSet {}
impl Kind for StatefulSet {}
impl Kind for ControllerRevision {}

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
