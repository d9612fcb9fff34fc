//! The lines of a recording, and how they are encoded.

use crate::allowed::KINDS;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::time::Duration;

/// The version of the format that this berth writes. It also reads all older ones: version 2 adds the lines of [`Item::Usage`], and
/// autoscalers.
pub(crate) const VERSION: u64 = 2;

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The start of the recording. All times are relative to it.
    pub at: Timestamp,
    /// The detected controllers of the cluster: `berth`, `kubernetes`.
    pub controllers: String,
    /// The evidence for this.
    pub because: String,
    /// Whether names are hashed.
    pub is_hashed: bool,
    /// The only namespace in the recording. `None`: all namespaces.
    pub namespace: Option<String>,
    /// The plurals of kinds that the recorder could not read.
    pub missing: Vec<String>,
}

/// A line with its time.
#[derive(Clone, Debug, PartialEq)]
pub struct Moment {
    /// The time since the start of the recording.
    pub at: Duration,
    /// The line number, from 1.
    pub line: u64,
    /// What happened.
    pub item: Item,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// An object was created or changed. Contains the allowed fields only.
    Put(Value),
    /// An object was deleted.
    Gone(ObjectId),
    /// The recorder missed changes of a kind, or saw them late, during this period.
    Gap {
        /// `pods`.
        plural: &'static str,
        /// The length of the period up to this line.
        lasted: Duration,
    },
    /// What the pods of a workload use.
    Usage(Usage),
    /// The recording contains all objects of the initial lists.
    Listed,
    /// The recording ended in order.
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
    /// Returns the identity of an object, or `None` if its kind is not recorded.
    #[must_use]
    pub fn of(object: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let kind = KINDS.iter().find(|kind| object["kind"] == kind.kind)?;
        Some(Self { kind: kind.kind, namespace: text(&object["metadata"]["namespace"]), name: text(&object["metadata"]["name"]) })
    }
}

/// The usage of a workload's pods at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The workload.
    pub workload: ObjectId,
    /// The number of its pods with a sample, without terminating ones.
    pub pods: u32,
    /// What they use together, in millicores.
    pub cpu_millis: i64,
    /// What they use together, in bytes.
    pub memory_bytes: i64,
}

/// Why a recording ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The user stopped it.
    Stopped,
    /// The requested time elapsed.
    Time,
    /// The file reached its maximum size.
    Size,
}

impl Ended {
    /// Each reason with its word in the file.
    pub(crate) const ALL: [(&'static str, Self); 3] = [("stopped", Self::Stopped), ("time", Self::Time), ("size", Self::Size)];

    pub(crate) fn word(self) -> &'static str {
        Self::ALL.iter().find(|(_, ended)| *ended == self).map_or("", |(word, _)| word)
    }
}

impl Header {
    /// Encodes the line.
    #[must_use]
    pub fn line(&self) -> String {
        let Self { at, controllers, because, is_hashed, namespace, missing } = self;
        json!({"trace": "berth", "version": VERSION, "at": at, "controllers": controllers, "because": because, "hashed": is_hashed,
            "namespace": namespace, "missing": missing})
        .to_string()
    }
}

/// Encodes a line for an event at `at`.
pub(crate) fn line(at: Duration, member: &str, value: &Value) -> String {
    let mut line = json!({"ms": u64::try_from(at.as_millis()).unwrap_or(u64::MAX)});
    line[member] = value.clone();
    line.to_string()
}
