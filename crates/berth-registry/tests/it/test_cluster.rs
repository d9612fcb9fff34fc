//! A registry over an empty memory store. The test controls its clock and randomness.
#![expect(clippy::needless_pass_by_value, reason = "tests write their JSON where they send it")]

use berth_api::FeatureGates;
use berth_identity::GroupResource;
use berth_registry::{
    Actor, ApiError, Body, Collection, Current, DeleteOptions, Deleted, GetOptions, List, ListOptions, Patch, Registry, ResourceTable,
    Subresource, Target, WatchOptions, WriteOptions, Written, resource, splice,
};
use berth_store::{
    MemoryStore, Store,
    env::{Clock, Rng, Timestamp},
};
use futures::{FutureExt, future::BoxFuture, stream::BoxStream};
use serde_json::{Value, json};
use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

/// 2026-01-01T00:00:00Z.
const START: i64 = 1_767_225_600;

pub(crate) struct TestClock(AtomicI64);

impl TestClock {
    pub(crate) fn time(&self) -> Timestamp {
        Timestamp::from_second(self.0.load(Ordering::SeqCst)).expect("a test's time")
    }

    pub(crate) fn advance(&self, seconds: i64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }
}

/// The clock of the registry. Sleepers check it whenever the test polls them.
struct Shown(Arc<TestClock>);

impl Clock for Shown {
    fn now(&self) -> Timestamp {
        self.0.time()
    }

    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        let clock = Arc::clone(&self.0);
        poll_fn(move |_| if at <= clock.time() { Poll::Ready(()) } else { Poll::Pending }).boxed()
    }
}

/// A counter as random numbers: every number differs, and every run is the same.
struct Counting(AtomicU64);

impl Rng for Counting {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let next = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::SeqCst);
            chunk.copy_from_slice(&next.wrapping_mul(0xbf58_476d_1ce4_e5b9).to_le_bytes()[..chunk.len()]);
        }
    }
}

/// A constant as random numbers, so that generated names collide.
pub(crate) struct Constant;

impl Rng for Constant {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

pub(crate) struct TestCluster {
    pub(crate) registry: Registry,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) clock: Arc<TestClock>,
    seen: Arc<dyn Store>,
    rng: Arc<dyn Rng>,
}

/// Returns the result of a future of the memory store, which never waits.
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    turns(future).0
}

/// Returns the same, and the number of times that the future yielded.
pub(crate) fn turns<T>(future: impl Future<Output = T>) -> (T, usize) {
    let woken = Arc::new(Woken(AtomicBool::new(false)));
    let (waker, mut future) = (Waker::from(Arc::clone(&woken)), pin!(future));
    for given in 0.. {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return (output, given);
        }
        assert!(woken.0.swap(false, Ordering::SeqCst), "nothing here waits");
    }
    unreachable!("it never ends")
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl TestCluster {
    pub(crate) fn new() -> Self {
        Self::with(Arc::new(Counting(AtomicU64::new(1))))
    }

    pub(crate) fn with(rng: Arc<dyn Rng>) -> Self {
        let table = Arc::new(ResourceTable::default());
        let store = Arc::new(MemoryStore::new(Arc::clone(&table), 1 << 24));
        Self::of(Arc::clone(&store), store, table, rng)
    }

    /// Returns a test cluster whose registry uses the store through another one.
    pub(crate) fn over<S: Store>(make: impl FnOnce() -> (Arc<MemoryStore>, Arc<S>)) -> Self {
        let (store, seen) = make();
        Self::of(store, seen, Arc::default(), Arc::new(Counting(AtomicU64::new(1))))
    }

    /// Returns another server over the same store.
    pub(crate) fn beside(cluster: &Self) -> Self {
        Self::of(Arc::clone(&cluster.store), Arc::<MemoryStore>::clone(&cluster.store), Arc::default(), Arc::clone(&cluster.rng))
    }

    fn of(store: Arc<MemoryStore>, seen: Arc<dyn Store>, table: Arc<ResourceTable>, rng: Arc<dyn Rng>) -> Self {
        let clock = Arc::new(TestClock(AtomicI64::new(START)));
        let registry = Registry::new(
            Arc::clone(&seen),
            table,
            Arc::new(Shown(Arc::clone(&clock))),
            Arc::clone(&rng),
            Arc::new(FeatureGates::default()),
        );
        now(registry.bootstrap()).expect("the first objects are fine");
        Self { registry, store, clock, seen, rng }
    }

    /// Replaces the registry by one with these gates, over the same store.
    pub(crate) fn set_gates(&mut self, gates: FeatureGates) {
        let clock = Arc::new(Shown(Arc::clone(&self.clock)));
        self.registry =
            Registry::new(Arc::clone(&self.seen), Arc::clone(self.registry.table()), clock, Arc::clone(&self.rng), Arc::new(gates));
    }

    pub(crate) fn create(&self, what: &str, object: Value) -> Result<Value, ApiError> {
        self.create_with(what, object, &WriteOptions::default()).map(|written| json_of(&written.object))
    }

    pub(crate) fn create_with(&self, what: &str, object: Value, options: &WriteOptions) -> Result<Written, ApiError> {
        now(self.registry.create(&Actor::System, &collection(what), Body::Json(object.to_string().into_bytes()), options))
    }

    pub(crate) fn made(&self, what: &str, object: Value) -> Value {
        self.create(what, object).expect("created")
    }

    pub(crate) fn get(&self, what: &str, name: &str) -> Result<Value, ApiError> {
        now(self.registry.get(&target(what, name), &GetOptions::default())).map(|current| json_of(&current))
    }

    pub(crate) fn update(&self, what: &str, name: &str, object: &Value) -> Result<Value, ApiError> {
        let body = Body::Json(object.to_string().into_bytes());
        now(self.registry.update(&Actor::System, &target(what, name), body, &WriteOptions::default()))
            .map(|written| json_of(&written.object))
    }

    pub(crate) fn merge(&self, what: &str, name: &str, patch: Value) -> Result<Value, ApiError> {
        self.patch(what, name, Patch::Merge(patch.to_string().into_bytes()), &WriteOptions::default())
    }

    pub(crate) fn patch(&self, what: &str, name: &str, patch: Patch, options: &WriteOptions) -> Result<Value, ApiError> {
        now(self.registry.patch(&Actor::System, &target(what, name), patch, options)).map(|written| json_of(&written.object))
    }

    pub(crate) fn post(&self, what: &str, name: &str, body: Value) -> Result<Value, ApiError> {
        let body = Body::Json(body.to_string().into_bytes());
        let posted = now(self.registry.create_subresource(&Actor::System, &target(what, name), body, &WriteOptions::default()));
        posted.map(|written| json_of(&written.object))
    }

    pub(crate) fn delete(&self, what: &str, name: &str, options: &DeleteOptions) -> Result<Option<Value>, ApiError> {
        now(self.registry.delete(&Actor::System, &target(what, name), options)).map(|deleted| match deleted {
            Deleted::Object(current) => Some(json_of(&current)),
            Deleted::Gone { .. } => None,
        })
    }

    pub(crate) fn list(&self, what: &str, options: &ListOptions) -> Result<List, ApiError> {
        now(self.registry.list(&Actor::System, &collection(what), options))
    }

    pub(crate) fn names(&self, what: &str, options: &ListOptions) -> Vec<String> {
        names(&self.list(what, options).expect("listed"))
    }

    pub(crate) fn watch(&self, what: &str, options: &WatchOptions) -> BoxStream<'static, berth_registry::WatchEvent> {
        now(self.registry.watch(&Actor::System, &collection(what), options)).expect("watching")
    }

    pub(crate) fn revision(&self) -> u64 {
        self.list("namespaces", &ListOptions::default()).expect("listed").revision.0
    }
}

