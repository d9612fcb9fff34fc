//! A note, beside the engine, of how far writes have been acknowledged.
//!
//! The engine ends its journal at the first place that it cannot read: right for a write that a crash cut off, silent loss for any
//! other. The note tells the two apart: a store that comes back must have at least the commit before the last acknowledged one.
//! Written after each commit without a sync of its own: it outlives the process, and after a power loss it may only be too modest.

use super::{
    OpenError,
    record::{seal, split_u64, unseal},
};
use crate::Revision;
use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, Write},
    path::Path,
};

const NAME: &str = "acknowledged";

/// The last acknowledged commit, and the one before, by the revision that each ends with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) before: Revision,
    pub(super) last: Revision,
}

pub(super) struct Acknowledged {
    file: File,
    pub(super) mark: Mark,
}

impl Acknowledged {
    /// The note in `dir`; a missing or empty one knows nothing, as after a power loss just behind the store's first start.
    pub(super) fn open(dir: &Path) -> Result<Self, OpenError> {
        let path = dir.join(NAME);
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = opened.map_err(|source| OpenError::io("open", &path, source))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|source| OpenError::io("read", &path, source))?;
        let mark = if bytes.is_empty() { Some(Mark::default()) } else { decode(&bytes) };
        let damaged = || OpenError::Damaged { what: path.display().to_string(), why: "its checksum is wrong".into() };
        Ok(Self { file, mark: mark.ok_or_else(damaged)? })
    }

    /// Notes a further acknowledged commit.
    pub(super) fn advance(&mut self, revision: Revision) -> io::Result<()> {
        self.mark = Mark { before: self.mark.last, last: revision };
        let fields = [0, self.mark.before.0, self.mark.last.0];
        self.file.rewind()?;
        self.file.write_all(&seal(NAME.as_bytes(), fields.map(u64::to_le_bytes).concat()))
    }

    /// Makes the note outlive a power loss too.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }
}

pub(super) fn decode(bytes: &[u8]) -> Option<Mark> {
    let (before, rest) = split_u64(unseal(NAME.as_bytes(), bytes)?)?;
    let (last, _) = split_u64(rest)?;
    Some(Mark { before: Revision(before), last: Revision(last) })
}
