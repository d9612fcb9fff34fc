//! Keys, revisions and transactions as etcd's messages have them, and back.

use crate::messages::{self, compare, operation};
use berth_store::{
    Expected, Key, Revision,
    etcd::{KeyValue, Put},
};
use bytes::Bytes;

/// The first key that begins with `prefix`, and what stands behind the last.
pub(crate) fn bounds(prefix: &str) -> (Bytes, Bytes) {
    // To etcd a zero byte means "from the beginning" and "to the end".
    if prefix.is_empty() {
        return (Bytes::from_static(b"\0"), Bytes::from_static(b"\0"));
    }
    let mut end = prefix.as_bytes().to_vec();
    // Text holds no byte 255, so the last one has one behind it.
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    (Bytes::copy_from_slice(prefix.as_bytes()), end.into())
}

pub(crate) fn compare(put: &Put) -> messages::Compare {
    // A key that is not there has revision 0 to etcd; nobody expects a key there that was never written.
    let expected = match put.expected {
        Expected::Absent => 0,
        Expected::At(Revision(0)) => -1,
        Expected::At(revision) => to_wire(revision),
    };
    messages::Compare {
        how: compare::How::Equal.into(),
        what: compare::What::Mod.into(),
        key: bytes_of(&put.key),
        with: Some(compare::With::ModRevision(expected)),
    }
}

pub(crate) fn write(put: &Put) -> messages::Operation {
    let key = bytes_of(&put.key);
    let operation = match &put.value {
        Some(value) => {
            let lease = put.lease.map_or(0, |lease| lease.0);
            operation::Operation::Put(messages::Put { key, value: value.clone(), lease })
        }
        None => operation::Operation::DeleteRange(messages::DeleteRange { key, range_end: Bytes::new() }),
    };
    messages::Operation { operation: Some(operation) }
}

/// Reads where a key is.
pub(crate) fn look(put: &Put) -> messages::Operation {
    let range = messages::Range { key: bytes_of(&put.key), keys_only: true, ..messages::Range::default() };
    messages::Operation { operation: Some(operation::Operation::Range(range)) }
}

fn bytes_of(key: &Key) -> Bytes {
    Bytes::copy_from_slice(key.as_str().as_bytes())
}

/// A key as the store knows it; `None` for one that is no text, which nobody of Kubernetes has written.
pub(crate) fn key_of(bytes: &[u8]) -> Option<Key> {
    std::str::from_utf8(bytes).ok().map(Key::new)
}

pub(crate) fn key_value(found: messages::KeyValue) -> Option<KeyValue> {
    let (create_revision, mod_revision) = (from_wire(found.create_revision), from_wire(found.mod_revision));
    Some(KeyValue { key: key_of(&found.key)?, value: found.value, create_revision, mod_revision })
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
