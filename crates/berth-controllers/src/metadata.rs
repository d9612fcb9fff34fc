//! The metadata of all objects of all kinds, for the garbage collector and the namespace controller.

use crate::{
    cache::{AnyCache, Cache, Index},
    cluster::{Cluster, ClusterError, ServedKind},
    lock,
    metrics::Metrics,
};
use berth_env::Spawner;
use berth_identity::{GroupResource, GroupVersionKind, Name, Namespace, Revision, Uid};
use berth_workloads::{
    gc::{Deletion, FOREGROUND, ORPHAN, Seen},
    owners::OwnerReferences,
    view::{Identity, View, read_metadata},
};
use event_listener::Event;
use futures::{StreamExt, channel::oneshot, future::join_all};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, Mutex},
};

/// The fields that are read of an object of any kind.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetaView {
    /// `metadata.namespace`; empty for cluster-scoped objects.
    #[serde(default)]
    pub namespace: Namespace,
    /// `metadata.name`.
    #[serde(default)]
    pub name: Name,
    /// `metadata.uid`.
    #[serde(default)]
    pub uid: Uid,
    /// `metadata.ownerReferences`.
    pub owner_references: Option<OwnerReferences>,
    /// `metadata.finalizers`.
    pub finalizers: Option<Vec<String>>,
    /// `metadata.deletionTimestamp`.
    pub deletion_timestamp: Option<Timestamp>,
    /// The resource version.
    #[serde(skip)]
    pub revision: Revision,
}

impl View for MetaView {
    fn decode(json: &[u8], revision: Revision) -> Result<Self, serde_json::Error> {
        Ok(Self { revision, ..read_metadata(json)? })
    }

    fn identity(&self) -> Identity<'_> {
        let is_being_deleted = self.deletion_timestamp.is_some();
        Identity { namespace: Some(&self.namespace), name: &self.name, uid: &self.uid, is_being_deleted }
    }
}

impl MetaView {
    /// Its owners.
    #[must_use]
    pub fn owners(&self) -> &[OwnerReference] {
        self.owner_references.as_deref().unwrap_or_default()
    }

    /// How it is being deleted.
    #[must_use]
    pub fn deletion(&self) -> Deletion {
        match self.deletion_timestamp {
            None => Deletion::None,
            Some(_) => self.asked_for(),
        }
    }

    /// What its finalizers request from the collector, whether it is terminating or not.
    #[must_use]
    pub fn asked_for(&self) -> Deletion {
        let has = |wanted| self.finalizers.iter().flatten().any(|finalizer| finalizer == wanted);
        match (has(ORPHAN), has(FOREGROUND)) {
            (true, _) => Deletion::Orphan,
            (_, true) => Deletion::Foreground,
            _ => Deletion::Other,
        }
    }

    /// The object, which is of `kind`, as the garbage collector's graph takes it.
    #[must_use]
    pub fn seen(&self, kind: &GroupVersionKind) -> Seen {
        Seen {
            kind: kind.clone(),
            key: self.key(),
            uid: self.uid.clone(),
            owners: self.owner_references.clone().unwrap_or_default(),
            deletion: self.deletion(),
        }
    }
}

/// The number of objects of a kind in each namespace.
#[derive(Debug, Default)]
pub struct NamespaceCounts(BTreeMap<Namespace, usize>);

impl NamespaceCounts {
    /// The number of objects in `namespace`.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> usize {
        self.0.get(namespace).copied().unwrap_or(0)
    }
}

impl Index<MetaView> for NamespaceCounts {
    fn change(&mut self, old: Option<&Arc<MetaView>>, new: Option<&Arc<MetaView>>) {
        if let Some(new) = new {
            *self.0.entry(new.namespace.clone()).or_default() += 1;
        }
        if let Some(old) = old {
            match self.0.get_mut(&old.namespace) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(self.0.remove(&old.namespace)),
            }
        }
    }
}

/// The metadata of all objects of one kind.
pub type MetaCache = Cache<MetaView, NamespaceCounts>;

