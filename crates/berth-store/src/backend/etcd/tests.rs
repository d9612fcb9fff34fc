//! Over a model of etcd in virtual time: what a real one does too rarely to wait for.

mod answers;
mod edges;
mod encrypted;
mod late;
mod quiet;

use super::*;
use crate::{
    Expected, OutOfSpace, Purpose, Unchanged, WatchItem,
    env::{Clock, Rng, Spawner, Timestamp},
    virtual_time::{Order, Process, Step, VirtualTime},
};
use bytes::Bytes;
use std::sync::Mutex;

/// The revision of a write that is done.
type Written = Result<u64, WriteError>;

/// Numbers from a seed.
struct Seeded(Mutex<u64>);

impl Rng for Seeded {
    fn fill(&self, bytes: &mut [u8]) {
        let mut state = self.0.lock().expect("nothing panics under it");
        for byte in bytes {
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (*state >> 33) as u8;
        }
    }
}

struct TestStore {
    time: VirtualTime,
    process: Process,
    rng: Arc<Seeded>,
    model: Arc<Model>,
    store: Arc<EtcdStore>,
}

impl TestStore {
    fn new(seed: u64) -> Self {
        let rng = Arc::new(Seeded(Mutex::new(seed)));
        let order = if seed == 0 { Order::Fifo } else { Order::Random };
        let time = VirtualTime::new(order, rng.clone(), Timestamp::UNIX_EPOCH);
        let process = time.process();
        let model = Arc::new(Model::new(&time, &process));
        let store = Arc::new(Self::over(&model, &time, &process));
        Self { time, process, rng, model, store }
    }

    fn over(model: &Arc<Model>, time: &VirtualTime, process: &Process) -> EtcdStore {
        let env = Env { clock: Arc::new(time.clone()), rng: Arc::new(Seeded(Mutex::new(1))), spawner: Arc::new(process.clone()) };
        EtcdStore::new(Arc::clone(model) as Arc<dyn Etcd>, Arc::new(()), 1 << 20, &env)
    }

    /// Another server over the same etcd.
    fn another(&self) -> Arc<EtcdStore> {
        Arc::new(Self::over(&self.model, &self.time, &self.process))
    }

    fn start<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> Arc<Mutex<Option<T>>> {
        self.start_in(&self.process, future)
    }

    fn start_in<T: Send + 'static>(&self, process: &Process, future: impl Future<Output = T> + Send + 'static) -> Arc<Mutex<Option<T>>> {
        let slot = Arc::new(Mutex::new(None));
        let result = Arc::clone(&slot);
        process.spawn("test", future.map(move |done| *result.lock().expect("nothing panics under it") = Some(done)).boxed());
        slot
    }

    fn step(&self) {
        let end = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1);
        assert_ne!(self.time.step(end), Step::Quiet, "an hour has passed");
    }

    fn finish<T>(&self, slot: &Mutex<Option<T>>) -> T {
        loop {
            if let Some(done) = slot.lock().expect("nothing panics under it").take() {
                return done;
            }
            self.step();
        }
    }

    fn wait<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        let slot = self.start(future);
        self.finish(&slot)
    }

    fn pass(&self, seconds: i64) {
        let until = self.time.now() + SignedDuration::from_secs(seconds);
        while self.time.now() < until {
            self.step();
        }
    }

    /// The entry's revision and value, or the error's text.
    fn write(&self, write: Write) -> Result<u64, String> {
        let store = Arc::clone(&self.store);
        let written = self.wait(async move { store.commit(vec![write]).await });
        written.map(|entries| entries[0].mod_revision.0).map_err(|error| error.to_string())
    }

    fn put(&self, value: &str, expected: Expected) -> Result<u64, String> {
        self.write(Write::put(key("a"), value.to_owned().into(), expected, Purpose::Growth))
    }

    fn get(&self, name: &str) -> String {
        let (store, key) = (Arc::clone(&self.store), key(name));
        let found = self.wait(async move { store.get(&key).await }).expect("it is there");
        found.map_or_else(String::new, |found| format!("{}@{}", String::from_utf8_lossy(&found.value), found.mod_revision))
    }
}

