//! Lists that are read in pages while others write.
use super::{History, Open, TestStore};
use crate::util::{PODS, pod};
use berth_store::ReadError;

pub(crate) fn a_list_that_goes_on_shows_its_revision_until_its_time_is_over(open: Open) {
    let test_store = TestStore::with_history(open, 100_000);
    for name in ["a", "b", "c"] {
        test_store.create(&pod(name), "1");
    }
    test_store.store.pin(PODS, test_store.at(3), "a-list", test_store.second(3));
    test_store.delete(&pod("c"));
    test_store.update_often(&pod("b"));
    test_store.create(&pod("c"), "2");
    (test_store.pass)(test_store.second(2));
    assert_eq!(test_store.show_at(3).expect("its time is not over"), "a=1@1 b=1@2 c=1@3");
    (test_store.pass)(test_store.second(3));
    let is_kept = test_store.show_at(3);
    match test_store.history {
        History::Bounded => assert!(matches!(is_kept, Err(ReadError::Compacted { .. }))),
        History::Compacted => assert_eq!(is_kept.expect("not compacted"), "a=1@1 b=1@2 c=1@3"),
    }
}

/// A client that has read all pages does not keep the history of other clients.
pub(crate) fn a_list_that_has_come_to_its_end_keeps_nothing(open: Open) {
    let test_store = TestStore::with_history(open, 100_000);
    test_store.create(&pod("a"), "1");
    test_store.store.pin(PODS, test_store.at(1), "a-list", test_store.second(3600));
    test_store.update_often(&pod("a"));
    assert_eq!(test_store.show_at(1).expect("it goes on"), "a=1@1");
    test_store.store.unpin(PODS, test_store.at(1), "a-list");
    let is_kept = test_store.show_at(1);
    match test_store.history {
        History::Bounded => assert!(matches!(is_kept, Err(ReadError::Compacted { .. }))),
        History::Compacted => assert_eq!(is_kept.expect("not compacted"), "a=1@1"),
    }
}
