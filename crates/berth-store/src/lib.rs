//! Revisioned keys, and a watch on what changes: bytes in, bytes out.
//!
//! Start with [`Store`]. The crate knows bytes and [`Header`]s, but neither kinds nor their keys: the caller that opens a store passes a [`Layout`].
//! Time, randomness and tasks come in through [`env`]. Nothing here asks the machine for them.

mod backend;
pub mod expiry;
pub mod files;
mod log;
mod mvcc;
mod notifier;
mod shared;
mod space;

#[cfg(feature = "embedded")]
pub use backend::embedded::{EmbeddedStore, Made, OpenError, Opening, Report, Snapshot, check, make_store, snapshot};
pub use backend::{etcd, memory::MemoryStore, split::SplitStore};
pub use berth_env::{self as env, virtual_time};
pub use berth_identity::Revision;
#[cfg(feature = "embedded")]
pub use files::folder::{Folder, FolderError};
#[cfg(feature = "fuzzing")]
pub use log::fuzzing;
pub use log::{Fault, FileRead, Limits, LogError, OnDamage};
pub use space::{Bound, OutOfSpace, Purpose, Usage};

use bytes::Bytes;
use env::Timestamp;
use futures::{FutureExt, future::BoxFuture, stream::BoxStream};
use smallvec::SmallVec;
use std::{
    borrow::Borrow,
    fmt,
    sync::{Arc, Mutex, OnceLock},
};

/// The largest value that a store takes, in bytes: etcd's default, which clients of Kubernetes know.
pub const MAX_VALUE_BYTES: usize = 3 << 19;

/// The history that a store keeps by default, in bytes.
pub const DEFAULT_HISTORY_BYTES: usize = 64 << 20;

/// The key of a value: parts separated by `/`. The last part is its name. Cheap to copy.
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
    /// `metadata.labels`, sorted by key. Callers that make headers may share equal labels.
    pub labels: Arc<[(Box<str>, Box<str>)]>,
    /// The kind's selectable fields besides name and namespace (`spec.nodeName`, `status.phase`, …), sorted: those that were known when the
    /// header was made.
    pub fields: Arc<[Arc<str>]>,
    /// Their values, in the same order; empty where the object does not have it.
    pub values: Box<[Arc<str>]>,
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// Byte offset in the value just behind `"metadata":{`, where the resource version is spliced in.
    pub metadata_at: u32,
}

impl Header {
    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        let at = self.labels.binary_search_by(|(there, _)| (**there).cmp(key)).ok()?;
        Some(&self.labels[at].1)
    }

    /// The value of a selectable field; empty if the object does not have it. `None`: the header was made when the kind did not have that field, or
    /// was not there.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        let at = self.fields.binary_search_by(|there| (**there).cmp(name)).ok()?;
        self.values.get(at).map(|value| &**value)
    }
}

/// What the caller that opens a store knows about its keys and values. It may learn more while the store is open.
pub trait Layout: Send + Sync + 'static {
    /// The part of `text`, a key or the beginning of keys, that all keys of its resource begin with, up to and with a `/`; `None` if it is of no
    /// resource, or of several. Where keys are in memory, readers of one resource do not pay for the others. No resource's keys begin as
    /// those of another do.
    fn resource_prefix<'t>(&self, text: &'t str) -> Option<&'t str>;

    /// The namespace of a key, where its resource has any: what all of one namespace take is bounded together.
    fn namespace<'t>(&self, key: &'t str) -> Option<&'t str> {
        let prefix = self.resource_prefix(key)?;
        key[prefix.len()..].split_once('/').map(|(namespace, _)| namespace)
    }

    /// Interprets a value that another program may have written, in a store with other writers.
    fn decode(&self, _key: &Key, _value: &[u8]) -> Decoded {
        Decoded::Unchanged
    }

    /// By how many bytes others will make a value longer that is stored as it is: what else is to be written of it so that it does what it is for. They are
    /// counted ahead, so that this finds the room.
    fn to_come(&self, _: &Entry) -> usize {
        0
    }

    /// Reads the header of a value: once per write, and once per value at recovery.
    fn header(&self, key: &Key, value: &[u8]) -> Header;
}

/// What a value is to those who read the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// Itself.
    Unchanged,
    /// A value of the same meaning, in the form in which values are stored here.
    Converted(Bytes),
    /// Nothing: its key is not shown, and stays as it is.
    Ignored,
    /// The same, because it is encrypted: nothing is stored in clear beside it.
    Encrypted,
}

