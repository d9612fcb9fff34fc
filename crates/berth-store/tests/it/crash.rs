//! What survives a crash, and the reports of damage.
#![cfg(feature = "embedded")]
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "files are damaged here, and processes killed")]

use crate::util::{self, all, block_on, create, delete, get, layout, newest, pod, range, show_entry, update};
use berth_store::{
    Bound, DEFAULT_HISTORY_BYTES, EmbeddedStore, Expected, FolderError, Health, Limits, MemoryStore, OnDamage, OpenError, Opening,
    OutOfSpace, Purpose, RangeRequest, ReadError, Revision, Store, Write as StoreWrite, WriteError, check,
    env::Timestamp,
    expiry::Expire,
    files::{
        Files,
        disk::{Disk, Trouble},
    },
};
use jiff::SignedDuration;
use std::{
    collections::BTreeMap,
    env,
    error::Error,
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    thread,
};
use tempfile::TempDir;

fn open(dir: &Path) -> Result<EmbeddedStore, OpenError> {
    EmbeddedStore::open(dir, layout(), DEFAULT_HISTORY_BYTES)
}

fn reopen(dir: &Path) -> EmbeddedStore {
    open(dir).unwrap_or_else(|error| panic!("does not open: {error}"))
}

fn contents(store: &dyn Store) -> String {
    let found = range(store, all("")).expect("readable");
    found.entries.iter().map(|entry| show_entry(entry, |revision| revision.0)).collect::<Vec<_>>().join(" ")
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// A store with pods `p0` to `p9`, each made by a commit of its own, closed.
fn ten_pods() -> TempDir {
    let dir = folder();
    let store = reopen(dir.path());
    for index in 0..10 {
        create(&store, &pod(&format!("p{index}")), &format!("value of number {index}"));
    }
    dir
}

/// The log that the first process wrote.
fn log(dir: &TempDir) -> PathBuf {
    dir.path().join("log-00000001")
}

/// The log's bytes, without the space that was taken ahead.
fn log_bytes(dir: &TempDir) -> Vec<u8> {
    let mut bytes = fs::read(log(dir)).expect("readable");
    let used = bytes.iter().rposition(|byte| *byte != 0).expect("not empty") + 1;
    bytes.truncate(used);
    bytes
}

fn place_of(bytes: &[u8], text: &str) -> usize {
    bytes.windows(text.len()).position(|window| window == text.as_bytes()).expect("it is there")
}

fn refused(dir: &TempDir) -> String {
    match open(dir.path()) {
        Ok(store) => panic!("opened with {}", contents(&store)),
        Err(error) => format!("{error}: {}", error.source().map_or_else(String::new, ToString::to_string)),
    }
}

/// All files, with their modes and what is in them.
fn files(dir: &TempDir) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let files = fs::read_dir(dir.path()).expect("readable").map(|file| file.expect("readable").path());
    files.map(|path| (path.clone(), (mode(&path), fs::read(path).expect("readable")))).collect()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("there").permissions().mode() & 0o777
}

#[test]
fn all_comes_back_after_closing() {
    let dir = folder();
    let store = reopen(dir.path());
    create(&store, &pod("a"), "1");
    create(&store, &pod("b"), "1");
    update(&store, &pod("a"), "2");
    delete(&store, &pod("b"));
    drop(store);
    let store = reopen(dir.path());
    assert_eq!(contents(&store), "a=2@3");
    let entry = get(&store, &pod("a")).expect("shown above");
    assert_eq!((entry.create_revision, &*entry.header.uid), (Revision(1), "2"));
    assert_eq!(newest(&store), Revision(4), "the deletion's revision is not given twice");
    assert_eq!(create(&store, &pod("c"), ""), Revision(5));
}

