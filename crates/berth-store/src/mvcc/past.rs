//! What outlives the process: versions and changes as a checkpoint holds them, and how they come back.

use super::{Mvcc, Prepared, Versions, evaluate, resource_of};
use crate::{Entry, Event, Events, Expected, Header, Key, Purpose, Revision, env::Timestamp};
use bytes::Bytes;
use std::{collections::BTreeMap, mem, ops::Bound, sync::Arc};

/// What a store finds where it was kept.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    /// Of each key the version before the first change of it that is kept, else the newest; in any order.
    pub(crate) entries: Vec<Arc<Entry>>,
    /// Of newest versions.
    pub(crate) expiries: Vec<(Key, Timestamp)>,
    /// The changes that are kept, in order.
    pub(crate) changes: Vec<Recommit>,
    /// From where on they are.
    pub(crate) since: Since,
}

/// What a revision gave its keys; nothing to those that it deleted.
pub(crate) type Recommit = (Revision, Vec<(Key, Option<(Bytes, Header)>)>);

/// From where on changes are kept, by what the keys of a resource begin with; those of all other keys behind nothing.
pub(crate) type Since = Vec<(Box<str>, Revision)>;

/// Versions of keys that follow each other.
#[derive(Debug)]
pub(crate) struct Versioned {
    /// Each with the time when it is to go.
    pub(crate) entries: Vec<(Arc<Entry>, Option<Timestamp>)>,
    /// The newest revision by then.
    pub(crate) revision: Revision,
    /// From where on changes are kept, where there are no more entries.
    pub(crate) since: Since,
}

/// The changes that are kept, at one moment.
#[derive(Debug)]
pub(crate) struct Past {
    /// By resource.
    changes: Vec<Arc<Event>>,
    spanning: BTreeMap<Revision, Events>,
    pub(crate) since: Since,
    /// More than they take.
    pub(crate) bytes: usize,
}

impl Past {
    /// None, all up to `since` being forgotten.
    pub(crate) fn forgotten(since: Revision) -> Self {
        Self { changes: Vec::new(), spanning: BTreeMap::new(), since: vec![("".into(), since)], bytes: 0 }
    }

    /// The changes, in their order.
    pub(crate) fn changes(&mut self) -> &[Arc<Event>] {
        let spanning = mem::take(&mut self.spanning);
        let place = |event: &Arc<Event>| {
            let whole = spanning.get(&event.entry.mod_revision)?;
            whole.iter().position(|known| Arc::ptr_eq(known, event))
        };
        self.changes.sort_by_cached_key(|event| (event.entry.mod_revision, place(event)));
        &self.changes
    }
}

impl Mvcc {
    /// Keeps a resource apart that has lost all changes up to `since`.
    pub(super) fn keep_since(&mut self, prefix: &str, since: Revision) {
        self.partition_by_prefix(prefix);
        if let Some(resource) = self.resources.get_mut(prefix) {
            (resource.oldest, resource.dropped) = (since, since);
        }
    }

    /// Makes a commit visible that was so before the store was opened again.
    pub(super) fn apply_again(&mut self, (revision, changes): Recommit) {
        let prepare = |(key, value): (Key, Option<(Bytes, Header)>)| {
            let expected = self.get(&key).map_or(Expected::Absent, |entry| Expected::At(entry.mod_revision));
            Prepared { key, expected, value, expires_at: None, purpose: Purpose::Removal, only_while: None }
        };
        let writes = changes.into_iter().map(prepare).collect();
        let commit = evaluate(writes, revision, |key| self.get(key)).expect("only what is there is told to be deleted");
        self.apply(&commit);
    }

    /// The changes that are kept now.
    pub(crate) fn past(&self) -> Past {
        let logs = self.resources.values().chain([&self.rest]).flat_map(|kept| &kept.log);
        Past { changes: logs.cloned().collect(), spanning: self.spanning.clone(), since: self.since(), bytes: self.history_bytes }
    }

    fn since(&self) -> Since {
        let named = self.resources.iter().map(|(name, kept)| (name.clone(), kept.oldest));
        named.chain([("".into(), self.rest.oldest)]).collect()
    }

    /// The versions of up to `limit` keys behind `after` as of `revision`; of resources of which that is not kept any more, the newest ones.
    pub(crate) fn as_of(&self, revision: Revision, after: Option<&Key>, limit: usize) -> Versioned {
        let from = after.map_or(Bound::Unbounded, |key| Bound::Excluded(key.as_str()));
        let shown = |(key, versions): (&Key, &Versions)| {
            let resource = resource_of(&self.resources, key.as_str()).map_or(&self.rest, |(_, found)| found);
            let entry = if resource.oldest <= revision { versions.at(revision) } else { versions.newest.as_ref() };
            let expires_at = versions.expires_at.filter(|_| entry.is_some_and(|entry| entry.mod_revision == versions.since));
            Some((Arc::clone(entry?), expires_at))
        };
        let entries: Vec<_> = self.keys.range::<str, _>((from, Bound::Unbounded)).filter_map(shown).take(limit).collect();
        let since = if entries.is_empty() { self.since() } else { Since::new() };
        Versioned { entries, revision: self.revision, since }
    }
}
