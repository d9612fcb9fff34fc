//! A registry over an empty memory store, whose writes policies review.

use berth_api::{FeatureGates, Scope};
use berth_identity::GroupVersionResource;
use berth_policies::Policies;
use berth_rbac::User;
use berth_registry::{
    Actor, ApiError, Body, Collection, Current, DeleteOptions, Patch, Registry, ResourceTable, Target, WriteOptions, Written,
};
use berth_store::{
    MemoryStore,
    env::{Clock, Rng, Timestamp},
};
use futures::{FutureExt, future::BoxFuture, future::pending};
use futures_executor::block_on;
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// The time of the tests. The memory store never waits.
struct Fixed;

impl Clock for Fixed {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(1_767_225_600).expect("a time")
    }

    fn sleep_until(&self, _: Timestamp) -> BoxFuture<'static, ()> {
        pending().boxed()
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

pub(crate) struct Cluster {
    registry: Registry,
}

impl Cluster {
    pub(crate) fn new() -> Self {
        let table = Arc::new(ResourceTable::default());
        let store = Arc::new(MemoryStore::new(Arc::clone(&table), 1 << 24));
        let rng = Arc::new(Counting(AtomicU64::new(1)));
        let registry = Registry::new(store, table, Arc::new(Fixed), rng, Arc::new(FeatureGates::default()));
        block_on(registry.bootstrap()).expect("an empty store");
        let policies = Policies::new(registry.clone());
        Self { registry: registry.with_reviewer(Arc::new(policies)) }
    }

    fn target(&self, what: &str, name: &str) -> Target {
        let (api_version, plural) = what.rsplit_once('/').unwrap_or(("v1", what));
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource =
            self.registry.resources().find(&GroupVersionResource::new(group, version, plural)).cloned().expect("a served resource");
        let namespace = (resource.scope == Scope::Namespaced).then(|| "default".to_owned());
        Target { resource, namespace, name: name.to_owned(), subresource: None }
    }

    pub(crate) fn written(&self, what: &str, object: &Value) -> Result<Written, ApiError> {
        let Target { resource, namespace, .. } = self.target(what, "");
        let (body, at) = (Body::Json(object.to_string().into_bytes()), Collection { resource, namespace });
        block_on(self.registry.create(&alice(), &at, body, &WriteOptions::default()))
    }

    pub(crate) fn create(&self, what: &str, object: &Value) -> Value {
        match self.written(what, object).expect("it is accepted").object {
            Current::Stored(entry) => serde_json::from_slice(&entry.value).expect("JSON"),
            Current::Made(object) => object,
        }
    }

    /// Returns the code, the reason and the text of a rejection.
    pub(crate) fn denied(&self, what: &str, object: &Value) -> (u16, String, String) {
        match self.written(what, object).expect_err("it is rejected") {
            ApiError::Denied { code, reason, message, .. } => (code, reason, message),
            other => panic!("another error: {other}"),
        }
    }

    pub(crate) fn merge(&self, what: &str, name: &str, patch: &Value) -> Result<Written, ApiError> {
        let patch = Patch::Merge(patch.to_string().into_bytes());
        block_on(self.registry.patch(&alice(), &self.target(what, name), patch, &WriteOptions::default()))
    }

    pub(crate) fn delete(&self, what: &str, name: &str) -> Result<(), ApiError> {
        block_on(self.registry.delete(&alice(), &self.target(what, name), &DeleteOptions::default())).map(drop)
    }

    /// Creates a policy and a binding of the same name.
    pub(crate) fn install(&self, kind: &str, name: &str, spec: &Value, binding: &Value) {
        let group = "admissionregistration.k8s.io/v1";
        let operations = if kind == "Mutating" { json!(["CREATE", "UPDATE"]) } else { json!(["*"]) };
        let rule = json!([{"apiGroups": ["apps", ""], "apiVersions": ["v1"], "operations": operations, "resources": ["deployments", "configmaps"]}]);
        let policy = json!({
            "apiVersion": group, "kind": format!("{kind}AdmissionPolicy"), "metadata": {"name": name},
            "spec": with(json!({"matchConstraints": {"resourceRules": rule}}), spec),
        });
        self.create(&format!("{group}/{}admissionpolicies", kind.to_lowercase()), &policy);
        let binding = json!({
            "apiVersion": group, "kind": format!("{kind}AdmissionPolicyBinding"), "metadata": {"name": name},
            "spec": with(json!({"policyName": name}), binding),
        });
        self.create(&format!("{group}/{}admissionpolicybindings", kind.to_lowercase()), &binding);
    }
}

/// Adds members to an object.
pub(crate) fn with(mut object: Value, more: &Value) -> Value {
    for (name, value) in more.as_object().expect("an object") {
        object[name] = value.clone();
    }
    object
}

fn alice() -> Actor {
    Actor::User(Arc::new(User::authenticated("alice", &["developers".to_owned()])))
}

pub(crate) const DEPLOYMENTS: &str = "apps/v1/deployments";

pub(crate) fn deployment(name: &str, replicas: i32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    })
}

pub(crate) fn config_map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"of": "params"}}, "data": data})
}