#[test]
fn a_value_remembers_over_a_restart_when_it_goes() {
    let dir = folder();
    let store = reopen(dir.path());
    let at = Timestamp::from_second(1_767_225_600).expect("a year of this century");
    let expiring = StoreWrite { expires_at: Some(at), ..StoreWrite::put(pod("a"), "1".into(), Expected::Absent, Purpose::Growth) };
    block_on(store.commit(vec![expiring])).expect("a new key");
    create(&store, &pod("b"), "1");
    drop(store);
    let store = reopen(dir.path());
    let expired = |at| block_on(store.expire(at)).expect("the store takes writes");
    assert_eq!((expired(at - SignedDuration::from_secs(1)), contents(&store).as_str()), (0, "a=1@1 b=1@2"));
    assert_eq!((expired(at), contents(&store).as_str()), (1, "b=1@2"));
    drop(store);
    assert_eq!(contents(&reopen(dir.path())), "b=1@2");
}

#[test]
fn who_follows_or_reads_in_pages_goes_on_over_a_restart() {
    let dir = ten_pods();
    let store = reopen(dir.path());
    update(&store, &pod("p8"), "2");
    delete(&store, &pod("p0"));
    drop(store);
    let store = reopen(dir.path());
    let mut watch = store.watch("", Revision(9)).expect("kept");
    create(&store, &pod("a"), "1");
    assert_eq!(util::drain(&mut watch, |revision| revision.0), "+p9=value of number 9@10 +p8=2@11 -p0=value of number 0@12 +a=1@13 !13");
    let page = RangeRequest { at: Some(Revision(10)), start_after: Some(pod("p7")), ..all("") };
    let shown = range(&store, page).expect("kept").entries.iter().map(|entry| show_entry(entry, |revision| revision.0)).collect::<Vec<_>>();
    assert_eq!(shown, ["p8=value of number 8@9", "p9=value of number 9@10"]);
}

#[test]
fn what_was_compacted_stays_so_over_a_restart() {
    let dir = ten_pods();
    let store = reopen(dir.path());
    block_on(store.compact("", Revision(7))).expect("there");
    assert!(matches!(block_on(store.compact("", Revision(11))), Err(ReadError::Future { .. })));
    drop(store);
    let store = reopen(dir.path());
    assert!(matches!(store.watch("", Revision(6)).err(), Some(ReadError::Compacted { oldest: Revision(7), .. })));
    let mut watch = store.watch("", Revision(7)).expect("kept");
    assert_eq!(util::drain(&mut watch, |revision| revision.0).matches('+').count(), 3);
    store.close();
    assert!(matches!(block_on(store.compact("", Revision(8))), Err(ReadError::Unavailable(_))));
}

#[test]
fn a_folder_has_one_store_at_a_time() {
    let dir = folder();
    let first = reopen(dir.path());
    assert!(matches!(open(dir.path()).err(), Some(OpenError::Folder(FolderError::InUse { .. }))));
    assert!(matches!(check(dir.path(), layout()).err(), Some(OpenError::Folder(FolderError::InUse { .. }))));
    first.close();
    create(&reopen(dir.path()), &pod("a"), "1");
}

#[test]
fn a_closed_store_reads_but_does_not_write() {
    let dir = folder();
    let store = reopen(dir.path());
    create(&store, &pod("a"), "1");
    store.close();
    let refused = util::put(&store, &pod("b"), "1", Expected::Absent);
    assert!(matches!(refused, Err(WriteError::Unavailable { .. })), "{refused:?}");
    assert_eq!(contents(&store), "a=1@1");
}

#[test]
fn an_unfinished_first_start_is_begun_again() {
    let dir = folder();
    fs::write(dir.path().join("acknowledged.new"), "half").expect("writable");
    fs::write(dir.path().join("log-00000001.new"), "half").expect("writable");
    create(&reopen(dir.path()), &pod("a"), "1");
}

/// Cuts the log inside the last commit, at every tenth place, as a crash may before that was acknowledged.
#[test]
fn a_torn_last_commit_is_left_out_as_a_whole() {
    let dir = ten_pods();
    let bytes = log_bytes(&dir);
    let nine = folder();
    let store = reopen(nine.path());
    for index in 0..9 {
        create(&store, &pod(&format!("p{index}")), &format!("value of number {index}"));
    }
    drop(store);
    let note = fs::read(nine.path().join("acknowledged")).expect("readable");
    for end in (place_of(&bytes, "/registry/core/pods/default/p9")..bytes.len()).step_by(10) {
        let dir = ten_pods();
        fs::write(log(&dir), &bytes[..end]).expect("writable");
        fs::write(dir.path().join("acknowledged"), &note).expect("writable");
        let store = reopen(dir.path());
        assert!(contents(&store).ends_with("p8=value of number 8@9"), "cut at {end} of {}: {}", bytes.len(), contents(&store));
        assert_eq!(create(&store, &pod("next"), ""), Revision(10));
    }
}

