//! What is stored in etcd, which others may write to as well.
//!
//! Writes are transactions of etcd, guarded by the revision of each key. Reads and watches are served from copies in this process, one for each resource,
//! each fed by a watch: a read asks etcd for its newest revision, together with all who read at that moment, and waits until the copy shows that.
//! Where etcd cannot tell how far a watch is, reads go to etcd instead.
//!
//! No sockets are here: [`Etcd`] is what is asked of one.

mod api;
mod copies;
mod copy;
mod leases;
mod moving;
mod newest;
mod writer;

pub use api::{Change, Etcd, EtcdError, KeyValue, Lease, Outcome, Page, Put, Query, Watched, Watching};
pub use moving::move_keys;

use crate::{
    Entry, Health, Key, Layout, Mark, Range, RangeRequest, ReadError, Revision, Store, Understood, Watch, Write, WriteError,
    backend::check_commit, env::Env,
};
use bytes::Bytes;
use copies::Copies;
use copy::Copy;
use futures::{
    FutureExt, StreamExt, TryStreamExt,
    channel::oneshot,
    future::{BoxFuture, join_all, ready},
    stream,
};
use jiff::SignedDuration;
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
    writer: Arc<Writer>,
}

impl EtcdStore {
    /// Over an etcd. Of each resource up to `history_bytes` of replaced versions and changes are kept here for watchers.
    #[must_use]
    pub fn new(etcd: Arc<dyn Etcd>, layout: Arc<impl Layout>, history_bytes: usize, env: &Env) -> Self {
        let layout: Arc<dyn Layout> = layout;
        let copies = Copies::new(Arc::clone(&etcd), env.clone(), Arc::clone(&layout), history_bytes);
        let newest = Newest::new(Arc::clone(&etcd), Arc::clone(&env.spawner));
        let writer = Arc::new(Writer::new(Arc::clone(&copies)));
        Self { etcd, env: env.clone(), layout, copies, newest, writer }
    }

    async fn newest(&self) -> Result<Revision, ReadError> {
        let newest = self.newest.ask().await;
        self.writer.tell(newest.as_ref().err().map(ToString::to_string).as_deref());
        newest.map_err(|error| ReadError::Unavailable(error.to_string()))
    }

    /// The copy of what begins so, as far as etcd is now.
    async fn current(&self, text: &str) -> Result<Arc<Copy>, ReadError> {
        let copy = self.copies.of(text, None);
        copy.loaded(LOADED_WITHIN).await.map_err(ReadError::Unavailable)?;
        copy.reach(self.newest().await?, SHOWN_WITHIN).await.map_err(ReadError::Unavailable)?;
        Ok(copy)
    }

