//! The newest revisions that this server wrote of objects that it keeps in memory: roles, bindings, and what admission
//! follows.

use crate::{
    Resource,
    resource::{self, built_in},
};
use berth_api::k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use berth_store::{
    Entry, Health, Key, MinRevision, Range, RangeRequest, ReadError, Revision, Store, Usage, Watch, WatchFilter, Write, WriteError,
    env::Timestamp,
};
use futures::{FutureExt, future::BoxFuture};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// The number of resources that define a policy.
const RESOURCES: usize = 4;

/// The group of the resources that admission follows.
const ADMISSION: &str = "admissionregistration.k8s.io";

/// A store that records the newest revision of the objects in memory whose write through it was acknowledged.
pub(crate) struct OwnWrites {
    store: Arc<dyn Store>,
    /// The key prefix and the newest revision for each of [`resources`], then for those of admission.
    newest: Vec<(&'static str, AtomicU64)>,
}

impl OwnWrites {
    pub(crate) fn of(store: Arc<dyn Store>) -> Self {
        let of_admission = built_in().all().iter().filter(|resource| resource.group() == ADMISSION);
        let followed = resources().into_iter().chain(of_admission);
        Self { store, newest: followed.map(|resource| (resource.prefix(), AtomicU64::new(0))).collect() }
    }

    /// Returns the newest revision for each of [`resources`], 0 without a write.
    pub(super) fn newest(&self) -> [Revision; RESOURCES] {
        std::array::from_fn(|index| Revision(self.newest[index].1.load(Ordering::Acquire)))
    }

    /// Returns the newest revision below this key prefix, 0 without a write or for another prefix.
    pub(crate) fn newest_of(&self, prefix: &str) -> Revision {
        let found = self.newest.iter().find(|(followed, _)| *followed == prefix);
        Revision(found.map_or(0, |(_, newest)| newest.load(Ordering::Acquire)))
    }

    fn note(&self, entries: &[Arc<Entry>]) {
        for entry in entries {
            for (_, newest) in self.newest.iter().filter(|(prefix, _)| entry.key.as_str().starts_with(prefix)) {
                newest.fetch_max(entry.mod_revision.0, Ordering::AcqRel);
            }
        }
    }
}

impl Store for OwnWrites {
    fn revision(&self, prefix: &str) -> BoxFuture<'_, Result<Revision, ReadError>> {
        self.store.revision(prefix)
    }

    fn get(&self, key: &Key) -> BoxFuture<'_, Result<Option<Arc<Entry>>, ReadError>> {
        self.store.get(key)
    }

    fn get_as_of<'a>(&'a self, key: &Key, as_of: &'a MinRevision) -> BoxFuture<'a, Result<Option<Arc<Entry>>, ReadError>> {
        self.store.get_as_of(key, as_of)
    }

    fn known(&self, key: &Key) -> Option<Arc<Entry>> {
        self.store.known(key)
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<Range, ReadError>> {
        self.store.range(request)
    }

    fn range_as_of<'a>(&'a self, request: RangeRequest, as_of: &'a MinRevision) -> BoxFuture<'a, Result<Range, ReadError>> {
        self.store.range_as_of(request, as_of)
    }

    fn commit(&self, writes: Vec<Write>) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, WriteError>> {
        let is_noted = |write: &Write| self.newest.iter().any(|(prefix, _)| write.key.as_str().starts_with(prefix));
        if !writes.iter().any(is_noted) {
            return self.store.commit(writes);
        }
        self.store.commit(writes).inspect(|committed| committed.iter().for_each(|entries| self.note(entries))).boxed()
    }

    fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, ReadError> {
        self.store.watch(prefix, after)
    }

    fn watch_filtered(&self, prefix: &str, after: Revision, mark: WatchFilter) -> Result<Watch, ReadError> {
        self.store.watch_filtered(prefix, after, mark)
    }

    fn compact(&self, prefix: &str, revision: Revision) -> BoxFuture<'_, Result<(), ReadError>> {
        self.store.compact(prefix, revision)
    }

    fn health(&self) -> Health {
        self.store.health()
    }

    fn pin(&self, prefix: &str, revision: Revision, owner: &str, until: Timestamp) {
        self.store.pin(prefix, revision, owner, until);
    }

    fn unpin(&self, prefix: &str, revision: Revision, owner: &str) {
        self.store.unpin(prefix, revision, owner);
    }

    fn usage(&self) -> Option<Usage> {
        self.store.usage()
    }
}

/// The resources that define a policy. Arrays with one element per resource have this order.
pub(super) fn resources() -> [&'static Arc<Resource>; RESOURCES] {
    [resource::of::<ClusterRole>(), resource::of::<Role>(), resource::of::<ClusterRoleBinding>(), resource::of::<RoleBinding>()]
}
