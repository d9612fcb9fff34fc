//! Keys, their versions and the log of changes, as a plain structure: no locks, no IO, no time.
//!
//! A commit is one revision of one or several keys. Revisions only grow: a store that others write to as well has gaps between those that
//! it sees. One number, `oldest`, bounds both reads (`at >= oldest`) and watches (`after >= oldest`).

use crate::{
    Entry, Event, EventKind, Events, Expected, Header, Key, Mark, Range, RangeRequest, ReadError, Revision, WriteError, env::Timestamp,
};
use bytes::Bytes;
use smallvec::smallvec;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque, btree_map},
    ops::Bound,
    sync::{Arc, OnceLock},
};

/// What one kept change costs beside its values, in bytes: the event, two log places, a place among the key's older versions, and an
/// entry with a usual header.
const EVENT_OVERHEAD_BYTES: usize = 512;

/// How many values are ended together: after a long rest much may be due, and nobody's writes shall stand behind all of it.
pub(crate) const EXPIRED_AT_ONCE: usize = 1000;

/// The part of one key in a commit that waits for its turn.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) key: Key,
    pub(crate) expected: Expected,
    /// `None`: the key is deleted.
    pub(crate) value: Option<(Bytes, Header)>,
    /// When the value is to go.
    pub(crate) expires_at: Option<Timestamp>,
}

/// What one revision changes.
#[derive(Debug)]
pub(crate) struct Commit {
    /// Never empty.
    pub(crate) events: Events,
    /// Those of its keys whose values are to go some time.
    pub(crate) expiries: Vec<(Key, Timestamp)>,
}

impl Commit {
    pub(crate) fn entries(&self) -> Vec<Arc<Entry>> {
        self.events.iter().map(|event| Arc::clone(&event.entry)).collect()
    }
}

/// The changes that a commit makes as revision `next`, where `current` gives the newest version of a key; a conflict if one key is not as
/// expected.
pub(crate) fn evaluate<'a>(
    writes: Vec<Prepared>,
    next: Revision,
    current: impl Fn(&Key) -> Option<&'a Arc<Entry>>,
) -> Result<Commit, WriteError> {
    let expiring = |write: &Prepared| write.expires_at.filter(|_| write.value.is_some()).map(|at| (write.key.clone(), at));
    let expiries = writes.iter().filter_map(expiring).collect();
    let events: Result<Events, WriteError> = writes.into_iter().map(|write| evaluate_one(write, next, &current).map(Arc::new)).collect();
    Ok(Commit { events: events?, expiries })
}

fn evaluate_one<'a>(write: Prepared, next: Revision, current: impl Fn(&Key) -> Option<&'a Arc<Entry>>) -> Result<Event, WriteError> {
    let Prepared { key, expected, value, expires_at: _ } = write;
    let current = current(&key);
    let found = current.map(|entry| entry.mod_revision);
    let as_expected = match expected {
        Expected::Absent => found.is_none(),
        Expected::At(revision) => found == Some(revision),
    };
    let kind = if value.is_some() { EventKind::Put } else { EventKind::Deleted };
    // Of what is deleted watchers get the last value, as it was stored. What is not there cannot be deleted; no expectation asks for it.
    let last = || current.map(|entry| (entry.value.clone(), entry.header.clone()));
    let (Some((value, header)), true) = (value.or_else(last), as_expected) else {
        return Err(WriteError::Conflict { key, found: found.unwrap_or_default() });
    };
    let create_revision = current.map_or(next, |entry| entry.create_revision);
    let entry = Arc::new(Entry { key, value, header, create_revision, mod_revision: next });
    Ok(Event { kind, entry, previous: current.cloned(), encoded: OnceLock::new() })
}

/// `/registry/<group>/<resource>/`: the part of a key or prefix that names the resource. `None` if the text ends before it does.
pub(crate) fn resource_of(text: &str) -> Option<&str> {
    // Asked at each write and by each watcher that looks: quicker than a search that knows all of Unicode.
    let mut slashes = text.bytes().enumerate().filter(|(_, byte)| *byte == b'/');
    let (end, _) = slashes.nth(3)?;
    Some(&text[..=end])
}

/// All of a key up to its last part.
fn folder_of(key: &Key) -> &str {
    let text = key.as_str();
    text.rfind('/').map_or(text, |end| &text[..=end])
}

/// The versions of one key that can still be read.
#[derive(Debug)]
struct Versions {
    /// Absent if the key is deleted.
    newest: Option<Arc<Entry>>,
    /// The revision of the write that made `newest` what it is.
    since: Revision,
    /// What came before and can still be read, oldest first, each with the revision of its write.
    older: VecDeque<(Revision, Option<Arc<Entry>>)>,
}