    async fn read(&self, request: RangeRequest) -> Result<Range, ReadError> {
        let Some(at) = request.at else {
            if !self.etcd.tells_progress() {
                return self.read_there(request).await;
            }
            return self.current(&request.prefix).await?.shared.range(&request);
        };
        let copy = self.copies.of(&request.prefix, Some(at));
        copy.loaded(LOADED_WITHIN).await.map_err(ReadError::Unavailable)?;
        if copy.frontier().is_none_or(|frontier| frontier < at) {
            let newest = self.newest().await?;
            if newest < at {
                return Err(ReadError::Future { requested: at, newest });
            }
            if !self.etcd.tells_progress() {
                return self.read_there(request).await;
            }
            copy.reach(at, SHOWN_WITHIN).await.map_err(ReadError::Unavailable)?;
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

    /// Reads from etcd itself.
    async fn read_there(&self, request: RangeRequest) -> Result<Range, ReadError> {
        let RangeRequest { prefix, start_after, at, limit, behind: _ } = request;
        let page = match self.etcd.range(Query { prefix, start_after, at, limit }).await {
            Ok(page) => page,
            Err(EtcdError::Compacted) => {
                return Err(ReadError::Compacted { requested: at.unwrap_or_default(), oldest: at.unwrap_or_default().later(1) });
            }
            Err(error) => return Err(ReadError::Unavailable(error.to_string())),
        };
        let remaining = page.count.saturating_sub(page.keys.len());
        let entries = page.keys.into_iter().filter_map(|found| entry(&*self.layout, found).map(Arc::new)).collect();
        Ok(Range { entries, revision: at.unwrap_or(page.revision), remaining })
    }

    fn watch_with(&self, prefix: &str, after: Revision, mark: Option<Mark>) -> Result<Watch, ReadError> {
        let copy = self.copies.of(prefix, Some(after));
        if copy.frontier().is_some() {
            return copy.shared.watch(prefix, after, mark);
        }
        let prefix = prefix.to_owned();
        let begin = async move {
            copy.loaded(LOADED_WITHIN).await.map_err(ReadError::Unavailable)?;
            copy.shared.watch(&prefix, after, mark)
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
        async move {
            if self.etcd.tells_progress() {
                return Ok(self.current(key.as_str()).await?.shared.get(&key));
            }
            let request = RangeRequest { limit: Some(1), ..RangeRequest::all(key.as_str()) };
            let first = self.read_there(request).await?.entries.into_iter().next();
            Ok(first.filter(|entry| entry.key == key))
        }
        .boxed()
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<Range, ReadError>> {
        self.read(request).boxed()
    }

    fn commit(&self, writes: Vec<Write>) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, WriteError>> {
        if let Err(error) = check_commit(&writes) {
            return ready(Err(error)).boxed();
        }
        if writes.is_empty() {
            return ready(Ok(Vec::new())).boxed();
        }
        let (tell, told) = oneshot::channel();
        let (writer, key) = (Arc::clone(&self.writer), writes[0].key.clone());
        let task = async move {
            // A caller that no longer waits has chosen not to know.
            _ = tell.send(writer.commit(writes).await);
        };
        self.env.spawner.spawn("etcd-write", task.boxed());
        told.map(|told| told.unwrap_or_else(|_| Err(WriteError::Unknown { key, cause: "the store is closed".into() }))).boxed()
    }

    fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, ReadError> {
        self.watch_with(prefix, after, None)
    }

    fn watch_marked(&self, prefix: &str, after: Revision, mark: Mark) -> Result<Watch, ReadError> {
        self.watch_with(prefix, after, Some(mark))
    }

    fn compact(&self, _prefix: &str, revision: Revision) -> BoxFuture<'_, Result<(), ReadError>> {
        async move {
            match self.etcd.compact(revision).await {
                Ok(()) => (),
                Err(EtcdError::Future) => return Err(ReadError::Future { requested: revision, newest: self.newest().await? }),
                Err(error) => return Err(ReadError::Unavailable(error.to_string())),
            }
            let copies = self.copies.all();
            let reached = join_all(copies.iter().map(|copy| copy.reach(revision, SHOWN_WITHIN))).await;
            // One that is not as far forgets when it has to.
            for (copy, _) in copies.iter().zip(reached).filter(|(_, reached)| reached.is_ok()) {
                copy.shared.write().compact(revision);
            }
            Ok(())
        }
        .boxed()
    }

    fn health(&self) -> Health {
        let trouble = self.copies.all().iter().find_map(|copy| copy.trouble());
        trouble.map_or_else(|| self.writer.health(), |cause| Health::Refusing { cause })
    }
}

/// What is shown of a key; `None`: nothing.
fn entry(layout: &dyn Layout, found: KeyValue) -> Option<Entry> {
    let KeyValue { key, value, create_revision, mod_revision, lease: _ } = found;
    let value = match layout.understand(&key, &value) {
        // Copied: what came is a part of a whole message, and would keep all of that alive.
        Understood::AsItIs => Bytes::copy_from_slice(&value),
        Understood::As(value) => value,
        Understood::Nothing => return None,
    };
    let header = layout.header(&key, &value);
    Some(Entry { value, header, key, create_revision, mod_revision })
}

impl Drop for EtcdStore {
    fn drop(&mut self) {
        self.copies.close();
    }
}

#[cfg(test)]
mod tests;
