//! What a request carries besides its path: already parsed, not yet checked.

use crate::BoxObject;
use berth_store::Revision;

/// The object of a create or an update.
#[derive(Debug)]
pub enum Body {
    /// From the wire.
    Json(Vec<u8>),
    /// From inside the process: typed, nothing to decode.
    Object(BoxObject),
}

/// A patch, by its content type.
#[derive(Clone, Debug)]
pub enum Patch {
    /// `application/json-patch+json`.
    Json(Vec<u8>),
    /// `application/merge-patch+json`.
    Merge(Vec<u8>),
    /// As `Merge`, from inside the process.
    MergeValue(serde_json::Value),
    /// `application/strategic-merge-patch+json`.
    Strategic(Vec<u8>),
    /// `application/apply-patch+yaml`, turned into JSON.
    Apply(Vec<u8>),
}

/// How unknown and duplicate fields of a body are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Dropped.
    Ignore,
    /// Dropped, with a warning each.
    #[default]
    Warn,
    /// Refused.
    Strict,
}

/// Of create, update and patch. Values are as sent: the registry answers bad ones with 422.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// `dryRun`.
    pub dry_run: Vec<String>,
    /// `fieldManager`.
    pub field_manager: String,
    /// `fieldValidation`; empty: Warn.
    pub field_validation: String,
    /// `force`, if sent.
    pub force: Option<bool>,
    /// What the stored object must be, for writers inside the process; a mismatch is a conflict.
    pub precondition: Precondition,
}

/// What must hold of the stored object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Precondition {
    /// `metadata.uid`.
    pub uid: Option<String>,
    /// `metadata.resourceVersion`.
    pub resource_version: Option<String>,
}

/// `propagationPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PropagationPolicy {
    /// Dependents go after the object.
    Background,
    /// The object goes after its dependents.
    Foreground,
    /// Dependents stay.
    Orphan,
}

impl PropagationPolicy {
    /// The wire's word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

/// Of delete. Values are as sent.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    /// `dryRun`.
    pub dry_run: Vec<String>,
    /// `gracePeriodSeconds`.
    pub grace_period_seconds: Option<i64>,
    /// `propagationPolicy`; checked by the registry.
    pub propagation_policy: Option<String>,
    /// `orphanDependents`.
    pub orphan_dependents: Option<bool>,
    /// `preconditions`.
    pub precondition: Precondition,
    /// Nobody looks at an object that is gone: it is not shown as it was last, whatever its kind.
    pub is_last_unseen: bool,
}

/// Of get.
#[derive(Clone, Debug, Default)]
pub struct GetOptions {
    /// `resourceVersion`.
    pub resource_version: String,
}

/// Of list and deletecollection. Values are as sent.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// `labelSelector`.
    pub label_selector: String,
    /// `fieldSelector`.
    pub field_selector: String,
    /// `limit`; 0 and less: none.
    pub limit: i64,
    /// `continue`.
    pub continue_token: String,
    /// `resourceVersion`.
    pub resource_version: String,
    /// `resourceVersionMatch`.
    pub resource_version_match: String,
    /// `sendInitialEvents`, which a plain list may not carry.
    pub send_initial_events: Option<bool>,
}

/// Of watch. Values are as sent; the time-out is the caller's.
#[derive(Clone, Debug, Default)]
pub struct WatchOptions {
    /// `labelSelector`.
    pub label_selector: String,
    /// `fieldSelector`.
    pub field_selector: String,
    /// `resourceVersion`.
    pub resource_version: String,
    /// `resourceVersionMatch`.
    pub resource_version_match: String,
    /// `allowWatchBookmarks`.
    pub allow_bookmarks: bool,
    /// `sendInitialEvents`.
    pub send_initial_events: Option<bool>,
    /// `continue`, which means nothing for a watch.
    pub continue_token: String,
    /// A bookmark each time the watch has caught up, not only once a minute: for readers in the process, who must know how new they are.
    pub progress: bool,
}

/// The revision that a wire text names, if it is one.
#[must_use]
pub fn parse_revision(text: &str) -> Option<Revision> {
    text.parse().ok().map(Revision)
}
