//! Objects in order, most of whose changes are to what is there already.

use berth_identity::Lookup;
use std::{
    borrow::Borrow,
    collections::{BTreeMap, btree_map},
    hash::Hash,
    ops::RangeBounds,
};

/// A map in the order of its keys. A value is found, and replaced, by the hash of its key: a look through an ordered map of ten thousand objects reads dozens of keys, each
/// where nothing else is, and most changes of an object are of its status. Only what comes and goes is put in order.
#[derive(Clone, Debug)]
pub(crate) struct Sorted<K, V> {
    order: BTreeMap<K, Slot>,
    slots: Lookup<K, Slot>,
    values: Vec<Option<V>>,
    free: Vec<Slot>,
}

/// The place of a value among all.
type Slot = usize;

/// So many places are always worth keeping.
const FEW: usize = 64;

impl<K, V> Default for Sorted<K, V> {
    fn default() -> Self {
        Self { order: BTreeMap::new(), slots: Lookup::default(), values: Vec::new(), free: Vec::new() }
    }
}

impl<K: Ord + Hash + Clone, V> Sorted<K, V> {
    pub(crate) fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.values[*self.slots.get(key)?].as_ref()
    }

    /// Gives the value that the key had.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        if let Some(slot) = self.slots.get(&key) {
            return self.values[*slot].replace(value);
        }
        let slot = self.free.pop().unwrap_or(self.values.len());
        match self.values.get_mut(slot) {
            Some(free) => *free = Some(value),
            None => self.values.push(Some(value)),
        }
        self.slots.insert(key.clone(), slot);
        self.order.insert(key, slot);
        None
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let slot = self.slots.remove(key)?;
        self.order.remove(key);
        let value = self.values[slot].take();
        self.free.push(slot);
        if FEW < self.values.len() && self.order.len() < self.values.len() / 8 {
            self.close_up();
        }
        value
    }

    /// Leaves no free places.
    fn close_up(&mut self) {
        let mut values = Vec::with_capacity(self.order.len());
        for (key, slot) in &mut self.order {
            let Some(value) = self.values[*slot].take() else { continue };
            *slot = values.len();
            self.slots.insert(key.clone(), *slot);
            values.push(Some(value));
        }
        (self.values, self.free) = (values, Vec::new());
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
        self.order.range(range).filter_map(|(key, slot)| Some((key, self.values[*slot].as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// After any changes it has what an ordered map has, in its order.
        #[test]
        fn it_is_an_ordered_map(steps in proptest::collection::vec((0_u8..40, proptest::option::weighted(0.6, 0_u32..1000)), 1..200)) {
            let (mut sorted, mut map) = (Sorted::default(), BTreeMap::new());
            for (key, value) in steps {
                let key = key.to_string();
                match value {
                    Some(value) => prop_assert_eq!(sorted.insert(key.clone(), value), map.insert(key.clone(), value)),
                    None => prop_assert_eq!(sorted.remove(&key), map.remove(&key)),
                }
                prop_assert_eq!(sorted.get(&key), map.get(&key));
                prop_assert_eq!((sorted.len(), sorted.is_empty()), (map.len(), map.is_empty()));
                prop_assert!(sorted.iter().eq(&map) && sorted.keys().eq(map.keys()) && sorted.values().eq(map.values()));
                prop_assert!(sorted.range(key.clone()..).eq(map.range(key..)));
                prop_assert!(sorted.values.len() <= 40, "places are taken again");
            }
        }
    }

    #[test]
    fn what_is_gone_leaves_no_places_behind() {
        let mut sorted = Sorted::default();
        (0..10_000).for_each(|n| _ = sorted.insert(n, n));
        assert!((0..10_000).filter(|n| n % 1000 != 7).all(|n| sorted.remove(&n) == Some(n)));
        assert!(sorted.iter().eq((0..10).map(|n| n * 1000 + 7).collect::<Vec<_>>().iter().map(|n| (n, n))));
        assert!(sorted.values.capacity() <= FEW && sorted.free.len() <= FEW, "{} {}", sorted.values.capacity(), sorted.free.len());
        assert_eq!((sorted.get(&5007), sorted.get(&5008)), (Some(&5007), None));
        assert_eq!((sorted.insert(5008, 1), sorted.len()), (None, 11));
    }
}