/// Of no resources, and without headers.
#[cfg(test)]
impl Layout for () {
    fn resource_prefix<'t>(&self, _: &'t str) -> Option<&'t str> {
        None
    }

    fn header(&self, _: &Key, _: &[u8]) -> Header {
        Header::default()
    }
}

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

impl Entry {
    /// The last part of its key.
    #[must_use]
    pub fn name(&self) -> &str {
        self.key.as_str().rsplit('/').next().unwrap_or_default()
    }
}

/// What a watch filters by: one value of a key or a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchFilter {
    /// The last part of its key.
    Name(Box<str>),
    /// One of its labels.
    Label {
        /// Its key.
        key: Box<str>,
        /// Its value.
        value: Box<str>,
    },
    /// One of its fields. What has no entry for it may have any value.
    Field {
        /// Its name.
        field: Box<str>,
        /// Its value.
        value: Box<str>,
    },
}

impl WatchFilter {
    /// Whether the entry has it.
    #[must_use]
    pub fn matches(&self, entry: &Entry) -> bool {
        match self {
            Self::Name(name) => entry.name() == &**name,
            Self::Label { key, value } => entry.header.label(key) == Some(value),
            Self::Field { field, value } => entry.header.field(field).is_none_or(|found| found == &**value),
        }
    }
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
    /// A slot in which a server keeps the encoded event, so that it is encoded once for all watchers.
    pub encoded: OnceLock<Bytes>,
}

impl Event {
    /// What the change was from and to, whichever is there.
    pub(crate) fn versions(&self) -> impl Iterator<Item = &Entry> {
        self.previous.iter().chain([&self.entry]).map(|entry| &**entry)
    }
}

/// The kind of change of an [`Event`].
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

/// A key that must be as it was while something else is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unchanged {
    /// The key.
    pub key: Key,
    /// When it was changed last; 0: it is not there.
    pub revision: Revision,
}

impl Unchanged {
    /// The same as of a key that is written.
    #[must_use]
    pub fn expected(&self) -> Expected {
        if self.revision == Revision(0) { Expected::Absent } else { Expected::At(self.revision) }
    }
}

/// What becomes of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The key.
    pub key: Key,
    /// What it must be before.
    pub expected: Expected,
    /// The value that it gets; `None`: it is deleted.
    pub value: Option<Bytes>,
    /// The result of [`Layout::header`] for the value, where the writer knows it. `None`: it is read from the value.
    pub header: Option<Header>,
    /// When a value is to be deleted, unless it is written again before: some seconds later at most. `None`: it stays.
    pub expires_at: Option<Timestamp>,
    /// How much of the quota it may use.
    pub purpose: Purpose,
    /// Another key that must be unchanged for the write to happen. Keys of different backing stores are not compared in one commit: such a key is read
    /// before, and may change until the write happens.
    pub only_while: Option<Unchanged>,
}

impl Write {
    /// Gives the key a value.
    #[must_use]
    pub fn put(key: Key, value: Bytes, expected: Expected, purpose: Purpose) -> Self {
        Self { key, expected, value: Some(value), header: None, expires_at: None, purpose, only_while: None }
    }

    /// Deletes the key.
    #[must_use]
    pub fn delete(key: Key, expected: Revision) -> Self {
        let expected = Expected::At(expected);
        Self { key, expected, value: None, header: None, expires_at: None, purpose: Purpose::Removal, only_while: None }
    }
}

/// The most keys that one commit writes: one fewer than etcd takes by default, which compares one more where something is created.
pub const COMMIT_WRITES_MAX: usize = 127;

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
    /// The number of keys after `start_after`, from the page before, so that they are not counted again. It is not checked, except for a page that ends
    /// early.
    pub behind: Option<usize>,
}

impl RangeRequest {
    /// All keys that start so, as of now.
    #[must_use]
    pub fn all(prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), start_after: None, at: None, limit: None, behind: None }
    }
}

/// How new the reads of one request must be at least: as new as its first one. That asks a backing store that is far away, and those that follow do not.
/// Whatever was answered before the request began is in all of them. Copies are of the same request.
#[derive(Clone, Debug, Default)]
pub struct MinRevision(Arc<Mutex<Asked>>);

/// Of each backing store that was asked: nearly always one.
type Asked = SmallVec<[(usize, Revision); 1]>;

impl MinRevision {
    /// The revision of the first read of a backing store. A number distinguishes the stores of one process.
    pub(crate) fn of(&self, store: usize) -> Option<Revision> {
        let asked = self.0.lock().expect("nothing panics under this lock");
        asked.iter().find(|(asked, _)| *asked == store).map(|(_, revision)| *revision)
    }

