//! Times, sizes and counts that are just reached, and what a server does while it cannot reach etcd.

use super::*;
use crate::{EventKind, Header, env::Env};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// An etcd that reports only what it must. Counts its watches.
struct Plain {
    model: Arc<Model>,
    watches: AtomicUsize,
    /// Its leases are over as soon as they are granted.
    loses_leases: AtomicBool,
}

impl Etcd for Plain {
    fn revision(&self) -> BoxFuture<'_, Result<Revision, EtcdError>> {
        self.model.revision()
    }

    fn range(&self, query: Query) -> BoxFuture<'_, Result<Page, EtcdError>> {
        self.model.range(query)
    }

    fn unchanged(&self, prefix: &str, since: Revision) -> BoxFuture<'_, Result<Option<Revision>, EtcdError>> {
        self.model.unchanged(prefix, since)
    }

    fn txn_while(&self, puts: Arc<[Put]>, unchanged: Arc<[Unchanged]>) -> BoxFuture<'_, Result<Outcome, EtcdError>> {
        self.model.txn_while(puts, unchanged)
    }

    fn txn_patiently(&self, puts: Arc<[Put]>, unchanged: Arc<[Unchanged]>) -> BoxFuture<'_, Result<Outcome, EtcdError>> {
        self.model.txn_patiently(puts, unchanged)
    }

    fn watch(&self, prefix: &str, from: Revision) -> Watching {
        self.watches.fetch_add(1, Ordering::Relaxed);
        self.model.watch(prefix, from)
    }

    fn reports_progress(&self) -> bool {
        self.model.reports_progress()
    }

    fn grant(&self, seconds: i64) -> BoxFuture<'_, Result<Lease, EtcdError>> {
        if self.loses_leases.load(Ordering::Relaxed) { ready(Ok(Lease(-1))).boxed() } else { self.model.grant(seconds) }
    }

    fn status(&self) -> BoxFuture<'_, Result<Status, EtcdError>> {
        self.model.status()
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), EtcdError>> {
        self.model.compact(revision)
    }
}

impl TestStore {
    fn env(&self) -> Env {
        Env { clock: Arc::new(self.time.clone()), rng: Arc::new(Seeded(Mutex::new(1))), spawner: Arc::new(self.process.clone()) }
    }

    /// The same, with a server over an etcd that reports only what it must.
    fn over_plain() -> (Self, Arc<Plain>) {
        let mut test_store = Self::new(0);
        let plain =
            Arc::new(Plain { model: Arc::clone(&test_store.model), watches: AtomicUsize::new(0), loses_leases: AtomicBool::new(false) });
        let etcd = Arc::clone(&plain) as Arc<dyn Etcd>;
        test_store.store = Arc::new(EtcdStore::new(etcd, Arc::new(()), 1 << 20, &test_store.env()));
        (test_store, plain)
    }

    fn commit(&self, writes: Vec<Write>) -> Result<Vec<Arc<Entry>>, WriteError> {
        let store = Arc::clone(&self.store);
        self.wait(async move { store.commit(writes).await })
    }

    fn sleep(&self, duration: SignedDuration) {
        self.wait(self.time.sleep_until(self.time.now() + duration));
    }
}

fn making(name: &str) -> Write {
    Write::put(key(name), "1".into(), Expected::Absent, Purpose::Growth)
}

#[test]
fn an_etcd_that_reports_no_rivals_is_written_to() {
    let (test_store, _) = TestStore::over_plain();
    assert_eq!((test_store.store.health(), test_store.put("1", Expected::Absent)), (Health::Ready, Ok(2)));
    assert_eq!((test_store.store.health(), test_store.put("2", Expected::At(Revision(2)))), (Health::Ready, Ok(3)));
}

/// Each try costs an etcd that is about to come back something; but who was just there is back at once, mostly.
#[test]
fn an_etcd_that_is_not_there_is_tried_seldom_and_one_that_was_is_tried_at_once() {
    let (test_store, plain) = TestStore::over_plain();
    assert_eq!(test_store.put("1", Expected::Absent), Ok(2));
    let watches = || plain.watches.swap(0, Ordering::Relaxed);
    watches();
    test_store.model.cut(true);
    test_store.pass(60);
    let tried = watches();
    assert!((25..40).contains(&tried), "{tried} times a minute");
    test_store.model.cut(false);
    test_store.pass(3);
    assert_eq!((watches(), test_store.put("2", Expected::At(Revision(2)))), (1, Ok(3)));
    test_store.model.break_watches();
    test_store.sleep(SignedDuration::from_millis(60));
    assert_eq!(watches(), 1, "within 50 ms");
}

