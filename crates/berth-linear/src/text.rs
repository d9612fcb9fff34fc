//! Operations and what is wrong with them, as people read them.

use crate::{Event, Fault, Freshness, Key, Moment, Operation, Outcome, Preconditions, Request};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Write},
};

/// More faults are not shown: these are enough to work on.
const FAULTS_MAX: usize = 20;
/// Operations in one fault.
const LINES_MAX: usize = 30;

/// What was found so far: one fault of each key, list and watch.
#[derive(Default)]
pub(crate) struct Faults<'a> {
    pub(crate) found: Vec<Fault>,
    keys: BTreeSet<&'a Key>,
    operations: BTreeSet<usize>,
}

impl<'a> Faults<'a> {
    /// Something about one object.
    pub(crate) fn of_key(&mut self, key: &'a Key, fault: Fault) {
        if self.keys.insert(key) {
            self.add(fault);
        }
    }

    /// Something about one list or watch, by its place in the history.
    pub(crate) fn of_operation(&mut self, operation: usize, fault: Fault) {
        if self.operations.insert(operation) {
            self.add(fault);
        }
    }

    /// Whether something about this object was found.
    pub(crate) fn know(&self, key: &Key) -> bool {
        self.keys.contains(key)
    }

    fn add(&mut self, fault: Fault) {
        if self.found.len() < FAULTS_MAX {
            self.found.push(fault);
        }
    }
}

/// A headline, and below it the operations that prove it, in the order of their beginnings, each with its remarks.
pub(crate) fn anomaly(history: &[Operation], headline: &str, shown: &[(usize, String)]) -> Fault {
    let mut lines: BTreeMap<(Moment, usize), BTreeSet<&str>> = BTreeMap::new();
    for (operation, remark) in shown {
        lines
            .entry((history[*operation].invoked, *operation))
            .or_default()
            .extend(Some(remark.as_str()).filter(|remark| !remark.is_empty()));
    }
    let mut text = headline.to_owned();
    for ((_, operation), remarks) in lines.iter().take(LINES_MAX) {
        let remarks: Vec<_> = remarks.iter().copied().collect();
        let space = if remarks.is_empty() { "" } else { "   " };
        let _ = write!(text, "\n  {}{space}{}", history[*operation], remarks.join(", "));
    }
    if LINES_MAX < lines.len() {
        let _ = write!(text, "\n  and {} more", lines.len() - LINES_MAX);
    }
    Fault::Anomaly(text)
}

/// The same without remarks.
pub(crate) fn plain_anomaly(history: &[Operation], headline: &str, shown: &[usize]) -> Fault {
    let shown: Vec<_> = shown.iter().map(|operation| (*operation, String::new())).collect();
    anomaly(history, headline, &shown)
}

impl fmt::Display for Operation {
    /// `client 3 [120-180] update configmaps/default/a to "3-7" if at 41: at 57`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}-{}] ", self.client, self.invoked.0, self.returned.0)?;
        match &self.request {
            Request::Get { key, freshness, outcome } => {
                write!(
                    f,
                    "get {key}{}: {}",
                    Fresh(*freshness),
                    outcome_text(outcome, |object| format!("{:?} at {}", object.value.0, object.resource_version))
                )
            }
            Request::Create { key, value, outcome } => {
                write!(f, "create {key} as {:?}: {}", value.0, outcome_text(outcome, |object| format!("at {}", object.resource_version)))
            }
            Request::Update { key, value, preconditions, outcome } => {
                let outcome_text = outcome_text(outcome, |object| format!("at {}", object.resource_version));
                write!(f, "update {key} to {:?}{preconditions}: {outcome_text}", value.0)
            }
            Request::Delete { key, preconditions, outcome } => {
                let at = |version| format!("deleted at {version}");
                let outcome_text = outcome_text(outcome, |deleted| deleted.resource_version.map_or_else(|| "deleted".to_owned(), at));
                write!(f, "delete {key}{preconditions}: {outcome_text}")
            }
            Request::List { prefix, freshness, outcome } => {
                let outcome_text = outcome_text(outcome, |listed| format!("{} objects at {}", listed.items.len(), listed.resource_version));
                write!(f, "list {}{}: {outcome_text}", prefix.0, Fresh(*freshness))
            }
            Request::Watch { prefix, from, events } => {
                write!(f, "watch {} from {from}: {} events", prefix.0, events.len())?;
                events.last().map_or(Ok(()), |last| write!(f, " up to {}", last.event.version()))
            }
        }
    }
}

fn outcome_text<T>(outcome: &Outcome<T>, ok: impl Fn(&T) -> String) -> String {
    match outcome {
        Outcome::Ok(answer) => ok(answer),
        Outcome::Refused(reason) => format!("{reason:?}"),
        Outcome::Unknown => "outcome unknown".to_owned(),
    }
}

struct Fresh(Freshness);

impl fmt::Display for Fresh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Freshness::MostRecent => Ok(()),
            Freshness::Any => write!(f, " as of any time"),
            Freshness::NotOlderThan(version) => write!(f, " not older than {version}"),
            Freshness::Exact(version) => write!(f, " as of {version}"),
        }
    }
}

impl fmt::Display for Preconditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(version) = self.resource_version {
            write!(f, " if at {version}")?;
        }
        self.uid.as_ref().map_or(Ok(()), |uid| write!(f, " if it is {}", uid.0))
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, item) = match self {
            Self::Added(item) => ("ADDED", item),
            Self::Modified(item) => ("MODIFIED", item),
            Self::Deleted(item) => ("DELETED", item),
            Self::Bookmark(version) => return write!(f, "BOOKMARK at {version}"),
        };
        write!(f, "{what} {} {:?} at {}", item.key, item.object.value.0, item.object.resource_version)
    }
}
