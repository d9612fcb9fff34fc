//! The default service account of each namespace.

use crate::{Actor, ApiError, Body, Collection, Registry, WriteOptions, admission::DEFAULT_ACCOUNT, resource};
use berth_api::k8s_openapi::{api::core::v1::ServiceAccount, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use futures::future::BoxFuture;
use std::sync::Arc;

impl Registry {
    /// Creates the default service account of a namespace if it is missing.
    ///
    /// # Errors
    /// A missing or terminating namespace, or errors of the store.
    pub(crate) fn make_default_account<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(self.create_default_account(namespace))
    }

    async fn create_default_account(&self, namespace: &str) -> Result<(), ApiError> {
        let accounts = resource::of::<ServiceAccount>();
        let at = Collection { resource: Arc::clone(accounts), namespace: Some(namespace.to_owned()) };
        let metadata = ObjectMeta { name: Some(DEFAULT_ACCOUNT.to_owned()), ..ObjectMeta::default() };
        let account = ServiceAccount { metadata, ..ServiceAccount::default() };
        match self.create(&Actor::System, &at, Body::Object(Box::new(account)), &WriteOptions::default()).await {
            Ok(_) | Err(ApiError::AlreadyExists { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