#[test]
fn what_this_process_shows_can_be_read_at_its_revision_while_etcd_is_not_there() {
    let test_store = TestStore::new(0);
    assert_eq!(test_store.put("1", Expected::Absent), Ok(2));
    test_store.model.cut(true);
    let store = Arc::clone(&test_store.store);
    let request = RangeRequest { at: Some(Revision(2)), ..RangeRequest::all("/registry/pods/default/") };
    let range = test_store.wait(async move { store.range(request).await }).expect("it is here");
    assert_eq!((range.entries.len(), range.revision), (1, Revision(2)));
}

/// Where etcd reports the progress of a watch, the copy comes to show the revision. Otherwise only etcd itself can.
#[test]
fn a_revision_that_is_not_shown_yet_is_read_here_where_progress_is_reported_and_else_from_etcd() {
    for (overtakes, pages) in [(false, vec![]), (true, vec![1])] {
        let test_store = TestStore::new(0);
        test_store.model.kept().overtakes = overtakes;
        assert_eq!(test_store.put("1", Expected::Absent), Ok(2));
        let mut kept = test_store.model.kept();
        // Another resource's.
        kept.revision = 7;
        kept.pages.clear();
        drop(kept);
        let store = Arc::clone(&test_store.store);
        let request = RangeRequest { at: Some(Revision(7)), ..RangeRequest::all("/registry/pods/default/") };
        let range = test_store.wait(async move { store.range(request).await }).expect("it is there");
        assert_eq!((range.entries.len(), range.revision), (1, Revision(7)));
        assert_eq!(test_store.model.kept().pages, pages, "{overtakes}");
    }
}

#[test]
fn a_copy_is_late_when_what_is_waited_for_has_not_come_for_more_than_five_seconds() {
    let test_store = TestStore::new(0);
    assert_eq!(test_store.put("1", Expected::Absent), Ok(2));
    let copies = Copies::new(Arc::clone(&test_store.model) as Arc<dyn Etcd>, test_store.env(), Arc::new(()), 0);
    let copy = copies.of(key("a").as_str(), None);
    test_store.wait(copy.loaded(SignedDuration::from_secs(1))).expect("it is there");
    let began = test_store.time.now();
    drop(copy.come(Revision(9), SignedDuration::from_secs(60)));
    test_store.wait(test_store.time.sleep_until(began + SignedDuration::from_secs(5)));
    assert_eq!(copy.trouble(), None);
    test_store.sleep(SignedDuration::from_nanos(1));
    assert!(copy.trouble().is_some_and(|why| why.contains("does not come to what etcd has")), "{:?}", copy.trouble());
}

#[test]
fn a_copy_that_cannot_begin_where_it_was_asked_to_begins_at_once_with_what_there_is() {
    for (asked, compacted) in [(3, 7), (9, 0)] {
        let test_store = TestStore::new(0);
        let mut kept = test_store.model.kept();
        (kept.revision, kept.compacted) = (7, compacted);
        drop(kept);
        let copy = test_store.store.copies.of(key("a").as_str(), Some(Revision(asked)));
        test_store.wait(copy.loaded(SignedDuration::from_millis(40))).expect("it is there");
        assert_eq!((copy.frontier(), copy.trouble()), (Some(Revision(7)), None));
    }
}

/// Where etcd does not report the progress of a watch, the copy reads from etcd. Compacted changes cannot be compared with the current keys.
#[test]
fn a_watcher_of_unchanged_keys_relists_after_its_revision_was_compacted() {
    let test_store = TestStore::new(0);
    test_store.model.kept().overtakes = true;
    let mut watch = test_store.store.watch("/registry/pods/", Revision(1)).expect("it is there");
    test_store.pass(1);
    let mut kept = test_store.model.kept();
    (kept.revision, kept.compacted) = (7, 7);
    drop(kept);
    let told = test_store.wait(async move {
        loop {
            match watch.next().await {
                Some(Ok(WatchItem::Progress(_))) => (),
                other => return other,
            }
        }
    });
    assert!(matches!(told, Some(Err(ReadError::Compacted { .. }))), "{told:?}");
}

