//! A store in etcd. Other programs may write to the same etcd.
//!
//! Writes are transactions of etcd, guarded by the revision of each key. Reads and watches are served from copies in this process, one for each resource,
//! each fed by a watch: a read asks etcd for its newest revision, together with all who read at that moment, and waits until the copy shows that.
//! Where etcd does not report the progress of a watch, reads go to etcd instead.
//!
//! There are no sockets here: [`Etcd`] is the interface to one.

mod api;
mod attempts;
mod compaction;
mod condition;
mod copies;
mod copy;
mod leases;
mod list;
mod model;
mod newest;
mod stamp;
mod turn;
mod writer;

pub use api::{Alarm, Change, Etcd, EtcdError, KeyValue, Lease, Outcome, PAGE_BYTES, Page, Put, Query, Status, Watched, Watching};
pub use model::{Model, TransactionFault};
pub use writer::SETTLED_WITHIN;

use crate::{
    Entry, Health, Key, Layout, MinRevision, Range, RangeRequest, ReadError, Revision, Store, Usage, Watch, WatchFilter, Write, WriteError,
    backend::check_commit, env::Env,
};
use condition::Condition;
use copies::Copies;
use copy::Copy;
use futures::{
    FutureExt, StreamExt, TryStreamExt,
    channel::oneshot,
    future::{BoxFuture, ready},
    stream,
};
use jiff::SignedDuration;
use list::{Listed, list};
use newest::Newest;
use std::sync::Arc;
use writer::Writer;

/// How long a read waits until the copy shows what etcd has: as upstream's does.
const SHOWN_WITHIN: SignedDuration = SignedDuration::from_secs(3);
/// How long one waits for the first list of a resource.
const LOADED_WITHIN: SignedDuration = SignedDuration::from_secs(30);

/// A [`Store`] in etcd. Its tasks end when it is dropped.
pub struct EtcdStore {
    etcd: Arc<dyn Etcd>,
    env: Env,
    layout: Arc<dyn Layout>,
    copies: Arc<Copies>,
    newest: Arc<Newest>,
    condition: Arc<Condition>,
    writer: Arc<Writer>,
}

impl EtcdStore {
    /// Over an etcd. Of each resource up to `history_bytes` of replaced versions and changes are kept here for watchers.
    #[must_use]
    pub fn new(etcd: Arc<dyn Etcd>, layout: Arc<impl Layout>, history_bytes: usize, env: &Env) -> Self {
        let layout: Arc<dyn Layout> = layout;
        let copies = Copies::new(Arc::clone(&etcd), env.clone(), Arc::clone(&layout), history_bytes);
        let newest = Newest::new(Arc::clone(&etcd), Arc::clone(&env.spawner));
        let condition = Arc::<Condition>::default();
        let ask = Arc::clone(&condition).keep_asking(Arc::clone(&etcd), Arc::clone(&newest), Arc::clone(&env.clock));
        copies.run("etcd-condition", ask.boxed());
        let writer = Arc::new(Writer::new(Arc::clone(&copies), Arc::clone(&condition)));
        Self { etcd, env: env.clone(), layout, copies, newest, condition, writer }
    }

    /// Has etcd forget what was replaced longer than `every` ago, once in that time, with all others that share it: one of them does so at a time.
    pub fn keep_compacting(&self, every: SignedDuration) {
        self.copies.run("etcd-compaction", compaction::keep_compacting(Arc::clone(&self.copies), every).boxed());
    }

    async fn newest(&self) -> Result<Revision, ReadError> {
        let newest = self.newest.ask().await;
        self.condition.record(newest.as_ref().err().map(ToString::to_string).as_deref());
        newest.map_err(|error| ReadError::Unavailable(error.to_string()))
    }

    /// As far as etcd is now, or was when this request asked first.
    async fn newest_as_of(&self, as_of: &MinRevision) -> Result<Revision, ReadError> {
        let this = Arc::as_ptr(&self.newest).addr();
        if let Some(newest) = as_of.of(this) {
            return Ok(newest);
        }
        let newest = self.newest().await?;
        as_of.note(this, newest);
        Ok(newest)
    }

    /// The copy of what begins so, as far as etcd is as of this request.
    async fn current(&self, text: &str, as_of: &MinRevision) -> Result<Arc<Copy>, ReadError> {
        let copy = self.copies.of(text, None);
        copy.loaded(LOADED_WITHIN).await?;
        copy.reach(self.newest_as_of(as_of).await?, SHOWN_WITHIN).await?;
        Ok(copy)
    }

    async fn read(&self, request: RangeRequest, as_of: &MinRevision) -> Result<Range, ReadError> {
        let Some(at) = request.at else {
            if !self.etcd.reports_progress() {
                return self.read_there(request).await;
            }
            return self.current(&request.prefix, as_of).await?.shared.range(&request);
        };
        let copy = self.copies.of(&request.prefix, Some(at));
        copy.loaded(LOADED_WITHIN).await?;
        if copy.frontier().is_none_or(|frontier| frontier < at) {
            let newest = self.newest().await?;
            if newest < at {
                return Err(ReadError::Future { requested: at, newest });
            }
            if !self.etcd.reports_progress() {
                return self.read_there(request).await;
            }
            copy.reach(at, SHOWN_WITHIN).await?;
        }
        match copy.shared.range(&request) {
            // etcd may know more of what was than this process.
            Err(ReadError::Compacted { requested, oldest }) => match self.read_there(request).await {
                Err(ReadError::Compacted { .. }) => Err(ReadError::Compacted { requested, oldest }),
                range => range,
            },
            range => range,
        }
    }