/// The metadata of all objects of all kinds. Kinds appear and disappear while the server runs, and their caches with them.
#[derive(Default)]
pub struct MetaCaches {
    kinds: Mutex<Kinds>,
    kinds_known: Event,
    handlers: Mutex<Vec<KindHandler>>,
    awaited: Arc<Mutex<Awaited>>,
}

#[derive(Default)]
struct Kinds {
    /// The served kinds in every version.
    served: Vec<ServedKind>,
    followed: BTreeMap<GroupResource, Followed>,
    /// Caches that other components need before the served kinds are known.
    reserved: BTreeMap<GroupResource, Arc<MetaCache>>,
    /// Whether the served kinds are being watched.
    is_started: bool,
    /// Whether the served kinds are known, and have caches.
    is_known: bool,
}

struct Followed {
    kind: ServedKind,
    cache: Arc<MetaCache>,
    /// Ends the cache when it is dropped.
    end: oneshot::Sender<()>,
    over: oneshot::Receiver<()>,
}

impl Followed {
    /// Resolves when all handlers have processed the removal of its objects.
    async fn end(self) {
        drop(self.end);
        // An error is the expected signal: the other end has been dropped.
        self.over.await.unwrap_or_default();
    }
}

type KindHandler = Box<dyn Fn(&ServedKind, &MetaCache) + Send + Sync>;

/// The revision that each resource's cache must reach, by the uid of a deleted object, until that object is gone.
type Awaited = BTreeMap<Uid, BTreeMap<GroupResource, Revision>>;

/// The kinds that get a cache: one version of each, and only one of the groups of events.
fn followed(served: &[ServedKind]) -> BTreeMap<GroupResource, ServedKind> {
    let mut kinds = BTreeMap::new();
    for kind in served.iter().filter(|kind| kind.resource.group != "events.k8s.io") {
        kinds.entry(kind.resource.clone()).or_insert_with(|| kind.clone());
    }
    kinds
}

impl MetaCaches {
    /// Registers `handler`, which is called with each present or new kind and its cache, before the cache is filled. Call it before
    /// [`MetaCaches::start`].
    pub fn on_kind(&self, handler: impl Fn(&ServedKind, &MetaCache) + Send + Sync + 'static) {
        lock(&self.handlers).push(Box::new(handler));
    }

    /// The cache of a resource that every cluster serves. Call it before [`MetaCaches::start`].
    #[must_use]
    pub fn reserve(&self, resource: GroupResource) -> Arc<MetaCache> {
        Arc::clone(lock(&self.kinds).reserved.entry(resource.clone()).or_insert_with(|| Arc::new(MetaCache::new(resource))))
    }

    /// The present kinds and their caches.
    #[must_use]
    pub fn all(&self) -> Vec<(ServedKind, Arc<MetaCache>)> {
        lock(&self.kinds).followed.values().map(|followed| (followed.kind.clone(), Arc::clone(&followed.cache))).collect()
    }

    /// The cache of one resource, if it has one at present.
    #[must_use]
    pub fn of(&self, resource: &GroupResource) -> Option<Arc<MetaCache>> {
        lock(&self.kinds).followed.get(resource).map(|followed| Arc::clone(&followed.cache))
    }

    /// The served kind of this name, if there is one at present.
    #[must_use]
    pub fn kind(&self, of: &GroupVersionKind) -> Option<ServedKind> {
        lock(&self.kinds).served.iter().find(|kind| kind.kind == *of).cloned()
    }

