//! Instantiates the decoding and encoding of each kind here. Otherwise each crate that uses a kind would compile its
//! generic functions again. Those that decode a pod have several hundred kilobytes.

use crate::{
    apps::{Deployment, ReplicaSet, StatefulSet},
    decode::{Codec, DecodeError, from_json, from_sent},
};
use k8s_openapi::api::{
    apps::v1::ControllerRevision,
    authentication::v1::{SelfSubjectReview, TokenReview},
    authorization::v1::{LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectRulesReview, SubjectAccessReview},
    autoscaling::{v1::Scale, v2::HorizontalPodAutoscaler},
    batch::v1::{Job, JobSpec},
    coordination::v1::Lease,
    core::v1::{
        Binding, ConfigMap, Endpoints, Event as CoreEvent, LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
        PodTemplateSpec, ResourceQuota, Secret, Service, ServiceAccount,
    },
    discovery::v1::EndpointSlice,
    events::v1::Event,
    networking::v1::{IPAddress, ServiceCIDR},
    policy::v1::{Eviction, PodDisruptionBudget},
    rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
    scheduling::v1::PriorityClass,
    storage::v1::StorageClass,
};
use serde::Deserialize;
use serde_json::Value;

macro_rules! compiled {
    ($($decoded:ty),* $(,)?) => {$(
        impl Codec for $decoded {
            fn decode_json(json: &[u8]) -> Result<Self, serde_json::Error> {
                from_json(json)
            }

            fn decode_tree(tree: &Value) -> Result<Self, serde_json::Error> {
                Self::deserialize(tree)
            }

            fn decode_sent(tree: Value) -> Result<(Self, Vec<String>), DecodeError> {
                from_sent(tree)
            }

            fn encode_json(&self, to: &mut Vec<u8>) {
                serde_json::to_writer(to, self).expect("API types have string keys only");
            }

            fn encode_tree(&self) -> Value {
                serde_json::to_value(self).expect("API types have string keys only")
            }
        }
    )*};
}

compiled! {
    Binding,
    ClusterRole,
    ClusterRoleBinding,
    ConfigMap,
    ControllerRevision,
    CoreEvent,
    Deployment,
    EndpointSlice,
    Endpoints,
    Event,
    Eviction,
    HorizontalPodAutoscaler,
    IPAddress,
    Job,
    JobSpec,
    Lease,
    LimitRange,
    LocalSubjectAccessReview,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PodTemplateSpec,
    PriorityClass,
    ReplicaSet,
    ResourceQuota,
    Role,
    RoleBinding,
    Scale,
    Secret,
    SelfSubjectAccessReview,
    SelfSubjectReview,
    SelfSubjectRulesReview,
    Service,
    ServiceAccount,
    ServiceCIDR,
    StatefulSet,
    StorageClass,
    SubjectAccessReview,
    TokenReview,
}
