//! Keeps everything in memory and every newest version on disk.
//!
//! Reads and watches never leave memory. Writes go to one thread, the committer: it takes all that wait, evaluates them in order, makes
//! them durable with one sync, then visible, and only then answers. Conflicts are answered after that too, because they may tell of a
//! write in the same batch.
//!
//! Over a restart the newest version of each key and the store's revision come back, the history does not: reads at older revisions and
//! watches from them get [`ReadError::Compacted`], and the client lists anew.

mod acknowledged;
mod committer;
mod engine;
#[cfg(fuzzing)]
pub mod fuzzing;
mod journal;
mod record;

use crate::{
    Entry, Key, Layout, Mark, Range, RangeRequest, ReadError, Revision, Store, Watch, Write, WriteError,
    backend::prepare,
    env::Timestamp,
    expiry::{self, Expire},
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
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread::{self, JoinHandle},
};

/// Why a folder could not be opened as a store. Nothing in it was changed that a later start would need.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process, or another store of this one, has it open.
    #[error("{} is in use by another process", dir.display())]
    InUse {
        /// The folder.
        dir: PathBuf,
    },
    /// The file system said no.
    #[error("could not {what} {}", path.display())]
    Io {
        /// What was being done.
        what: &'static str,
        /// To which file or folder.
        path: PathBuf,
        /// Its answer.
        source: io::Error,
    },
    /// The engine said no: its words name what it found.
    #[error("could not open the database in {}", dir.display())]
    Engine {
        /// Its folder.
        dir: PathBuf,
        /// Its answer.
        source: fjall::Error,
    },
    /// What was written is not what is read. The store does not start rather than go on without it.
    #[error("{what} is damaged: {why}")]
    Damaged {
        /// The record, by its key where that is known.
        what: String,
        /// How one can tell.
        why: String,
    },
    /// Written by another version of berth.
    #[error("the store has format {found}, and only {known} is known")]
    Format {
        /// As read.
        found: u64,
        /// As this version writes.
        known: u64,
    },
}

impl OpenError {
    fn io(what: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { what, path: path.into(), source }
    }
}

/// A [`Store`] in a folder. After `kill -9` or a power loss, every acknowledged write is there and every other one is there as a whole or
/// not at all. While space is short, only deletions are written. A commit that fails all the same is unknown, and ends all further writing
/// ([`WriteError::Unavailable`]): what a failed sync has left is known when the folder is opened again. Reads go on.
pub struct EmbeddedStore {
    shared: Arc<Shared>,
    /// Not bounded here: each waiting write has a caller that waits, and servers bound those.
    requests: mpsc::Sender<Request>,
    committer: Mutex<Option<JoinHandle<io::Result<()>>>>,
}

impl EmbeddedStore {
    /// Opens the store in `dir`, or makes an empty one. Reads every object, about a microsecond and what `layout` takes for each.
    /// Keeps up to `history_bytes` of replaced versions and changes. Starts the committer's thread and one of the engine.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(dir: &Path, layout: Arc<impl Layout>, history_bytes: usize) -> Result<Self, OpenError> {
        let (engine, recovered) = Engine::open(dir, &*layout)?;
        let shared = Shared::new(Mvcc::recovered(engine.revision(), recovered, history_bytes), layout);
        let (requests, waiting) = mpsc::channel();
        let committer = Committer::new(engine, Arc::clone(&shared), waiting);
        let thread = thread::Builder::new().name("store-commit".into()).spawn(|| committer.run().close());
        let thread = thread.map_err(|source| OpenError::io("start the committer of", dir, source))?;
        Ok(Self { shared, requests, committer: Mutex::new(Some(thread)) })
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

    fn watch_marked(&self, prefix: &str, after: Revision, mark: Mark) -> Result<Watch, ReadError> {
        self.shared.watch(prefix, after, Some(mark))
    }

    fn compact(&self, _prefix: &str, revision: Revision) -> BoxFuture<'_, Result<(), ReadError>> {
        ready(self.shared.write().compact(revision)).boxed()
    }
}

impl Expire for EmbeddedStore {
    fn expire(&self, now: Timestamp) -> BoxFuture<'_, Result<usize, WriteError>> {
        let due = self.shared.read().due(now);
        expiry::delete(self, due).boxed()
    }
}