fn key(name: &str) -> Key {
    Key::new(&format!("/registry/pods/default/{name}"))
}

const UNKNOWN: &str = "whether /registry/pods/default/a was written is unknown: no answer";

#[test]
fn a_write_without_an_answer_is_repeated_until_etcd_has_answered_it() {
    for fate in [TransactionFault::Lost, TransactionFault::Done, TransactionFault::Late] {
        let test_store = TestStore::new(0);
        assert_eq!(test_store.put("1", Expected::Absent), Ok(2));
        test_store.model.faults([fate, fate, TransactionFault::Unreachable]);
        assert_eq!(test_store.write(Write::delete(key("a"), Revision(2))), Ok(3), "{fate:?}");
        test_store.pass(1);
        assert_eq!((test_store.get("a").as_str(), test_store.model.kept().revision), ("", 3), "{fate:?}: once");
    }
}

/// Also where the end of the turn is not answered either: it is a revision of its own, before the creation or behind it.
#[test]
fn a_creation_without_an_answer_is_done_once_whatever_comes_late() {
    for (fate, of_turn, made) in [
        (TransactionFault::Lost, TransactionFault::Lost, 3),
        (TransactionFault::Lost, TransactionFault::Done, 3),
        (TransactionFault::Lost, TransactionFault::Late, 3),
        (TransactionFault::Done, TransactionFault::Lost, 2),
        (TransactionFault::Done, TransactionFault::Late, 2),
        (TransactionFault::Late, TransactionFault::Done, 3),
        // It comes before the turn ends.
        (TransactionFault::Late, TransactionFault::Lost, 2),
    ] {
        let test_store = TestStore::new(0);
        test_store.model.faults([fate, of_turn]);
        assert_eq!(test_store.put("1", Expected::Absent), Ok(made), "{fate:?}, {of_turn:?}");
        assert_eq!(test_store.write(Write::delete(key("a"), Revision(made))), Ok(4), "{fate:?}, {of_turn:?}");
        test_store.pass(1);
        assert_eq!((test_store.get("a").as_str(), test_store.model.kept().revision), ("", 4), "{fate:?}, {of_turn:?}: for good");
    }
}

#[test]
fn what_was_created_without_an_answer_and_deleted_by_another_does_not_come_back() {
    let test_store = TestStore::new(0);
    test_store.model.faults([TransactionFault::Done]);
    let store = Arc::clone(&test_store.store);
    let write = Write::put(key("a"), "1".into(), Expected::Absent, Purpose::Growth);
    let created = test_store.start(async move { store.commit(vec![write]).await });
    while test_store.model.kept().keys.is_empty() {
        test_store.step();
    }
    test_store.model.kept().apply(&[Put { key: key("a"), expected: Some(Expected::At(Revision(2))), value: None, lease: None }]);
    let entries = test_store.finish(&created).expect("it was there");
    assert_eq!(entries[0].mod_revision, Revision(2), "as which it was there");
    test_store.pass(1);
    assert_eq!(test_store.get("a"), "");
}

#[test]
fn a_creation_goes_on_in_the_turn_that_another_server_has_begun() {
    let test_store = TestStore::new(0);
    assert_eq!(test_store.put("1", Expected::Absent), Ok(2));
    let others = test_store.another();
    let write = |name: &str| Write::put(key(name), "1".into(), Expected::Absent, Purpose::Growth);
    let (one, two) = (write("b"), write("c"));
    test_store.model.faults([TransactionFault::Lost]);
    test_store.wait(async move { others.commit(vec![one]).await }).expect("no other writer of b");
    assert_eq!(test_store.model.kept().keys.len(), 3, "two and the turn's");
    test_store.write(two).expect("no other writer of c");
}

