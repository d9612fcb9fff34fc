//! A second check that tries every order: both give the same result for small histories, right and wrong ones.

use crate::serial_store::{Choice, SerialStore};
use berth_linear::{Effort, Freshness, Key, Moment, Operation, Outcome, Reason, Request, check};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A store on the way through one order.
#[derive(Clone, Default)]
struct Store {
    /// Versions and values. For a version that no client saw, the value alone.
    objects: BTreeMap<Key, (Option<u64>, String)>,
    version: u64,
}

impl Store {
    /// The store after an operation that was answered like this, if it can be answered so.
    fn after(&self, request: &Request) -> Option<Self> {
        let mut next = self.clone();
        match request {
            Request::Get { key, freshness: Freshness::MostRecent, outcome } => match (outcome, self.objects.get(key)) {
                (Outcome::Refused(Reason::NotFound), None) | (Outcome::Unknown, _) => Some(next),
                (Outcome::Ok(shown), Some((Some(version), value))) => {
                    (*version == shown.resource_version.0 && *value == shown.value.0).then_some(next)
                }
                _ => None,
            },
            Request::Create { key, value, outcome } => match (outcome, self.objects.contains_key(key)) {
                (Outcome::Refused(Reason::AlreadyExists), true) => Some(next),
                (Outcome::Ok(shown), false) => next.write(key, &value.0, Some(shown.resource_version.0)).then_some(next),
                (Outcome::Unknown, false) => next.write(key, &value.0, None).then_some(next),
                _ => None,
            },
            Request::Update { key, value, preconditions, outcome } => {
                let held = self.objects.get(key);
                let only = preconditions.resource_version.map(|version| version.0);
                let is_right = held.is_some_and(|(version, _)| only.is_none() || only == *version);
                match outcome {
                    Outcome::Refused(Reason::NotFound) => held.is_none().then_some(next),
                    Outcome::Refused(Reason::Conflict) => (only.is_none() || held.is_some() && !is_right).then_some(next),
                    Outcome::Ok(shown) => (is_right && next.write(key, &value.0, Some(shown.resource_version.0))).then_some(next),
                    Outcome::Unknown => (is_right && next.write(key, &value.0, None)).then_some(next),
                    Outcome::Refused(_) => None,
                }
            }
            Request::Delete { key, outcome, .. } => {
                let is_there = next.objects.remove(key).is_some();
                match outcome {
                    Outcome::Refused(Reason::NotFound) => (!is_there).then_some(next),
                    Outcome::Ok(deleted) => {
                        let version = deleted.resource_version.map_or(self.version + 1, |version| version.0);
                        let is_later = self.version < version;
                        next.version = version;
                        (is_there && is_later).then_some(next)
                    }
                    Outcome::Unknown => {
                        next.version += 1;
                        is_there.then_some(next)
                    }
                    Outcome::Refused(_) => None,
                }
            }
            Request::List { outcome: Outcome::Ok(listed), .. } => {
                let shown =
                    listed.items.iter().map(|item| (item.key.clone(), (Some(item.object.resource_version.0), item.object.value.0.clone())));
                next.version = listed.resource_version.0;
                (self.version <= next.version && shown.collect::<BTreeMap<_, _>>() == self.objects).then_some(next)
            }
            _ => None,
        }
    }

    fn write(&mut self, key: &Key, value: &str, version: Option<u64>) -> bool {
        let is_later = version.is_none_or(|version| self.version < version);
        self.version = version.unwrap_or(self.version + 1);
        self.objects.insert(key.clone(), (version, value.to_owned()));
        is_later
    }
}

/// Whether some order of what is left goes on from there.
fn has_order(store: &Store, left: &[&Operation]) -> bool {
    if left.iter().all(|operation| is_unknown(operation)) {
        return true;
    }
    (0..left.len()).any(|at| {
        let is_next = left.iter().all(|other| is_unknown(other) || left[at].invoked <= other.returned);
        let rest: Vec<_> = left.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, other)| *other).collect();
        is_next && store.after(&left[at].request).is_some_and(|store| has_order(&store, &rest))
    })
}

fn is_unknown(operation: &Operation) -> bool {
    match &operation.request {
        Request::Create { outcome, .. } | Request::Update { outcome, .. } | Request::Get { outcome, .. } => *outcome == Outcome::Unknown,
        Request::Delete { outcome, .. } => *outcome == Outcome::Unknown,
        Request::List { .. } | Request::Watch { .. } => false,
    }
}

