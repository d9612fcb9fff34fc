//! A map that drops the least recently used entries.

use std::collections::BTreeMap;

/// At most `capacity` entries. No clock: "used" is the order of calls.
#[derive(Debug)]
pub struct Lru<K, V> {
    entries: BTreeMap<K, (u64, V)>,
    by_use: BTreeMap<u64, K>,
    uses: u64,
    capacity: usize,
}

impl<K: Ord + Clone, V> Lru<K, V> {
    /// An empty map for `capacity` entries; 0 counts as 1.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { entries: BTreeMap::new(), by_use: BTreeMap::new(), uses: 0, capacity: capacity.max(1) }
    }

    /// The value of `key`, which counts as used.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let (used, value) = self.entries.get_mut(key)?;
        self.by_use.remove(used);
        self.uses += 1;
        *used = self.uses;
        self.by_use.insert(self.uses, key.clone());
        Some(value)
    }

    /// Whether `key` exists. This does not count as use.
    #[must_use]
    pub fn contains(&self, key: &K) -> bool {
        self.entries.contains_key(key)
    }

    /// Sets the value of `key`. Above the capacity, the least recently used entry is dropped.
    pub fn insert(&mut self, key: K, value: V) {
        self.uses += 1;
        if let Some((used, _)) = self.entries.insert(key.clone(), (self.uses, value)) {
            self.by_use.remove(&used);
        }
        self.by_use.insert(self.uses, key);
        if self.entries.len() > self.capacity
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.entries.remove(&oldest);
        }
    }

    /// Removes `key`.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let (used, value) = self.entries.remove(key)?;
        self.by_use.remove(&used);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let mut lru = Lru::new(2);
        lru.insert("a", 1);
        lru.insert("b", 2);
        assert_eq!(lru.get_mut(&"a"), Some(&mut 1));
        lru.insert("c", 3);
        assert_eq!(["a", "b", "c"].map(|key| lru.contains(&key)), [true, false, true]);
        lru.insert("a", 4);
        lru.insert("d", 5);
        assert_eq!(["a", "c", "d"].map(|key| lru.contains(&key)), [true, false, true]);
        assert_eq!((lru.remove(&"a"), lru.entries.len(), lru.by_use.len()), (Some(4), 1, 1));
    }
}
