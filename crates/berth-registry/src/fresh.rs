//! A cache of recently written objects. Most are read again soon: by the scheduler, by kubelets, by deletions, and by
//! watches in this process.
//!
//! The cache returns an object only for the exact bytes that it was stored as. Decoding them would return an equal
//! object, so the cache affects time only.

use crate::Resource;
use berth_api::Object;
use berth_identity::Lookup;
use berth_store::{Entry, Key};
use bytes::Bytes;
use std::{
    collections::VecDeque,
    fmt,
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The number of shards, so that writers and readers rarely contend for a lock.
const SHELVES: usize = 16;
/// The maximum size of the stored forms of all these objects. The objects themselves take several times as much.
const BYTES_MAX: usize = 512 << 10;
/// The overhead of an object, in bytes of its stored form.
const OVERHEAD_BYTES: usize = 256;
/// Larger objects are decoded again.
const OBJECT_BYTES_MAX: usize = 16 << 10;

/// An object with copy-on-write: a change of a shared object copies it.
pub(crate) struct SharedObject(Arc<dyn Object>);

impl SharedObject {
    /// Returns the same object for reading.
    pub(crate) fn share(&self) -> Arc<dyn Object> {
        Arc::clone(&self.0)
    }
}

impl Deref for SharedObject {
    type Target = dyn Object;

    fn deref(&self) -> &dyn Object {
        &*self.0
    }
}

impl DerefMut for SharedObject {
    fn deref_mut(&mut self) -> &mut dyn Object {
        if Arc::get_mut(&mut self.0).is_none() {
            self.0 = self.0.clone_object().into();
        }
        Arc::get_mut(&mut self.0).expect("the only copy")
    }
}

impl From<Box<dyn Object>> for SharedObject {
    fn from(object: Box<dyn Object>) -> Self {
        Self(object.into())
    }
}

impl From<Arc<dyn Object>> for SharedObject {
    fn from(object: Arc<dyn Object>) -> Self {
        Self(object)
    }
}

impl fmt::Debug for SharedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The cache.
pub(crate) struct Fresh {
    shelves: [Mutex<Shelf>; SHELVES],
    bytes_max: usize,
}

#[derive(Default)]
struct Shelf {
    objects: Lookup<Key, Held>,
    /// The entries in order of insertion: the key and the insertion number. A key that was written again occurs more
    /// than once.
    order: VecDeque<(Key, u64)>,
    /// The size of the objects and of `order`, in bytes.
    bytes: usize,
    /// The number of insertions.
    puts: u64,
}

struct Held {
    value: Bytes,
    object: Arc<dyn Object>,
    /// The insertion number.
    put: u64,
}

impl Default for Fresh {
    fn default() -> Self {
        Self::up_to(BYTES_MAX)
    }
}

impl Fresh {
    /// Returns a cache of at most this many bytes.
    pub(crate) fn up_to(bytes_max: usize) -> Self {
        Self { shelves: Default::default(), bytes_max }
    }

    /// Returns the object for the entry's value if it is cached.
    pub(crate) fn get(&self, entry: &Entry) -> Option<Arc<dyn Object>> {
        let shelf = self.shelf(&entry.key);
        let held = shelf.objects.get(&entry.key).filter(|held| is_same(&held.value, &entry.value))?;
        Some(Arc::clone(&held.object))
    }

    /// Whether an object is worth caching. Objects with recorded owners are not: the owners are their larger part, and
    /// readers remove them.
    pub(crate) fn takes(resource: &Resource, entry: &Entry, object: &SharedObject) -> bool {
        entry.value.len() <= OBJECT_BYTES_MAX && !resource.rarely_read && object.meta().managed_fields.is_none()
    }

    /// Caches the object for the entry's value, within the limit.
    pub(crate) fn put(&self, entry: &Entry, object: &SharedObject) {
        let (key, value) = (entry.key.clone(), entry.value.clone());
        self.shelf(&key).put(key, value, object.share(), self.bytes_max / SHELVES);
    }

    /// Returns the shard for the end of the name, which differs most.
    fn shelf(&self, key: &Key) -> MutexGuard<'_, Shelf> {
        let end = key.as_str().bytes().rev().take(8);
        let hash = end.fold(0_usize, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
        // The shard is consistent at any moment.
        self.shelves[hash % SHELVES].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether two values are equal. Nearly all pairs share one long allocation, so pointers are compared first.
fn is_same(one: &Bytes, other: &Bytes) -> bool {
    (one.as_ptr(), one.len()) == (other.as_ptr(), other.len()) || one == other
}

impl Shelf {
    fn put(&mut self, key: Key, value: Bytes, object: Arc<dyn Object>, bytes_max: usize) {
        self.puts += 1;
        self.bytes += OVERHEAD_BYTES + value.len();
        self.order.push_back((key.clone(), self.puts));
        let replaced = self.objects.insert(key, Held { value, object, put: self.puts });
        self.bytes -= replaced.map_or(0, |held| held.value.len());
        while bytes_max < self.bytes
            && let Some((key, put)) = self.order.pop_front()
        {
            self.bytes -= OVERHEAD_BYTES;
            // Otherwise a newer insertion replaced it.
            if self.objects.get(&key).is_some_and(|held| held.put == put) {
                self.bytes -= self.objects.remove(&key).map_or(0, |held| held.value.len());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource;
    use berth_api::k8s_openapi::{
        api::{coordination::v1::Lease, core::v1::Pod},
        apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry,
    };
    use berth_store::{Header, Revision};

    fn pod(name: &str, node: usize) -> (Entry, SharedObject) {
        let mut pod = Pod::default();
        pod.metadata.name = Some(name.to_owned());
        pod.spec.get_or_insert_default().node_name = Some(format!("node-{node}"));
        let (key, value) = (Key::new(&format!("/registry/pods/default/{name}")), Bytes::from(Object::encode(&pod)));
        let entry = Entry { key, value, header: Header::default(), create_revision: Revision(1), mod_revision: Revision(2) };
        (entry, SharedObject::from(Box::new(pod) as Box<dyn Object>))
    }

    #[test]
    fn an_object_is_given_for_the_bytes_that_it_was_stored_as_and_no_others() {
        let fresh = Fresh::default();
        let ((entry, object), (other, _)) = (pod("a", 1), pod("a", 2));
        assert!(fresh.get(&entry).is_none());
        fresh.put(&entry, &object);
        assert!(fresh.get(&entry).is_some_and(|found| Arc::ptr_eq(&found, &object.0)));
        assert!(fresh.get(&pod("a", 1).0).is_some(), "equal bytes elsewhere");
        assert!(fresh.get(&other).is_none() && fresh.get(&pod("b", 1).0).is_none());
    }

    #[test]
    fn the_oldest_go_when_there_is_no_room() {
        let fresh = Fresh::up_to(SHELVES * 10_000);
        let pods: Vec<_> = (0..1000).map(|number| pod(&format!("web-{number}"), 1)).collect();
        // Repeated writes of the first object cost no more than the object.
        for (entry, object) in &pods {
            fresh.put(entry, object);
            fresh.put(&pods[0].0, &pods[0].1);
        }
        let found: Vec<usize> = (0..1000).filter(|at| fresh.get(&pods[*at].0).is_some()).collect();
        assert!(found[0] == 0 && found[1] > 100 && found.contains(&999), "{found:?}");
        let order: usize = fresh.shelves.iter().map(|shelf| shelf.lock().expect("whole").order.len()).sum();
        assert!(order * OVERHEAD_BYTES < SHELVES * 10_000, "{order}");
    }

    #[test]
    fn an_object_that_is_written_again_takes_the_room_of_what_it_replaces() {
        let pods: Vec<_> = (0..1000).map(|number| pod(&format!("web-{number}"), 1)).collect();
        let bytes: usize = pods.iter().map(|(entry, _)| entry.value.len()).sum();
        // Twice for each object, and as much again: shards are not equally full.
        let fresh = Fresh::up_to(2 * (bytes + pods.len() * 2 * OVERHEAD_BYTES));
        for _ in 0..2 {
            pods.iter().for_each(|(entry, object)| fresh.put(entry, object));
        }
        assert!(pods.iter().all(|(entry, _)| fresh.get(entry).is_some()));
        let held: usize = fresh.shelves.iter().map(|shelf| shelf.lock().expect("whole").bytes).sum();
        assert_eq!(held, bytes + pods.len() * 2 * OVERHEAD_BYTES);
    }

    #[test]
    fn what_is_large_or_seldom_read_is_passed_over() {
        let (entry, mut object) = pod("a", 1);
        let (pods, leases) = (resource::of::<Pod>(), resource::of::<Lease>());
        assert!(Fresh::takes(pods, &entry, &object) && !Fresh::takes(leases, &entry, &object));
        object.meta_mut().managed_fields = Some(vec![ManagedFieldsEntry::default()]);
        assert!(!Fresh::takes(pods, &entry, &object));
        let (long, object) = pod(&"a".repeat(OBJECT_BYTES_MAX), 1);
        assert!(!Fresh::takes(pods, &long, &object));
    }

    #[test]
    fn what_is_shared_is_changed_on_a_copy() {
        let (_, mut object) = pod("a", 1);
        let own = Arc::as_ptr(&object.0);
        object.meta_mut().uid = Some("u".to_owned());
        assert!(std::ptr::addr_eq(own, Arc::as_ptr(&object.0)), "the only holder");
        let shared = object.share();
        object.meta_mut().uid = Some("v".to_owned());
        assert_eq!((shared.meta().uid.as_deref(), object.meta().uid.as_deref()), (Some("u"), Some("v")));
    }
}
