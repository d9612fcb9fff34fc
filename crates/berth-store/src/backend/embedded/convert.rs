//! Takes over folders that berth wrote before it had a log of its own: an `engine` folder of the database fjall, formats 1 and 2.
//!
//! The database is copied first and only the copy is opened, since fjall removes what it does not know. What is read goes into files of today's format, at today's keys;
//! the note of what was acknowledged is replaced last, and then the old folder goes. What was broken off before is begun again.
//!
//! | record | key in the database | value |
//! |---|---|---|
//! | object | `k`, then the key's text | checksum u64, create revision u64, mod revision u64, the value |
//! | object with a time | the same | checksum u64, create revision with its highest bit set u64, mod revision u64, second since 1970 i64, the value |
//! | state | `s` | checksum u64, format u64, revision u64, count u64, sum u64 |
//!
//! The note: checksum u64, then the revisions of the last but one and the last acknowledged commit, u64 each.

use crate::{
    Key, Layout, Revision,
    env::Timestamp,
    files::folder::Folder,
    log::{self, Object, Summary},
};
use bytes::Bytes;
use fjall::{Database, KeyspaceCreateOptions};
use std::{
    collections::BTreeMap,
    fs, io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const STATE_KEY: &[u8] = b"s";
const OBJECT_PREFIX: &[u8] = b"k";
const NOTE: &str = "acknowledged";
/// In the create revision of an object whose value is to go some time.
const EXPIRES: u64 = 1 << 63;

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Objects = BTreeMap<Key, Object>;

/// Converts the folder if it is an earlier one. Everything of it is read and checked before anything is changed.
pub(super) fn convert(dir: &Path, folder: &Folder, layout: &dyn Layout) -> Result<(), Failure> {
    let (engine, copy) = (dir.join("engine"), dir.join("engine.copy"));
    remove(&copy)?;
    if !engine.is_dir() {
        return Ok(());
    }
    if !log::has_note(folder)? {
        copy_folder(&engine, &copy)?;
        let read = read(dir, &copy);
        remove(&copy)?;
        let (objects, state) = read?;
        let objects: Objects = objects.into_iter().map(|(key, object)| (layout.moved(&key).unwrap_or(key), object)).collect();
        let state = Summary::of(state.revision, &objects);
        log::remove_all(folder)?;
        log::write_anew(folder, 1, objects, state)?;
        log::acknowledge(folder, state.revision)?;
    }
    Ok(remove(&engine)?)
}

/// Whether a folder is to be converted.
pub(super) fn is_earlier(dir: &Path, folder: &Folder) -> io::Result<bool> {
    Ok(dir.join("engine").is_dir() && !log::has_note(folder)?)
}

fn remove(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy_folder(&from, &to)?;
        } else {
            fs::copy(&from, &to)?;
        }
    }
    Ok(())
}

/// All objects, if they are what was acknowledged.
fn read(dir: &Path, copy: &Path) -> Result<(Objects, Summary), Failure> {
    // The engine asserts some of what it reads: what it finds wrong so is an answer to the opener too, not the end of the process.
    let read = catch_unwind(AssertUnwindSafe(|| read_database(copy)));
    let (objects, state) = read.map_err(|_| "reading it panicked")??;
    let found = Summary::of(state.revision, &objects);
    if found != state {
        return Err(
            format!("{} objects, sum {:x}, where {} objects, sum {:x} belong", found.count, found.sum, state.count, state.sum).into()
        );
    }
    let acknowledged = read_note(&dir.join(NOTE))?;
    if state.revision < acknowledged {
        return Err(
            format!("revision {acknowledged} was acknowledged, and revision {} is the last that can be read", state.revision).into()
        );
    }
    Ok((objects, state))
}

fn read_database(dir: &Path) -> Result<(Objects, Summary), Failure> {
    let database = Database::builder(dir).cache_size(1 << 20).worker_threads(1).open()?;
    let records = database.keyspace("objects", KeyspaceCreateOptions::default)?;
    let state = records.get(STATE_KEY)?.ok_or("the record of the store's state is missing")?;
    let state = decode_state(&state).ok_or("the record of the store's state is damaged, or of a format that is not known")?;
    let mut objects = Objects::new();
    for record in records.prefix(OBJECT_PREFIX) {
        let (key, bytes) = record.into_inner()?;
        let text = String::from_utf8_lossy(&key[OBJECT_PREFIX.len()..]).into_owned();
        let object = decode_object(&text, &bytes).ok_or_else(|| format!("the record of {text} is damaged"))?;
        objects.insert(Key::new(&text), object);
    }
    Ok((objects, state))
}

