//! Converts keys, revisions and transactions to etcd's messages and back.

use crate::messages::{self, compare, operation};
use berth_store::{
    Expected, Key, Revision,
    etcd::{KeyValue, Lease, Put},
};
use bytes::Bytes;
use std::sync::Arc;

/// The prefix of the store's keys.
pub(crate) const HERE: &str = "/registry";

/// The prefix in etcd that replaces [`HERE`].
#[derive(Clone)]
pub(crate) struct KeyPrefix(Arc<str>);

impl KeyPrefix {
    /// `prefix` must not end with `/`.
    pub(crate) fn new(prefix: &str) -> Self {
        Self(prefix.into())
    }

    /// Returns a key or a key prefix in its form in etcd.
    pub(crate) fn there(&self, text: &str) -> Bytes {
        match text.strip_prefix(HERE) {
            Some(rest) if &*self.0 != HERE => [&self.0, rest].concat().into(),
            _ => Bytes::copy_from_slice(text.as_bytes()),
        }
    }

    /// Returns the store's key for a key of etcd. `None` for one that is not text, which Kubernetes never writes.
    pub(crate) fn here(&self, bytes: &[u8]) -> Option<Key> {
        let text = std::str::from_utf8(bytes).ok()?;
        Some(match text.strip_prefix(&*self.0) {
            Some(rest) if &*self.0 != HERE => Key::new(&[HERE, rest].concat()),
            _ => Key::new(text),
        })
    }

    /// Returns the first key with `prefix`, and the end after the last one.
    pub(crate) fn bounds(&self, prefix: &str) -> (Bytes, Bytes) {
        let first = self.there(prefix);
        let mut end = first.to_vec();
        // Text contains no byte 255, so the last byte can be incremented.
        match end.last_mut() {
            Some(last) => *last += 1,
            // To etcd a zero byte means "from the beginning" and "to the end".
            None => return (Bytes::from_static(b"\0"), Bytes::from_static(b"\0")),
        }
        (first, end.into())
    }

    pub(crate) fn key_value(&self, found: messages::KeyValue) -> Option<KeyValue> {
        let (create_revision, mod_revision) = (from_wire(found.create_revision), from_wire(found.mod_revision));
        let lease = (found.lease != 0).then_some(Lease(found.lease));
        Some(KeyValue { key: self.here(&found.key)?, value: found.value, create_revision, mod_revision, lease })
    }

    pub(crate) fn compare(&self, key: &Key, expected: Expected) -> messages::Compare {
        // To etcd, an absent key has revision 0. No caller expects an absent key at a revision.
        let expected = match expected {
            Expected::Absent => 0,
            Expected::At(Revision(0)) => -1,
            Expected::At(revision) => to_wire(revision),
        };
        messages::Compare {
            how: compare::How::Equal.into(),
            what: compare::What::Mod.into(),
            key: self.there(key.as_str()),
            with: Some(compare::With::ModRevision(expected)),
        }
    }

    pub(crate) fn write(&self, put: &Put) -> messages::Operation {
        let key = self.there(put.key.as_str());
        let operation = match &put.value {
            Some(value) => {
                let lease = put.lease.map_or(0, |lease| lease.0);
                operation::Operation::Put(messages::Put { key, value: value.clone(), lease })
            }
            None => operation::Operation::DeleteRange(messages::DeleteRange { key, range_end: Bytes::new() }),
        };
        messages::Operation { operation: Some(operation) }
    }

    /// Returns the operation that reads a key.
    pub(crate) fn read(&self, key: &Key) -> messages::Operation {
        let range = messages::Range { key: self.there(key.as_str()), keys_only: true, ..messages::Range::default() };
        messages::Operation { operation: Some(operation::Operation::Range(range)) }
    }
}

pub(crate) fn revision_of(header: Option<&messages::Header>) -> Revision {
    header.map_or(Revision(0), |header| from_wire(header.revision))
}

pub(crate) fn from_wire(revision: i64) -> Revision {
    Revision(revision.try_into().unwrap_or_default())
}

pub(crate) fn to_wire(revision: Revision) -> i64 {
    revision.0.try_into().unwrap_or(i64::MAX)
}
