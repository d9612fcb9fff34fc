//! Where a simulation's objects are stored, and how it learns of changes.

use crate::{
    etcd::{FailingEtcd, Followed},
    store::SimStore,
};
use berth_registry::ResourceTable;
use berth_store::{
    Event, Limits, MemoryStore, ReadError, Revision, Store, Watch, WatchItem,
    env::Env,
    etcd::{Etcd, EtcdStore, Model},
    files::disk::Disk,
    virtual_time::{Process, VirtualTime},
};
use futures::{FutureExt, StreamExt};
use jiff::SignedDuration;
use std::sync::Arc;

/// How much history the store keeps: more than a scenario writes.
const HISTORY_BYTES: usize = 1 << 30;
/// The interval of etcd compaction: often enough that a watch that was behind for long finds its revision compacted.
const COMPACTED_EVERY: SignedDuration = SignedDuration::from_secs(20);

/// What keeps the objects.
pub(super) enum Kept {
    /// One store, in memory or on a disk.
    Here(Arc<SimStore>),
    /// An etcd, with a server for the user and one for the parts, which the etcd fails.
    Etcd { user: Arc<EtcdStore>, parts: Arc<EtcdStore>, failing: FailingEtcd },
}

impl Kept {
    pub(super) fn of_user(&self) -> Arc<dyn Store> {
        match self {
            Self::Here(store) => Arc::<SimStore>::clone(store),
            Self::Etcd { user, .. } => Arc::<EtcdStore>::clone(user),
        }
    }

    pub(super) fn of_parts(&self) -> Arc<dyn Store> {
        match self {
            Self::Here(store) => Arc::<SimStore>::clone(store),
            Self::Etcd { parts, .. } => Arc::<EtcdStore>::clone(parts),
        }
    }
}

/// How the simulation learns of changes.
pub(super) enum Changes {
    Of(Watch),
    InEtcd(Followed),
}

/// Where a simulation's objects are stored.
pub(super) enum Backend {
    Memory,
    Disk(Disk),
    Etcd,
}

impl Changes {
    /// The changes since the last call.
    ///
    /// # Errors
    /// The store's changes cannot be followed.
    pub(super) fn news(&mut self) -> Result<Vec<Arc<Event>>, ReadError> {
        let changes = match self {
            Self::Of(changes) => changes,
            Self::InEtcd(followed) => return Ok(followed.next().into_iter().map(Arc::new).collect()),
        };
        let mut news = Vec::new();
        while let Some(Some(item)) = changes.next().now_or_never() {
            match item {
                Ok(WatchItem::Events(events)) => news.extend(events),
                Ok(WatchItem::Progress(_)) => (),
                Err(error) => return Err(error),
            }
        }
        Ok(news)
    }
}

/// In memory, or on a disk.
pub(super) fn here(disk: Option<Disk>, table: &Arc<ResourceTable>) -> (Kept, Changes, Option<Disk>) {
    let store = store_on(disk.as_ref(), table);
    let changes = store.watch("/registry/", Revision(0)).expect("nothing is compacted yet");
    (Kept::Here(store), Changes::Of(changes), disk)
}

/// In an etcd, of which the parts are shown the one that fails.
pub(super) fn in_etcd(
    seed: u64,
    time: &VirtualTime,
    process: &Process,
    table: &Arc<ResourceTable>,
    env: &Env,
) -> (Kept, Changes, Option<Disk>) {
    let model = Arc::new(Model::new(time, process));
    let failing = FailingEtcd::new(seed, &model, time);
    let changes = Changes::InEtcd(Followed::new(&model));
    let store = |etcd: Arc<dyn Etcd>| {
        let store = Arc::new(EtcdStore::new(etcd, Arc::clone(table), HISTORY_BYTES, env));
        store.keep_compacting(COMPACTED_EVERY);
        store
    };
    let (user, parts) = (store(model), store(Arc::new(failing.clone())));
    (Kept::Etcd { user, parts, failing }, changes, None)
}

/// The store: in memory, or what is on a disk.
pub(super) fn store_on(disk: Option<&Disk>, table: &Arc<ResourceTable>) -> Arc<SimStore> {
    let table = Arc::clone(table);
    Arc::new(SimStore(match disk {
        None => MemoryStore::new_quiet(table, HISTORY_BYTES),
        Some(disk) => {
            // Small, so that checkpoints are made while little happens.
            let limits = Limits { checkpoint_bytes_min: 16 << 10, ..Limits::default() };
            MemoryStore::open(Arc::new(disk.clone()), limits, table, HISTORY_BYTES).expect("a disk keeps what was synced").quiet()
        }
    }))
}
