//! What every backend must do. Each test is run against each of them.
#![expect(clippy::disallowed_methods, reason = "writers and watchers that run at once")]

mod util;

use berth_store::{
    DEFAULT_HISTORY_BYTES, EventKind, Expected, Key, MAX_VALUE_BYTES, MemoryStore, ReadError, Revision, Store, WatchItem, WriteError,
};
use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use std::{sync::Arc, thread};
use util::{all, block_on, create, delete, drain, get, header_of, pod, put, range, show, update};

const PODS: &str = "/registry/core/pods/";

/// A store, and its folder if it has one.
struct Opened {
    store: Arc<dyn Store>,
    _dir: Option<tempfile::TempDir>,
}

fn memory(history_bytes: usize) -> Opened {
    Opened { store: Arc::new(MemoryStore::new(header_of(), history_bytes)), _dir: None }
}

#[cfg(feature = "embedded")]
fn embedded(history_bytes: usize) -> Opened {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let store = berth_store::EmbeddedStore::open(dir.path(), header_of(), history_bytes).expect("an empty folder opens");
    Opened { store: Arc::new(store), _dir: Some(dir) }
}

type Open = fn(usize) -> Opened;

macro_rules! for_each_backend {
    ($($test:ident)*) => {
        mod in_memory { $(#[test] fn $test() { super::$test(super::memory); })* }
        #[cfg(feature = "embedded")]
        mod in_a_folder { $(#[test] fn $test() { super::$test(super::embedded); })* }
    };
}

for_each_backend! {
    each_write_is_one_revision
    a_put_must_find_what_it_expects
    a_delete_must_find_what_it_expects
    a_recreated_key_begins_anew
    too_large_values_change_nothing
    a_range_is_sorted_and_of_one_prefix
    pages_of_one_revision_do_not_see_later_writes
    a_range_of_the_future_or_the_forgotten_is_refused
    compaction_keeps_what_is_readable_from_there_on
    history_stays_within_its_bytes
    a_watch_yields_changes_behind_its_revision
    a_watch_sees_its_prefix_only
    a_watch_of_the_future_is_silent_until_then
    a_watch_from_forgotten_revisions_is_refused
    a_reader_that_fell_behind_is_told
    a_quiet_reader_survives_compaction_of_others
    a_quiet_reader_is_woken_by_progress
    events_carry_the_version_before
    concurrent_writers_lose_nothing_and_readers_see_all_in_order
    of_concurrent_creates_one_wins
    a_dropped_put_happens_all_the_same
}

fn each_write_is_one_revision(open: Open) {
    let Opened { store, _dir } = open(DEFAULT_HISTORY_BYTES);
    let store = &*store;
    assert_eq!(store.revision(), Revision(0));
    assert_eq!(create(store, &pod("a"), "1"), Revision(1));
    assert_eq!(update(store, &pod("a"), "2"), Revision(2));
    let entry = get(store, &pod("a")).expect("just written");
    assert_eq!((entry.create_revision, entry.mod_revision, &*entry.value), (Revision(1), Revision(2), &b"2"[..]));
    assert_eq!(&*entry.header.uid, "2");
    assert_eq!(delete(store, &pod("a")), Revision(3));
    assert_eq!(store.revision(), Revision(3));
    assert!(get(store, &pod("a")).is_none());
}

fn conflict_of<T: std::fmt::Debug>(result: Result<T, WriteError>) -> Revision {
    match result {
        Err(WriteError::Conflict { found, .. }) => found,
        other => panic!("expected a conflict, got {other:?}"),
    }
}

fn a_put_must_find_what_it_expects(open: Open) {
    let Opened { store, _dir } = open(DEFAULT_HISTORY_BYTES);
    let store = &*store;
    assert_eq!(conflict_of(put(store, &pod("a"), "x", Expected::At(Revision(1)))), Revision(0));
    create(store, &pod("a"), "1");
    assert_eq!(conflict_of(put(store, &pod("a"), "x", Expected::Absent)), Revision(1));
    update(store, &pod("a"), "2");
    assert_eq!(conflict_of(put(store, &pod("a"), "x", Expected::At(Revision(1)))), Revision(2));
    assert_eq!(show(&range(store, all(PODS)).expect("readable")), "a=2@2");
    assert_eq!(store.revision(), Revision(2));
}

fn a_delete_must_find_what_it_expects(open: Open) {
    let Opened { store, _dir } = open(DEFAULT_HISTORY_BYTES);
    let store = &*store;
    let delete_at = |revision| block_on(store.delete(pod("a"), "last".into(), Revision(revision)));
    assert_eq!(conflict_of(delete_at(0)), Revision(0));
    assert_eq!(conflict_of(delete_at(1)), Revision(0));
    create(store, &pod("a"), "1");
    assert_eq!(conflict_of(delete_at(7)), Revision(1));
    let gone = delete_at(1).expect("as expected");
    assert_eq!((gone.mod_revision, gone.create_revision, &*gone.value), (Revision(2), Revision(1), &b"last"[..]));
    assert_eq!(conflict_of(delete_at(2)), Revision(0));
    assert_eq!(store.revision(), Revision(2));
}

fn a_recreated_key_begins_anew(open: Open) {
    let Opened { store, _dir } = open(DEFAULT_HISTORY_BYTES);
    let store = &*store;
    create(store, &pod("a"), "1");
    delete(store, &pod("a"));
    create(store, &pod("a"), "2");
    assert_eq!(get(store, &pod("a")).expect("just written").create_revision, Revision(3));
    let at = |revision| range(store, berth_store::RangeRequest { at: Some(Revision(revision)), ..all(PODS) }).expect("kept");
    assert_eq!([show(&at(0)), show(&at(1)), show(&at(2)), show(&at(3))], ["", "a=1@1", "", "a=2@3"]);
}

fn too_large_values_change_nothing(open: Open) {
    let Opened { store, _dir } = open(DEFAULT_HISTORY_BYTES);
    let largest = Bytes::from(vec![b'x'; MAX_VALUE_BYTES]);
    block_on(store.put(pod("a"), largest, Expected::Absent)).expect("just small enough");
    let larger = Bytes::from(vec![b'x'; MAX_VALUE_BYTES + 1]);
    let refused = block_on(store.put(pod("b"), larger, Expected::Absent));
    assert!(matches!(refused, Err(WriteError::TooLarge { size, max: MAX_VALUE_BYTES, .. }) if size == MAX_VALUE_BYTES + 1), "{refused:?}");
    assert_eq!(store.revision(), Revision(1));
}

fn a_range_is_sorted_and_of_one_prefix(open: Open) {
    let Opened { store, _dir } = open(DEFAULT_HISTORY_BYTES);
    let store = &*store;
    let keys =
        ["/registry/core/pods/b/x", "/registry/core/pods/a/y", "/registry/core/podtemplates/a/z", "/registry/apps/pods/a/v", "/other"];
    keys.iter().for_each(|key| {
        create(store, &Key::new(key), "");
    });
    let names = |prefix: &str| show(&range(store, all(prefix)).expect("readable"));
    assert_eq!(names(PODS), "y=@2 x=@1");
    assert_eq!(names("/registry/core/pods/a/"), "y=@2");
    assert_eq!(names("/registry/core/"), "y=@2 x=@1 z=@3");
    assert_eq!(names(""), "other=@5 v=@4 y=@2 x=@1 z=@3");
    assert_eq!(names("/registry/batch/jobs/"), "");
}

fn pages_of_one_revision_do_not_see_later_writes(open: Open) {
    let Opened { store, _dir } = open(DEFAULT_HISTORY_BYTES);
    let store = &*store;
    for name in ["a", "b", "c", "d", "e"] {
        create(store, &pod(name), "1");
    }
    let first = range(store, berth_store::RangeRequest { limit: Some(2), ..all(PODS) }).expect("readable");
    assert_eq!((show(&first).as_str(), first.revision, first.remaining), ("a=1@1 b=1@2", Revision(5), 3));
    delete(store, &pod("c"));
    update(store, &pod("d"), "2");
    create(store, &pod("bb"), "1");
    let rest = |at| berth_store::RangeRequest { limit: Some(2), start_after: Some(pod("b")), at, ..all(PODS) };
    let second = range(store, rest(Some(Revision(5)))).expect("kept");
    assert_eq!((show(&second).as_str(), second.revision, second.remaining), ("c=1@3 d=1@4", Revision(5), 1));
    let newest = range(store, rest(None)).expect("readable");
    assert_eq!((show(&newest).as_str(), newest.revision, newest.remaining), ("bb=1@8 d=2@7", Revision(8), 1));
}

fn a_range_of_the_future_or_the_forgotten_is_refused(open: Open) {
    let Opened { store, _dir } = open(DEFAULT_HISTORY_BYTES);
    let store = &*store;
    create(store, &pod("a"), "1");
    let at = |revision| range(store, berth_store::RangeRequest { at: Some(Revision(revision)), ..all(PODS) });
    assert!(matches!(at(2), Err(ReadError::Future { requested: Revision(2), newest: Revision(1) })));
    block_on(store.compact(Revision(1))).expect("there");
    assert!(matches!(at(0), Err(ReadError::Compacted { requested: Revision(0), oldest: Revision(1) })));
    assert!(matches!(block_on(store.compact(Revision(2))), Err(ReadError::Future { .. })));
}

fn compaction_keeps_what_is_readable_from_there_on(open: Open) {
    let Opened { store, _dir } = open(DEFAULT_HISTORY_BYTES);
    let store = &*store;
    create(store, &pod("a"), "1");
    update(store, &pod("a"), "2");
    create(store, &pod("b"), "1");
    delete(store, &pod("b"));
    update(store, &pod("a"), "3");
    block_on(store.compact(Revision(3))).expect("there");
    block_on(store.compact(Revision(2))).expect("compacting what is compacted changes nothing");
    let at = |revision| range(store, berth_store::RangeRequest { at: Some(Revision(revision)), ..all(PODS) }).map(|range| show(&range));
    assert!(at(2).is_err());
    assert_eq!(at(3).expect("kept"), "a=2@2 b=1@3");
    assert_eq!(at(4).expect("kept"), "a=2@2");
    assert_eq!(at(5).expect("kept"), "a=3@5");
    let mut watch = store.watch(PODS, Revision(3)).expect("kept");
    assert_eq!(drain(&mut watch), "-b=1@4 +a=3@5 !5");
}

fn history_stays_within_its_bytes(open: Open) {
    let Opened { store, _dir } = open(100_000);
    let store = &*store;
    create(store, &pod("a"), "");
    let value = "x".repeat(1000);
    for _ in 0..200 {
        update(store, &pod("a"), &value);
    }
    let oldest = match store.watch(PODS, Revision(0)) {
        Err(ReadError::Compacted { oldest, .. }) => oldest,
        other => panic!("200 versions of 1000 bytes do not fit: {:?}", other.err()),
    };
    assert!((120..190).contains(&oldest.0), "{oldest}");
    assert!(store.watch(PODS, oldest).is_ok());
    assert!(range(store, berth_store::RangeRequest { at: Some(oldest), ..all(PODS) }).is_ok());
}

fn a_watch_yields_changes_behind_its_revision(open: Open) {
    let Opened { store, _dir } = open(DEFAULT_HISTORY_BYTES);
    let store = &*store;
    create(store, &pod("a"), "1");
    create(store, &pod("b"), "1");
    let mut watch = store.watch(PODS, Revision(1)).expect("kept");
    assert_eq!(drain(&mut watch), "+b=1@2 !2");
    assert_eq!(drain(&mut watch), "");
    update(store, &pod("a"), "2");
    delete(store, &pod("b"));
    assert_eq!(drain(&mut watch), "+a=2@3 -b=1@4 !4");
}

fn a_watch_sees_its_prefix_only(open: Open) {
    let Opened { store, _dir } = open(DEFAULT_HISTORY_BYTES);
    let store = &*store;
    let mut watches = ["/registry/core/pods/a/", PODS, "/registry/core/", "", "/registry/apps/deployments/"]
        .map(|prefix| store.watch(prefix, Revision(0)).expect("kept"));
    create(store, &Key::new("/registry/core/pods/a/x"), "");
    create(store, &Key::new("/registry/core/pods/b/y"), "");
    create(store, &Key::new("/registry/core/secrets/a/z"), "");
    let seen = watches.each_mut().map(drain);
    assert_eq!(seen, ["+x=@1 !3", "+x=@1 +y=@2 !3", "+x=@1 +y=@2 +z=@3 !3", "+x=@1 +y=@2 +z=@3 !3", "!3"]);
}

fn a_watch_of_the_future_is_silent_until_then(open: Open) {
    let Opened { store, _dir } = open(DEFAULT_HISTORY_BYTES);
    let store = &*store;
    let mut watch = store.watch(PODS, Revision(2)).expect("the future is no error");
    assert_eq!(drain(&mut watch), "");
    create(store, &pod("a"), "");
    assert_eq!(drain(&mut watch), "");
    create(store, &pod("b"), "");
    assert_eq!(drain(&mut watch), "!2");
    create(store, &pod("c"), "");
    assert_eq!(drain(&mut watch), "+c=@3 !3");
}

fn a_watch_from_forgotten_revisions_is_refused(open: Open) {
    let Opened { store, _dir } = open(DEFAULT_HISTORY_BYTES);
    let store = &*store;
    create(store, &pod("a"), "");
    create(store, &pod("b"), "");
    block_on(store.compact(Revision(2))).expect("there");
    assert!(matches!(store.watch(PODS, Revision(1)), Err(ReadError::Compacted { requested: Revision(1), oldest: Revision(2) })));
    assert!(store.watch(PODS, Revision(2)).is_ok());
}

fn a_reader_that_fell_behind_is_told(open: Open) {
    let Opened { store, _dir } = open(DEFAULT_HISTORY_BYTES);
    let store = &*store;
    let mut watch = store.watch(PODS, Revision(0)).expect("kept");
    create(store, &pod("a"), "");
    create(store, &pod("b"), "");
    block_on(store.compact(Revision(1))).expect("there");
    let told = block_on(watch.next());
    assert!(matches!(told, Some(Err(ReadError::Compacted { requested: Revision(0), oldest: Revision(1) }))));
    assert!(block_on(watch.next()).is_none());
}

fn a_quiet_reader_survives_compaction_of_others(open: Open) {
    let Opened { store, _dir } = open(DEFAULT_HISTORY_BYTES);
    let store = &*store;
    let deployment = Key::new("/registry/apps/deployments/default/web");
    create(store, &deployment, "1");
    let mut watch = store.watch("/registry/apps/deployments/", Revision(1)).expect("kept");
    create(store, &pod("a"), "");
    create(store, &pod("b"), "");
    block_on(store.compact(Revision(3))).expect("there");
    update(store, &deployment, "2");
    assert_eq!(drain(&mut watch), "+web=2@4 !4");
}

fn a_quiet_reader_is_woken_by_progress(open: Open) {
    let Opened { store, _dir } = open(DEFAULT_HISTORY_BYTES);
    let mut watch = store.watch("/registry/apps/deployments/", Revision(0)).expect("kept");
    assert_eq!(drain(&mut watch), "!0");
    let waiting = thread::spawn(move || block_on(watch.next()));
    create(&*store, &pod("a"), "");
    let item = waiting.join().expect("the watch does not panic");
    assert!(matches!(item, Some(Ok(WatchItem::Progress(Revision(1))))), "{item:?}");
}

fn events_carry_the_version_before(open: Open) {
    let Opened { store, _dir } = open(DEFAULT_HISTORY_BYTES);
    let store = &*store;
    let mut watch = store.watch(PODS, Revision(0)).expect("kept");
    create(store, &pod("a"), "1");
    update(store, &pod("a"), "2");
    delete(store, &pod("a"));
    let mut seen = Vec::new();
    while let Some(Some(Ok(item))) = watch.next().now_or_never() {
        if let WatchItem::Event(event) = item {
            seen.push((event.kind, event.previous.as_ref().map(|previous| previous.mod_revision), event.entry.create_revision));
        }
    }
    let expected = [
        (EventKind::Put, None, Revision(1)),
        (EventKind::Put, Some(Revision(1)), Revision(1)),
        (EventKind::Deleted, Some(Revision(2)), Revision(1)),
    ];
    assert_eq!(seen, expected);
}

/// Eight writers each create, update and delete keys of their own while two readers follow; both must see every change, each revision
/// once, in order.
fn concurrent_writers_lose_nothing_and_readers_see_all_in_order(open: Open) {
    const WRITERS: u64 = 8;
    const ROUNDS: u64 = 50;
    const CHANGES: u64 = WRITERS * ROUNDS * 3;
    let Opened { store, _dir } = open(DEFAULT_HISTORY_BYTES);
    let follow = || {
        let mut watch = store.watch(PODS, Revision(0)).expect("kept");
        thread::spawn(move || {
            let mut seen = Vec::new();
            while seen.last() != Some(&CHANGES) {
                if let Some(Ok(WatchItem::Event(event))) = block_on(watch.next()) {
                    seen.push(event.entry.mod_revision.0);
                }
            }
            seen
        })
    };
    let readers = [follow(), follow()];
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let store = &*store;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let key = pod(&format!("{writer}-{round}"));
                    create(store, &key, "1");
                    update(store, &key, "2");
                    delete(store, &key);
                }
            });
        }
    });
    for reader in readers {
        assert_eq!(reader.join().expect("the watch does not panic"), (1..=CHANGES).collect::<Vec<_>>());
    }
    assert_eq!(store.revision(), Revision(CHANGES));
}

fn of_concurrent_creates_one_wins(open: Open) {
    let Opened { store, _dir } = open(DEFAULT_HISTORY_BYTES);
    let created = thread::scope(|scope| {
        let attempts: Vec<_> = (0..16).map(|_| scope.spawn(|| put(&*store, &pod("a"), "1", Expected::Absent))).collect();
        attempts.into_iter().filter_map(|attempt| attempt.join().expect("puts do not panic").ok()).count()
    });
    assert_eq!((created, store.revision()), (1, Revision(1)));
}

fn a_dropped_put_happens_all_the_same(open: Open) {
    let Opened { store, _dir } = open(DEFAULT_HISTORY_BYTES);
    drop(store.put(pod("a"), "1".into(), Expected::Absent));
    create(&*store, &pod("b"), "1");
    assert_eq!(show(&range(&*store, all(PODS)).expect("readable")), "a=1@1 b=1@2");
}
