//! The config map that every namespace has, with the certificate by which clients know the server.

use super::{Happened, Operation, chain::PlugIn};
use crate::{ApiError, Body, Collection, Registry, Target, WriteOptions, key, resource, stored};
use berth_api::k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use futures::future::BoxFuture;
use std::sync::Arc;

/// The config map.
pub(super) const ROOT_CA: &str = "kube-root-ca.crt";
/// Who makes it.
const PUBLISHER: &str = "root-ca-cert-publisher";

pub(super) struct RootCa;

impl PlugIn for RootCa {
    const NAME: &'static str = "RootCa";

    async fn follow_up(api: &Registry, happened: &Happened<'_>) -> Result<(), ApiError> {
        match (happened.group_and_plural(), happened.operation) {
            (("", "namespaces"), Operation::Create) => drop(api.publish_root_ca(happened.name).await),
            (("", "configmaps"), Operation::Update | Operation::Delete) if happened.name == ROOT_CA => {
                drop(api.publish_root_ca(happened.namespace.unwrap_or_default()).await);
            }
            _ => (),
        }
        Ok(())
    }
}

impl Registry {
    /// Makes the config map with the server's authority in a namespace what it should be, where there is an authority.
    ///
    /// # Errors
    /// A namespace that is missing or terminating; the store's.
    pub(crate) fn publish_root_ca<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(self.put_root_ca(namespace))
    }

    async fn put_root_ca(&self, namespace: &str) -> Result<(), ApiError> {
        let Some(certificate) = self.root_ca.as_deref() else { return Ok(()) };
        let resource = resource::of::<ConfigMap>();
        let at = Collection { resource: Arc::clone(resource), namespace: Some(namespace.to_owned()) };
        let metadata = ObjectMeta { name: Some(ROOT_CA.to_owned()), ..ObjectMeta::default() };
        let data = Some([("ca.crt".to_owned(), certificate.to_owned())].into());
        let wanted = ConfigMap { metadata, data, ..ConfigMap::default() };
        let options = WriteOptions { field_manager: PUBLISHER.to_owned(), ..WriteOptions::default() };
        let Some(entry) = self.store.get(&key::key_of(resource, Some(namespace), ROOT_CA)).await? else {
            return match self.trusted().create(&at, Body::Object(Box::new(wanted)), &options).await {
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
        self.trusted().update(&target, Body::Object(Box::new(wanted)), &options).await.map(drop)
    }
}
