//! Whole stores: what one holds as of one revision, also while a server writes to it; and one that is made of values from elsewhere.

use super::{OpenError, refuse_other_engine};
use crate::{
    Key, Layout, Revision,
    env::Timestamp,
    files::folder::Folder,
    log::{self, Found, LogError, Object, Summary},
};
use bytes::Bytes;
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

/// How often files are read that change meanwhile, and how long it waits in between.
const TRIES: usize = 50;
const PAUSE: Duration = Duration::from_millis(20);

/// What a store holds as of one revision.
#[derive(Debug)]
pub struct Snapshot {
    /// Everything up to it is there, and nothing behind it.
    pub revision: Revision,
    /// In the order of keys.
    pub objects: Vec<(Key, Bytes)>,
}

/// Reads the store in `dir` and changes nothing, whether a server has it open or not. The log contains all commits in order, so the result is the store
/// after one of them. Uses as much memory as the objects.
///
/// # Errors
/// [`OpenError`]: it is damaged, cannot be read, or a version of another format wrote it.
pub fn snapshot(dir: &Path, layout: Arc<impl Layout>) -> Result<Snapshot, OpenError> {
    let folder = Folder::beside(dir)?;
    refuse_other_engine(dir, &folder)?;
    let found = read_steady(&folder, layout).map_err(OpenError::of(dir))?;
    let objects = found.objects.into_iter().map(|(key, object)| (key, object.value)).collect();
    Ok(Snapshot { revision: found.state.revision, objects })
}

/// Reads everything from files that were the same before and after. A server that writes can be in the middle of a frame, and it creates new files and
/// removes old ones. Only a fault that occurs twice in the same place is damage.
fn read_steady(folder: &Folder, layout: Arc<impl Layout>) -> Result<Found, LogError> {
    let layout: Arc<dyn Layout> = layout;
    let mut faults = Vec::new();
    for _ in 0..TRIES {
        let names = log::names(folder)?;
        let found = log::read(folder, Arc::clone(&layout));
        let is_steady = log::names(folder)? == names;
        match found {
            Ok(found) if is_steady && found.faults.is_empty() => return Ok(found),
            Ok(found) if is_steady && found.faults == faults => return Err(LogError::Damaged(faults)),
            Ok(found) => faults = found.faults,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !is_steady => (),
            Err(error) => return Err(error.into()),
        }
        thread::sleep(PAUSE);
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "its files change again and again").into())
}

/// A value of a store that is made.
#[derive(Clone, Debug)]
pub struct Made {
    /// Its key.
    pub key: Key,
    /// As given to a put.
    pub value: Bytes,
    /// When it is to be deleted.
    pub expires_at: Option<Timestamp>,
}

/// Makes a store in `dir`, where none may be yet, of what `values` gives, twice the same and in the order of keys. Each of them gets a revision of its own behind `after`, and nothing is known of
/// what was before. It is written beside its place, and moved there when all of it is durable. Gives how many there are.
///
/// # Errors
/// Those of `values`, and [`OpenError`]. Then there is no store in `dir`; what was written beside it goes with the next try.
pub fn make_store<E, I>(dir: &Path, after: Revision, values: impl Fn() -> Result<I, E>) -> Result<u64, E>
where
    I: Iterator<Item = Result<Made, E>>,
    E: From<OpenError>,
{
    let failed = |source: io::Error| E::from(OpenError::Io { dir: dir.into(), source });
    let objects = || {
        let object = |(index, made): (usize, Result<Made, E>)| {
            let Made { key, value, expires_at } = made?;
            let revision = after.later(1 + index as u64);
            Ok::<_, E>((key, Object { value, create_revision: revision, mod_revision: revision, expires_at }))
        };
        Ok::<_, E>(values()?.enumerate().map(object))
    };
    let mut state = Summary::default();
    for object in objects()? {
        let (key, object) = object?;
        state.add(&key, object.mod_revision);
    }
    state.revision = after.later(state.count.max(1));

    let making = beside(dir);
    match fs::remove_dir_all(&making) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => (),
        removed => removed.map_err(failed)?,
    }
    let folder = Folder::take(&making).map_err(OpenError::from)?;
    let mut failure = None;
    let written = objects()?.map_while(|object| object.map_err(|error| failure = Some(error)).ok());
    let written = log::rewrite(&folder, 1, written, state);
    if let Some(failure) = failure {
        return Err(failure);
    }
    written.and_then(|()| log::acknowledge(&folder, state.revision)).map_err(failed)?;
    drop(folder);
    fs::rename(&making, dir).map_err(failed)?;
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::File::open(parent).and_then(|parent| parent.sync_all()).map_err(failed)?;
    Ok(state.count)
}

