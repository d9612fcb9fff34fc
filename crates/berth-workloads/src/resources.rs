//! Names of the resources that controllers and nodes read and write.

use berth_identity::{ObjectKey, ObjectRef, ResourceName, Revision};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

const fn core(plural: &'static str) -> ResourceName {
    ResourceName { group: "", plural }
}

/// Pods.
pub const PODS: ResourceName = core("pods");
/// Nodes.
pub const NODES: ResourceName = core("nodes");
/// PersistentVolumeClaims.
pub const CLAIMS: ResourceName = core("persistentvolumeclaims");
/// PersistentVolumes.
pub const VOLUMES: ResourceName = core("persistentvolumes");
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
pub const REVISIONS: ResourceName = ResourceName { group: "apps", plural: "controllerrevisions" };
/// PodDisruptionBudgets.
pub const BUDGETS: ResourceName = ResourceName { group: "policy", plural: "poddisruptionbudgets" };

/// The object with this metadata, in this version.
pub(crate) fn reference(resource: ResourceName, meta: &ObjectMeta, revision: Revision) -> ObjectRef {
    let key = ObjectKey { namespace: meta.namespace.clone().into(), name: meta.name.clone().into() };
    ObjectRef { resource, key, uid: meta.uid.clone().into(), resource_version: Some(revision) }
}
