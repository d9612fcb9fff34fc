//! What a commit does: whether its keys are as expected, and the changes that it makes.

use crate::{Entry, Event, EventKind, Events, Expected, Header, Key, Purpose, Revision, Unchanged, WriteError, env::Timestamp};
use bytes::Bytes;
use std::sync::{Arc, OnceLock};

/// The part of one key in a commit that waits for its turn.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) key: Key,
    pub(crate) expected: Expected,
    /// `None`: the key is deleted.
    pub(crate) value: Option<(Bytes, Header)>,
    /// When the value is to go.
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) purpose: Purpose,
    pub(crate) only_while: Option<Unchanged>,
}

/// What one revision changes.
#[derive(Debug)]
pub(crate) struct Commit {
    /// Never empty.
    pub(crate) events: Events,
    /// Those of its keys whose values are to go some time.
    pub(crate) expiries: Vec<(Key, Timestamp)>,
    pub(crate) purpose: Purpose,
}

impl Commit {
    pub(crate) fn entries(&self) -> Vec<Arc<Entry>> {
        self.events.iter().map(|event| Arc::clone(&event.entry)).collect()
    }

    /// When the value that it gives `key` is to go, if some time.
    pub(crate) fn expires_at(&self, key: &Key) -> Option<Timestamp> {
        self.expiries.iter().find(|(expiring, _)| expiring == key).map(|(_, at)| *at)
    }
}

/// The changes that a commit makes as revision `next`, where `current` gives the newest version of a key; a conflict if one key is not as
/// expected.
pub(crate) fn evaluate<'a>(
    writes: Vec<Prepared>,
    next: Revision,
    current: impl Fn(&Key) -> Option<&'a Arc<Entry>>,
) -> Result<Commit, WriteError> {
    for Unchanged { key, revision } in writes.iter().filter_map(|write| write.only_while.as_ref()) {
        let found = current(key).map(|entry| entry.mod_revision).unwrap_or_default();
        if found != *revision {
            return Err(WriteError::Conflict { key: key.clone(), found });
        }
    }
    let expiring = |write: &Prepared| write.expires_at.filter(|_| write.value.is_some()).map(|at| (write.key.clone(), at));
    let expiries = writes.iter().filter_map(expiring).collect();
    let purpose = writes.iter().map(|write| write.purpose).min().unwrap_or(Purpose::Growth);
    let events: Result<Events, WriteError> = writes.into_iter().map(|write| evaluate_one(write, next, &current).map(Arc::new)).collect();
    Ok(Commit { events: events?, expiries, purpose })
}

fn evaluate_one<'a>(write: Prepared, next: Revision, current: impl Fn(&Key) -> Option<&'a Arc<Entry>>) -> Result<Event, WriteError> {
    let Prepared { key, expected, value, expires_at: _, purpose: _, only_while: _ } = write;
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
