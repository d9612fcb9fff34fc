//! What every store must do. Each test is run against each of them: a new one is a function that opens it, and a line of
//! [`for_each_store`].
#![expect(clippy::disallowed_methods, reason = "writers and watchers that run at once")]

mod lists;
#[path = "memory.rs"]
mod memory_alone;

use crate::{
    etcd,
    util::{self, DEPLOYMENTS, ENDPOINTS, NODES, PODS, SERVICES, all, block_on, get, layout, pod, put, range, show_entry},
};
use berth_store::{
    COMMIT_WRITES_MAX, DEFAULT_HISTORY_BYTES, Event, EventKind, Expected, Key, Limits, MAX_VALUE_BYTES, MemoryStore, Purpose, RangeRequest,
    ReadError, Revision, Store, Unchanged, Watch, WatchFilter, WatchItem, Write, WriteError, env::Timestamp, expiry::Expire,
    files::disk::Disk,
};
use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use jiff::SignedDuration;
use lists::{a_list_that_goes_on_shows_its_revision_until_its_time_is_over, a_list_that_has_come_to_its_end_keeps_nothing};
use std::{any::Any, cell::RefCell, sync::Arc, thread};

/// A store, the way to set its time, and its folder if it has one.
struct Opened {
    store: Arc<dyn Store>,
    /// Until all that is due by then is gone. A store that keeps the time itself waits here.
    pass: Box<dyn Fn(Timestamp)>,
    history: History,
    /// What it depends on.
    _kept: Box<dyn Any>,
}

/// Who forgets what was replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
enum History {
    /// The store, when it becomes too much.
    Bounded,
    /// Compacted by a client. Watches are served from a bounded part of the history.
    Compacted,
}

impl Opened {
    fn with_clock(store: impl Expire, kept: impl Any) -> Self {
        let store = Arc::new(store);
        let told = Arc::clone(&store);
        let pass = move |now| {
            while 0 < block_on(told.expire(now)).expect("the store takes writes") {}
        };
        Self { store, pass: Box::new(pass), history: History::Bounded, _kept: Box::new(kept) }
    }
}

fn memory(history_bytes: usize) -> Opened {
    Opened::with_clock(MemoryStore::new(layout(), history_bytes), ())
}

/// As one that is shared with others, whose revisions lie between ours.
fn memory_with_gaps(history_bytes: usize) -> Opened {
    Opened::with_clock(MemoryStore::new(layout(), history_bytes).with_revision_step(7), ())
}

/// So small that checkpoints are made all the time.
const SMALL: Limits = Limits { log_step_bytes: 4096, checkpoint_bytes_min: 8192, free_bytes_min: 0 };

fn on_disk(history_bytes: usize) -> Opened {
    let disk = Arc::new(Disk::default());
    Opened::with_clock(MemoryStore::open(disk, SMALL, layout(), history_bytes).expect("an empty disk opens"), ())
}

#[cfg(feature = "embedded")]
fn embedded(history_bytes: usize) -> Opened {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let store = berth_store::EmbeddedStore::open(dir.path(), layout(), history_bytes).expect("an empty folder opens");
    Opened::with_clock(store, dir)
}

fn in_etcd(history_bytes: usize) -> Opened {
    let etcd = etcd::Etcd::start(etcd::PATIENT);
    let store = etcd.store(layout(), history_bytes);
    let client = etcd.client();
    let pass = move |now| client.pass(now);
    Opened { store: Arc::new(store), pass: Box::new(pass), history: History::Compacted, _kept: Box::new(etcd) }
}

type Open = fn(usize) -> Opened;