#[test]
fn what_a_former_process_has_under_way_is_not_done_behind_the_first_creation_of_the_next() {
    let test_store = TestStore::new(0);
    test_store.write(Write::put(key("c"), "1".into(), Expected::Absent, Purpose::Growth)).expect("a new key");
    let process = test_store.time.process();
    let former = TestStore::over(&test_store.model, &test_store.time, &process);
    let write = Write::put(key("a"), "1".into(), Expected::Absent, Purpose::Growth);
    let unanswered = test_store.start_in(&process, async move { former.commit(vec![write]).await });
    // First it ends the turn that it finds.
    while test_store.model.kept().revision < 3 {
        test_store.step();
    }
    test_store.model.faults([TransactionFault::Late]);
    while !test_store.model.kept().faults.is_empty() {
        test_store.step();
    }
    process.kill();
    let next = test_store.another();
    let write = Write::put(key("b"), "1".into(), Expected::Absent, Purpose::Growth);
    test_store.wait(async move { next.commit(vec![write]).await }).expect("no other writer of b");
    test_store.pass(1);
    assert!(unanswered.lock().expect("nothing panics under it").is_none(), "it was killed");
    assert_eq!(test_store.get("a"), "", "it was under way then");
}

#[test]
fn a_change_whose_answer_is_lost_is_known_by_its_stamp() {
    let test_store = TestStore::new(0);
    assert_eq!(test_store.put("1", Expected::Absent), Ok(2));
    test_store.model.faults([TransactionFault::Lost, TransactionFault::Lost]);
    assert_eq!(test_store.put("2", Expected::At(Revision(2))), Ok(3), "no other writer");
    test_store.model.faults([TransactionFault::Done]);
    assert_eq!(test_store.put("3", Expected::At(Revision(3))), Ok(4), "what is there was written by this change");
    assert_eq!(test_store.get("a"), "3@4");
}

#[test]
fn a_write_that_another_came_before_is_a_conflict() {
    let test_store = TestStore::new(0);
    assert_eq!(test_store.put("1", Expected::Absent), Ok(2));
    for (expected, other) in [(Expected::At(Revision(2)), Some("x")), (Expected::At(Revision(2)), None), (Expected::Absent, Some("y"))] {
        test_store.model.faults([TransactionFault::Lost]);
        let store = Arc::clone(&test_store.store);
        let write = Write::put(key("a"), "2".into(), expected, Purpose::Growth);
        let written = test_store.start(async move { store.commit(vec![write]).await });
        while !test_store.model.kept().faults.is_empty() {
            test_store.step();
        }
        let mut kept = test_store.model.kept();
        let now = kept.keys.get(&key("a")).map_or(Expected::Absent, |found| Expected::At(found.mod_revision));
        kept.apply(&[Put { key: key("a"), expected: Some(now), value: other.map(Bytes::from), lease: None }]);
        drop(kept);
        let told = test_store.finish(&written);
        assert!(matches!(told, Err(WriteError::Conflict { .. })), "{expected:?} {other:?}: {told:?}");
    }
}

