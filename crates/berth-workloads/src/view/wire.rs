//! The wire's form of the fields of views.

use super::{
    BTreeMap, Deserialize, DeserializeOwned, LabelSelector, Labels, Meta, OwnerReferences, PodTemplateSpec, PodVolume, Timestamp,
    claims_of, daemon_set::required_node, foreign::ManagedFields,
};
use berth_identity::{Generation, Name, Namespace, NodeName, Revision, Uid};
use k8s_openapi::api::core::v1::NodeAffinity;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "Spec: DeserializeOwned, Status: DeserializeOwned")]
pub(super) struct Object<Spec, Status> {
    pub(super) metadata: Metadata,
    pub(super) spec: Option<Spec>,
    pub(super) status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata {
    #[serde(default)]
    namespace: Namespace,
    name: Name,
    #[serde(default)]
    uid: Uid,
    generation: Option<Generation>,
    labels: Option<Labels>,
    pub(super) annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<OwnerReferences>,
    creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<Timestamp>,
    pub(super) deletion_grace_period_seconds: Option<i64>,
    pub(super) finalizers: Option<Vec<String>>,
    #[serde(default)]
    managed_fields: ManagedFields,
}

impl Metadata {
    /// Whether the object is terminating.
    pub(super) fn is_going(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    pub(super) fn into_meta(self, revision: Revision) -> Meta {
        Meta {
            namespace: self.namespace,
            name: self.name,
            uid: self.uid,
            revision,
            generation: self.generation.unwrap_or_default(),
            labels: self.labels.unwrap_or_default(),
            owners: self.owner_references.unwrap_or_default(),
            created: self.creation_timestamp,
            deleted: self.deletion_timestamp,
            foreign: self.managed_fields.0,
        }
    }
}

#[derive(Deserialize)]
pub(super) struct ScaleSpec {
    pub(super) replicas: Option<i32>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReplicaSetSpec {
    pub(super) replicas: Option<i32>,
    pub(super) min_ready_seconds: Option<i32>,
    pub(super) selector: Option<LabelSelector>,
    pub(super) template: Option<PodTemplateSpec>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodSpec {
    pub(super) node_name: Option<NodeName>,
    init_containers: Option<Vec<InitContainer>>,
    volumes: Option<Vec<PodVolume>>,
    affinity: Option<Affinity>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Affinity {
    node_affinity: Option<NodeAffinity>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InitContainer {
    name: String,
    restart_policy: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodStatus {
    pub(super) phase: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) message: Option<String>,
    pub(super) conditions: Option<Vec<Condition>>,
    pub(super) container_statuses: Option<Vec<ContainerStatus>>,
    pub(super) init_container_statuses: Option<Vec<ContainerStatus>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) type_: String,
    #[serde(default)]
    pub(super) status: String,
    pub(super) reason: Option<String>,
    pub(super) message: Option<String>,
    pub(super) last_transition_time: Option<Timestamp>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ContainerStatus {
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) ready: bool,
    #[serde(default)]
    pub(super) restart_count: i32,
    pub(super) state: Option<ContainerState>,
    pub(super) last_state: Option<ContainerState>,
}

#[derive(Deserialize)]
pub(super) struct ContainerState {
    pub(super) waiting: Option<Waiting>,
    pub(super) running: Option<Running>,
    pub(super) terminated: Option<Terminated>,
}

#[derive(Deserialize, PartialEq)]
pub(super) struct Waiting {
    pub(super) reason: Option<String>,
    pub(super) message: Option<String>,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub(super) struct Running {
    pub(super) started_at: Option<Timestamp>,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub(super) struct Terminated {
    #[serde(default)]
    pub(super) exit_code: i32,
    pub(super) reason: Option<String>,
    pub(super) message: Option<String>,
}

impl PodSpec {
    pub(super) fn required_node(&self) -> NodeName {
        if self.node_name.as_ref().is_some_and(|node| !node.is_empty()) {
            return NodeName::default();
        }
        let affinity = self.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
        affinity.and_then(required_node).map(NodeName::shared).unwrap_or_default()
    }

    pub(super) fn claims(&self) -> BTreeMap<String, String> {
        claims_of(self.volumes.as_deref().unwrap_or_default())
    }

    pub(super) fn sidecar_restarts(&self, status: &PodStatus) -> i32 {
        let is_sidecar = |name: &str| {
            let mut containers = self.init_containers.iter().flatten();
            containers.any(|container| container.name == name && container.restart_policy.as_deref() == Some("Always"))
        };
        let sidecars = status.init_container_statuses.iter().flatten().filter(|status| is_sidecar(&status.name));
        sidecars.map(|status| status.restart_count).max().unwrap_or(0)
    }
}
