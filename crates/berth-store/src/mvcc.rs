//! Keys, their versions and the log of changes, as a plain structure: no locks, no IO, no time.
//!
//! A commit is one revision of one or several keys. Revisions only grow: a store that others write to as well has gaps between those that
//! it sees. Of each resource one number, `oldest`, bounds both reads (`at >= oldest`) and watches (`after >= oldest`): where history becomes too
//! large, the resource that takes most of it forgets first, so that a busy one does not expire the others. Lists that go on read further back
//! ([`pins`]).

mod evaluate;
mod expiring;
mod followed;
mod past;
mod pins;

pub(crate) use evaluate::{Commit, Prepared, evaluate};
pub(crate) use past::{Past, Recommit, Recovered, Since, Versioned};

use crate::{
    Entry, Event, EventKind, Events, Key, Layout, Range, RangeRequest, ReadError, Revision, Usage, WatchFilter, WriteError,
    env::Timestamp,
    space::{Room, Space},
};
use expiring::Expiring;
use pins::{PinId, Pins};
use smallvec::smallvec;
use std::{
    cmp::Ordering,
    collections::{BTreeMap, VecDeque, btree_map},
    mem,
    ops::Bound,
    sync::Arc,
};

/// What one kept change costs beside its values, in bytes: the event, a place in the log, one among the key's older versions, and an
/// entry with a usual header.
const EVENT_OVERHEAD_BYTES: usize = 512;

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
    /// What came before and can still be read, oldest first, each with the revision of its write. A version ends where the next begins, or earlier:
    /// between two that are kept for lists others may be gone.
    older: VecDeque<(Revision, Option<Arc<Entry>>)>,
    /// How many of the oldest are kept for lists alone.
    pinned: usize,
    /// When `newest` is to go, if some time.
    expires_at: Option<Timestamp>,
}

impl Versions {
    fn new(newest: Option<Arc<Entry>>, since: Revision) -> Self {
        Self { newest, since, older: VecDeque::new(), pinned: 0, expires_at: None }
    }

    fn at(&self, revision: Revision) -> Option<&Arc<Entry>> {
        if self.since <= revision {
            return self.newest.as_ref();
        }
        let behind = self.older.partition_point(|(since, _)| *since <= revision);
        self.older.get(behind.checked_sub(1)?)?.1.as_ref()
    }

    fn replace(&mut self, newest: Option<Arc<Entry>>, since: Revision) {
        let before = mem::replace(&mut self.newest, newest);
        self.older.push_back((self.since, before));
        self.since = since;
    }

    /// Drops versions that were replaced at or before `oldest`, except those for which `keep` returns true. Its parameters are the revision of the
    /// version, the revision of its replacement, and its size.
    fn compact(&mut self, oldest: Revision, mut keep: impl FnMut(Revision, Revision, usize) -> bool) {
        while let Some((since, version)) = self.older.get(self.pinned) {
            let replaced = self.older.get(self.pinned + 1).map_or(self.since, |(since, _)| *since);
            if oldest < replaced {
                return;
            }
            let bytes = EVENT_OVERHEAD_BYTES + version.as_ref().map_or(0, |entry| entry.value.len());
            if keep(*since, replaced, bytes) {
                self.pinned += 1;
            } else {
                self.older.remove(self.pinned);
            }
        }
        self.older.shrink_to(0);
    }

    /// Drops a version that was kept for lists alone.
    fn drop_pinned(&mut self, since: Revision) {
        if let Ok(at) = self.older.binary_search_by_key(&since, |(since, _)| *since) {
            self.older.remove(at);
            self.pinned -= 1;
        }
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
    /// From where on it can be read and watched.
    oldest: Revision,
    /// What its log costs.
    history_bytes: usize,
    /// Keys that are not deleted, by [`folder_of`] them: of a resource in namespaces, by namespace.
    live: BTreeMap<Box<str>, usize>,
    /// All of them.
    live_total: usize,
}

/// Whether a key came to be or went.
#[derive(Clone, Copy, Debug)]
enum Change {
    Came,
    Went,
}

impl Resource {
    /// One that has lost all up to `oldest`.
    fn since(oldest: Revision) -> Self {
        Self { dropped: oldest, oldest, ..Self::default() }
    }

