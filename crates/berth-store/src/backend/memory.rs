//! Keeps everything in memory, for tests, the simulation and throw-away use.

use crate::{
    Entry, Key, Layout, Mark, Range, RangeRequest, ReadError, Revision, Store, Watch, Write, WriteError,
    backend::prepare,
    env::Timestamp,
    expiry::{self, Expire},
    mvcc::{Mvcc, evaluate},
    shared::Shared,
};
use futures::{FutureExt, future::BoxFuture, future::ready};
use std::sync::{Arc, Mutex, PoisonError};

/// A [`Store`] that forgets all when dropped. Starts no threads and tasks; every operation happens in the call and its future is ready
/// at once, so the order of calls decides everything.
pub struct MemoryStore {
    shared: Arc<Shared>,
    /// Held from evaluation to publication: one writer at a time.
    writing: Mutex<()>,
    progress: Progress,
    /// From one write to the next.
    revision_step: u64,
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
    pub fn new(layout: Arc<impl Layout>, history_bytes: usize) -> Self {
        let shared = Shared::new(Mvcc::new(history_bytes), layout);
        Self { shared, writing: Mutex::new(()), progress: Progress::EachWrite, revision_step: 1 }
    }

    /// As [`MemoryStore::new`], but a write wakes no watcher of other resources: those hear of it at the next [`MemoryStore::tell_progress`], as
    /// they do some time later of the embedded store's commits.
    #[must_use]
    pub fn new_quiet(layout: Arc<impl Layout>, history_bytes: usize) -> Self {
        Self { progress: Progress::WhenTold, ..Self::new(layout, history_bytes) }
    }

    /// The same store, whose revisions go up by `step` with each write: as those of a store do that others write to as well.
    #[must_use]
    pub fn with_revision_step(self, step: u64) -> Self {
        Self { revision_step: step, ..self }
    }

    /// Wakes all watchers, so that those of quiet resources see how far the store has come.
    pub fn tell_progress(&self) {
        self.shared.ring_all();
    }

    fn write(&self, writes: Vec<Write>) -> Result<Vec<Arc<Entry>>, WriteError> {
        let writes = prepare(self.shared.layout(), writes)?;
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let commit = {
            let visible = self.shared.read();
            evaluate(writes, visible.revision().later(self.revision_step), |key| visible.get(key))?
        };
        let entries = commit.entries();
        self.shared.publish(&[commit]);
        if self.progress == Progress::EachWrite {
            self.shared.ring_all();
        }
        Ok(entries)
    }
}

impl Store for MemoryStore {
    fn revision(&self, _prefix: &str) -> BoxFuture<'_, Result<Revision, ReadError>> {
        ready(Ok(self.shared.revision())).boxed()
    }

    fn get(&self, key: &Key) -> BoxFuture<'_, Result<Option<Arc<Entry>>, ReadError>> {
        ready(Ok(self.shared.get(key))).boxed()
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<Range, ReadError>> {
        ready(self.shared.range(&request)).boxed()
    }

    fn commit(&self, writes: Vec<Write>) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, WriteError>> {
        ready(self.write(writes)).boxed()
    }

    fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, ReadError> {
        self.shared.watch(prefix, after, None)
    }

    fn watch_marked(&self, prefix: &str, after: Revision, mark: Mark) -> Result<Watch, ReadError> {
        self.shared.watch(prefix, after, Some(mark))
    }

    fn compact(&self, _prefix: &str, revision: Revision) -> BoxFuture<'_, Result<(), ReadError>> {
        ready(self.shared.write().compact(revision)).boxed()
    }
}

impl Expire for MemoryStore {
    fn expire(&self, now: Timestamp) -> BoxFuture<'_, Result<usize, WriteError>> {
        let due = self.shared.read().due(now);
        expiry::delete(self, due).boxed()
    }
}