#[test]
fn a_change_that_is_delivered_twice_is_shown_once() {
    let test_store = TestStore::new(0);
    assert_eq!(test_store.put("1", Expected::Absent), Ok(2));
    let mut watch = test_store.store.watch("/registry/pods/", Revision(1)).expect("kept");
    let again = test_store.model.kept().log.clone();
    let watchers = test_store.model.kept().watchers.clone();
    watchers.iter().for_each(|(_, told)| _ = told.unbounded_send(Ok(Watched::Changes(again.clone()))));
    assert_eq!(test_store.put("2", Expected::At(Revision(2))), Ok(3));
    let seen = test_store.wait(async move {
        let mut seen = Vec::new();
        while seen.last() != Some(&Revision(3)) {
            if let WatchItem::Events(events) = watch.next().await.expect("it goes on").expect("nothing is lost") {
                seen.extend(events.iter().map(|event| event.entry.mod_revision));
            }
        }
        seen
    });
    assert_eq!(seen, [Revision(2), Revision(3)]);
}

/// Also where a watch that catches up delivers several changes at once.
#[test]
fn of_changes_that_come_together_each_carries_the_one_before() {
    let test_store = TestStore::new(0);
    let put = |expected, value: Option<&str>| {
        let value = value.map(|value| value.to_owned().into());
        test_store.model.kept().apply(&[Put { key: key("a"), expected: Some(expected), value, lease: None }]);
    };
    put(Expected::Absent, Some("1"));
    put(Expected::At(Revision(2)), Some("2"));
    put(Expected::At(Revision(3)), None);
    put(Expected::Absent, Some("3"));
    let mut watch = test_store.store.watch("/registry/pods/", Revision(1)).expect("kept");
    let before = test_store.wait(async move {
        let mut before = Vec::new();
        while before.len() < 4 {
            if let WatchItem::Events(events) = watch.next().await.expect("it goes on").expect("nothing is lost") {
                before.extend(events.iter().map(|event| (event.kind, event.previous.as_ref().map(|before| before.mod_revision.0))));
            }
        }
        before
    });
    let (put, deleted) = (EventKind::Put, EventKind::Deleted);
    assert_eq!(before, [(put, None), (put, Some(2)), (deleted, Some(3)), (put, None)]);
}

#[test]
fn a_value_stays_for_its_time_and_outlives_it_by_a_twentieth_of_it_and_a_second_at_most() {
    for (lives, late) in [(1_000, 50), (1_500, 75), (20_000, 1_000)] {
        let test_store = TestStore::new(0);
        let began = test_store.time.now();
        let at = |millis| began + SignedDuration::from_millis(millis);
        test_store.write(Write { expires_at: Some(at(lives)), ..making("a") }).expect("a new key");
        test_store.wait(test_store.time.sleep_until(at(lives - 1)));
        let is_there = || test_store.model.kept().keys.contains_key(&key("a"));
        assert!(is_there(), "{lives} ms");
        // When it was granted is a moment later.
        test_store.wait(test_store.time.sleep_until(at(lives + late + 1_000 + 10)));
        assert!(!is_there(), "{lives} ms");
    }
}

#[test]
fn of_several_keys_the_conflicting_one_is_named() {
    let test_store = TestStore::new(0);
    test_store.commit(vec![making("a"), making("b")]).expect("new keys");
    let change = |name: &str, revision| Write::put(key(name), "2".into(), Expected::At(Revision(revision)), Purpose::Growth);
    for (second, found) in [(change("b", 1), 2), (Write::delete(key("c"), Revision(0)), 0), (Write::delete(key("c"), Revision(2)), 0)] {
        let named = second.key.clone();
        let told = test_store.commit(vec![change("a", 2), second]);
        assert!(matches!(&told, Err(WriteError::Conflict { key, found: at }) if (key, at.0) == (&named, found)), "{named}: {told:?}");
    }
    let told = test_store.commit(vec![making("c"), making("b")]);
    assert!(matches!(&told, Err(WriteError::Conflict { key: named, found: Revision(2) }) if *named == key("b")), "{told:?}");
}

/// A layout without resources. The value is in `uid`.
struct Whole;

impl Layout for Whole {
    fn resource_prefix<'t>(&self, _: &'t str) -> Option<&'t str> {
        None
    }

    fn header(&self, _: &Key, value: &[u8]) -> Header {
        Header { uid: String::from_utf8_lossy(value).into(), ..Header::default() }
    }
}

