//! The memory store, with other tasks let in before every operation: what a real store's IO does to the order of things.

use berth_store::{
    Entry, Expected, Key, MemoryStore, Range, RangeRequest, ReadError, Revision, Store, Watch, WriteError, virtual_time::yield_now,
};
use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};
use std::sync::Arc;

/// A [`MemoryStore`] whose operations each give way once before they happen.
pub struct SimStore(pub MemoryStore);

impl Store for SimStore {
    fn revision(&self) -> Revision {
        self.0.revision()
    }

    fn get(&self, key: &Key) -> BoxFuture<'_, Result<Option<Arc<Entry>>, ReadError>> {
        let key = key.clone();
        async move {
            yield_now().await;
            self.0.get(&key).await
        }
        .boxed()
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<Range, ReadError>> {
        async move {
            yield_now().await;
            self.0.range(request).await
        }
        .boxed()
    }

    fn put(&self, key: Key, value: Bytes, expected: Expected) -> BoxFuture<'_, Result<Arc<Entry>, WriteError>> {
        async move {
            yield_now().await;
            self.0.put(key, value, expected).await
        }
        .boxed()
    }

    fn delete(&self, key: Key, last: Bytes, expected: Revision) -> BoxFuture<'_, Result<Arc<Entry>, WriteError>> {
        async move {
            yield_now().await;
            self.0.delete(key, last, expected).await
        }
        .boxed()
    }

    fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, ReadError> {
        self.0.watch(prefix, after)
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), ReadError>> {
        self.0.compact(revision)
    }
}
