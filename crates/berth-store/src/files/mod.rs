//! Where bytes become durable: one flat folder of files, and nothing of the machine beside it. The embedded store does all its IO through
//! [`Files`], so that what a disk may do to it (lose what was not synced, tear, fail, fill up) can be done to it in tests: [`disk`].

pub mod disk;
#[cfg(feature = "embedded")]
#[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "the real files; the simulation does not build them")]
pub(crate) mod folder;

use std::io;

/// The files of one folder, by their names.
pub trait Files: Send + Sync + 'static {
    /// The names of all files, in any order.
    ///
    /// # Errors
    /// The system's.
    fn list(&self) -> io::Result<Vec<String>>;

    /// An existing file, to be read.
    ///
    /// # Errors
    /// The system's.
    fn open(&self, name: &str) -> io::Result<Box<dyn File>>;

    /// An empty file, to be written and read; one of that name is emptied. Its place in the folder is durable with the next [`Files::sync`].
    ///
    /// # Errors
    /// The system's.
    fn create(&self, name: &str) -> io::Result<Box<dyn File>>;

    /// Renames a file and replaces the file that had the new name. A reader finds the one or the other. Durable as creation is.
    ///
    /// # Errors
    /// The system's.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Takes a file away. Durable as creation is.
    ///
    /// # Errors
    /// The system's.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes durable which files there are; what is in them only [`File::sync`] does.
    ///
    /// # Errors
    /// The system's; then it is unknown what is durable, also if a later call succeeds.
    fn sync(&self) -> io::Result<()>;

    /// How many bytes are free, where that is known.
    fn free_bytes(&self) -> Option<u64>;
}

/// One open file. Renaming or removing it does not end it.
pub trait File: Send + Sync {
    /// Reads the bytes at `offset`. Returns how many, 0 at the end.
    ///
    /// # Errors
    /// The system's.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all bytes at `offset`.
    ///
    /// # Errors
    /// The system's; then some of them may have been written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes the file at least so long, with zeros, and sees to it that writes up to there find space.
    ///
    /// # Errors
    /// The system's, above all [`io::ErrorKind::StorageFull`]; nothing is written then.
    fn allocate(&self, length: u64) -> io::Result<()>;

    /// Makes the content durable, and the length.
    ///
    /// # Errors
    /// The system's; then it is unknown what is durable, also if a later call succeeds.
    fn sync(&self) -> io::Result<()>;
}