/// What becomes of a write without an answer, where a key that it only compares has changed before it is repeated.
#[test]
fn a_write_that_waits_somewhere_is_not_done_once_what_it_compares_has_changed() {
    for (fate, expected) in [(TransactionFault::Lost, None), (TransactionFault::Late, None), (TransactionFault::Done, Some(3))] {
        let test_store = TestStore::new(0);
        let lease = test_store.write(Write::put(key("lease"), "a".into(), Expected::Absent, Purpose::Growth)).expect("a new key");
        test_store.model.faults([fate]);
        let only_while = Some(Unchanged { key: key("lease"), revision: Revision(lease) });
        let write = Write { only_while, ..Write::put(key("a"), "1".into(), Expected::Absent, Purpose::Growth) };
        let store = Arc::clone(&test_store.store);
        let written = test_store.start(async move { store.commit(vec![write]).await });
        while !test_store.model.kept().faults.is_empty() {
            test_store.step();
        }
        let taken = Put { key: key("lease"), expected: Some(Expected::At(Revision(lease))), value: Some("b".into()), lease: None };
        let Outcome::Done(taken) = test_store.model.kept().apply(&[taken]) else { panic!("no other writer") };
        let told = test_store.finish(&written);
        match (&told, expected) {
            (Ok(entries), Some(revision)) => assert_eq!(entries[0].mod_revision, Revision(revision), "{fate:?}"),
            (Err(WriteError::Conflict { key: named, found }), None) => assert_eq!((named, *found), (&key("lease"), taken), "{fate:?}"),
            _ => panic!("{fate:?}: {told:?}"),
        }
        test_store.pass(1);
        assert_eq!(test_store.get("a"), expected.map_or_else(String::new, |revision| format!("1@{revision}")), "{fate:?}: for good");
    }
}

#[test]
fn a_write_that_etcd_never_answers_is_unknown_and_one_that_was_never_sent_is_not_done() {
    let test_store = TestStore::new(0);
    test_store.model.faults([TransactionFault::Unreachable]);
    assert_eq!(test_store.put("1", Expected::Absent), Err("the store takes no writes: it is not there".into()));
    assert_eq!(test_store.store.health(), Health::Refusing { cause: "it is not there".into() });
    let began = test_store.time.now();
    test_store.model.faults(vec![TransactionFault::Lost; 1000]);
    assert_eq!(test_store.put("1", Expected::Absent), Err(UNKNOWN.into()));
    let took = test_store.time.now().duration_since(began);
    assert!((34..36).contains(&took.as_secs()), "{took}");
    test_store.model.kept().faults.clear();
    assert_eq!(test_store.put("1", Expected::Absent), Ok(2));
    assert_eq!(test_store.store.health(), Health::Ready);
}

#[test]
fn a_read_joins_a_question_that_has_not_been_sent_yet() {
    let test_store = TestStore::new(0);
    let ask = || {
        let store = Arc::clone(&test_store.store);
        test_store.start(async move { store.revision("/registry/pods/").await.expect("it answers") })
    };
    let first = ask();
    while test_store.model.kept().asked == 0 {
        test_store.step();
    }
    // That question may have been answered before this write.
    test_store.model.kept().revision = 7;
    let others: Vec<_> = (0..10).map(|_| ask()).collect();
    assert_eq!(test_store.finish(&first), Revision(1));
    assert!(others.iter().all(|other| test_store.finish(other) == Revision(7)));
    assert_eq!(test_store.model.kept().asked, 2);
}

#[test]
fn a_watch_that_breaks_goes_on_where_it_was() {
    let test_store = TestStore::new(0);
    assert_eq!(test_store.put("1", Expected::Absent), Ok(2));
    let mut watch = test_store.store.watch("/registry/pods/", Revision(2)).expect("kept");
    test_store.model.break_watches();
    assert_eq!(test_store.put("2", Expected::At(Revision(2))), Ok(3));
    let next = test_store.wait(async move {
        loop {
            if let WatchItem::Events(events) = watch.next().await.expect("it goes on").expect("nothing is lost") {
                return events[0].entry.mod_revision;
            }
        }
    });
    assert_eq!(next, Revision(3));
}

