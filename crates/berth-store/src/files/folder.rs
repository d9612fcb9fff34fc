//! The real folder.

use super::{File, Files};
use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
use std::{
    fs::{self, DirBuilder, OpenOptions, Permissions, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// Its lock. Not one of the [`Files`].
const LOCK: &str = "lock";
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// A folder that is this process's as long as the value lives.
pub struct Folder {
    path: PathBuf,
    handle: fs::File,
    _lock: Option<Lock>,
}

/// Why a folder cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// Another process, or another store of this one, has it.
    #[error("{} is in use by another process", dir.display())]
    InUse {
        /// The folder.
        dir: PathBuf,
    },
    /// The file system reported an error.
    #[error("could not {what} {}", path.display())]
    Io {
        /// What was being done.
        what: &'static str,
        /// To which file or folder.
        path: PathBuf,
        /// Its answer.
        source: io::Error,
    },
}

impl FolderError {
    fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { what, path, source }
    }
}

/// The lock of a folder, until it is dropped. Closing the file would not do: between a fork and the exec that follows it, a child process has the
/// file too, and a lock ends with the last copy.
struct Lock(fs::File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Where it cannot be given back, closing the file does, a moment later.
        let _ = self.0.unlock();
    }
}

impl Folder {
    /// Makes the folder if it is missing, locks it, and restricts it and its files to their owner.
    ///
    /// # Errors
    /// [`FolderError`].
    pub fn take(dir: &Path) -> Result<Self, FolderError> {
        make(dir).map_err(FolderError::io("make", dir))?;
        let path = dir.join(LOCK);
        let opened = OpenOptions::new().write(true).create(true).truncate(false).mode(FILE_MODE).open(&path);
        let lock = lock(dir, &path, opened.map_err(FolderError::io("open", &path))?)?;
        shut(dir)?;
        Self::with_lock(dir, Some(lock))
    }

