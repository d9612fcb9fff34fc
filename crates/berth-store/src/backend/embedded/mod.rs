//! Keeps everything in memory and every newest version on disk.
//!
//! Reads and watches never leave memory. Writes go to one thread, the committer. It takes all waiting writes, evaluates them in order, makes them
//! durable with one sync, then makes them visible, and only then answers. It answers conflicts after that too, because a conflict can refer to a write
//! in the same batch.
//!
//! All of that survives a restart, including the history: a watcher continues after the last revision that it saw. Only lists that are kept beyond the
//! history are lost.

mod committer;
mod engine;
mod whole;

pub use whole::{Made, Snapshot, make_store, snapshot};

use crate::{
    DEFAULT_HISTORY_BYTES, Entry, Health, Key, Layout, OutOfSpace, Range, RangeRequest, ReadError, Revision, Store, Usage, Watch,
    WatchFilter, Write, WriteError,
    backend::{prepare, recovered},
    env::Timestamp,
    expiry::{self, Expire},
    files::{
        Files,
        folder::{Folder, FolderError},
    },
    log::{self, Fault, FileRead, History, Limits, Log, LogError, OnDamage},
    mvcc::Mvcc,
    shared::Shared,
};
use committer::{Committer, Request};
use engine::Engine;
use futures::{
    FutureExt,
    channel::oneshot,
    future::{BoxFuture, ready},
};
use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, Weak, mpsc},
    thread::{self, JoinHandle},
};

/// Why a folder could not be opened as a store. Nothing in it was changed that a later start would need.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The folder cannot be had.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The file system reported an error.
    #[error("could not read or write the store in {}", dir.display())]
    Io {
        /// The folder.
        dir: PathBuf,
        /// Its answer.
        source: io::Error,
    },
    /// What was written is not what is read. The store does not start rather than go on without it.
    #[error("the store in {} is damaged; berth has not changed it", dir.display())]
    Damaged {
        /// The folder.
        dir: PathBuf,
        /// What is wrong.
        source: LogError,
    },
    /// It is of a later version of berth, whose format is not known here.
    #[error("the store in {} is from a later berth version; berth has not changed it. Start that version, or restore its backup (berth backup, berth restore)", dir.display())]
    Later {
        /// The folder.
        dir: PathBuf,
        /// Which formats.
        source: LogError,
    },
    /// It is of an earlier version of berth, whose format is not read any more.
    #[error(
        "the store in {} is from an earlier berth version; berth has not changed it. Export its objects with that version (berth store export), and import them into a new folder (berth store import)",
        dir.display()
    )]
    Earlier {
        /// The folder.
        dir: PathBuf,
        /// Which formats.
        source: LogError,
    },
}

impl OpenError {
    fn of(dir: &Path) -> impl FnOnce(LogError) -> Self {
        let dir = dir.into();
        move |error| match error {
            LogError::Io(source) => Self::Io { dir, source },
            source @ LogError::Damaged(_) => Self::Damaged { dir, source },
            source @ LogError::Later(_) => Self::Later { dir, source },
            source @ LogError::Earlier(_) => Self::Earlier { dir, source },
        }
    }
}

/// How a store is opened.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// How many bytes of replaced versions and changes it keeps.
    pub history_bytes: usize,
    /// What becomes of a damaged one.
    pub on_damage: OnDamage,
    /// When it does what.
    pub limits: Limits,
}

impl Default for Opening {
    fn default() -> Self {
        Self { history_bytes: DEFAULT_HISTORY_BYTES, on_damage: OnDamage::Refuse, limits: Limits::default() }
    }
}

