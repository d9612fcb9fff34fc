//! Names of the resources that controllers and nodes read and write.

use berth_identity::{ApiName, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource, ObjectKey, ObjectRef, Revision};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

const fn core(plural: &'static str) -> GroupResource {
    GroupResource::from_static("", plural)
}

const fn apps(plural: &'static str) -> GroupResource {
    GroupResource::from_static("apps", plural)
}

/// Deployments.
pub const DEPLOYMENTS: GroupResource = apps("deployments");
/// ReplicaSets.
pub const REPLICA_SETS: GroupResource = apps("replicasets");
/// StatefulSets.
pub const STATEFUL_SETS: GroupResource = apps("statefulsets");
/// ReplicationControllers.
pub const REPLICATION_CONTROLLERS: GroupResource = core("replicationcontrollers");
/// DaemonSets.
pub const DAEMON_SETS: GroupResource = apps("daemonsets");
/// Pods.
pub const PODS: GroupResource = core("pods");
/// Nodes.
pub const NODES: GroupResource = core("nodes");
/// PersistentVolumeClaims.
pub const CLAIMS: GroupResource = core("persistentvolumeclaims");
/// PersistentVolumes.
pub const VOLUMES: GroupResource = core("persistentvolumes");
/// ConfigMaps.
pub const CONFIG_MAPS: GroupResource = core("configmaps");
/// Secrets.
pub const SECRETS: GroupResource = core("secrets");
/// ResourceQuotas.
pub const QUOTAS: GroupResource = core("resourcequotas");
/// Services.
pub const SERVICES: GroupResource = core("services");
/// Endpoints.
pub const ENDPOINTS: GroupResource = core("endpoints");
/// EndpointSlices.
pub const SLICES: GroupResource = GroupResource::from_static("discovery.k8s.io", "endpointslices");
/// Namespaces.
pub const NAMESPACES: GroupResource = core("namespaces");
/// Events.
pub const EVENTS: GroupResource = core("events");
/// Leases.
pub const LEASES: GroupResource = GroupResource::from_static("coordination.k8s.io", "leases");
/// StorageClasses.
pub const CLASSES: GroupResource = GroupResource::from_static("storage.k8s.io", "storageclasses");
/// ControllerRevisions.
pub const REVISIONS: GroupResource = apps("controllerrevisions");
/// Jobs.
pub const JOBS: GroupResource = GroupResource::from_static("batch", "jobs");
/// CronJobs.
pub const CRON_JOBS: GroupResource = GroupResource::from_static("batch", "cronjobs");
/// PodDisruptionBudgets.
pub const BUDGETS: GroupResource = GroupResource::from_static("policy", "poddisruptionbudgets");

/// Ingresses.
pub const INGRESSES: GroupResource = GroupResource::from_static("networking.k8s.io", "ingresses");

/// HorizontalPodAutoscalers.
pub const AUTOSCALERS: GroupResource = GroupResource::from_static("autoscaling", "horizontalpodautoscalers");

/// CertificateSigningRequests.
pub const CERTIFICATE_REQUESTS: GroupResource = GroupResource::from_static("certificates.k8s.io", "certificatesigningrequests");

/// The API version of the core group.
pub const CORE_V1: GroupVersion = GroupVersion::from_static("", "v1");
/// The API version of the kinds that roll out.
pub const APPS_V1: GroupVersion = GroupVersion::from_static("apps", "v1");

/// The kind of Deployments.
pub const DEPLOYMENT: GroupVersionKind = GroupVersionKind::from_static("apps", "v1", "Deployment");
/// The kind of ReplicaSets.
pub const REPLICA_SET: GroupVersionKind = GroupVersionKind::from_static("apps", "v1", "ReplicaSet");
/// The kind of ReplicationControllers.
pub const REPLICATION_CONTROLLER: GroupVersionKind = GroupVersionKind::from_static("", "v1", "ReplicationController");
/// The kind of StatefulSets.
pub const STATEFUL_SET: GroupVersionKind = GroupVersionKind::from_static("apps", "v1", "StatefulSet");
/// The kind of DaemonSets.
pub const DAEMON_SET: GroupVersionKind = GroupVersionKind::from_static("apps", "v1", "DaemonSet");
/// The kind of Jobs.
pub const JOB: GroupVersionKind = GroupVersionKind::from_static("batch", "v1", "Job");
/// The kind of CronJobs.
pub const CRON_JOB: GroupVersionKind = GroupVersionKind::from_static("batch", "v1", "CronJob");
/// The kind of events.
pub const EVENT: GroupVersionKind = GroupVersionKind::from_static("", "v1", "Event");
/// The kind of pods.
pub const POD: GroupVersionKind = GroupVersionKind::from_static("", "v1", "Pod");

/// The resources that plans write to, and the kinds of their objects.
static KINDS: [(GroupResource, &str); 19] = [
    (PODS, "Pod"),
    (REPLICA_SETS, "ReplicaSet"),
    (REPLICATION_CONTROLLERS, "ReplicationController"),
    (DEPLOYMENTS, "Deployment"),
    (STATEFUL_SETS, "StatefulSet"),
    (DAEMON_SETS, "DaemonSet"),
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
    (JOBS, "Job"),
    (CRON_JOBS, "CronJob"),
    (CERTIFICATE_REQUESTS, "CertificateSigningRequest"),
];

/// A resource in version `v1`, which berth's controllers use for all resources.
#[must_use]
pub fn v1(resource: GroupResource) -> GroupVersionResource {
    GroupVersionResource { group: resource.group, version: ApiName::from_static("v1"), plural: resource.plural }
}

/// The kind of a resource's objects in version `v1`. The resource's own name if no plan writes to it.
#[must_use]
pub fn kind_of(resource: &GroupResource) -> GroupVersionKind {
    let known = KINDS.iter().find(|(known, _)| known == resource).map(|(_, kind)| ApiName::from_static(kind));
    let kind = known.unwrap_or_else(|| resource.plural.clone());
    GroupVersionKind { group: resource.group.clone(), version: ApiName::from_static("v1"), kind }
}

/// The resource of this name, if plans write to it.
pub(crate) fn named(group: &str, plural: &str) -> Option<GroupResource> {
    KINDS.iter().map(|(known, _)| known).find(|known| known.group == group && known.plural == plural).cloned()
}

/// The object with this metadata, in this version.
pub(crate) fn reference(resource: GroupResource, meta: &ObjectMeta, revision: Revision) -> ObjectRef {
    let key = ObjectKey { namespace: meta.namespace.clone().into(), name: meta.name.clone().into() };
    ObjectRef { resource, key, uid: meta.uid.clone().into(), resource_version: Some(revision) }
}
