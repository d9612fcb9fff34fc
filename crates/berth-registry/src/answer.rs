//! The results of verbs.

use crate::ApiError;
use berth_store::{Entry, Event, Revision};
use std::{borrow::Cow, sync::Arc};

/// The result of a write.
#[derive(Debug)]
pub struct Written {
    /// The current object.
    pub object: Current,
    /// Whether it was created (201) rather than changed (200).
    pub created: bool,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
    /// Annotations for the audit log: names and values.
    pub audit: Vec<(Cow<'static, str>, String)>,
}

/// The object in a result.
#[derive(Clone, Debug)]
pub enum Current {
    /// The stored object.
    Stored(Arc<Entry>),
    /// The object of a dry run (without a resource version), or a view such as `Scale` or an eviction's `Status`. The
    /// JSON is complete.
    Made(serde_json::Value),
}

impl Current {
    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Stored(entry) => entry.name(),
            Self::Made(value) => value["metadata"]["name"].as_str().unwrap_or_default(),
        }
    }

    /// Whether this is the stored object in this version. After a write, that means that the write changed nothing.
    pub(crate) fn is_at(&self, revision: Revision) -> bool {
        matches!(self, Self::Stored(entry) if entry.mod_revision == revision)
    }
}

/// The result of a deletion.
#[derive(Debug)]
pub enum Deleted {
    /// The object is terminating (grace period, finalizers), or its kind always returns the object (pods, namespaces).
    Object(Current),
    /// The object is deleted.
    Gone {
        /// `metadata.uid`.
        uid: String,
        /// The revision of the deletion, absent for a dry run.
        revision: Option<Revision>,
    },
}

/// A page of a list.
#[derive(Debug)]
pub struct List {
    /// In key order.
    pub items: Vec<Arc<Entry>>,
    /// `metadata.resourceVersion`.
    pub revision: Revision,
    /// `metadata.continue`, empty on the last page.
    pub continue_token: String,
    /// `metadata.remainingItemCount`: only with a limit, without selectors, and when not 0.
    pub remaining: Option<usize>,
}

/// One event of a watch, after selectors.
#[derive(Clone, Debug)]
pub enum WatchEvent {
    /// A new object, or one that starts to match.
    Added(Arc<Entry>),
    /// A changed object. The shared event's `encoded` may contain the line.
    Modified(Arc<Event>),
    /// A deleted object, or one that no longer matches (with its previous state and the new revision).
    Deleted {
        /// The last state that matched.
        last: Arc<Entry>,
        /// The revision to show.
        revision: Revision,
    },
    /// Everything up to this revision has been sent. `initial_events_end` marks the end of a streaming list.
    Bookmark {
        /// The revision to show.
        revision: Revision,
        /// Whether to carry `k8s.io/initial-events-end`.
        initial_events_end: bool,
    },
    /// Why the watch ends: usually because the client is too slow (410), or because an object cannot be converted to
    /// this version.
    Error(ApiErrorBox),
}

/// A shared error inside a stream.
pub type ApiErrorBox = Arc<ApiError>;
