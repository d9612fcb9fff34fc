//! Ordered objects, for caches in which most changes replace an existing object.

use berth_identity::{Hashes, Name, Namespace, ObjectKey};
use berth_workloads::view::View;
use hashbrown::HashTable;
use std::{
    collections::{BTreeMap, btree_map},
    hash::{BuildHasher, Hash},
    ops::RangeBounds,
    sync::Arc,
};

/// A map in the order of its keys. A value is found and replaced by the hash of its key. A lookup in an ordered map of ten thousand objects
/// reads dozens of keys in different cache lines, and most changes are status updates. Only additions and removals change the order.
#[derive(Clone, Debug)]
pub(crate) struct Sorted<K, V> {
    order: BTreeMap<K, Slot>,
    /// The same slots by the hash of the value's own key, so that each key is stored once.
    slots: HashTable<Slot>,
    /// The hashes differ in each run, because users choose the names.
    hashes: Hashes,
    values: Vec<Option<V>>,
    free: Vec<Slot>,
}

/// A value that contains its key.
pub(crate) trait Keyed<K> {
    fn is_of(&self, key: &K) -> bool;
    /// The hash of the key.
    fn key_hash(&self, hashes: &Hashes) -> u64;
}

impl<V: View> Keyed<ObjectKey> for Arc<V> {
    fn is_of(&self, key: &ObjectKey) -> bool {
        let identity = self.identity();
        *identity.name == key.name && identity.namespace.map_or(key.namespace.is_empty(), |namespace| *namespace == key.namespace)
    }

    fn key_hash(&self, hashes: &Hashes) -> u64 {
        let identity = self.identity();
        // The same hash as that of an `ObjectKey`.
        hashes.hash_one((identity.namespace.map_or("", Namespace::as_str), identity.name))
    }
}

impl<V: View> Keyed<Name> for Arc<V> {
    fn is_of(&self, name: &Name) -> bool {
        self.identity().name == name
    }

    fn key_hash(&self, hashes: &Hashes) -> u64 {
        hashes.hash_one(self.identity().name)
    }
}

/// The index of a value.
type Slot = u32;

/// The number of slots that are never given back.
const FEW: usize = 64;

impl<K, V> Default for Sorted<K, V> {
    fn default() -> Self {
        Self { order: BTreeMap::new(), slots: HashTable::new(), hashes: Hashes::default(), values: Vec::new(), free: Vec::new() }
    }
}

