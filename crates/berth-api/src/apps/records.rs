//! The authors of changes to a workload, as the API server records them in the annotations [`BERTH_CHANGED_BY`],
//! [`BERTH_SCALED_BY`] and [`BERTH_PROMOTED_BY`].
//!
//! Names are untrusted texts. They are truncated, and a terminal program must escape them.

use crate::annotations::{BERTH_CHANGED_BY, BERTH_PROMOTED_BY, BERTH_SCALED_BY};
use berth_identity::RolloutRevision;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The maximum number of recorded promotions per rollout, which is the maximum number of steps.
pub const PROMOTIONS_MAX: usize = 64;
/// The maximum length of recorded user and manager names. Managers have no longer ones, and most user names are far
/// shorter.
pub const NAME_CHARS_MAX: usize = 256;

type Annotations = BTreeMap<String, String>;

/// An author and a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// The time of the write, in whole seconds.
    pub at: Timestamp,
    /// The authenticated or impersonated user. `None`: a part of the server's own process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The field manager from the client, otherwise the start of its user agent. Empty: none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub manager: String,
}

impl Change {
    /// Returns a change with names truncated to [`NAME_CHARS_MAX`].
    #[must_use]
    pub fn new(at: Timestamp, user: Option<&str>, manager: &str) -> Self {
        Self { at, user: user.map(short), manager: short(manager) }
    }

    /// Parses [`BERTH_CHANGED_BY`]. `None`: it is missing or invalid.
    #[must_use]
    pub fn of(annotations: &Annotations) -> Option<Self> {
        let Self { at, user, manager } = serde_json::from_str(annotations.get(BERTH_CHANGED_BY)?).ok()?;
        Some(Self::new(at, user.as_deref(), &manager))
    }

    /// Returns the annotation's value.
    #[must_use]
    pub fn value(&self) -> String {
        serde_json::to_string(self).expect("it has string keys only")
    }
}

/// A change of the replicas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Scaling {
    /// The author.
    #[serde(flatten)]
    pub by: Change,
    /// The replicas before.
    pub from: i32,
    /// The replicas after.
    pub to: i32,
}

impl Scaling {
    /// Parses [`BERTH_SCALED_BY`]. `None`: it is missing or invalid.
    #[must_use]
    pub fn of(annotations: &Annotations) -> Option<Self> {
        let Self { by, from, to } = serde_json::from_str(annotations.get(BERTH_SCALED_BY)?).ok()?;
        Some(Self { by: Change::new(by.at, by.user.as_deref(), &by.manager), from, to })
    }

    /// Returns the annotation's value.
    #[must_use]
    pub fn value(&self) -> String {
        serde_json::to_string(self).expect("it has string keys only")
    }
}

/// The users who ended waits of a rollout's steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Promotions {
    /// The number of the rollout.
    pub revision: RolloutRevision,
    /// In order of time, at most one per step.
    pub steps: Vec<Promotion>,
}

/// A user ended the wait at a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Promotion {
    /// The step, from 1.
    pub step: u32,
    /// The author.
    #[serde(flatten)]
    pub by: Change,
}

impl Promotions {
    /// Parses [`BERTH_PROMOTED_BY`]. `None`: it is missing or invalid.
    #[must_use]
    pub fn of(annotations: &Annotations) -> Option<Self> {
        let Self { revision, mut steps } = serde_json::from_str(annotations.get(BERTH_PROMOTED_BY)?).ok()?;
        steps.truncate(PROMOTIONS_MAX);
        for promotion in &mut steps {
            let Change { at, user, manager } = &promotion.by;
            promotion.by = Change::new(*at, user.as_deref(), manager);
        }
        Some(Self { revision, steps })
    }

    /// Adds the promotion `named` in the format of [`crate::annotations::BERTH_PROMOTED`]: `REVISION/STEP/HASH`.
    /// Returns `None` if it is not about the rollout `newest`, or not new.
    #[must_use]
    pub fn with(known: Option<Self>, named: &str, newest: RolloutRevision, by: impl FnOnce() -> Change) -> Option<Self> {
        let mut parts = named.split('/');
        let (revision, step, _) = (parts.next()?, parts.next()?, parts.next()?);
        let (revision, step) = (revision.parse::<RolloutRevision>().ok()?, step.parse().ok()?);
        let mut all = known.filter(|known| known.revision == revision).unwrap_or(Self { revision, steps: Vec::new() });
        if revision != newest || all.steps.len() == PROMOTIONS_MAX || all.steps.iter().any(|promotion| promotion.step == step) {
            return None;
        }
        all.steps.push(Promotion { step, by: by() });
        Some(all)
    }

