//! The memory of waiting requests and of open watches, counted by [share](berth_rbac::User::share).
//!
//! A share gets at most half of what the others leave. Several shares together therefore cannot use everything, and
//! each further one still gets some. A request without room is rejected at once, because it would hold its memory while
//! it waits.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The budget of all shares.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes_max: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    all: usize,
    by_share: BTreeMap<Arc<str>, usize>,
}

/// The bytes of a share. Dropping it returns them.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Arc<Budget>,
    share: Arc<str>,
    bytes: usize,
}

impl Budget {
    pub(crate) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes_max, held: Mutex::default() })
    }

    /// Takes bytes for `share`, or returns `None` if it would have more than half of what the others leave.
    pub(crate) fn take(self: &Arc<Self>, share: &str, bytes: usize) -> Option<Charge> {
        let mut held = self.held();
        let (share, own) = match held.by_share.get_key_value(share) {
            Some((share, own)) => (Arc::clone(share), *own),
            None => (share.into(), 0),
        };
        let left_by_others = self.bytes_max - (held.all - own);
        let own = own.checked_add(bytes).filter(|own| *own <= left_by_others / 2)?;
        held.all += bytes;
        held.by_share.insert(Arc::clone(&share), own);
        drop(held);
        Some(Charge { budget: Arc::clone(self), share, bytes })
    }

    /// No code panics while it holds the lock.
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let mut held = self.budget.held();
        held.all -= self.bytes;
        match held.by_share.get_mut(&self.share) {
            Some(own) if self.bytes < *own => *own -= self.bytes,
            _ => drop(held.by_share.remove(&self.share)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_has_half_of_what_the_others_leave_and_gives_it_back() {
        let budget = Budget::new(1000);
        let a = budget.take("a", 500).expect("half of all");
        assert!(budget.take("a", 1).is_none());
        let b = [200, 50].map(|bytes| budget.take("b", bytes).expect("half of the rest"));
        assert!(budget.take("b", 1).is_none());
        assert!(budget.take("c", 125).is_some(), "something is left for each user");
        assert!(budget.take("d", usize::MAX).is_none());
        drop(a);
        assert!(budget.take("b", 200).is_some(), "others left more");
        drop(b);
        let held = budget.held();
        assert_eq!((held.all, held.by_share.len()), (0, 0), "who holds nothing is forgotten");
    }
}
