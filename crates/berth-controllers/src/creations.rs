//! Pods on their way to the store, by the uid of their owner.
//!
//! A ReplicaSet that is deleted while it creates pods is no more in any cache, but some of its pods are still to come. The Deployment whose pods they are waits
//! until they are there, or are known not to come.

use crate::lock;
use berth_identity::{Revision, Uid};
use std::{
    collections::BTreeMap,
    sync::{Mutex, OnceLock},
};

type Handler = Box<dyn Fn(&Uid) + Send + Sync>;

/// The creations of one process.
#[derive(Default)]
pub struct Creations {
    by_owner: Mutex<BTreeMap<Uid, Creating>>,
    ended: OnceLock<Handler>,
}

/// The creations of one owner.
#[derive(Clone, Copy, Debug, Default)]
struct Creating {
    under_way: usize,
    /// Of the newest pod that is stored.
    newest: Revision,
}

/// One creation. It ends when this is dropped.
pub(crate) struct Creation<'a> {
    all: &'a Creations,
    owner: Uid,
    wrote: Revision,
}

impl Creations {
    /// A creation for `owner` begins. To be called before the caller checks that the owner is there: a reader that sees that it is not also sees this.
    pub(crate) fn begin(&self, owner: &Uid) -> Creation<'_> {
        lock(&self.by_owner).entry(owner.clone()).or_default().under_way += 1;
        Creation { all: self, owner: owner.clone(), wrote: Revision::default() }
    }

    /// Has `handler` called with each owner whose creations have all ended. Once.
    pub(crate) fn on_end(&self, handler: impl Fn(&Uid) + Send + Sync + 'static) {
        // A second handler would be a fault of the wiring; there is none.
        drop(self.ended.set(Box::new(handler)));
    }

    /// Whether a cache of pods that is complete up to `shown` shows all that this owner has had created, with nothing under way.
    pub(crate) fn are_shown(&self, owner: &Uid, shown: Revision) -> bool {
        lock(&self.by_owner).get(owner).is_none_or(|creating| creating.is_shown(shown))
    }

    /// The cache of pods is complete up to `shown`.
    pub(crate) fn advance(&self, shown: Revision) {
        lock(&self.by_owner).retain(|_, creating| !creating.is_shown(shown));
    }
}

impl Creating {
    fn is_shown(self, shown: Revision) -> bool {
        self.under_way == 0 && self.newest <= shown
    }
}

impl Creation<'_> {
    /// The pod is stored at this revision.
    pub(crate) fn wrote(&mut self, revision: Revision) {
        self.wrote = revision;
    }
}

impl Drop for Creation<'_> {
    fn drop(&mut self) {
        let mut by_owner = lock(&self.all.by_owner);
        let creating = by_owner.entry(self.owner.clone()).or_default();
        creating.under_way = creating.under_way.saturating_sub(1);
        creating.newest = creating.newest.max(self.wrote);
        let has_ended = creating.under_way == 0;
        drop(by_owner);
        if has_ended && let Some(handler) = self.all.ended.get() {
            handler(&self.owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    #[test]
    fn an_owners_pods_are_shown_when_none_is_under_way_and_the_cache_has_the_newest() {
        let (creations, ends) = (Creations::default(), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&ends);
        creations.on_end(move |_| _ = counted.fetch_add(1, Ordering::SeqCst));
        let (set, other) = (Uid::from("set"), Uid::from("other"));
        let are_shown = |shown: u64| creations.are_shown(&set, Revision(shown));
        assert!(are_shown(0), "it has none");
        let (mut first, second) = (creations.begin(&set), creations.begin(&set));
        first.wrote(Revision(7));
        drop(first);
        assert!(!are_shown(9) && creations.are_shown(&other, Revision(0)), "one is under way");
        drop(second);
        assert!(!are_shown(6) && are_shown(7));
        assert_eq!(ends.load(Ordering::SeqCst), 1, "once for both");
        creations.advance(Revision(6));
        assert!(!are_shown(6));
        creations.advance(Revision(7));
        assert!(are_shown(0), "it is forgotten");
    }
}
