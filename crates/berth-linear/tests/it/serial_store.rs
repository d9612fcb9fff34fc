//! Short words for histories, and a store that does one thing after the other.

use berth_linear::{
    Deleted, Effort, Event, Fault, Freshness, Item, Key, Listed, Moment, Object, Operation, Outcome, Preconditions, Prefix, Reason,
    Request, ResourceVersion, Uid, Value, WatchEvent, check,
};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) fn key(name: &str) -> Key {
    Key(format!("configmaps/default/{name}"))
}

/// The objects of made-up histories.
pub(crate) fn name(number: usize) -> String {
    format!("object-{number}")
}

pub(crate) fn object(value: &str, version: u64) -> Object {
    Object { value: Value(value.to_owned()), resource_version: ResourceVersion(version), uid: None }
}

pub(crate) fn item(name: &str, value: &str, version: u64) -> Item {
    Item { key: key(name), object: object(value, version) }
}

/// An operation between two times.
pub(crate) fn operation((invoked, returned): (u64, u64), request: Request) -> Operation {
    Operation { client: "client".to_owned(), invoked: Moment(invoked), returned: Moment(returned), request }
}

pub(crate) fn created(times: (u64, u64), name: &str, value: &str, version: u64) -> Operation {
    create(times, name, value, Outcome::Ok(object(value, version)))
}

pub(crate) fn create(times: (u64, u64), name: &str, value: &str, outcome: Outcome<Object>) -> Operation {
    operation(times, Request::Create { key: key(name), value: Value(value.to_owned()), outcome })
}

pub(crate) fn updated(times: (u64, u64), name: &str, value: &str, if_at: Option<u64>, version: u64) -> Operation {
    update(times, name, value, if_at, Outcome::Ok(object(value, version)))
}

pub(crate) fn update(times: (u64, u64), name: &str, value: &str, if_at: Option<u64>, outcome: Outcome<Object>) -> Operation {
    let preconditions = Preconditions { resource_version: if_at.map(ResourceVersion), uid: None };
    operation(times, Request::Update { key: key(name), value: Value(value.to_owned()), preconditions, outcome })
}

pub(crate) fn deleted(times: (u64, u64), name: &str) -> Operation {
    delete(times, name, None, Outcome::Ok(Deleted::default()))
}

pub(crate) fn delete(times: (u64, u64), name: &str, if_at: Option<u64>, outcome: Outcome<Deleted>) -> Operation {
    let preconditions = Preconditions { resource_version: if_at.map(ResourceVersion), uid: None };
    operation(times, Request::Delete { key: key(name), preconditions, outcome })
}

pub(crate) fn got(times: (u64, u64), name: &str, value: &str, version: u64) -> Operation {
    get(times, name, Freshness::MostRecent, Outcome::Ok(object(value, version)))
}

pub(crate) fn got_none(times: (u64, u64), name: &str) -> Operation {
    get(times, name, Freshness::MostRecent, Outcome::Refused(Reason::NotFound))
}

pub(crate) fn get(times: (u64, u64), name: &str, freshness: Freshness, outcome: Outcome<Object>) -> Operation {
    operation(times, Request::Get { key: key(name), freshness, outcome })
}

pub(crate) fn listed(times: (u64, u64), version: u64, items: &[(&str, &str, u64)]) -> Operation {
    list(times, Freshness::MostRecent, version, items)
}

pub(crate) fn list(times: (u64, u64), freshness: Freshness, version: u64, items: &[(&str, &str, u64)]) -> Operation {
    let items = items.iter().map(|(name, value, version)| item(name, value, *version)).collect();
    let outcome = Outcome::Ok(Listed { resource_version: ResourceVersion(version), items });
    operation(times, Request::List { prefix: Prefix("configmaps/".to_owned()), freshness, outcome })
}

/// A watch of everything; events with the times at which they were seen.
pub(crate) fn watched(times: (u64, u64), from: u64, events: Vec<(u64, Event)>) -> Operation {
    let events = events.into_iter().map(|(seen, event)| WatchEvent { seen: Moment(seen), event }).collect();
    operation(times, Request::Watch { prefix: Prefix("configmaps/".to_owned()), from: ResourceVersion(from), events })
}

/// Expects that there is an order.
#[track_caller]
pub(crate) fn holds(history: &[Operation]) {
    if let Err(faults) = check(history, Effort::default()) {
        panic!("{}", faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
    }
}

/// Expects exactly this one fault.
#[track_caller]
pub(crate) fn fails(history: &[Operation], text: &str) {
    let faults = check(history, Effort::default()).unwrap_err();
    let told: Vec<_> = faults.iter().map(ToString::to_string).collect();
    assert!(faults.iter().all(|fault| matches!(fault, Fault::Anomaly(_))), "{told:?}");
    let lines = |text: &str| text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect::<Vec<_>>();
    assert_eq!(lines(&told.join("\n")), lines(text));
}

/// What happens next in a made-up history, and how badly it is known.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub(crate) name: usize,
    pub(crate) kind: u8,
    /// How long before it took place it was asked for, and how long after it was answered.
    pub(crate) early: u64,
    pub(crate) late: u64,
    pub(crate) fate: u8,
}

/// A change that took place.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) at: u64,
    pub(crate) event: Event,
}