/// A [`Store`] in a folder. After `kill -9` or a power loss, every acknowledged write is there and every other one is there as a whole or
/// not at all. While space is short, only what keeps things going is written, then only what makes room ([`Limits`]). A commit that fails all the same is unknown; those behind it are refused until the
/// store could begin a new log, which makes the failed one void, and which it tries once a second. Reads go on.
pub struct EmbeddedStore {
    shared: Arc<Shared>,
    /// Let go of with the thread.
    files: Weak<dyn Files>,
    limits: Limits,
    health: Arc<Mutex<Health>>,
    /// Not bounded here: each waiting write has a caller that waits, and servers bound those.
    requests: mpsc::Sender<Request>,
    committer: Mutex<Option<JoinHandle<io::Result<()>>>>,
    /// What was wrong, if that was accepted.
    faults: Vec<Fault>,
}

impl EmbeddedStore {
    /// Opens the store in `dir`, or makes an empty one. Reads every object, about a microsecond and what `layout` takes for each.
    /// Keeps up to `history_bytes` of replaced versions and changes. Starts the committer's thread.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(dir: &Path, layout: Arc<impl Layout>, history_bytes: usize) -> Result<Self, OpenError> {
        Self::open_with(dir, layout, Opening { history_bytes, ..Opening::default() })
    }

    /// As [`EmbeddedStore::open`].
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_with(dir: &Path, layout: Arc<impl Layout>, opening: Opening) -> Result<Self, OpenError> {
        let folder = Folder::take(dir)?;
        refuse_other_engine(dir, &folder)?;
        Self::open_on(Arc::new(folder), layout, opening).map_err(OpenError::of(dir))
    }

    /// The same on any files.
    ///
    /// # Errors
    /// [`LogError`].
    pub fn open_on(files: Arc<dyn Files>, layout: Arc<impl Layout>, opening: Opening) -> Result<Self, LogError> {
        let layout: Arc<dyn Layout> = layout;
        let history = History::new(Arc::clone(&layout), opening.history_bytes);
        let (weak, limits) = (Arc::downgrade(&files), opening.limits);
        let (log, mut found) = Log::open(files, limits, opening.on_damage, history)?;
        let faults = std::mem::take(&mut found.faults);
        let found = recovered(found, &*layout);
        let shared = Shared::new(Mvcc::recovered(layout, log.revision(), found, opening.history_bytes));
        let (requests, waiting) = mpsc::channel();
        let health = Arc::new(Mutex::new(Health::Ready));
        let committer = Committer::new(Engine::new(log, Arc::clone(&shared)), Arc::clone(&shared), waiting, Arc::clone(&health));
        let thread = thread::Builder::new().name("store-commit".into()).spawn(|| committer.run().close())?;
        Ok(Self { shared, files: weak, limits, health, requests, committer: Mutex::new(Some(thread)), faults })
    }

    /// What was wrong with the folder when it was opened, if the loss was accepted.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// Returns the same store with a limit on the stored bytes. [`Purpose`](crate::Purpose) states which writes are refused when. Existing values stay.
    #[must_use]
    pub fn with_quota(self, bytes: Option<u64>) -> Self {
        self.shared.write().set_quota(bytes);
        self
    }

    /// Waits until the writes that were given are durable and answered, then lets go of the folder. Reads go on from memory, writes
    /// do not. Also happens on drop.
    pub fn close(&self) {
        let thread = self.committer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // No error matters here: a committer that is gone has closed already, and the note that it syncs at its end only guards
            // against damage. Every commit was durable without it.
            let _ = self.requests.send(Request::Close);
            let _ = thread.join();
        }
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        self.close();
    }
}

