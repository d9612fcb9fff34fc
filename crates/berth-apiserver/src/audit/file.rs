//! The file of the audit log, with rotation. Rotated files are deleted when they are too old or too many.

use berth_http::Rare;
use jiff::{SignedDuration, Timestamp, civil::DateTime, tz::TimeZone};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// The limits of the audit log. Without any one of them, a client could fill the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// The maximum size of a file. 0: no rotation.
    pub bytes_max: u64,
    /// The maximum age of rotated files. Zero: no limit.
    pub age_max: SignedDuration,
    /// The maximum number of rotated files. 0: no limit.
    pub backups_max: usize,
}

impl Default for Rotation {
    /// Size and age are those of upstream. The number of files is a tenth of upstream's hundred, so that a laptop
    /// stores at most 1.1 GiB.
    fn default() -> Self {
        Self { bytes_max: 100 << 20, age_max: SignedDuration::from_hours(366 * 24), backups_max: 10 }
    }
}

/// Upstream's file names: `audit-2026-01-31T12-00-00.000.log`, in UTC.
const TIME_FORMAT: &str = "%Y-%m-%dT%H-%M-%S%.3f";

/// Takes whole lines.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    rotation: Rotation,
    file: File,
    /// The size of the current file.
    bytes: u64,
}

impl LogFile {
    /// Opens the file for appending.
    pub(super) fn open(path: &Path, rotation: Rotation) -> io::Result<Self> {
        let file = private_file(path)?;
        let metadata = file.metadata()?;
        // Other targets than files, such as pipes, cannot be rotated.
        let rotation = if metadata.is_file() { rotation } else { Rotation { bytes_max: 0, ..rotation } };
        Ok(Self { path: path.to_owned(), rotation, file, bytes: metadata.len() })
    }

    /// Renames the current file and begins a new one.
    fn rotate(&mut self, now: Timestamp) -> io::Result<()> {
        match fs::rename(&self.path, aside(&self.path, now)) {
            // Another program has removed it, or the last rotation failed to create it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => (),
            renamed => renamed?,
        }
        self.file = private_file(&self.path)?;
        self.bytes = 0;
        if let Err(error) = self.remove_old(now) {
            tracing::warn!(%error, "files of the audit log that were put aside could not be removed");
        }
        Ok(())
    }

    fn remove_old(&self, now: Timestamp) -> io::Result<()> {
        let mut backups = backups(&self.path)?;
        backups.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        for (newer, (at, path)) in backups.iter().enumerate() {
            let is_surplus = self.rotation.backups_max != 0 && self.rotation.backups_max <= newer;
            let is_old = !self.rotation.age_max.is_zero() && self.rotation.age_max < now.duration_since(*at);
            if is_surplus || is_old {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}

impl Write for LogFile {
    /// Writes all of `bytes` or nothing, unless the machine fails. A partial line would corrupt the next one.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let after = self.bytes + bytes.len() as u64;
        if self.bytes != 0 && self.rotation.bytes_max != 0 && self.rotation.bytes_max < after {
            self.rotate(Timestamp::now())?;
        }
        if let Err(error) = self.file.write_all(bytes) {
            if self.file.metadata().is_ok_and(|metadata| metadata.is_file() && self.bytes < metadata.len()) {
                // A partial line that cannot be removed remains.
                let _ = self.file.set_len(self.bytes);
            }
            return Err(error);
        }
        self.bytes += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Opens a file for appending. A new one is readable by its owner only.
fn private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Returns the parts of a rotated file's name before and after its time.
fn name_parts(path: &Path) -> (String, String) {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().map(|extension| format!(".{}", extension.to_string_lossy()));
    (format!("{stem}-"), extension.unwrap_or_default())
}

fn aside(path: &Path, now: Timestamp) -> PathBuf {
    let (before, behind) = name_parts(path);
    path.with_file_name(format!("{before}{}{behind}", now.strftime(TIME_FORMAT)))
}

/// Returns the rotated files with their times. Other files are ignored.
fn backups(path: &Path) -> io::Result<Vec<(Timestamp, PathBuf)>> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (before, behind) = name_parts(path);
    let put_aside_at = |name: &str| {
        let time = name.strip_prefix(&before)?.strip_suffix(&behind)?;
        DateTime::strptime("%Y-%m-%dT%H-%M-%S%.f", time).ok()?.to_zoned(TimeZone::UTC).ok().map(|at| at.timestamp())
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        found.extend(entry.file_name().to_str().and_then(put_aside_at).map(|at| (at, entry.path())));
    }
    Ok(found)
}

/// Limits the log lines about write failures.
pub(super) static CANNOT_WRITE: Rare = Rare::new();

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder");
        let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect();
        names.sort();
        names
    }

    #[test]
    fn a_full_log_is_put_aside_and_never_more_than_so_many_are_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.log");
        for other in ["audit-notes.log", "audit-2026-01-01T00-00-00.000.txt"] {
            fs::write(folder.path().join(other), "mine").expect("written");
        }
        let rotation = Rotation { bytes_max: 10, age_max: SignedDuration::ZERO, backups_max: 2 };
        let mut log = LogFile::open(&path, rotation).expect("opened");
        for number in 0..10_u8 {
            log.write_all(&[b'0' + number; 8]).expect("written");
            // No two are put aside within a millisecond.
            let put_aside = backups(&path).expect("a folder");
            while put_aside.iter().any(|(at, _)| at.as_millisecond() == Timestamp::now().as_millisecond()) {
                std::hint::spin_loop();
            }
            assert!(fs::metadata(&path).expect("there").len() <= 10);
            assert!(names(folder.path()).len() <= 2 + 1 + 2);
        }
        let mut kept = backups(&path).expect("a folder");
        kept.sort();
        let kept: Vec<String> = kept.iter().map(|(_, path)| fs::read_to_string(path).expect("text")).collect();
        assert_eq!(kept, ["7".repeat(8), "8".repeat(8)]);
        assert_eq!(fs::read_to_string(&path).expect("text"), "9".repeat(8));
        assert_eq!(fs::read_to_string(folder.path().join("audit-notes.log")).expect("others' files stay"), "mine");
    }

    #[test]
    fn what_was_put_aside_long_ago_goes_and_a_log_goes_on_where_it_ended() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.log");
        let now = Timestamp::now();
        for hours in [1, 3] {
            fs::write(aside(&path, now - SignedDuration::from_hours(hours)), "old").expect("written");
        }
        fs::write(&path, "12345678").expect("written");
        let rotation = Rotation { bytes_max: 10, age_max: SignedDuration::from_hours(2), backups_max: 0 };
        let mut log = LogFile::open(&path, rotation).expect("opened");
        log.write_all(b"90").expect("written");
        assert_eq!(backups(&path).expect("a folder").len(), 2, "it fits");
        log.write_all(b"1").expect("written");
        assert_eq!(backups(&path).expect("a folder").len(), 2, "one came, one went");
        assert_eq!(fs::read_to_string(&path).expect("text"), "1");
    }

    #[test]
    fn zero_means_no_bound() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.log");
        let mut log = LogFile::open(&path, Rotation { bytes_max: 0, ..Rotation::default() }).expect("opened");
        for _ in 0..100 {
            log.write_all(b"0123456789").expect("written");
        }
        assert_eq!((names(folder.path()), fs::metadata(&path).expect("there").len()), (vec!["audit.log".to_owned()], 1000));
    }
}
