//! Who changed a workload, as the API server saw it: what the annotations [`BERTH_CHANGED_BY`] and [`BERTH_SCALED_BY`] say.
//!
//! Names are strangers' texts: they are kept up to a length, and whoever shows them on a terminal escapes them.

use crate::annotations::{BERTH_CHANGED_BY, BERTH_SCALED_BY};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How many characters of a user's or a manager's name are kept. Managers have no more; most users' names have far fewer.
pub const NAME_CHARS_MAX: usize = 256;

type Annotations = BTreeMap<String, String>;

/// Who did something, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// When it was written, in whole seconds.
    pub at: Timestamp,
    /// Who was let in: authenticated, or impersonated by somebody who may. None: a part of the server's own process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The field manager, which the client chooses; what its user agent begins with if it says none. Empty: none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub manager: String,
}

impl Change {
    /// Somebody's change, with names up to [`NAME_CHARS_MAX`].
    #[must_use]
    pub fn new(at: Timestamp, user: Option<&str>, manager: &str) -> Self {
        Self { at, user: user.map(short), manager: short(manager) }
    }

    /// What [`BERTH_CHANGED_BY`] says; `None` where it is missing, or nobody's who knows its form.
    #[must_use]
    pub fn of(annotations: &Annotations) -> Option<Self> {
        let Self { at, user, manager } = serde_json::from_str(annotations.get(BERTH_CHANGED_BY)?).ok()?;
        Some(Self::new(at, user.as_deref(), &manager))
    }

    /// The annotation's value.
    #[must_use]
    pub fn value(&self) -> String {
        serde_json::to_string(self).expect("it has string keys only")
    }
}

/// A change of the number of pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Scaling {
    /// Whose.
    #[serde(flatten)]
    pub by: Change,
    /// How many pods were wanted before.
    pub from: i32,
    /// How many are.
    pub to: i32,
}

impl Scaling {
    /// What [`BERTH_SCALED_BY`] says; `None` where it is missing, or nobody's who knows its form.
    #[must_use]
    pub fn of(annotations: &Annotations) -> Option<Self> {
        let Self { by, from, to } = serde_json::from_str(annotations.get(BERTH_SCALED_BY)?).ok()?;
        Some(Self { by: Change::new(by.at, by.user.as_deref(), &by.manager), from, to })
    }

    /// The annotation's value.
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
}