/// The last acknowledged revision; 0 where there is no note, as after a power loss just behind the first start.
fn read_note(path: &Path) -> Result<Revision, Failure> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Revision(0)),
        read => read?,
    };
    let last = || unseal(NOTE.as_bytes(), &bytes).and_then(split_u64).and_then(|(_, rest)| split_u64(rest));
    if bytes.is_empty() {
        return Ok(Revision(0));
    }
    let (last, _) = last().ok_or("the note of what was acknowledged is damaged")?;
    Ok(Revision(last))
}

fn decode_object(key: &str, bytes: &[u8]) -> Option<Object> {
    let (create, rest) = split_u64(unseal(key.as_bytes(), bytes)?)?;
    let (modified, rest) = split_u64(rest)?;
    let (expires_at, value) = match create & EXPIRES {
        0 => (None, rest),
        _ => split_u64(rest).map(|(second, value)| (Timestamp::from_second(second.cast_signed()).ok(), value))?,
    };
    let (create_revision, mod_revision) = (Revision(create & !EXPIRES), Revision(modified));
    Some(Object { value: Bytes::copy_from_slice(value), create_revision, mod_revision, expires_at })
}

fn decode_state(bytes: &[u8]) -> Option<Summary> {
    let (format, rest) = split_u64(unseal(STATE_KEY, bytes)?)?;
    let (revision, rest) = split_u64(rest)?;
    let (count, rest) = split_u64(rest)?;
    let (sum, _) = split_u64(rest)?;
    (1..=2).contains(&format).then_some(Summary { revision: Revision(revision), count, sum })
}

/// What stands behind the checksum, if that is right.
fn unseal<'a>(key: &[u8], bytes: &'a [u8]) -> Option<&'a [u8]> {
    let (checksum, rest) = split_u64(bytes)?;
    (checksum == xxh3_64_with_seed(rest, xxh3_64(key))).then_some(rest)
}

fn split_u64(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (first, rest) = bytes.split_first_chunk()?;
    Some((u64::from_le_bytes(*first), rest))
}

#[cfg(test)]
mod tests {
    use super::super::{EmbeddedStore, OpenError, Opening};
    use super::*;
    use crate::{Header, RangeRequest, Store};
    use fjall::PersistMode;
    use futures::FutureExt;
    use std::{path::PathBuf, sync::Arc};
    use tempfile::TempDir;

    fn seal(key: &[u8], fields: &[u64], value: &[u8]) -> Vec<u8> {
        let rest = [fields.iter().flat_map(|field| field.to_le_bytes()).collect(), value.to_vec()].concat();
        [&xxh3_64_with_seed(&rest, xxh3_64(key)).to_le_bytes(), &rest[..]].concat()
    }

    /// What stood at `/a` stands elsewhere today.
    struct Moved;