    fn push(&mut self, event: &Arc<Event>) {
        self.history_bytes += cost_bytes(event);
        self.log.push_back(Arc::clone(event));
    }

    /// Takes the oldest revision out of the log, all of it.
    fn pop(&mut self) -> Events {
        let mut events = Events::new();
        let is_next = |log: &VecDeque<Arc<Event>>, revision| log.front().is_some_and(|event| event.entry.mod_revision == revision);
        let Some(revision) = self.log.front().map(|event| event.entry.mod_revision) else { return events };
        while is_next(&self.log, revision) {
            events.extend(self.log.pop_front());
        }
        self.history_bytes -= events.iter().map(|event| cost_bytes(event)).sum::<usize>();
        self.dropped = revision;
        self.oldest = self.oldest.max(revision);
        events
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
    /// No change of its prefix is between its position and this, the newest revision.
    CaughtUp(Revision),
    /// Its place is a revision that is not there yet.
    Future,
}

/// All keys and the changes that are kept.
pub(crate) struct Mvcc {
    layout: Arc<dyn Layout>,
    space: Space,
    revision: Revision,
    keys: BTreeMap<Key, Versions>,
    /// By what their keys begin with, none as those of another. One per kind that was ever written or asked for, so few.
    resources: BTreeMap<Box<str>, Resource>,
    /// All other keys.
    rest: Resource,
    /// Revisions that changed several resources and that all of them still know, each as a whole. Their order among each other is recorded only here.
    spanning: BTreeMap<Revision, Events>,
    pins: Pins,
    expiring: Expiring,
    history_bytes: usize,
    history_bytes_max: usize,
}

impl Mvcc {
    /// Nothing, at revision 0. Keeps changes and replaced versions up to `history_bytes_max`.
    pub(crate) fn new(layout: Arc<dyn Layout>, history_bytes_max: usize) -> Self {
        Self::recovered(layout, Revision(0), Recovered::default(), history_bytes_max)
    }

    /// The recovered contents, as of `revision`. Where `recovered` has no start for a resource, all before that revision is forgotten.
    pub(crate) fn recovered(layout: Arc<dyn Layout>, revision: Revision, recovered: Recovered, history_bytes_max: usize) -> Self {
        let Recovered { entries, expiries, changes, since } = recovered;
        let others = since.iter().find(|(name, _)| name.is_empty()).map_or(revision, |(_, since)| *since);
        let space = Space::of(&*layout, entries.iter());
        let versions = |entry: Arc<Entry>| (entry.key.clone(), Versions::new(Some(Arc::clone(&entry)), entry.mod_revision));
        let mut mvcc = Self {
            layout,
            space,
            revision: Revision(0),
            keys: entries.into_iter().map(versions).collect(),
            resources: BTreeMap::new(),
            rest: Resource::since(others),
            spanning: BTreeMap::new(),
            pins: Pins::new(history_bytes_max),
            expiring: Expiring::default(),
            history_bytes: 0,
            history_bytes_max,
        };
        since.iter().filter(|(name, _)| !name.is_empty()).for_each(|(name, since)| mvcc.keep_since(name, *since));
        changes.into_iter().for_each(|changes| mvcc.apply_again(changes));
        mvcc.revision = revision;
        expiries.into_iter().for_each(|(key, at)| mvcc.expire(key, at));
        mvcc
    }

    /// Whether readers of the keys that begin with `prefix` pay for all others, and need not. They go on to where other keys that are kept apart
    /// begin with it, or it with theirs.
    pub(crate) fn can_partition(&self, prefix: &str) -> bool {
        let next = self.resources.range::<str, _>((Bound::Included(prefix), Bound::Unbounded)).next();
        resource_of(&self.resources, prefix).is_none() && !next.is_some_and(|(next, _)| next.starts_with(prefix))
    }

