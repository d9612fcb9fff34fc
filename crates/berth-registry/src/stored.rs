//! Converts between objects and their stored form: JSON without a resource version, in the storage version of the
//! resource.

use crate::{ApiError, BoxObject, Resource, fresh::SharedObject, header};
use berth_api::{Object, decode::from_json};
use berth_store::{Entry, Event, Header};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use std::{
    error::Error,
    sync::{Arc, OnceLock},
};

/// The number of attempts at a change without a resource version before the client gets a conflict.
pub(crate) const ATTEMPTS: u32 = 5;

/// A stored object.
pub(crate) struct Stored {
    pub(crate) entry: Arc<Entry>,
    /// The decoded object, with defaults, without a resource version.
    pub(crate) object: SharedObject,
    /// Whether it may be outdated. A result that is based on it counts only if it is written.
    pub(crate) may_be_old: bool,
}

/// Returns the stored form of an object.
///
/// # Errors
/// The conversion to the storage version fails.
pub(crate) fn encode(resource: &Resource, object: &dyn Object) -> Result<Bytes, ApiError> {
    debug_assert!(object.meta().resource_version.is_none(), "a resource version is spliced in when reading");
    match &resource.stored_form {
        Some(form) => form.encode(object).map_err(|error| ApiError::Internal { message: error.to_string() }),
        None => Ok(object.encode().into()),
    }
}

/// Whether a write of an unchanged object would store the same value. A custom object may be stored in another version,
/// or by an earlier schema: then the write migrates it, as upstream's does.
pub(crate) fn is_stored_as(resource: &Resource, entry: &Entry, object: &dyn Object) -> bool {
    resource.is_built_in() || encode(resource, object).is_ok_and(|value| value == entry.value)
}

/// Returns the object of an entry, with its defaults, without a resource version.
pub(crate) fn load(resource: &Resource, entry: &Entry) -> Result<BoxObject, ApiError> {
    let converted;
    let bytes = match &resource.stored_form {
        Some(form) => {
            converted = form.show(&entry.value).map_err(|error| unreadable(entry, &error))?;
            converted.as_ref().unwrap_or(&entry.value)
        }
        None => &entry.value,
    };
    let mut object = resource.rules.decode_stored(bytes).map_err(|error| unreadable(entry, &error))?;
    object.set_defaults();
    Ok(object)
}

pub(crate) fn unreadable(entry: &Entry, error: &dyn Error) -> ApiError {
    ApiError::Internal { message: format!("{} at revision {} cannot be read: {error}", entry.key, entry.mod_revision) }
}

/// Returns the object as a JSON tree with its resource version, which patches apply to.
pub(crate) fn document(resource: &Resource, entry: &Arc<Entry>) -> Result<Value, ApiError> {
    let entry = shown(resource, Arc::clone(entry))?;
    from_json(&crate::splice::encode_entry(&entry))
        .map_err(|error| ApiError::Internal { message: format!("{} cannot be read: {error}", entry.key) })
}

/// Returns type, metadata and status of the object as a JSON tree, with its resource version.
pub(crate) fn status_document(resource: &Resource, entry: &Arc<Entry>) -> Result<Value, ApiError> {
    let entry = shown(resource, Arc::clone(entry))?;
    let mut part: StatusPart =
        from_json(&entry.value).map_err(|error| ApiError::Internal { message: format!("{} cannot be read: {error}", entry.key) })?;
    part.metadata["resourceVersion"] = entry.mod_revision.to_string().into();
    // A status patch does not concern owners, which are the largest part of many objects' metadata.
    part.metadata.as_object_mut().map(|metadata| metadata.remove("managedFields"));
    let mut document = json!({"apiVersion": part.api_version, "kind": part.kind});
    (document["metadata"], document["status"]) = (part.metadata, part.status);
    Ok(document)
}

/// Returns the status of the object as a JSON tree.
pub(crate) fn status(resource: &Resource, entry: &Arc<Entry>) -> Result<Value, ApiError> {
    let entry = shown(resource, Arc::clone(entry))?;
    let part: OnlyStatus =
        from_json(&entry.value).map_err(|error| ApiError::Internal { message: format!("{} cannot be read: {error}", entry.key) })?;
    Ok(part.status)
}

#[derive(Deserialize)]
struct OnlyStatus {
    #[serde(default)]
    status: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StatusPart {
    api_version: String,
    kind: String,
    metadata: Value,
    #[serde(default)]
    status: Value,
}

/// Returns the entry in the version of `resource`.
///
/// # Errors
/// The conversion from the storage version fails.
pub(crate) fn shown(resource: &Resource, entry: Arc<Entry>) -> Result<Arc<Entry>, ApiError> {
    let Some(form) = &resource.stored_form else { return Ok(entry) };
    let value = form.show(&entry.value).map_err(|error| unreadable(&entry, &error))?;
    Ok(value.map_or_else(|| Arc::clone(&entry), |value| with_value(resource, &entry, value, None)))
}

/// Does the same as [`shown`] for an entry that was just written as `object`. The write has succeeded, so a failed
/// conversion is no error, and `object` is returned.
pub(crate) fn shown_after_write(resource: &Resource, entry: Arc<Entry>, object: &dyn Object) -> Arc<Entry> {
    let shown = shown(resource, Arc::clone(&entry));
    shown.unwrap_or_else(|_| with_value(resource, &entry, object.encode().into(), None))
}

/// Returns the entry with another value, whose header is decoded if it is unknown.
pub(crate) fn with_value(resource: &Resource, entry: &Entry, value: Bytes, header: Option<Header>) -> Arc<Entry> {
    let header = header.unwrap_or_else(|| header::read(&resource.selectable_fields, &value));
    let (create_revision, mod_revision) = (entry.create_revision, entry.mod_revision);
    Arc::new(Entry { key: entry.key.clone(), value, header, create_revision, mod_revision })
}

/// Returns the entry with another object, which is not stored.
///
/// # Errors
/// As [`encode`].
pub(crate) fn with_object(resource: &Resource, entry: &Entry, object: &dyn Object) -> Result<Arc<Entry>, ApiError> {
    let value = encode(resource, object)?;
    let header = header_of(resource, object, &value);
    Ok(with_value(resource, entry, value, header))
}

/// Returns the header of an object's stored form, or `None` if it must be decoded.
pub(crate) fn header_of(resource: &Resource, object: &dyn Object, value: &[u8]) -> Option<Header> {
    if resource.is_built_in() { header::of(resource, object, value) } else { None }
}

/// Does the same as [`shown`] for a change.
///
/// # Errors
/// As [`shown`], for the object before or after the change.
pub(crate) fn shown_event(resource: &Resource, event: Arc<Event>) -> Result<Arc<Event>, ApiError> {
    if resource.stored_form.is_none() {
        return Ok(event);
    }
    let shown = |entry: &Arc<Entry>| shown(resource, Arc::clone(entry));
    let (entry, previous) = (shown(&event.entry)?, event.previous.as_ref().map(shown).transpose()?);
    Ok(Arc::new(Event { kind: event.kind, entry, previous, encoded: OnceLock::new() }))
}
