//! What every test of a store needs.
#![allow(dead_code, reason = "each test binary uses a part")]

use berth_store::{
    Entry, Event, EventKind, Expected, Header, Key, Layout, Purpose, Range, RangeRequest, ReadError, Revision, Store, Watch, WatchItem,
    WriteError,
};
use futures::{FutureExt, StreamExt};
pub(crate) use futures_executor::block_on;
use std::sync::Arc;

pub(crate) const PODS: &str = "/registry/core/pods/";
pub(crate) const DEPLOYMENTS: &str = "/registry/apps/deployments/";
pub(crate) const SERVICES: &str = "/registry/services/specs/";
pub(crate) const ENDPOINTS: &str = "/registry/services/endpoints/";
pub(crate) const NODES: &str = "/registry/minions/";

/// Some resources at places of their own; what else is stored is of none.
pub(crate) struct TestLayout;

impl Layout for TestLayout {
    fn resource_prefix<'t>(&self, text: &'t str) -> Option<&'t str> {
        let known = [PODS, DEPLOYMENTS, SERVICES, ENDPOINTS, NODES];
        known.iter().find(|prefix| text.starts_with(**prefix)).map(|prefix| &text[..prefix.len()])
    }

    /// `uid` holds the complete value, to show that headers belong to values.
    fn header(&self, _: &Key, value: &[u8]) -> Header {
        Header { uid: String::from_utf8_lossy(value).into(), ..Header::default() }
    }
}

pub(crate) fn layout() -> Arc<TestLayout> {
    Arc::new(TestLayout)
}

pub(crate) fn pod(name: &str) -> Key {
    Key::new(&format!("{PODS}default/{name}"))
}

pub(crate) fn put(store: &dyn Store, key: &Key, value: &str, expected: Expected) -> Result<Arc<Entry>, WriteError> {
    block_on(store.put(key.clone(), value.to_owned().into(), expected, Purpose::Growth))
}

pub(crate) fn create(store: &dyn Store, key: &Key, value: &str) -> Revision {
    put(store, key, value, Expected::Absent).expect("the key is new").mod_revision
}

pub(crate) fn update(store: &dyn Store, key: &Key, value: &str) -> Revision {
    let current = get(store, key).expect("the key is there").mod_revision;
    put(store, key, value, Expected::At(current)).expect("no other writer").mod_revision
}

pub(crate) fn delete(store: &dyn Store, key: &Key) -> Revision {
    let current = get(store, key).expect("the key is there").mod_revision;
    block_on(store.delete(key.clone(), current)).expect("no other writer").mod_revision
}

pub(crate) fn get(store: &dyn Store, key: &Key) -> Option<Arc<Entry>> {
    block_on(store.get(key)).expect("the store is available")
}

pub(crate) fn range(store: &dyn Store, request: RangeRequest) -> Result<Range, ReadError> {
    block_on(store.range(request))
}

pub(crate) fn newest(store: &dyn Store) -> Revision {
    block_on(store.revision("/registry/")).expect("the store is available")
}

pub(crate) fn all(prefix: &str) -> RangeRequest {
    RangeRequest::all(prefix)
}

/// `name=value@revision`, by the last part of its key and the number that `number` gives a revision.
pub(crate) fn show_entry(entry: &Entry, number: impl Fn(Revision) -> u64) -> String {
    let name = entry.key.as_str().rsplit('/').next().unwrap_or_default();
    format!("{name}={}@{}", String::from_utf8_lossy(&entry.value), number(entry.mod_revision))
}

/// `+name=value@revision`; `-name=…` for a deletion.
pub(crate) fn show_event(event: &Event, number: impl Fn(Revision) -> u64) -> String {
    let sign = if event.kind == EventKind::Put { '+' } else { '-' };
    format!("{sign}{}", show_entry(&event.entry, number))
}

/// All that a watch has ready: events, those of one revision joined by `&`; `!revision` for progress; an error's text.
pub(crate) fn drain(watch: &mut Watch, number: impl Fn(Revision) -> u64) -> String {
    let mut shown = Vec::new();
    while let Some(Some(item)) = watch.next().now_or_never() {
        shown.push(match item {
            Ok(WatchItem::Progress(revision)) => format!("!{}", number(revision)),
            Ok(WatchItem::Events(events)) => events.iter().map(|event| show_event(event, &number)).collect::<Vec<_>>().join("&"),
            Err(error) => error.to_string(),
        });
    }
    shown.join(" ")
}
