//! What a write of one object entails for others, before it is answered: upstream's controllers for these would only be late.

use crate::{ApiError, Body, Collection, Patch, Registry, Resource, Target, WriteOptions, key, resource, stored};
use berth_api::{
    Object,
    k8s_openapi::{
        api::{
            core::v1::{ConfigMap, ServiceAccount},
            rbac::v1::ClusterRole,
        },
        apimachinery::pkg::apis::meta::v1::ObjectMeta,
    },
};
use berth_rbac::stale_aggregates;
use berth_store::RangeRequest;
use futures::future::BoxFuture;
use serde_json::json;
use std::sync::Arc;

/// The service account that every namespace has.
pub(crate) const DEFAULT_ACCOUNT: &str = "default";
/// The config map that every namespace has, with the certificate by which clients know the server.
pub(crate) const ROOT_CA: &str = "kube-root-ca.crt";
/// Who fills aggregated roles.
const AGGREGATOR: &str = "clusterrole-aggregation-controller";
/// Who makes default service accounts.
const ACCOUNTANT: &str = "service-account-controller";
/// Who makes the config maps with the server's authority.
const PUBLISHER: &str = "root-ca-cert-publisher";

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happened {
    /// It is new.
    Created,
    /// It has another state.
    Changed,
    /// It is gone, or on its way.
    Deleted,
}

impl Registry {
    /// Draws the consequences of a write that happened. Most have none, and then it costs nothing.
    ///
    /// # Errors
    /// The store's. The write itself stands.
    pub(crate) async fn follow_up(
        &self,
        happened: Happened,
        resource: &Resource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<(), ApiError> {
        match (resource.group.as_str(), resource.plural.as_str(), happened) {
            // An account that cannot be made now is made for the first pod that needs it; a namespace that goes takes its account along.
            ("", "namespaces", Happened::Created) => {
                drop(self.make_default_account(name).await);
                drop(self.publish_root_ca(name).await);
            }
            ("", "configmaps", Happened::Changed | Happened::Deleted) if name == ROOT_CA => {
                drop(self.publish_root_ca(namespace.unwrap_or_default()).await);
            }
            ("", "serviceaccounts", Happened::Deleted) if name == DEFAULT_ACCOUNT => {
                drop(self.make_default_account(namespace.unwrap_or_default()).await);
            }
            (berth_rbac::GROUP, "clusterroles", _) => return self.aggregate().await,
            _ => (),
        }
        Ok(())
    }

    /// Makes the default service account of a namespace, if it is not there.
    ///
    /// # Errors
    /// A namespace that is missing or terminating; the store's.
    pub(crate) fn make_default_account<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(self.create_default_account(namespace))
    }

    async fn create_default_account(&self, namespace: &str) -> Result<(), ApiError> {
        let accounts = resource::by_name("", "serviceaccounts").expect("service accounts are served");
        let at = Collection { resource: Arc::clone(accounts), namespace: Some(namespace.to_owned()) };
        let metadata = ObjectMeta { name: Some(DEFAULT_ACCOUNT.to_owned()), ..ObjectMeta::default() };
        let account: Box<dyn Object> = Box::new(ServiceAccount { metadata, ..ServiceAccount::default() });
        let options = WriteOptions { field_manager: ACCOUNTANT.to_owned(), ..WriteOptions::default() };
        match self.trusted().create(&at, Body::Object(account), &options).await {
            Ok(_) | Err(ApiError::AlreadyExists { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Makes the config map with the server's authority in a namespace what it should be, where there is an authority.
    ///
    /// # Errors
    /// A namespace that is missing or terminating; the store's.
    pub(crate) fn publish_root_ca<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(self.put_root_ca(namespace))
    }

    async fn put_root_ca(&self, namespace: &str) -> Result<(), ApiError> {
        let Some(certificate) = self.root_ca.as_deref() else { return Ok(()) };
        let resource = resource::by_name("", "configmaps").expect("config maps are served");
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

    /// Fills the rules of aggregated roles that do not show what their parts have.
    fn aggregate(&self) -> BoxFuture<'_, Result<(), ApiError>> {
        Box::pin(self.fill_aggregates())
    }

    async fn fill_aggregates(&self) -> Result<(), ApiError> {
        let roles = resource::by_name(berth_rbac::GROUP, "clusterroles").expect("cluster roles are served");
        let request = RangeRequest::all(key::resource_prefix(roles));
        let mut all = Vec::new();
        for entry in self.store.range(request).await?.entries {
            all.extend(stored::load(roles, &entry)?.downcast_ref::<ClusterRole>().cloned());
        }
        for role in stale_aggregates(all) {
            let target =
                Target { resource: Arc::clone(roles), namespace: None, name: role.metadata.name.unwrap_or_default(), subresource: None };
            let patch = Patch::MergeValue(json!({"rules": role.rules}));
            let options = WriteOptions { field_manager: AGGREGATOR.to_owned(), ..WriteOptions::default() };
            match self.trusted().patch(&target, patch, &options).await {
                Ok(_) | Err(ApiError::NotFound { .. }) => (),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The API without a caller: consequences are the server's own doing.
    fn trusted(&self) -> Self {
        Self { caller: None, ..self.clone() }
    }
}
