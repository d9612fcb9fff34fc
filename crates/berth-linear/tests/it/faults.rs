//! A history that cannot be checked is reported, not passed.

use crate::serial_store::{Choice, SerialStore, create, created, deleted, got, got_none, watched};
use berth_linear::{Checked, Effort, Event, Fault, Operation, Outcome, ResourceVersion, check};

#[test]
fn checked_operations_keys_and_unknown_outcomes_are_counted() {
    let history = [created((0, 1), "a", "1", 5), create((0, 1), "b", "2", Outcome::Unknown), got((2, 3), "a", "1", 5)];
    assert_eq!(check(&history, Effort::default()), Ok(Checked { operations: 3, keys: 2, unknown: 1 }));
}

#[test]
fn a_violation_of_the_recording_rules_is_reported() {
    let told = |history: &[Operation]| match check(history, Effort::default()) {
        Err(faults) => faults[0].to_string(),
        Ok(_) => String::new(),
    };
    let same = [created((0, 1), "a", "1", 5), created((2, 3), "a", "1", 6)];
    assert!(told(&same).contains("a value is written twice"), "{}", told(&same));
    assert!(told(&[created((3, 2), "a", "1", 5)]).contains("returns before it is invoked"));
    let bookmark = |seen| watched((2, 8), 5, vec![(seen, Event::Bookmark(ResourceVersion(6)))]);
    assert_eq!(told(&[bookmark(5)]), "");
    assert!(told(&[bookmark(9)]).contains("while the watch is on"));
}

/// Where versions decide the order there is a single choice, so the cost is about that of sorting.
#[test]
fn ten_thousand_operations_on_a_hundred_objects_take_no_search() {
    let choice = |at: usize| {
        let part = |prime: usize, end: usize| at * prime / 7 % end;
        let (early, late) = (part(7919, 800) as u64, part(6151, 800) as u64);
        Choice { name: part(5003, 100), kind: part(3001, 10) as u8, early, late, fate: part(1009, 40) as u8 }
    };
    let store = SerialStore::after(&(0..10_000).map(choice).collect::<Vec<_>>());
    let mut history = store.operations.clone();
    history.push(store.watch(0, store.version, 10));
    let Checked { operations, keys, unknown } = check(&history, Effort { tries_per_key: 0 }).unwrap();
    assert!(operations == 10_001 && keys == 100 && 100 < unknown, "{operations} {keys} {unknown}");
}

#[test]
fn a_history_that_takes_too_much_work_is_reported() {
    // Thirty deletions at once of unseen objects, in any order, and then a read that none of these explains.
    let pair = |at: u64| [create((0, 1), "a", &at.to_string(), Outcome::Unknown), deleted((0, 100), "a")];
    let mut history: Vec<_> = (0..30).flat_map(pair).collect();
    history.extend([created((101, 102), "a", "last", 50), got_none((103, 104), "a"), got((105, 106), "a", "last", 50)]);
    let faults = check(&history, Effort { tries_per_key: 10_000 }).unwrap_err();
    assert!(matches!(&faults[..], [Fault::TooHard { .. }]), "{faults:?}");
    assert!(faults[0].to_string().starts_with("configmaps/default/a: too hard to say within"), "{}", faults[0]);
}
