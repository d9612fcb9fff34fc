//! One store that consists of several: some keys are in backing stores of their own.

use crate::{
    Entry, Health, Key, MinRevision, Range, RangeRequest, ReadError, Revision, Store, Unchanged, Usage, Watch, WatchFilter, Write,
    WriteError, env::Timestamp,
};
use futures::{FutureExt, future::BoxFuture, future::ready};
use std::sync::Arc;

/// A [`Store`] that keeps the keys below some prefixes in stores of their own, as `--etcd-servers-overrides` asks. Each has revisions of its own, which have
/// nothing to do with each other's.
///
/// A read of a prefix outside these stores sees what the rest contains.
pub struct SplitStore {
    rest: Arc<dyn Store>,
    parts: Vec<Part>,
}

struct Part {
    prefix: Box<str>,
    store: Arc<dyn Store>,
}

impl SplitStore {
    /// Keys below each prefix, which ends with a `/`, in the store beside it; all others in `rest`.
    #[must_use]
    pub fn new(rest: Arc<dyn Store>, parts: impl IntoIterator<Item = (String, Arc<dyn Store>)>) -> Self {
        Self { rest, parts: parts.into_iter().map(|(prefix, store)| Part { prefix: prefix.into(), store }).collect() }
    }

    /// The one that has `text`, a key or the beginning of keys.
    fn of(&self, text: &str) -> &dyn Store {
        let part = self.parts.iter().find(|part| text.starts_with(&*part.prefix));
        part.map_or(&*self.rest, |part| &*part.store)
    }
}

