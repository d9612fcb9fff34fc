//! What verbs give back.

use crate::ApiError;
use berth_store::{Entry, Event, Revision};
use std::sync::Arc;

/// What a write gives back.
#[derive(Debug)]
pub struct Written {
    /// The object as it is now.
    pub object: Current,
    /// Whether it was created (201) rather than changed (200).
    pub created: bool,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
    /// Annotations for the audit log: names and values.
    pub audit: Vec<(&'static str, String)>,
}

/// An object to answer with.
#[derive(Clone, Debug)]
pub enum Current {
    /// As it stands in the store.
    Stored(Arc<Entry>),
    /// Of a dry run (no resource version), or a view such as `Scale` or an eviction's `Status`: complete JSON, nothing to splice in.
    Made(serde_json::Value),
}

impl Current {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Stored(entry) => entry.name(),
            Self::Made(value) => value["metadata"]["name"].as_str().unwrap_or_default(),
        }
    }

    /// Whether this is what is stored, in this version: after a write, that nothing had to be written.
    pub(crate) fn is_at(&self, revision: Revision) -> bool {
        matches!(self, Self::Stored(entry) if entry.mod_revision == revision)
    }
}

/// What a delete gives back.
#[derive(Debug)]
pub enum Deleted {
    /// It lingers (grace period, finalizers), or its kind always answers with the object (pods, namespaces).
    Object(Current),
    /// It is gone; its uid.
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

/// One line of a watch, after selectors have been applied.
#[derive(Clone, Debug)]
pub enum WatchEvent {
    /// New, or it started to match.
    Added(Arc<Entry>),
    /// Changed; also carries the shared event, whose `encoded` may hold the line.
    Modified(Arc<Event>),
    /// Gone, or it stopped to match (then: the previous state, with the new revision).
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
    /// Why the watch ends: mostly that the reader fell behind (410), or that an object cannot be shown in this version.
    Error(ApiErrorBox),
}

/// A shared error inside a stream.
pub type ApiErrorBox = Arc<ApiError>;