    pub(crate) fn note(&self, store: usize, revision: Revision) {
        self.0.lock().expect("nothing panics under this lock").push((store, revision));
    }
}

/// The answer to a [`RangeRequest`].
#[derive(Clone, Debug)]
pub struct Range {
    /// In key order.
    pub entries: Vec<Arc<Entry>>,
    /// The revision that the page shows.
    pub revision: Revision,
    /// The number of keys of the prefix after the last entry.
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
    /// The disk has no space left for such a write; nothing changed. Reads go on, and so does what makes room ([`Purpose`]), down to the last
    /// few megabytes.
    #[error("no space is left for {key}")]
    NoSpace {
        /// The key.
        key: Key,
    },
    /// What is stored would grow beyond a bound; nothing changed. Reads go on, and so does what makes room. The first words are etcd's.
    #[error("mvcc: database space exceeded: {bound}")]
    QuotaExceeded {
        /// The key, of several the first.
        key: Key,
        /// Which one.
        bound: Bound,
    },
    /// Other values of this resource are encrypted, and the store cannot encrypt; nothing changed. Deletions go on.
    #[error(
        "berth stores no plain text beside values that are encrypted at rest: {values} below {prefix} begin with k8s:enc:, which berth cannot read. Return the data (berth store give-back), have the kube-apiserver store this resource in plain text (provider identity first, then rewrite each object), and take over again"
    )]
    Encrypted {
        /// What the keys of the resource begin with.
        prefix: String,
        /// How many are encrypted.
        values: usize,
    },
    /// The backend cannot be reached, or takes no writes until it is opened again; nothing changed.
    #[error("the store takes no writes: {cause}")]
    Unavailable {
        /// The backend's own words.
        cause: String,
    },
    /// Whether this write happened, or still will, is unknown. It is safe to repeat unchanged: its precondition lets at most one of the two succeed,
    /// and a caller that then gets a conflict finds out by reading.
    #[error("whether {key} was written is unknown: {cause}")]
    Unknown {
        /// The key, of several the first.
        key: Key,
        /// The backend's own words.
        cause: String,
    },
}

/// Whether a store accepts writes. Does not concern reads: they are answered, or fail with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// As far as is known.
    Ready,
    /// The last write failed, or could not be begun. It goes on by itself when the cause is gone.
    Refusing {
        /// In the words of what failed.
        cause: String,
    },
    /// It will not until it is opened again.
    Ended {
        /// Why.
        cause: String,
    },
}

/// Changes behind a revision, in order, none left out. Ends with an error when the reader fell behind what is kept.
pub type Watch = BoxStream<'static, Result<WatchItem, ReadError>>;

/// The changes of one revision, in the order of their commit. Never empty, and nearly always one.
pub type Events = SmallVec<[Arc<Event>; 1]>;

/// What a [`Watch`] yields.
#[derive(Clone, Debug)]
pub enum WatchItem {
    /// All changes of one revision under the prefix: a reader that continues after it later has missed nothing of it.
    Events(Events),
    /// Everything under the prefix up to this revision has been yielded. Comes whenever the reader has caught up, once per revision at
    /// most, so that the revision of a quiet prefix moves on too.
    Progress(Revision),
}