macro_rules! for_each_store {
    ($($test:ident)*) => {
        mod in_memory { $(#[test] fn $test() { super::$test(super::memory); })* }
        mod in_memory_with_gaps { $(#[test] fn $test() { super::$test(super::memory_with_gaps); })* }
        mod on_a_disk_in_memory { $(#[test] fn $test() { super::$test(super::on_disk); })* }
        #[cfg(feature = "embedded")]
        mod in_a_folder { $(#[test] fn $test() { super::$test(super::embedded); })* }
        mod in_etcd { $(#[test] fn $test() { super::run_in_etcd(stringify!($test), super::$test); })* }
    };
}

for_each_store! {
    a_write_is_seen_at_once
    a_put_must_find_what_it_expects
    a_delete_must_find_what_it_expects
    a_recreated_key_starts_from_scratch
    several_keys_are_written_together_or_not_at_all
    a_write_may_want_another_key_unchanged
    a_commit_names_each_key_once
    too_large_values_change_nothing
    a_range_is_sorted_and_of_one_prefix
    pages_of_one_revision_do_not_see_later_writes
    a_range_of_the_future_or_the_forgotten_is_refused
    compaction_keeps_what_is_readable_from_there_on
    compaction_forgets_a_revision_as_a_whole
    history_stays_within_its_bytes
    a_busy_resource_does_not_expire_the_others
    a_list_that_goes_on_shows_its_revision_until_its_time_is_over
    a_list_that_has_come_to_its_end_keeps_nothing
    a_watch_yields_changes_behind_its_revision
    a_watch_yields_a_revision_as_a_whole
    a_watch_sees_its_prefix_only
    a_marked_watch_shows_what_has_the_mark
    a_watch_of_the_future_is_silent_until_then
    a_watch_from_forgotten_revisions_is_refused
    a_reader_that_fell_behind_receives_an_error
    a_quiet_reader_survives_compaction_of_others
    a_quiet_reader_is_woken_by_progress
    resources_are_partitioned_wherever_they_are
    events_carry_the_version_before
    a_deletion_shows_the_last_value_that_was_stored
    concurrent_writers_lose_nothing_and_readers_see_all_in_order
    of_concurrent_creates_one_wins
    a_dropped_put_happens_all_the_same
    a_value_with_a_time_goes_when_that_has_come
    another_write_moves_the_time_or_takes_it_away
}

/// Tests that need an etcd that reports its progress: others report nothing about unchanged keys.
const WANT_PROGRESS: &[&str] = &[
    "a_busy_resource_does_not_expire_the_others",
    "a_marked_watch_shows_what_has_the_mark",
    "a_quiet_reader_is_woken_by_progress",
    "a_value_with_a_time_goes_when_that_has_come",
    "a_watch_sees_its_prefix_only",
    "a_watch_yields_a_revision_as_a_whole",
    "resources_are_partitioned_wherever_they_are",
];

fn run_in_etcd(name: &str, test: fn(Open)) {
    if etcd::is_here() && (!WANT_PROGRESS.contains(&name) || etcd::reports_progress()) {
        test(in_etcd);
    }
}

/// A store, and what was written to it: revisions are shown as numbers of writes, since others may write between ours.
struct TestStore {
    store: Arc<dyn Store>,
    /// Before the first write, and of each.
    revisions: RefCell<Vec<Revision>>,
    /// When the test began.
    beginning: Timestamp,
    pass: Box<dyn Fn(Timestamp)>,
    history: History,
    /// What is watched: a store that is far away is asked there before something is to be seen.
    watched: RefCell<Vec<String>>,
    // Dropped last.
    _kept: Box<dyn Any>,
}

impl TestStore {
    fn new(open: Open) -> Self {
        Self::with_history(open, DEFAULT_HISTORY_BYTES)
    }

    fn with_history(open: Open, history_bytes: usize) -> Self {
        let Opened { store, pass, history, _kept } = open(history_bytes);
        let revisions = RefCell::new(vec![util::newest(&*store)]);
        Self { store, revisions, beginning: Timestamp::now(), pass, history, watched: RefCell::default(), _kept }
    }

    /// So many seconds after the beginning.
    fn second(&self, seconds: i64) -> Timestamp {
        self.beginning + SignedDuration::from_secs(seconds)
    }

    /// The revision of the write of that number.
    fn at(&self, number: usize) -> Revision {
        self.revisions.borrow()[number]
    }

    /// How many writes a revision shows.
    fn number(&self, revision: Revision) -> u64 {
        self.revisions.borrow().partition_point(|known| *known <= revision).saturating_sub(1) as u64
    }

    fn newest(&self) -> u64 {
        self.number(util::newest(&*self.store))
    }

    fn wrote(&self, revision: Revision) -> u64 {
        self.revisions.borrow_mut().push(revision);
        self.number(revision)
    }

    fn create(&self, key: &Key, value: &str) -> u64 {
        self.wrote(util::create(&*self.store, key, value))
    }

    fn update(&self, key: &Key, value: &str) -> u64 {
        self.wrote(util::update(&*self.store, key, value))
    }

    fn update_often(&self, key: &Key) {
        (0..200).for_each(|_| _ = self.update(key, &"x".repeat(1000)));
    }

    fn delete(&self, key: &Key) -> u64 {
        self.wrote(util::delete(&*self.store, key))
    }

    fn commit(&self, writes: Vec<Write>) -> Result<u64, WriteError> {
        block_on(self.store.commit(writes)).map(|entries| self.wrote(entries[0].mod_revision))
    }

    fn read(&self, request: RangeRequest) -> Result<(String, u64, usize), ReadError> {
        let range = range(&*self.store, request)?;
        let shown: Vec<String> = range.entries.iter().map(|entry| show_entry(entry, |revision| self.number(revision))).collect();
        Ok((shown.join(" "), self.number(range.revision), range.remaining))
    }

    fn show(&self, prefix: &str) -> String {
        self.read(all(prefix)).expect("readable").0
    }

    /// A store that keeps the time itself lets values go when it comes to that.
    fn comes_to_show(&self, prefix: &str, expected: &str) {
        if self.history == History::Compacted {
            etcd::eventually(expected, || self.show(prefix) == expected);
        }
        assert_eq!(self.show(prefix), expected);
    }

    fn show_at(&self, number: usize) -> Result<String, ReadError> {
        self.read(RangeRequest { at: Some(self.at(number)), ..all(PODS) }).map(|(shown, ..)| shown)
    }

    fn compact(&self, number: usize) -> Result<(), ReadError> {
        block_on(self.store.compact(PODS, self.at(number)))
    }

    fn watch(&self, prefix: &str, behind: usize) -> Watch {
        self.watched.borrow_mut().push(prefix.into());
        self.store.watch(prefix, self.at(behind)).expect("kept")
    }

    /// Returns when watches show all that was written: what is read there now must be there for them too.
    fn catch_up(&self) {
        let read = |prefix: &String| range(&*self.store, RangeRequest { limit: Some(1), ..all(prefix) }).map(drop);
        self.watched.borrow().iter().for_each(|prefix| read(prefix).expect("the store is available"));
    }

    fn drain(&self, watch: &mut Watch) -> String {
        self.catch_up();
        util::drain(watch, |revision| self.number(revision))
    }
}

/// What makes a key.
fn making(key: Key, value: &'static str) -> Write {
    Write::put(key, value.into(), Expected::Absent, Purpose::Growth)
}

fn a_write_is_seen_at_once(open: Open) {
    let test_store = TestStore::new(open);
    let store = &*test_store.store;
    assert_eq!(test_store.newest(), 0);
    assert_eq!(test_store.create(&pod("a"), "1"), 1);
    assert_eq!(test_store.update(&pod("a"), "2"), 2);
    let entry = get(store, &pod("a")).expect("just written");
    assert_eq!((entry.create_revision, entry.mod_revision, &*entry.value), (test_store.at(1), test_store.at(2), &b"2"[..]));
    assert_eq!(&*entry.header.uid, "2");
    assert_eq!(test_store.delete(&pod("a")), 3);
    assert_eq!(test_store.newest(), 3);
    assert!(get(store, &pod("a")).is_none());
}

fn conflict_of<T: std::fmt::Debug>(result: Result<T, WriteError>) -> Revision {
    match result {
        Err(WriteError::Conflict { found, .. }) => found,
        other => panic!("expected a conflict, got {other:?}"),
    }
}

fn a_put_must_find_what_it_expects(open: Open) {
    let test_store = TestStore::new(open);
    let store = &*test_store.store;
    assert_eq!(conflict_of(put(store, &pod("a"), "x", Expected::At(Revision(1)))), Revision(0));
    test_store.create(&pod("a"), "1");
    assert_eq!(conflict_of(put(store, &pod("a"), "x", Expected::Absent)), test_store.at(1));
    test_store.update(&pod("a"), "2");
    assert_eq!(conflict_of(put(store, &pod("a"), "x", Expected::At(test_store.at(1)))), test_store.at(2));
    assert_eq!(test_store.show(PODS), "a=2@2");
    assert_eq!(test_store.newest(), 2);
}

fn a_delete_must_find_what_it_expects(open: Open) {
    let test_store = TestStore::new(open);
    let delete_at = |revision| block_on(test_store.store.delete(pod("a"), revision));
    assert_eq!(conflict_of(delete_at(Revision(0))), Revision(0));
    assert_eq!(conflict_of(delete_at(Revision(1))), Revision(0));
    test_store.create(&pod("a"), "1");
    assert_eq!(conflict_of(delete_at(Revision(u64::MAX >> 1))), test_store.at(1));
    let gone = delete_at(test_store.at(1)).expect("as expected");
    assert_eq!(test_store.wrote(gone.mod_revision), 2);
    assert_eq!((gone.create_revision, &*gone.value), (test_store.at(1), &b"1"[..]));
    assert_eq!(conflict_of(delete_at(test_store.at(2))), Revision(0));
    assert_eq!(test_store.newest(), 2);
}

fn a_write_may_want_another_key_unchanged(open: Open) {
    let test_store = TestStore::new(open);
    test_store.create(&pod("lease"), "a");
    let tried = |write: Write, lease: Revision| {
        let only_while = Some(Unchanged { key: pod("lease"), revision: lease });
        test_store.commit(vec![Write { only_while, ..write }])
    };
    let deleting = |revision| Write::delete(pod("p"), revision);
    let changing = |revision| Write::put(pod("p"), "2".into(), Expected::At(revision), Purpose::Growth);
    assert_eq!(tried(making(pod("p"), "1"), test_store.at(1)).ok(), Some(2));
    assert_eq!(tried(changing(test_store.at(2)), test_store.at(1)).ok(), Some(3));
    assert_eq!(test_store.show(PODS), "lease=a@1 p=2@3", "it is as it was");

    test_store.update(&pod("lease"), "b");
    let names_the_lease = |told: Result<u64, WriteError>, found: Revision| {
        assert!(matches!(&told, Err(WriteError::Conflict { key, found: at }) if *key == pod("lease") && *at == found), "{told:?}");
    };
    names_the_lease(tried(making(pod("q"), "1"), test_store.at(1)), test_store.at(4));
    names_the_lease(tried(changing(test_store.at(3)), test_store.at(1)), test_store.at(4));
    names_the_lease(tried(deleting(test_store.at(3)), test_store.at(1)), test_store.at(4));
    names_the_lease(tried(making(pod("p"), "1"), test_store.at(1)), test_store.at(4));
    let told = tried(making(pod("p"), "1"), test_store.at(4));
    assert!(matches!(&told, Err(WriteError::Conflict { key, .. }) if *key == pod("p")), "{told:?}");
    assert_eq!(test_store.show(PODS), "lease=b@4 p=2@3", "nothing has changed");
    assert_eq!(tried(deleting(test_store.at(3)), test_store.at(4)).ok(), Some(5));

    test_store.delete(&pod("lease"));
    names_the_lease(tried(making(pod("q"), "1"), test_store.at(4)), Revision(0));
    assert_eq!((test_store.show(PODS).as_str(), test_store.newest()), ("", 6));
    assert_eq!(tried(making(pod("q"), "1"), Revision(0)).ok(), Some(7), "it is not there, as it was");
    test_store.create(&pod("lease"), "c");
    names_the_lease(tried(making(pod("r"), "1"), Revision(0)), test_store.at(8));
}

fn a_recreated_key_starts_from_scratch(open: Open) {
    let test_store = TestStore::new(open);
    test_store.create(&pod("a"), "1");
    test_store.delete(&pod("a"));
    test_store.create(&pod("a"), "2");
    assert_eq!(get(&*test_store.store, &pod("a")).expect("just written").create_revision, test_store.at(3));
    let shown = [0, 1, 2, 3].map(|number| test_store.show_at(number).expect("kept"));
    assert_eq!(shown, ["", "a=1@1", "", "a=2@3"]);
}

fn several_keys_are_written_together_or_not_at_all(open: Open) {
    let test_store = TestStore::new(open);
    test_store.create(&pod("a"), "1");
    test_store.create(&pod("b"), "1");
    let put = |name: &str, value: &str, expected| Write::put(pod(name), value.to_owned().into(), expected, Purpose::Growth);
    let together = vec![
        put("a", "2", Expected::At(test_store.at(1))),
        put("c", "2", Expected::Absent),
        Write::delete(pod("b"), test_store.at(2)),
        making(Key::new("/registry/apps/deployments/default/web"), "2"),
    ];
    assert_eq!(test_store.commit(together).expect("as expected"), 3);
    assert_eq!(test_store.show(""), "web=2@3 a=2@3 c=2@3");
    assert_eq!(test_store.show_at(2).expect("kept"), "a=1@1 b=1@2");
    let second_fails =
        vec![put("d", "3", Expected::Absent), put("a", "3", Expected::At(test_store.at(1))), put("c", "3", Expected::Absent)];
    match test_store.commit(second_fails) {
        Err(WriteError::Conflict { key, found }) => assert_eq!((key, found), (pod("a"), test_store.at(3))),
        other => panic!("the second key is not as expected: {other:?}"),
    }
    assert_eq!((test_store.show(PODS).as_str(), test_store.newest()), ("a=2@3 c=2@3", 3));
    assert!(block_on(test_store.store.commit(Vec::new())).expect("nothing to do").is_empty());
}

fn a_commit_names_each_key_once(open: Open) {
    let test_store = TestStore::new(open);
    let panics = |writes: Vec<Write>| {
        let call = std::panic::AssertUnwindSafe(|| drop(block_on(test_store.store.commit(writes))));
        std::panic::catch_unwind(call).is_err()
    };
    let create = |name: &str| making(pod(name), "");
    assert!(panics(vec![create("a"), create("b"), create("a")]));
    assert!(panics((0..=COMMIT_WRITES_MAX).map(|index| create(&index.to_string())).collect()));
    assert_eq!(test_store.newest(), 0);
    assert_eq!(test_store.commit((0..COMMIT_WRITES_MAX).map(|index| create(&index.to_string())).collect()).expect("within the limit"), 1);
}

fn too_large_values_change_nothing(open: Open) {
    let test_store = TestStore::new(open);
    let largest = Bytes::from(vec![b'x'; MAX_VALUE_BYTES]);
    test_store.commit(vec![Write::put(pod("a"), largest, Expected::Absent, Purpose::Growth)]).expect("just small enough");
    let larger = Bytes::from(vec![b'x'; MAX_VALUE_BYTES + 1]);
    let refused = block_on(test_store.store.put(pod("b"), larger, Expected::Absent, Purpose::Growth));
    assert!(matches!(refused, Err(WriteError::TooLarge { size, max: MAX_VALUE_BYTES, .. }) if size == MAX_VALUE_BYTES + 1), "{refused:?}");
    assert_eq!(test_store.newest(), 1);
}

fn a_range_is_sorted_and_of_one_prefix(open: Open) {
    let test_store = TestStore::new(open);
    let keys =
        ["/registry/core/pods/b/x", "/registry/core/pods/a/y", "/registry/core/podtemplates/a/z", "/registry/apps/pods/a/v", "/other"];
    keys.iter().for_each(|key| _ = test_store.create(&Key::new(key), ""));
    assert_eq!(test_store.show(PODS), "y=@2 x=@1");
    assert_eq!(test_store.show("/registry/core/pods/a/"), "y=@2");
    assert_eq!(test_store.show("/registry/core/"), "y=@2 x=@1 z=@3");
    assert_eq!(test_store.show(""), "other=@5 v=@4 y=@2 x=@1 z=@3");
    assert_eq!(test_store.show("/registry/batch/jobs/"), "");
}

fn pages_of_one_revision_do_not_see_later_writes(open: Open) {
    let test_store = TestStore::new(open);
    for name in ["a", "b", "c", "d", "e"] {
        test_store.create(&pod(name), "1");
    }
    let check = |request, wanted: (&str, u64, usize)| {
        let (shown, revision, remaining) = test_store.read(request).expect("kept");
        assert_eq!((shown.as_str(), revision, remaining), wanted);
    };
    check(RangeRequest { limit: Some(2), ..all(PODS) }, ("a=1@1 b=1@2", 5, 3));
    test_store.delete(&pod("c"));
    test_store.update(&pod("d"), "2");
    test_store.create(&pod("bb"), "1");
    let rest = |at| RangeRequest { limit: Some(2), start_after: Some(pod("b")), at, ..all(PODS) };
    check(rest(Some(test_store.at(5))), ("c=1@3 d=1@4", 5, 1));
    check(rest(None), ("bb=1@8 d=2@7", 8, 1));
}

fn a_range_of_the_future_or_the_forgotten_is_refused(open: Open) {
    let test_store = TestStore::new(open);
    test_store.create(&pod("a"), "1");
    let newest = test_store.at(1);
    let future = Revision(newest.0 + 1);
    let read = |at| range(&*test_store.store, RangeRequest { at: Some(at), ..all(PODS) });
    assert!(matches!(read(future), Err(ReadError::Future { requested, newest: found }) if requested == future && found == newest));
    test_store.compact(1).expect("there");
    let beginning = test_store.at(0);
    assert!(matches!(read(beginning), Err(ReadError::Compacted { requested, oldest }) if requested == beginning && oldest == newest));
    assert!(matches!(block_on(test_store.store.compact(PODS, future)), Err(ReadError::Future { .. })));
}

fn compaction_keeps_what_is_readable_from_there_on(open: Open) {
    let test_store = TestStore::new(open);
    test_store.create(&pod("a"), "1");
    test_store.update(&pod("a"), "2");
    test_store.create(&pod("b"), "1");
    test_store.delete(&pod("b"));
    test_store.update(&pod("a"), "3");
    test_store.compact(3).expect("there");
    test_store.compact(2).expect("compacting what is compacted changes nothing");
    assert!(test_store.show_at(2).is_err());
    let shown = [3, 4, 5].map(|number| test_store.show_at(number).expect("kept"));
    assert_eq!(shown, ["a=2@2 b=1@3", "a=2@2", "a=3@5"]);
    assert_eq!(test_store.drain(&mut test_store.watch(PODS, 3)), "-b=1@4 +a=3@5 !5");
}

fn compaction_forgets_a_revision_as_a_whole(open: Open) {
    let test_store = TestStore::new(open);
    let creates = ["a", "b", "c"].map(|name| making(pod(name), "1"));
    test_store.commit(creates.to_vec()).expect("new keys");
    test_store.update(&pod("a"), "2");
    let mut before = test_store.watch(PODS, 0);
    test_store.compact(1).expect("there");
    assert!(matches!(block_on(before.next()), Some(Err(ReadError::Compacted { .. }))), "not the half of it");
    assert_eq!(test_store.drain(&mut test_store.watch(PODS, 1)), "+a=2@2 !2");
    assert_eq!(test_store.show_at(1).expect("kept"), "a=1@1 b=1@1 c=1@1");
}

fn history_stays_within_its_bytes(open: Open) {
    let test_store = TestStore::with_history(open, 100_000);
    test_store.create(&pod("a"), "");
    test_store.update_often(&pod("a"));
    let oldest = match test_store.store.watch(PODS, test_store.at(0)) {
        Err(ReadError::Compacted { oldest, .. }) => oldest,
        other => panic!("200 versions of 1000 bytes do not fit: {:?}", other.err()),
    };
    assert!((120..190).contains(&test_store.number(oldest)), "{oldest}");
    assert!(test_store.store.watch(PODS, oldest).is_ok());
    assert!(range(&*test_store.store, RangeRequest { at: Some(oldest), ..all(PODS) }).is_ok());
}

fn a_busy_resource_does_not_expire_the_others(open: Open) {
    let test_store = TestStore::with_history(open, 100_000);
    let deployment = Key::new("/registry/apps/deployments/default/web");
    test_store.create(&deployment, "1");
    test_store.update(&deployment, "2");
    test_store.create(&pod("a"), "");
    test_store.update_often(&pod("a"));
    assert!(test_store.store.watch(PODS, test_store.at(3)).is_err(), "200 versions of 1000 bytes do not fit");
    let shown = test_store.read(RangeRequest { at: Some(test_store.at(1)), ..all(DEPLOYMENTS) }).expect("no write to deployments");
    assert_eq!(shown.0, "web=1@1");
    assert_eq!(test_store.drain(&mut test_store.watch(DEPLOYMENTS, 1)), format!("+web=2@2 !{}", test_store.newest()));
}

fn a_watch_yields_changes_behind_its_revision(open: Open) {
    let test_store = TestStore::new(open);
    test_store.create(&pod("a"), "1");
    test_store.create(&pod("b"), "1");
    let mut watch = test_store.watch(PODS, 1);
    assert_eq!(test_store.drain(&mut watch), "+b=1@2 !2");
    assert_eq!(test_store.drain(&mut watch), "");
    test_store.update(&pod("a"), "2");
    test_store.delete(&pod("b"));
    assert_eq!(test_store.drain(&mut watch), "+a=2@3 -b=1@4 !4");
}

fn a_watch_yields_a_revision_as_a_whole(open: Open) {
    let test_store = TestStore::new(open);
    test_store.create(&pod("a"), "1");
    let (mut pods, mut deployments, mut wide) =
        (test_store.watch(PODS, 0), test_store.watch(DEPLOYMENTS, 0), test_store.watch("/registry/", 0));
    let together = vec![
        making(pod("b"), "2"),
        making(Key::new("/registry/apps/deployments/default/web"), "2"),
        Write::delete(pod("a"), test_store.at(1)),
    ];
    test_store.commit(together).expect("as expected");
    test_store.create(&pod("c"), "3");
    assert_eq!(test_store.drain(&mut pods), "+a=1@1 +b=2@2&-a=1@2 +c=3@3 !3");
    assert_eq!(test_store.drain(&mut deployments), "+web=2@2 !3");
    assert_eq!(test_store.drain(&mut wide), "+a=1@1 +b=2@2&+web=2@2&-a=1@2 +c=3@3 !3");
    assert_eq!(test_store.drain(&mut test_store.watch(PODS, 2)), "+c=3@3 !3", "a watcher that has the revision has all of it");
}

fn a_watch_sees_its_prefix_only(open: Open) {
    let test_store = TestStore::new(open);
    let mut watches = ["/registry/core/pods/a/", PODS, "/registry/core/", "", DEPLOYMENTS].map(|prefix| test_store.watch(prefix, 0));
    test_store.create(&Key::new("/registry/core/pods/a/x"), "");
    test_store.create(&Key::new("/registry/core/pods/b/y"), "");
    test_store.create(&Key::new("/registry/core/secrets/a/z"), "");
    let seen = watches.each_mut().map(|watch| test_store.drain(watch));
    assert_eq!(seen, ["+x=@1 !3", "+x=@1 +y=@2 !3", "+x=@1 +y=@2 +z=@3 !3", "+x=@1 +y=@2 +z=@3 !3", "!3"]);
}

fn a_marked_watch_shows_what_has_the_mark(open: Open) {
    let test_store = TestStore::new(open);
    let mut watch = test_store.store.watch_filtered(PODS, test_store.at(0), WatchFilter::Name("a".into())).expect("kept");
    test_store.watched.borrow_mut().push(PODS.into());
    test_store.create(&pod("a"), "1");
    test_store.create(&pod("b"), "1");
    test_store.update(&pod("a"), "2");
    test_store.create(&Key::new("/registry/core/secrets/default/a"), "");
    // Others may be shown too.
    let mut filtered = || {
        let shown = test_store.drain(&mut watch);
        shown.split(' ').filter(|one| !one.contains("b=")).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(filtered(), "+a=1@1 +a=2@3 !4");
    test_store.delete(&pod("b"));
    test_store.delete(&pod("a"));
    assert_eq!(filtered(), "-a=2@6 !6");
}

fn a_watch_of_the_future_is_silent_until_then(open: Open) {
    let test_store = TestStore::new(open);
    let future = Revision(test_store.at(0).0 + 1);
    let mut watch = test_store.store.watch(PODS, future).expect("the future is no error");
    test_store.watched.borrow_mut().push(PODS.into());
    assert_eq!(test_store.drain(&mut watch), "");
    test_store.create(&pod("a"), "");
    // Where no other client writes, the first write is that revision, and only later changes are shown.
    let is_it = test_store.at(1) == future;
    assert_eq!(test_store.drain(&mut watch), if is_it { "!1" } else { "+a=@1 !1" });
    test_store.create(&pod("b"), "");
    assert_eq!(test_store.drain(&mut watch), "+b=@2 !2");
}

fn a_watch_from_forgotten_revisions_is_refused(open: Open) {
    let test_store = TestStore::new(open);
    test_store.create(&pod("a"), "");
    test_store.create(&pod("b"), "");
    test_store.compact(2).expect("there");
    let (forgotten, kept) = (test_store.at(1), test_store.at(2));
    let refused = test_store.store.watch(PODS, forgotten).err();
    assert!(matches!(refused, Some(ReadError::Compacted { requested, oldest }) if requested == forgotten && oldest == kept));
    assert!(test_store.store.watch(PODS, kept).is_ok());
}

fn a_reader_that_fell_behind_receives_an_error(open: Open) {
    let test_store = TestStore::new(open);
    let mut watch = test_store.watch(PODS, 0);
    test_store.create(&pod("a"), "");
    test_store.create(&pod("b"), "");
    test_store.compact(1).expect("there");
    let told = block_on(watch.next());
    assert!(
        matches!(told, Some(Err(ReadError::Compacted { requested, oldest })) if requested == test_store.at(0) && oldest == test_store.at(1))
    );
    assert!(block_on(watch.next()).is_none());
}

fn a_quiet_reader_survives_compaction_of_others(open: Open) {
    let test_store = TestStore::new(open);
    let deployment = Key::new("/registry/apps/deployments/default/web");
    test_store.create(&deployment, "1");
    let mut watch = test_store.watch(DEPLOYMENTS, 1);
    test_store.create(&pod("a"), "");
    test_store.create(&pod("b"), "");
    test_store.compact(3).expect("there");
    test_store.update(&deployment, "2");
    assert_eq!(test_store.drain(&mut watch), "+web=2@4 !4");
}

fn a_quiet_reader_is_woken_by_progress(open: Open) {
    let test_store = TestStore::new(open);
    let mut watch = test_store.watch(DEPLOYMENTS, 0);
    assert_eq!(test_store.drain(&mut watch), "!0");
    let waiting = thread::spawn(move || block_on(watch.next()));
    test_store.create(&pod("a"), "");
    let item = waiting.join().expect("the watch does not panic");
    assert!(matches!(item, Some(Ok(WatchItem::Progress(revision))) if test_store.at(1) <= revision), "{item:?}");
}

fn resources_are_partitioned_wherever_they_are(open: Open) {
    let test_store = TestStore::new(open);
    let places = [(SERVICES, "a/x"), (SERVICES, "a/y"), (SERVICES, "b/z"), (ENDPOINTS, "a/x"), (NODES, "x")];
    let keys = places.map(|(prefix, rest)| Key::new(&format!("{prefix}{rest}")));
    keys.iter().for_each(|key| _ = test_store.create(key, ""));
    let page = |prefix: &str| test_store.read(RangeRequest { limit: Some(1), ..all(prefix) }).expect("readable");
    let pages = [SERVICES, "/registry/services/specs/a/", ENDPOINTS, NODES, "/registry/services/"].map(page);
    assert_eq!(
        pages.map(|(shown, _, behind)| (shown, behind)),
        [("x=@1", 2), ("x=@1", 1), ("x=@4", 0), ("x=@5", 0), ("x=@4", 3)].map(|(shown, behind)| (shown.to_owned(), behind))
    );

    let mut watches = [SERVICES, ENDPOINTS, NODES].map(|prefix| test_store.watch(prefix, 5));
    test_store.update(&keys[0], "2");
    test_store.delete(&keys[1]);
    assert_eq!(test_store.drain(&mut watches[0]), "+x=2@6 -y=@7 !7");
    test_store.compact(7).expect("there");
    test_store.update(&keys[4], "2");
    assert_eq!(watches.each_mut().map(|watch| test_store.drain(watch)), ["!8", "!8", "+x=2@8 !8"]);
    assert_eq!(page(SERVICES), ("x=2@6".to_owned(), 8, 1));
}

/// All events that a watch shows.
fn events(test_store: &TestStore, watch: &mut Watch) -> Vec<Arc<Event>> {
    test_store.catch_up();
    let mut seen = Vec::new();
    while let Some(Some(Ok(item))) = watch.next().now_or_never() {
        if let WatchItem::Events(events) = item {
            seen.extend(events);
        }
    }
    seen
}

fn events_carry_the_version_before(open: Open) {
    let test_store = TestStore::new(open);
    let mut watch = test_store.watch(PODS, 0);
    test_store.create(&pod("a"), "1");
    test_store.update(&pod("a"), "2");
    test_store.delete(&pod("a"));
    let number = |revision| test_store.number(revision);
    let shown = |event: &Arc<Event>| {
        (event.kind, event.previous.as_ref().map(|previous| number(previous.mod_revision)), number(event.entry.create_revision))
    };
    let expected = [(EventKind::Put, None, 1), (EventKind::Put, Some(1), 1), (EventKind::Deleted, Some(2), 1)];
    assert_eq!(events(&test_store, &mut watch).iter().map(shown).collect::<Vec<_>>(), expected);
}

fn a_deletion_shows_the_last_value_that_was_stored(open: Open) {
    let test_store = TestStore::new(open);
    let mut watch = test_store.watch(PODS, 0);
    test_store.create(&pod("a"), "1");
    test_store.update(&pod("a"), "2");
    test_store.delete(&pod("a"));
    let seen = events(&test_store, &mut watch);
    let gone = &seen.last().expect("three changes").entry;
    assert_eq!((&*gone.value, &*gone.header.uid, gone.mod_revision), (&b"2"[..], "2", test_store.at(3)));
}

/// Eight writers each create, update and delete keys of their own while two readers follow; both must see every change, each revision
/// once, in order.
fn concurrent_writers_lose_nothing_and_readers_see_all_in_order(open: Open) {
    const WRITERS: u64 = 8;
    const ROUNDS: u64 = 50;
    const CHANGES: usize = (WRITERS * ROUNDS * 3) as usize;
    let test_store = TestStore::new(open);
    let follow = || {
        let mut watch = test_store.watch(PODS, 0);
        thread::spawn(move || {
            let mut seen = Vec::new();
            while seen.len() < CHANGES {
                if let Some(Ok(WatchItem::Events(events))) = block_on(watch.next()) {
                    seen.extend(events.iter().map(|event| event.entry.mod_revision));
                }
            }
            seen
        })
    };
    let readers = [follow(), follow()];
    let mut written: Vec<Revision> = thread::scope(|scope| {
        let write = |writer: u64| {
            let store = &*test_store.store;
            scope.spawn(move || {
                let round = |round: u64| {
                    let key = pod(&format!("{writer}-{round}"));
                    [util::create(store, &key, "1"), util::update(store, &key, "2"), util::delete(store, &key)]
                };
                (0..ROUNDS).flat_map(round).collect::<Vec<_>>()
            })
        };
        let writers: Vec<_> = (0..WRITERS).map(write).collect();
        writers.into_iter().flat_map(|writer| writer.join().expect("writes do not panic")).collect()
    });
    written.sort_unstable();
    for reader in readers {
        assert_eq!(reader.join().expect("the watch does not panic"), written);
    }
    assert!(written.is_sorted_by(|before, after| before < after), "each commit is a revision of its own");
    assert_eq!(util::newest(&*test_store.store), *written.last().expect("some"));
}

fn of_concurrent_creates_one_wins(open: Open) {
    let test_store = TestStore::new(open);
    let created: Vec<Revision> = thread::scope(|scope| {
        let store = &*test_store.store;
        let attempts: Vec<_> = (0..16).map(|_| scope.spawn(|| put(store, &pod("a"), "1", Expected::Absent))).collect();
        let entries = attempts.into_iter().filter_map(|attempt| attempt.join().expect("puts do not panic").ok());
        entries.map(|entry| entry.mod_revision).collect()
    });
    assert_eq!(created, [util::newest(&*test_store.store)]);
}

fn a_dropped_put_happens_all_the_same(open: Open) {
    let test_store = TestStore::new(open);
    let mut watch = test_store.watch(PODS, 0);
    drop(test_store.store.put(pod("a"), "1".into(), Expected::Absent, Purpose::Growth));
    let happened = loop {
        if let Some(Ok(WatchItem::Events(events))) = block_on(watch.next()) {
            break events;
        }
    };
    assert_eq!(happened[0].entry.key, pod("a"));
}

fn a_value_with_a_time_goes_when_that_has_come(open: Open) {
    let test_store = TestStore::new(open);
    let mut watch = test_store.watch(PODS, 0);
    let until = |name: &str, seconds| Write { expires_at: Some(test_store.second(seconds)), ..making(pod(name), "1") };
    test_store.commit(vec![until("soon", 4), until("later", 3600), making(pod("never"), "1")]).expect("new keys");
    (test_store.pass)(test_store.second(1));
    assert_eq!(test_store.show(PODS), "later=1@1 never=1@1 soon=1@1");
    (test_store.pass)(test_store.second(5));
    test_store.comes_to_show(PODS, "later=1@1 never=1@1");
    test_store.wrote(util::newest(&*test_store.store));
    assert_eq!(test_store.drain(&mut watch), "+soon=1@1&+later=1@1&+never=1@1 -soon=1@2 !2");
    assert_eq!(test_store.create(&pod("soon"), "2"), 3, "its name is free");
}

fn another_write_moves_the_time_or_takes_it_away(open: Open) {
    let test_store = TestStore::new(open);
    let put = |name: &str, expected, seconds: Option<i64>| {
        let expires_at = seconds.map(|seconds| test_store.second(seconds));
        test_store.commit(vec![Write { expires_at, ..Write::put(pod(name), "1".into(), expected, Purpose::Growth) }]).expect("as expected");
    };
    put("moved", Expected::Absent, Some(2));
    put("kept", Expected::Absent, Some(2));
    put("anew", Expected::Absent, Some(2));
    put("moved", Expected::At(test_store.at(1)), Some(3600));
    put("kept", Expected::At(test_store.at(2)), None);
    test_store.delete(&pod("anew"));
    put("anew", Expected::Absent, None);
    (test_store.pass)(test_store.second(3));
    assert_eq!(test_store.show(PODS), "anew=1@7 kept=1@5 moved=1@4");
    assert_eq!(test_store.newest(), 7);
}