/// What was written is known from what was there before, and the answer.
#[test]
fn an_executed_write_is_answered_though_no_watch_delivers_it() {
    let (created, at) = (Expected::Absent, Expected::At(Revision(2)));
    for (name, value, expected, revisions) in [("a", Some("2"), at, (2, 3)), ("a", None, at, (2, 3)), ("b", Some("2"), created, (3, 3))] {
        let mut test_store = TestStore::new(0);
        test_store.store =
            Arc::new(EtcdStore::new(Arc::clone(&test_store.model) as Arc<dyn Etcd>, Arc::new(Whole), 1 << 20, &test_store.env()));
        assert_eq!(test_store.put("1", Expected::Absent), Ok(2));
        let second = SignedDuration::from_secs(1);
        test_store.model.faults([TransactionFault::Slow { done: second, answered: second }]);
        let value = value.map(Bytes::from);
        let write = Write { value: value.clone(), ..Write::put(key(name), Bytes::new(), expected, Purpose::Growth) };
        let store = Arc::clone(&test_store.store);
        let written = test_store.start(async move { store.commit(vec![write]).await });
        while !test_store.model.kept().faults.is_empty() {
            test_store.step();
        }
        test_store.model.cut(true);
        let entries = test_store.finish(&written).expect("etcd has said so");
        let entry = &entries[0];
        assert_eq!((entry.create_revision.0, entry.mod_revision.0), revisions, "{name} {value:?}");
        assert_eq!(entry.value, value.unwrap_or_else(|| "1".into()), "{name}: of what is gone the last value");
        assert_eq!(entry.header.uid.as_bytes(), &*entry.value, "{name}");
    }
}

#[test]
fn a_creation_whose_turn_never_begins_is_given_up() {
    let test_store = TestStore::new(0);
    assert_eq!(test_store.put("1", Expected::Absent), Ok(2));
    let other = test_store.another();
    test_store.model.faults(vec![TransactionFault::Lost; 1000]);
    let began = test_store.time.now();
    let told = test_store.wait(async move { other.commit(vec![making("b")]).await }).map(drop).map_err(|error| error.to_string());
    assert_eq!(told, Err("the store takes no writes: no answer".into()), "nothing of it was sent");
    let took = test_store.time.now().duration_since(began);
    assert!((34..36).contains(&took.as_secs()), "{took}");
}

#[test]
fn a_creation_whose_turn_is_not_answered_at_first_is_done() {
    let test_store = TestStore::new(0);
    assert_eq!(test_store.put("1", Expected::Absent), Ok(2));
    let other = test_store.another();
    test_store.model.faults([TransactionFault::Lost, TransactionFault::Lost]);
    let created = test_store.wait(async move { other.commit(vec![making("b")]).await }).expect("it is tried again");
    assert_eq!(created[0].mod_revision, Revision(4), "behind the turn's");
}

#[test]
fn the_size_that_etcd_reports_is_reported() {
    let test_store = TestStore::new(0);
    test_store.commit(vec![making("a"), making("b")]).expect("new keys");
    test_store.pass(6);
    let usage = test_store.store.usage().expect("it is asked now and then");
    // The model takes a byte for each change.
    assert_eq!((usage.bytes, usage.quota, usage.lacks, usage.refused), (2, None, None, 0));
}

#[test]
fn a_reader_who_has_to_wait_asks_how_far_the_watch_is_at_once() {
    let test_store = TestStore::new(0);
    test_store.get("a");
    // A revision of another resource: no watch reports it by itself.
    test_store.model.kept().revision = 7;
    let began = test_store.time.now();
    test_store.get("a");
    let took = test_store.time.now().duration_since(began);
    assert!(took < SignedDuration::from_millis(10), "{took}: it did not wait until it was asked for others");
}

#[test]
fn a_store_that_is_dropped_asks_etcd_nothing_more() {
    let test_store = TestStore::new(0);
    let model = Arc::new(Model::new(&test_store.time, &test_store.process));
    let store = TestStore::over(&model, &test_store.time, &test_store.process);
    let loaded = store.copies.of(key("a").as_str(), None);
    test_store.wait(loaded.loaded(SignedDuration::from_secs(1))).expect("it is there");
    let asked = || {
        let kept = model.kept();
        (kept.asked, kept.questions)
    };
    let before = asked();
    test_store.pass(10);
    assert!(before.0 < asked().0 && before.1 < asked().1, "it asks now and then");
    drop(store);
    test_store.pass(1);
    let before = asked();
    test_store.pass(30);
    assert_eq!(asked(), before);
}

/// What goes with one that is over would go at once; the next attempt has another.
#[test]
fn a_lease_that_is_over_is_not_used_again() {
    let expiring = |test_store: &TestStore, write: Write| {
        let expires_at = Some(test_store.time.now() + SignedDuration::from_secs(600));
        Write { expires_at, ..write }
    };
    let change = |revision| Write::put(key("a"), "2".into(), Expected::At(revision), Purpose::Growth);
    for creates in [true, false] {
        let test_store = TestStore::new(0);
        assert_eq!(test_store.put("1", Expected::Absent), Ok(2));
        test_store.commit(vec![expiring(&test_store, making("b"))]).expect("a new key");
        test_store.model.revoke(Lease(1));
        let write = if creates { making("c") } else { change(Revision(2)) };
        test_store.commit(vec![expiring(&test_store, write)]).expect("with another lease");
        assert_eq!(test_store.model.kept().granted, 2, "{creates}");
    }
}

