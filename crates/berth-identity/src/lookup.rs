//! An unordered map for lookups by key.

use std::{
    borrow::Borrow,
    hash::{BuildHasher, DefaultHasher, Hash, Hasher},
    sync::OnceLock,
};

/// Users choose names. If users could compute the hashes, they could put ten thousand objects into one bucket, and each lookup would compare them all.
#[expect(clippy::disallowed_types, reason = "hashes with a secret seed, and an order that nothing exposes")]
type Places<K, V> = std::collections::HashMap<K, V, Hashes>;

/// The seed of this process. Unset: 0, as in tests and in the simulation, whose runs are then reproducible.
static SEED: OnceLock<u64> = OnceLock::new();

/// Seeds the hashes of all maps that this process creates from now on. Only the first call has an effect.
///
/// A process that serves users calls it before it reads an object, with a number that they cannot predict.
pub fn seed_hashes(seed: u64) {
    // A later seed would hash the keys of known maps differently.
    let _ = SEED.set(seed);
}

/// Hashes that depend on the seed of the process ([`seed_hashes`]).
#[derive(Clone, Debug)]
pub struct Hashes {
    seed: u64,
}

impl Default for Hashes {
    fn default() -> Self {
        Self { seed: SEED.get().copied().unwrap_or_default() }
    }
}

impl BuildHasher for Hashes {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> Self::Hasher {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.seed);
        hasher
    }
}

/// An unordered map for tens of thousands of objects by uid. A lookup reads only the found key. An ordered map reads
/// one key per level, all over the memory.
#[derive(Clone, Debug)]
pub struct Lookup<K, V>(Places<K, V>);

/// The capacity that is always kept.
const FEW: usize = 64;

impl<K, V> Default for Lookup<K, V> {
    fn default() -> Self {
        Self(Places::default())
    }
}

impl<K: Hash + Eq, V> Lookup<K, V> {
    /// Returns the value of this key.
    #[must_use]
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.0.get(key)
    }

    /// Returns the value of this key, mutable.
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

    /// Sets the value of this key. Returns the previous value.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.0.insert(key, value)
    }

    /// Removes and returns the value of this key. Shrinks the map after many removals.
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

    /// How many keys there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Iterates over all keys and values in arbitrary order, on which no result may depend.
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