    async fn read_key(&self, key: Key, as_of: &MinRevision) -> Result<Option<Arc<Entry>>, ReadError> {
        if self.etcd.reports_progress() {
            return Ok(self.current(key.as_str(), as_of).await?.shared.get(&key));
        }
        let request = RangeRequest { limit: Some(1), ..RangeRequest::all(key.as_str()) };
        let first = self.read_there(request).await?.entries.into_iter().next();
        Ok(first.filter(|entry| entry.key == key))
    }

    /// Reads from etcd itself.
    async fn read_there(&self, request: RangeRequest) -> Result<Range, ReadError> {
        let RangeRequest { prefix, start_after, at, limit, behind: _ } = request;
        let listed = list(&*self.etcd, &*self.layout, Query { prefix, start_after, at, limit }).await;
        let Listed { entries, revision, remaining, .. } = listed.map_err(|error| match error {
            EtcdError::Compacted => ReadError::Compacted { requested: at.unwrap_or_default(), oldest: at.unwrap_or_default().later(1) },
            error => ReadError::Unavailable(error.to_string()),
        })?;
        Ok(Range { entries, revision, remaining })
    }

    fn watch_with(&self, prefix: &str, after: Revision, filter: Option<WatchFilter>) -> Result<Watch, ReadError> {
        let copy = self.copies.of(prefix, Some(after));
        if copy.frontier().is_some() {
            return copy.shared.watch(prefix, after, filter);
        }
        let prefix = prefix.to_owned();
        let begin = async move {
            copy.loaded(LOADED_WITHIN).await?;
            copy.shared.watch(&prefix, after, filter)
        };
        Ok(stream::once(begin).try_flatten().boxed())
    }
}

impl Store for EtcdStore {
    fn revision(&self, _prefix: &str) -> BoxFuture<'_, Result<Revision, ReadError>> {
        self.newest().boxed()
    }

    fn get(&self, key: &Key) -> BoxFuture<'_, Result<Option<Arc<Entry>>, ReadError>> {
        let key = key.clone();
        async move { self.read_key(key, &MinRevision::default()).await }.boxed()
    }

    fn get_as_of<'a>(&'a self, key: &Key, as_of: &'a MinRevision) -> BoxFuture<'a, Result<Option<Arc<Entry>>, ReadError>> {
        self.read_key(key.clone(), as_of).boxed()
    }

    fn known(&self, key: &Key) -> Option<Arc<Entry>> {
        let copy = self.copies.of(key.as_str(), None);
        copy.frontier()?;
        copy.shared.get(key)
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<Range, ReadError>> {
        async move { self.read(request, &MinRevision::default()).await }.boxed()
    }

    fn range_as_of<'a>(&'a self, request: RangeRequest, as_of: &'a MinRevision) -> BoxFuture<'a, Result<Range, ReadError>> {
        self.read(request, as_of).boxed()
    }

    fn commit(&self, writes: Vec<Write>) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, WriteError>> {
        if let Err(error) = check_commit(&writes) {
            return ready(Err(error)).boxed();
        }
        if writes.is_empty() {
            return ready(Ok(Vec::new())).boxed();
        }
        let (sender, answer) = oneshot::channel();
        let (writer, key) = (Arc::clone(&self.writer), writes[0].key.clone());
        let task = async move {
            // A caller that no longer waits has chosen not to know.
            _ = sender.send(writer.commit(writes).await);
        };
        self.env.spawner.spawn("etcd-write", task.boxed());
        answer.map(|answer| answer.unwrap_or_else(|_| Err(WriteError::Unknown { key, cause: "the store is closed".into() }))).boxed()
    }

    fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, ReadError> {
        self.watch_with(prefix, after, None)
    }

    fn watch_filtered(&self, prefix: &str, after: Revision, filter: WatchFilter) -> Result<Watch, ReadError> {
        self.watch_with(prefix, after, Some(filter))
    }

    fn compact(&self, _prefix: &str, revision: Revision) -> BoxFuture<'_, Result<(), ReadError>> {
        async move {
            match self.copies.compact(revision).await {
                Ok(()) => Ok(()),
                Err(EtcdError::Future) => Err(ReadError::Future { requested: revision, newest: self.newest().await? }),
                Err(error) => Err(ReadError::Unavailable(error.to_string())),
            }
        }
        .boxed()
    }

    fn health(&self) -> Health {
        let trouble = self.etcd.barred().or_else(|| self.copies.all().iter().find_map(|copy| copy.trouble()));
        trouble.map_or_else(|| self.condition.health(), |cause| Health::Refusing { cause })
    }

    fn usage(&self) -> Option<Usage> {
        Some(self.condition.usage())
    }
}

impl Drop for EtcdStore {
    fn drop(&mut self) {
        self.copies.close();
    }
}

#[cfg(test)]
mod tests;
