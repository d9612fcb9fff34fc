//! What the server keeps in memory of a few resources, such as the configurations of webhooks.

use crate::{ApiError, Resource, authorization::OwnWrites, stored};
use berth_api::Object;
use berth_store::{Entry, EventKind, RangeRequest, ReadError, Revision, Store, Watch, WatchItem};
use futures::{FutureExt, StreamExt, lock};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is kept of the followed objects.
pub trait Content: Clone + Default + Send + Sync + 'static {
    /// Adds an object, or replaces the one of this name.
    fn put(&mut self, resource: &Resource, object: &dyn Object);

    /// Removes an object.
    fn remove(&mut self, resource: &Resource, namespace: Option<&str>, name: &str);
}

/// A few resources: read once, then kept up to date by watches.
///
/// The content has each acknowledged write of this server, and those of other servers as soon as the store's watch
/// delivers them. It is read at its first use.
pub struct Following<T> {
    own_writes: Arc<OwnWrites>,
    resources: Vec<Arc<Resource>>,
    /// Locked briefly. `None` at first, and after a watch has ended.
    kept: Mutex<Option<Kept<T>>>,
    /// Locked while the objects are listed.
    listing: lock::Mutex<()>,
}

struct Kept<T> {
    content: Arc<T>,
    followed: Vec<Followed>,
}

/// One resource, and the revision of it that the content has.
struct Followed {
    resource: Arc<Resource>,
    changes: Watch,
    seen: Revision,
}

/// A watch has expired or ended.
struct Lost;

impl<T: Content> Following<T> {
    pub(crate) fn new(own_writes: Arc<OwnWrites>, resources: Vec<Arc<Resource>>) -> Self {
        Self { own_writes, resources, kept: Mutex::default(), listing: lock::Mutex::default() }
    }

    /// Returns the content if it is up to date without a request to the store. Costs a poll of each watch.
    #[must_use]
    pub fn now(&self) -> Option<Arc<T>> {
        let mut kept = self.kept();
        let current = kept.as_mut()?;
        if current.take_in_what_is_there().is_err() {
            *kept = None;
            return None;
        }
        let is_shown = |followed: &Followed| self.own_writes.newest_of(followed.resource.prefix()) <= followed.seen;
        current.followed.iter().all(is_shown).then(|| Arc::clone(&current.content))
    }

    /// Returns the content.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn current(&self) -> Result<Arc<T>, ApiError> {
        if let Some(content) = self.now() {
            return Ok(content);
        }
        let _listing = self.listing.lock().await;
        // Another caller may have listed them in the meantime.
        if let Some(content) = self.now() {
            return Ok(content);
        }
        let listed = self.list().await?;
        let content = Arc::clone(&listed.content);
        *self.kept() = Some(listed);
        Ok(content)
    }

    async fn list(&self) -> Result<Kept<T>, ApiError> {
        let (mut content, mut followed) = (T::default(), Vec::new());
        for resource in &self.resources {
            let found = self.own_writes.range(RangeRequest::all(resource.prefix())).await?;
            found.entries.iter().for_each(|entry| put(&mut content, resource, entry));
            let changes = self.own_writes.watch(resource.prefix(), found.revision)?;
            followed.push(Followed { resource: Arc::clone(resource), changes, seen: found.revision });
        }
        Ok(Kept { content: Arc::new(content), followed })
    }

    /// Locks the content. A panic can leave it incomplete only in writes that its watches have yet to deliver.
    fn kept(&self) -> MutexGuard<'_, Option<Kept<T>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Content> Kept<T> {
    fn take_in_what_is_there(&mut self) -> Result<(), Lost> {
        for followed in &mut self.followed {
            while let Some(item) = followed.changes.next().now_or_never() {
                followed.take_in(&mut self.content, item)?;
            }
        }
        Ok(())
    }
}

impl Followed {
    fn take_in<T: Content>(&mut self, content: &mut Arc<T>, item: Option<Result<WatchItem, ReadError>>) -> Result<(), Lost> {
        match item {
            Some(Ok(WatchItem::Progress(revision))) => self.seen = revision,
            Some(Ok(WatchItem::Events(events))) => {
                let content = Arc::make_mut(content);
                for event in &events {
                    match event.kind {
                        EventKind::Put => put(content, &self.resource, &event.entry),
                        EventKind::Deleted => remove(content, &self.resource, &event.entry),
                    }
                }
                self.seen = events[0].entry.mod_revision;
            }
            Some(Err(_)) | None => return Err(Lost),
        }
        Ok(())
    }
}

/// Adds an object. One that cannot be read counts as absent.
fn put<T: Content>(content: &mut T, resource: &Arc<Resource>, entry: &Entry) {
    match stored::load(resource, entry) {
        Ok(object) => content.put(resource, &*object),
        Err(_) => remove(content, resource, entry),
    }
}

fn remove<T: Content>(content: &mut T, resource: &Arc<Resource>, entry: &Entry) {
    if let Some(target) = crate::key::target_of(resource, &entry.key) {
        content.remove(resource, target.namespace.as_deref(), &target.name);
    }
}
