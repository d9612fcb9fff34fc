//! A registry over an empty memory store, whose writes webhooks review.

use crate::server::WebhookServer;
use berth_api::FeatureGates;
use berth_identity::GroupVersionResource;
use berth_rbac::User;
use berth_registry::{
    Actor, ApiError, Body, Collection, Current, DeleteOptions, Deleted, Patch, Registry, ResourceTable, Target, WriteOptions, Written,
};
use berth_store::{
    MemoryStore,
    env::{Clock, Rng, Timestamp},
};
use berth_webhooks::{Options, Webhooks};
use futures::{FutureExt, future::BoxFuture};
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

struct Machine;

impl Clock for Machine {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        let wait = at.duration_since(Timestamp::now()).try_into().unwrap_or_default();
        tokio::time::sleep(wait).boxed()
    }
}

struct Counting(AtomicU64);

impl Rng for Counting {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let next = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::SeqCst);
            chunk.copy_from_slice(&next.wrapping_mul(0xbf58_476d_1ce4_e5b9).to_le_bytes()[..chunk.len()]);
        }
    }
}

#[derive(Clone)]
pub(crate) struct Cluster {
    pub(crate) registry: Registry,
    pub(crate) webhooks: Webhooks,
}

impl Cluster {
    pub(crate) async fn new() -> Self {
        Self::with(Options::default()).await
    }

    pub(crate) async fn with(options: Options) -> Self {
        let table = Arc::new(ResourceTable::default());
        let store = Arc::new(MemoryStore::new(Arc::clone(&table), 1 << 24));
        let rng = Arc::new(Counting(AtomicU64::new(1)));
        let registry = Registry::new(store, table, Arc::new(Machine), rng, Arc::new(FeatureGates::default()));
        registry.bootstrap().await.expect("an empty store");
        let webhooks = Webhooks::new(registry.clone(), options);
        registry.set_converter(Arc::new(webhooks.clone()));
        Self { registry: registry.with_reviewer(Arc::new(webhooks.clone())), webhooks }
    }

    fn collection(&self, what: &str) -> Collection {
        let (api_version, plural) = what.rsplit_once('/').unwrap_or(("v1", what));
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let name = GroupVersionResource::new(group, version, plural);
        let resource = self.registry.resources().find(&name).cloned().expect("a served resource");
        let namespace = (resource.scope == berth_api::Scope::Namespaced).then(|| "default".to_owned());
        Collection { resource, namespace }
    }

    pub(crate) fn target(&self, what: &str, name: &str) -> Target {
        let Collection { resource, namespace } = self.collection(what);
        Target { resource, namespace, name: name.to_owned(), subresource: None }
    }

    pub(crate) async fn create_with(&self, what: &str, object: &Value, options: &WriteOptions) -> Result<Written, ApiError> {
        let body = Body::Json(object.to_string().into_bytes());
        self.registry.create(&alice(), &self.collection(what), body, options).await
    }

    /// Creates an object as alice.
    pub(crate) async fn create(&self, what: &str, object: &Value) -> Result<Value, ApiError> {
        self.create_with(what, object, &WriteOptions::default()).await.map(|written| json_of(&written.object))
    }

    /// Creates an object in another namespace.
    pub(crate) async fn create_in(&self, namespace: &str, what: &str, object: &Value) {
        let at = Collection { namespace: Some(namespace.to_owned()), ..self.collection(what) };
        let body = Body::Json(object.to_string().into_bytes());
        self.registry.create(&alice(), &at, body, &WriteOptions::default()).await.expect("a valid object");
    }

    /// Returns why an object is not created.
    pub(crate) async fn refused(&self, what: &str, object: &Value) -> String {
        self.create(what, object).await.expect_err("it is rejected").to_string()
    }

    pub(crate) async fn merge(&self, what: &str, name: &str, patch: &Value) -> Result<Value, ApiError> {
        let patch = Patch::Merge(patch.to_string().into_bytes());
        let written = self.registry.patch(&alice(), &self.target(what, name), patch, &WriteOptions::default()).await;
        written.map(|written| json_of(&written.object))
    }

    pub(crate) async fn delete(&self, what: &str, name: &str) -> Result<Deleted, ApiError> {
        self.registry.delete(&alice(), &self.target(what, name), &DeleteOptions::default()).await
    }

    /// Replaces the configuration `c` of mutating webhooks, or of validating ones.
    pub(crate) async fn configure(&self, kind: &str, webhooks: Value) {
        let what = format!("admissionregistration.k8s.io/v1/{}webhookconfigurations", kind.to_lowercase());
        match self.delete(&what, "c").await {
            Ok(_) | Err(ApiError::NotFound { .. }) => (),
            Err(error) => panic!("{error}"),
        }
        let object = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}WebhookConfiguration"),
            "metadata": {"name": "c"}, "webhooks": webhooks,
        });
        self.create(&what, &object).await.expect("a valid configuration");
    }
}

/// The user of the tests.
pub(crate) fn alice() -> Actor {
    Actor::User(Arc::new(User::authenticated("alice", &["developers".to_owned()])))
}

pub(crate) fn json_of(current: &Current) -> Value {
    match current {
        Current::Stored(entry) => serde_json::from_slice(&entry.value).expect("JSON"),
        Current::Made(object) => object.clone(),
    }
}

/// Returns a webhook for all writes of ConfigMaps.
pub(crate) fn hook(webhook: &WebhookServer, name: &str, path: &str) -> Value {
    json!({
        "name": format!("{name}.example.com"), "clientConfig": webhook.client(path), "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}],
    })
}

pub(crate) fn merged(mut hook: Value, more: &Value) -> Value {
    for (name, value) in more.as_object().expect("an object") {
        hook[name] = value.clone();
    }
    hook
}

pub(crate) fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}})
}