/// The version at which a write of unknown outcome was seen is known: the brute-force store receives it.
fn resolved(history: &[Operation]) -> Vec<Operation> {
    let seen = |key: &Key, value: &str| {
        history.iter().find_map(|operation| match &operation.request {
            Request::Get { key: of, outcome: Outcome::Ok(object), .. } if of == key && object.value.0 == value => Some(object.clone()),
            Request::List { outcome: Outcome::Ok(listed), .. } => {
                listed.items.iter().find(|item| item.key == *key && item.object.value.0 == value).map(|item| item.object.clone())
            }
            _ => None,
        })
    };
    let resolve = |operation: &Operation| {
        let mut operation = operation.clone();
        if let Request::Create { key, value, outcome } | Request::Update { key, value, outcome, .. } = &mut operation.request
            && *outcome == Outcome::Unknown
            && let Some(object) = seen(key, &value.0)
        {
            *outcome = Outcome::Ok(object);
            operation.returned = Moment(u64::MAX);
        }
        operation
    };
    history.iter().map(resolve).collect()
}

/// One thing of one operation is made otherwise.
#[derive(Clone, Debug)]
struct Change {
    which: usize,
    how: u8,
    by: u64,
}

fn change(history: &mut [Operation], change: &Change) {
    let which = change.which % history.len();
    let operation = &mut history[which];
    match (change.how, &mut operation.request) {
        (0, _) => operation.invoked = Moment(operation.invoked.0 + change.by * 50),
        (1, _) => operation.returned = Moment(operation.returned.0.saturating_sub(change.by * 50)),
        (2, Request::Get { outcome, .. }) => *outcome = Outcome::Refused(Reason::NotFound),
        (2, Request::Create { outcome, .. }) => *outcome = Outcome::Refused(Reason::AlreadyExists),
        (2, Request::Update { outcome, .. }) => {
            *outcome = Outcome::Refused(if change.by.is_multiple_of(2) { Reason::Conflict } else { Reason::NotFound });
        }
        (2, Request::Delete { outcome, .. }) => *outcome = Outcome::Refused(Reason::NotFound),
        (3, Request::List { outcome: Outcome::Ok(listed), .. }) => drop(listed.items.pop()),
        (3, Request::Create { outcome: Outcome::Ok(object), .. } | Request::Update { outcome: Outcome::Ok(object), .. }) => {
            object.resource_version.0 += change.by;
        }
        (3, Request::Delete { outcome, .. }) => *outcome = Outcome::Ok(berth_linear::Deleted::default()),
        (4, Request::List { outcome: Outcome::Ok(listed), .. }) => listed.resource_version.0 += change.by,
        _ => (),
    }
    if operation.returned < operation.invoked {
        operation.returned = operation.invoked;
    }
}

fn histories(names: usize) -> impl Strategy<Value = Vec<Operation>> {
    let choice = (0..names, 0_u8..10, 0_u64..300, 0_u64..300, 0_u8..7);
    let choice = choice.prop_map(|(name, kind, early, late, fate)| Choice { name, kind, early, late, fate });
    let changes = proptest::collection::vec((0_usize..100, 0_u8..5, 0_u64..5), 0..3);
    (proptest::collection::vec(choice, 1..8), changes).prop_map(|(choices, changes)| {
        let mut history = SerialStore::after(&choices).operations;
        for (which, how, by) in changes {
            change(&mut history, &Change { which, how, by });
        }
        without_uids(history)
    })
}

/// The store by force knows none.
fn without_uids(mut history: Vec<Operation>) -> Vec<Operation> {
    for operation in &mut history {
        match &mut operation.request {
            Request::Get { outcome: Outcome::Ok(object), .. }
            | Request::Create { outcome: Outcome::Ok(object), .. }
            | Request::Update { outcome: Outcome::Ok(object), .. } => object.uid = None,
            Request::Delete { outcome: Outcome::Ok(deleted), .. } => deleted.uid = None,
            Request::List { outcome: Outcome::Ok(listed), .. } => listed.items.iter_mut().for_each(|item| item.object.uid = None),
            _ => (),
        }
    }
    history
}

/// The results of both. Also the history, to find out why they differ.
fn both(history: &[Operation]) -> (bool, bool, String) {
    let resolved = resolved(history);
    let by_force = has_order(&Store::default(), &resolved.iter().collect::<Vec<_>>());
    let lines: String = history.iter().map(|operation| format!("{operation}\n")).collect();
    let checked = check(history, Effort::default());
    (checked.is_ok(), by_force, format!("{checked:?}\n{lines}"))
}

/// Whether the version of everything that was written or may have been is known.
fn is_all_known(history: &[Operation]) -> bool {
    resolved(history).iter().all(|operation| match &operation.request {
        Request::Delete { outcome: Outcome::Ok(deleted), .. } => deleted.resource_version.is_some(),
        _ => !is_unknown(operation),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn of_one_object_both_have_the_same_result(history in histories(1)) {
        let (checked, by_force, lines) = both(&history);
        prop_assert_eq!(checked, by_force, "{}", lines);
    }

    #[test]
    fn of_several_objects_nothing_right_is_refused_and_nothing_wrong_accepted_where_versions_are_known(history in histories(3)) {
        let (checked, by_force, lines) = both(&history);
        prop_assert!(checked || !by_force, "{}", lines);
        if is_all_known(&history) {
            prop_assert_eq!(checked, by_force, "{}", lines);
        }
    }
}