#[test]
fn where_progress_overtakes_changes_it_is_not_used() {
    let test_store = TestStore::new(0);
    test_store.model.kept().overtakes = true;
    assert_eq!(test_store.put("1", Expected::Absent), Ok(2));
    let late = test_store.another();
    let mut watch = late.watch("/registry/pods/", Revision(1)).expect("etcd has it all");
    // It also reports progress by itself from time to time.
    while test_store.model.kept().watchers.len() < 2 {
        test_store.step();
    }
    test_store.model.kept().watchers.iter().for_each(|(_, told)| _ = told.unbounded_send(Ok(Watched::Progress(Revision(2)))));
    let first = test_store.wait(async move {
        loop {
            match watch.next().await {
                Some(Ok(WatchItem::Progress(Revision(1)))) => (),
                other => return other,
            }
        }
    });
    assert!(matches!(&first, Some(Ok(WatchItem::Events(events))) if events[0].entry.mod_revision == Revision(2)), "{first:?}");
    assert_eq!(test_store.get("a"), "1@2", "reads are etcd's");

    // It learns that etcd is back without a waiting reader.
    test_store.model.cut(true);
    test_store.pass(3);
    assert!(matches!(test_store.store.health(), Health::Refusing { .. }));
    test_store.model.cut(false);
    test_store.pass(3);
    assert_eq!(test_store.store.health(), Health::Ready);
}

#[test]
fn a_watcher_behind_a_compaction_receives_an_error_and_others_continue() {
    let test_store = TestStore::new(0);
    assert_eq!(test_store.put("1", Expected::Absent), Ok(2));
    let mut watch = test_store.store.watch("/registry/pods/", Revision(2)).expect("kept");
    test_store.model.cut(true);
    test_store.pass(3);
    assert!(
        matches!(test_store.store.health(), Health::Refusing { cause } if cause.contains("cut off")),
        "{:?}",
        test_store.store.health()
    );
    let mut kept = test_store.model.kept();
    (0..5).for_each(|number| {
        let put = Put { key: key(&format!("b{number}")), expected: Some(Expected::Absent), value: Some("x".into()), lease: None };
        kept.apply(&[put]);
    });
    (kept.compacted, kept.is_cut) = (6, false);
    drop(kept);
    let told = test_store.wait(async move {
        loop {
            match watch.next().await {
                Some(Ok(WatchItem::Progress(_))) => (),
                other => return other.map(|item| item.map(|_| ())),
            }
        }
    });
    assert!(matches!(told, Some(Err(ReadError::Compacted { .. }))), "{told:?}");
    assert_eq!((test_store.get("a").as_str(), test_store.get("b4").as_str(), test_store.store.health()), ("1@2", "x@7", Health::Ready));
}

#[test]
fn an_etcd_that_has_lost_what_was_seen_is_not_believed() {
    let test_store = TestStore::new(0);
    assert_eq!(test_store.put("1", Expected::Absent), Ok(2));
    assert_eq!(test_store.put("2", Expected::At(Revision(2))), Ok(3));
    let mut kept = test_store.model.kept();
    (kept.revision, kept.compacted) = (2, 100);
    drop(kept);
    test_store.model.break_watches();
    test_store.pass(3);
    let health = test_store.store.health();
    assert!(matches!(&health, Health::Refusing { cause } if cause.contains("etcd is at revision 2 and was at 3")), "{health:?}");
}

#[test]
fn of_large_values_a_few_are_listed_at_a_time() {
    let test_store = TestStore::new(0);
    let value = Bytes::from(vec![b'x'; 1 << 20]);
    let mut kept = test_store.model.kept();
    for number in 0..40 {
        kept.apply(&[Put { key: key(&format!("{number:02}")), expected: Some(Expected::Absent), value: Some(value.clone()), lease: None }]);
    }
    drop(kept);
    let range = |store: Arc<EtcdStore>, limit| {
        let request = RangeRequest { limit, ..RangeRequest::all("/registry/pods/") };
        let range = test_store.wait(async move { store.range(request).await }).expect("it answers");
        let pages = std::mem::take(&mut test_store.model.kept().pages);
        (range.entries.len(), range.remaining, range.entries.last().map(|last| last.name().to_owned()).unwrap_or_default(), pages)
    };
    // 16 MiB is all that a page may be; what is asked for next is to be half of that.
    assert_eq!(range(test_store.another(), None), (40, 0, "39".into(), vec![16, 7, 7, 7, 3]));
    test_store.model.kept().overtakes = true;
    let there = test_store.another();
    assert_eq!(range(Arc::clone(&there), None), (40, 0, "39".into(), vec![16, 7, 7, 7, 3]), "what is read from etcd itself, too");
    assert_eq!(range(Arc::clone(&there), Some(20)), (20, 20, "19".into(), vec![16, 4]));
    assert_eq!(range(there, Some(1)), (1, 39, "00".into(), vec![1]));
}