#[test]
fn a_write_whose_leases_are_all_over_at_once_is_given_up() {
    let (test_store, plain) = TestStore::over_plain();
    assert_eq!(test_store.put("1", Expected::Absent), Ok(2));
    plain.loses_leases.store(true, Ordering::Relaxed);
    for write in [making("b"), Write::put(key("a"), "2".into(), Expected::At(Revision(2)), Purpose::Growth)] {
        let began = test_store.time.now();
        let expires_at = Some(began + SignedDuration::from_secs(600));
        let told = test_store.commit(vec![Write { expires_at, ..write }]).map(drop).map_err(|error| error.to_string());
        assert_eq!(told, Err("the store takes no writes: the lease is over".into()));
        let took = test_store.time.now().duration_since(began);
        assert!((34..36).contains(&took.as_secs()), "{took}");
    }
}

/// Else an etcd would have much to answer that is well.
#[test]
fn an_etcd_that_is_well_is_asked_every_five_seconds_how_it_is_and_one_that_is_not_every_second() {
    let test_store = TestStore::new(0);
    let asked = || {
        let before = test_store.model.kept().asked;
        test_store.pass(60);
        test_store.model.kept().asked - before
    };
    test_store.pass(10);
    assert!((11..=13).contains(&asked()));
    test_store.model.raise(&[Alarm::NoSpace]);
    test_store.pass(10);
    assert!((55..=61).contains(&asked()));
}

/// All in one revision, or they were another's.
#[test]
fn several_keys_that_are_gone_were_deleted_together_only_if_that_was_one_revision() {
    let deletions = || vec![Write::delete(key("a"), Revision(2)), Write::delete(key("b"), Revision(2))];
    let test_store = TestStore::new(0);
    test_store.commit(vec![making("a"), making("b")]).expect("new keys");
    test_store.model.faults([TransactionFault::Done]);
    let gone = test_store.commit(deletions()).expect("it was done, without an answer");
    assert_eq!(gone.iter().map(|entry| entry.mod_revision.0).collect::<Vec<_>>(), [3, 3]);

    let test_store = TestStore::new(0);
    test_store.commit(vec![making("a"), making("b")]).expect("new keys");
    test_store.model.faults([TransactionFault::Lost]);
    let store = Arc::clone(&test_store.store);
    let deleted = test_store.start(async move { store.commit(deletions()).await });
    while !test_store.model.kept().faults.is_empty() {
        test_store.step();
    }
    for name in ["a", "b"] {
        test_store.model.kept().apply(&[Put { key: key(name), expected: Some(Expected::At(Revision(2))), value: None, lease: None }]);
    }
    let told = test_store.finish(&deleted);
    assert!(matches!(told, Err(WriteError::Conflict { .. })), "{told:?}");
}

/// Unwritten keys have nothing newer there.
#[test]
fn a_copy_that_lost_its_position_at_the_newest_revision_relists_and_continues() {
    let test_store = TestStore::new(0);
    assert_eq!(test_store.put("1", Expected::Absent), Ok(2));
    let mut kept = test_store.model.kept();
    kept.compacted = 4;
    kept.pages.clear();
    drop(kept);
    test_store.model.break_watches();
    while test_store.model.kept().pages.is_empty() {
        test_store.step();
    }
    test_store.model.kept().compacted = 2;
    test_store.pass(5);
    assert_eq!((test_store.store.health(), test_store.get("a").as_str()), (Health::Ready, "1@2"));
}

/// The first time it knows of nothing that is old enough.
#[test]
fn what_is_younger_than_an_interval_is_not_forgotten() {
    let test_store = TestStore::new(0);
    assert_eq!(test_store.put("1", Expected::Absent), Ok(2));
    test_store.store.keep_compacting(SignedDuration::from_mins(1));
    test_store.pass(59);
    assert_eq!(test_store.model.kept().compactions, []);
    test_store.pass(2);
    let compacted: Vec<_> = test_store.model.kept().compactions.iter().map(|(_, revision)| *revision).collect();
    assert_eq!(compacted, [3], "what was there a minute ago, with the turn's key");
}