/// Returns a registry of these kinds over any store.
pub(crate) fn registry_over(store: &Arc<dyn Store>, table: Arc<ResourceTable>) -> Registry {
    let clock = Arc::new(Shown(Arc::new(TestClock(AtomicI64::new(START)))));
    Registry::new(Arc::clone(store), table, clock, Arc::new(Counting(AtomicU64::new(1))), Arc::default())
}

pub(crate) fn names(list: &List) -> Vec<String> {
    list.items.iter().map(|entry| entry.key.as_str().rsplit('/').next().unwrap_or_default().to_owned()).collect()
}

/// Parses `pods`, `nodes`, `deployments.apps`, `deployments.apps/status`. Namespaced resources are in `default`, unless
/// `@` is followed by another namespace, or `@*` selects all.
fn parse(what: &str) -> (Collection, Option<Subresource>) {
    let (what, namespace) = what.split_once('@').unwrap_or((what, "default"));
    let (what, sub) = what.split_once('/').map_or((what, None), |(what, sub)| (what, Some(sub)));
    let (plural, group) = what.split_once('.').unwrap_or((what, ""));
    let resource = Arc::clone(resource::built_in().by_name(&GroupResource::new(group, plural)).expect("a known resource"));
    let sub = sub.map(|sub| *resource.subresources.iter().find(|known| known.as_str() == sub).expect("a known subresource"));
    let is_namespaced = resource.scope == berth_api::Scope::Namespaced && namespace != "*";
    (Collection { resource, namespace: is_namespaced.then(|| namespace.to_owned()) }, sub)
}

pub(crate) fn collection(what: &str) -> Collection {
    parse(what).0
}

pub(crate) fn target(what: &str, name: &str) -> Target {
    let (Collection { resource, namespace }, subresource) = parse(what);
    Target { resource, namespace, name: name.to_owned(), subresource }
}

pub(crate) fn json_of(current: &Current) -> Value {
    match current {
        Current::Stored(entry) => showing(entry),
        Current::Made(value) => value.clone(),
    }
}

/// Returns an entry as clients see it.
pub(crate) fn showing(entry: &berth_store::Entry) -> Value {
    serde_json::from_slice(&splice::encode_entry(entry)).expect("JSON")
}

pub(crate) fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

pub(crate) fn labeled(name: &str, key: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {key: value}}})
}

pub(crate) fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "a"}},
        "spec": {"containers": [{"name": "c", "image": "i:1"}]}})
}

pub(crate) fn deployment(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
        "replicas": 3, "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}}})
}
