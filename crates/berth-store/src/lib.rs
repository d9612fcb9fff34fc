//! Revisioned keys, and a watch on what changes: bytes in, bytes out.
//!
//! Start with [`Store`]. The crate knows bytes and [`Header`]s, no kinds: whoever opens a store hands it a function that reads the
//! header of a value. Time, randomness and tasks come in through [`env`]; nothing here asks the machine for them.

mod backend;
pub mod env;
mod mvcc;
mod shared;
pub mod virtual_time;

#[cfg(feature = "embedded")]
pub use backend::embedded::{EmbeddedStore, OpenError};
pub use backend::memory::MemoryStore;

#[cfg(all(fuzzing, feature = "embedded"))]
pub use backend::embedded::fuzzing;

use bytes::Bytes;
use futures::{future::BoxFuture, stream::BoxStream};
use std::{
    borrow::Borrow,
    fmt,
    sync::{Arc, OnceLock},
};

/// The largest value that a store takes, in bytes: etcd's default, which clients of Kubernetes know.
pub const MAX_VALUE_BYTES: usize = 3 << 19;

/// How much history a store keeps unless told otherwise, in bytes.
pub const DEFAULT_HISTORY_BYTES: usize = 64 << 20;

/// A point in the store's one sequence of writes. `0` is before the first; the wire's `resourceVersion` is this number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// The one behind it.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// `/registry/<group, or core>/<resource>/[<namespace>/]<name>`. Cheap to copy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// A key from its text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What selectors and encoders need of a value without decoding it again. Small: a million of them must fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// `metadata.labels`, sorted by key.
    pub labels: Box<[(Box<str>, Box<str>)]>,
    /// Values of the kind's selectable fields besides name and namespace (`spec.nodeName`, `status.phase`, …), sorted by field.
    /// Empty where the object does not have it. What has no entry was not known to be selectable when the header was made.
    pub fields: Box<[(Arc<str>, Box<str>)]>,
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// Byte offset in the value just behind `"metadata":{`, where the resource version is spliced in.
    pub metadata_at: u32,
}

/// Reads the header of a value; given by the registry, called once per write and once per value at recovery.
pub type HeaderOf = Arc<dyn Fn(&Key, &[u8]) -> Header + Send + Sync>;

/// One version of one key.
#[derive(Debug)]
pub struct Entry {
    /// The key.
    pub key: Key,
    /// As given to the put: the object's JSON without its resource version.
    pub value: Bytes,
    /// Read from the value.
    pub header: Header,
    /// The revision of the write that made the key.
    pub create_revision: Revision,
    /// The revision of the write that gave this version.
    pub mod_revision: Revision,
}

/// One visible change.
#[derive(Debug)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// The new version; for a deletion the last value, with the deletion's revision as `mod_revision`.
    pub entry: Arc<Entry>,
    /// The version before, absent for a key that was new.
    pub previous: Option<Arc<Entry>>,
    /// A place for whoever serves the event to keep its encoded form, so that it is encoded once for all watchers.
    pub encoded: OnceLock<Bytes>,
}

/// What an [`Event`] tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The key has a new value.
    Put,
    /// The key is gone.
    Deleted,
}

/// What a key must be for a write to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Not there.
    Absent,
    /// There, last changed at this revision.
    At(Revision),
}

/// A page of keys.
#[derive(Clone, Debug)]
pub struct RangeRequest {
    /// Only keys that start so.
    pub prefix: String,
    /// Only keys behind this one.
    pub start_after: Option<Key>,
    /// As of this revision; the newest if absent.
    pub at: Option<Revision>,
    /// At most so many.
    pub limit: Option<usize>,
    /// How many keys stand behind `start_after`, where the page before said so: then they are not counted again. What is said is taken as
    /// it is, but for a page that ends early.
    pub behind: Option<usize>,
}

impl RangeRequest {
    /// All keys that start so, as of now.
    #[must_use]
    pub fn all(prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), start_after: None, at: None, limit: None, behind: None }
    }
}

