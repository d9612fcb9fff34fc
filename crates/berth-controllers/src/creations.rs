//! Pod creations in progress, by the uid of the owner.
//!
//! A ReplicaSet that is deleted while it creates pods is in no cache any more, but some of its pods may still be created. Its Deployment
//! waits until these exist, or are known to have failed.

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
    /// The revision of the newest stored pod.
    newest: Revision,
}

/// One creation. It ends when this is dropped.
pub(crate) struct Creation<'a> {
    all: &'a Creations,
    owner: Uid,
    wrote: Revision,
}

impl Creations {
    /// Begins a creation for `owner`. Call it before checking that the owner exists: a reader that observes the owner's deletion then also
    /// observes this creation.
    pub(crate) fn begin(&self, owner: &Uid) -> Creation<'_> {
        lock(&self.by_owner).entry(owner.clone()).or_default().under_way += 1;
        Creation { all: self, owner: owner.clone(), wrote: Revision::default() }
    }

    /// Registers `handler`, which is called with each owner whose creations have all ended. Call it once.
    pub(crate) fn on_end(&self, handler: impl Fn(&Uid) + Send + Sync + 'static) {
        // A second handler would be a wiring error. There is none.
        drop(self.ended.set(Box::new(handler)));
    }

    /// Whether this owner has a creation in progress, or pods that no cache has shown yet.
    pub(crate) fn has(&self, owner: &Uid) -> bool {
        lock(&self.by_owner).contains_key(owner)
    }

    /// Whether a cache of pods that is complete up to `shown` contains all pods created for this owner, with no creation in progress.
    pub(crate) fn are_shown(&self, owner: &Uid, shown: Revision) -> bool {
        lock(&self.by_owner).get(owner).is_none_or(|creating| creating.is_shown(shown))
    }

    /// Records that the cache of pods is complete up to `shown`.
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
    /// Records the revision of the stored pod.
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