/// The last bytes of the log: one flipped bit there, or a cut, must not cost what was acknowledged.
#[test]
fn damage_to_the_last_acknowledged_commit_is_reported() {
    let dir = ten_pods();
    let bytes = log_bytes(&dir);
    for at in bytes.len() - 4..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        for damaged in [damaged, bytes[..at].to_vec()] {
            fs::write(log(&dir), damaged).expect("writable");
            let before = files(&dir);
            let told = refused(&dir);
            assert!(told.contains("revision 10 was acknowledged, and revision 9 is the last that can be read"), "byte {at}: {told}");
            assert_eq!(files(&dir), before, "a start that refuses changes nothing");
        }
    }
}

#[test]
fn what_is_left_of_a_damaged_store_opens_if_the_loss_is_accepted() {
    let dir = ten_pods();
    let bytes = log_bytes(&dir);
    fs::write(log(&dir), &bytes[..bytes.len() - 1]).expect("writable");
    let opening = Opening { on_damage: OnDamage::AcceptLoss, ..Opening::default() };
    let store = EmbeddedStore::open_with(dir.path(), layout(), opening).expect("accepted");
    assert_eq!(store.faults().len(), 1);
    assert!(contents(&store).ends_with("p8=value of number 8@9"));
    assert!(Revision(10) < create(&store, &pod("next"), ""), "a revision is not given out twice");
    drop(store);
    assert_eq!(fs::read(dir.path().join("damaged-log-00000001")).expect("it stays").len(), bytes.len() - 1);
    assert!(contents(&reopen(dir.path())).contains("p0=value of number 0@1"));
}

/// Flips a bit in every place of the commit of `p5`, which others follow.
#[test]
fn a_damaged_commit_is_reported_and_nothing_is_cut_off() {
    let dir = ten_pods();
    let bytes = log_bytes(&dir);
    let (from, to) = (place_of(&bytes, "/registry/core/pods/default/p5"), place_of(&bytes, "/registry/core/pods/default/p6"));
    for at in from..to {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        fs::write(log(&dir), &damaged).expect("writable");
        let told = refused(&dir);
        assert!(told.contains("damaged") && told.contains("log-00000001 at byte"), "byte {at}: {told}");
        assert_eq!(fs::read(log(&dir)).expect("readable"), damaged);
    }
    fs::write(log(&dir), &bytes).expect("writable");
    assert_eq!(newest(&reopen(dir.path())), Revision(10));
}

/// So that a few hundred commits make several checkpoints.
fn small(dir: &Path) -> EmbeddedStore {
    let limits = Limits { log_step_bytes: 4096, checkpoint_bytes_min: 10_000, free_bytes_min: 0 };
    EmbeddedStore::open_with(dir, layout(), Opening { limits, ..Opening::default() }).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_contents_of_a_checkpoint_survive_and_damage_to_it_is_reported() {
    let dir = folder();
    let store = small(dir.path());
    let value = "x".repeat(500);
    (0..300).for_each(|index| {
        create(&store, &pod(&format!("p{index:03}")), &value);
    });
    (100..300).for_each(|index| {
        delete(&store, &pod(&format!("p{index:03}")));
    });
    drop(store);
    // Closing may have interrupted one. The next start, after as many writes, makes another.
    let store = small(dir.path());
    (0..100).for_each(|index| {
        update(&store, &pod(&format!("p{index:03}")), &format!("{value}{index}"));
    });
    let is_checkpoint = |path: &PathBuf| path.to_string_lossy().contains("checkpoint") && path.extension().is_none();
    while !files(&dir).keys().any(is_checkpoint) {
        update(&store, &pod("p000"), &value);
    }
    let before = contents(&store);
    drop(store);
    assert_eq!(contents(&reopen(dir.path())), before);
    let checkpoint = files(&dir).into_keys().rfind(is_checkpoint).expect("shown above");
    let bytes = fs::read(&checkpoint).expect("readable");
    for at in [bytes.len() / 5, bytes.len() / 2, bytes.len() - 1] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        fs::write(&checkpoint, damaged).expect("writable");
        assert!(refused(&dir).contains("checkpoint-"), "byte {at}");
    }
    fs::remove_file(&checkpoint).expect("it is there");
    let (files_before, told) = (files(&dir), refused(&dir));
    assert!(told.contains("checkpoint-") && told.contains("missing"), "{told}");
    assert_eq!(files(&dir), files_before);
    fs::write(&checkpoint, bytes).expect("writable");
    assert_eq!(contents(&reopen(dir.path())), before);
}

