//! Lists in progress: the revisions that their next pages show, and the versions that are kept for them alone.
//!
//! A version that history gives up is kept while a list at a revision that shows it continues. The memory for this is bounded: beyond the limit, lists
//! end. The first to end are those of the client that causes most of it, oldest first.

use crate::{Key, Revision, env::Timestamp};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
    sync::Arc,
};

/// What a list that goes on costs by itself, in bytes.
const PIN_BYTES: usize = 256;

/// How many lists of one owner go on at once; clients list a resource at a time, with a few at work for each.
const PINS_OF_OWNER_MAX: usize = 256;

/// A list by its resource, its revision and whose it is. The resource is what its keys begin with.
pub(crate) type PinId = (Box<str>, Revision, Arc<str>);

#[derive(Debug)]
struct Pin {
    owner: Arc<str>,
    until: Timestamp,
    /// Lists of the owner that began at the same revision.
    lists: usize,
    kept: Vec<Kept>,
    bytes: usize,
}

/// A version that is kept for lists alone. It is recorded with the newest list that shows it.
#[derive(Debug)]
struct Kept {
    key: Key,
    since: Revision,
    bytes: usize,
}

/// What the lists of one owner take.
#[derive(Debug, Default)]
struct Owner {
    bytes: usize,
    /// The oldest first.
    pins: BTreeSet<(Revision, Box<str>)>,
}

#[derive(Debug)]
pub(crate) struct Pins {
    by_resource: BTreeMap<Box<str>, BTreeMap<Revision, Vec<Pin>>>,
    owners: BTreeMap<Arc<str>, Owner>,
    bytes: usize,
    bytes_max: usize,
}

