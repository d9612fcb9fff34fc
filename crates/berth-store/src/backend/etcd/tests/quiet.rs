//! Copies of unwritten keys: how they catch up with etcd.

use super::{super::model::WatchSender, *};

const SERVICES: &str = "/registry/services/specs/";

/// The next that a watcher hears behind progress to before `revision`.
fn heard(world: &TestStore, mut watch: Watch, revision: u64) -> (Option<Result<WatchItem, ReadError>>, Watch) {
    world.wait(async move {
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
    let world = TestStore::new(0);
    world.model.kept().overtakes = true;
    let watch = world.store.watch(SERVICES, Revision(1)).expect("it is there");
    assert_eq!(world.put("1", Expected::Absent), Ok(2));
    let (item, _) = heard(&world, watch, 2);
    assert!(matches!(item, Some(Ok(WatchItem::Progress(Revision(2))))), "{item:?}");
    world.model.kept().compacted = 2;
    assert_eq!(world.put("2", Expected::At(Revision(2))), Ok(3));
    let (item, _) = heard(&world, world.store.watch(SERVICES, Revision(2)).expect("it is there"), 3);
    assert!(matches!(item, Some(Ok(WatchItem::Progress(Revision(3))))), "{item:?}");
}

#[test]
fn where_progress_cannot_be_relied_on_compaction_takes_no_place_of_a_watch_of_quiet_keys() {
    let world = TestStore::new(0);
    world.model.kept().overtakes = true;
    let watch = world.store.watch(SERVICES, Revision(1)).expect("it is there");
    let (_, watch) = heard(&world, watch, 1);
    assert_eq!((world.put("1", Expected::Absent), world.put("2", Expected::At(Revision(2)))), (Ok(2), Ok(3)));
    let store = Arc::clone(&world.store);
    assert!(world.wait(async move { store.compact(SERVICES, Revision(3)).await }).is_ok());
    let (item, _) = heard(&world, watch, 3);
    assert!(matches!(item, Some(Ok(WatchItem::Progress(Revision(3))))), "{item:?}");
}

#[test]
fn a_watcher_relists_after_a_key_was_created_and_deleted_before_its_progress() {
    let world = TestStore::new(0);
    world.model.kept().overtakes = true;
    let watch = world.store.watch(SERVICES, Revision(1)).expect("it is there");
    world.pass(1);
    let service = |expected, value: Option<&str>| Put {
        key: Key::new(&format!("{SERVICES}a")),
        expected: Some(expected),
        value: value.map(|value| value.to_owned().into()),
        lease: None,
    };
    let mut kept = world.model.kept();
    let watchers = std::mem::take(&mut kept.watchers);
    kept.apply(&[service(Expected::Absent, Some("1"))]);
    kept.apply(&[service(Expected::At(Revision(2)), None)]);
    let late = kept.log.clone();
    kept.watchers = watchers;
    drop(kept);
    let (item, watch) = heard(&world, watch, 3);
    assert!(matches!(item, Some(Ok(WatchItem::Progress(Revision(3))))), "{item:?}");
    assert_eq!(world.put("1", Expected::Absent), Ok(5), "behind a turn's");
    let told =
        |(prefix, tell): &(String, WatchSender)| prefix == SERVICES && tell.unbounded_send(Ok(Watched::Changes(late.clone()))).is_ok();
    assert_eq!(world.model.kept().watchers.iter().filter(|watcher| told(watcher)).count(), 1);
    let (item, _) = heard(&world, watch, 6);
    assert!(matches!(item, Some(Err(ReadError::Compacted { .. }))), "{item:?}");
}

fn service() -> Key {
    Key::new(&format!("{SERVICES}a"))
}

type Read = Result<Option<Arc<Entry>>, ReadError>;

fn read(world: &TestStore) -> Arc<Mutex<Option<Read>>> {
    let store = Arc::clone(&world.store);
    world.start(async move { store.get(&service()).await })
}

/// A question for each reader would cost etcd and this process more than the reads.
#[test]
fn of_those_who_wait_for_a_revision_one_asks_and_a_writer_only_waits() {
    let world = TestStore::new(0);
    assert!(world.finish(&read(&world)).is_ok());
    assert_eq!(world.put("1", Expected::Absent), Ok(2));
    let asked = || world.model.kept().questions;
    let before = asked();
    assert_eq!(world.put("2", Expected::At(Revision(2))), Ok(3));
    assert_eq!(asked(), before, "its change comes by itself");
    let readers: Vec<_> = (0..20).map(|_| read(&world)).collect();
    readers.iter().for_each(|reader| assert!(world.finish(reader).is_ok()));
    assert_eq!(asked(), before + 1);
}

#[test]
fn a_reader_that_waited_too_long_is_answered_though_others_arrive_and_the_server_is_not_ready() {
    let world = TestStore::new(0);
    assert!(world.finish(&read(&world)).is_ok());
    assert_eq!(world.put("1", Expected::Absent), Ok(2));
    // No watch delivers anything any more, and none ends.
    let _silent = std::mem::take(&mut world.model.kept().watchers);
    let (first, began) = (read(&world), world.time.now());
    while world.time.now() < began + SignedDuration::from_secs(6) {
        drop(read(&world));
        // Sooner than questions are asked again.
        world.wait(world.time.sleep_until(world.time.now() + SignedDuration::from_millis(10)));
    }
    let told = first.lock().expect("nothing panics under it").take();
    assert!(matches!(&told, Some(Err(ReadError::Unavailable(why))) if why.contains("what it is to show has not come")), "{told:?}");
    let health = world.store.health();
    assert!(matches!(&health, Health::Refusing { cause } if cause.contains("does not come to what etcd has")), "{health:?}");
}
