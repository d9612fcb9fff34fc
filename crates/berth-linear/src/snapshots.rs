//! The facts from lists and watches: a list is everything as of one version, a watch every change after one, in order.

use crate::{
    Event, Freshness, Item, Key, Listed, Outcome, Prefix, Request, ResourceVersion, WatchEvent,
    facts::{Facts, Transition},
    text::{Faults, anomaly},
};
use std::collections::{BTreeMap, BTreeSet};

/// The facts from lists and watches about one object, beyond the versions that they show.
#[derive(Default)]
pub(crate) struct Silence {
    /// It was absent at this version. The operation that shows it.
    pub(crate) absent_at: BTreeMap<u64, usize>,
    /// No unseen change of it took place there.
    pub(crate) quiet: Vec<Quiet>,
}

/// Behind the one version and up to the other, all changes are known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Quiet {
    pub(crate) after: u64,
    pub(crate) through: u64,
    /// The operation that shows it.
    pub(crate) by: usize,
}

/// What lists and watches exclude, by object. Reports each that contradicts others.
pub(crate) fn silences<'a>(facts: &Facts<'a>, faults: &mut Faults<'a>) -> BTreeMap<&'a Key, Silence> {
    let mut silences: BTreeMap<&Key, Silence> = facts.keys.keys().map(|key| (*key, Silence::default())).collect();
    for (at, operation) in facts.history.iter().enumerate() {
        let checked = match &operation.request {
            Request::List { prefix, freshness, outcome: Outcome::Ok(listed) } => {
                List { at, prefix, freshness: *freshness, listed, facts }.check(&mut silences)
            }
            Request::Watch { prefix, from, events } => Watch { at, prefix, from: *from, events, facts }.check(&mut silences),
            _ => Ok(()),
        };
        if let Err(Wrong { headline, shown }) = checked {
            faults.of_operation(at, anomaly(facts.history, &headline, &shown));
        }
    }
    silences
}

/// A headline, and what shows it.
struct Wrong {
    headline: String,
    shown: Vec<(usize, String)>,
}

struct List<'f, 'a> {
    at: usize,
    prefix: &'a Prefix,
    freshness: Freshness,
    listed: &'a Listed,
    facts: &'f Facts<'a>,
}

impl<'a> List<'_, 'a> {
    fn check(&self, silences: &mut BTreeMap<&'a Key, Silence>) -> Result<(), Wrong> {
        let version = self.listed.resource_version;
        if let Freshness::Exact(asked) = self.freshness
            && asked != version
        {
            return self.wrong(format!("a list as of {version} where {asked} was asked for"), None);
        }
        let items = self.items()?;
        for (key, timeline) in self.facts.keys.iter().filter(|(key, _)| self.prefix.holds(key)) {
            let last = timeline.transitions.range(..=version).next_back();
            let silence = silences.get_mut(key).expect("there is one for each key");
            if let Some(item) = items.get(key) {
                let shown = item.object.resource_version;
                // Otherwise there is a fault of the object that was already reported.
                let Some((at, transition)) = last else { continue };
                if *at != shown {
                    let headline = format!("a list as of {version} shows {key} at {shown}, though it was changed at {at}");
                    return self.wrong(headline, Some(transition));
                }
                silence.quiet.push(Quiet { after: shown.0, through: version.0, by: self.at });
            } else {
                if let Some((at, transition)) = last
                    && transition.value.is_some()
                    && !self.facts.may_have_gone(timeline)
                {
                    let headline = format!("a list as of {version} leaves out {key}, which is there since {at}");
                    return self.wrong(headline, Some(transition));
                }
                silence.absent_at.entry(version.0).or_insert(self.at);
            }
        }
        Ok(())
    }

    fn items(&self) -> Result<BTreeMap<&'a Key, &'a Item>, Wrong> {
        let mut items = BTreeMap::new();
        for item in &self.listed.items {
            let Item { key, object } = item;
            let at = object.resource_version;
            if !self.prefix.holds(key) {
                self.wrong(format!("a list of {} shows {key}", self.prefix.0), None)?;
            }
            if self.listed.resource_version < at {
                self.wrong(format!("a list as of {} shows {key} at {at}", self.listed.resource_version), None)?;
            }
            if items.insert(key, item).is_some() {
                self.wrong(format!("a list shows {key} twice"), None)?;
            }
        }
        Ok(items)
    }

    fn wrong(&self, headline: String, other: Option<&Transition<'_>>) -> Result<(), Wrong> {
        Err(Wrong { headline, shown: [(self.at, String::new())].into_iter().chain(other.map(whose)).collect() })
    }
}

