//! Applying a manifest from inside the process, as `kubectl apply` does from outside.

use crate::manifests::Document;
use berth_api::annotations::LAST_APPLIED_CONFIGURATION as LAST_APPLIED;
use berth_registry::{ApiError, Body, Collection, Current, GetOptions, Patch, Registry, Resource, Target, WriteOptions, patch};
use serde_json::{Value, json};
use std::{fmt, sync::Arc};

/// What became of one document.
#[derive(Clone, Debug)]
pub(crate) struct Applied {
    pub(crate) resource: Arc<Resource>,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) change: Change,
    pub(crate) warnings: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Created,
    Configured,
    Unchanged,
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let change = match self.change {
            Change::Created => "created",
            Change::Configured => "configured",
            Change::Unchanged => "unchanged",
        };
        let dot = if self.resource.group.is_empty() { "" } else { "." };
        write!(f, "{}{dot}{}/{} {change}", self.resource.singular, self.resource.group, self.name)
    }
}

/// Why a document was not applied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApplyError {
    #[error("{place}: berth serves no {kind} of {api_version}")]
    UnknownKind { place: String, kind: String, api_version: String },
    #[error("{place} was refused")]
    Refused { place: String, source: ApiError },
}

/// Creates what is missing, changes what differs from the manifest, and removes what an earlier manifest set and this one does not.
pub(crate) async fn apply(registry: &Registry, document: &Document) -> Result<Applied, ApplyError> {
    let (api_version, kind) = (text(&document.object, "/apiVersion"), text(&document.object, "/kind"));
    let Some(resource) = registry.resources().by_kind(&api_version, &kind).cloned() else {
        return Err(ApplyError::UnknownKind { place: document.place.clone(), kind, api_version });
    };
    let namespace = (resource.scope == berth_api::Scope::Namespaced).then(|| match text(&document.object, "/metadata/namespace") {
        empty if empty.is_empty() => "default".to_owned(),
        named => named,
    });
    let target = Target { resource: Arc::clone(&resource), namespace, name: text(&document.object, "/metadata/name"), subresource: None };
    let refused = |source| ApplyError::Refused { place: document.place.clone(), source };
    let (change, warnings) = write(registry, &target, &document.object).await.map_err(refused)?;
    Ok(Applied { resource, namespace: target.namespace, name: target.name, change, warnings })
}

async fn write(registry: &Registry, target: &Target, manifest: &Value) -> Result<(Change, Vec<String>), ApiError> {
    let wanted = annotated(manifest);
    let options = WriteOptions { field_manager: "berth-up".to_owned(), field_validation: "Strict".to_owned(), ..WriteOptions::default() };
    let live = match registry.get(target, &GetOptions::default()).await {
        Ok(Current::Stored(entry)) => {
            serde_json::from_slice(&entry.value).map_err(|error| ApiError::Internal { message: error.to_string() })?
        }
        Ok(Current::Made(value)) => value,
        Err(ApiError::NotFound { .. }) => {
            let at = Collection { resource: Arc::clone(&target.resource), namespace: target.namespace.clone() };
            let written = registry.create(&at, Body::Json(wanted.to_string().into_bytes()), &options).await?;
            return Ok((Change::Created, written.warnings));
        }
        Err(error) => return Err(error),
    };
    let change = patch::three_way_merge(&last_applied(&live), &wanted, &live);
    if change.as_object().is_some_and(serde_json::Map::is_empty) {
        return Ok((Change::Unchanged, Vec::new()));
    }
    let written = registry.patch(target, Patch::Merge(change.to_string().into_bytes()), &options).await?;
    Ok((Change::Configured, written.warnings))
}

/// The manifest with the annotation by which the next apply, ours or kubectl's, knows what this one set.
fn annotated(manifest: &Value) -> Value {
    let mut plain = manifest.clone();
    if let Some(annotations) = plain.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(LAST_APPLIED);
    }
    let mut wanted = plain.clone();
    let metadata = &mut wanted["metadata"];
    if !metadata["annotations"].is_object() {
        metadata["annotations"] = json!({});
    }
    metadata["annotations"][LAST_APPLIED] = Value::String(format!("{plain}\n"));
    wanted
}

fn last_applied(live: &Value) -> Value {
    live["metadata"]["annotations"][LAST_APPLIED].as_str().and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null)
}

fn text(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}