/// The answer to a [`RangeRequest`].
#[derive(Clone, Debug)]
pub struct Range {
    /// In key order.
    pub entries: Vec<Arc<Entry>>,
    /// The revision that the page shows.
    pub revision: Revision,
    /// How many more keys of the prefix stand behind the last entry.
    pub remaining: usize,
}

/// Why a read has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// That revision is no longer kept.
    #[error("revision {requested} has been compacted; the oldest is {oldest}")]
    Compacted {
        /// As asked.
        requested: Revision,
        /// The oldest that can be read.
        oldest: Revision,
    },
    /// That revision is not there yet.
    #[error("revision {requested} is not there yet; the newest is {newest}")]
    Future {
        /// As asked.
        requested: Revision,
        /// The newest visible one.
        newest: Revision,
    },
    /// The backend cannot be reached or is broken.
    #[error("the store is not available: {0}")]
    Unavailable(String),
}

/// Why a write is not acknowledged.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The key is not as expected; nothing changed. `found` is 0 where the key is absent.
    #[error("{key} is at revision {found}, not as expected")]
    Conflict {
        /// The key.
        key: Key,
        /// Where it is.
        found: Revision,
    },
    /// Larger than the store takes; nothing changed.
    #[error("{key}: a value of {size} bytes is larger than {max}")]
    TooLarge {
        /// The key.
        key: Key,
        /// As given, in bytes.
        size: usize,
        /// In bytes.
        max: usize,
    },
    /// Whether the write happened is unknown; the store takes no more writes until it is opened again.
    #[error("the write of {key} could not be made durable: {cause}")]
    Unknown {
        /// The key.
        key: Key,
        /// The backend's own words.
        cause: String,
    },
}

/// Changes behind a revision, in order, none left out. Ends with an error when the reader fell behind what is kept.
pub type Watch = BoxStream<'static, Result<WatchItem, ReadError>>;

/// What a [`Watch`] yields.
#[derive(Clone, Debug)]
pub enum WatchItem {
    /// A change under the prefix.
    Event(Arc<Event>),
    /// Everything under the prefix up to this revision has been yielded. Comes whenever the reader has caught up, once per revision at
    /// most, so that the revision of a quiet prefix moves on too.
    Progress(Revision),
}

/// Revisioned keys. Nothing is visible, to a reader or a watcher, before it is durable.
pub trait Store: Send + Sync + 'static {
    /// The newest visible revision.
    fn revision(&self) -> Revision;

    /// The newest version of a key.
    ///
    /// # Errors
    /// [`ReadError::Unavailable`].
    fn get(&self, key: &Key) -> BoxFuture<'_, Result<Option<Arc<Entry>>, ReadError>>;

    /// A page of the keys under a prefix, as of one revision.
    ///
    /// # Errors
    /// A revision that is compacted or not there yet.
    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<Range, ReadError>>;

    /// Writes `value` if the key is as expected. Resolves when the write is durable and visible. Dropping the future does not undo it.
    ///
    /// # Errors
    /// [`WriteError`].
    fn put(&self, key: Key, value: Bytes, expected: Expected) -> BoxFuture<'_, Result<Arc<Entry>, WriteError>>;

    /// Deletes the key if it is at `expected`; watchers get `last` as its last value. Gives the deletion's entry (last value, the
    /// deletion's revision).
    ///
    /// # Errors
    /// [`WriteError`]; a missing key is a conflict with `found` 0.
    fn delete(&self, key: Key, last: Bytes, expected: Revision) -> BoxFuture<'_, Result<Arc<Entry>, WriteError>>;

    /// Changes of keys that start with `prefix`, later than `after`.
    ///
    /// # Errors
    /// [`ReadError::Compacted`] if `after` is older than what is kept. A revision of the future is no error: the watch stays silent until
    /// it is reached, then yields what comes behind it.
    fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, ReadError>;

    /// Forgets versions that were replaced, and changes that happened, at or before `revision`.
    ///
    /// # Errors
    /// [`ReadError::Future`].
    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), ReadError>>;
}