/// Revisioned keys. Nothing is visible, to a reader or a watcher, before it is durable.
///
/// May be far away, and shared: nothing here is known without asking, others write too, and one store may keep some keys in another backing
/// store than the rest. So revisions may have gaps, and those of different prefixes may have nothing to do with each other.
pub trait Store: Send + Sync + 'static {
    /// The newest revision of the backing store that keeps the keys below `prefix`: no write that was answered before the call, through
    /// this or any other server, is later. Revisions of keys in different backing stores have nothing to do with each other.
    ///
    /// # Errors
    /// [`ReadError::Unavailable`].
    fn revision(&self, prefix: &str) -> BoxFuture<'_, Result<Revision, ReadError>>;

    /// The newest version of a key, not older than a write that was answered before the call.
    ///
    /// # Errors
    /// [`ReadError::Unavailable`].
    fn get(&self, key: &Key) -> BoxFuture<'_, Result<Option<Arc<Entry>>, ReadError>>;

    /// As [`Store::get`]; not older than a write that was answered before the first read with this [`MinRevision`].
    ///
    /// # Errors
    /// [`ReadError::Unavailable`].
    fn get_as_of<'a>(&'a self, key: &Key, as_of: &'a MinRevision) -> BoxFuture<'a, Result<Option<Arc<Entry>>, ReadError>> {
        let _ = as_of;
        self.get(key)
    }

    /// A recent version of a key, if one is known without a request to a distant backing store. Another writer may have changed or deleted it since. So
    /// it has one use: to attempt a write that its revision guards, and to ask if nothing is written.
    fn known(&self, key: &Key) -> Option<Arc<Entry>> {
        let _ = key;
        None
    }

    /// A page of the keys under a prefix, as of one revision; the newest is not older than a write that was answered before the call.
    ///
    /// # Errors
    /// A revision that is compacted or not there yet; [`ReadError::Unavailable`].
    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<Range, ReadError>>;

    /// As [`Store::range`]; the newest is not older than a write that was answered before the first read with this [`MinRevision`].
    ///
    /// # Errors
    /// As [`Store::range`].
    fn range_as_of<'a>(&'a self, request: RangeRequest, as_of: &'a MinRevision) -> BoxFuture<'a, Result<Range, ReadError>> {
        let _ = as_of;
        self.range(request)
    }

    /// Writes several keys as one revision, if all are as expected, else none. Gives their entries in the same order; of a deletion the
    /// last value, with the deletion's revision. Resolves when the writes are durable and visible. Dropping the future does not undo them.
    ///
    /// # Errors
    /// [`WriteError`]; of several keys that are not as expected, the first, and those that are to be unchanged before those that are written. A missing key that
    /// is to be deleted is a conflict with `found` 0.
    ///
    /// # Panics
    /// If a key is named twice, or there are more than [`COMMIT_WRITES_MAX`], with those that are to be unchanged.
    fn commit(&self, writes: Vec<Write>) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, WriteError>>;

    /// A [`Store::commit`] of one key.
    ///
    /// # Errors
    /// [`WriteError`].
    fn write(&self, write: Write) -> BoxFuture<'_, Result<Arc<Entry>, WriteError>> {
        let committed = self.commit(vec![write]);
        committed.map(|committed| committed.map(|mut entries| entries.pop().expect("an entry for each write"))).boxed()
    }

    /// Gives the key a value if it is as expected.
    ///
    /// # Errors
    /// [`WriteError`].
    fn put(&self, key: Key, value: Bytes, expected: Expected, purpose: Purpose) -> BoxFuture<'_, Result<Arc<Entry>, WriteError>> {
        self.write(Write::put(key, value, expected, purpose))
    }

    /// Deletes the key if it is at `expected`. Gives the deletion's entry (last value as it was stored, the deletion's revision): what
    /// watchers get too.
    ///
    /// # Errors
    /// As [`Store::commit`].
    fn delete(&self, key: Key, expected: Revision) -> BoxFuture<'_, Result<Arc<Entry>, WriteError>> {
        self.write(Write::delete(key, expected))
    }

    /// Changes of keys that start with `prefix`, later than `after`.
    ///
    /// # Errors
    /// [`ReadError::Compacted`] if `after` is older than what is kept. A revision of the future is no error: the watch stays silent until
    /// it is reached, then yields what comes behind it.
    fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, ReadError>;

    /// As [`Store::watch`], for a reader that needs only changes whose entry matches the filter before or after. It may receive others too. A store that
    /// can omits them, and does not wake the reader for them.
    ///
    /// # Errors
    /// As [`Store::watch`].
    fn watch_filtered(&self, prefix: &str, after: Revision, filter: WatchFilter) -> Result<Watch, ReadError> {
        drop(filter);
        self.watch(prefix, after)
    }

    /// Forgets versions that were replaced, and changes that happened, at or before `revision`, in the backing store that keeps the keys
    /// below `prefix`.
    ///
    /// # Errors
    /// [`ReadError::Future`].
    fn compact(&self, prefix: &str, revision: Revision) -> BoxFuture<'_, Result<(), ReadError>>;

    /// Whether it takes writes, as far as it knows without trying.
    fn health(&self) -> Health {
        Health::Ready
    }

    /// A list of the keys below `prefix` at `revision` goes on: until then the store keeps what its next pages show, as far as it can afford that.
    /// Whose lists make it keep most loses them first, the oldest first.
    fn pin(&self, _prefix: &str, _revision: Revision, _owner: &str, _until: Timestamp) {}

    /// A list that was [pinned](Store::pin) has come to its end.
    fn unpin(&self, _prefix: &str, _revision: Revision, _owner: &str) {}

    /// The stored bytes and their limit. `None`: the backend does not report them.
    fn usage(&self) -> Option<Usage> {
        None
    }
}
