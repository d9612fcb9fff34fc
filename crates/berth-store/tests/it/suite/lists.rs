//! Lists that are read in pages while others write.
use super::{History, Open, TestStore};
use crate::util::{PODS, pod};
use berth_store::ReadError;

pub(crate) fn a_list_that_goes_on_shows_its_revision_until_its_time_is_over(open: Open) {
    let world = TestStore::with_history(open, 100_000);
    for name in ["a", "b", "c"] {
        world.create(&pod(name), "1");
    }
    world.store.pin(PODS, world.at(3), "somebody", world.second(3));
    world.delete(&pod("c"));
    world.update_often(&pod("b"));
    world.create(&pod("c"), "2");
    (world.pass)(world.second(2));
    assert_eq!(world.show_at(3).expect("its time is not over"), "a=1@1 b=1@2 c=1@3");
    (world.pass)(world.second(3));
    let is_kept = world.show_at(3);
    match world.history {
        History::Bounded => assert!(matches!(is_kept, Err(ReadError::Compacted { .. }))),
        History::Compacted => assert_eq!(is_kept.expect("nobody has compacted"), "a=1@1 b=1@2 c=1@3"),
    }
}

/// A client that has read all pages does not keep the history of other clients.
pub(crate) fn a_list_that_has_come_to_its_end_keeps_nothing(open: Open) {
    let world = TestStore::with_history(open, 100_000);
    world.create(&pod("a"), "1");
    world.store.pin(PODS, world.at(1), "somebody", world.second(3600));
    world.update_often(&pod("a"));
    assert_eq!(world.show_at(1).expect("it goes on"), "a=1@1");
    world.store.unpin(PODS, world.at(1), "somebody");
    let is_kept = world.show_at(1);
    match world.history {
        History::Bounded => assert!(matches!(is_kept, Err(ReadError::Compacted { .. }))),
        History::Compacted => assert_eq!(is_kept.expect("nobody has compacted"), "a=1@1"),
    }
}