#[test]
fn a_damaged_or_missing_note_of_acknowledged_writes_is_reported() {
    let dir = ten_pods();
    fs::write(dir.path().join("acknowledged"), "nonsense, but long enough").expect("writable");
    assert!(refused(&dir).contains("acknowledged: its checksum is wrong"));
    fs::remove_file(dir.path().join("acknowledged")).expect("it is there");
    assert!(refused(&dir).contains("acknowledged: it is missing"));
}

#[test]
fn a_check_reports_complete_files_and_changes_nothing() {
    let dir = ten_pods();
    let before = files(&dir);
    let report = check(dir.path(), layout()).expect("readable");
    assert_eq!((report.objects, report.revision, report.acknowledged), (10, Revision(10), Some(Revision(10))));
    assert!(report.faults.is_empty() && report.files[0].frames == 11, "{report:?}");
    let mut bytes = log_bytes(&dir);
    for text in ["number 3", "number 5"] {
        let at = place_of(&bytes, text);
        bytes[at] ^= 1;
    }
    fs::write(log(&dir), &bytes).expect("writable");
    let report = check(dir.path(), layout()).expect("readable");
    assert_eq!((report.objects, report.faults.len()), (8, 2), "{:?}", report.faults);
    fs::write(log(&dir), &before[&log(&dir)].1).expect("writable");
    assert_eq!(files(&dir), before);
}

/// Secrets are in the files: no other user can read them, whatever the folder's permissions were.
#[test]
fn files_are_their_owners_alone_in_a_folder_that_was_made_for_all() {
    let dir = folder();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("ours");
    create(&reopen(dir.path()), &pod("a"), "1");
    assert_eq!(mode(dir.path()), 0o700);
    for (path, (mode, _)) in files(&dir) {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("ours");
        assert_eq!(mode, 0o600, "{}", path.display());
    }
    drop(reopen(dir.path()));
    assert!(files(&dir).values().all(|(mode, _)| *mode == 0o600));
}

#[test]
fn a_failed_write_is_reported_and_the_store_continues_by_itself() {
    let disk = Disk::default();
    let store = EmbeddedStore::open_on(Arc::new(disk.clone()), layout(), Opening::default()).expect("an empty disk");
    create(&store, &pod("a"), "1");
    // Of a commit: the write, its sync, the note.
    disk.fail_at(disk.operations() + 1, Trouble::Failure);
    let failed = util::put(&store, &pod("b"), "1", Expected::Absent);
    assert!(matches!(&failed, Err(WriteError::Unknown { cause, .. }) if cause.contains("the disk said no")), "{failed:?}");
    assert!(matches!(store.health(), Health::Refusing { cause } if cause.contains("the disk said no")));
    create(&store, &pod("c"), "1");
    assert_eq!((store.health(), contents(&store).as_str()), (Health::Ready, "a=1@1 c=1@2"));
    store.close();
    assert!(matches!(store.health(), Health::Ended { .. }));
    for seed in 0..5 {
        let after = EmbeddedStore::open_on(Arc::new(disk.after_power_loss(seed)), layout(), Opening::default()).expect("whole");
        assert_eq!(contents(&after), "a=1@1 c=1@2");
    }
}

/// The folder of the child that is killed; absent in an ordinary run.
const CHILD: &str = "BERTH_STORE_CRASH_CHILD";
const CHILD_WRITERS: usize = 8;

