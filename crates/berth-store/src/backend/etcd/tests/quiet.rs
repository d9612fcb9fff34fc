//! Copies of unwritten keys: how they catch up with etcd.

use super::{super::model::WatchSender, *};

const SERVICES: &str = "/registry/services/specs/";

/// The next that a watcher hears behind progress to before `revision`.
fn heard(test_store: &TestStore, mut watch: Watch, revision: u64) -> (Option<Result<WatchItem, ReadError>>, Watch) {
    test_store.wait(async move {
        loop {
            match watch.next().await {
                Some(Ok(WatchItem::Progress(before))) if before < Revision(revision) => (),
                other => return (other, watch),
            }
        }
    })
}

/// Otherwise caches of unwritten keys, and the readers that wait for them, are behind indefinitely.
#[test]
fn where_progress_cannot_be_relied_on_who_watches_quiet_keys_still_hears_how_far_etcd_is() {
    let test_store = TestStore::new(0);
    test_store.model.kept().overtakes = true;
    let watch = test_store.store.watch(SERVICES, Revision(1)).expect("it is there");
    assert_eq!(test_store.put("1", Expected::Absent), Ok(2));
    let (item, _) = heard(&test_store, watch, 2);
    assert!(matches!(item, Some(Ok(WatchItem::Progress(Revision(2))))), "{item:?}");
    test_store.model.kept().compacted = 2;
    assert_eq!(test_store.put("2", Expected::At(Revision(2))), Ok(3));
    let (item, _) = heard(&test_store, test_store.store.watch(SERVICES, Revision(2)).expect("it is there"), 3);
    assert!(matches!(item, Some(Ok(WatchItem::Progress(Revision(3))))), "{item:?}");
}

#[test]
fn where_progress_cannot_be_relied_on_compaction_takes_no_place_of_a_watch_of_quiet_keys() {
    let test_store = TestStore::new(0);
    test_store.model.kept().overtakes = true;
    let watch = test_store.store.watch(SERVICES, Revision(1)).expect("it is there");
    let (_, watch) = heard(&test_store, watch, 1);
    assert_eq!((test_store.put("1", Expected::Absent), test_store.put("2", Expected::At(Revision(2)))), (Ok(2), Ok(3)));
    let store = Arc::clone(&test_store.store);
    assert!(test_store.wait(async move { store.compact(SERVICES, Revision(3)).await }).is_ok());
    let (item, _) = heard(&test_store, watch, 3);
    assert!(matches!(item, Some(Ok(WatchItem::Progress(Revision(3))))), "{item:?}");
}

#[test]
fn a_watcher_relists_after_a_key_was_created_and_deleted_before_its_progress() {
    let test_store = TestStore::new(0);
    test_store.model.kept().overtakes = true;
    let watch = test_store.store.watch(SERVICES, Revision(1)).expect("it is there");
    test_store.pass(1);
    let service = |expected, value: Option<&str>| Put {
        key: Key::new(&format!("{SERVICES}a")),
        expected: Some(expected),
        value: value.map(|value| value.to_owned().into()),
        lease: None,
    };
    let mut kept = test_store.model.kept();
    let watchers = std::mem::take(&mut kept.watchers);
    kept.apply(&[service(Expected::Absent, Some("1"))]);
    kept.apply(&[service(Expected::At(Revision(2)), None)]);
    let late = kept.log.clone();
    kept.watchers = watchers;
    drop(kept);
    let (item, watch) = heard(&test_store, watch, 3);
    assert!(matches!(item, Some(Ok(WatchItem::Progress(Revision(3))))), "{item:?}");
    assert_eq!(test_store.put("1", Expected::Absent), Ok(5), "behind a turn's");
    let told =
        |(prefix, tell): &(String, WatchSender)| prefix == SERVICES && tell.unbounded_send(Ok(Watched::Changes(late.clone()))).is_ok();
    assert_eq!(test_store.model.kept().watchers.iter().filter(|watcher| told(watcher)).count(), 1);
    let (item, _) = heard(&test_store, watch, 6);
    assert!(matches!(item, Some(Err(ReadError::Compacted { .. }))), "{item:?}");
}

fn service() -> Key {
    Key::new(&format!("{SERVICES}a"))
}

type Read = Result<Option<Arc<Entry>>, ReadError>;

fn read(test_store: &TestStore) -> Arc<Mutex<Option<Read>>> {
    let store = Arc::clone(&test_store.store);
    test_store.start(async move { store.get(&service()).await })
}

/// A question for each reader would cost etcd and this process more than the reads.
#[test]
fn of_those_who_wait_for_a_revision_one_asks_and_a_writer_only_waits() {
    let test_store = TestStore::new(0);
    assert!(test_store.finish(&read(&test_store)).is_ok());
    assert_eq!(test_store.put("1", Expected::Absent), Ok(2));
    let asked = || test_store.model.kept().questions;
    let before = asked();
    assert_eq!(test_store.put("2", Expected::At(Revision(2))), Ok(3));
    assert_eq!(asked(), before, "its change comes by itself");
    let readers: Vec<_> = (0..20).map(|_| read(&test_store)).collect();
    readers.iter().for_each(|reader| assert!(test_store.finish(reader).is_ok()));
    assert_eq!(asked(), before + 1);
}

#[test]
fn a_reader_that_waited_too_long_is_answered_though_others_arrive_and_the_server_is_not_ready() {
    let test_store = TestStore::new(0);
    assert!(test_store.finish(&read(&test_store)).is_ok());
    assert_eq!(test_store.put("1", Expected::Absent), Ok(2));
    // No watch delivers anything any more, and none ends.
    let _silent = std::mem::take(&mut test_store.model.kept().watchers);
    let (first, began) = (read(&test_store), test_store.time.now());
    while test_store.time.now() < began + SignedDuration::from_secs(6) {
        drop(read(&test_store));
        // Sooner than questions are asked again.
        test_store.wait(test_store.time.sleep_until(test_store.time.now() + SignedDuration::from_millis(10)));
    }
    let told = first.lock().expect("nothing panics under it").take();
    assert!(matches!(&told, Some(Err(ReadError::Unavailable(why))) if why.contains("what it is to show has not come")), "{told:?}");
    let health = test_store.store.health();
    assert!(matches!(&health, Health::Refusing { cause } if cause.contains("does not come to what etcd has")), "{health:?}");
}
