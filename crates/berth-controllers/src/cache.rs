//! A controller's cache of a resource: narrow views of all its objects, which one watch updates.

use crate::{
    cluster::{Change, Cluster, RawObject},
    lock,
    metrics::{Filled, Filling, Metrics},
    sorted::{Keyed, Sorted},
};
use berth_env::Spawner;
use berth_identity::{GroupResource, Hashes, ObjectKey, Revision, Uid};
use berth_workloads::view::View;
use event_listener::Event;
use futures::{
    FutureExt, StreamExt,
    channel::oneshot,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use serde::de::Error;
use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::{Arc, Mutex, MutexGuard, OnceLock},
};

/// How many changes are applied under one lock: enough to amortize the lock, but few enough that readers do not wait long.
const BATCH_MAX: usize = 256;

/// Data derived from all objects of a cache, updated with each change.
pub trait Index<V>: Default + Send + 'static {
    /// Applies one change: `old` was in the cache before, and `new` is now.
    fn change(&mut self, old: Option<&Arc<V>>, new: Option<&Arc<V>>);
}

/// No index.
impl<V> Index<V> for () {
    fn change(&mut self, _old: Option<&Arc<V>>, _new: Option<&Arc<V>>) {}
}

/// One change in a cache. At least one side is set. If both are, they have the same uid.
pub struct Delta<V> {
    /// Before.
    pub old: Option<Arc<V>>,
    /// Now.
    pub new: Option<Arc<V>>,
}

impl<V> Delta<V> {
    /// The sides that are set, old before new.
    pub fn sides(&self) -> impl Iterator<Item = &Arc<V>> {
        self.old.iter().chain(&self.new)
    }
}

impl<V> Clone for Delta<V> {
    fn clone(&self) -> Self {
        Self { old: self.old.clone(), new: self.new.clone() }
    }
}

type Handler<V> = Box<dyn Fn(&Delta<V>) + Send + Sync>;
type Decode<V> = fn(&RawObject) -> Result<V, serde_json::Error>;
type RemovedHandler<V> = Box<dyn Fn(&V, Revision) + Send + Sync>;
type RevisionHandler = Box<dyn Fn(Revision) + Send + Sync>;

/// Views of all objects of one resource.
pub struct Cache<V, I = ()> {
    resource: GroupResource,
    decode: Decode<V>,
    known: Mutex<Known<V, I>>,
    synced: Event,
    handlers: Mutex<Handlers<V>>,
    removed: OnceLock<RemovedHandler<V>>,
}

struct Handlers<V> {
    changes: Vec<Handler<V>>,
    revisions: Vec<RevisionHandler>,
}

/// The content of a cache at one moment.
pub struct Known<V, I = ()> {
    objects: Sorted<ObjectKey, Held<V>>,
    index: I,
    revision: Revision,
    synced: bool,
    /// Whether the watch has ended.
    ended: bool,
    /// An incomplete list. Once complete, it replaces `objects` as a whole.
    listing: Option<BTreeMap<ObjectKey, Held<V>>>,
}

impl<V, I: Default> Default for Known<V, I> {
    fn default() -> Self {
        Self { objects: Sorted::default(), index: I::default(), revision: Revision::default(), synced: false, ended: false, listing: None }
    }
}

struct Held<V> {
    view: Arc<V>,
    revision: Revision,
}

impl<V: View> Keyed<ObjectKey> for Held<V> {
    fn is_of(&self, key: &ObjectKey) -> bool {
        self.view.is_of(key)
    }

    fn key_hash(&self, hashes: &Hashes) -> u64 {
        Keyed::<ObjectKey>::key_hash(&self.view, hashes)
    }
}

/// A [`Change`] with its object decoded.
enum Decoded<V> {
    Restarted,
    Applied(Held<V>),
    /// It is deleted or cannot be decoded.
    Deleted {
        key: ObjectKey,
        revision: Revision,
    },
    Synced(Revision),
    Progress(Revision),
}

/// A cache of any type, for callers that wait for several caches.
pub trait AnyCache: Send + Sync {
    /// Resolves when the first consistent list is complete.
    fn synced(&self) -> BoxFuture<'_, ()>;
    /// Whether the first consistent list is complete.
    fn is_synced(&self) -> bool;
    /// [`Cache::revision`].
    fn revision(&self) -> Revision;
    /// [`Cache::resource`].
    fn resource(&self) -> GroupResource;
    /// Registers `handler`, which is called with the revision after each batch of changes. Call it before [`Cache::start`].
    fn on_revision(&self, handler: RevisionHandler);
    /// Whether it still contains the object with this uid, not terminating.
    fn shows_alive(&self, key: &ObjectKey, uid: &Uid) -> bool;
}

