//! The requests and answers of clients, as they recorded them, and their form on disk: one operation a line, as JSON.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A time: only the order of two times counts. For example, microseconds since the test began. All clients of a history read one clock, and it never
/// goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Moment(pub u64);

/// The `resourceVersion` of an object or a list: a revision of the one store that all operations of a history are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ResourceVersion(pub u64);

/// Which object: `configmaps/default/a`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Key(pub String);

/// Which objects a list or a watch is about: those whose keys begin so. `configmaps/default/`; empty for all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Prefix(pub String);

/// A written value. **No two writes of a history write the same value to a key**, so that a value identifies its writer. A client's name and a count
/// are enough, in a field or an annotation that nothing else changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Value(pub String);

/// `metadata.uid`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Uid(pub String);

/// An object as an answer showed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Object {
    /// What it holds.
    pub value: Value,
    /// Of its last change. In [`Event::Deleted`]: of the deletion.
    pub resource_version: ResourceVersion,
    /// Which of the objects that have had this key one after the other. Left out where the recorder does not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<Uid>,
}

/// One of several objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Item {
    /// Its key.
    pub key: Key,
    /// What it was.
    pub object: Object,
}

/// One request of one client, with all that came of it: a line of a recorded history. Its place in the history means nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Operation {
    /// Who asked, and, where there are several servers, whom. For messages only.
    pub client: String,
    /// A moment before anything of the request was sent.
    pub invoked: Moment,
    /// A moment after the answer was complete, or, where the outcome is unknown, when the client gave up: the request may take effect later still.
    pub returned: Moment,
    /// What was asked, and what came of it.
    pub request: Request,
}

/// What was asked, and what came of it.
///
/// Objects go when they are deleted. A deletion that only sets `deletionTimestamp` is recorded as an [`Request::Update`], and what removes the last
/// finalizer as a [`Request::Delete`]. A patch is an update. What other writers than the clients do to the keys is to be recorded too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Request {
    /// GET of one object.
    Get {
        /// Which.
        key: Key,
        /// How new it must be.
        #[serde(default, skip_serializing_if = "Freshness::is_default")]
        freshness: Freshness,
        /// What it was.
        outcome: Outcome<Object>,
    },
    /// POST.
    Create {
        /// The new object's key. Where the server chose the name and the outcome is unknown: omit the operation, and let no other name have its value.
        key: Key,
        /// What it is to hold.
        value: Value,
        /// The object as it was made.
        outcome: Outcome<Object>,
    },
    /// PUT or PATCH of an object that exists.
    Update {
        /// Which.
        key: Key,
        /// What it is to hold from now on.
        value: Value,
        /// What must hold of the object that is replaced.
        #[serde(default, skip_serializing_if = "Preconditions::is_default")]
        preconditions: Preconditions,
        /// The object as it is then.
        outcome: Outcome<Object>,
    },
    /// DELETE of one object.
    Delete {
        /// Which.
        key: Key,
        /// What must hold of the object.
        #[serde(default, skip_serializing_if = "Preconditions::is_default")]
        preconditions: Preconditions,
        /// The answer about the deleted object.
        outcome: Outcome<Deleted>,
    },
    /// GET of a collection; with `limit`, all its pages as one operation.
    List {
        /// Of what.
        prefix: Prefix,
        /// How new it must be.
        #[serde(default, skip_serializing_if = "Freshness::is_default")]
        freshness: Freshness,
        /// What it was.
        outcome: Outcome<Listed>,
    },
    /// A watch, from when it was asked for to when it ended.
    Watch {
        /// Of what.
        prefix: Prefix,
        /// The `resourceVersion` that it was asked to begin after. Watches that begin with what is there are not recorded: list first.
        from: ResourceVersion,
        /// What it delivered, in that order.
        events: Vec<WatchEvent>,
    },
}

/// `resourceVersion` and `resourceVersionMatch` of a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Freshness {
    /// None given: everything that was acknowledged before the read began is in it.
    #[default]
    MostRecent,
    /// `0`: anything that has been.
    Any,
    /// This version or a later one.
    NotOlderThan(ResourceVersion),
    /// As of this version: lists only.
    Exact(ResourceVersion),
}

/// What must hold of an object that is changed, else nothing changes and the answer is `Conflict`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Preconditions {
    /// It is at this version, which a client had seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<ResourceVersion>,
    /// It is this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<Uid>,
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome<T> {
    /// It was executed, and this is the content of the answer.
    Ok(T),
    /// It was answered that nothing was done, and why.
    Refused(Reason),
    /// No answer came, or one that leaves it open (`Timeout`, `InternalError`): it may have been executed, may be executed later, or never.
    Unknown,
}

