//! The facts about each object from all answers together: its versions, their writers, and its deletion.
//!
//! A version is a position in the one order of all writes, so answers must agree on versions, whichever client asked and when. Whether the order of
//! writes in real time matches their versions is not checked here, but in `bounds.rs`.

use crate::{
    Event, Fault, Freshness, Key, Object, Operation, Outcome, Request, ResourceVersion, Uid, Value,
    text::{Faults, plain_anomaly},
};
use std::collections::{BTreeMap, btree_map::Entry};

/// The facts of a history, by object.
pub(crate) struct Facts<'a> {
    pub(crate) history: &'a [Operation],
    pub(crate) keys: BTreeMap<&'a Key, Timeline<'a>>,
    /// The versions of creates and updates that were acknowledged or whose value was seen, and of deletions that are known to be theirs.
    pub(crate) versions: BTreeMap<usize, ResourceVersion>,
    /// Whose each version is.
    pub(crate) changes: BTreeMap<ResourceVersion, &'a Key>,
    writers: BTreeMap<(&'a Key, &'a Value), usize>,
}

/// What is known of one object.
#[derive(Default)]
pub(crate) struct Timeline<'a> {
    /// Every change that a client saw.
    pub(crate) transitions: BTreeMap<ResourceVersion, Transition<'a>>,
    /// Gets, creates, updates and deletes of it.
    pub(crate) operations: Vec<usize>,
}

/// One change of one object.
#[derive(Clone, Copy)]
pub(crate) struct Transition<'a> {
    /// What it held from then on; `None` where it went.
    pub(crate) value: Option<&'a Value>,
    pub(crate) uid: Option<&'a Uid>,
    /// Whose write it was. Known of all but deletions.
    pub(crate) by: Option<usize>,
    /// Who saw it first.
    pub(crate) shown_by: usize,
}

impl<'a> Facts<'a> {
    /// Reads the answers, and reports contradictions in them.
    pub(crate) fn read(history: &'a [Operation], faults: &mut Faults<'a>) -> Result<Self, Fault> {
        let mut facts =
            Self { history, keys: BTreeMap::new(), versions: BTreeMap::new(), changes: BTreeMap::new(), writers: writers(history)? };
        for (at, operation) in history.iter().enumerate() {
            if let Some(key) = operation.request.key() {
                facts.keys.entry(key).or_default().operations.push(at);
            }
            for (key, object) in shown(&operation.request) {
                facts.saw(at, key, object, faults);
            }
        }
        for (at, operation) in history.iter().enumerate() {
            facts.saw_deletions(at, &operation.request, faults);
        }
        facts.attribute_deletions(faults);
        facts.one_change_a_version(faults);
        Ok(facts)
    }

    /// Whether this write may have been executed, but no client saw it.
    pub(crate) fn is_unseen(&self, at: usize) -> bool {
        self.history[at].request.is_unknown_write() && !self.versions.contains_key(&at)
    }

    /// Whether it may have been deleted at a version that no client saw.
    pub(crate) fn may_have_gone(&self, timeline: &Timeline<'_>) -> bool {
        let is_deletion = |at: &usize| matches!(self.history[*at].request, Request::Delete { .. }) && self.is_somewhere(*at);
        timeline.operations.iter().any(is_deletion)
    }

    /// Whether everything that ever happened to it was seen.
    pub(crate) fn are_complete(&self, timeline: &Timeline<'_>) -> bool {
        let is_somewhere = |at: &usize| !matches!(self.history[*at].request, Request::Get { .. }) && self.is_somewhere(*at);
        !timeline.operations.iter().any(is_somewhere)
    }

    /// Whether this write was or may have been executed at an unknown version.
    fn is_somewhere(&self, at: usize) -> bool {
        self.history[at].request.refusal().is_none() && !self.versions.contains_key(&at)
    }

    /// Who wrote this value.
    pub(crate) fn writer(&self, key: &Key, value: &Value) -> Option<usize> {
        self.writers.get(&(key, value)).copied()
    }

    fn saw(&mut self, at: usize, key: &'a Key, object: &'a Object, faults: &mut Faults<'a>) {
        let history = self.history;
        let Some(writer) = self.writer(key, &object.value) else {
            return faults.of_key(key, plain_anomaly(history, &format!("{key}: no client wrote {:?}", object.value.0), &[at]));
        };
        let mut wrong = |headline: &str, by: &[usize]| faults.of_key(key, plain_anomaly(history, &format!("{key}: {headline}"), by));
        if let Request::Create { value, .. } | Request::Update { value, .. } = &history[at].request
            && *value != object.value
        {
            return wrong("a write was answered with another value", &[writer, at]);
        }
        if history[writer].request.refusal().is_some() {
            return wrong("a write that was refused was seen", &[writer, at]);
        }
        let version = object.resource_version;
        let earlier = *self.versions.entry(writer).or_insert(version);
        let timeline = self.keys.entry(key).or_default();
        if earlier != version {
            return wrong("one write was seen at two versions", &[writer, timeline.transitions[&earlier].shown_by, at]);
        }
        match timeline.transitions.entry(version) {
            Entry::Vacant(entry) => {
                entry.insert(Transition { value: Some(&object.value), uid: object.uid.as_ref(), by: Some(writer), shown_by: at });
            }
            Entry::Occupied(mut entry) => {
                let known = entry.get_mut();
                if known.value != Some(&object.value) {
                    wrong("two values were seen at one version", &[known.shown_by, at]);
                } else if !agree(known.uid, object.uid.as_ref()) {
                    wrong("one version was seen with two uids", &[known.shown_by, at]);
                }
                known.uid = known.uid.or(object.uid.as_ref());
            }
        }
    }