impl<V: View, I: Index<V>> Cache<V, I> {
    /// An empty cache of `resource`. It fills after [`Cache::start`].
    #[must_use]
    pub fn new(resource: GroupResource) -> Self {
        Self::decoding(resource, RawObject::view)
    }

    /// The same, whose views `decode` makes: of a resource that is not the view's own.
    #[must_use]
    pub fn decoding(resource: GroupResource, decode: Decode<V>) -> Self {
        let handlers = Handlers { changes: Vec::new(), revisions: Vec::new() };
        let (known, synced, removed) = (Mutex::default(), Event::new(), OnceLock::new());
        Self { resource, decode, known, synced, handlers: Mutex::new(handlers), removed }
    }

    /// Registers `handler`, which is called with each removed object and the revision of the cache, before a reader can observe that the object
    /// is gone. Call it once, before [`Cache::start`]. The handler must not read the cache.
    pub fn on_removed(&self, handler: impl Fn(&V, Revision) + Send + Sync + 'static) {
        // A second handler would be a wiring error. There is none.
        drop(self.removed.set(Box::new(handler)));
    }

    /// Registers `handler`, which is called for each change after the cache contains it. Call it before [`Cache::start`]. The handler must
    /// not call the cache's own `on_…`.
    pub fn on_change(&self, handler: impl Fn(&Delta<V>) + Send + Sync + 'static) {
        lock(&self.handlers).changes.push(Box::new(handler));
    }

    /// Watches the resource indefinitely.
    pub fn start(self: &Arc<Self>, cluster: &dyn Cluster, spawner: &dyn Spawner, metrics: &Arc<Metrics>) {
        self.start_of(cluster.watch(self.resource.clone()), spawner, metrics);
    }

    /// As [`Cache::start`], with a stream of changes from the caller, for the resource or a part of it.
    pub fn start_of(self: &Arc<Self>, changes: BoxStream<'static, Change>, spawner: &dyn Spawner, metrics: &Arc<Metrics>) {
        self.report_to(metrics);
        spawner.spawn("cache", Box::pin(follow(Following(Arc::clone(self)), changes, Arc::clone(metrics))));
    }

    /// As [`Cache::start`], until `end` resolves. Then all objects are removed. The returned receiver resolves after all handlers have
    /// processed the removal.
    pub fn start_until(
        self: &Arc<Self>,
        cluster: &dyn Cluster,
        spawner: &dyn Spawner,
        metrics: &Arc<Metrics>,
        end: impl Future<Output: Send> + Send + 'static,
    ) -> oneshot::Receiver<()> {
        self.report_to(metrics);
        let nothing = [Change::Restarted, Change::Synced(Revision::default())];
        let changes = cluster.watch(self.resource.clone()).take_until(end).chain(stream::iter(nothing)).boxed();
        let (is_over, over) = oneshot::channel();
        let following = follow(Following(Arc::clone(self)), changes, Arc::clone(metrics)).map(|()| drop(is_over));
        spawner.spawn("cache", Box::pin(following));
        over
    }

    fn report_to(self: &Arc<Self>, metrics: &Metrics) {
        let cache: Arc<dyn Filling> = Arc::<Self>::clone(self);
        metrics.follow_cache(Arc::downgrade(&cache));
    }

    /// The resource of the cache.
    #[must_use]
    pub fn resource(&self) -> GroupResource {
        self.resource.clone()
    }

    /// The present content. Readers exclude each other and the watch, so do not hold the guard across an await.
    pub fn read(&self) -> MutexGuard<'_, Known<V, I>> {
        lock(&self.known)
    }

    /// One object.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<V>> {
        self.read().get(key)
    }

    /// The revision up to which the cache is complete; 0 before the first list.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.read().revision
    }

    /// Applies changes, then calls the handlers.
    fn take_in(&self, changes: Vec<Decoded<V>>) {
        let (deltas, revision, synced) = {
            let mut known = self.read();
            let before = known.synced;
            let mut deltas = Vec::with_capacity(changes.len());
            changes.into_iter().for_each(|change| known.take_in(change, &mut deltas));
            if let Some(handle) = self.removed.get() {
                let removed = deltas.iter().filter(|delta| delta.new.is_none()).filter_map(|delta| delta.old.as_ref());
                removed.for_each(|view| handle(view, known.revision));
            }
            (deltas, known.revision, known.synced && !before)
        };
        let handlers = lock(&self.handlers);
        for delta in &deltas {
            handlers.changes.iter().for_each(|handle| handle(delta));
        }
        handlers.revisions.iter().for_each(|handle| handle(revision));
        if synced {
            self.synced.notify(usize::MAX);
        }
    }
}

