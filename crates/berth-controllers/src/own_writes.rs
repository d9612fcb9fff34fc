//! A controller's own writes that its caches do not contain yet. A key with such writes is not reconciled, because the plan would be based
//! on an old state. Entries never expire.

use crate::cluster::{DeleteParams, RawObject};
use berth_identity::{GroupResource, ObjectRef, Revision};
use berth_workloads::plan::NewObject;
use std::collections::{BTreeMap, BTreeSet};

/// Awaited writes by the keys of one controller.
pub struct OwnWrites<K> {
    /// For each key, the newest awaited revision of each resource.
    revisions: BTreeMap<K, BTreeMap<GroupResource, Revision>>,
    /// The same by revision, for the progress of a cache.
    by_revision: BTreeMap<GroupResource, BTreeSet<(Revision, K)>>,
    /// Deleted objects that may still be cached, by key, then by object with its uid.
    gone: BTreeMap<K, BTreeSet<ObjectRef>>,
    unsettled: BTreeMap<K, Vec<Unsettled>>,
    /// Keys with possible writes that none of these fields contain.
    in_doubt: BTreeSet<K>,
}

/// The writes of a plan's execution to wait for.
#[derive(Debug, Default)]
pub struct Writes {
    /// The newest written revision of each resource.
    pub revisions: BTreeMap<GroupResource, Revision>,
    /// Objects that were deleted at once.
    pub gone: Vec<ObjectRef>,
    /// Writes that may or may not have happened.
    pub unsettled: Vec<Unsettled>,
    /// Whether a write may have happened without a record.
    pub in_doubt: bool,
}

/// A write whose outcome is unknown. It is repeated until the answer is definite, before its key is planned again.
#[derive(Debug)]
pub enum Unsettled {
    /// A create in this group. It is repeated under the same name.
    Create(NewObject),
    /// A delete. Its options contain the uid.
    Delete(ObjectRef, DeleteParams),
    /// A patch with a precondition. It is not repeated. Instead, an uncached read returns the revision to wait for.
    Read(ObjectRef),
}

/// The state of the caches, for [`OwnWrites::blocked`].
pub trait Shown {
    /// Up to which revision the cache of `resource` is complete.
    fn revision(&self, resource: &GroupResource) -> Revision;
    /// Whether the cache no longer contains the object, or contains it as terminating.
    fn is_gone(&self, gone: &ObjectRef) -> bool;
}

impl Writes {
    /// Records a write and its new version.
    pub fn wrote(&mut self, resource: GroupResource, written: &RawObject) {
        let newest = self.revisions.entry(resource).or_default();
        *newest = written.revision.max(*newest);
    }

    /// Adds the writes of another part of the plan.
    pub fn merge(&mut self, other: Self) {
        for (resource, revision) in other.revisions {
            let newest = self.revisions.entry(resource).or_default();
            *newest = revision.max(*newest);
        }
        self.gone.extend(other.gone);
        self.unsettled.extend(other.unsettled);
        self.in_doubt |= other.in_doubt;
    }
}

impl<K> Default for OwnWrites<K> {
    fn default() -> Self {
        Self {
            revisions: BTreeMap::new(),
            by_revision: BTreeMap::new(),
            gone: BTreeMap::new(),
            unsettled: BTreeMap::new(),
            in_doubt: BTreeSet::new(),
        }
    }
}

impl<K: Ord + Clone> OwnWrites<K> {
    /// Makes `key` wait for these writes too.
    pub fn record(&mut self, key: &K, writes: Writes) {
        for (resource, revision) in writes.revisions {
            let newest = self.revisions.entry(key.clone()).or_default().entry(resource.clone()).or_default();
            let index = self.by_revision.entry(resource).or_default();
            index.remove(&(*newest, key.clone()));
            *newest = revision.max(*newest);
            index.insert((*newest, key.clone()));
        }
        if !writes.gone.is_empty() {
            self.gone.entry(key.clone()).or_default().extend(writes.gone);
        }
        if !writes.unsettled.is_empty() {
            self.unsettled.entry(key.clone()).or_default().extend(writes.unsettled);
        }
        if writes.in_doubt {
            self.in_doubt.insert(key.clone());
        }
    }

    /// Whether a write for `key` may have happened without a record. The key must not be planned before the caches are as new as the
    /// cluster.
    #[must_use]
    pub fn is_in_doubt(&self, key: &K) -> bool {
        self.in_doubt.contains(key)
    }

    /// Makes `key` wait until the caches are complete up to these revisions, and so contain all its writes.
    pub fn await_all(&mut self, key: &K, newest: BTreeMap<GroupResource, Revision>) {
        self.in_doubt.remove(key);
        self.record(key, Writes { revisions: newest, ..Writes::default() });
    }

    /// Records that the cache of `resource` is complete up to `revision`. Returns the keys that waited for that.
    pub fn advance(&mut self, resource: &GroupResource, revision: Revision) -> Vec<K> {
        let Some(index) = self.by_revision.get_mut(resource) else { return Vec::new() };
        let mut woken = Vec::new();
        while index.first().is_some_and(|(awaited, _)| *awaited <= revision) {
            let Some((_, key)) = index.pop_first() else { break };
            woken.push(key);
        }
        for key in &woken {
            self.forget_revision(key, resource);
        }
        woken
    }