    fn saw_deletions(&mut self, at: usize, request: &'a Request, faults: &mut Faults<'a>) {
        match request {
            Request::Delete { key, outcome: Outcome::Ok(deleted), .. } => {
                if let Some(version) = deleted.resource_version {
                    self.versions.insert(at, version);
                    self.saw_deletion(at, key, version, deleted.uid.as_ref(), Some(at), faults);
                }
            }
            Request::Watch { events, .. } => {
                for event in events {
                    if let Event::Deleted(item) = &event.event {
                        self.saw_deletion(at, &item.key, item.object.resource_version, item.object.uid.as_ref(), None, faults);
                    }
                }
            }
            _ => (),
        }
    }

    fn saw_deletion(
        &mut self,
        at: usize,
        key: &'a Key,
        version: ResourceVersion,
        uid: Option<&'a Uid>,
        by: Option<usize>,
        faults: &mut Faults<'a>,
    ) {
        let history = self.history;
        let mut wrong = |headline: &str, by: &[usize]| faults.of_key(key, plain_anomaly(history, &format!("{key}: {headline}"), by));
        let seen = Transition { value: None, uid, by, shown_by: at };
        let known = self.keys.entry(key).or_default().transitions.entry(version).or_insert(seen);
        if known.value.is_some() {
            wrong("it was changed and deleted at one version", &[known.shown_by, at]);
        } else if !agree(known.uid, uid) {
            wrong("one deletion was seen with two uids", &[known.shown_by, at]);
        } else if known.by.is_some() && by.is_some() && known.by != by {
            wrong("one deletion was acknowledged twice", &[known.shown_by, at]);
        }
        known.uid = known.uid.or(uid);
        known.by = known.by.or(by);
    }

    /// An object of one uid is deleted once: the operation whose answer has its uid did it.
    fn attribute_deletions(&mut self, faults: &mut Faults<'a>) {
        let history = self.history;
        for (key, timeline) in &mut self.keys {
            let mut by_uid = BTreeMap::new();
            for at in &timeline.operations {
                if let Request::Delete { outcome: Outcome::Ok(deleted), .. } = &history[*at].request
                    && let Some(uid) = &deleted.uid
                    && let Some(earlier) = by_uid.insert(uid, *at)
                {
                    faults.of_key(key, plain_anomaly(history, &format!("{key}: one object was deleted twice"), &[earlier, *at]));
                }
            }
            for (version, transition) in timeline.transitions.iter_mut().filter(|(_, transition)| transition.value.is_none()) {
                let Some(&by) = transition.uid.and_then(|uid| by_uid.get(uid)) else { continue };
                let known = *self.versions.entry(by).or_insert(*version);
                if known != *version || transition.by.is_some_and(|other| other != by) {
                    let headline = format!("{key}: one object was deleted at two versions");
                    faults.of_key(key, plain_anomaly(history, &headline, &[by, transition.shown_by]));
                }
                transition.by = Some(by);
            }
        }
    }

    fn one_change_a_version(&mut self, faults: &mut Faults<'a>) {
        for (key, timeline) in &self.keys {
            for (version, transition) in &timeline.transitions {
                if let Some(other) = self.changes.insert(*version, *key) {
                    let headline = format!("{key}: its version {version} is one of {other} too");
                    let other = self.keys[other].transitions[version].shown_by;
                    faults.of_key(key, plain_anomaly(self.history, &headline, &[other, transition.shown_by]));
                }
            }
        }
    }
}

/// Both the same, as far as both are known.
pub(crate) fn agree(one: Option<&Uid>, other: Option<&Uid>) -> bool {
    one.is_none() || other.is_none() || one == other
}

/// Who wrote what; or which rule of recording was broken.
fn writers(history: &[Operation]) -> Result<BTreeMap<(&Key, &Value), usize>, Fault> {
    let mut writers = BTreeMap::new();
    for (at, operation) in history.iter().enumerate() {
        let broken = |rule: &str| Err(Fault::Malformed(format!("{rule}\n  {operation}")));
        if operation.returned < operation.invoked {
            return broken("an operation returns before it is invoked");
        }
        match &operation.request {
            Request::Create { key, value, .. } | Request::Update { key, value, .. } => {
                if let Some(other) = writers.insert((key, value), at) {
                    return broken(&format!("a value is written twice\n  {}", history[other]));
                }
            }
            Request::Get { freshness: Freshness::Exact(_), .. } => return broken("one object cannot be read as of a version"),
            Request::Watch { events, .. } => {
                let times = [operation.invoked].into_iter().chain(events.iter().map(|event| event.seen)).chain([operation.returned]);
                if !times.is_sorted() {
                    return broken("events are seen one after the other, while the watch is on");
                }
            }
            _ => (),
        }
    }
    Ok(writers)
}

/// The objects that an answer shows as they are.
fn shown(request: &Request) -> Vec<(&Key, &Object)> {
    match request {
        Request::Get { key, outcome: Outcome::Ok(object), .. }
        | Request::Create { key, outcome: Outcome::Ok(object), .. }
        | Request::Update { key, outcome: Outcome::Ok(object), .. } => vec![(key, object)],
        Request::List { outcome: Outcome::Ok(listed), .. } => listed.items.iter().map(|item| (&item.key, &item.object)).collect(),
        Request::Watch { events, .. } => {
            let shown = events.iter().filter_map(|event| match &event.event {
                Event::Added(item) | Event::Modified(item) => Some((&item.key, &item.object)),
                Event::Deleted(_) | Event::Bookmark(_) => None,
            });
            shown.collect()
        }
        _ => Vec::new(),
    }
}