/// In the child process: writes indefinitely, and prints which key is acknowledged.
#[test]
fn child_that_writes_until_killed() {
    let Ok(dir) = env::var(CHILD) else { return };
    let store = Arc::new(reopen(Path::new(&dir)));
    let first = newest(&*store).0;
    let mut said = fs::File::options().append(true).create(true).open(Path::new(&dir).join("said")).expect("writable");
    // The one before was killed, perhaps in the middle of a line.
    writeln!(said).expect("writable");
    let acknowledged = Mutex::new(said);
    thread::scope(|scope| {
        for writer in 0..CHILD_WRITERS {
            let (store, acknowledged) = (&store, &acknowledged);
            scope.spawn(move || {
                for round in 0.. {
                    let name = format!("{first}-{writer}-{round}");
                    let revision = create(&**store, &pod(&name), &"v".repeat(200));
                    let mut said = acknowledged.lock().expect("no writer panics");
                    writeln!(said, "{name} {revision}").expect("writable");
                }
            });
        }
    });
}

#[test]
fn every_acknowledged_write_survives_kill_9() {
    let dir = folder();
    let said = dir.path().join("said");
    for round in 1..=4 {
        let mut child = Command::new(env::current_exe().expect("this test"))
            .args(["--exact", "crash::child_that_writes_until_killed", "--nocapture"])
            .env(CHILD, dir.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("this test starts");
        while fs::read(&said).map_or(0, |bytes| bytes.iter().filter(|byte| **byte == b'\n').count()) < round * 400 {
            assert!(child.try_wait().expect("a child of ours").is_none(), "the child ended early");
            thread::yield_now();
        }
        child.kill().expect("it runs");
        child.wait().expect("a child of ours");

        let store = reopen(dir.path());
        let mut told = 0;
        for line in BufReader::new(fs::File::open(&said).expect("readable")).lines() {
            let line = line.expect("readable");
            // The kill may have cut the last line short.
            let Some((name, revision)) = line.split_once(' ') else { continue };
            let entry = get(&store, &pod(name)).unwrap_or_else(|| panic!("{name} was acknowledged and is gone"));
            assert!(entry.mod_revision.to_string().starts_with(revision), "{line}");
            told = told.max(revision.parse().unwrap_or(0));
        }
        let kept = range(&store, all("")).expect("readable");
        assert!(told <= newest(&store).0);
        assert_eq!(kept.entries.len() as u64, newest(&store).0, "each revision made one key, none is half there");
        let mut watch = store.watch("", Revision(0)).expect("nothing is forgotten");
        let followed = util::drain(&mut watch, |revision| revision.0);
        let revisions = followed.split(' ').filter_map(|change| change.strip_prefix('+')?.rsplit('@').next());
        assert!(revisions.eq((1..=newest(&store).0).map(|revision| revision.to_string())), "each change once, in order");
    }
}

/// The store of a folder, which takes so many bytes.
fn within(dir: &Path, quota: u64) -> EmbeddedStore {
    reopen(dir).with_quota(Some(quota))
}

/// Creates pods until one is refused; gives how many there are, at most twice as many as there may be.
fn fill(store: &dyn Store) -> usize {
    let created = |number: &usize| match util::put(store, &pod(&format!("p{number}")), &"x".repeat(1000), Expected::Absent) {
        Ok(_) => true,
        Err(WriteError::QuotaExceeded { bound: Bound::Namespace { name, .. }, .. }) if &*name == "default" => false,
        Err(other) => panic!("{other}"),
    };
    (0..200).take_while(created).count()
}

#[test]
fn a_store_that_is_full_when_it_opens_can_be_emptied_and_filled_again() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let store = within(dir.path(), 100_000);
    let stored = fill(&store);
    assert!((20..35).contains(&stored), "{stored} of 1.5 kB in half of 94 kB");
    let before = store.usage();
    drop(store);

    // With less than is there.
    let store = within(dir.path(), 50_000);
    let usage = store.usage().expect("counted");
    assert_eq!(Some(usage.bytes), before.map(|usage| usage.bytes), "a recount gives the same");
    let refused = util::put(&store, &pod("more"), "", Expected::Absent);
    assert!(matches!(refused, Err(WriteError::QuotaExceeded { .. })), "{refused:?}");
    let first = get(&store, &pod("p0")).expect("it can be read");
    let mark =
        StoreWrite::put(pod("p0"), [&first.value[..], b"deleted"].concat().into(), Expected::At(first.mod_revision), Purpose::Growth);
    let refused = block_on(store.write(mark.clone()));
    assert!(matches!(refused, Err(WriteError::QuotaExceeded { .. })), "{refused:?}");
    block_on(store.write(StoreWrite { purpose: Purpose::Removal, ..mark })).expect("a mark");
    for number in 0..stored {
        delete(&store, &pod(&format!("p{number}")));
    }
    assert!((10..18).contains(&fill(&store)), "half of the new bound");
}

