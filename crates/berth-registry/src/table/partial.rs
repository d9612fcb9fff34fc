//! Responses with only the metadata of objects.

use super::{MetaVersion, bookmark_meta, list_meta};
use crate::{ApiError, Current, List, WatchEvent};
use berth_api::k8s_openapi::apimachinery::pkg::apis::meta::v1::{ListMeta, ObjectMeta};
use berth_store::{Entry, Revision};
use serde::{Deserialize, Serialize};

/// The metadata of any object, as an object of the API group `meta.k8s.io`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PartialObjectMetadata {
    kind: &'static str,
    api_version: &'static str,
    metadata: ObjectMeta,
}

/// A page of a list with metadata only, without its items. [`PartialObjectMetadata::of_entry`] builds them one by one.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PartialObjectMetadataList {
    kind: &'static str,
    api_version: &'static str,
    metadata: ListMeta,
    items: [PartialObjectMetadata; 0],
}

/// The decoded part of an object. The rest is skipped.
#[derive(Deserialize)]
struct OnlyMetadata {
    #[serde(default)]
    metadata: ObjectMeta,
}

impl PartialObjectMetadata {
    pub(super) fn new(metadata: ObjectMeta) -> Self {
        Self { kind: "PartialObjectMetadata", api_version: MetaVersion::V1.api_version(), metadata }
    }

    /// Returns the same in another version.
    #[must_use]
    pub fn in_version(self, version: MetaVersion) -> Self {
        Self { api_version: version.api_version(), ..self }
    }

    /// Returns the metadata of one object.
    ///
    /// # Errors
    /// [`ApiError::Internal`] if the stored value is not an object.
    pub fn of_object(current: &Current) -> Result<Self, ApiError> {
        match current {
            Current::Stored(entry) => Self::of_entry(entry),
            Current::Made(value) => OnlyMetadata::deserialize(value).map(|only| Self::new(only.metadata)).map_err(|e| unreadable(&e)),
        }
    }

    /// Returns the metadata of one item of a list.
    ///
    /// # Errors
    /// As [`PartialObjectMetadata::of_object`].
    pub fn of_entry(entry: &Entry) -> Result<Self, ApiError> {
        of_entry(entry, entry.mod_revision)
    }

    /// Returns the metadata of an event of a watch, or `None` for an error, which is sent unchanged.
    ///
    /// # Errors
    /// As [`PartialObjectMetadata::of_object`].
    pub fn of_watch_event(event: &WatchEvent) -> Result<Option<Self>, ApiError> {
        let partial = match event {
            WatchEvent::Added(entry) => of_entry(entry, entry.mod_revision)?,
            WatchEvent::Modified(event) => of_entry(&event.entry, event.entry.mod_revision)?,
            WatchEvent::Deleted { last, revision } => of_entry(last, *revision)?,
            WatchEvent::Bookmark { revision, initial_events_end } => Self::new(bookmark_meta(*revision, *initial_events_end)),
            WatchEvent::Error(_) => return Ok(None),
        };
        Ok(Some(partial))
    }
}

impl PartialObjectMetadataList {
    /// Returns the metadata of a page of a list.
    #[must_use]
    pub fn head(list: &List, version: MetaVersion) -> Self {
        Self { kind: "PartialObjectMetadataList", api_version: version.api_version(), metadata: list_meta(list), items: [] }
    }
}

fn of_entry(entry: &Entry, revision: Revision) -> Result<PartialObjectMetadata, ApiError> {
    let mut only: OnlyMetadata = serde_json::from_slice(&entry.value).map_err(|error| unreadable(&error))?;
    only.metadata.resource_version = Some(revision.to_string());
    Ok(PartialObjectMetadata::new(only.metadata))
}

fn unreadable(error: &serde_json::Error) -> ApiError {
    ApiError::Internal { message: format!("cannot read the metadata of a stored object: {error}") }
}