impl<V: View, I: Index<V>> Filling for Cache<V, I> {
    fn resource(&self) -> GroupResource {
        self.resource.clone()
    }

    fn filled(&self) -> Filled {
        let known = self.read();
        match (known.synced, known.ended) {
            (false, _) => Filled::NotYet,
            (true, false) => Filled::To(known.revision),
            (true, true) => Filled::ForGood,
        }
    }

    fn synced(&self) -> BoxFuture<'_, ()> {
        AnyCache::synced(self)
    }
}

impl<V: View, I: Index<V>> AnyCache for Cache<V, I> {
    fn synced(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            loop {
                let synced = self.synced.listen();
                if self.is_synced() {
                    return;
                }
                synced.await;
            }
        })
    }

    fn is_synced(&self) -> bool {
        self.read().synced
    }

    fn revision(&self) -> Revision {
        Cache::revision(self)
    }

    fn resource(&self) -> GroupResource {
        self.resource.clone()
    }

    fn on_revision(&self, handler: RevisionHandler) {
        lock(&self.handlers).revisions.push(handler);
    }

    fn shows_alive(&self, key: &ObjectKey, uid: &Uid) -> bool {
        self.get(key).is_some_and(|view| {
            let shown = view.identity();
            shown.uid == uid && !shown.is_being_deleted
        })
    }
}

impl<V: View, I: Index<V>> Known<V, I> {
    /// One object.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<V>> {
        self.objects.get(key).map(|held| Arc::clone(&held.view))
    }

    /// The revision up to which the content is complete; 0 before the first list.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The index.
    #[must_use]
    pub fn index(&self) -> &I {
        &self.index
    }

    /// The index, to update time-dependent data.
    pub fn index_mut(&mut self) -> &mut I {
        &mut self.index
    }

    /// All objects, by namespace and name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<V>> {
        self.objects.values().map(|held| &held.view)
    }

    /// The objects of one namespace, by name.
    pub fn in_namespace<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Arc<V>> {
        self.beginning_with(namespace, "")
    }

    /// The objects of one namespace whose names have this prefix, by name.
    pub fn beginning_with<'a>(&'a self, namespace: &'a str, beginning: &'a str) -> impl Iterator<Item = &'a Arc<V>> {
        let is_one = move |key: &ObjectKey| key.namespace == *namespace && key.name.starts_with(beginning);
        let first = ObjectKey::new(namespace, beginning);
        self.objects.range(first..).take_while(move |(key, _)| is_one(key)).map(|(_, held)| &held.view)
    }

    /// The number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether the cache is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    fn take_in(&mut self, change: Decoded<V>, deltas: &mut Vec<Delta<V>>) {
        match change {
            Decoded::Restarted => self.listing = Some(BTreeMap::new()),
            Decoded::Applied(held) => match &mut self.listing {
                Some(listing) => drop(listing.insert(held.view.key(), held)),
                None => {
                    self.revision = self.revision.max(held.revision);
                    self.replace(held.view.key(), Some(held), deltas);
                }
            },
            Decoded::Deleted { key, revision } => match &mut self.listing {
                Some(listing) => drop(listing.remove(&key)),
                None => {
                    self.revision = self.revision.max(revision);
                    self.replace(key, None, deltas);
                }
            },
            Decoded::Synced(revision) => {
                self.replace_all(deltas);
                self.revision = self.revision.max(revision);
                self.synced = true;
            }
            Decoded::Progress(revision) if self.listing.is_none() => self.revision = self.revision.max(revision),
            Decoded::Progress(_) => (),
        }
    }

    /// Replaces all objects by the complete list.
    fn replace_all(&mut self, deltas: &mut Vec<Delta<V>>) {
        let Some(listing) = self.listing.take() else { return };
        let absent: Vec<ObjectKey> = self.objects.keys().filter(|key| !listing.contains_key(key)).cloned().collect();
        absent.into_iter().for_each(|key| self.replace(key, None, deltas));
        for (key, held) in listing {
            if self.objects.get(&key).is_none_or(|known| known.revision != held.revision) {
                self.replace(key, Some(held), deltas);
            }
        }
    }

    /// Replaces one object. An object with the same name and another uid is a new one, so the old one is removed first.
    fn replace(&mut self, key: ObjectKey, new: Option<Held<V>>, deltas: &mut Vec<Delta<V>>) {
        let new_view = new.as_ref().map(|held| Arc::clone(&held.view));
        let old_view = match new {
            Some(held) => self.objects.insert(key, held),
            None => self.objects.remove(&key),
        }
        .map(|held| held.view);
        match (old_view, new_view) {
            (Some(old), Some(new)) if old.uid() != new.uid() => {
                self.note(Delta { old: Some(old), new: None }, deltas);
                self.note(Delta { old: None, new: Some(new) }, deltas);
            }
            (None, None) => (),
            (old, new) => self.note(Delta { old, new }, deltas),
        }
    }

    fn note(&mut self, delta: Delta<V>, deltas: &mut Vec<Delta<V>>) {
        self.index.change(delta.old.as_ref(), delta.new.as_ref());
        deltas.push(delta);
    }
}