impl Store for EmbeddedStore {
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
        let Some(key) = writes.first().map(|write| write.key.clone()) else { return ready(Ok(Vec::new())).boxed() };
        let writes = match prepare(self.shared.layout(), writes) {
            Ok(writes) => writes,
            Err(error) => return ready(Err(error)).boxed(),
        };
        let (reply, answer) = oneshot::channel();
        if self.requests.send(Request::Commit { writes, reply }).is_err() {
            return ready(Err(WriteError::Unavailable { cause: "it is closed".into() })).boxed();
        }
        // The committer dropped the request unanswered: it was closed, or it panicked in the middle.
        answer.map(|answer| answer.unwrap_or_else(|_| Err(WriteError::Unknown { key, cause: "the store was closed".into() }))).boxed()
    }

    fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, ReadError> {
        self.shared.watch(prefix, after, None)
    }

    fn watch_filtered(&self, prefix: &str, after: Revision, filter: WatchFilter) -> Result<Watch, ReadError> {
        self.shared.watch(prefix, after, Some(filter))
    }

    fn compact(&self, _prefix: &str, revision: Revision) -> BoxFuture<'_, Result<(), ReadError>> {
        let (reply, answer) = oneshot::channel();
        let closed = || Err(ReadError::Unavailable("it is closed".into()));
        if self.requests.send(Request::Compact { revision, reply }).is_err() {
            return ready(closed()).boxed();
        }
        answer.map(move |answer| answer.unwrap_or_else(|_| closed())).boxed()
    }

    fn health(&self) -> Health {
        let runs = self.committer.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(|thread| !thread.is_finished());
        if !runs {
            return Health::Ended { cause: "the thread that writes has ended".into() };
        }
        self.health.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn pin(&self, prefix: &str, revision: Revision, owner: &str, until: Timestamp) {
        self.shared.write().pin(prefix, revision, owner, until);
    }

    fn unpin(&self, prefix: &str, revision: Revision, owner: &str) {
        self.shared.write().unpin(prefix, revision, owner);
    }

    fn usage(&self) -> Option<Usage> {
        let usage = self.shared.read().usage();
        let disk = || self.files.upgrade().filter(|files| log::is_short(&**files, &self.limits)).map(|_| OutOfSpace::Disk);
        Some(Usage { lacks: usage.lacks.or_else(disk), ..usage })
    }
}

impl Expire for EmbeddedStore {
    fn expire(&self, now: Timestamp) -> BoxFuture<'_, Result<usize, WriteError>> {
        self.shared.write().end_due_lists(now);
        let due = self.shared.read().due(now);
        expiry::delete(self, due).boxed()
    }
}

/// Refuses a folder of formats 1 and 2, which were files of a database, rather than begin an empty store in it.
fn refuse_other_engine(dir: &Path, folder: &Folder) -> Result<(), OpenError> {
    const FORMAT: u64 = 2;
    let names = log::names(folder).map_err(|source| OpenError::Io { dir: dir.into(), source })?;
    let is_other = names.is_empty() && dir.join("engine").is_dir();
    if is_other { Err(OpenError::of(dir)(LogError::Earlier(FORMAT))) } else { Ok(()) }
}

/// What [`check`] found.
#[derive(Clone, Debug)]
pub struct Report {
    /// The last revision that can be read.
    pub revision: Revision,
    /// The last that is known to have been acknowledged.
    pub acknowledged: Option<Revision>,
    /// Objects.
    pub objects: usize,
    /// All files that a start reads, in that order.
    pub files: Vec<FileRead>,
    /// Unneeded files. A start removes them.
    pub left_over: Vec<String>,
    /// What is wrong; empty if the store is whole.
    pub faults: Vec<Fault>,
}

/// Reads the store in `dir`, all of it, and changes nothing.
///
/// # Errors
/// [`OpenError`]: it is in use or cannot be read, or a version of another format wrote it. Damage is not an error: the report lists it.
pub fn check(dir: &Path, layout: Arc<impl Layout>) -> Result<Report, OpenError> {
    let folder = Folder::take_as_it_is(dir)?;
    let io = |source| OpenError::Io { dir: dir.into(), source };
    refuse_other_engine(dir, &folder)?;
    let found = log::read(&folder, layout).map_err(io)?;
    Ok(Report {
        revision: found.state.revision,
        acknowledged: found.acknowledged,
        objects: found.objects.len(),
        files: found.read,
        left_over: found.left_over,
        faults: found.faults,
    })
}
