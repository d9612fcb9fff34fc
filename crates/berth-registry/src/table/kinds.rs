use super::Printed;
use berth_api::{
    apps::{Deployment, ReplicaSet, StatefulSet},
    k8s_openapi::api::{
        apps::v1::ControllerRevision,
        coordination::v1::Lease,
        core::v1::{
            ConfigMap, Endpoints, Event as CoreEvent, LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
            ResourceQuota, Secret, Service, ServiceAccount,
        },
        discovery::v1::EndpointSlice,
        events::v1::Event,
        policy::v1::PodDisruptionBudget,
        scheduling::v1::PriorityClass,
        storage::v1::StorageClass,
    },
};
impl Printed for Deployment {}
impl Printed for ReplicaSet {}
impl Printed for StatefulSet {}
impl Printed for ControllerRevision {}
impl Printed for Lease {}
impl Printed for ConfigMap {}
impl Printed for Endpoints {}
impl Printed for CoreEvent {}
impl Printed for LimitRange {}
impl Printed for Namespace {}
impl Printed for Node {}
impl Printed for PersistentVolume {}
impl Printed for PersistentVolumeClaim {}
impl Printed for Pod {}
impl Printed for ResourceQuota {}
impl Printed for Secret {}
impl Printed for Service {}
impl Printed for ServiceAccount {}
impl Printed for EndpointSlice {}
impl Printed for Event {}
impl Printed for PodDisruptionBudget {}
impl Printed for PriorityClass {}
impl Printed for StorageClass {}