/// The `reason` of a `Status` by which a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Reason {
    /// The object is there.
    AlreadyExists,
    /// A precondition does not hold.
    Conflict,
    /// The object is not there.
    NotFound,
    /// `Gone` or `Expired`: what was asked for is older than what is remembered.
    Gone,
    /// For another reason, that has nothing to do with what is stored: `TooManyRequests`, `Forbidden`, a full store.
    Other,
}

/// The content of the answer to a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Deleted {
    /// Its uid, if the answer has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<Uid>,
    /// The version of the deletion itself, if the answer has it. Kubernetes' servers omit it (the object in their answer is the last state).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<ResourceVersion>,
}

/// A list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Listed {
    /// `metadata.resourceVersion`: everything is as it was then.
    pub resource_version: ResourceVersion,
    /// All that there is, in any order.
    pub items: Vec<Item>,
}

/// What a watch delivered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WatchEvent {
    /// When the client had it.
    pub seen: Moment,
    /// What it was.
    pub event: Event,
}

/// What happened to an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Event {
    /// It was made.
    Added(Item),
    /// It was changed.
    Modified(Item),
    /// It is gone; its last state, at the version of the deletion.
    Deleted(Item),
    /// Everything up to this version was delivered.
    Bookmark(ResourceVersion),
}

/// A line that is no operation.
#[derive(Debug, thiserror::Error)]
#[error("line {line} is no recorded operation")]
pub struct LineError {
    /// Which, from 1 on.
    pub line: usize,
    /// What is wrong with it.
    pub source: serde_json::Error,
}

impl Operation {
    /// Its line in a recorded history, with the line's end.
    #[must_use]
    pub fn to_line(&self) -> String {
        let mut line = serde_json::to_string(self).expect("names and numbers can be written as JSON");
        line.push('\n');
        line
    }
}

/// Reads a recorded history. Empty lines are passed over; a last line without an end, as a recorder leaves it that was killed, counts if it is whole.
///
/// # Errors
///
/// The first line that is no operation.
pub fn from_lines(text: &str) -> Result<Vec<Operation>, LineError> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(at, line)| serde_json::from_str(line).map_err(|source| LineError { line: at + 1, source })).collect()
}

impl Request {
    /// The object that it is about, if it is about one.
    pub(crate) fn key(&self) -> Option<&Key> {
        match self {
            Self::Get { key, .. } | Self::Create { key, .. } | Self::Update { key, .. } | Self::Delete { key, .. } => Some(key),
            Self::List { .. } | Self::Watch { .. } => None,
        }
    }

    /// Whether it would have changed something and may have done so.
    pub(crate) fn is_unknown_write(&self) -> bool {
        match self {
            Self::Create { outcome, .. } | Self::Update { outcome, .. } => *outcome == Outcome::Unknown,
            Self::Delete { outcome, .. } => *outcome == Outcome::Unknown,
            Self::Get { .. } | Self::List { .. } | Self::Watch { .. } => false,
        }
    }

    /// Why it was refused, if it was.
    pub(crate) fn refusal(&self) -> Option<Reason> {
        match self {
            Self::Get { outcome, .. } | Self::Create { outcome, .. } | Self::Update { outcome, .. } => outcome.refusal(),
            Self::Delete { outcome, .. } => outcome.refusal(),
            Self::List { outcome, .. } => outcome.refusal(),
            Self::Watch { .. } => None,
        }
    }
}

impl<T> Outcome<T> {
    fn refusal(&self) -> Option<Reason> {
        match self {
            Self::Refused(reason) => Some(*reason),
            Self::Ok(_) | Self::Unknown => None,
        }
    }
}

impl Event {
    /// The version that it shows.
    pub(crate) fn version(&self) -> ResourceVersion {
        match self {
            Self::Added(item) | Self::Modified(item) | Self::Deleted(item) => item.object.resource_version,
            Self::Bookmark(version) => *version,
        }
    }

    /// The object that it is about, if it is about one.
    pub(crate) fn item(&self) -> Option<&Item> {
        match self {
            Self::Added(item) | Self::Modified(item) | Self::Deleted(item) => Some(item),
            Self::Bookmark(_) => None,
        }
    }
}

impl Freshness {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Preconditions {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Prefix {
    /// Whether a list or watch of it shows this object.
    #[must_use]
    pub fn holds(&self, key: &Key) -> bool {
        key.0.starts_with(&self.0)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