impl Versions {
    fn at(&self, revision: Revision) -> Option<&Arc<Entry>> {
        if self.since <= revision {
            return self.newest.as_ref();
        }
        let behind = self.older.partition_point(|(since, _)| *since <= revision);
        self.older.get(behind.checked_sub(1)?)?.1.as_ref()
    }

    fn replace(&mut self, newest: Option<Arc<Entry>>, since: Revision) {
        let before = std::mem::replace(&mut self.newest, newest);
        self.older.push_back((self.since, before));
        self.since = since;
    }

    /// Drops what was replaced at or before `oldest`.
    fn compact(&mut self, oldest: Revision) {
        while !self.older.is_empty() {
            let replaced = self.older.get(1).map_or(self.since, |(since, _)| *since);
            if oldest < replaced {
                return;
            }
            self.older.pop_front();
        }
        self.older.shrink_to(0);
    }

    /// Nothing to read at `oldest` or later.
    fn is_gone(&self, oldest: Revision) -> bool {
        self.newest.is_none() && self.older.is_empty() && self.since <= oldest
    }
}

/// What is kept for one resource, so that its readers do not pay for the others.
#[derive(Debug, Default)]
struct Resource {
    /// The kept changes of its keys, in order.
    log: VecDeque<Arc<Event>>,
    /// The revision of the last change that the log has lost.
    dropped: Revision,
    /// Keys that are not deleted, by [`folder_of`] them: of a resource in namespaces, by namespace.
    live: BTreeMap<Box<str>, usize>,
    /// All of them.
    live_total: usize,
    /// When the values go that are to go some time.
    expires_at: BTreeMap<Key, Timestamp>,
    /// The same, by time.
    due: BTreeSet<(Timestamp, Key)>,
}

/// Whether a key came to be or went.
#[derive(Clone, Copy, Debug)]
enum Change {
    Came,
    Went,
}

impl Resource {
    /// Forgets when the key's value was to go.
    fn stay(&mut self, key: &Key) {
        if let Some(at) = self.expires_at.remove(key) {
            self.due.remove(&(at, key.clone()));
        }
    }

    fn expire(&mut self, key: &Key, at: Timestamp) {
        self.expires_at.insert(key.clone(), at);
        self.due.insert((at, key.clone()));
    }

    fn count(&mut self, key: &Key, change: Change) {
        let folder = folder_of(key);
        let live = self.live.get_mut(folder);
        match (live, change) {
            (Some(live), Change::Came) => *live += 1,
            (Some(live), Change::Went) if 1 < *live => *live -= 1,
            (None, Change::Came) => drop(self.live.insert(folder.into(), 1)),
            (_, Change::Went) => drop(self.live.remove(folder)),
        }
        match change {
            Change::Came => self.live_total += 1,
            Change::Went => self.live_total -= 1,
        }
    }
}

/// The next thing that a watcher sees.
#[derive(Debug)]
pub(crate) enum Next {
    /// The changes of its prefix in the first revision behind its place that has any.
    Events(Events),
    /// No change of its prefix stands between its place and this, the newest revision.
    CaughtUp(Revision),
    /// Its place is a revision that is not there yet.
    Future,
}

/// What a store finds where it was kept.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    pub(crate) entries: Vec<Arc<Entry>>,
    pub(crate) expiries: Vec<(Key, Timestamp)>,
}

/// All keys and the changes that are kept.
#[derive(Debug)]
pub(crate) struct Mvcc {
    revision: Revision,
    oldest: Revision,
    keys: BTreeMap<Key, Versions>,
    log: VecDeque<Arc<Event>>,
    /// By [`resource_of`] their keys. One per kind that was ever written, so few.
    resources: BTreeMap<Box<str>, Resource>,
    history_bytes: usize,
    history_bytes_max: usize,
}

impl Mvcc {
    /// Nothing, at revision 0. Keeps changes and replaced versions up to `history_bytes_max`.
    pub(crate) fn new(history_bytes_max: usize) -> Self {
        Self::recovered(Revision(0), Recovered::default(), history_bytes_max)
    }

    /// The newest versions as of `revision`, in any order, without what was before.
    pub(crate) fn recovered(revision: Revision, recovered: Recovered, history_bytes_max: usize) -> Self {
        let Recovered { entries, expiries } = recovered;
        let mut resources: BTreeMap<Box<str>, Resource> = BTreeMap::new();
        for entry in &entries {
            resource_mut(&mut resources, &entry.key).count(&entry.key, Change::Came);
        }
        for (key, at) in &expiries {
            resource_mut(&mut resources, key).expire(key, *at);
        }
        let versions = |entry: Arc<Entry>| Versions { since: entry.mod_revision, newest: Some(entry), older: VecDeque::new() };
        let keys = entries.into_iter().map(|entry| (entry.key.clone(), versions(entry))).collect();
        Self { revision, oldest: revision, keys, log: VecDeque::new(), resources, history_bytes: 0, history_bytes_max }
    }

    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<Entry>> {
        self.keys.get(key)?.newest.as_ref()
    }

