//! Kinds that are stored and served, with upstream's types.

use crate::Kind;
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{
        ConfigMap, Endpoints, Event as CoreEvent, LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, ResourceQuota,
        Secret, Service, ServiceAccount,
    },
    discovery::v1::EndpointSlice,
    events::v1::Event,
    policy::v1::PodDisruptionBudget,
    scheduling::v1::PriorityClass,
    storage::v1::StorageClass,
};

impl Kind for ConfigMap {}
impl Kind for CoreEvent {}
impl Kind for Endpoints {}
impl Kind for EndpointSlice {}
impl Kind for Event {}
impl Kind for Lease {}
impl Kind for LimitRange {}
impl Kind for Namespace {}
impl Kind for Node {}
impl Kind for PersistentVolume {}
impl Kind for PersistentVolumeClaim {}
impl Kind for PodDisruptionBudget {}
impl Kind for PriorityClass {}
impl Kind for ResourceQuota {}
impl Kind for Secret {}
impl Kind for Service {}
impl Kind for ServiceAccount {}
impl Kind for StorageClass {}