    /// From now on, readers of keys that begin with `prefix` do not pay for the others, if that [is possible](Self::can_partition). Costs a scan of
    /// all kept changes and of all these keys.
    pub(crate) fn partition_by_prefix(&mut self, prefix: &str) {
        if !self.can_partition(prefix) {
            return;
        }
        let mut resource = Resource::since(self.rest.oldest);
        let mut rest = Resource::since(self.rest.oldest);
        let is_of_it = |event: &Arc<Event>| event.entry.key.as_str().starts_with(prefix);
        let log: Vec<_> = mem::take(&mut self.rest.log).into();
        for whole in log.chunk_by(|one, next| one.entry.mod_revision == next.entry.mod_revision) {
            if whole.iter().any(is_of_it) && !whole.iter().all(is_of_it) {
                self.spanning.entry(whole[0].entry.mod_revision).or_insert_with(|| whole.into());
            }
            whole.iter().for_each(|event| if is_of_it(event) { resource.push(event) } else { rest.push(event) });
        }
        rest.dropped = self.rest.dropped;
        self.rest = rest;
        let request = RangeRequest::all(prefix);
        let live = self.under(&request).filter_map(|versions| versions.newest.as_ref());
        live.for_each(|entry| resource.count(&entry.key, Change::Came));
        self.resources.insert(prefix.into(), resource);
    }

    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    pub(crate) fn layout(&self) -> &Arc<dyn Layout> {
        &self.layout
    }

    /// Bounds what is stored, from the next commit on.
    pub(crate) fn set_quota(&mut self, quota: Option<u64>) {
        self.space.set_quota(quota);
    }

    /// Counts a commit for which the disk has no space, and returns the error.
    pub(crate) fn no_space(&self, commit: &Commit) -> WriteError {
        self.space.count_refusal();
        WriteError::NoSpace { key: commit.events[0].entry.key.clone() }
    }

    pub(crate) fn usage(&self) -> Usage {
        self.space.usage()
    }

    /// Room for commits that are evaluated now, one behind the other.
    pub(crate) fn room(&self) -> Room<'_> {
        self.space.room(&*self.layout)
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<Entry>> {
        self.keys.get(key)?.newest.as_ref()
    }

