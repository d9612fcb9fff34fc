//! The durable part: a folder with an fjall database, a lock and a note of what was acknowledged.

use super::{
    OpenError,
    acknowledged::{Acknowledged, Mark},
    committer::{CommitError, Durable},
    journal,
    record::{FORMAT, OBJECT_PREFIX, OLDEST_FORMAT, Object, STATE_KEY, Summary, decode_object, encode_object, object_key},
};
use crate::{
    Entry, Event, EventKind, Key, Layout, Revision,
    env::Timestamp,
    mvcc::{Commit, Recovered},
};
use fjall::{Database, Guard, Keyspace, KeyspaceCreateOptions, PersistMode};
use rustix::fs::fstatvfs;
use std::{
    fs::{self, File, TryLockError},
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::Arc,
};

/// Small, since reads never reach the engine.
const BLOCK_CACHE_BYTES: u64 = 1 << 20;
/// What is collected in memory before it becomes a table. A second copy of recent values, so small too.
const MEMTABLE_BYTES: u64 = 8 << 20;
/// What must be free for a new value: room for what the engine does beside a commit, which it cannot put off (a table of what is in memory,
/// new tables for old ones), and for the deletions that make room again.
const FREE_BYTES_MIN: u64 = 64 << 20;
/// Read again at each start. The engine's least.
const JOURNAL_BYTES_MAX: u64 = 64 << 20;

pub(super) struct Engine {
    database: Database,
    objects: Keyspace,
    /// As of the last commit.
    state: Summary,
    acknowledged: Acknowledged,
    /// Held as long as the engine is.
    lock: Lock,
}

/// The lock of a folder, until it is dropped. Closing the file would not do: between a fork and the exec that follows it, a child process has the
/// file too, and a lock ends with the last copy.
struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Where it cannot be given back, closing the file does, a moment later.
        let _ = self.0.unlock();
    }
}

impl Engine {
    /// Opens or makes the database in `dir` and reads the newest version of every key.
    pub(super) fn open(dir: &Path, layout: &dyn Layout) -> Result<(Self, Recovered), OpenError> {
        make_dir(dir).map_err(|source| OpenError::io("make", dir, source))?;
        let lock = lock(dir)?;
        // The engine asserts some of what it reads: what it finds wrong so is an answer to the opener too, not the end of the process.
        let read = catch_unwind(AssertUnwindSafe(|| Self::read(dir, lock, layout)));
        read.unwrap_or_else(|_| Err(OpenError::Damaged { what: dir.display().to_string(), why: "reading it panicked".into() }))
    }

    fn read(dir: &Path, lock: Lock, layout: &dyn Layout) -> Result<(Self, Recovered), OpenError> {
        let acknowledged = Acknowledged::open(dir)?;
        let (database, objects) = open_or_create(dir, acknowledged.mark)?;
        let state = read_state(&objects)?;
        let mut engine = Self { database, objects, state, acknowledged, lock };
        let recovered = engine.entries(layout)?;
        engine.check_nothing_is_lost(&recovered.entries)?;
        engine.note_start().map_err(|source| OpenError::io("write", dir, source))?;
        Ok((engine, recovered))
    }

    pub(super) fn revision(&self) -> Revision {
        self.state.revision
    }

    fn entries(&self, layout: &dyn Layout) -> Result<Recovered, OpenError> {
        let mut recovered = Recovered::default();
        for record in self.objects.prefix(OBJECT_PREFIX) {
            let (entry, expires_at) = read_entry(record, layout).map_err(|error| error.behind(recovered.entries.last()))?;
            recovered.expiries.extend(expires_at.map(|at| (entry.key.clone(), at)));
            recovered.entries.push(Arc::new(entry));
        }
        Ok(recovered)
    }

    /// Each record may be right and yet not all be there.
    fn check_nothing_is_lost(&self, entries: &[Arc<Entry>]) -> Result<(), OpenError> {
        let mut found = Summary { revision: self.state.revision, ..Summary::default() };
        entries.iter().for_each(|entry| found.add(&entry.key, entry.mod_revision));
        if found != self.state {
            let why = format!(
                "{} records, sum {:x}, where {} records, sum {:x} belong",
                found.count, found.sum, self.state.count, self.state.sum
            );
            return Err(OpenError::Damaged { what: format!("the set of records as of revision {}", found.revision), why });
        }
        let acknowledged = self.acknowledged.mark;
        if found.revision < acknowledged.before {
            let what = format!("the journal behind revision {}", found.revision);
            return Err(OpenError::Damaged { what, why: format!("revision {} was acknowledged and is missing", acknowledged.last) });
        }
        Ok(())
    }