    /// Starts and stops caches as kinds are served, indefinitely. Only the first call has an effect.
    pub fn start(self: &Arc<Self>, cluster: &Arc<dyn Cluster>, spawner: &Arc<dyn Spawner>, metrics: &Arc<Metrics>) {
        if mem::replace(&mut lock(&self.kinds).is_started, true) {
            return;
        }
        let (caches, mut kinds) = (Arc::clone(self), cluster.kinds());
        let (cluster, begin_on, metrics) = (Arc::clone(cluster), Arc::clone(spawner), Arc::clone(metrics));
        let following = async move {
            while let Some(served) = kinds.next().await {
                let wanted = followed(&served);
                for gone in caches.take_over(served, &wanted) {
                    gone.end().await;
                }
                for kind in wanted.into_values() {
                    caches.follow(kind, &*cluster, &*begin_on, &metrics);
                }
                lock(&caches.kinds).is_known = true;
                caches.kinds_known.notify(usize::MAX);
            }
        };
        spawner.spawn("kinds", Box::pin(following));
    }

    /// Records the served kinds. Returns the caches of kinds that are no longer served, or have changed.
    fn take_over(&self, served: Vec<ServedKind>, wanted: &BTreeMap<GroupResource, ServedKind>) -> Vec<Followed> {
        let mut kinds = lock(&self.kinds);
        kinds.served = served;
        let gone = kinds.followed.extract_if(.., |resource, followed| wanted.get(resource) != Some(&followed.kind));
        gone.map(|(_, followed)| followed).collect()
    }

    /// Starts a cache for a kind, unless it has one.
    fn follow(&self, kind: ServedKind, cluster: &dyn Cluster, spawner: &dyn Spawner, metrics: &Arc<Metrics>) {
        if lock(&self.kinds).followed.contains_key(&kind.resource) {
            return;
        }
        let reserved = lock(&self.kinds).reserved.remove(&kind.resource);
        let cache = reserved.unwrap_or_else(|| Arc::new(MetaCache::new(kind.resource.clone())));
        let awaited = Arc::clone(&self.awaited);
        cache.on_change(move |delta| {
            if let (Some(gone), None) = (&delta.old, &delta.new) {
                lock(&awaited).remove(&gone.uid);
            }
        });
        lock(&self.handlers).iter().for_each(|handle| handle(&kind, &cache));
        let (end, ended) = oneshot::channel();
        let over = cache.start_until(cluster, spawner, metrics, ended);
        lock(&self.kinds).followed.insert(kind.resource.clone(), Followed { kind, cache, end, over });
    }

    /// Resolves when all served kinds have their first consistent list.
    pub async fn synced(&self) {
        loop {
            let kinds_known = self.kinds_known.listen();
            if lock(&self.kinds).is_known {
                break;
            }
            kinds_known.await;
        }
        for (_, cache) in self.all() {
            cache.synced().await;
        }
    }

    /// Whether every cache contains all writes before the first call for `uid`. For a deleted object, these include all its dependents or
    /// all objects in it. Call it again until it returns `true`. The revisions to reach are remembered until the object is gone.
    ///
    /// Each cache is only compared with revisions of its own resource, because other resources may be in another store. Each call reads the
    /// served kinds, because a kind that was just restored may have objects from before its removal.
    ///
    /// # Errors
    /// The cluster does not report a resource's revision.
    pub async fn show_all_since(&self, uid: &Uid, cluster: &dyn Cluster) -> Result<bool, ClusterError> {
        let Some(served) = cluster.kinds().next().await else { return Ok(false) };
        let resources: Vec<GroupResource> = followed(&served).into_keys().collect();
        let mut awaited = lock(&self.awaited).get(uid).cloned().unwrap_or_default();
        let unknown = resources.iter().filter(|resource| !awaited.contains_key(resource)).cloned();
        let mut first_error = None;
        for (resource, newest) in join_all(unknown.map(async |resource| (resource.clone(), cluster.newest(resource).await))).await {
            match newest {
                Ok(revision) => _ = awaited.insert(resource, revision),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        // Known revisions need no second request, whatever the other results.
        lock(&self.awaited).insert(uid.clone(), awaited.clone());
        if let Some(error) = first_error {
            return Err(error);
        }
        let kinds = lock(&self.kinds);
        let is_shown = |resource| kinds.followed.get(resource).is_some_and(|followed| followed.cache.revision() >= awaited[resource]);
        Ok(resources.iter().all(is_shown))
    }
}