#[test]
fn a_full_disk_accepts_first_only_upkeep_then_only_deletions_then_nothing() {
    let limits = Limits { log_step_bytes: 4 * KIB, checkpoint_bytes_min: KIB * KIB, free_bytes_min: 64 * KIB };
    let opening = Opening { limits, ..Opening::default() };
    fill_up(|disk| EmbeddedStore::open_on(Arc::new(disk.clone()), layout(), opening).expect("whole"));
    fill_up(|disk| MemoryStore::open(Arc::new(disk.clone()), limits, layout(), DEFAULT_HISTORY_BYTES).expect("whole"));
}

const KIB: u64 = 1 << 10;

fn fill_up<S: Store>(open: impl Fn(&Disk) -> S) {
    let disk = Disk::default();
    let store = open(&disk);
    // As many as leave no space for a checkpoint once the disk is full.
    let names: Vec<String> = (0..80).map(|number| format!("p{number}")).collect();
    names.iter().for_each(|name| _ = create(&store, &pod(name), &"x".repeat(1000)));
    let write = |store: &S, purpose: Option<Purpose>| {
        let expected = get(store, &pod("p0")).expect("it can be read").mod_revision;
        let put = |purpose| StoreWrite::put(pod("p0"), vec![b'y'; 1000].into(), Expected::At(expected), purpose);
        block_on(store.write(purpose.map_or_else(|| StoreWrite::delete(pod("p0"), expected), put)))
    };
    disk.set_free_bytes(Some(128 * KIB));
    assert_eq!(store.usage().and_then(|usage| usage.lacks), None);
    for (purpose, kept) in [(Purpose::Growth, 64 * KIB), (Purpose::Upkeep, 32 * KIB), (Purpose::Removal, 4 * KIB)] {
        let is_written = |_: &u32| match write(&store, Some(purpose)) {
            Ok(_) => kept <= disk.free_bytes().expect("bounded"),
            Err(WriteError::NoSpace { .. }) => false,
            Err(other) => panic!("{other}"),
        };
        let written = (0..200).take_while(is_written).count();
        let free = disk.free_bytes().expect("bounded");
        assert!((20..70).contains(&written) && (kept..kept + 4 * KIB).contains(&free), "{purpose:?}: {written}, and {free} bytes are free");
        assert_eq!(store.usage().and_then(|usage| usage.lacks), Some(OutOfSpace::Disk));
    }
    // Another program uses the last space.
    disk.set_free_bytes(Some(4 * KIB - 1));
    for purpose in [Some(Purpose::Growth), Some(Purpose::Removal), None] {
        assert!(matches!(write(&store, purpose), Err(WriteError::NoSpace { .. })), "{purpose:?}");
    }
    assert_eq!((store.health(), store.usage().map(|usage| usage.refused)), (Health::Ready, Some(6)));
    let before = contents(&store);
    drop(store);

    let store = open(&disk);
    assert_eq!(contents(&store), before);
    assert!(matches!(write(&store, None), Err(WriteError::NoSpace { .. })));
    // A little is enough for what makes room, and that for the rest.
    disk.set_free_bytes(Some(20 * KIB));
    assert!(matches!(write(&store, Some(Purpose::Upkeep)), Err(WriteError::NoSpace { .. })));
    names.iter().for_each(|name| _ = delete(&store, &pod(name)));
    while store.usage().is_some_and(|usage| usage.lacks.is_some()) {
        thread::yield_now();
    }
    create(&store, &pod("more"), "there is space again");
}