    /// A page. Costs one look per key of the page; and one per key behind it where their number is neither kept (whole resources and whole
    /// namespaces at the newest revision) nor told by the request.
    pub(crate) fn range(&self, request: &RangeRequest) -> Result<Range, ReadError> {
        let revision = request.at.unwrap_or(self.revision);
        self.check_readable(revision)?;
        let mut found = self.under(request).filter_map(|versions| versions.at(revision));
        let entries: Vec<_> = match request.limit {
            Some(limit) => found.by_ref().take(limit).cloned().collect(),
            None => found.by_ref().cloned().collect(),
        };
        let is_cut = request.limit.is_some_and(|limit| entries.len() == limit);
        let all = request.behind.or_else(|| self.live_of(request, revision)).filter(|_| is_cut);
        let remaining = all.map_or_else(|| found.count(), |all| all.saturating_sub(entries.len()));
        Ok(Range { entries, revision, remaining })
    }

    fn under<'a>(&'a self, request: &'a RangeRequest) -> impl Iterator<Item = &'a Versions> {
        let from = match &request.start_after {
            Some(key) if request.prefix.as_str() <= key.as_str() => Bound::Excluded(key.as_str()),
            _ => Bound::Included(request.prefix.as_str()),
        };
        let in_prefix = |(key, _): &(&Key, &Versions)| key.as_str().starts_with(&request.prefix);
        self.keys.range::<str, _>((from, Bound::Unbounded)).take_while(in_prefix).map(|(_, versions)| versions)
    }

    /// The count of all keys that `request` is about, where it is known without looking at them.
    fn live_of(&self, request: &RangeRequest, revision: Revision) -> Option<usize> {
        if request.start_after.is_some() || revision != self.revision || !request.prefix.ends_with('/') {
            return None;
        }
        let resource = resource_of(&request.prefix)?;
        let Some(found) = self.resources.get(resource) else { return Some(0) };
        if resource == request.prefix {
            return Some(found.live_total);
        }
        // A folder that holds folders has no count of its own.
        found.live.get(request.prefix.as_str()).copied()
    }

    fn check_readable(&self, revision: Revision) -> Result<(), ReadError> {
        if self.revision < revision {
            return Err(ReadError::Future { requested: revision, newest: self.revision });
        }
        self.check_kept(revision, self.oldest)
    }

    fn check_kept(&self, requested: Revision, kept_from: Revision) -> Result<(), ReadError> {
        if requested < kept_from { Err(ReadError::Compacted { requested, oldest: self.oldest }) } else { Ok(()) }
    }

    /// Whether a watch may begin behind `after`.
    pub(crate) fn check_watchable(&self, after: Revision) -> Result<(), ReadError> {
        self.check_kept(after, self.oldest)
    }

    /// How many changes of a resource are kept.
    pub(crate) fn kept(&self, resource: &str) -> usize {
        self.resources.get(resource).map_or(0, |found| found.log.len())
    }

    /// What a watcher of `prefix` (and of changes of what has `mark`) that has seen all up to `after` sees next. An error only if a change of its resource was lost to it:
    /// the watcher of a quiet resource may lie far behind.
    pub(crate) fn next(&self, prefix: &str, after: Revision, mark: Option<&Mark>) -> Result<Next, ReadError> {
        if self.revision < after {
            return Ok(Next::Future);
        }
        let (log, dropped) = match resource_of(prefix) {
            None => (&self.log, self.oldest),
            Some(resource) => match self.resources.get(resource) {
                Some(found) => (&found.log, found.dropped),
                None => return Ok(Next::CaughtUp(self.revision)),
            },
        };
        self.check_kept(after, dropped)?;
        let from = log.partition_point(|event| event.entry.mod_revision <= after);
        let has_mark = |event: &Event| mark.is_none_or(|mark| event.versions().any(|entry| mark.is_on(entry)));
        let is_seen = |event: &&Arc<Event>| event.entry.key.as_str().starts_with(prefix) && has_mark(event);
        let mut behind = log.range(from..);
        let Some(first) = behind.find(is_seen) else { return Ok(Next::CaughtUp(self.revision)) };
        let mut events: Events = smallvec![Arc::clone(first)];
        // The whole revision: the watcher's place is a revision, so what is left out of this one would be lost.
        let same = |event: &&Arc<Event>| event.entry.mod_revision == first.entry.mod_revision;
        events.extend(behind.take_while(same).filter(is_seen).cloned());
        Ok(Next::Events(events))
    }

