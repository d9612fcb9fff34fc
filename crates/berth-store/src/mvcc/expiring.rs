//! What is to go some time.

use super::folder_of;
use crate::{Key, env::Timestamp};
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// How many keys are ended together: after a long rest many may be due, and other writes wait for as long as this takes.
const EXPIRED_AT_ONCE: usize = 1000;

/// How many keys may be there that are to go some time. They are events, and an hour of a busy cluster takes a gigabyte.
const EXPIRING_MAX: usize = 20_000;

/// Keys and when they are to go. Beyond [`EXPIRING_MAX`], the folder with the most keys loses those first whose time comes first: a namespace that is
/// full of events costs the others none of theirs.
#[derive(Debug, Default)]
pub(super) struct Expiring {
    by_time: BTreeSet<(Timestamp, Key)>,
    folders: BTreeMap<Box<str>, BTreeSet<(Timestamp, Key)>>,
}

impl Expiring {
    pub(super) fn insert(&mut self, at: Timestamp, key: Key) {
        let folder = folder_of(&key);
        match self.folders.get_mut(folder) {
            Some(keys) => drop(keys.insert((at, key.clone()))),
            None => drop(self.folders.insert(folder.into(), BTreeSet::from([(at, key.clone())]))),
        }
        self.by_time.insert((at, key));
    }

    pub(super) fn remove(&mut self, at: Timestamp, key: &Key) {
        let (folder, pair) = (folder_of(key), (at, key.clone()));
        self.by_time.remove(&pair);
        if let Some(keys) = self.folders.get_mut(folder) {
            keys.remove(&pair);
            if keys.is_empty() {
                self.folders.remove(folder);
            }
        }
    }

    /// Up to [`EXPIRED_AT_ONCE`] keys: those whose time is over by `now`; where there are none, those beyond [`EXPIRING_MAX`].
    pub(super) fn due(&self, now: Timestamp) -> Vec<&Key> {
        let over: Vec<&Key> = self.by_time.iter().take_while(|(at, _)| *at <= now).map(|(_, key)| key).take(EXPIRED_AT_ONCE).collect();
        if over.is_empty() { self.beyond(self.by_time.len().saturating_sub(EXPIRING_MAX)) } else { over }
    }

    /// One key after another from the folder that has the most left.
    fn beyond(&self, count: usize) -> Vec<&Key> {
        if count == 0 {
            return Vec::new();
        }
        let mut largest: BinaryHeap<_> = self.folders.iter().map(|(name, keys)| (keys.len(), name)).collect();
        let mut first: BTreeMap<&str, _> = BTreeMap::new();
        let mut beyond = Vec::new();
        while beyond.len() < count.min(EXPIRED_AT_ONCE)
            && let Some((left, name)) = largest.pop()
        {
            let keys = first.entry(name).or_insert_with(|| self.folders[name].iter());
            if let Some((_, key)) = keys.next() {
                beyond.push(key);
                largest.push((left - 1, name));
            }
        }
        beyond
    }
}
