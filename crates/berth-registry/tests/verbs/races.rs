//! Other writers between a read and the write that follows it.

use crate::world::{World, config_map, json_of, now, target};
use berth_registry::{ApiError, Body, DeleteOptions, Patch, Registry, WriteOptions, header_of};
use berth_store::{Entry, Expected, Key, MemoryStore, Range, RangeRequest, ReadError, Revision, Store, Watch, WriteError};
use bytes::Bytes;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

/// A store where another writer is first, so many times, whenever something that exists is changed or deleted.
struct Contended {
    inner: Arc<MemoryStore>,
    left: AtomicU32,
}

impl Contended {
    fn write_first(&self, key: &Key, at: Revision) {
        if self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_err() {
            return;
        }
        let entry = now(self.inner.get(key)).expect("read").expect("it exists");
        let mut object: Value = serde_json::from_slice(&entry.value).expect("JSON");
        let count = object["data"]["others"].as_str().map_or(0, |count| count.parse::<u32>().expect("a number"));
        object["data"]["others"] = (count + 1).to_string().into();
        now(self.inner.put(key.clone(), object.to_string().into(), Expected::At(at))).expect("first");
    }
}

impl Store for Contended {
    fn revision(&self) -> Revision {
        self.inner.revision()
    }

    fn get(&self, key: &Key) -> BoxFuture<'_, Result<Option<Arc<Entry>>, ReadError>> {
        self.inner.get(key)
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<Range, ReadError>> {
        self.inner.range(request)
    }

    fn put(&self, key: Key, value: Bytes, expected: Expected) -> BoxFuture<'_, Result<Arc<Entry>, WriteError>> {
        if let Expected::At(at) = expected {
            self.write_first(&key, at);
        }
        self.inner.put(key, value, expected)
    }

    fn delete(&self, key: Key, last: Bytes, expected: Revision) -> BoxFuture<'_, Result<Arc<Entry>, WriteError>> {
        self.write_first(&key, expected);
        self.inner.delete(key, last, expected)
    }

    fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, ReadError> {
        self.inner.watch(prefix, after)
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), ReadError>> {
        self.inner.compact(revision)
    }
}

/// A ConfigMap `c` whose next writes find another writer first, `times` times.
fn contended(times: u32) -> Registry {
    let mut inner = None;
    let world = World::over(|| {
        let store = Arc::new(MemoryStore::new(header_of(), 1 << 24));
        inner = Some(Arc::new(Contended { inner: Arc::clone(&store), left: AtomicU32::new(0) }));
        (store, inner.clone().expect("just made"))
    });
    world.made("configmaps", config_map("c"));
    inner.expect("made").left.store(times, Ordering::SeqCst);
    world.registry
}

fn patch(registry: &Registry, patch: Value) -> Result<Value, ApiError> {
    let patched = now(registry.patch(&target("configmaps", "c"), Patch::MergeValue(patch), &WriteOptions::default()));
    patched.map(|written| json_of(&written.object))
}

fn put(registry: &Registry, object: &Value) -> Result<Value, ApiError> {
    let body = Body::Json(object.to_string().into_bytes());
    now(registry.update(&target("configmaps", "c"), body, &WriteOptions::default())).map(|written| json_of(&written.object))
}

#[test]
fn a_patch_without_version_is_tried_five_times() {
    let mine = json!({"data": {"mine": "1"}});
    assert_eq!(patch(&contended(4), mine.clone()).expect("the fifth try")["data"], json!({"mine": "1", "others": "4"}));
    let error = patch(&contended(5), mine).expect_err("no sixth try");
    let wanted = "Operation cannot be fulfilled on configmaps \"c\": the object has been modified; please apply your changes to the latest \
                  version and try again";
    assert_eq!(error.to_string(), wanted);
}

#[test]
fn a_write_with_version_loses_at_once() {
    let version = |registry: &Registry| {
        let got = now(registry.get(&target("configmaps", "c"), &Default::default())).expect("there");
        json_of(&got)["metadata"]["resourceVersion"].clone()
    };
    let registry = contended(1);
    let conditional = json!({"metadata": {"resourceVersion": version(&registry)}, "data": {"mine": "1"}});
    assert!(matches!(patch(&registry, conditional), Err(ApiError::Conflict { .. })));
    let registry = contended(1);
    let mut object = config_map("c");
    object["metadata"]["resourceVersion"] = version(&registry);
    object["data"] = json!({"mine": "1"});
    assert!(matches!(put(&registry, &object), Err(ApiError::Conflict { .. })));
}

#[test]
fn an_unconditional_update_wins_in_the_end() {
    let mut object = config_map("c");
    object["data"] = json!({"mine": "1"});
    assert_eq!(put(&contended(2), &object).expect("tried again")["data"], json!({"mine": "1"}));
}

#[test]
fn a_deletion_looks_again_at_what_has_changed() {
    let registry = contended(2);
    now(registry.delete(&target("configmaps", "c"), &DeleteOptions::default())).expect("deleted");
    assert!(matches!(now(registry.get(&target("configmaps", "c"), &Default::default())), Err(ApiError::NotFound { .. })));
}