impl Store for SplitStore {
    fn revision(&self, prefix: &str) -> BoxFuture<'_, Result<Revision, ReadError>> {
        self.of(prefix).revision(prefix)
    }

    fn get(&self, key: &Key) -> BoxFuture<'_, Result<Option<Arc<Entry>>, ReadError>> {
        self.of(key.as_str()).get(key)
    }

    fn get_as_of<'a>(&'a self, key: &Key, as_of: &'a MinRevision) -> BoxFuture<'a, Result<Option<Arc<Entry>>, ReadError>> {
        self.of(key.as_str()).get_as_of(key, as_of)
    }

    fn known(&self, key: &Key) -> Option<Arc<Entry>> {
        self.of(key.as_str()).known(key)
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<Range, ReadError>> {
        self.of(&request.prefix).range(request)
    }

    fn range_as_of<'a>(&'a self, request: RangeRequest, as_of: &'a MinRevision) -> BoxFuture<'a, Result<Range, ReadError>> {
        self.of(&request.prefix).range_as_of(request, as_of)
    }

    fn commit(&self, mut writes: Vec<Write>) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, WriteError>> {
        let Some(first) = writes.first() else { return ready(Ok(Vec::new())).boxed() };
        let store = self.of(first.key.as_str());
        let is_elsewhere = |key: &Key| !std::ptr::addr_eq(self.of(key.as_str()), store);
        if writes.iter().any(|write| is_elsewhere(&write.key)) {
            let cause = "these keys are kept in different stores, which write nothing together".into();
            return ready(Err(WriteError::Unavailable { cause })).boxed();
        }
        let compared = writes.iter_mut().filter_map(|write| write.only_while.take_if(|other| is_elsewhere(&other.key)));
        let compared: Vec<Unchanged> = compared.collect();
        if compared.is_empty() {
            return store.commit(writes);
        }
        async move {
            for Unchanged { key, revision } in compared {
                let found = self.get(&key).await.map_err(|error| WriteError::Unavailable { cause: error.to_string() })?;
                let found = found.map(|entry| entry.mod_revision).unwrap_or_default();
                if found != revision {
                    return Err(WriteError::Conflict { key, found });
                }
            }
            store.commit(writes).await
        }
        .boxed()
    }

    fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, ReadError> {
        self.of(prefix).watch(prefix, after)
    }

    fn watch_filtered(&self, prefix: &str, after: Revision, filter: WatchFilter) -> Result<Watch, ReadError> {
        self.of(prefix).watch_filtered(prefix, after, filter)
    }

    fn compact(&self, prefix: &str, revision: Revision) -> BoxFuture<'_, Result<(), ReadError>> {
        self.of(prefix).compact(prefix, revision)
    }

    /// The worst health of the stores. The rest takes precedence over the parts.
    fn health(&self) -> Health {
        let of_parts = self.parts.iter().map(|Part { prefix, store }| match store.health() {
            Health::Ready => Health::Ready,
            Health::Refusing { cause } => Health::Refusing { cause: format!("{prefix}: {cause}") },
            Health::Ended { cause } => Health::Ended { cause: format!("{prefix}: {cause}") },
        });
        let mut all = [self.rest.health()].into_iter().chain(of_parts);
        all.find(|health| *health != Health::Ready).unwrap_or(Health::Ready)
    }

    fn pin(&self, prefix: &str, revision: Revision, owner: &str, until: Timestamp) {
        self.of(prefix).pin(prefix, revision, owner, until);
    }

    fn unpin(&self, prefix: &str, revision: Revision, owner: &str) {
        self.of(prefix).unpin(prefix, revision, owner);
    }

    /// Of all together.
    fn usage(&self) -> Option<Usage> {
        let of_parts = self.parts.iter().filter_map(|part| part.store.usage());
        Some(of_parts.fold(self.rest.usage()?, |all, part| Usage {
            bytes: all.bytes + part.bytes,
            quota: all.quota,
            lacks: all.lacks.or(part.lacks),
            refused: all.refused + part.refused,
            resources: [all.resources, part.resources].concat(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Expected, MemoryStore, OutOfSpace, Purpose, WatchItem};
    use futures::StreamExt;
    use futures_executor::block_on;

    const EVENTS: &str = "/registry/events/";

    fn making(key: &str) -> Write {
        Write::put(Key::new(key), "1".into(), Expected::Absent, Purpose::Growth)
    }

    #[test]
    fn each_prefix_has_revisions_of_its_own() {
        let store = |step| Arc::new(MemoryStore::new(Arc::new(()), 1 << 20).with_revision_step(step)) as Arc<dyn Store>;
        let (rest, events) = (store(1), store(100));
        let split = SplitStore::new(Arc::clone(&rest), [(EVENTS.to_owned(), Arc::clone(&events))]);
        let mut watches = [EVENTS, "/registry/pods/"].map(|prefix| split.watch(prefix, Revision(0)).expect("kept"));
        let write = |key: &str| block_on(split.commit(vec![making(key)])).expect("a new key")[0].mod_revision.0;
        let pods = ["/registry/pods/a/x", "/registry/eventsandmore/a/x"].map(write);
        assert_eq!((pods, write("/registry/events/a/x")), ([1, 2], 100));
        let revision = |prefix: &str| block_on(split.revision(prefix)).expect("it answers").0;
        assert_eq!([EVENTS, "/registry/events/a/", "/registry/pods/", "/registry/"].map(revision), [100, 100, 2, 2]);
        let keys = |prefix: &str| block_on(split.range(RangeRequest::all(prefix))).expect("it answers").entries.len();
        assert_eq!([EVENTS, "/registry/pods/", "/registry/"].map(keys), [1, 1, 2]);
        assert!(block_on(split.get(&Key::new("/registry/events/a/x"))).expect("it answers").is_some());
        assert!(block_on(rest.get(&Key::new("/registry/events/a/x"))).expect("it answers").is_none());

        let seen = watches.each_mut().map(|watch| {
            loop {
                if let Some(Ok(WatchItem::Events(events))) = block_on(watch.next()) {
                    return events[0].entry.mod_revision.0;
                }
            }
        });
        assert_eq!(seen, [100, 1]);
        block_on(split.compact(EVENTS, Revision(100))).expect("it is there");
        assert!(split.watch(EVENTS, Revision(0)).is_err() && split.watch("/registry/pods/", Revision(0)).is_ok());
    }

    #[test]
    fn keys_of_different_stores_are_not_written_together() {
        let store = || Arc::new(MemoryStore::new(Arc::new(()), 1 << 20)) as Arc<dyn Store>;
        let split = SplitStore::new(store(), [(EVENTS.to_owned(), store())]);
        let told = block_on(split.commit(vec![making("/registry/pods/a/x"), making("/registry/events/a/x")]));
        assert!(matches!(told, Err(WriteError::Unavailable { .. })), "{told:?}");
        assert_eq!(block_on(split.range(RangeRequest::all(""))).expect("it answers").entries.len(), 0);
        assert_eq!(block_on(split.commit(Vec::new())).map(|entries| entries.len()).ok(), Some(0));
    }

    #[test]
    fn what_is_stored_is_counted_together() {
        let store = || Arc::new(MemoryStore::new(Arc::new(()), 1 << 20)) as Arc<dyn Store>;
        let (rest, events) = (store(), store());
        let split = SplitStore::new(Arc::clone(&rest), [(EVENTS.to_owned(), Arc::clone(&events))]);
        for key in ["/registry/pods/a/x", "/registry/events/a/x", "/registry/events/a/y"] {
            block_on(split.commit(vec![making(key)])).expect("a new key");
        }
        let bytes = |store: &dyn Store| store.usage().expect("it counts").bytes;
        assert!(0 < bytes(&*rest) && bytes(&*rest) < bytes(&*events));
        assert_eq!(bytes(&split), bytes(&*rest) + bytes(&*events));
    }

    #[test]
    fn refusals_are_counted_together_and_one_out_of_space_is_reported() {
        let store = |quota| Arc::new(MemoryStore::new(Arc::new(()), 1 << 20).with_quota(quota)) as Arc<dyn Store>;
        let split = SplitStore::new(store(Some(4096)), [(EVENTS.to_owned(), store(Some(570)))]);
        let large = Write { value: Some(vec![b'x'; 5000].into()), ..making("/registry/pods/a/x") };
        for write in [large, making("/registry/events/a/x"), making("/registry/events/a/y"), making("/registry/events/a/z")] {
            let _ = block_on(split.commit(vec![write]));
        }
        let usage = split.usage().expect("it counts");
        assert_eq!((usage.refused, usage.quota, usage.lacks), (3, Some(4096), Some(OutOfSpace::Quota)));
    }

    #[test]
    fn a_precondition_on_a_key_of_another_store_is_checked_before_a_write() {
        let store = || Arc::new(MemoryStore::new(Arc::new(()), 1 << 20)) as Arc<dyn Store>;
        let split = SplitStore::new(store(), [(EVENTS.to_owned(), store())]);
        let lease = Key::new("/registry/leases/a/x");
        let revision = block_on(split.commit(vec![making(lease.as_str())])).expect("a new key")[0].mod_revision;
        let event = |name: &str, revision| {
            let only_while = Some(Unchanged { key: lease.clone(), revision });
            block_on(split.commit(vec![Write { only_while, ..making(&format!("/registry/events/a/{name}")) }]))
        };
        assert!(event("x", revision).is_ok());
        let told = event("y", revision.later(1));
        assert!(matches!(&told, Err(WriteError::Conflict { key, found }) if *key == lease && *found == revision), "{told:?}");
        assert!(block_on(split.get(&Key::new("/registry/events/a/y"))).expect("it answers").is_none());
    }

    /// A store that takes no writes, and does not count. It knows what it has.
    struct Ill(Arc<dyn Store>);

    impl Store for Ill {
        fn revision(&self, prefix: &str) -> BoxFuture<'_, Result<Revision, ReadError>> {
            self.0.revision(prefix)
        }

        fn get(&self, key: &Key) -> BoxFuture<'_, Result<Option<Arc<Entry>>, ReadError>> {
            self.0.get(key)
        }

        fn known(&self, key: &Key) -> Option<Arc<Entry>> {
            block_on(self.0.get(key)).expect("it answers")
        }

        fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<Range, ReadError>> {
            self.0.range(request)
        }

        fn commit(&self, writes: Vec<Write>) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, WriteError>> {
            self.0.commit(writes)
        }

        fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, ReadError> {
            self.0.watch(prefix, after)
        }

        fn compact(&self, prefix: &str, revision: Revision) -> BoxFuture<'_, Result<(), ReadError>> {
            self.0.compact(prefix, revision)
        }

        fn health(&self) -> Health {
            Health::Refusing { cause: "it is ill".into() }
        }
    }

    #[test]
    fn an_unhealthy_store_is_reported() {
        let store = || Arc::new(MemoryStore::new(Arc::new(()), 1 << 20)) as Arc<dyn Store>;
        assert_eq!(SplitStore::new(store(), [(EVENTS.to_owned(), store())]).health(), Health::Ready);
        let split = SplitStore::new(store(), [(EVENTS.to_owned(), Arc::new(Ill(store())) as Arc<dyn Store>)]);
        assert_eq!(split.health(), Health::Refusing { cause: "/registry/events/: it is ill".into() });
    }

    #[test]
    fn what_a_store_knows_without_asking_is_known() {
        let store = || Arc::new(Ill(Arc::new(MemoryStore::new(Arc::new(()), 1 << 20)))) as Arc<dyn Store>;
        let split = SplitStore::new(store(), [(EVENTS.to_owned(), store())]);
        let keys = ["/registry/pods/a/x", "/registry/events/a/x"];
        assert_eq!(keys.map(|key| split.known(&Key::new(key)).is_some()), [false, false]);
        keys.iter().for_each(|key| drop(block_on(split.commit(vec![making(key)])).expect("a new key")));
        assert_eq!(keys.map(|key| split.known(&Key::new(key)).map(|entry| entry.mod_revision.0)), [Some(1), Some(1)]);
    }

    /// Nothing is not little: who asks is not to take it for a store in which nothing is.
    #[test]
    fn a_store_that_does_not_count_reports_no_usage() {
        let store = Arc::new(Ill(Arc::new(MemoryStore::new(Arc::new(()), 1 << 20)))) as Arc<dyn Store>;
        assert_eq!(SplitStore::new(store, []).usage(), None);
    }

    #[test]
    fn a_list_goes_on_in_the_store_that_has_its_keys() {
        let store = || Arc::new(MemoryStore::new(Arc::new(Events), 10_000)) as Arc<dyn Store>;
        let split = SplitStore::new(store(), [(EVENTS.to_owned(), store())]);
        let key = Key::new("/registry/events/a/x");
        let mut newest = block_on(split.commit(vec![making(key.as_str())])).expect("a new key")[0].mod_revision;
        let first = newest;
        split.pin(EVENTS, first, "a-list", Timestamp::MAX);
        for _ in 0..20 {
            let change = Write::put(key.clone(), vec![b'x'; 1000].into(), Expected::At(newest), Purpose::Growth);
            newest = block_on(split.commit(vec![change])).expect("no other writer")[0].mod_revision;
        }
        let is_kept = || block_on(split.range(RangeRequest { at: Some(first), ..RangeRequest::all(EVENTS) })).is_ok();
        assert!(is_kept());
        split.unpin(EVENTS, first, "a-list");
        assert!(!is_kept());
    }

    /// Of one resource.
    struct Events;

    impl crate::Layout for Events {
        fn resource_prefix<'t>(&self, text: &'t str) -> Option<&'t str> {
            text.starts_with(EVENTS).then(|| &text[..EVENTS.len()])
        }

        fn header(&self, _: &Key, _: &[u8]) -> crate::Header {
            crate::Header::default()
        }
    }
}