    impl Layout for Moved {
        fn resource_prefix<'t>(&self, _: &'t str) -> Option<&'t str> {
            None
        }

        fn moved(&self, key: &Key) -> Option<Key> {
            (key.as_str() == "/a").then(|| Key::new("/c"))
        }

        fn header(&self, _: &Key, _: &[u8]) -> Header {
            Header::default()
        }
    }

    /// A folder as berth wrote it before: two objects, one of which is to go, with a state of this format and a note.
    fn earlier(format: u64, acknowledged: u64) -> TempDir {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let database = Database::builder(dir.path().join("engine")).open().expect("an empty folder");
        let records = database.keyspace("objects", KeyspaceCreateOptions::default).expect("new");
        let mut state = Summary { revision: Revision(5), ..Summary::default() };
        state.add(&Key::new("/a"), Revision(3));
        state.add(&Key::new("/b"), Revision(5));
        records.insert("k/a", seal(b"/a", &[3, 3], b"one")).expect("writable");
        records.insert("k/b", seal(b"/b", &[4 | EXPIRES, 5, 1_767_225_600], b"two")).expect("writable");
        records.insert("s", seal(STATE_KEY, &[format, 5, state.count, state.sum], &[])).expect("writable");
        database.persist(PersistMode::SyncAll).expect("writable");
        fs::write(dir.path().join(NOTE), seal(NOTE.as_bytes(), &[acknowledged - 1, acknowledged], &[])).expect("writable");
        dir
    }

    fn open(dir: &TempDir) -> Result<String, OpenError> {
        let store = EmbeddedStore::open_with(dir.path(), Arc::new(Moved), Opening::default())?;
        let range = store.range(RangeRequest::all("")).now_or_never().expect("ready at once").expect("readable");
        let show = |entry: &Arc<crate::Entry>| {
            let value = String::from_utf8_lossy(&entry.value);
            format!("{}={value}@{}-{}", entry.key, entry.create_revision, entry.mod_revision)
        };
        Ok(format!("{} at {}", range.entries.iter().map(show).collect::<Vec<_>>().join(" "), range.revision))
    }

    /// All files below a folder, with what is in them.
    fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
        let mut found = Vec::new();
        for entry in fs::read_dir(dir).expect("readable") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                found.extend(contents(&path));
            } else if !path.ends_with("lock") {
                found.push((path.clone(), fs::read(&path).expect("readable")));
            }
        }
        found.sort();
        found
    }

    const ALL: &str = "/b=two@4-5 /c=one@3-3 at 5";

    #[test]
    fn what_earlier_versions_wrote_is_taken_over_and_stays() {
        for format in [1, 2] {
            let dir = earlier(format, 5);
            for _ in 0..2 {
                assert_eq!(open(&dir).expect("whole"), ALL);
                assert!(!dir.path().join("engine").exists() && !dir.path().join("engine.copy").exists());
            }
        }
    }

    #[test]
    fn a_conversion_that_was_broken_off_is_begun_again() {
        let dir = earlier(2, 5);
        // As far as the new files, which are only half there, and a copy of the database.
        fs::create_dir(dir.path().join("engine.copy")).expect("new");
        for name in ["log-00000001", "log-00000002", "checkpoint-00000001.new", "notes"] {
            fs::write(dir.path().join(name), "half").expect("writable");
        }
        assert_eq!(open(&dir).expect("whole"), ALL);
        assert_eq!(fs::read(dir.path().join("notes")).expect("it is no file of a store"), b"half");
        // All but the removal of the old folder.
        fs::create_dir(dir.path().join("engine")).expect("gone before");
        assert_eq!(open(&dir).expect("whole"), ALL);
        assert!(!dir.path().join("engine").exists());
    }

    /// What fjall takes for unfinished and would remove.
    #[test]
    fn a_conversion_that_refuses_changes_nothing() {
        let refuses = |dir: &TempDir, expected: &str| {
            let before = contents(dir.path());
            let refused = open(dir).map_err(|error| format!("{error}: {}", std::error::Error::source(&error).expect("with a cause")));
            assert!(refused.as_ref().is_err_and(|why| why.contains(expected)), "{refused:?}");
            assert_eq!(contents(dir.path()), before);
        };
        refuses(&earlier(2, 6), "revision 6 was acknowledged, and revision 5 is the last that can be read");
        refuses(&earlier(3, 5), "of a format that is not known");
        let dir = earlier(2, 5);
        fs::remove_file(dir.path().join("engine/keyspaces/1/current")).expect("it is there");
        refuses(&dir, "the record of the store's state is missing");
    }

    #[test]
    fn a_folder_without_a_note_has_acknowledged_nothing() {
        for note in [None, Some("")] {
            let dir = earlier(2, 5);
            let path = dir.path().join(NOTE);
            note.map_or_else(|| fs::remove_file(&path), |note| fs::write(&path, note)).expect("ours");
            assert_eq!(open(&dir).expect("whole"), ALL, "{note:?}");
        }
    }

    #[test]
    fn an_earlier_folder_is_neither_checked_nor_read_before_it_is_converted() {
        let dir = earlier(2, 5);
        let look = || {
            let report = super::super::check(dir.path(), Arc::new(Moved)).map(|report| report.objects);
            [report, super::super::snapshot(dir.path(), Arc::new(Moved)).map(|snapshot| snapshot.objects.len())]
        };
        let before = contents(dir.path());
        for looked in look() {
            assert!(matches!(looked, Err(OpenError::Conversion { .. })), "{looked:?}");
        }
        assert_eq!(contents(dir.path()), before);
        open(&dir).expect("whole");
        // What is left of the old one where its removal was broken off.
        fs::create_dir(dir.path().join("engine")).expect("gone before");
        assert_eq!(look().map(|looked| looked.expect("converted")), [2, 2]);
    }

    #[test]
    fn what_cannot_be_removed_is_told_of() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        fs::write(dir.path().join("engine.copy"), "no folder").expect("ours");
        let told = open(&dir);
        assert!(matches!(told, Err(OpenError::Conversion { .. })), "{told:?}");
    }
}
