//! Names of the resources that controllers and nodes read and write.

use berth_identity::{ObjectKey, ObjectRef, ResourceName, Revision};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

const fn core(plural: &'static str) -> ResourceName {
    ResourceName { group: "", plural }
}

const fn apps(plural: &'static str) -> ResourceName {
    ResourceName { group: "apps", plural }
}

/// Deployments.
pub const DEPLOYMENTS: ResourceName = apps("deployments");
/// ReplicaSets.
pub const REPLICA_SETS: ResourceName = apps("replicasets");
/// StatefulSets.
pub const STATEFUL_SETS: ResourceName = apps("statefulsets");
/// Pods.
pub const PODS: ResourceName = core("pods");
/// Nodes.
pub const NODES: ResourceName = core("nodes");
/// PersistentVolumeClaims.
pub const CLAIMS: ResourceName = core("persistentvolumeclaims");
/// PersistentVolumes.
pub const VOLUMES: ResourceName = core("persistentvolumes");
/// ConfigMaps.
pub const CONFIG_MAPS: ResourceName = core("configmaps");
/// Secrets.
pub const SECRETS: ResourceName = core("secrets");
/// ResourceQuotas.
pub const QUOTAS: ResourceName = core("resourcequotas");
/// Services.
pub const SERVICES: ResourceName = core("services");
/// Endpoints.
pub const ENDPOINTS: ResourceName = core("endpoints");
/// EndpointSlices.
pub const SLICES: ResourceName = ResourceName { group: "discovery.k8s.io", plural: "endpointslices" };
/// Namespaces.
pub const NAMESPACES: ResourceName = core("namespaces");
/// Events.
pub const EVENTS: ResourceName = core("events");
/// Leases.
pub const LEASES: ResourceName = ResourceName { group: "coordination.k8s.io", plural: "leases" };
/// StorageClasses.
pub const CLASSES: ResourceName = ResourceName { group: "storage.k8s.io", plural: "storageclasses" };
/// ControllerRevisions.
pub const REVISIONS: ResourceName = apps("controllerrevisions");
/// PodDisruptionBudgets.
pub const BUDGETS: ResourceName = ResourceName { group: "policy", plural: "poddisruptionbudgets" };

/// HorizontalPodAutoscalers.
pub const AUTOSCALERS: ResourceName = ResourceName { group: "autoscaling", plural: "horizontalpodautoscalers" };

/// The resources that plans write to, and the kinds of their objects.
const KINDS: [(ResourceName, &str); 14] = [
    (PODS, "Pod"),
    (REPLICA_SETS, "ReplicaSet"),
    (DEPLOYMENTS, "Deployment"),
    (STATEFUL_SETS, "StatefulSet"),
    (REVISIONS, "ControllerRevision"),
    (CLAIMS, "PersistentVolumeClaim"),
    (VOLUMES, "PersistentVolume"),
    (NODES, "Node"),
    (SERVICES, "Service"),
    (SLICES, "EndpointSlice"),
    (ENDPOINTS, "Endpoints"),
    (QUOTAS, "ResourceQuota"),
    (BUDGETS, "PodDisruptionBudget"),
    (AUTOSCALERS, "HorizontalPodAutoscaler"),
];

/// The kind of a resource's objects; the resource's own name where no plan writes to it.
#[must_use]
pub fn kind_of(resource: ResourceName) -> &'static str {
    KINDS.iter().find(|(known, _)| *known == resource).map_or(resource.plural, |(_, kind)| *kind)
}

/// The resource of this name, if plans write to it.
pub(crate) fn named(group: &str, plural: &str) -> Option<ResourceName> {
    KINDS.iter().map(|(known, _)| *known).find(|known| known.group == group && known.plural == plural)
}

/// The object with this metadata, in this version.
pub(crate) fn reference(resource: ResourceName, meta: &ObjectMeta, revision: Revision) -> ObjectRef {
    let key = ObjectKey { namespace: meta.namespace.clone().into(), name: meta.name.clone().into() };
    ObjectRef { resource, key, uid: meta.uid.clone().into(), resource_version: Some(revision) }
}