#[test]
fn without_space_only_deletions_are_written_until_a_user_disarms_the_alarm() {
    let test_store = TestStore::new(0);
    let lacks = || test_store.store.usage().and_then(|usage| usage.lacks);
    assert_eq!(test_store.put("1", Expected::Absent), Ok(2));
    test_store.model.raise(&[Alarm::NoSpace]);
    let told = test_store.put("2", Expected::At(Revision(2))).expect_err("there is no space");
    assert!(told.starts_with("mvcc: database space exceeded: etcd has raised its alarm for space (NOSPACE)"), "{told}");
    assert_eq!((lacks(), test_store.store.health()), (Some(OutOfSpace::Etcd), Health::Ready), "it is known at once");
    assert_eq!(test_store.write(Write::delete(key("a"), Revision(2))), Ok(3));
    test_store.pass(20);
    assert_eq!(lacks(), Some(OutOfSpace::Etcd), "to delete makes room, and disarms nothing");
    test_store.model.raise(&[]);
    test_store.pass(2);
    assert_eq!(lacks(), None, "no write since");
    assert_eq!(test_store.put("1", Expected::Absent), Ok(4));

    test_store.model.raise(&[Alarm::NoSpace]);
    test_store.pass(6);
    assert_eq!(lacks(), Some(OutOfSpace::Etcd), "nor before it is known");
    assert_eq!(test_store.store.usage().map(|usage| usage.refused), Some(1));
    test_store.model.raise(&[Alarm::Corrupt]);
    test_store.pass(2);
    assert!(
        matches!(test_store.store.health(), Health::Refusing { cause } if cause.contains("CORRUPT")),
        "{:?}",
        test_store.store.health()
    );
}

#[test]
fn nothing_is_written_while_another_program_writes_there() {
    let test_store = TestStore::new(0);
    assert_eq!(test_store.put("1", Expected::Absent), Ok(2));
    test_store.model.kept().is_shared = true;
    let health = Health::Refusing { cause: "another program writes there".into() };
    assert_eq!(test_store.store.health(), health);
    assert_eq!(test_store.put("2", Expected::At(Revision(2))), Err("the store takes no writes: another program writes there".into()));
    assert_eq!((test_store.get("a").as_str(), test_store.store.health()), ("1@2", health), "reads go on");
    test_store.model.kept().is_shared = false;
    assert_eq!((test_store.store.health(), test_store.put("2", Expected::At(Revision(2)))), (Health::Ready, Ok(3)));
}

#[test]
fn the_return_of_an_etcd_is_detected_without_requests() {
    let test_store = TestStore::new(0);
    test_store.model.cut(true);
    test_store.pass(2);
    assert!(matches!(test_store.store.health(), Health::Refusing { .. }));
    test_store.model.cut(false);
    test_store.pass(2);
    assert_eq!(test_store.store.health(), Health::Ready);
    test_store.model.kept().is_alone = true;
    test_store.pass(6);
    assert!(matches!(test_store.store.health(), Health::Refusing { cause } if cause.contains("no leader")));
    test_store.model.kept().is_alone = false;
    test_store.pass(2);
    assert_eq!(test_store.store.health(), Health::Ready);
}