/// The folder in which the store for `dir` is built.
fn beside(dir: &Path) -> PathBuf {
    let mut name = dir.file_name().unwrap_or_default().to_owned();
    name.push(".making");
    dir.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::{super::EmbeddedStore, *};
    use crate::{Expected, Header, Purpose, RangeRequest, ReadError, Store, Write};
    use futures_executor::block_on;
    use std::sync::atomic::{AtomicBool, Ordering};

    struct Bare;

    impl Layout for Bare {
        fn resource_prefix<'t>(&self, _: &'t str) -> Option<&'t str> {
            None
        }

        fn header(&self, _: &Key, _: &[u8]) -> Header {
            Header::default()
        }
    }

    fn made(name: &str) -> Made {
        Made { key: Key::new(name), value: Bytes::from(name.to_owned()), expires_at: None }
    }

    fn values(names: &'static [&'static str]) -> impl Fn() -> Result<std::vec::IntoIter<Result<Made, OpenError>>, OpenError> {
        move || Ok(names.iter().map(|name| Ok(made(name))).collect::<Vec<_>>().into_iter())
    }

    #[test]
    fn a_store_is_made_of_values_behind_all_revisions_that_were() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().join("store");
        assert_eq!(make_store(&dir, Revision(1000), values(&["/a", "/b"])).expect("made"), 2);
        let store = EmbeddedStore::open(&dir, Arc::new(Bare), 1 << 20).expect("whole");
        let range = block_on(store.range(RangeRequest::all("/"))).expect("read");
        let found: Vec<_> = range.entries.iter().map(|entry| (entry.key.as_str(), &*entry.value, entry.mod_revision.0)).collect();
        assert_eq!((found, range.revision), (vec![("/a", &b"/a"[..], 1001), ("/b", b"/b", 1002)], Revision(1002)));
        let before = store.watch("/", Revision(1001));
        assert!(matches!(before, Err(ReadError::Compacted { .. })), "who followed lists anew");
        block_on(store.commit(vec![Write::put(Key::new("/c"), "c".into(), Expected::Absent, Purpose::Growth)])).expect("it goes on");
        drop(store);
        let again = EmbeddedStore::open(&dir, Arc::new(Bare), 1 << 20).expect("whole");
        assert_eq!(block_on(again.revision("/")).expect("known"), Revision(1003));
    }

    #[test]
    fn an_existing_store_stays_and_an_interrupted_one_does_not_exist() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().join("store");
        let broken = |at: usize| {
            let tries = std::cell::Cell::new(0);
            let values = || {
                tries.set(tries.get() + 1);
                let fault = OpenError::Io { dir: PathBuf::new(), source: io::Error::other("torn") };
                Ok([Ok(made("/a")), if tries.get() == at { Err(fault) } else { Ok(made("/b")) }].into_iter())
            };
            make_store(&dir, Revision(0), values)
        };
        for at in [1, 2] {
            assert!(broken(at).is_err() && !dir.exists());
        }
        assert_eq!(broken(0).expect("made"), 2);
        assert!(make_store(&dir, Revision(0), values(&["/c"])).is_err());
        assert_eq!(snapshot(&dir, Arc::new(Bare)).expect("whole").objects.len(), 2);
    }

    #[test]
    fn a_path_that_blocks_a_new_store_and_cannot_be_removed_is_reported() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().join("store");
        fs::write(beside(&dir), "no folder").expect("ours");
        let told = make_store(&dir, Revision(0), values(&["/a"]));
        assert!(matches!(told, Err(OpenError::Io { .. })), "{told:?}");
    }

    /// Each key is written once more than the one behind it at most, in every state that there ever was.
    #[test]
    fn what_is_read_beside_a_writer_is_a_state_that_there_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().join("store");
        let limits = crate::Limits { log_step_bytes: 1 << 12, checkpoint_bytes_min: 1 << 14, free_bytes_min: 0 };
        let store = EmbeddedStore::open_with(&dir, Arc::new(Bare), super::super::Opening { limits, ..Default::default() }).expect("new");
        let keys = ["/a", "/b", "/c"];
        let is_over = AtomicBool::new(false);
        let seen = thread::scope(|scope| {
            scope.spawn(|| {
                let mut revisions = [Revision(0); 3];
                let mut round = 0_u64;
                while !is_over.load(Ordering::Relaxed) {
                    round += 1;
                    for (key, revision) in keys.iter().zip(&mut revisions) {
                        let expected = if *revision == Revision(0) { Expected::Absent } else { Expected::At(*revision) };
                        // Long enough that checkpoints come and files go.
                        let value = format!("{round:0>512}");
                        let write = Write::put(Key::new(key), value.into(), expected, Purpose::Growth);
                        *revision = block_on(store.commit(vec![write])).expect("written")[0].mod_revision;
                    }
                }
            });
            let mut seen: Vec<Revision> = Vec::new();
            while seen.last().is_none_or(|last| last.0 < 1000) {
                let Snapshot { revision, objects } = match snapshot(&dir, Arc::new(Bare)) {
                    Ok(snapshot) => snapshot,
                    // A writer on a busy machine can replace the files in each attempt.
                    Err(OpenError::Io { source, .. }) if source.kind() == io::ErrorKind::TimedOut => continue,
                    Err(error) => {
                        is_over.store(true, Ordering::Relaxed);
                        panic!("it cannot be read: {error}")
                    }
                };
                let rounds: Vec<u64> = objects.iter().map(|(_, value)| String::from_utf8_lossy(value).parse().expect("a number")).collect();
                assert_eq!(rounds.iter().sum::<u64>(), revision.0, "each commit up to the revision, and none behind it: {rounds:?}");
                seen.push(revision);
            }
            is_over.store(true, Ordering::Relaxed);
            seen
        });
        assert!(seen.is_sorted(), "{seen:?}");
        assert!(!dir.join("log-00000001").exists(), "files have come and gone");
    }

    #[test]
    fn a_damaged_store_is_not_read_as_far_as_it_goes() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().join("store");
        make_store(&dir, Revision(0), values(&["/a", "/b"])).expect("made");
        let checkpoint = dir.join("checkpoint-00000001");
        let mut bytes = fs::read(&checkpoint).expect("made");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&checkpoint, bytes).expect("ours");
        let told = snapshot(&dir, Arc::new(Bare)).map(|snapshot| snapshot.objects.len());
        assert!(matches!(told, Err(OpenError::Damaged { .. })), "{told:?}");
    }

    #[test]
    fn a_store_is_made_in_a_folder_that_is_named_as_from_here() {
        let place = tempfile::tempdir_in(".").expect("a folder");
        let here = Path::new(place.path().file_name().expect("it has a name"));
        fs::remove_dir(here).expect("it is empty");
        assert_eq!(make_store(here, Revision(0), values(&["/a"])).expect("made"), 1);
        assert_eq!(snapshot(here, Arc::new(Bare)).expect("whole").objects.len(), 1);
    }

    #[test]
    fn an_unreadable_file_is_reported_with_the_systems_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().join("store");
        make_store(&dir, Revision(0), values(&["/a"])).expect("made");
        let note = dir.join("acknowledged");
        fs::remove_file(&note).and_then(|()| fs::create_dir(&note)).expect("ours");
        let told = snapshot(&dir, Arc::new(Bare)).map(|snapshot| snapshot.objects.len());
        assert!(matches!(&told, Err(OpenError::Io { source, .. }) if source.kind() == io::ErrorKind::IsADirectory), "{told:?}");
    }
}
