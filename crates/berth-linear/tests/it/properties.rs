//! What a store did that does one thing after the other is accepted however it was overlapped, and with one thing wrong it is not.

use crate::serial_store::{Choice, SerialStore, created, got, got_none, key, listed, name, updated, version};
use berth_linear::{Effort, Event, Fault, Object, Operation, Request, check};
use proptest::prelude::*;

fn choices(many: usize) -> impl Strategy<Value = Vec<Choice>> {
    let choice = (0_usize..3, 0_u8..10, 0_u64..500, 0_u64..500, 0_u8..8);
    let choice = choice.prop_map(|(name, kind, early, late, fate)| Choice { name, kind, early, late, fate });
    proptest::collection::vec(choice, 1..many)
}

/// Where a watch begins and ends, in parts of what there is, and how late it is.
fn watches() -> impl Strategy<Value = Vec<(u64, u64, u64)>> {
    proptest::collection::vec((0_u64..100, 0_u64..100, 0_u64..1000), 0..3)
}

fn history(store: &SerialStore, watches: &[(u64, u64, u64)]) -> Vec<Operation> {
    let watch = |(from, to, lag): &(u64, u64, u64)| store.watch(store.version * from / 100, store.version * to / 100, *lag);
    store.operations.iter().cloned().chain(watches.iter().map(watch)).collect()
}

/// Whether exactly anomalies were found.
fn is_refused(history: &[Operation]) -> bool {
    check(history, Effort::default()).is_err_and(|faults| faults.iter().all(|fault| matches!(fault, Fault::Anomaly(_))))
}

/// When all is over.
fn end(history: &[Operation]) -> u64 {
    history.iter().map(|operation| operation.returned.0).max().unwrap_or(0) + 1
}

