//! Lines: what each says, and how it is written.

use crate::allowed::KINDS;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::time::Duration;

/// Which form the lines have.
pub(crate) const VERSION: u64 = 1;

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// When the recording began: all times are counted from here.
    pub at: Timestamp,
    /// Whose controllers the cluster seemed to have: `berth`, `kubernetes`.
    pub controllers: String,
    /// By what that was found.
    pub because: String,
    /// Whether names are hashed.
    pub is_hashed: bool,
    /// The only namespace that was watched; `None`: all.
    pub namespace: Option<String>,
    /// Plurals of kinds that could not be read.
    pub missing: Vec<String>,
}

/// A line, and when it was.
#[derive(Clone, Debug, PartialEq)]
pub struct Moment {
    /// Since the recording began.
    pub at: Duration,
    /// Which line it is of, counted from 1.
    pub line: u64,
    /// What happened.
    pub item: Item,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// An object is there, or is another now. What is not on the list of what may be kept is not in it.
    Put(Value),
    /// An object is gone.
    Gone(ObjectId),
    /// Changes of a kind were missed, or seen late, for so long.
    Gap {
        /// `pods`.
        plural: &'static str,
        /// Until this line.
        lasted: Duration,
    },
    /// All objects of the start are recorded.
    Listed,
    /// The recording was ended in order.
    Ended(Ended),
}

/// A recorded object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId {
    /// Its kind: `Pod`.
    pub kind: &'static str,
    /// Its namespace; empty, if its kind has none.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ObjectId {
    /// Returns the identity of an object; `None`: its kind is not recorded.
    #[must_use]
    pub fn of(object: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let kind = KINDS.iter().find(|kind| object["kind"] == kind.kind)?;
        Some(Self { kind: kind.kind, namespace: text(&object["metadata"]["namespace"]), name: text(&object["metadata"]["name"]) })
    }
}

/// Why a recording ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Somebody said so.
    Stopped,
    /// The time was over.
    Time,
    /// The file was as large as it might be.
    Size,
}

impl Ended {
    /// Each by the word that stands in the file.
    pub(crate) const ALL: [(&'static str, Self); 3] = [("stopped", Self::Stopped), ("time", Self::Time), ("size", Self::Size)];

    pub(crate) fn word(self) -> &'static str {
        Self::ALL.iter().find(|(_, ended)| *ended == self).map_or("", |(word, _)| word)
    }
}

impl Header {
    /// The line.
    #[must_use]
    pub fn line(&self) -> String {
        let Self { at, controllers, because, is_hashed, namespace, missing } = self;
        json!({"trace": "berth", "version": VERSION, "at": at, "controllers": controllers, "because": because, "hashed": is_hashed,
            "namespace": namespace, "missing": missing})
        .to_string()
    }
}

/// A line that says what happened at `at`.
pub(crate) fn line(at: Duration, member: &str, value: &Value) -> String {
    let mut line = json!({"ms": u64::try_from(at.as_millis()).unwrap_or(u64::MAX)});
    line[member] = value.clone();
    line.to_string()
}
