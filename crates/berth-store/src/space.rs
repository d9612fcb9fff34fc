//! The stored bytes, counted with every change, and their limit.
//!
//! A quota bounds the size of all keys. A sixteenth of it is reserved for writes that keep the rest running (statuses, leases). No namespace takes more
//! than half of what the others leave, so one that fills up leaves as much free as it takes. Deletions are never refused.

use crate::{Entry, Event, EventKind, Key, Layout, MAX_VALUE_BYTES, WriteError};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// What a key costs beside its text and its value, in bytes: its places in memory, and a deletion timestamp, so that marking for deletion
/// everything that is stored is paid for.
const KEY_OVERHEAD_BYTES: u64 = 512;

/// Which part of the quota is kept back for [`Purpose::Upkeep`].
const RESERVE_PART: u64 = 16;

/// What a write is for, and so how much it may use of the quota, and of a disk that fills up. Of a commit the least counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// What clients want stored: a new object, a longer one.
    Growth,
    /// What keeps the rest going: a status, a lease, a warning. May use the reserve.
    Upkeep,
    /// What makes room, or leads to it: a deletion, a deletion timestamp, a finalizer that goes. Refused only where the disk has no space to note it.
    Removal,
}

/// A bound that a write would exceed. Its text is the same each time, and so are the events and conditions with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Of all that is stored.
    Quota {
        /// In bytes, with the reserve.
        quota: u64,
    },
    /// Of a namespace: half of what the others leave.
    Namespace {
        /// Its name.
        name: Box<str>,
        /// Of all that is stored, in bytes.
        quota: u64,
    },
    /// Of the etcd that it is stored in.
    Etcd,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quota { quota } => write!(f, "the store's quota of {quota} bytes is used up"),
            Self::Etcd => OutOfSpace::Etcd.fmt(f),
            Self::Namespace { name, quota } => {
                write!(f, "namespace {name:?} uses half of what the other namespaces leave of the store's {quota} bytes")
            }
        }
    }
}

/// The size of a store. In bytes, with the cost of keys besides their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// What is stored.
    pub bytes: u64,
    /// What may be; `None`: no bound.
    pub quota: Option<u64>,
    /// What there is too little of for an object of any size; `None`: it still finds room.
    pub lacks: Option<OutOfSpace>,
    /// How many commits were refused since the start.
    pub refused: u64,
    /// What is stored, by what the keys of a resource begin with.
    pub resources: Vec<(Box<str>, u64)>,
}

/// What a store is out of, so that it takes no [`Purpose::Growth`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfSpace {
    /// What may be stored is, but for the reserve.
    Quota,
    /// Less is free on its disk than is kept for what goes on.
    Disk,
    /// The etcd that it is stored in has raised its alarm for space.
    Etcd,
}

impl fmt::Display for OutOfSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Quota => "the quota is used up",
            Self::Disk => "its disk is full, except for a reserve for deletions",
            Self::Etcd => {
                "etcd has raised its alarm for space (NOSPACE) and accepts only deletions; free space in etcd, then disarm the alarm"
            }
        })
    }
}

/// Counts of what is stored.
#[derive(Debug)]
pub(crate) struct Space {
    quota: Option<u64>,
    bytes: u64,
    /// Of keys in namespaces.
    namespaces: BTreeMap<Box<str>, u64>,
    resources: BTreeMap<Box<str>, u64>,
    refused: AtomicU64,
}

impl Space {
    /// Of these entries, without a bound.
    pub(crate) fn of<'e>(layout: &dyn Layout, entries: impl Iterator<Item = &'e Arc<Entry>>) -> Self {
        let (namespaces, resources) = (BTreeMap::new(), BTreeMap::new());
        let mut space = Self { quota: None, bytes: 0, namespaces, resources, refused: AtomicU64::new(0) };
        entries.for_each(|entry| space.add(layout, &entry.key, bytes_of(layout, Some(entry))));
        space
    }

    pub(crate) fn set_quota(&mut self, quota: Option<u64>) {
        self.quota = quota;
    }

    /// Counts a change that became visible.
    pub(crate) fn count(&mut self, layout: &dyn Layout, event: &Event) {
        self.add(layout, &event.entry.key, growth(layout, event));
    }

    fn add(&mut self, layout: &dyn Layout, key: &Key, growth: i64) {
        self.bytes = self.bytes.saturating_add_signed(growth);
        add_to(&mut self.namespaces, layout.namespace(key.as_str()), growth);
        add_to(&mut self.resources, layout.resource_prefix(key.as_str()), growth);
    }

    /// Room for commits that are evaluated one behind the other.
    pub(crate) fn room<'a>(&'a self, layout: &'a dyn Layout) -> Room<'a> {
        Room { space: self, layout, taken: 0, by_namespace: BTreeMap::new() }
    }

    pub(crate) fn usage(&self) -> Usage {
        let left = self.most(Purpose::Growth).map(|most| most.saturating_sub(self.bytes));
        let is_short = |left: u64| left <= (MAX_VALUE_BYTES as u64).min(self.quota.unwrap_or(0) / 64);
        Usage {
            bytes: self.bytes,
            quota: self.quota,
            lacks: left.is_some_and(is_short).then_some(OutOfSpace::Quota),
            refused: self.refused.load(Ordering::Relaxed),
            resources: self.resources.iter().map(|(prefix, bytes)| (prefix.clone(), *bytes)).collect(),
        }
    }

    pub(crate) fn count_refusal(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// How much all keys may take after a write.
    fn most(&self, purpose: Purpose) -> Option<u64> {
        let quota = self.quota?;
        Some(match purpose {
            Purpose::Growth => quota - quota / RESERVE_PART,
            Purpose::Upkeep => quota,
            Purpose::Removal => return None,
        })
    }
}

