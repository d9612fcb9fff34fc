//! The memory store, with other tasks let in before every operation: what a real store's IO does to the order of things.

use berth_store::{
    Entry, Key, MemoryStore, Range, RangeRequest, ReadError, Revision, Store, Usage, Watch, WatchFilter, Write, WriteError,
    env::{Timestamp, yield_now},
};
use futures::{FutureExt, future::BoxFuture};
use std::sync::Arc;

/// A [`MemoryStore`] whose operations each yield once before they happen.
pub struct SimStore(pub MemoryStore);

impl Store for SimStore {
    fn revision(&self, prefix: &str) -> BoxFuture<'_, Result<Revision, ReadError>> {
        let prefix = prefix.to_owned();
        async move {
            yield_now().await;
            self.0.revision(&prefix).await
        }
        .boxed()
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

    fn commit(&self, writes: Vec<Write>) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, WriteError>> {
        async move {
            yield_now().await;
            self.0.commit(writes).await
        }
        .boxed()
    }

    fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, ReadError> {
        self.0.watch(prefix, after)
    }

    fn watch_filtered(&self, prefix: &str, after: Revision, mark: WatchFilter) -> Result<Watch, ReadError> {
        self.0.watch_filtered(prefix, after, mark)
    }

    fn compact(&self, prefix: &str, revision: Revision) -> BoxFuture<'_, Result<(), ReadError>> {
        self.0.compact(prefix, revision)
    }

    fn pin(&self, prefix: &str, revision: Revision, owner: &str, until: Timestamp) {
        self.0.pin(prefix, revision, owner, until);
    }

    fn unpin(&self, prefix: &str, revision: Revision, owner: &str) {
        self.0.unpin(prefix, revision, owner);
    }

    fn usage(&self) -> Option<Usage> {
        self.0.usage()
    }
}
