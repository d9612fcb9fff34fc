//! Keeps everything in memory, for tests, the simulation and throw-away use.

use crate::{
    Entry, EventKind, Expected, HeaderOf, Key, Range, RangeRequest, ReadError, Revision, Store, Watch, WriteError,
    backend::prepare,
    mvcc::{Mvcc, evaluate},
    shared::Shared,
};
use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture, future::ready};
use std::sync::{Arc, Mutex, PoisonError};

/// A [`Store`] that forgets all when dropped. Starts no threads and tasks; every operation happens in the call and its future is ready
/// at once, so the order of calls decides everything.
pub struct MemoryStore {
    shared: Arc<Shared>,
    header_of: HeaderOf,
    /// Held from evaluation to publication: one writer at a time.
    writing: Mutex<()>,
    progress: Progress,
}

/// When watchers of quiet resources learn how far the store has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    EachWrite,
    WhenTold,
}

impl MemoryStore {
    /// An empty store at revision 0, which keeps up to `history_bytes` of replaced versions and changes.
    #[must_use]
    pub fn new(header_of: HeaderOf, history_bytes: usize) -> Self {
        Self { shared: Shared::new(Mvcc::new(history_bytes)), header_of, writing: Mutex::new(()), progress: Progress::EachWrite }
    }

    /// As [`MemoryStore::new`], but a write wakes no watcher of other resources: those hear of it at the next [`MemoryStore::tell_progress`], as
    /// they do some time later of the embedded store's commits.
    #[must_use]
    pub fn new_quiet(header_of: HeaderOf, history_bytes: usize) -> Self {
        Self { progress: Progress::WhenTold, ..Self::new(header_of, history_bytes) }
    }

    /// Wakes all watchers, so that those of quiet resources see how far the store has come.
    pub fn tell_progress(&self) {
        self.shared.ring_all();
    }

    fn write(&self, kind: EventKind, key: Key, value: &Bytes, expected: Expected) -> Result<Arc<Entry>, WriteError> {
        let write = prepare(&self.header_of, kind, key, value, expected)?;
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let current = self.shared.get(&write.key);
        let event = evaluate(write, current.as_ref(), self.shared.revision().next())?;
        let entry = Arc::clone(&event.entry);
        self.shared.publish(&[Arc::new(event)]);
        if self.progress == Progress::EachWrite {
            self.shared.ring_all();
        }
        Ok(entry)
    }
}

impl Store for MemoryStore {
    fn revision(&self) -> Revision {
        self.shared.revision()
    }

    fn get(&self, key: &Key) -> BoxFuture<'_, Result<Option<Arc<Entry>>, ReadError>> {
        ready(Ok(self.shared.get(key))).boxed()
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<Range, ReadError>> {
        ready(self.shared.range(&request)).boxed()
    }

    fn put(&self, key: Key, value: Bytes, expected: Expected) -> BoxFuture<'_, Result<Arc<Entry>, WriteError>> {
        ready(self.write(EventKind::Put, key, &value, expected)).boxed()
    }

    fn delete(&self, key: Key, last: Bytes, expected: Revision) -> BoxFuture<'_, Result<Arc<Entry>, WriteError>> {
        ready(self.write(EventKind::Deleted, key, &last, Expected::At(expected))).boxed()
    }

    fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, ReadError> {
        self.shared.watch(prefix, after)
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), ReadError>> {
        ready(self.shared.write().compact(revision)).boxed()
    }
}