/// Then its alarm state is unknown.
#[test]
fn an_etcd_that_does_not_report_its_status_is_reported() {
    let test_store = TestStore::new(0);
    test_store.pass(2);
    test_store.model.kept().hides = true;
    test_store.pass(6);
    assert_eq!(test_store.store.health(), Health::Refusing { cause: "no status".into() });
    test_store.model.kept().hides = false;
    test_store.pass(2);
    assert_eq!(test_store.store.health(), Health::Ready);
}

#[test]
fn each_request_shows_whether_etcd_is_reachable() {
    let test_store = TestStore::new(0);
    test_store.pass(2);
    let read = || {
        let store = Arc::clone(&test_store.store);
        test_store.wait(async move { store.revision("/registry/pods/").await.map_err(|error| error.to_string()) })
    };
    test_store.model.cut(true);
    assert_eq!(read(), Err("the store is not available: it is cut off".into()));
    assert_eq!(test_store.store.health(), Health::Refusing { cause: "it is cut off".into() }, "a read has met it");
    test_store.model.cut(false);
    assert_eq!(read(), Ok(Revision(1)));
    assert_eq!(test_store.store.health(), Health::Ready, "the next one has not");
    test_store.model.cut(true);
    read().expect_err("it is cut off");
    test_store.model.raise(&[Alarm::NoSpace]);
    test_store.model.cut(false);
    test_store.put("1", Expected::Absent).expect_err("there is no space");
    assert_eq!(test_store.store.health(), Health::Ready, "who refuses for want of space is there");
}

#[test]
fn a_revision_that_is_still_to_come_cannot_be_read() {
    let test_store = TestStore::new(0);
    assert_eq!(test_store.put("1", Expected::Absent), Ok(2));
    let read = |at| {
        let store = Arc::clone(&test_store.store);
        let request = RangeRequest { at: Some(Revision(at)), ..RangeRequest::all("/registry/pods/") };
        test_store.wait(async move { store.range(request).await.map(|range| range.entries.len()) })
    };
    assert_eq!(read(2).ok(), Some(1));
    let told = read(9);
    assert!(matches!(told, Err(ReadError::Future { requested: Revision(9), newest: Revision(2) })), "{told:?}");
    // Others have written, of which this process has not heard.
    test_store.model.kept().revision = 7;
    assert_eq!(read(7).ok(), Some(1), "the newest of all can be");
}

#[test]
fn of_one_key_etcd_is_asked_for_no_other() {
    let test_store = TestStore::new(0);
    let mut kept = test_store.model.kept();
    kept.overtakes = true;
    for name in ["a", "ab", "abc", "b"] {
        kept.apply(&[Put { key: key(name), expected: Some(Expected::Absent), value: Some("x".into()), lease: None }]);
    }
    drop(kept);
    assert_eq!((test_store.get("a").as_str(), test_store.get("").as_str()), ("x@2", ""));
    assert_eq!(test_store.model.kept().pages, [1, 1]);
}

/// Two servers compact every minute while a client writes. The first server runs for ten of twenty minutes.
#[test]
fn one_server_at_a_time_has_etcd_forget() {
    for seed in 0..20 {
        let mut test_store = TestStore::new(seed);
        let minute = SignedDuration::from_mins(1);
        let other = test_store.another();
        [&test_store.store, &other].into_iter().for_each(|store| store.keep_compacting(minute));
        let mut newest = Vec::new();
        for round in 0..240 {
            if round == 120 {
                test_store.store = Arc::clone(&other);
            }
            test_store.write(Write::put(key(&round.to_string()), "1".into(), Expected::Absent, Purpose::Growth)).expect("a new key");
            newest.push((test_store.time.now(), test_store.model.kept().revision));
            test_store.pass(5);
        }
        let compactions = test_store.model.kept().compactions.clone();
        assert!((17..=20).contains(&compactions.len()), "seed {seed}: {compactions:?}");
        for (at, revision) in &compactions {
            let a_minute_ago = *at - minute;
            let oldest = newest.iter().rfind(|(then, _)| *then <= a_minute_ago).map_or(1, |(_, revision)| *revision);
            assert!(*revision <= oldest + 2, "seed {seed}: {revision} was the newest less than a minute before {at}, when {oldest} was");
        }
        let log = test_store.model.kept().log.clone();
        let turns = log.iter().filter(|change| change.key.as_str() == "compact_rev_key").count();
        assert!(turns <= 22, "seed {seed}: {turns}");
        assert!(compactions.is_sorted(), "seed {seed}: nothing is forgotten twice: {compactions:?}");
    }
}

