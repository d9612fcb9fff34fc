//! Writes the status of validating policies: warnings about expressions that do not fit the matched kinds.

use crate::types;
use berth_admission::{TypeWarning, type_warnings};
use berth_identity::{GroupVersionKind, GroupVersionResource};
use berth_registry::{
    Actor, ApiError, Collection, Patch, Registry, Resource, Subresource, Target, WatchEvent, WatchOptions, WriteOptions, resource::built_in,
};
use berth_store::env::Clock;
use futures::StreamExt;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// How long to wait after an error of the store, and before a watch begins again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Checks each policy once per generation, for as long as the process runs. Several servers write the same status.
pub async fn keep_statuses(registry: Registry, clock: Arc<dyn Clock>) {
    let name = GroupVersionResource::from_static("admissionregistration.k8s.io", "v1", "validatingadmissionpolicies");
    let Some(resource) = built_in().find(&name) else { return };
    loop {
        if let Err(error) = follow(&registry, resource).await {
            tracing::debug!(%error, "the status of admission policies could not be written; retrying in a second");
        }
        let at = clock.now().saturating_add(RETRY_AFTER).expect("a positive duration can be added");
        clock.sleep_until(at).await;
    }
}

async fn follow(registry: &Registry, resource: &Arc<Resource>) -> Result<(), ApiError> {
    let at = Collection { resource: Arc::clone(resource), namespace: None };
    let mut changes = registry.watch(&Actor::System, &at, &WatchOptions::default()).await?;
    while let Some(change) = changes.next().await {
        let entry = match change {
            WatchEvent::Added(entry) => entry,
            WatchEvent::Modified(event) => Arc::clone(&event.entry),
            WatchEvent::Deleted { .. } | WatchEvent::Bookmark { .. } => continue,
            WatchEvent::Error(error) => return Err(ApiError::Internal { message: error.to_string() }),
        };
        let policy: Value = serde_json::from_slice(&entry.value).map_err(|error| ApiError::Internal { message: error.to_string() })?;
        let Some(status) = wanted_status(&policy, registry) else { continue };
        let target = Target {
            resource: Arc::clone(resource),
            namespace: None,
            name: entry.name().to_owned(),
            subresource: Some(Subresource::Status),
        };
        let patch = json!({"metadata": {"resourceVersion": entry.mod_revision.to_string()}, "status": status});
        match registry.patch(&Actor::System, &target, Patch::Merge(patch.to_string().into_bytes()), &WriteOptions::default()).await {
            // Another change follows.
            Ok(_) | Err(ApiError::NotFound { .. } | ApiError::Conflict { .. }) => (),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns the changes of the status. `None`: it is that of the policy's generation.
fn wanted_status(policy: &Value, registry: &Registry) -> Option<Value> {
    let generation = policy.pointer("/metadata/generation").and_then(Value::as_i64)?;
    if policy.pointer("/status/observedGeneration").and_then(Value::as_i64) == Some(generation) {
        return None;
    }
    let resources = registry.resources();
    let text = |pointer: &str| policy.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let kind = GroupVersionKind::parse(text("/spec/paramKind/apiVersion"), text("/spec/paramKind/kind")).ok();
    let params = kind.and_then(|kind| resources.by_kind(&kind)).map(|resource| types::of(resource));
    let warnings = type_warnings(policy, &types::matched(policy, &resources), params.as_ref());
    let warnings: Vec<Value> = warnings.iter().map(TypeWarning::to_value).collect();
    let warnings = if warnings.is_empty() { Value::Null } else { Value::Array(warnings) };
    Some(json!({"observedGeneration": generation, "typeChecking": {"expressionWarnings": warnings}}))
}