/// Builds the content from objects that were read without a cache. It has no revision.
impl<V: View, I: Index<V>> FromIterator<Arc<V>> for Known<V, I> {
    fn from_iter<T: IntoIterator<Item = Arc<V>>>(views: T) -> Self {
        let mut known = Self::default();
        for view in views {
            known.replace(view.key(), Some(Held { view, revision: Revision::default() }), &mut Vec::new());
        }
        known
    }
}

/// A cache that follows its watch. When it ends, all handlers are dropped, because caches with handlers for each other would otherwise
/// never be freed.
struct Following<V, I>(Arc<Cache<V, I>>);

impl<V, I> Drop for Following<V, I> {
    fn drop(&mut self) {
        let none = Handlers { changes: Vec::new(), revisions: Vec::new() };
        drop(mem::replace(&mut *lock(&self.0.handlers), none));
    }
}

async fn follow<V: View, I: Index<V>>(following: Following<V, I>, changes: BoxStream<'static, Change>, metrics: Arc<Metrics>) {
    let cache = &following.0;
    let mut batches = changes.ready_chunks(BATCH_MAX);
    let mut decoder = Decoder { resource: cache.resource.clone(), decode: cache.decode, unreadable: BTreeSet::new(), metrics };
    while let Some(batch) = batches.next().await {
        cache.take_in(batch.into_iter().map(|change| decoder.decode(change)).collect());
    }
    cache.read().ended = true;
}

/// Decodes objects into views.
struct Decoder<V> {
    resource: GroupResource,
    decode: Decode<V>,
    /// Objects whose decoding error has been logged.
    unreadable: BTreeSet<ObjectKey>,
    metrics: Arc<Metrics>,
}

impl<V: View> Decoder<V> {
    fn decode(&mut self, change: Change) -> Decoded<V> {
        match change {
            Change::Restarted => Decoded::Restarted,
            Change::Applied { key, object } => match (self.decode)(&object).map(Arc::new).and_then(|view| is_itself(view, &key)) {
                Ok(view) => {
                    self.unreadable.remove(&key);
                    Decoded::Applied(Held { view, revision: object.revision })
                }
                // The former view is outdated, so the object is removed.
                Err(error) => {
                    let revision = object.revision;
                    self.log_unreadable(&key, revision, &error);
                    Decoded::Deleted { key, revision }
                }
            },
            Change::Deleted { key, revision } => {
                self.unreadable.remove(&key);
                Decoded::Deleted { key, revision }
            }
            Change::Synced(revision) => Decoded::Synced(revision),
            Change::Progress(revision) => Decoded::Progress(revision),
        }
    }

    /// Logs the error once, until the object can be decoded again or is deleted.
    fn log_unreadable(&mut self, key: &ObjectKey, revision: Revision, error: &serde_json::Error) {
        if self.unreadable.insert(key.clone()) {
            self.metrics.resources_sync_errors.inc();
            tracing::error!(resource = %self.resource.plural, %key, %revision, %error, "an object cannot be read; skipped");
        }
    }
}

/// Checks that the object's own key is the one under which it was read.
fn is_itself<V: View>(view: Arc<V>, key: &ObjectKey) -> Result<Arc<V>, serde_json::Error> {
    if view.is_of(key) { Ok(view) } else { Err(serde_json::Error::custom(format!("it says that it is {}", view.key()))) }
}

#[cfg(test)]
mod tests;