#[test]
fn keys_that_go_at_about_the_same_time_share_a_lease() {
    let test_store = TestStore::new(0);
    let event = |number: usize, seconds: i64| {
        let expires_at = Some(test_store.time.now() + SignedDuration::from_secs(seconds));
        let write = Write { expires_at, ..Write::put(key(&number.to_string()), "1".into(), Expected::Absent, Purpose::Growth) };
        test_store.write(write).expect("a new key");
        test_store.model.kept().granted
    };
    assert_eq!([event(0, 3600), event(1, 3600)], [1, 1]);
    test_store.pass(50);
    assert_eq!(event(2, 3600), 1);
    test_store.pass(20);
    assert_eq!([event(3, 3600), event(4, 3000)], [2, 3]);
    assert_eq!((5..1006).map(|number| event(number, 3600)).max(), Some(5), "a thousand share one, and no more");
}

#[test]
fn the_reads_of_one_request_ask_once() {
    let test_store = TestStore::new(0);
    assert_eq!(test_store.put("1", Expected::Absent), Ok(2));
    let asked = test_store.model.kept().asked;
    let (store, as_of) = (Arc::clone(&test_store.store), MinRevision::default());
    let read = async move {
        let found = store.get_as_of(&key("a"), &as_of).await.expect("read").map(|entry| entry.mod_revision);
        let range = store.range_as_of(RangeRequest::all("/registry/pods/"), &as_of).await.expect("read");
        // Of another resource, which was not read before.
        let others = store.range_as_of(RangeRequest::all("/registry/nodes/"), &as_of).await.expect("read");
        (found, range.entries.len(), others.entries.len())
    };
    assert_eq!(test_store.wait(read), (Some(Revision(2)), 1, 0));
    assert_eq!(test_store.model.kept().asked, asked + 1);
}

/// What was answered before the request began is in all of its reads, also where this server's copy does not have it yet.
#[test]
fn a_read_of_a_request_is_not_older_than_its_first() {
    let test_store = TestStore::new(0);
    assert_eq!(test_store.put("1", Expected::Absent), Ok(2));
    let other = test_store.another();
    let written =
        test_store.wait(async move { other.commit(vec![Write::put(key("b"), "2".into(), Expected::Absent, Purpose::Growth)]).await });
    let written = written.expect("written")[0].mod_revision;
    let (store, as_of) = (Arc::clone(&test_store.store), MinRevision::default());
    let read = async move {
        store.get_as_of(&Key::new("/registry/nodes/n"), &as_of).await.expect("read");
        store.get_as_of(&key("b"), &as_of).await.expect("read").map(|entry| entry.mod_revision)
    };
    assert_eq!(test_store.wait(read), Some(written));
}

#[test]
fn what_is_known_is_what_the_copy_shows() {
    let test_store = TestStore::new(0);
    assert_eq!(test_store.store.known(&key("a")).map(|entry| entry.mod_revision), None, "nothing was read yet");
    assert_eq!(test_store.put("1", Expected::Absent), Ok(2));
    let asked = test_store.model.kept().asked;
    assert_eq!(test_store.store.known(&key("a")).map(|entry| entry.mod_revision), Some(Revision(2)));
    test_store.model.cut(true);
    assert_eq!(test_store.store.known(&key("a")).map(|entry| entry.mod_revision), Some(Revision(2)), "also while etcd cannot be reached");
    assert_eq!(test_store.model.kept().asked, asked, "nothing is asked");
}