impl<K: Ord + Hash, V: Keyed<K>> Sorted<K, V> {
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.value(self.find(key)?)
    }

    fn find(&self, key: &K) -> Option<Slot> {
        self.slots.find(self.hashes.hash_one(key), |slot| self.value(*slot).is_some_and(|value| value.is_of(key))).copied()
    }

    fn value(&self, slot: Slot) -> Option<&V> {
        self.values.get(slot as usize)?.as_ref()
    }

    /// Returns the former value of the key. The key must be the value's own.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        debug_assert!(value.is_of(&key), "it says another key");
        if let Some(slot) = self.find(&key) {
            return self.values[slot as usize].replace(value);
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.values.push(None);
            Slot::try_from(self.values.len() - 1).expect("the memory holds fewer objects")
        });
        self.values[slot as usize] = Some(value);
        self.note(&key, slot);
        self.order.insert(key, slot);
        None
    }

    /// Adds a new slot to the hash table.
    fn note(&mut self, key: &K, slot: Slot) {
        let (values, hashes) = (&self.values, &self.hashes);
        let hash = |slot: &Slot| values[*slot as usize].as_ref().map_or(0, |value| value.key_hash(hashes));
        self.slots.insert_unique(hashes.hash_one(key), slot, hash);
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let slot = self.order.remove(key)?;
        if let Ok(entry) = self.slots.find_entry(self.hashes.hash_one(key), |other| *other == slot) {
            entry.remove();
        }
        let value = self.values[slot as usize].take();
        self.free.push(slot);
        if FEW < self.values.len() && self.order.len() < self.values.len() / 8 {
            self.close_up();
        }
        value
    }

    /// Removes all free slots.
    fn close_up(&mut self) {
        let order = std::mem::take(&mut self.order);
        let mut left = Self { hashes: self.hashes.clone(), ..Self::default() };
        left.values.reserve_exact(order.len());
        for (key, slot) in order {
            if let Some(value) = self.values[slot as usize].take() {
                left.insert(key, value);
            }
        }
        *self = left;
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub(crate) fn keys(&self) -> btree_map::Keys<'_, K, Slot> {
        self.order.keys()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.range(..)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    pub(crate) fn range(&self, range: impl RangeBounds<K>) -> impl Iterator<Item = (&K, &V)> {
        self.order.range(range).filter_map(|(key, slot)| Some((key, self.value(*slot)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Value(u32, u32);

    impl Keyed<u32> for Value {
        fn is_of(&self, key: &u32) -> bool {
            self.0 == *key
        }

        fn key_hash(&self, hashes: &Hashes) -> u64 {
            hashes.hash_one(self.0)
        }
    }

    proptest! {
        /// After any changes, it equals an ordered map in content and order.
        #[test]
        fn it_is_an_ordered_map(steps in proptest::collection::vec((0_u32..40, proptest::option::weighted(0.6, 0_u32..1000)), 1..200)) {
            let (mut sorted, mut map) = (Sorted::default(), BTreeMap::new());
            for (key, value) in steps {
                match value.map(|value| Value(key, value)) {
                    Some(value) => prop_assert_eq!(sorted.insert(key, value.clone()), map.insert(key, value)),
                    None => prop_assert_eq!(sorted.remove(&key), map.remove(&key)),
                }
                prop_assert!((0..40).all(|key| sorted.get(&key) == map.get(&key)) && sorted.slots.len() == map.len());
                prop_assert_eq!((sorted.len(), sorted.is_empty()), (map.len(), map.is_empty()));
                prop_assert!(sorted.iter().eq(&map) && sorted.keys().eq(map.keys()) && sorted.values().eq(map.values()));
                prop_assert!(sorted.range(key..).eq(map.range(key..)));
                prop_assert!(sorted.values.len() <= 40, "places are taken again");
            }
        }
    }

    #[test]
    fn what_is_gone_leaves_no_places_behind() {
        let mut sorted = Sorted::default();
        (0..10_000).for_each(|n| _ = sorted.insert(n, Value(n, n)));
        assert!((0..10_000).filter(|n| n % 1000 != 7).all(|n| sorted.remove(&n) == Some(Value(n, n))));
        assert!(sorted.keys().copied().eq((0..10).map(|n| n * 1000 + 7)));
        let places = [sorted.values.capacity(), sorted.free.len(), sorted.slots.capacity()];
        assert!(places.iter().all(|places| *places <= 2 * FEW), "{places:?}");
        assert_eq!((sorted.get(&5007), sorted.get(&5008)), (Some(&Value(5007, 5007)), None));
        assert_eq!((sorted.insert(5008, Value(5008, 1)), sorted.len()), (None, 11));
    }

    #[test]
    fn an_object_is_found_by_the_hash_of_its_key_wherever_it_lives() {
        use berth_workloads::{endpoints::view::ZoneView, view::PodView};
        let hashes = Hashes::default();
        let mut pod = PodView::default();
        (pod.meta.namespace, pod.meta.name) = ("shop".into(), "web-1".into());
        let key = ObjectKey::new("shop", "web-1");
        let pod = Arc::new(pod);
        assert_eq!(Keyed::<ObjectKey>::key_hash(&pod, &hashes), hashes.hash_one(&key));
        assert_eq!(Keyed::<Name>::key_hash(&pod, &hashes), hashes.hash_one(&key.name));
        assert!(pod.is_of(&key) && pod.is_of(&key.name) && !pod.is_of(&ObjectKey::new("bar", "web-1")) && !pod.is_of(&Name::from("web-2")));
        let node = Arc::new(ZoneView { name: "n-1".into(), ..ZoneView::default() });
        let key = ObjectKey::cluster_scoped("n-1");
        assert_eq!(Keyed::<ObjectKey>::key_hash(&node, &hashes), hashes.hash_one(&key));
        assert!(node.is_of(&key) && !node.is_of(&ObjectKey::new("shop", "n-1")));
    }
}
