//! Keeps everything in memory, for tests, the simulation and throw-away use; or, for the first two, in files too.

use crate::{
    Entry, Key, Layout, OutOfSpace, Range, RangeRequest, ReadError, Revision, Store, Usage, Watch, WatchFilter, Write, WriteError,
    backend::{prepare, recovered, refusal},
    env::Timestamp,
    expiry::{self, Expire},
    files::Files,
    log::{History, Limits, Log, LogError, OnDamage},
    mvcc::{Mvcc, evaluate},
    shared::Shared,
};
use futures::{FutureExt, future::BoxFuture, future::ready};
use std::sync::{Arc, Mutex, PoisonError};

/// A [`Store`] that forgets all when dropped. Starts no threads and tasks; every operation happens in the call and its future is ready
/// at once, so the order of calls decides everything.
pub struct MemoryStore {
    shared: Arc<Shared>,
    /// Held from evaluation to publication: one writer at a time. The log, if it is durable.
    writing: Mutex<Option<Log>>,
    progress: Progress,
    /// From one write to the next.
    revision_step: u64,
}

/// When watchers of quiet resources learn how far the store has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    EachWrite,
    OnRequest,
}

impl MemoryStore {
    /// An empty store at revision 0, which keeps up to `history_bytes` of replaced versions and changes.
    #[must_use]
    pub fn new(layout: Arc<impl Layout>, history_bytes: usize) -> Self {
        let shared = Shared::new(Mvcc::new(layout, history_bytes));
        Self { shared, writing: Mutex::default(), progress: Progress::EachWrite, revision_step: 1 }
    }

    /// What `files` hold, and writes go there too: what the embedded store does, in the call. With files in memory, the same calls do the
    /// same.
    ///
    /// # Errors
    /// [`LogError`].
    pub fn open(files: Arc<dyn Files>, limits: Limits, layout: Arc<impl Layout>, history_bytes: usize) -> Result<Self, LogError> {
        let layout: Arc<dyn Layout> = layout;
        let (log, found) = Log::open(files, limits, OnDamage::Refuse, History::new(Arc::clone(&layout), history_bytes))?;
        let found = recovered(found, &*layout);
        let shared = Shared::new(Mvcc::recovered(layout, log.revision(), found, history_bytes));
        Ok(Self { shared, writing: Mutex::new(Some(log)), progress: Progress::EachWrite, revision_step: 1 })
    }

    /// As [`MemoryStore::new`], but a write wakes no watcher of other resources: those receive the progress at the next
    /// [`MemoryStore::report_progress`], as they do some time after the embedded store's commits.
    #[must_use]
    pub fn new_quiet(layout: Arc<impl Layout>, history_bytes: usize) -> Self {
        Self::new(layout, history_bytes).quiet()
    }

    /// Returns the same store, which reports progress as described at [`MemoryStore::new_quiet`].
    #[must_use]
    pub fn quiet(self) -> Self {
        Self { progress: Progress::OnRequest, ..self }
    }

    /// The same store, whose revisions go up by `step` with each write: as those of a store do that others write to as well.
    #[must_use]
    pub fn with_revision_step(self, step: u64) -> Self {
        Self { revision_step: step, ..self }
    }

    /// Returns the same store with a limit on the stored bytes. [`Purpose`](crate::Purpose) states which writes are refused when.
    #[must_use]
    pub fn with_quota(self, bytes: Option<u64>) -> Self {
        self.shared.write().set_quota(bytes);
        self
    }

    /// Wakes all watchers, so that those of quiet resources see how far the store has come.
    pub fn report_progress(&self) {
        self.shared.notify_all();
    }

    fn write(&self, writes: Vec<Write>) -> Result<Vec<Arc<Entry>>, WriteError> {
        let writes = prepare(self.shared.layout(), writes)?;
        let mut log = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        log.iter_mut().for_each(|log| self.make_checkpoint_if_due(log));
        let commit = {
            let visible = self.shared.read();
            let commit = evaluate(writes, visible.revision().later(self.revision_step), |key| visible.get(key))?;
            if log.as_ref().is_some_and(|log| log.room().with(&commit).is_none()) {
                return Err(visible.no_space(&commit));
            }
            visible.room().take(&commit.events, commit.purpose)?;
            commit
        };
        let entries = commit.entries();
        if let Some(log) = &mut *log {
            let committed = log.commit(std::slice::from_ref(&commit));
            committed.map_err(|error| refusal(commit.events[0].entry.key.clone(), &error))?;
        }
        self.shared.publish(&[commit]);
        if self.progress == Progress::EachWrite {
            self.shared.notify_all();
        }
        Ok(entries)
    }

    fn make_checkpoint_if_due(&self, log: &mut Log) {
        if log.is_broken() || !log.is_checkpoint_due() {
            return;
        }
        let past = self.shared.read().past();
        if let Ok(checkpoint) = log.begin_checkpoint(past) {
            let as_of = |revision, after: Option<&Key>, limit| self.shared.read().as_of(revision, after, limit);
            log.end_checkpoint(checkpoint.write(as_of, || false));
        }
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

    fn watch_filtered(&self, prefix: &str, after: Revision, filter: WatchFilter) -> Result<Watch, ReadError> {
        self.shared.watch(prefix, after, Some(filter))
    }

    fn compact(&self, _prefix: &str, revision: Revision) -> BoxFuture<'_, Result<(), ReadError>> {
        let mut log = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        ready(self.shared.compact(revision, || log.as_mut().map_or(Ok(()), |log| log.compact(revision)))).boxed()
    }

    fn pin(&self, prefix: &str, revision: Revision, owner: &str, until: Timestamp) {
        self.shared.write().pin(prefix, revision, owner, until);
    }

    fn unpin(&self, prefix: &str, revision: Revision, owner: &str) {
        self.shared.write().unpin(prefix, revision, owner);
    }

    fn usage(&self) -> Option<Usage> {
        let usage = self.shared.read().usage();
        let log = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let disk = || log.as_ref().filter(|log| log.is_short()).map(|_| OutOfSpace::Disk);
        Some(Usage { lacks: usage.lacks.or_else(disk), ..usage })
    }
}

impl Expire for MemoryStore {
    fn expire(&self, now: Timestamp) -> BoxFuture<'_, Result<usize, WriteError>> {
        self.shared.write().end_due_lists(now);
        let due = self.shared.read().due(now);
        expiry::delete(self, due).boxed()
    }
}