    /// Locks the folder without a change to its contents. A folder without a lock file is unlocked: the caller creates the file first.
    pub(crate) fn take_as_it_is(dir: &Path) -> Result<Self, FolderError> {
        let path = dir.join(LOCK);
        let lock = match fs::File::open(&path) {
            Ok(file) => Some(lock(dir, &path, file)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(FolderError::io("open", &path)(error)),
        };
        Self::with_lock(dir, lock)
    }

    /// A folder that may be another's, to be read while that one writes.
    pub(crate) fn beside(dir: &Path) -> Result<Self, FolderError> {
        Self::with_lock(dir, None)
    }

    fn with_lock(dir: &Path, lock: Option<Lock>) -> Result<Self, FolderError> {
        let handle = fs::File::open(dir).map_err(FolderError::io("open", dir))?;
        Ok(Self { path: dir.into(), handle, _lock: lock })
    }
}

fn lock(dir: &Path, path: &Path, file: fs::File) -> Result<Lock, FolderError> {
    match file.try_lock() {
        Ok(()) => Ok(Lock(file)),
        Err(TryLockError::WouldBlock) => Err(FolderError::InUse { dir: dir.into() }),
        Err(TryLockError::Error(source)) => Err(FolderError::io("lock", path)(source)),
    }
}

/// The folder, and that the folders above know it.
fn make(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    make(parent)?;
    // That takes one which another has made since.
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(dir)?;
    fs::File::open(parent)?.sync_all()
}

/// Removes the permissions of the folder and its files from all users except the owner.
fn shut(dir: &Path) -> Result<(), FolderError> {
    set_mode(dir, FOLDER_MODE)?;
    for file in fs::read_dir(dir).map_err(FolderError::io("list", dir))? {
        let file = file.map_err(FolderError::io("list", dir))?;
        if file.file_type().is_ok_and(|kind| kind.is_file()) {
            set_mode(&file.path(), FILE_MODE)?;
        }
    }
    Ok(())
}

fn set_mode(path: &Path, mode: u32) -> Result<(), FolderError> {
    let found = fs::symlink_metadata(path).map_err(FolderError::io("look at", path))?;
    if found.permissions().mode() & 0o777 == mode {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(FolderError::io("set the mode of", path))
}

impl Files for Folder {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for file in fs::read_dir(&self.path)? {
            let file = file?;
            if let (true, Ok(name)) = (file.file_type()?.is_file(), file.file_name().into_string()) {
                names.push(name);
            }
        }
        names.retain(|name| name != LOCK);
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        Ok(Box::new(RealFile(fs::File::open(self.path.join(name))?)))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(FILE_MODE).open(self.path.join(name))?;
        Ok(Box::new(RealFile(file)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn sync(&self) -> io::Result<()> {
        self.handle.sync_all()
    }

    fn free_bytes(&self) -> Option<u64> {
        fstatvfs(&self.handle).ok().map(|found| found.f_bavail.saturating_mul(found.f_frsize))
    }
}

struct RealFile(fs::File);

impl File for RealFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        match fallocate(&self.0, FallocateFlags::empty(), 0, length) {
            // A file system that cannot promise space still has it, usually.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
                let found = self.0.metadata()?.len();
                self.0.set_len(found.max(length))
            }
            allocated => Ok(allocated?),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modes(dir: &Path) -> Vec<u32> {
        let mut modes = vec![fs::metadata(dir).expect("there").permissions().mode() & 0o777];
        for file in fs::read_dir(dir).expect("readable") {
            modes.push(file.expect("readable").metadata().expect("there").permissions().mode() & 0o777);
        }
        modes
    }

    #[test]
    fn a_folder_is_unlocked_when_its_value_is_dropped_although_files_are_open() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let folder = Folder::take(dir.path()).expect("no process has it");
        let copy = folder._lock.as_ref().expect("taken").0.try_clone().expect("as a child process has it before its exec");
        assert!(matches!(Folder::take(dir.path()), Err(FolderError::InUse { .. })));
        assert!(matches!(Folder::take_as_it_is(dir.path()), Err(FolderError::InUse { .. })));
        drop(folder);
        assert!(Folder::take(dir.path()).is_ok());
        drop(copy);
    }

    #[test]
    fn a_folder_that_others_could_read_is_shut() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("ours");
        fs::write(dir.path().join("log-00000001"), "").expect("writable");
        fs::set_permissions(dir.path().join("log-00000001"), Permissions::from_mode(0o644)).expect("ours");
        let folder = Folder::take(dir.path()).expect("no process has it");
        folder.create("another").expect("writable");
        assert_eq!(modes(dir.path()), [0o700, 0o600, 0o600, 0o600]);
    }

    #[test]
    fn concurrent_creators_of_a_folder_all_find_it() {
        let above = tempfile::tempdir().expect("a temporary folder");
        let dir = above.path().join("a/b/c");
        let together = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            let make_it = || {
                together.wait();
                make(&dir)
            };
            let made: Vec<_> = (0..8).map(|_| scope.spawn(make_it)).collect();
            made.into_iter().for_each(|made| made.join().expect("it does not panic").expect("one of them makes it"));
        });
        assert_eq!(modes(&dir), [0o700]);
    }

    #[test]
    fn a_file_in_place_of_the_folder_is_reported() {
        let above = tempfile::tempdir().expect("a temporary folder");
        let dir = above.path().join("data");
        fs::write(&dir, "").expect("writable");
        let Err(FolderError::Io { what: "make", path, source }) = Folder::take(&dir) else { panic!("it is no folder") };
        assert_eq!((path, source.kind()), (dir, io::ErrorKind::AlreadyExists));
    }

    /// The value by which a full disk is recognized.
    #[test]
    fn a_real_folder_reports_its_free_space() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let folder = Folder::take(dir.path()).expect("no process has it");
        let free = folder.free_bytes().expect("a file system that knows");
        assert!(1 << 16 < free, "{free}: tests write more than that");
    }

    #[test]
    fn taking_a_folder_as_it_is_changes_nothing_in_it() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("ours");
        Folder::take_as_it_is(dir.path()).expect("no process has it");
        assert_eq!(modes(dir.path()), [0o755]);
    }

    /// Of what is another's the mode cannot be set, and need not be where it is right.
    #[test]
    fn a_mode_that_is_right_is_not_set() {
        let of_the_system = Path::new("/proc/self/status");
        assert!(set_mode(of_the_system, 0o444).is_ok());
        assert!(matches!(set_mode(of_the_system, 0o600), Err(FolderError::Io { what: "set the mode of", .. })));
    }

    /// So that a write finds it, and the file need not become longer.
    #[test]
    fn preallocated_space_exists_and_the_contents_of_the_file_stay() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let file = Folder::take(dir.path()).expect("no process has it").create("a").expect("writable");
        file.write_at(b"text", 0).expect("writable");
        for (length, expected) in [(4096, 4096), (100, 4096)] {
            file.allocate(length).expect("there is space");
            assert_eq!(fs::metadata(dir.path().join("a")).expect("there").len(), expected);
        }
        let mut bytes = [1; 6];
        assert_eq!(file.read_at(&mut bytes, 0).expect("readable"), 6);
        assert_eq!(&bytes, b"text\0\0");
    }

    #[test]
    fn an_unreadable_lock_is_reported() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        std::os::unix::fs::symlink(LOCK, dir.path().join(LOCK)).expect("ours");
        let told = Folder::take_as_it_is(dir.path()).map(drop);
        assert!(matches!(told, Err(FolderError::Io { what: "open", .. })), "{told:?}");
    }
}