/// A store that does one thing after the other, and what clients saw of it.
#[derive(Default)]
pub(crate) struct SerialStore {
    pub(crate) operations: Vec<Operation>,
    pub(crate) changes: Vec<Change>,
    pub(crate) objects: BTreeMap<Key, Object>,
    /// The versions that clients know.
    shown: BTreeSet<ResourceVersion>,
    /// The newest version.
    pub(crate) version: u64,
    /// The time: one hundred for each operation.
    pub(crate) now: u64,
}

impl SerialStore {
    pub(crate) fn after(choices: &[Choice]) -> Self {
        let mut store = Self::default();
        for choice in choices {
            store.step(choice);
        }
        store
    }

    /// A watch from behind one version up to another, whose events come so late.
    pub(crate) fn watch(&self, from: u64, to: u64, lag: u64) -> Operation {
        let (mut events, mut seen) = (Vec::new(), 0);
        let changes = self.changes.iter().filter(|change| (from + 1..=to).contains(&version(&change.event)));
        for change in changes {
            seen = (change.at + lag).max(seen);
            events.push((seen, change.event.clone()));
        }
        events.push((seen.max(self.now), Event::Bookmark(ResourceVersion(from.max(to)))));
        watched((0, seen.max(self.now) + 1), from, events)
    }

    fn step(&mut self, choice: &Choice) {
        self.now += 100;
        let times = (self.now.saturating_sub(choice.early), self.now + choice.late);
        let name = &name(choice.name);
        let key = key(name);
        let held = self.objects.get(&key).cloned();
        let value = format!("{}", self.operations.len());
        let (is_unknown, is_lost) = (choice.fate < 2, choice.fate == 0);
        let made = match choice.kind {
            0 | 1 => get(times, name, Freshness::MostRecent, held.map_or(Outcome::Refused(Reason::NotFound), Outcome::Ok)),
            2 | 3 => {
                let outcome = match held {
                    None if is_lost => Outcome::Unknown,
                    None => Outcome::Ok(self.write(&key, &value, None)),
                    Some(_) => Outcome::Refused(Reason::AlreadyExists),
                };
                create(times, name, &value, if is_unknown { Outcome::Unknown } else { outcome })
            }
            4..=6 => {
                // No request has a version that no client has seen.
                let is_shown = held.as_ref().is_some_and(|held| self.shown.contains(&held.resource_version));
                let current = held.as_ref().map_or(1, |held| held.resource_version.0);
                let if_at = [None, Some(current).filter(|_| is_shown), Some(current.saturating_sub(1))][usize::from(choice.kind - 4)];
                let outcome = match held {
                    None => Outcome::Refused(Reason::NotFound),
                    Some(_) if if_at.is_some_and(|version| version != current) => Outcome::Refused(Reason::Conflict),
                    Some(_) if is_lost => Outcome::Unknown,
                    Some(held) => Outcome::Ok(self.write(&key, &value, held.uid)),
                };
                update(times, name, &value, if_at, if is_unknown { Outcome::Unknown } else { outcome })
            }
            7 | 8 => {
                let outcome = match held {
                    None => Outcome::Refused(Reason::NotFound),
                    Some(_) if is_lost => Outcome::Unknown,
                    Some(held) => {
                        let version = self.delete(&key, held.clone());
                        let is_told = choice.fate == 5;
                        let uid = held.uid.filter(|_| choice.kind == 8);
                        Outcome::Ok(Deleted { uid, resource_version: is_told.then_some(ResourceVersion(version)) })
                    }
                };
                delete(times, name, None, if is_unknown { Outcome::Unknown } else { outcome })
            }
            _ => {
                let items = self.objects.iter().map(|(key, object)| Item { key: key.clone(), object: object.clone() }).collect();
                let outcome = Outcome::Ok(Listed { resource_version: ResourceVersion(self.version), items });
                operation(times, Request::List { prefix: Prefix("configmaps/".to_owned()), freshness: Freshness::MostRecent, outcome })
            }
        };
        self.shown.extend(shown(&made));
        self.operations.push(made);
    }

    fn write(&mut self, key: &Key, value: &str, uid: Option<Uid>) -> Object {
        self.version += 1 + self.now / 100 % 3;
        let is_new = uid.is_none();
        let uid = uid.unwrap_or_else(|| Uid(format!("uid of {value}")));
        let object = Object { uid: Some(uid), ..object(value, self.version) };
        self.objects.insert(key.clone(), object.clone());
        let item = Item { key: key.clone(), object: object.clone() };
        self.changes.push(Change { at: self.now, event: if is_new { Event::Added(item) } else { Event::Modified(item) } });
        object
    }

    fn delete(&mut self, key: &Key, last: Object) -> u64 {
        self.version += 1;
        self.objects.remove(key);
        let object = Object { resource_version: ResourceVersion(self.version), ..last };
        self.changes.push(Change { at: self.now, event: Event::Deleted(Item { key: key.clone(), object }) });
        self.version
    }
}

pub(crate) fn version(event: &Event) -> u64 {
    match event {
        Event::Added(item) | Event::Modified(item) | Event::Deleted(item) => item.object.resource_version.0,
        Event::Bookmark(version) => version.0,
    }
}

/// The versions of objects that an answer shows.
fn shown(operation: &Operation) -> Vec<ResourceVersion> {
    match &operation.request {
        Request::Get { outcome: Outcome::Ok(object), .. }
        | Request::Create { outcome: Outcome::Ok(object), .. }
        | Request::Update { outcome: Outcome::Ok(object), .. } => vec![object.resource_version],
        Request::List { outcome: Outcome::Ok(listed), .. } => listed.items.iter().map(|item| item.object.resource_version).collect(),
        _ => Vec::new(),
    }
}
