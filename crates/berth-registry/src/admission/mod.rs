//! What the server itself says about objects, beyond their kind's own rules: namespaces, accounts, priorities, default classes, addresses,
//! limit ranges, security levels, quotas.

mod accounts;
mod classes;
pub(crate) mod limits;
mod pod;
pub(crate) mod pod_security;
pub(crate) mod quota;

use crate::{ApiError, Collection, Registry, error::Cause, header, key, resource};
use berth_api::{
    Object, Scope,
    k8s_openapi::{
        api::{
            core::v1::{LimitRange, PersistentVolume, PersistentVolumeClaim, Pod},
            networking::v1::ServiceCIDR,
        },
        apimachinery::pkg::apis::meta::v1::ObjectMeta,
    },
    limit_range,
};
use berth_store::Entry;
use std::sync::Arc;

/// Holds a claim back while pods use it (upstream: admission plugin StorageObjectInUseProtection).
const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
/// Holds a volume back while it is bound.
const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";
/// Holds a range of cluster addresses back while some of them are in use (upstream: the controller service-cidr-controller).
pub(crate) const SERVICE_CIDR_PROTECTION: &str = "networking.k8s.io/service-cidr-finalizer";

impl Registry {
    /// A new object's namespace, which must exist and not be terminating; `None`: it is not in one.
    pub(crate) async fn admit_namespace(&self, at: &Collection, object: &dyn Object) -> Result<Option<Arc<Entry>>, ApiError> {
        let Some(namespace) = at.namespace.as_deref().filter(|_| at.resource.scope == Scope::Namespaced) else { return Ok(None) };
        let namespaces = resource::find("", "v1", "namespaces").expect("namespaces are served");
        let entry = self.store.get(&key::key_of(namespaces, None, namespace)).await?;
        let entry = entry.ok_or_else(|| ApiError::not_found(namespaces, namespace))?;
        if header::field(&entry.header, "status.phase") != Some("Terminating") {
            return Ok(Some(entry));
        }
        let name = object.meta().name.as_deref().unwrap_or_default();
        let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
        let cause = Cause {
            reason: "NamespaceTerminating".to_owned(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".to_owned(),
        };
        Err(ApiError::forbidden(&at.resource, name, &why, vec![cause]))
    }

    /// Fills in what the server adds to new objects. Defaults have been set, nothing has been validated.
    pub(crate) async fn admit_new(&self, object: &mut dyn Object, ranges: &[LimitRange]) -> Result<(), ApiError> {
        if let Some(pod) = object.downcast_mut::<Pod>() {
            ranges.iter().for_each(|range| limit_range::set_defaults(range, pod));
            return self.admit_pod(pod).await;
        }
        if let Some(claim) = object.downcast_mut::<PersistentVolumeClaim>() {
            protect(&mut claim.metadata, CLAIM_PROTECTION);
            return self.admit_claim(claim).await;
        }
        if let Some(volume) = object.downcast_mut::<PersistentVolume>() {
            protect(&mut volume.metadata, VOLUME_PROTECTION);
        }
        if let Some(range) = object.downcast_mut::<ServiceCIDR>() {
            protect(&mut range.metadata, SERVICE_CIDR_PROTECTION);
        }
        Ok(())
    }
}

fn protect(meta: &mut ObjectMeta, finalizer: &str) {
    let finalizers = meta.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|present| present == finalizer) {
        finalizers.push(finalizer.to_owned());
    }
}
