//! Aggregated cluster roles: copies the rules of all roles that they select.

use crate::{Actor, ApiError, Patch, Registry, Target, WriteOptions, resource, stored};
use berth_api::k8s_openapi::api::rbac::v1::ClusterRole;
use berth_rbac::stale_aggregates;
use berth_store::RangeRequest;
use futures::future::BoxFuture;
use serde_json::json;
use std::sync::Arc;

/// The field manager of the rules of aggregated roles.
const AGGREGATOR: &str = "clusterrole-aggregation-controller";

impl Registry {
    /// Updates aggregated roles whose rules differ from those of their parts.
    pub(super) fn aggregate(&self) -> BoxFuture<'_, Result<(), ApiError>> {
        Box::pin(self.fill_aggregates())
    }

    /// Writes only over the version that was read. Newer rules of another server are therefore not reverted, and a
    /// conflict leads to another round. Each lost round is one that another server has won.
    async fn fill_aggregates(&self) -> Result<(), ApiError> {
        while !self.fill_stale_aggregates().await? {}
        Ok(())
    }

    /// Runs one round. Returns `false` after a conflict.
    async fn fill_stale_aggregates(&self) -> Result<bool, ApiError> {
        let roles = resource::of::<ClusterRole>();
        let request = RangeRequest::all(roles.prefix());
        let mut all = Vec::new();
        for entry in self.storage.store.range(request).await?.entries {
            let mut role = stored::load(roles, &entry)?;
            role.meta_mut().resource_version = Some(entry.mod_revision.to_string());
            all.extend(role.downcast_ref::<ClusterRole>().cloned());
        }
        for ClusterRole { metadata, rules, .. } in stale_aggregates(all) {
            let patch = Patch::MergeValue(json!({"metadata": {"resourceVersion": metadata.resource_version}, "rules": rules}));
            let target =
                Target { resource: Arc::clone(roles), namespace: None, name: metadata.name.unwrap_or_default(), subresource: None };
            let options = WriteOptions { field_manager: AGGREGATOR.to_owned(), ..WriteOptions::default() };
            match self.patch(&Actor::System, &target, patch, &options).await {
                Ok(_) | Err(ApiError::NotFound { .. }) => (),
                Err(error @ ApiError::Conflict { .. }) => {
                    // A lost lease and the rejection by a reviewer are conflicts too. A retry would fail indefinitely.
                    let found = self.storage.store.get(&target.key()).await?.map(|entry| entry.mod_revision.to_string());
                    return if found == metadata.resource_version { Err(error) } else { Ok(false) };
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}