impl Pins {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { by_resource: BTreeMap::new(), owners: BTreeMap::new(), bytes: 0, bytes_max }
    }

    /// Whether a list of the resource goes on at the revision.
    pub(crate) fn is_pinned(&self, resource: &str, revision: Revision) -> bool {
        self.by_resource.get(resource).is_some_and(|pins| pins.contains_key(&revision))
    }

    /// A list of `owner` goes on until then.
    pub(crate) fn add(&mut self, resource: &str, revision: Revision, owner: &str, until: Timestamp) {
        let at = self.by_resource.entry(resource.into()).or_default().entry(revision).or_default();
        if let Some(pin) = at.iter_mut().find(|pin| *pin.owner == *owner) {
            pin.lists += 1;
            pin.until = pin.until.max(until);
            return;
        }
        let owner: Arc<str> = owner.into();
        at.push(Pin { owner: Arc::clone(&owner), until, lists: 1, kept: Vec::new(), bytes: PIN_BYTES });
        let of_owner = self.owners.entry(owner).or_default();
        of_owner.pins.insert((revision, resource.into()));
        of_owner.bytes += PIN_BYTES;
        self.bytes += PIN_BYTES;
    }

    /// A list has come to its end; gives it where it was the last of its owner at the revision.
    pub(crate) fn end(&mut self, resource: &str, revision: Revision, owner: &str) -> Option<PinId> {
        let pin = self.by_resource.get_mut(resource)?.get_mut(&revision)?.iter_mut().find(|pin| *pin.owner == *owner)?;
        pin.lists = pin.lists.saturating_sub(1);
        (pin.lists == 0).then(|| (resource.into(), revision, Arc::clone(&pin.owner)))
    }

    /// Takes over a version that history gives up and that was the newest from `since` to before `replaced`; `false`: no list shows it.
    pub(crate) fn keep(&mut self, resource: &str, key: &Key, since: Revision, replaced: Revision, bytes: usize) -> bool {
        let Some(before) = replaced.0.checked_sub(1).map(Revision).filter(|before| since <= *before) else { return false };
        self.put(resource, since..=before, Kept { key: key.clone(), since, bytes }).is_none()
    }

    /// Puts a version with the newest list of those revisions; gives it back where there is none.
    fn put(&mut self, resource: &str, revisions: RangeInclusive<Revision>, kept: Kept) -> Option<Kept> {
        let pins = self.by_resource.get_mut(resource).and_then(|pins| pins.range_mut(revisions).next_back());
        let Some(pin) = pins.and_then(|(_, pins)| pins.first_mut()) else { return Some(kept) };
        pin.bytes += kept.bytes;
        self.bytes += kept.bytes;
        if let Some(owner) = self.owners.get_mut(&pin.owner) {
            owner.bytes += kept.bytes;
        }
        pin.kept.push(kept);
        None
    }

    /// Ends a list. Gives the versions that no other list shows, by key and the revision of their write.
    pub(crate) fn release(&mut self, id: &PinId) -> Vec<(Key, Revision)> {
        let (resource, revision, owner) = id;
        let Some(pin) = self.remove(resource, *revision, owner) else { return Vec::new() };
        self.bytes -= pin.bytes;
        if let Some(of_owner) = self.owners.get_mut(owner) {
            of_owner.bytes -= pin.bytes;
            of_owner.pins.remove(&(*revision, resource.clone()));
            if of_owner.pins.is_empty() {
                self.owners.remove(owner);
            }
        }
        let passed_on = |kept: Kept| self.put(resource, kept.since..=*revision, kept).map(|kept| (kept.key, kept.since));
        pin.kept.into_iter().filter_map(passed_on).collect()
    }

    fn remove(&mut self, resource: &str, revision: Revision, owner: &str) -> Option<Pin> {
        let pins = self.by_resource.get_mut(resource)?;
        let at = pins.get_mut(&revision)?;
        let pin = at.swap_remove(at.iter().position(|pin| *pin.owner == *owner)?);
        if at.is_empty() {
            pins.remove(&revision);
        }
        if pins.is_empty() {
            self.by_resource.remove(resource);
        }
        Some(pin)
    }

    /// A list that has to end, while what is kept is too much or its owner has too many.
    pub(crate) fn excess(&self) -> Option<PinId> {
        let of = |(name, owner): (&Arc<str>, &Owner)| {
            let (revision, resource) = owner.pins.first()?;
            Some((resource.clone(), *revision, Arc::clone(name)))
        };
        if self.bytes_max < self.bytes {
            return self.owners.iter().max_by_key(|(_, owner)| owner.bytes).and_then(of);
        }
        self.owners.iter().find(|(_, owner)| PINS_OF_OWNER_MAX < owner.pins.len()).and_then(of)
    }

    /// Lists whose time is over by `now`.
    pub(crate) fn due(&self, now: Timestamp) -> Vec<PinId> {
        self.ids(|_, pin| pin.until <= now)
    }

    /// Lists at revisions before this one.
    pub(crate) fn before(&self, oldest: Revision) -> Vec<PinId> {
        self.ids(|revision, _| revision < oldest)
    }

    fn ids(&self, is_wanted: impl Fn(Revision, &Pin) -> bool) -> Vec<PinId> {
        let all = self.by_resource.iter().flat_map(|(resource, pins)| pins.iter().map(move |(revision, at)| (resource, *revision, at)));
        let wanted = all.flat_map(|(resource, revision, at)| at.iter().map(move |pin| (resource, revision, pin)));
        let wanted = wanted.filter(|(_, revision, pin)| is_wanted(*revision, pin));
        wanted.map(|(resource, revision, pin)| (resource.clone(), revision, Arc::clone(&pin.owner))).collect()
    }

    /// Counts again what is kept for lists. For tests.
    #[cfg(test)]
    pub(crate) fn check_counts(&self) -> usize {
        let pins: Vec<_> = self.by_resource.values().flat_map(BTreeMap::values).flatten().collect();
        let bytes = |pin: &&Pin| PIN_BYTES + pin.kept.iter().map(|kept| kept.bytes).sum::<usize>();
        assert!(pins.iter().all(|pin| bytes(pin) == pin.bytes));
        assert_eq!(pins.iter().map(bytes).sum::<usize>(), self.bytes);
        assert_eq!(self.owners.values().map(|owner| owner.bytes).sum::<usize>(), self.bytes);
        assert_eq!(self.owners.values().map(|owner| owner.pins.len()).sum::<usize>(), pins.len());
        assert!(self.bytes <= self.bytes_max);
        pins.iter().map(|pin| pin.kept.len()).sum()
    }
}