struct Watch<'f, 'a> {
    at: usize,
    prefix: &'a Prefix,
    from: ResourceVersion,
    events: &'a [WatchEvent],
    facts: &'f Facts<'a>,
}

impl<'a> Watch<'_, 'a> {
    fn check(&self, silences: &mut BTreeMap<&'a Key, Silence>) -> Result<(), Wrong> {
        let mut reached = self.from;
        let mut delivered = BTreeSet::new();
        for WatchEvent { event, .. } in self.events {
            let version = event.version();
            let Some(item) = event.item() else {
                if version < reached {
                    return self.wrong(format!("a watch delivers {event} after {reached}"), None);
                }
                reached = version;
                continue;
            };
            if delivered.contains(&version) {
                return self.wrong(format!("a watch delivers twice: {event}"), None);
            }
            if version <= reached {
                return self.wrong(format!("a watch delivers out of order: {event} after {reached}"), None);
            }
            if !self.prefix.holds(&item.key) {
                return self.wrong(format!("a watch of {} delivers {event}", self.prefix.0), None);
            }
            self.check_event(event, item)?;
            delivered.insert(version);
            reached = version;
        }
        if reached == self.from {
            return Ok(());
        }
        let behind = ResourceVersion(self.from.0.saturating_add(1))..=reached;
        for (version, key) in self.facts.changes.range(behind).filter(|(_, key)| self.prefix.holds(key)) {
            if !delivered.contains(version) {
                let missed = &self.facts.keys[key].transitions[version];
                return self
                    .wrong(format!("a watch misses the change of {key} at {version}, between {} and {reached}", self.from), Some(missed));
            }
        }
        for (_, silence) in silences.iter_mut().filter(|(key, _)| self.prefix.holds(key)) {
            silence.quiet.push(Quiet { after: self.from.0, through: reached.0, by: self.at });
        }
        Ok(())
    }

    /// It is what the write did.
    fn check_event(&self, event: &Event, item: &'a Item) -> Result<(), Wrong> {
        let writer = self.facts.writer(&item.key, &item.object.value);
        let is_made = writer.map(|writer| matches!(self.facts.history[writer].request, Request::Create { .. }));
        match (event, is_made) {
            (Event::Added(_), Some(false)) | (Event::Modified(_), Some(true)) => {
                let shown = writer.map(|writer| (writer, "the write".to_owned()));
                let shown = [(self.at, String::new())].into_iter().chain(shown).collect();
                Err(Wrong { headline: format!("a watch takes a create for an update or the other way round: {event}"), shown })
            }
            (Event::Deleted(_), None) => self.wrong(format!("a watch delivers what no client wrote: {event}"), None),
            (Event::Deleted(_), Some(_)) => {
                let before = self.facts.keys[&item.key].transitions.range(..item.object.resource_version).next_back();
                let Some((at, last)) = before.filter(|(at, last)| self.from < **at && last.value != Some(&item.object.value)) else {
                    return Ok(());
                };
                self.wrong(format!("a watch delivers {event}, but it was last changed at {at}"), Some(last))
            }
            _ => Ok(()),
        }
    }

    fn wrong(&self, headline: String, other: Option<&Transition<'_>>) -> Result<(), Wrong> {
        Err(Wrong { headline, shown: [(self.at, String::new())].into_iter().chain(other.map(whose)).collect() })
    }
}

/// Whose change it is, or who saw it.
fn whose(transition: &Transition<'_>) -> (usize, String) {
    match transition.by {
        Some(by) => (by, "the change".to_owned()),
        None => (transition.shown_by, "saw the change".to_owned()),
    }
}
