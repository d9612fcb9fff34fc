//! Where the revisions are kept.

#[cfg(feature = "embedded")]
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the part that has files and a thread; the simulation does not build it"
)]
pub(crate) mod embedded;
pub mod etcd;
pub(crate) mod memory;
pub(crate) mod split;

use crate::{
    COMMIT_WRITES_MAX, Entry, Header, Key, Layout, MAX_VALUE_BYTES, Write, WriteError,
    log::{Change, CommitError, Found, Object},
    mvcc::{Prepared, Recommit, Recovered},
};
use bytes::Bytes;
use std::{
    io::{self, ErrorKind},
    sync::Arc,
};

/// What was found on disk, with the headers of its values read.
fn recovered(found: Found, layout: &dyn Layout) -> Recovered {
    let Found { mut objects, history, .. } = found;
    let expiries = objects.iter().filter_map(|(key, object)| Some((key.clone(), object.expires_at?))).collect();
    let (since, found) = history.into_changes();
    // Back to what each key was before the first of its changes.
    for change in found.iter().rev() {
        match &change.previous {
            Some(previous) => objects.insert(change.key.clone(), previous.clone()),
            None => objects.remove(&change.key),
        };
    }
    let with_header = |key: &Key, value: Bytes| (value.clone(), layout.header(key, &value));
    let mut changes: Vec<Recommit> = Vec::new();
    for Change { key, revision, value, .. } in found {
        let value = value.map(|value| with_header(&key, value));
        match changes.last_mut() {
            Some((last, changes)) if *last == revision => changes.push((key, value)),
            _ => changes.push((revision, vec![(key, value)])),
        }
    }
    let entry = |(key, object): (Key, Object)| {
        let (value, header) = with_header(&key, object.value);
        Arc::new(Entry { key, value, header, create_revision: object.create_revision, mod_revision: object.mod_revision })
    };
    Recovered { entries: objects.into_iter().map(entry).collect(), expiries, changes, since }
}

/// Whether a commit is one that stores take.
fn check_commit(writes: &[Write]) -> Result<(), WriteError> {
    let unchanged = writes.iter().filter(|write| write.only_while.is_some()).count();
    assert!(writes.len() + unchanged <= COMMIT_WRITES_MAX, "a commit has its limit");
    let is_named_before = |(index, write): (usize, &Write)| writes[..index].iter().any(|before| before.key == write.key);
    assert!(!writes.iter().enumerate().any(is_named_before), "a commit names each key once");
    let sizes = writes.iter().map(|write| (&write.key, write.value.as_ref().map_or(0, Bytes::len)));
    match sizes.into_iter().find(|(_, size)| MAX_VALUE_BYTES < *size) {
        Some((key, size)) => Err(WriteError::TooLarge { key: key.clone(), size, max: MAX_VALUE_BYTES }),
        None => Ok(()),
    }
}

/// A commit as the caller asks for it, checked and with the headers of its values read.
fn prepare(layout: &dyn Layout, writes: Vec<Write>) -> Result<Vec<Prepared>, WriteError> {
    check_commit(&writes)?;
    Ok(writes.into_iter().map(|write| prepare_one(layout, write)).collect())
}

fn prepare_one(layout: &dyn Layout, write: Write) -> Prepared {
    let Write { key, expected, value, header, expires_at, purpose, only_while } = write;
    let header_of = |value: &Bytes| {
        debug_assert!(header.as_ref().is_none_or(|header| *header == layout.header(&key, value)), "{key}: the header is that of the value");
        header.clone().unwrap_or_else(|| layout.header(&key, value))
    };
    // Copied: what is given may be a part of, or have room for, much more, and would keep all of that alive.
    let value: Option<(Bytes, Header)> = value.map(|value| (Bytes::copy_from_slice(&value), header_of(&value)));
    Prepared { key, expected, value, expires_at, purpose, only_while }
}

/// The error for the writer of `key`.
fn refusal(key: Key, error: &CommitError) -> WriteError {
    match error {
        CommitError::Unknown(source) => WriteError::Unknown { key, cause: cause(source) },
        CommitError::Refused(source) if is_space(source) => WriteError::NoSpace { key },
        CommitError::Refused(source) => WriteError::Unavailable { cause: cause(source) },
    }
}

fn is_space(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

fn cause(error: &io::Error) -> String {
    format!("its disk: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_refused_for_lack_of_space_only_if_the_disk_reports_it() {
        let told = |error: CommitError| format!("{:?}", refusal(Key::new("/a"), &error));
        for kind in [ErrorKind::StorageFull, ErrorKind::QuotaExceeded, ErrorKind::FileTooLarge] {
            assert_eq!(told(CommitError::Refused(kind.into())), r#"NoSpace { key: Key("/a") }"#, "{kind:?}");
        }
        let gone = || io::Error::other("it is gone");
        assert_eq!(told(CommitError::Refused(gone())), r#"Unavailable { cause: "its disk: it is gone" }"#);
        assert_eq!(told(CommitError::Unknown(gone())), r#"Unknown { key: Key("/a"), cause: "its disk: it is gone" }"#);
    }
}
