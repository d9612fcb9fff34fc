//! What is found by its key alone.

use std::{
    borrow::Borrow,
    hash::{BuildHasher, Hash},
};

/// Names are their users' choice: were the hashes known beforehand, somebody could have ten thousand objects in one place, and each lookup pass them all.
#[expect(clippy::disallowed_types, reason = "other hashes in each run, and no order that anybody could see them by")]
type Places<K, V> = std::collections::HashMap<K, V, Hashes>;

/// Hashes that are others in each run.
#[derive(Clone, Debug, Default)]
#[expect(clippy::disallowed_types, reason = "nothing may be made of a hash but a place")]
pub struct Hashes(std::hash::RandomState);

impl BuildHasher for Hashes {
    type Hasher = std::hash::DefaultHasher;

    fn build_hasher(&self) -> Self::Hasher {
        self.0.build_hasher()
    }
}

/// A map without an order, for tens of thousands of objects that are looked up by uid: a lookup reads the key that it finds, where an ordered map reads one of
/// each level, all over the memory.
#[derive(Clone, Debug)]
pub struct Lookup<K, V>(Places<K, V>);

/// So many places are always worth keeping.
const FEW: usize = 64;

impl<K, V> Default for Lookup<K, V> {
    fn default() -> Self {
        Self(Places::default())
    }
}

impl<K: Hash + Eq, V> Lookup<K, V> {
    /// The value of this key.
    #[must_use]
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.0.get(key)
    }

    /// The value of this key, to be changed.
    #[must_use]
    pub fn get_mut<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.0.get_mut(key)
    }

    /// Whether the key has a value.
    #[must_use]
    pub fn contains_key<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.0.contains_key(key)
    }

    /// Gives the key this value; gives the one that it had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.0.insert(key, value)
    }

    /// Takes the key's value out. Places that many are gone from are given back.
    pub fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let removed = self.0.remove(key);
        if FEW < self.0.capacity() && self.0.len() < self.0.capacity() / 8 {
            self.0.shrink_to(self.0.len() * 2);
        }
        removed
    }

    /// All keys and values, one after the other as it happens: nothing may be made of that.
    pub fn unordered(&self) -> impl Iterator<Item = (&K, &V)> + Clone {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn what_it_has_is_what_an_ordered_map_has() {
        let (mut lookup, mut map) = (Lookup::<String, u32>::default(), BTreeMap::new());
        for n in 0..500_u32 {
            let key = (n * 7 % 101).to_string();
            if n % 3 == 0 {
                assert_eq!(lookup.remove(key.as_str()), map.remove(key.as_str()));
            } else {
                assert_eq!(lookup.insert(key.clone(), n), map.insert(key.clone(), n));
            }
            let both = [lookup.get_mut(key.as_str()), map.get_mut(key.as_str())];
            both.into_iter().flatten().for_each(|value| *value += 1);
            assert_eq!(
                (lookup.get(key.as_str()), lookup.contains_key(key.as_str())),
                (map.get(key.as_str()), map.contains_key(key.as_str()))
            );
        }
        assert_eq!(lookup.unordered().collect::<BTreeMap<_, _>>(), map.iter().collect());
    }

    #[test]
    fn what_is_gone_leaves_no_places_behind() {
        let mut lookup = Lookup::default();
        (0..10_000).for_each(|n| _ = lookup.insert(n, n));
        assert!((0..9_990).all(|n| lookup.remove(&n) == Some(n)));
        assert!((9_990..10_000).all(|n| lookup.get(&n) == Some(&n)));
        assert!(lookup.0.capacity() <= FEW, "{}", lookup.0.capacity());
    }
}
