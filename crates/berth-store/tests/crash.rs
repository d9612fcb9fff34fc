//! What comes back after a crash, and that damage is told.
#![cfg(feature = "embedded")]
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "files are damaged here, and processes killed")]

mod util;

use berth_store::{
    DEFAULT_HISTORY_BYTES, EmbeddedStore, Expected, OpenError, ReadError, Revision, Store, Write as StoreWrite, env::Timestamp,
    expiry::Expire,
};
use jiff::SignedDuration;
use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    thread,
};
use tempfile::TempDir;
use util::{all, block_on, create, delete, get, layout, newest, pod, range, show_entry, update};

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

fn journal(dir: &TempDir) -> PathBuf {
    dir.path().join("engine").join("0.jnl")
}

/// The journal's bytes, without the unused space.
fn journal_bytes(dir: &TempDir) -> Vec<u8> {
    let mut bytes = fs::read(journal(dir)).expect("readable");
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
        Err(OpenError::Engine { source, .. }) => source.to_string(),
        Err(error) => error.to_string(),
    }
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
    let expiring = StoreWrite { expires_at: Some(at), ..StoreWrite::put(pod("a"), "1".into(), Expected::Absent) };
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
fn history_ends_at_a_restart() {
    let dir = ten_pods();
    let store = reopen(dir.path());
    assert!(matches!(store.watch("", Revision(9)).err(), Some(ReadError::Compacted { oldest: Revision(10), .. })));
    let mut watch = store.watch("", Revision(10)).expect("nothing is missing behind the newest revision");
    create(&store, &pod("a"), "1");
    assert_eq!(util::drain(&mut watch, |revision| revision.0), "+a=1@11 !11");
}

#[test]
fn a_folder_has_one_store_at_a_time() {
    let dir = folder();
    let first = reopen(dir.path());
    assert!(matches!(open(dir.path()).err(), Some(OpenError::InUse { .. })));
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
    assert!(matches!(refused, Err(berth_store::WriteError::Unavailable { .. })), "{refused:?}");
    assert_eq!(contents(&store), "a=1@1");
}

#[test]
fn an_unfinished_first_start_is_begun_again() {
    let dir = folder();
    fs::create_dir(dir.path().join("engine.new")).expect("empty folder");
    fs::write(dir.path().join("engine.new").join("0.jnl"), "").expect("writable");
    create(&reopen(dir.path()), &pod("a"), "1");
}

/// Cuts the journal inside the last commit, at every tenth place.
#[test]
fn a_torn_last_commit_is_left_out_as_a_whole() {
    let dir = ten_pods();
    let bytes = journal_bytes(&dir);
    let last = place_of(&bytes, "k/registry/core/pods/default/p9");
    for end in (last..bytes.len()).step_by(10) {
        let dir = ten_pods();
        fs::write(journal(&dir), &bytes[..end]).expect("writable");
        let store = reopen(dir.path());
        assert!(contents(&store).ends_with("p8=value of number 8@9"), "cut at {end} of {}: {}", bytes.len(), contents(&store));
        assert_eq!(create(&store, &pod("next"), ""), Revision(10));
    }
}

#[test]
fn a_torn_commit_of_several_keys_is_left_out_as_a_whole() {
    let commit = || {
        let dir = ten_pods();
        let creates = ["x", "y", "z"].map(|name| StoreWrite::put(pod(name), "together".into(), Expected::Absent));
        block_on(reopen(dir.path()).commit(creates.to_vec())).expect("new keys");
        dir
    };
    let bytes = journal_bytes(&commit());
    let all = contents(&reopen(commit().path()));
    assert!(all.ends_with("x=together@11 y=together@11 z=together@11"), "{all}");
    for end in (place_of(&bytes, "k/registry/core/pods/default/x")..bytes.len()).step_by(10) {
        let dir = commit();
        fs::write(journal(&dir), &bytes[..end]).expect("writable");
        let left = contents(&reopen(dir.path()));
        assert!(left.ends_with("p9=value of number 9@10"), "cut at {end} of {}: {left}", bytes.len());
    }
}

/// After a power loss the end of the last commit may be there and its middle not.
#[test]
fn a_last_commit_with_a_hole_is_left_out_if_it_was_not_acknowledged() {
    let dir = ten_pods();
    let mut bytes = journal_bytes(&dir);
    let at = place_of(&bytes, "value of number 9");
    bytes[at..at + 8].fill(0);
    fs::write(journal(&dir), bytes).expect("writable");
    assert!(refused(&dir).contains("behind revision 9"), "it was acknowledged");
    fs::remove_file(dir.path().join("acknowledged")).expect("it is there");
    assert_eq!(newest(&reopen(dir.path())), Revision(9));
}

#[test]
fn lost_acknowledged_commits_are_told() {
    let dir = ten_pods();
    let bytes = journal_bytes(&dir);
    let end = place_of(&bytes, "k/registry/core/pods/default/p5");
    fs::write(journal(&dir), &bytes[..end]).expect("writable");
    assert_eq!(refused(&dir), "the journal behind revision 5 is damaged: revision 10 was acknowledged and is missing");
}

/// Flips a bit in every place of the commit of `p5`, which others follow.
#[test]
fn a_damaged_commit_is_told_and_nothing_is_cut_off() {
    let bytes = journal_bytes(&ten_pods());
    let dir = ten_pods();
    let (from, to) = (place_of(&bytes, "k/registry/core/pods/default/p5"), place_of(&bytes, "k/registry/core/pods/default/p6"));
    for at in from..to {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        fs::write(journal(&dir), &damaged).expect("writable");
        let told = refused(&dir);
        // The engine's checksums leave the sequence number out: that one is seen by what then does not fit together.
        assert!(told.contains("damaged"), "byte {at}: {told}");
        assert_eq!(fs::read(journal(&dir)).expect("readable"), damaged);
    }
    fs::write(journal(&dir), &bytes).expect("writable");
    assert_eq!(newest(&reopen(dir.path())), Revision(10));
}

/// Writes enough that the engine moves it from the journal to tables, and flips bits all over those.
#[test]
fn a_damaged_table_is_told() {
    let dir = folder();
    let store = reopen(dir.path());
    let value = "x".repeat(100_000);
    (0..300).for_each(|index| {
        create(&store, &pod(&format!("p{index:03}")), &value);
    });
    drop(store);
    let tables = dir.path().join("engine/keyspaces/1/tables");
    let table = fs::read_dir(tables).expect("tables were written").next().expect("at least one").expect("readable").path();
    let bytes = fs::read(&table).expect("readable");
    let mut told = Vec::new();
    for at in [bytes.len() / 5, bytes.len() / 2, bytes.len() * 4 / 5] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        fs::write(&table, damaged).expect("writable");
        told.push(refused(&dir));
    }
    assert!(told.iter().all(|told| told.contains("record")), "{told:?}");
    fs::write(&table, bytes).expect("writable");
    assert_eq!(newest(&reopen(dir.path())), Revision(300));
}

#[test]
fn a_damaged_note_of_what_was_acknowledged_is_told() {
    let dir = ten_pods();
    fs::write(dir.path().join("acknowledged"), "nonsense, but long enough").expect("writable");
    assert!(refused(&dir).contains("acknowledged is damaged"));
}

/// The folder of the child that is killed; absent in an ordinary run.
const CHILD: &str = "BERTH_STORE_CRASH_CHILD";
const CHILD_WRITERS: usize = 8;

/// In the child: writes for ever, and says which key is acknowledged.
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
            .args(["--exact", "child_that_writes_until_killed", "--nocapture"])
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
    }
}
