//! The requests that the store sends to etcd. They are few, so that a model can replace etcd.

use crate::{Expected, Key, Revision, Unchanged};
use bytes::Bytes;
use futures::{future::BoxFuture, stream::BoxStream};
use std::sync::Arc;

/// How much a page takes at most, in bytes: with what its reader makes of it, twice that is held at a time.
pub const PAGE_BYTES: usize = 16 << 20;

/// One key as etcd has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// The key.
    pub key: Key,
    /// Its value.
    pub value: Bytes,
    /// The revision of the write that made the key.
    pub create_revision: Revision,
    /// The revision of its last write.
    pub mod_revision: Revision,
    /// With whose end it goes.
    pub lease: Option<Lease>,
}

/// Which keys are read.
#[derive(Clone, Debug)]
pub struct Query {
    /// Those that begin so.
    pub prefix: String,
    /// Of them those behind this one.
    pub start_after: Option<Key>,
    /// As of then; the newest if absent, and not older than a write that was answered before.
    pub at: Option<Revision>,
    /// At most so many; fewer where they would take more than [`PAGE_BYTES`], but one at least.
    pub limit: Option<usize>,
}

/// The answer to a [`Query`].
#[derive(Clone, Debug)]
pub struct Page {
    /// In key order.
    pub keys: Vec<KeyValue>,
    /// The newest revision when it was answered.
    pub revision: Revision,
    /// How many keys the query has without its limit.
    pub count: usize,
}

/// What becomes of one key in a transaction.
#[derive(Clone, Debug)]
pub struct Put {
    /// The key.
    pub key: Key,
    /// What it must be; `None`: it is not compared. Such keys are the last of a transaction.
    pub expected: Option<Expected>,
    /// Its new value; `None`: it is deleted.
    pub value: Option<Bytes>,
    /// With whose end it goes.
    pub lease: Option<Lease>,
}

/// A lease by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease(pub i64);

/// The reason why etcd rejects writes until a user disarms the alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// Its database has reached its quota: only deletions go on.
    NoSpace,
    /// Members differ in what they hold.
    Corrupt,
}

/// What a member reports about itself and its cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Of its database, in bytes, with what is forgotten and not yet given back.
    pub database_bytes: u64,
    /// What is raised.
    pub alarms: Vec<Alarm>,
}

/// The answer of etcd to a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All of it is done, as this revision.
    Done(Revision),
    /// A key is not as expected; nothing is done.
    Refused {
        /// The last revision of each key that was compared, in order, and behind them of those that were to be unchanged; 0 for one that is not there.
        found: Vec<Revision>,
        /// The newest revision then.
        revision: Revision,
    },
}

/// One key in one revision.
#[derive(Clone, Debug)]
pub struct Change {
    /// The key.
    pub key: Key,
    /// Its new value and the revision that made the key; `None`: it is gone.
    pub put: Option<(Bytes, Revision)>,
    /// The revision.
    pub revision: Revision,
}

/// What a watch yields.
#[derive(Clone, Debug)]
pub enum Watched {
    /// The watch has begun: etcd is reachable. Does not state how far the watch is.
    Begun,
    /// Revisions in order, each of them whole.
    Changes(Vec<Change>),
    /// All up to here has been yielded.
    Progress(Revision),
}

/// Changes below a prefix.
pub struct Watching {
    /// Ends with an error.
    pub items: BoxStream<'static, Result<Watched, EtcdError>>,
    /// Asks how far it is: it yields [`Watched::Progress`] when it can. May come to nothing, and is asked again then.
    pub ask_progress: Arc<dyn Fn() + Send + Sync>,
}

/// Why etcd did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EtcdError {
    /// That revision is compacted.
    #[error("etcd has compacted that revision")]
    Compacted,
    /// That revision is not there yet.
    #[error("etcd has not come to that revision")]
    Future,
    /// Its alarm for space is raised.
    #[error("etcd has no space left")]
    NoSpace,
    /// The answer is larger than is taken at once.
    #[error("etcd's answer is larger than {PAGE_BYTES} bytes")]
    TooLong,
    /// The request is larger than it takes.
    #[error("etcd takes no request that large: {0}")]
    TooLarge(String),
    /// The lease is over, or never was.
    #[error("the lease is over")]
    NoLease,
    /// Etcd, or a proxy before it, rejected the request: nothing was done.
    #[error("{0}")]
    Refused(String),
    /// It was not reached: nothing was done.
    #[error("{0}")]
    Unreachable(String),
    /// No answer came, or one that leaves open whether it was done or still will be.
    #[error("{0}")]
    Unknown(String),
}

/// An etcd. Calls may be polled by any executor.
pub trait Etcd: Send + Sync + 'static {
    /// The newest revision: no write that was answered before is later.
    ///
    /// # Errors
    /// [`EtcdError`].
    fn revision(&self) -> BoxFuture<'_, Result<Revision, EtcdError>>;

    /// Reads keys.
    ///
    /// # Errors
    /// [`EtcdError`].
    fn range(&self, query: Query) -> BoxFuture<'_, Result<Page, EtcdError>>;

    /// A revision at which the keys below `prefix` were what they were at `since`, not older than a write that was answered before; `None`: they were not. What came
    /// and went between is not noticed.
    ///
    /// # Errors
    /// [`EtcdError`].
    fn unchanged(&self, prefix: &str, since: Revision) -> BoxFuture<'_, Result<Option<Revision>, EtcdError>>;

    /// Does all of it as one revision if each key is as expected.
    ///
    /// # Errors
    /// [`EtcdError`]. Only after [`EtcdError::Unknown`] it may have been done.
    fn txn(&self, puts: Arc<[Put]>) -> BoxFuture<'_, Result<Outcome, EtcdError>> {
        self.txn_while(puts, Arc::default())
    }

    /// The same, if these other keys are unchanged too.
    ///
    /// # Errors
    /// As [`Etcd::txn`].
    fn txn_while(&self, puts: Arc<[Put]>, unchanged: Arc<[Unchanged]>) -> BoxFuture<'_, Result<Outcome, EtcdError>>;

    /// The same, for who listens on when the answer is late, and asks again meanwhile: from then on another member is spoken to, if there is one. Fails with
    /// [`EtcdError::Unknown`] where no answer can come any more.
    ///
    /// # Errors
    /// As [`Etcd::txn`].
    fn txn_patiently(&self, puts: Arc<[Put]>, unchanged: Arc<[Unchanged]>) -> BoxFuture<'_, Result<Outcome, EtcdError>>;

    /// Changes of keys that begin with `prefix`, from revision `from` on. Fails instead of blocking while the serving member has no leader.
    fn watch(&self, prefix: &str, from: Revision) -> Watching;

    /// Whether answers to [`Watching::ask_progress`] can be relied on.
    fn reports_progress(&self) -> bool;

    /// Why nothing may be written now. `None`: writes are allowed.
    fn barred(&self) -> Option<String> {
        None
    }

    /// A lease that ends so many seconds later.
    ///
    /// # Errors
    /// [`EtcdError`].
    fn grant(&self, seconds: i64) -> BoxFuture<'_, Result<Lease, EtcdError>>;

    /// The status that the connected member reports.
    ///
    /// # Errors
    /// [`EtcdError`].
    fn status(&self) -> BoxFuture<'_, Result<Status, EtcdError>>;

    /// Forgets what was replaced at or before `revision`.
    ///
    /// # Errors
    /// [`EtcdError`]; what is compacted already is no error.
    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), EtcdError>>;
}
