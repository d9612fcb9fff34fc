//! Keeps an APIService for each API version that this server serves, as upstream's aggregator does.

use berth_env::{Clock, Env};
use berth_identity::GroupVersionResource;
use berth_kinds::built_in::{is_of_custom_resource, local_api_service};
use berth_registry::{
    Actor, ApiError, Body, Collection, DeleteOptions, ListOptions, Registry, Resources, Target, WriteOptions, resource::built_in,
};
use futures::{
    FutureExt,
    future::{join_all, select},
};
use jiff::SignedDuration;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::Arc,
};

/// How often objects that clients deleted are made again.
const INTERVAL: SignedDuration = SignedDuration::from_secs(30);
/// The same after a failure.
const RETRY_INTERVAL: SignedDuration = SignedDuration::from_secs(1);

/// Starts to keep the objects, for as long as the process runs.
pub fn start(registry: &Registry, env: &Env) {
    let (registry, clock) = (registry.clone(), Arc::clone(&env.clock));
    env.spawner.spawn("API services", async move { keep(&registry, &*clock).await }.boxed());
}

async fn keep(registry: &Registry, clock: &dyn Clock) {
    // What upstream makes at its start only is not made again when a client deletes it.
    let mut made = BTreeSet::new();
    loop {
        let (resources, changed) = registry.table().follow();
        let wait = match reconcile(registry, &resources, &mut made).await {
            Ok(()) => INTERVAL,
            Err(error) => {
                tracing::debug!(%error, "the APIServices of this server could not be written; retrying in a second");
                RETRY_INTERVAL
            }
        };
        select(pin!(changed), clock.sleep_until(clock.now() + wait)).await;
    }
}

/// The groups and versions of some resources: a server has many resources of each.
fn versions(resources: &Resources) -> BTreeSet<(&str, &str)> {
    resources.all().iter().map(|resource| (resource.group().as_str(), resource.version().as_str())).collect()
}

/// Creates what is missing, and deletes what a definition left that is not served any more.
async fn reconcile(registry: &Registry, resources: &Resources, made: &mut BTreeSet<String>) -> Result<(), ApiError> {
    let kind = GroupVersionResource::from_static("apiregistration.k8s.io", "v1", "apiservices");
    let Some(resource) = built_in().find(&kind) else { return Ok(()) };
    let at = Collection { resource: Arc::clone(resource), namespace: None };
    let listed = registry.list(&Actor::System, &at, &ListOptions::default()).await?;
    let mut known = BTreeMap::new();
    for entry in &listed.items {
        let value: Value = serde_json::from_slice(&entry.value).unwrap_or_default();
        known.insert(entry.name().to_owned(), is_of_custom_resource(&value));
    }
    let mut wanted = BTreeMap::new();
    let own = versions(built_in());
    for (group, version) in versions(resources) {
        if let Some(api) = local_api_service(group, version, own.contains(&(group, version))) {
            wanted.insert(format!("{version}.{group}"), api);
        }
    }
    let missing = wanted.iter().filter(|(name, api)| !known.contains_key(*name) && (is_of_custom_resource(api) || !made.contains(*name)));
    let creates = missing.map(|(_, api)| {
        let body = Body::Json(api.to_string().into_bytes());
        let at = at.clone();
        async move {
            match registry.create(&Actor::System, &at, body, &WriteOptions::default()).await {
                Ok(_) | Err(ApiError::AlreadyExists { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        }
    });
    join_all(creates).await.into_iter().collect::<Result<(), ApiError>>()?;
    made.extend(wanted.keys().cloned());
    let left = known.iter().filter(|(name, is_of_custom)| **is_of_custom && !wanted.contains_key(*name));
    for (name, _) in left {
        let target = Target { resource: Arc::clone(resource), namespace: None, name: name.clone(), subresource: None };
        match registry.delete(&Actor::System, &target, &DeleteOptions::default()).await {
            Ok(_) | Err(ApiError::NotFound { .. }) => (),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