    /// A page. Costs one step per key of the page. It also costs one step per key after the page, unless their number is kept (complete resources and
    /// namespaces at the newest revision) or is part of the request.
    pub(crate) fn range(&self, request: &RangeRequest) -> Result<Range, ReadError> {
        let revision = request.at.unwrap_or(self.revision);
        self.check_readable(&request.prefix, revision)?;
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

    /// The count of all keys of `request`, if it is known without a scan.
    fn live_of(&self, request: &RangeRequest, revision: Revision) -> Option<usize> {
        if request.start_after.is_some() || revision != self.revision || !request.prefix.ends_with('/') {
            return None;
        }
        let (prefix, found) = resource_of(&self.resources, &request.prefix)?;
        // A folder that holds folders has no count of its own.
        if prefix == request.prefix { Some(found.live_total) } else { found.live.get(request.prefix.as_str()).copied() }
    }

    fn check_readable(&self, prefix: &str, revision: Revision) -> Result<(), ReadError> {
        if self.revision < revision {
            return Err(ReadError::Future { requested: revision, newest: self.revision });
        }
        let is_pinned = || self.resource_prefix(prefix).is_some_and(|resource| self.pins.is_pinned(resource, revision));
        match self.check_watchable(prefix, revision) {
            Err(_) if is_pinned() => Ok(()),
            checked => checked,
        }
    }

    /// Whether a watch of what begins with `prefix` may begin behind `after`.
    pub(crate) fn check_watchable(&self, prefix: &str, after: Revision) -> Result<(), ReadError> {
        let oldest = self.oldest(prefix);
        if after < oldest { Err(ReadError::Compacted { requested: after, oldest }) } else { Ok(()) }
    }

    /// From where on what begins with `prefix` can be read and watched.
    fn oldest(&self, prefix: &str) -> Revision {
        self.kept_under(prefix).map(|found| found.oldest).max().unwrap_or_default()
    }

    /// What is kept of the keys that begin with `prefix`, and of others.
    fn kept_under(&self, prefix: &str) -> impl Iterator<Item = &Resource> + Clone {
        let own = resource_of(&self.resources, prefix).map(|(_, found)| found);
        let below = || {
            let from = self.resources.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
            from.take_while(move |(name, _)| name.starts_with(prefix)).map(|(_, found)| found).chain([&self.rest])
        };
        let whole = own.is_none().then(below);
        own.into_iter().chain(whole.into_iter().flatten())
    }

    /// What the keys of the resource begin with that `text` belongs to, if they are kept apart.
    pub(crate) fn resource_prefix(&self, text: &str) -> Option<&str> {
        resource_of(&self.resources, text).map(|(prefix, _)| prefix)
    }

    /// How many changes of a resource are kept.
    pub(crate) fn kept(&self, resource: &str) -> usize {
        self.resources.get(resource).map_or(0, |found| found.log.len())
    }

    /// What a watcher of `prefix` (and `filter`) that has seen all up to `after` sees next. An error only if a change of its resource was lost to it: the
    /// watcher of an unchanged resource may be far behind. Costs little where there is nothing to see, which is the most frequent case: watchers of all
    /// resources wake for progress.
    pub(crate) fn next(&self, prefix: &str, after: Revision, filter: Option<&WatchFilter>) -> Result<Next, ReadError> {
        match self.revision.cmp(&after) {
            Ordering::Less => return Ok(Next::Future),
            Ordering::Equal => return Ok(Next::CaughtUp(after)),
            Ordering::Greater => (),
        }
        let kept = self.kept_under(prefix);
        if kept.clone().any(|found| after < found.dropped) {
            return Err(ReadError::Compacted { requested: after, oldest: self.oldest(prefix) });
        }
        let matches = |event: &Event| filter.is_none_or(|filter| event.versions().any(|entry| filter.matches(entry)));
        let is_seen = |event: &&Arc<Event>| event.entry.key.as_str().starts_with(prefix) && matches(event);
        let first = |found: &'_ Resource| {
            found.log.back().filter(|newest| after < newest.entry.mod_revision)?;
            let from = seen(&found.log, after);
            let at = from + found.log.range(from..).position(|event| is_seen(&event))?;
            Some((found.log[at].entry.mod_revision, at))
        };
        let firsts = kept.filter_map(|found| first(found).map(|(revision, at)| (revision, at, found)));
        let Some((revision, at, found)) = firsts.min_by_key(|(revision, ..)| *revision) else { return Ok(Next::CaughtUp(self.revision)) };
        // The whole revision: the watcher's place is a revision, so what is left out of this one would be lost.
        Ok(Next::Events(match self.spanning.get(&revision) {
            Some(whole) => whole.iter().filter(is_seen).cloned().collect(),
            None => {
                let behind = found.log.range(at + 1..).take_while(|event| event.entry.mod_revision == revision).filter(is_seen);
                let mut events: Events = smallvec![Arc::clone(&found.log[at])];
                events.extend(behind.cloned());
                events
            }
        }))
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
        let place = |event: &Arc<Event>| self.resource_prefix(event.entry.key.as_str());
        if commit.events.windows(2).any(|pair| place(&pair[0]) != place(&pair[1])) {
            self.spanning.insert(revision, commit.events.clone());
        }
        commit.expiries.iter().for_each(|(key, at)| self.expire(key.clone(), *at));
        while self.history_bytes_max < self.history_bytes {
            let heaviest = self.resources.iter().max_by_key(|(_, found)| found.history_bytes);
            let heaviest = heaviest.filter(|(_, found)| self.rest.history_bytes < found.history_bytes).map(|(name, _)| name.clone());
            self.forget_oldest(heaviest.as_deref());
        }
        self.end_excess_lists();
    }

