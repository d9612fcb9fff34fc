//! The options of a request besides its path, parsed but not validated.

use crate::BoxObject;
use berth_store::Revision;

/// The object of a create or an update.
#[derive(Debug)]
pub enum Body {
    /// JSON from a client.
    Json(Vec<u8>),
    /// A typed object from inside the process.
    Object(BoxObject),
}

/// A patch by content type.
#[derive(Clone, Debug)]
pub enum Patch {
    /// `application/json-patch+json`.
    Json(Vec<u8>),
    /// `application/merge-patch+json`.
    Merge(Vec<u8>),
    /// The same as `Merge`, from inside the process.
    MergeValue(serde_json::Value),
    /// `application/strategic-merge-patch+json`.
    Strategic(Vec<u8>),
    /// `application/apply-patch+yaml`, converted to JSON.
    Apply(Vec<u8>),
}

/// The handling of unknown and duplicate fields in a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Drops them.
    Ignore,
    /// Drops them with a warning each.
    #[default]
    Warn,
    /// Rejects them.
    Strict,
}

/// The options of create, update and patch, as sent. The registry rejects invalid ones with 422.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// `dryRun`.
    pub dry_run: Vec<String>,
    /// `fieldManager`.
    pub field_manager: String,
    /// `fieldValidation`. Empty: Warn.
    pub field_validation: String,
    /// `force`, if sent.
    pub force: Option<bool>,
    /// A precondition on the stored object, for writers inside the process. A mismatch is a conflict.
    pub precondition: Precondition,
}

/// Preconditions on the stored object.
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
    /// The garbage collector deletes dependents after the object.
    Background,
    /// The object is deleted after its dependents.
    Foreground,
    /// Dependents are kept.
    Orphan,
}

impl PropagationPolicy {
    /// Returns the name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

/// The options of delete, as sent.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    /// `dryRun`.
    pub dry_run: Vec<String>,
    /// `gracePeriodSeconds`.
    pub grace_period_seconds: Option<i64>,
    /// `propagationPolicy`, which the registry validates.
    pub propagation_policy: Option<String>,
    /// `orphanDependents`.
    pub orphan_dependents: Option<bool>,
    /// `preconditions`.
    pub precondition: Precondition,
    /// The caller ignores the last state of the deleted object, so the response omits it for every kind.
    pub is_last_unseen: bool,
}

/// The options of get.
#[derive(Clone, Debug, Default)]
pub struct GetOptions {
    /// `resourceVersion`.
    pub resource_version: String,
}

/// The options of list and deletecollection, as sent.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// `labelSelector`.
    pub label_selector: String,
    /// `fieldSelector`.
    pub field_selector: String,
    /// `limit`. 0 or less: none.
    pub limit: i64,
    /// `continue`.
    pub continue_token: String,
    /// `resourceVersion`.
    pub resource_version: String,
    /// `resourceVersionMatch`.
    pub resource_version_match: String,
    /// `sendInitialEvents`, which a list rejects.
    pub send_initial_events: Option<bool>,
}

/// The options of watch, as sent. The caller handles the timeout.
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
    /// `continue`, which a watch ignores.
    pub continue_token: String,
    /// Requests a bookmark each time the watch has caught up, not only once a minute. For readers in the process that
    /// must know their revision.
    pub progress: bool,
}

/// The options of a request.
#[derive(Clone, Copy, Debug)]
pub enum RequestOptions<'a> {
    /// The server itself writes, without options.
    None,
    /// A create, an update or a patch.
    Write(&'a WriteOptions),
    /// A deletion.
    Delete(&'a DeleteOptions),
}

/// Parses a resource version.
#[must_use]
pub fn parse_revision(text: &str) -> Option<Revision> {
    text.parse().ok().map(Revision)
}
