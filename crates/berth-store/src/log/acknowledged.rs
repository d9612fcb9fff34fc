//! A note, beside the logs, of how far writes have been acknowledged.
//!
//! A log ends where it is unreadable and nothing complete follows. That is right for a write that a crash cut off, and silent loss for any other. The
//! note distinguishes the two. It is written after each commit without a sync of its own. It outlives the process, and after a power loss it is at most
//! too low. It is within one sector, which a disk writes as a whole or not at all.
//!
//! Checksum u64 (seeded with that of the file's name), revision u64.

use crate::{
    Revision,
    files::{File, Files},
};
use std::io::{self, ErrorKind};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

pub(crate) const NAME: &str = "acknowledged";
const NEW: &str = "acknowledged.new";
const BYTES: usize = 16;

pub(crate) struct Acknowledged(Box<dyn File>);

impl Acknowledged {
    /// Writes a new durable note with `revision`, and replaces an existing one.
    pub(crate) fn replace(files: &dyn Files, revision: Revision) -> io::Result<Self> {
        let file = files.create(NEW)?;
        file.write_at(&encode(revision), 0)?;
        file.sync()?;
        files.rename(NEW, NAME)?;
        files.sync()?;
        Ok(Self(file))
    }

    /// Records that everything up to `revision` is acknowledged, and nothing after it.
    pub(crate) fn set(&self, revision: Revision) -> io::Result<()> {
        self.0.write_at(&encode(revision), 0)
    }

    /// Makes the note outlive a power loss too.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
}

/// The content of a folder's note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    Missing,
    Damaged,
    Revision(Revision),
}

pub(crate) fn read(files: &dyn Files) -> io::Result<Note> {
    let file = match files.open(NAME) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Note::Missing),
        opened => opened?,
    };
    // One byte more than belongs there.
    let mut bytes = [0; BYTES + 1];
    let length = file.read_at(&mut bytes, 0)?;
    Ok(decode(&bytes[..length]).map_or(Note::Damaged, Note::Revision))
}

fn encode(revision: Revision) -> [u8; BYTES] {
    let revision = revision.0.to_le_bytes();
    let mut bytes = [0; BYTES];
    bytes[..8].copy_from_slice(&checksum(&revision).to_le_bytes());
    bytes[8..].copy_from_slice(&revision);
    bytes
}

fn checksum(revision: &[u8]) -> u64 {
    xxh3_64_with_seed(revision, xxh3_64(NAME.as_bytes()))
}

pub(crate) fn decode(bytes: &[u8]) -> Option<Revision> {
    let (stored, revision) = bytes.split_first_chunk()?;
    let revision: [u8; 8] = revision.try_into().ok()?;
    (u64::from_le_bytes(*stored) == checksum(&revision)).then_some(Revision(u64::from_le_bytes(revision)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_and_cut_is_seen() {
        let bytes = encode(Revision(1234));
        assert_eq!(decode(&bytes), Some(Revision(1234)));
        for at in 0..bytes.len() {
            assert_eq!(decode(&bytes[..at]), None);
            for bit in 0..8 {
                let mut flipped = bytes;
                flipped[at] ^= 1 << bit;
                assert_eq!(decode(&flipped), None);
            }
        }
    }

    #[cfg(feature = "embedded")]
    #[test]
    fn a_note_that_cannot_be_opened_is_not_taken_for_none() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = crate::files::folder::Folder::take(dir.path()).expect("a folder");
        assert_eq!(read(&folder).expect("none"), Note::Missing);
        std::os::unix::fs::symlink(NAME, dir.path().join(NAME)).expect("a link to itself");
        let error = read(&folder).expect_err("its content is unknown");
        assert_ne!(error.kind(), ErrorKind::NotFound, "{error}");
    }
}