    fn apply_one(&mut self, event: &Arc<Event>) {
        let revision = event.entry.mod_revision;
        let newest = (event.kind == EventKind::Put).then(|| Arc::clone(&event.entry));
        self.space.count(&*self.layout, event);
        if resource_of(&self.resources, event.entry.key.as_str()).is_none() {
            let layout = Arc::clone(&self.layout);
            layout.resource_prefix(event.entry.key.as_str()).into_iter().for_each(|prefix| self.partition_by_prefix(prefix));
        }
        self.history_bytes += cost_bytes(event);
        if let Some(resource) = resource_of_mut(&mut self.resources, &event.entry.key) {
            match (&event.previous, &newest) {
                (None, Some(_)) => resource.count(&event.entry.key, Change::Came),
                (Some(_), None) => resource.count(&event.entry.key, Change::Went),
                (None, None) | (Some(_), Some(_)) => (),
            }
            resource.push(event);
        } else {
            self.rest.push(event);
        }
        match self.keys.entry(event.entry.key.clone()) {
            btree_map::Entry::Occupied(versions) => {
                let versions = versions.into_mut();
                if let Some(at) = versions.expires_at.take() {
                    self.expiring.remove(at, &event.entry.key);
                }
                versions.replace(newest, revision);
            }
            btree_map::Entry::Vacant(place) => drop(place.insert(Versions::new(newest, revision))),
        }
    }

    /// Notes when the newest value of a key is to go.
    fn expire(&mut self, key: Key, at: Timestamp) {
        if let Some(versions) = self.keys.get_mut(&key) {
            versions.expires_at = Some(at);
            self.expiring.insert(at, key);
        }
    }

    /// Up to [`EXPIRED_AT_ONCE`] keys that are to go at `now`, each at its revision.
    pub(crate) fn due(&self, now: Timestamp) -> Vec<(Key, Revision)> {
        self.expiring.due(now).into_iter().filter_map(|key| Some((key.clone(), self.get(key)?.mod_revision))).collect()
    }

    /// Forgets what was replaced or happened at or before `revision`, which is there. What is forgotten already stays so.
    pub(crate) fn compact(&mut self, revision: Revision) {
        let names: Vec<_> = self.resources.keys().cloned().map(Some).chain([None]).collect();
        for name in names {
            while self.kept_mut(name.as_deref()).log.front().is_some_and(|event| event.entry.mod_revision <= revision) {
                self.forget_oldest(name.as_deref());
            }
            let kept = self.kept_mut(name.as_deref());
            kept.oldest = kept.oldest.max(revision);
        }
        self.pins.before(revision).iter().for_each(|list| self.end_list(list));
    }

    /// What is kept of the resource of that name; of all other keys without one.
    fn kept_mut(&mut self, resource: Option<&str>) -> &mut Resource {
        resource.and_then(|name| self.resources.get_mut(name)).unwrap_or(&mut self.rest)
    }

    /// Forgets the oldest revision that is kept of a resource (of all other keys without one), all that it changed there.
    fn forget_oldest(&mut self, resource: Option<&str>) {
        let events = self.kept_mut(resource).pop();
        let Some(revision) = events.first().map(|event| event.entry.mod_revision) else { return };
        self.history_bytes -= events.iter().map(|event| cost_bytes(event)).sum::<usize>();
        // The rest of the revision can still be in several logs.
        if let Some(whole) = self.spanning.get_mut(&revision) {
            whole.retain(|event| !events.iter().any(|gone| gone.entry.key == event.entry.key));
            if whole.is_empty() {
                self.spanning.remove(&revision);
            }
        }
        for event in &events {
            let key = &event.entry.key;
            let Some(versions) = self.keys.get_mut(key) else { continue };
            let pins = &mut self.pins;
            let keep = |since, replaced, bytes| resource.is_some_and(|name| pins.keep(name, key, since, replaced, bytes));
            versions.compact(revision, keep);
            if versions.is_gone(revision) {
                self.keys.remove(key);
            }
        }
    }

