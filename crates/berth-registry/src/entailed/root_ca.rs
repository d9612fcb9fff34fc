//! Publishes the server's CA certificate in a config map of each namespace.

use crate::{Actor, ApiError, Body, Collection, Registry, Target, WriteOptions, admission::ROOT_CA, key, resource, stored};
use berth_api::k8s_openapi::{
    api::core::v1::{ConfigMap, Namespace},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use berth_store::RangeRequest;
use futures::future::BoxFuture;
use std::sync::{Arc, MutexGuard, PoisonError};

/// The field manager of the config map.
const PUBLISHER: &str = "root-ca-cert-publisher";

impl Registry {
    /// Replaces the certificate in the config maps of all namespaces, if the server publishes one.
    ///
    /// # Errors
    /// Errors of the store. The caller must try again.
    pub async fn replace_root_ca(&self, certificate: &str) -> Result<(), ApiError> {
        match self.root_ca().as_mut() {
            None => return Ok(()),
            Some(before) => *before = certificate.into(),
        }
        let namespaces = resource::of::<Namespace>();
        for entry in self.storage.store.range(RangeRequest::all(namespaces.prefix())).await?.entries {
            let Some(namespace) = key::target_of(namespaces, &entry.key).map(|target| target.name) else { continue };
            match self.publish_root_ca(&namespace).await {
                // The namespace is deleted or terminating.
                Ok(()) | Err(ApiError::NotFound { .. } | ApiError::Forbidden { .. }) => (),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn root_ca(&self) -> MutexGuard<'_, Option<Arc<str>>> {
        self.root_ca.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the config map of a namespace, if the server publishes a certificate.
    ///
    /// # Errors
    /// A missing or terminating namespace, or errors of the store.
    pub(crate) fn publish_root_ca<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(self.put_root_ca(namespace))
    }

    async fn put_root_ca(&self, namespace: &str) -> Result<(), ApiError> {
        let Some(certificate) = self.root_ca().clone() else { return Ok(()) };
        let resource = resource::of::<ConfigMap>();
        let at = Collection { resource: Arc::clone(resource), namespace: Some(namespace.to_owned()) };
        let metadata = ObjectMeta { name: Some(ROOT_CA.to_owned()), ..ObjectMeta::default() };
        let data = Some([("ca.crt".to_owned(), certificate.as_ref().to_owned())].into());
        let wanted = ConfigMap { metadata, data, ..ConfigMap::default() };
        let options = WriteOptions { field_manager: PUBLISHER.to_owned(), ..WriteOptions::default() };
        let Some(entry) = self.storage.store.get(&key::key_of(resource, Some(namespace), ROOT_CA)).await? else {
            return match self.create(&Actor::System, &at, Body::Object(Box::new(wanted)), &options).await {
                Ok(_) | Err(ApiError::AlreadyExists { .. }) => Ok(()),
                Err(error) => Err(error),
            };
        };
        let stored = stored::load(resource, &entry)?;
        if stored.downcast_ref::<ConfigMap>().is_some_and(|stored| stored.data == wanted.data) {
            return Ok(());
        }
        let target =
            Target { resource: Arc::clone(resource), namespace: Some(namespace.to_owned()), name: ROOT_CA.to_owned(), subresource: None };
        self.update(&Actor::System, &target, Body::Object(Box::new(wanted)), &options).await.map(drop)
    }
}
