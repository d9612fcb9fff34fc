//! Bringing an object to what a manifest says, as `kubectl apply` does from outside.

use crate::{ApiError, Body, Collection, Current, GetOptions, Patch, Registry, Target, WriteOptions, patch};
use berth_api::annotations::LAST_APPLIED_CONFIGURATION as LAST_APPLIED;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Configured {
    /// It was not there.
    Created,
    /// It differed from the manifest.
    Changed,
    /// It was as the manifest says.
    Unchanged,
}

impl Registry {
    /// Creates the object if it is missing, changes what differs from the manifest, and removes what an earlier manifest set and this one does not. Gives
    /// warnings too.
    ///
    /// # Errors
    /// Those of get, create and patch.
    pub async fn configure(
        &self,
        target: &Target,
        manifest: &Value,
        options: &WriteOptions,
    ) -> Result<(Configured, Vec<String>), ApiError> {
        let wanted = annotated(manifest, target.namespace.as_deref());
        let live = match self.get(target, &GetOptions::default()).await {
            Ok(Current::Stored(entry)) => {
                serde_json::from_slice(&entry.value).map_err(|error| ApiError::Internal { message: error.to_string() })?
            }
            Ok(Current::Made(value)) => value,
            Err(ApiError::NotFound { .. }) => {
                let at = Collection { resource: Arc::clone(&target.resource), namespace: target.namespace.clone() };
                let written = self.create(&at, Body::Json(wanted.to_string().into_bytes()), options).await?;
                return Ok((Configured::Created, written.warnings));
            }
            Err(error) => return Err(error),
        };
        let change = patch::three_way_merge(&last_applied(&live), &wanted, &live);
        if change.as_object().is_some_and(Map::is_empty) {
            return Ok((Configured::Unchanged, Vec::new()));
        }
        let written = self.patch(target, Patch::Merge(change.to_string().into_bytes()), options).await?;
        Ok((Configured::Changed, written.warnings))
    }
}

/// The manifest with the annotation by which the next apply, ours or kubectl's, knows what this one set. It is kubectl's to the byte: with the namespace, and with a map of
/// annotations though it be empty. An apply of the same manifest by kubectl then changes nothing, and says so.
fn annotated(manifest: &Value, namespace: Option<&str>) -> Value {
    let mut plain = manifest.clone();
    let metadata = &mut plain["metadata"];
    if let Some(namespace) = namespace {
        metadata["namespace"] = json!(namespace);
    }
    match metadata["annotations"].as_object_mut() {
        Some(annotations) => drop(annotations.remove(LAST_APPLIED)),
        None => metadata["annotations"] = json!({}),
    }
    let mut wanted = plain.clone();
    wanted["metadata"]["annotations"][LAST_APPLIED] = Value::String(format!("{plain}\n"));
    wanted
}

fn last_applied(live: &Value) -> Value {
    live["metadata"]["annotations"][LAST_APPLIED].as_str().and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null)
}