/// What is left for the commits of a batch, each of which counts for the next.
pub(crate) struct Room<'a> {
    space: &'a Space,
    layout: &'a dyn Layout,
    taken: i64,
    by_namespace: BTreeMap<Box<str>, i64>,
}

impl Room<'_> {
    /// Takes what the changes of a commit need.
    ///
    /// # Errors
    /// [`WriteError::QuotaExceeded`]; then nothing is taken. A commit that takes no more than there was is never refused.
    pub(crate) fn take(&mut self, changes: &[Arc<Event>], purpose: Purpose) -> Result<(), WriteError> {
        let Some(quota) = self.space.quota else { return Ok(()) };
        let grows = changes.iter().map(|event| growth(self.layout, event)).sum::<i64>();
        self.shift(changes, 1);
        let exceeded = self.space.most(purpose).filter(|_| 0 < grows).and_then(|most| self.exceeded(changes, most, quota));
        let (Some(bound), Some(first)) = (exceeded, changes.first()) else { return Ok(()) };
        self.shift(changes, -1);
        self.space.count_refusal();
        Err(WriteError::QuotaExceeded { key: first.entry.key.clone(), bound })
    }

    fn shift(&mut self, changes: &[Arc<Event>], sign: i64) {
        for event in changes {
            let growth = sign * growth(self.layout, event);
            self.taken += growth;
            let Some(namespace) = self.layout.namespace(event.entry.key.as_str()) else { continue };
            match self.by_namespace.get_mut(namespace) {
                Some(taken) => *taken += growth,
                None => _ = self.by_namespace.insert(namespace.into(), growth),
            }
        }
    }

    /// The bound that is passed now that the changes are counted.
    fn exceeded(&self, changes: &[Arc<Event>], most: u64, quota: u64) -> Option<Bound> {
        let used = self.space.bytes.saturating_add_signed(self.taken);
        if most < used {
            return Some(Bound::Quota { quota });
        }
        let growing = changes.iter().filter(|event| 0 < growth(self.layout, event));
        let mut namespaces = growing.filter_map(|event| self.layout.namespace(event.entry.key.as_str()));
        namespaces.find_map(|name| {
            let before = self.space.namespaces.get(name).copied().unwrap_or(0);
            let taken = before.saturating_add_signed(self.by_namespace.get(name).copied().unwrap_or(0));
            let most = most.saturating_sub(used.saturating_sub(taken)) / 2;
            (most < taken).then(|| Bound::Namespace { name: name.into(), quota })
        })
    }
}

/// What a version costs; of none, nothing.
fn bytes_of(layout: &dyn Layout, entry: Option<&Arc<Entry>>) -> i64 {
    let own = |entry: &Entry| entry.key.as_str().len() + entry.value.len() + layout.to_come(entry);
    let bytes = entry.map_or(0, |entry| KEY_OVERHEAD_BYTES + own(entry) as u64);
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// By how much a change makes what is stored larger; smaller, if negative.
fn growth(layout: &dyn Layout, event: &Event) -> i64 {
    let after = (event.kind == EventKind::Put).then_some(&event.entry);
    bytes_of(layout, after) - bytes_of(layout, event.previous.as_ref())
}

fn add_to(counts: &mut BTreeMap<Box<str>, u64>, name: Option<&str>, growth: i64) {
    let Some(name) = name else { return };
    let Some(count) = counts.get_mut(name) else {
        counts.insert(name.into(), 0_u64.saturating_add_signed(growth));
        return;
    };
    *count = count.saturating_add_signed(growth);
    if *count == 0 {
        counts.remove(name);
    }
}

#[cfg(test)]
mod tests;