    /// Removes `key`, whose object is deleted, so no plan follows. Its writes are still awaited, because an object of the same name may be
    /// created before the caches contain them.
    pub fn forget(&mut self, key: &K) {
        self.gone.remove(key);
        self.unsettled.remove(key);
        self.in_doubt.remove(key);
    }

    /// Removes and returns the writes of unknown outcome of `key`, for the caller to repeat.
    pub fn take_unsettled(&mut self, key: &K) -> Vec<Unsettled> {
        self.unsettled.remove(key).unwrap_or_default()
    }

    /// Whether `key` must still wait, and for which resource. Removes entries that `shown` contains.
    pub fn blocked(&mut self, key: &K, shown: &impl Shown) -> Option<GroupResource> {
        let awaited: Vec<_> =
            self.revisions.get(key).into_iter().flatten().map(|(resource, revision)| (resource.clone(), *revision)).collect();
        for (resource, revision) in awaited {
            if shown.revision(&resource) < revision {
                return Some(resource);
            }
            self.by_revision.entry(resource.clone()).or_default().remove(&(revision, key.clone()));
            self.forget_revision(key, &resource);
        }
        let gone = self.gone.get_mut(key)?;
        gone.retain(|object| !shown.is_gone(object));
        let blocked = gone.first().map(|object| object.resource.clone());
        if blocked.is_none() {
            self.gone.remove(key);
        }
        blocked
    }

    fn forget_revision(&mut self, key: &K, resource: &GroupResource) {
        if let Some(awaited) = self.revisions.get_mut(key) {
            awaited.remove(resource);
            if awaited.is_empty() {
                self.revisions.remove(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_identity::ObjectKey;
    use berth_workloads::resources::PODS;

    const SETS: GroupResource = GroupResource::from_static("apps", "replicasets");

    struct Caches {
        pods: u64,
        sets: u64,
        shows_gone: bool,
    }

    impl Shown for Caches {
        fn revision(&self, resource: &GroupResource) -> Revision {
            Revision(if *resource == PODS { self.pods } else { self.sets })
        }
        fn is_gone(&self, _: &ObjectRef) -> bool {
            self.shows_gone
        }
    }

    fn writes(revisions: &[(GroupResource, u64)]) -> Writes {
        let revisions = revisions.iter().map(|(resource, revision)| (resource.clone(), Revision(*revision))).collect();
        Writes { revisions, ..Writes::default() }
    }

    #[test]
    fn a_key_waits_until_every_cache_shows_its_newest_write() {
        let mut own = OwnWrites::default();
        own.record(&"a", writes(&[(PODS, 5), (SETS, 6)]));
        own.record(&"a", writes(&[(PODS, 9)]));
        let mut blocked = |pods, sets| own.blocked(&"a", &Caches { pods, sets, shows_gone: true });
        assert_eq!(blocked(8, 7), Some(PODS));
        assert_eq!(blocked(9, 5), Some(SETS));
        assert_eq!(blocked(9, 6), None);
    }

    #[test]
    fn only_keys_whose_write_is_shown_are_woken_and_only_once() {
        let mut own = OwnWrites::default();
        own.record(&"a", writes(&[(PODS, 5)]));
        own.record(&"b", writes(&[(PODS, 7)]));
        assert_eq!(own.advance(&PODS, Revision(4)), Vec::<&str>::new());
        assert_eq!(own.advance(&PODS, Revision(6)), ["a"]);
        assert_eq!(own.advance(&PODS, Revision(9)), ["b"]);
        assert_eq!(own.advance(&PODS, Revision(9)), Vec::<&str>::new());
        assert!(own.revisions.is_empty());
    }

    #[test]
    fn what_was_written_for_an_object_is_awaited_by_another_of_its_name() {
        let mut own = OwnWrites::default();
        own.record(&"a", writes(&[(SETS, 6)]));
        own.forget(&"a");
        assert_eq!(own.blocked(&"a", &Caches { pods: 9, sets: 5, shows_gone: true }), Some(SETS));
        assert_eq!(own.advance(&SETS, Revision(6)), ["a"]);
        assert!(own.revisions.is_empty() && own.by_revision.values().all(BTreeSet::is_empty));
    }

    #[test]
    fn a_deleted_object_is_awaited_until_the_cache_loses_it() {
        let mut own = OwnWrites::default();
        let gone = ObjectRef { resource: PODS, key: ObjectKey::new("ns", "p"), uid: "1".into(), resource_version: None };
        own.record(&"a", Writes { gone: vec![gone], ..Writes::default() });
        assert_eq!(own.blocked(&"a", &Caches { pods: 0, sets: 0, shows_gone: false }), Some(PODS));
        assert_eq!(own.blocked(&"b", &Caches { pods: 0, sets: 0, shows_gone: false }), None);
        assert_eq!(own.blocked(&"a", &Caches { pods: 0, sets: 0, shows_gone: true }), None);
    }
}