    /// Returns the annotation's value.
    #[must_use]
    pub fn value(&self) -> String {
        serde_json::to_string(self).expect("it has string keys only")
    }
}

fn short(name: &str) -> String {
    name.chars().take(NAME_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotations(key: &str, value: &str) -> Annotations {
        Annotations::from([(key.to_owned(), value.to_owned())])
    }

    #[test]
    fn a_change_is_read_back_with_names_of_a_bounded_length() {
        let change = Change::new(Timestamp::UNIX_EPOCH, Some("alice\u{1b}[2J"), "kubectl-set");
        assert_eq!(change.value(), r#"{"at":"1970-01-01T00:00:00Z","user":"alice\u001b[2J","manager":"kubectl-set"}"#);
        assert_eq!(Change::of(&annotations(BERTH_CHANGED_BY, &change.value())), Some(change));
        let own = Change::new(Timestamp::UNIX_EPOCH, None, "");
        assert_eq!(own.value(), r#"{"at":"1970-01-01T00:00:00Z"}"#);
        let long = format!(r#"{{"at":"1970-01-01T00:00:00Z","user":"{0}","manager":"{0}"}}"#, "é".repeat(9999));
        let read = Change::of(&annotations(BERTH_CHANGED_BY, &long)).expect("a change");
        assert_eq!([read.user.expect("a user"), read.manager].map(|name| name.chars().count()), [NAME_CHARS_MAX; 2]);
        for text in ["", "{}", "[]", "null", r#"{"at":"yesterday"}"#, r#"{"at":"1970-01-01T00:00:00Z","user":1}"#] {
            assert_eq!(Change::of(&annotations(BERTH_CHANGED_BY, text)), None, "{text}");
        }
    }

    #[test]
    fn a_scaling_is_a_change_with_two_numbers() {
        let scaling = Scaling { by: Change::new(Timestamp::UNIX_EPOCH, Some("hpa"), "m"), from: 1, to: 3 };
        assert_eq!(scaling.value(), r#"{"at":"1970-01-01T00:00:00Z","user":"hpa","manager":"m","from":1,"to":3}"#);
        assert_eq!(Scaling::of(&annotations(BERTH_SCALED_BY, &scaling.value())), Some(scaling));
        assert_eq!(Scaling::of(&annotations(BERTH_SCALED_BY, r#"{"at":"1970-01-01T00:00:00Z","from":1}"#)), None);
    }

    #[test]
    fn promotions_are_of_one_rollout_and_each_step_is_promoted_once() {
        let by = |user: &'static str| move || Change::new(Timestamp::UNIX_EPOCH, Some(user), "kubectl");
        let first = Promotions::with(None, "3/2/5d4", RolloutRevision(3), by("alice")).expect("it is new");
        assert_eq!(first.value(), r#"{"revision":3,"steps":[{"step":2,"at":"1970-01-01T00:00:00Z","user":"alice","manager":"kubectl"}]}"#);
        assert_eq!(Promotions::of(&annotations(BERTH_PROMOTED_BY, &first.value())), Some(first.clone()));
        let both = Promotions::with(Some(first.clone()), "3/4/5d4", RolloutRevision(3), by("bob")).expect("it is new");
        let told = |promotions: &Promotions| promotions.steps.iter().map(|one| (one.step, one.by.user.clone())).collect::<Vec<_>>();
        assert_eq!(told(&both), [(2, Some("alice".to_owned())), (4, Some("bob".to_owned()))]);
        for nothing in ["3/2/5d4", "3/4/5d4", "2/5/5d4", "4/1/5d4", "3", "3/5", "3/x/5d4", "x/1/5d4", "", "3/-1/5d4"] {
            assert_eq!(Promotions::with(Some(both.clone()), nothing, RolloutRevision(3), by("eve")), None, "{nothing}");
        }
        assert_eq!(
            told(&Promotions::with(Some(both), "4/1/5d4", RolloutRevision(4), by("carol")).expect("it is another")),
            [(1, Some("carol".to_owned()))]
        );
        let mut full = first;
        full.steps = (1..=64).map(|step| Promotion { step, by: by("alice")() }).collect();
        assert_eq!(Promotions::with(Some(full.clone()), "3/65/5d4", RolloutRevision(3), by("eve")), None, "a rollout has no more steps");
        full.steps.extend(full.steps.clone());
        full.steps[0].by.manager = "é".repeat(9999);
        let read = Promotions::of(&annotations(BERTH_PROMOTED_BY, &full.value())).expect("promotions");
        assert_eq!((read.steps.len(), read.steps[0].by.manager.chars().count()), (PROMOTIONS_MAX, NAME_CHARS_MAX));
        assert_eq!(Promotions::of(&annotations(BERTH_PROMOTED_BY, r#"{"revision":3}"#)), None);
    }
}
