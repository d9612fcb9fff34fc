//! Passes other controllers' writes from the caches to the [`Guard`](second_writer::Guard) of a controller.

use crate::{
    cache::{Cache, Index},
    lock,
    owners::HasMeta,
    worker::Queue,
};
use berth_identity::ObjectKey;
use berth_workloads::{
    second_writer::{self, SecondWriter, Wrote},
    view::{ForeignWrites, View},
};
use std::sync::{Arc, Mutex};

/// Whether controllers stop where another controller acts on the same object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecondWriters {
    /// They stop: the API server is in another process, and other controllers may run.
    Stop,
    /// They do not check: the whole control plane is berth's.
    Ignore,
}

/// The guard of one controller.
#[derive(Clone, Default)]
pub struct Guard(Arc<Mutex<second_writer::Guard>>);

impl Guard {
    /// Watches the statuses of the controller's objects. Call it before the cache starts.
    pub fn watch_objects<V: View + HasMeta, I: Index<V>>(&self, objects: &Cache<V, I>, queue: &Queue<ObjectKey>) {
        self.watch_statuses(objects, queue, |object| object.meta().foreign.as_deref());
    }

    /// The same. `foreign` returns the writes of other controllers to an object.
    pub fn watch_statuses<V: View, I: Index<V>>(
        &self,
        objects: &Cache<V, I>,
        queue: &Queue<ObjectKey>,
        foreign: fn(&V) -> Option<&ForeignWrites>,
    ) {
        let (guard, queue) = (self.clone(), queue.clone());
        objects.on_change(move |delta| match &delta.new {
            Some(object) => {
                let status = foreign(object).and_then(|foreign| foreign.status.as_ref());
                if status.is_some_and(|write| lock(&guard.0).record(&object.key(), write, || Wrote::Status)) {
                    queue.add(object.key());
                }
            }
            None => delta.sides().for_each(|gone| lock(&guard.0).forget(&gone.key())),
        });
    }

    /// Watches the objects of this kind that those objects control. Call it before the cache starts.
    pub fn watch_owned<O, J, V, I>(&self, kind: &'static str, owned: &Cache<V, I>, owners: &Arc<Cache<O, J>>, queue: &Queue<ObjectKey>)
    where
        O: View,
        J: Index<O>,
        V: View + HasMeta,
        I: Index<V>,
    {
        let (guard, owners, queue) = (self.clone(), Arc::clone(owners), queue.clone());
        owned.on_change(move |delta| {
            let Some(meta) = delta.new.as_ref().map(|new| new.meta()) else { return };
            let Some(write) = meta.foreign.as_ref().and_then(|foreign| foreign.owned.as_ref()) else { return };
            let Some(controller) = meta.controller() else { return };
            let owner = ObjectKey::new(&meta.namespace, &controller.name);
            if owners.get(&owner).is_none_or(|found| *found.uid() != controller.uid) {
                return;
            }
            let wrote = || Wrote::Owned { kind: kind.to_owned(), name: meta.name.to_string() };
            if lock(&guard.0).record(&owner, write, wrote) {
                queue.add(owner);
            }
        });
    }

    /// Starts to count other controllers' writes. Call it when the caches have synced.
    pub fn start(&self) {
        lock(&self.0).start();
    }

    /// The other controller of the object.
    #[must_use]
    pub fn stopped(&self, object: &ObjectKey) -> Option<SecondWriter> {
        lock(&self.0).stopped(object).cloned()
    }
}
