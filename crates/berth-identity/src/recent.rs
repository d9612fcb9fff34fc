//! Equal values that many objects carry, kept once.

use foldhash::fast::FixedState;
use std::{
    cell::RefCell,
    hash::{BuildHasher, Hash},
    sync::Arc,
};

/// How many values are remembered: more than the templates whose pods change at one time, and few enough to be kept for ever.
const PLACES: usize = 256;

/// How large a value may be that is remembered, in bytes: a template's labels are some hundred. Whoever writes objects decides what is read, so that without
/// this each place could hold as much as an object may, long after all objects are gone.
const BYTES_MAX: usize = 1 << 10;

/// Which place a value has. Each view that is read asks for some, so that a hash must cost little; and need not be hard to foresee: who makes values fall on
/// one place only has them kept several times.
const HASHES: FixedState = FixedState::with_seed(0);

/// Values that were read lately. Whoever reads an equal one gets the one that is there: a thousand pods of one template keep one set of labels.
///
/// To be kept in a `thread_local!`, so that nobody waits. A value is forgotten when another one falls on its place; whether two equal values are one
/// shows in nothing but memory.
#[derive(Debug)]
pub struct Recent<T: ?Sized>(RefCell<Vec<Option<Arc<T>>>>);

impl<T: ?Sized> Default for Recent<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: ?Sized> Recent<T> {
    /// Nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(RefCell::new(Vec::new()))
    }

    /// The value that is remembered for `key`, if it `is_same`; else what `make` gives, which is remembered in its place. Equal values have equal keys.
    /// `bytes` is what its texts take; of more than a KiB is none remembered.
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
        // Far more than there are places: some value falls on that of the first.
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
    fn values_that_share_a_key_are_told_apart() {
        let recent = Recent::<str>::new();
        let share = |text: &str| recent.share(text.len(), 0, |known| known == text, || text.into());
        assert_eq!([share("a"), share("b"), share("a")].map(|text| text.to_string()), ["a", "b", "a"]);
    }
}