    /// What was read is durable now, also what the last process wrote and did not acknowledge.
    fn note_start(&mut self) -> std::io::Result<()> {
        self.acknowledged.advance(self.state.revision)?;
        self.acknowledged.advance(self.state.revision)?;
        self.acknowledged.sync()
    }

    /// Lets the note of what was acknowledged outlive a power loss. Everything else does so already.
    pub(super) fn close(self) -> std::io::Result<()> {
        self.acknowledged.sync()
    }
}

impl Durable for Engine {
    fn commit(&mut self, commits: &[Commit]) -> Result<(), CommitError> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
        for (commit, event) in commits.iter().flat_map(|commit| commit.events.iter().map(move |event| (commit, event))) {
            let Event { kind, entry, previous, .. } = &**event;
            if let Some(previous) = previous {
                self.state.remove(&previous.key, previous.mod_revision);
            }
            match kind {
                EventKind::Put => {
                    self.state.add(&entry.key, entry.mod_revision);
                    batch.insert(&self.objects, object_key(&entry.key), encode_object(entry, expires_at(commit, &entry.key)));
                }
                EventKind::Deleted => batch.remove(&self.objects, object_key(&entry.key)),
            }
            self.state.revision = entry.mod_revision;
        }
        batch.insert(&self.objects, STATE_KEY, self.state.encode());
        batch.commit()?;
        Ok(self.acknowledged.advance(self.state.revision)?)
    }

    fn has_space(&self) -> bool {
        // A file system that does not say has to show it.
        fstatvfs(&self.lock.0).map_or(true, |found| FREE_BYTES_MIN <= found.f_bavail.saturating_mul(found.f_frsize))
    }
}

fn expires_at(commit: &Commit, key: &Key) -> Option<Timestamp> {
    commit.expiries.iter().find(|(expiring, _)| expiring == key).map(|(_, at)| *at)
}

/// The folder, and that its parent knows it.
fn make_dir(dir: &Path) -> std::io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(dir)?;
    match dir.canonicalize()?.parent() {
        Some(parent) => sync_dir(parent),
        None => Ok(()),
    }
}

fn lock(dir: &Path) -> Result<Lock, OpenError> {
    let path = dir.join("lock");
    let file =
        File::options().write(true).create(true).truncate(false).open(&path).map_err(|source| OpenError::io("open", &path, source))?;
    match file.try_lock() {
        Ok(()) => Ok(Lock(file)),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { dir: dir.into() }),
        Err(TryLockError::Error(source)) => Err(OpenError::io("lock", &path, source)),
    }
}

/// The database of `dir`. A new one is made beside its place and moved there when whole: the engine does not open what a crash left
/// while making it.
fn open_or_create(dir: &Path, acknowledged: Mark) -> Result<(Database, Keyspace), OpenError> {
    let (place, unfinished) = (dir.join("engine"), dir.join("engine.new"));
    if !place.exists() {
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished).map_err(|source| OpenError::io("remove", &unfinished, source))?;
        }
        create(&unfinished).map_err(|source| OpenError::Engine { dir: unfinished.clone(), source })?;
        fs::rename(&unfinished, &place).map_err(|source| OpenError::io("move", &unfinished, source))?;
        sync_dir(dir).map_err(|source| OpenError::io("sync", dir, source))?;
    }
    journal::check(&place, acknowledged)?;
    open(&place).map_err(|source| OpenError::Engine { dir: place, source })
}

fn create(dir: &Path) -> fjall::Result<()> {
    let (database, objects) = open(dir)?;
    objects.insert(STATE_KEY, Summary::default().encode())?;
    database.persist(PersistMode::SyncAll)
}

fn open(dir: &Path) -> fjall::Result<(Database, Keyspace)> {
    let builder = Database::builder(dir).cache_size(BLOCK_CACHE_BYTES).max_journaling_size(JOURNAL_BYTES_MAX).worker_threads(1);
    let database = builder.journal_compression(fjall::CompressionType::None).open()?;
    let objects = database.keyspace("objects", || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES))?;
    Ok((database, objects))
}

