//! Shares equal values that many objects have.

use foldhash::fast::FixedState;
use std::{
    cell::RefCell,
    hash::{BuildHasher, Hash},
    sync::Arc,
};

/// The number of slots. It exceeds the number of templates whose pods change at one time, and the cache stays small
/// enough to live as long as its thread.
const PLACES: usize = 256;

/// The largest value that is cached, in bytes. A template's labels take some hundred. Clients choose the size of
/// objects, so without a limit each slot could keep the largest object long after its deletion.
const BYTES_MAX: usize = 1 << 10;

/// Chooses the slot of a value. Every decoded object hashes some values, so the hash must be cheap. It need not be
/// unpredictable: a client that forces collisions only causes extra copies.
const HASHES: FixedState = FixedState::with_seed(0);

/// A cache of recently read values. Equal values share one allocation: a thousand pods of one template have one set of
/// labels.
///
/// Keep it in a `thread_local!`, so that no thread waits. A value that hashes to an occupied slot replaces the old one.
/// Sharing affects memory use only.
#[derive(Debug)]
pub struct Recent<T: ?Sized>(RefCell<Vec<Option<Arc<T>>>>);

impl<T: ?Sized> Default for Recent<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: ?Sized> Recent<T> {
    /// Returns an empty cache.
    #[must_use]
    pub const fn new() -> Self {
        Self(RefCell::new(Vec::new()))
    }

    /// Returns the cached value for `key` if it `is_same`. Otherwise it caches and returns the result of `make`. Equal
    /// values must have equal keys. `bytes` is the size of the value's texts. Values above a KiB are not cached.
    pub fn share(&self, bytes: usize, key: impl Hash, is_same: impl FnOnce(&T) -> bool, make: impl FnOnce() -> Arc<T>) -> Arc<T> {
        if BYTES_MAX < bytes {
            return make();
        }
        let mut places = self.0.borrow_mut();
        places.resize(PLACES, None);
        let place = &mut places[usize::try_from(HASHES.hash_one(key) % PLACES as u64).unwrap_or_default()];
        match place {
            Some(known) if is_same(known) => Arc::clone(known),
            _ => Arc::clone(place.insert(make())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one_until_another_takes_their_place() {
        let recent = Recent::<str>::new();
        let share = |text: &str| recent.share(text.len(), text, |known| known == text, || text.into());
        let first = share("web");
        assert!(Arc::ptr_eq(&first, &share("web")));
        // With far more values than slots, some value replaces the first one.
        let others: Vec<_> = (0..PLACES * 20).map(|n| share(&n.to_string())).collect();
        assert!(others.iter().enumerate().all(|(n, other)| **other == *n.to_string()));
        let again = share("web");
        assert_eq!((&*again, Arc::ptr_eq(&first, &again)), ("web", false));
    }

    #[test]
    fn what_is_large_is_not_kept() {
        let recent = Recent::<str>::new();
        let share = |text: &str| recent.share(text.len(), text, |known| known == text, || text.into());
        let [small, large] = [BYTES_MAX, BYTES_MAX + 1].map(|bytes| share(&"a".repeat(bytes)));
        assert_eq!([Arc::strong_count(&small), Arc::strong_count(&large)], [2, 1]);
    }

    #[test]
    fn values_that_share_a_key_are_distinguished() {
        let recent = Recent::<str>::new();
        let share = |text: &str| recent.share(text.len(), 0, |known| known == text, || text.into());
        assert_eq!([share("a"), share("b"), share("a")].map(|text| text.to_string()), ["a", "b", "a"]);
    }
}
