//! The end of a definition: its objects are deleted first, then the finalizer is removed.
//!
//! Source: upstream `apiextensions-apiserver/pkg/controller/finalizer/crd_finalizer.go`.

use super::{TerminatingDefinition, definitions};
use crate::{
    Actor, ApiError, Collection, DeleteOptions, ListOptions, Patch, Registry, Resource, Subresource, key, resource::prefix,
    stamps::whole_seconds, stored,
};
use berth_identity::GroupResource;
use berth_kinds::custom::{CLEANUP_FINALIZER, Termination, with_condition};
use berth_store::{Entry, EventKind, RangeRequest, Revision, WatchItem, env::yield_now};
use futures::{
    StreamExt as _,
    future::{pending, select},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};
use std::{pin::pin, sync::Arc, time::Duration};

/// How many objects are listed at once.
const PAGE_OBJECTS: i64 = 500;

/// How far the deletion of a definition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finalization {
    /// The definition does not exist any more, or another one has its name.
    Done,
    /// So many objects are left, which finalizers hold.
    Left(usize),
}

impl Registry {
    /// Records that the objects of a definition are being deleted.
    ///
    /// # Errors
    /// As [`Registry::finalize_definition`].
    pub async fn record_termination(&self, definition: &TerminatingDefinition, state: &Termination) -> Result<(), ApiError> {
        let Some((found, revision)) = self.find_definition(definition).await? else { return Ok(()) };
        let now = Time(whole_seconds(self.now()));
        let Some(status) = with_condition(&found, &state.condition(), &now) else { return Ok(()) };
        let patch = json!([{"op": "add", "path": "/status", "value": status}]).to_string().into_bytes();
        self.patch_definition(&definition.name, Some(Subresource::Status), Patch::Json(patch), revision).await
    }

    /// Deletes the objects of a definition. If none is left, removes the finalizer.
    ///
    /// # Errors
    /// [`ApiError::Conflict`]: the definition has changed meanwhile. Other errors of a list or a deletion.
    pub async fn finalize_definition(&self, definition: &TerminatingDefinition) -> Result<Finalization, ApiError> {
        let Some((found, revision)) = self.find_definition(definition).await? else { return Ok(Finalization::Done) };
        let served = self.resources().by_name(&definition.resource).filter(|resource| !resource.is_built_in()).cloned();
        if let Some(resource) = &served {
            self.delete_objects(resource).await?;
        }
        let GroupResource { group, plural } = &definition.resource;
        let left = self.storage.store.range(count_of(&prefix(&format!("{group}/{plural}")))).await?.remaining;
        match (left, served) {
            (0, _) => (),
            (left, Some(_)) => return Ok(Finalization::Left(left)),
            (left, None) => {
                let message = format!("the definition cannot be served, and {left} of its objects are stored");
                return Err(ApiError::NotSupported { message });
            }
        }
        let finalizers = found["metadata"]["finalizers"].as_array().into_iter().flatten();
        let others: Vec<&Value> = finalizers.filter(|finalizer| *finalizer != CLEANUP_FINALIZER).collect();
        let others = if others.is_empty() { Value::Null } else { json!(others) };
        let patch = Patch::MergeValue(json!({"metadata": {"finalizers": others}}));
        self.patch_definition(&definition.name, None, patch, revision).await?;
        Ok(Finalization::Done)
    }

    /// Waits until an object of a definition is removed from the store, for `at_most`.
    pub async fn removal_of_object(&self, definition: &TerminatingDefinition, at_most: Duration) {
        let Some(resource) = self.resources().by_name(&definition.resource).cloned() else { return };
        let until = self.now().saturating_add(at_most).expect("a positive duration can be added");
        let removed = async {
            let Ok(counted) = self.storage.store.range(count_of(resource.prefix())).await else { return pending().await };
            if counted.remaining == 0 {
                return;
            }
            let Ok(mut changes) = self.storage.store.watch(resource.prefix(), counted.revision) else { return pending().await };
            while let Some(Ok(item)) = changes.next().await {
                if let WatchItem::Events(events) = item
                    && events.iter().any(|event| event.kind == EventKind::Deleted)
                {
                    return;
                }
            }
        };
        select(pin!(removed), self.storage.clock.sleep_until(until)).await;
    }

    /// Returns the definition and its revision. `None`: it does not exist any more.
    async fn find_definition(&self, definition: &TerminatingDefinition) -> Result<Option<(Value, Revision)>, ApiError> {
        let resource = definitions().ok_or(ApiError::UnknownResource)?;
        let Some(entry) = self.storage.store.get(&key::key_of(&resource, None, &definition.name)).await? else { return Ok(None) };
        let document = stored::document(&resource, &entry)?;
        let is_it = document["metadata"]["uid"].as_str() == Some(&*definition.uid);
        Ok(is_it.then_some((document, entry.mod_revision)))
    }

    /// Deletes all objects of a resource, or marks them for deletion.
    async fn delete_objects(&self, resource: &Arc<Resource>) -> Result<(), ApiError> {
        let at = Collection { resource: Arc::clone(resource), namespace: None };
        // Upstream deletes them without a review.
        let registry = self.reviewed();
        let mut options = ListOptions { limit: PAGE_OBJECTS, ..ListOptions::default() };
        loop {
            let list = registry.list(&Actor::System, &at, &options).await?;
            for entry in &list.items {
                delete(&registry, resource, entry).await?;
                yield_now().await;
            }
            if list.continue_token.is_empty() {
                return Ok(());
            }
            options.continue_token = list.continue_token;
        }
    }
}

/// Returns the request for the number of stored objects with this key prefix.
fn count_of(prefix: &str) -> RangeRequest {
    RangeRequest { limit: Some(0), ..RangeRequest::all(prefix) }
}

async fn delete(registry: &Registry, resource: &Arc<Resource>, entry: &Entry) -> Result<(), ApiError> {
    let Some(target) = key::target_of(resource, &entry.key) else { return Ok(()) };
    let options = DeleteOptions { is_last_unseen: true, ..DeleteOptions::default() };
    match Box::pin(registry.delete(&Actor::System, &target, &options)).await {
        Ok(_) | Err(ApiError::NotFound { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