    /// Makes a commit visible. Its revision must be behind the newest, and its changes be evaluated against the newest versions of their keys.
    pub(crate) fn apply(&mut self, commit: &Commit) {
        let Some(revision) = commit.events.first().map(|event| event.entry.mod_revision) else { return };
        assert!(self.revision < revision, "commits are applied in the order of their revisions");
        self.revision = revision;
        for event in &commit.events {
            assert_eq!(event.entry.mod_revision, revision, "a commit is one revision");
            self.apply_one(event);
        }
        for (key, at) in &commit.expiries {
            resource_mut(&mut self.resources, key).expire(key, *at);
        }
        while self.history_bytes_max < self.history_bytes {
            self.drop_oldest();
        }
    }

    fn apply_one(&mut self, event: &Arc<Event>) {
        let revision = event.entry.mod_revision;
        let newest = (event.kind == EventKind::Put).then(|| Arc::clone(&event.entry));
        let resource = resource_mut(&mut self.resources, &event.entry.key);
        resource.stay(&event.entry.key);
        match (&event.previous, &newest) {
            (None, Some(_)) => resource.count(&event.entry.key, Change::Came),
            (Some(_), None) => resource.count(&event.entry.key, Change::Went),
            (None, None) | (Some(_), Some(_)) => (),
        }
        match self.keys.entry(event.entry.key.clone()) {
            btree_map::Entry::Occupied(versions) => versions.into_mut().replace(newest, revision),
            btree_map::Entry::Vacant(place) => {
                place.insert(Versions { newest, since: revision, older: VecDeque::new() });
            }
        }
        self.history_bytes += cost_bytes(event);
        resource.log.push_back(Arc::clone(event));
        self.log.push_back(Arc::clone(event));
    }

    /// Up to [`EXPIRED_AT_ONCE`] keys whose time is over by `now`, each at its revision.
    pub(crate) fn due(&self, now: Timestamp) -> Vec<(Key, Revision)> {
        let due = self.resources.values().flat_map(|resource| resource.due.iter().take_while(|(at, _)| *at <= now));
        due.filter_map(|(_, key)| Some((key.clone(), self.get(key)?.mod_revision))).take(EXPIRED_AT_ONCE).collect()
    }

    /// Forgets what was replaced or happened at or before `revision`. What is forgotten already stays so.
    pub(crate) fn compact(&mut self, revision: Revision) -> Result<(), ReadError> {
        if self.revision < revision {
            return Err(ReadError::Future { requested: revision, newest: self.revision });
        }
        while self.log.front().is_some_and(|event| event.entry.mod_revision <= revision) {
            self.drop_oldest();
        }
        self.oldest = self.oldest.max(revision);
        Ok(())
    }

    /// Forgets the oldest revision of the log, all of it.
    fn drop_oldest(&mut self) {
        let revision = self.log.front().expect("what the history costs is in the log").entry.mod_revision;
        self.oldest = revision;
        while self.log.front().is_some_and(|event| event.entry.mod_revision == revision) {
            self.drop_change();
        }
    }

    fn drop_change(&mut self) {
        let event = self.log.pop_front().expect("the caller has looked");
        let revision = event.entry.mod_revision;
        self.history_bytes -= cost_bytes(&event);
        let resource = resource_mut(&mut self.resources, &event.entry.key);
        resource.log.pop_front();
        resource.dropped = revision;
        if let Some(versions) = self.keys.get_mut(&event.entry.key) {
            versions.compact(revision);
            if versions.is_gone(revision) {
                self.keys.remove(&event.entry.key);
            }
        }
    }
}

/// What keeping `event` costs, in bytes: the version that it replaced, and its own value once more, since `encoded` holds a copy.
fn cost_bytes(event: &Event) -> usize {
    EVENT_OVERHEAD_BYTES + event.entry.value.len() + event.previous.as_ref().map_or(0, |previous| previous.value.len())
}

fn resource_mut<'a>(resources: &'a mut BTreeMap<Box<str>, Resource>, key: &Key) -> &'a mut Resource {
    let name = resource_of(key.as_str()).unwrap_or_default();
    // Looked up twice, since `entry` would allocate the name for each write.
    if !resources.contains_key(name) {
        resources.insert(name.into(), Resource::default());
    }
    resources.get_mut(name).expect("inserted above if it was missing")
}

#[cfg(test)]
mod tests;