    /// A list of what begins with `prefix` goes on: until then what it shows at `revision` is kept for it, within [bounds](pins). Where that revision cannot
    /// be read any more, or the keys are of no resource that is kept apart, nothing is.
    pub(crate) fn pin(&mut self, prefix: &str, revision: Revision, owner: &str, until: Timestamp) {
        let is_readable = self.check_readable(prefix, revision).is_ok();
        let Some((resource, _)) = resource_of(&self.resources, prefix).filter(|_| is_readable) else { return };
        self.pins.add(resource, revision, owner, until);
        self.end_excess_lists();
    }

    /// A list has come to its end.
    pub(crate) fn unpin(&mut self, prefix: &str, revision: Revision, owner: &str) {
        let Some((resource, _)) = resource_of(&self.resources, prefix) else { return };
        if let Some(ended) = self.pins.end(resource, revision, owner) {
            self.end_list(&ended);
        }
    }

    /// Ends lists whose time is over.
    pub(crate) fn end_due_lists(&mut self, now: Timestamp) {
        self.pins.due(now).iter().for_each(|list| self.end_list(list));
    }

    fn end_excess_lists(&mut self) {
        while let Some(list) = self.pins.excess() {
            self.end_list(&list);
        }
    }

    fn end_list(&mut self, list: &PinId) {
        let oldest = self.resources.get(&list.0).map(|found| found.oldest).unwrap_or_default();
        for (key, since) in self.pins.release(list) {
            let Some(versions) = self.keys.get_mut(&key) else { continue };
            versions.drop_pinned(since);
            if versions.is_gone(oldest) {
                self.keys.remove(&key);
            }
        }
    }
}

/// The number of changes of a log that come no later than `after`. Searches from the end, since a watcher is seldom far behind: the cost is logarithmic
/// in that distance.
fn seen(log: &VecDeque<Arc<Event>>, after: Revision) -> usize {
    let is_seen = |at: usize| log[at].entry.mod_revision <= after;
    // All before `from` are seen, none from `to` on.
    let (mut from, mut to, mut stride) = (0, log.len(), 1);
    while from < to {
        let at = to.saturating_sub(stride);
        if is_seen(at) {
            from = at + 1;
            break;
        }
        (to, stride) = (at, stride * 2);
    }
    while from < to {
        let at = from.midpoint(to);
        if is_seen(at) { from = at + 1 } else { to = at }
    }
    from
}

/// What keeping `event` costs, in bytes.
fn cost_bytes(event: &Event) -> usize {
    change_bytes(event.entry.value.len(), event.previous.as_ref().map_or(0, |previous| previous.value.len()))
}

/// What keeping a change costs, by the length of its value and of the one before, in bytes: the version that it replaced, and its own value once more,
/// since `encoded` holds a copy.
pub(crate) fn change_bytes(value: usize, previous: usize) -> usize {
    EVENT_OVERHEAD_BYTES + value + previous
}

/// The resource whose keys begin as `text` does, and what they begin with.
fn resource_of<'a>(resources: &'a BTreeMap<Box<str>, Resource>, text: &str) -> Option<(&'a str, &'a Resource)> {
    // Since none begins as another, only the last one before `text` can be it.
    let (prefix, resource) = resources.range::<str, _>((Bound::Unbounded, Bound::Included(text))).next_back()?;
    text.starts_with(&**prefix).then_some((prefix, resource))
}

fn resource_of_mut<'a>(resources: &'a mut BTreeMap<Box<str>, Resource>, key: &Key) -> Option<&'a mut Resource> {
    let (prefix, resource) = resources.range_mut::<str, _>((Bound::Unbounded, Bound::Included(key.as_str()))).next_back()?;
    key.as_str().starts_with(&**prefix).then_some(resource)
}

#[cfg(test)]
mod tests;