/// The store's changes except for one that is not the last, or with two in another order, or with one doubled.
fn spoil(events: &mut Vec<berth_linear::WatchEvent>, at: usize, how: u8) {
    match how {
        0 => drop(events.remove(at)),
        1 => {
            let (one, other) = (events[at].event.clone(), events[at + 1].event.clone());
            events[at].event = other;
            events[at + 1].event = one;
        }
        _ => {
            let again = events[at].clone();
            events.insert(at, again);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, max_global_rejects: 65_536, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_done_one_after_the_other_is_accepted(choices in choices(60), watches in watches()) {
        let store = SerialStore::after(&choices);
        let history = history(&store, &watches);
        if let Err(faults) = check(&history, Effort::default()) {
            let lines: String = history.iter().map(|operation| format!("{operation}\n")).collect();
            prop_assert!(false, "{}\n{lines}", faults[0]);
        }
    }

    #[test]
    fn a_stale_read_at_the_end_is_refused(choices in choices(40), which in 0_usize..1000) {
        let store = SerialStore::after(&choices);
        let replaced: Vec<_> = store.changes.iter().filter_map(|change| match &change.event {
            Event::Added(item) | Event::Modified(item) if store.objects.get(&item.key) != Some(&item.object) => Some(item),
            _ => None,
        }).collect();
        prop_assume!(!replaced.is_empty());
        let item = replaced[which % replaced.len()];
        // With the watch everything is known that there was.
        let mut history = history(&store, &[(0, 100, 0)]);
        let now = end(&history);
        let name = item.key.0.rsplit('/').next().unwrap();
        history.push(got((now, now + 1), name, &item.object.value.0, item.object.resource_version.0));
        prop_assert!(is_refused(&history));
    }

    #[test]
    fn what_is_lost_at_the_end_is_missed(choices in choices(40), how in 0_u8..4) {
        // Of the first object every outcome is known.
        let known = |choice: &Choice| Choice { fate: if choice.name == 0 { choice.fate.max(2) } else { choice.fate }, ..choice.clone() };
        let store = SerialStore::after(&choices.iter().map(known).collect::<Vec<_>>());
        let name = &name(0);
        let Some(object) = store.objects.get(&key(name)) else { return Err(TestCaseError::reject("it is not there at the end")) };
        let mut history = store.operations.clone();
        let now = end(&history);
        let next = store.version + 1;
        match how {
            0 => history.push(got_none((now, now + 1), name)),
            1 => history.push(created((now, now + 1), name, "new", next)),
            2 => {
                let at = Some(object.resource_version.0);
                history.push(updated((now, now + 3), name, "new", at, next));
                history.push(updated((now, now + 3), name, "newer", at, next + 1));
            }
            _ => {
                let others: Vec<_> = store.objects.iter().filter(|(of, _)| **of != key(name)).collect();
                let others: Vec<_> = others.iter().map(|(of, object)| (of.0.rsplit('/').next().unwrap(), object.value.0.as_str(), object.resource_version.0)).collect();
                history.push(listed((now, now + 1), store.version, &others));
            }
        }
        prop_assert!(is_refused(&history));
    }

    #[test]
    fn a_watch_that_is_wrong_in_one_place_is_refused(choices in choices(40), which in 0_usize..1000, how in 0_u8..3) {
        let store = SerialStore::after(&choices);
        prop_assume!(1 < store.changes.len());
        let mut history = history(&store, &[(0, 100, 0)]);
        let watch = history.last_mut().unwrap();
        let at = which % (store.changes.len() - 1);
        let Request::Watch { events, .. } = &mut watch.request else { unreachable!("it is the last") };
        // An unacknowledged deletion may not have happened: the object is read once more.
        let (Event::Added(item) | Event::Modified(item) | Event::Deleted(item)) = events[at].event.clone() else { unreachable!("bookmarks come last") };
        let is_deletion = matches!(events[at].event, Event::Deleted(_));
        let is_known = !is_deletion || store.operations.iter().any(|operation| match &operation.request {
            Request::Delete { key, outcome: berth_linear::Outcome::Ok(deleted), .. } => *key == item.key && deleted.resource_version == Some(item.object.resource_version),
            _ => false,
        });
        prop_assume!(how != 0 || is_known && was_acknowledged(&store, &events[at].event));
        spoil(events, at, how);
        prop_assert!(is_refused(&history));
    }

    #[test]
    fn a_list_that_shows_one_object_as_it_was_before_is_refused(choices in choices(60), which in 0_usize..1000) {
        let store = SerialStore::after(&choices);
        let mut history = history(&store, &[(0, 100, 0)]);
        let older: Vec<(usize, usize, Object)> = history.iter().enumerate().flat_map(|(at, operation)| match &operation.request {
            Request::List { outcome: berth_linear::Outcome::Ok(listed), .. } => listed.items.iter().enumerate().filter_map(|(number, item)| {
                let before = store.changes.iter().rev().find_map(|change| match &change.event {
                    Event::Added(old) | Event::Modified(old) if old.key == item.key && old.object.resource_version < item.object.resource_version => Some(old.object.clone()),
                    _ => None,
                });
                before.map(|before| (at, number, before))
            }).collect::<Vec<_>>(),
            _ => Vec::new(),
        }).collect();
        prop_assume!(!older.is_empty());
        let (at, number, before) = older[which % older.len()].clone();
        if let Request::List { outcome: berth_linear::Outcome::Ok(listed), .. } = &mut history[at].request {
            listed.items[number].object = before;
        }
        prop_assert!(is_refused(&history));
    }
}

/// Whether a client besides the watcher knows this change.
fn was_acknowledged(store: &SerialStore, event: &Event) -> bool {
    let at = version(event);
    store.operations.iter().any(|operation| match &operation.request {
        Request::Create { outcome: berth_linear::Outcome::Ok(object), .. }
        | Request::Update { outcome: berth_linear::Outcome::Ok(object), .. } => object.resource_version.0 == at,
        Request::Delete { outcome: berth_linear::Outcome::Ok(deleted), .. } => {
            deleted.resource_version.is_some_and(|version| version.0 == at)
        }
        _ => false,
    })
}