fn sync_dir(dir: &Path) -> std::io::Result<()> {
    File::open(dir)?.sync_all()
}

fn read_state(objects: &Keyspace) -> Result<Summary, OpenError> {
    let what = "the record of the store's state";
    let damaged = |why: String| OpenError::Damaged { what: what.into(), why };
    let bytes = objects.get(STATE_KEY).map_err(|error| damaged(error.to_string()))?;
    let bytes = bytes.ok_or_else(|| damaged("it is missing".into()))?;
    match Summary::decode(&bytes) {
        Some((OLDEST_FORMAT..=FORMAT, state)) => Ok(state),
        Some((format, _)) => Err(OpenError::Format { found: format, known: FORMAT }),
        None => Err(damaged("its checksum is wrong".into())),
    }
}

/// Why a record cannot be read; with its key if that much is known.
struct BadRecord {
    key: Option<String>,
    why: String,
}

impl BadRecord {
    fn behind(self, last: Option<&Arc<Entry>>) -> OpenError {
        let what = match (self.key, last) {
            (Some(key), _) => format!("the record of {key}"),
            (None, Some(last)) => format!("the record behind that of {}", last.key),
            (None, None) => "the first record".into(),
        };
        OpenError::Damaged { what, why: self.why }
    }
}

fn read_entry(record: Guard, layout: &dyn Layout) -> Result<(Entry, Option<Timestamp>), BadRecord> {
    let (key, bytes) = record.into_inner().map_err(|error| BadRecord { key: None, why: error.to_string() })?;
    let text = String::from_utf8_lossy(&key[OBJECT_PREFIX.len()..]);
    let Some(object) = decode_object(&text, &bytes) else {
        return Err(BadRecord { key: Some(text.into()), why: "its checksum is wrong".into() });
    };
    let key = Key::new(&text);
    let header = layout.header(&key, &object.value);
    let Object { value, create_revision, mod_revision, expires_at } = object;
    Ok((Entry { key, value, header, create_revision, mod_revision }, expires_at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Header;

    /// A folder whose state says that it has this format.
    fn of_format(format: u64) -> Result<Recovered, OpenError> {
        let dir = tempfile::tempdir().expect("a temporary folder");
        Engine::open(dir.path(), &()).expect("an empty folder opens");
        let (database, objects) = open(&dir.path().join("engine")).expect("just made");
        let entry = Entry {
            key: Key::new("/a"),
            value: "1".into(),
            header: Header::default(),
            create_revision: Revision(1),
            mod_revision: Revision(1),
        };
        let mut state = Summary { revision: Revision(1), ..Summary::default() };
        state.add(&entry.key, entry.mod_revision);
        objects.insert(object_key(&entry.key), encode_object(&entry, None)).expect("writable");
        objects.insert(STATE_KEY, state.encode_as(format)).expect("writable");
        database.persist(PersistMode::SyncAll).expect("writable");
        drop((database, objects));
        Engine::open(dir.path(), &()).map(|(_, recovered)| recovered)
    }

    #[test]
    fn a_folder_is_free_when_its_engine_is_gone_whoever_still_has_its_files() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (engine, _) = Engine::open(dir.path(), &()).expect("an empty folder opens");
        let copy = engine.lock.0.try_clone().expect("as a child process has it before its exec");
        assert!(matches!(Engine::open(dir.path(), &()), Err(OpenError::InUse { .. })));
        drop(engine);
        assert!(Engine::open(dir.path(), &()).is_ok());
        drop(copy);
    }

    #[test]
    fn what_earlier_versions_wrote_opens_and_what_later_ones_will_does_not() {
        for format in OLDEST_FORMAT..=FORMAT {
            let recovered = of_format(format).expect("known");
            assert_eq!(recovered.entries.iter().map(|entry| entry.key.as_str()).collect::<Vec<_>>(), ["/a"]);
        }
        for format in [OLDEST_FORMAT - 1, FORMAT + 1] {
            assert!(matches!(of_format(format), Err(OpenError::Format { found, .. }) if found == format));
        }
    }
}
