//! Finds the default class.

use super::reader::Reader;
use crate::{ApiError, resource};
use berth_api::Kind;
use berth_store::{Entry, MinRevision};

/// Returns the classes whose JSON contains `mark`. This runs for every new pod, and few classes are a default, so
/// others are not decoded.
pub(super) async fn classes<K: Kind>(reader: &Reader, mark: &str, as_of: &MinRevision) -> Result<Vec<K>, ApiError> {
    let entries = reader.list(resource::of::<K>(), None, as_of).await?;
    entries.iter().filter(|entry| holds(&entry.value, mark)).map(|entry| decoded(entry)).collect()
}

fn holds(value: &[u8], mark: &str) -> bool {
    std::str::from_utf8(value).is_ok_and(|text| text.contains(mark))
}

/// Returns the object of an entry, without defaults.
pub(super) fn decoded<K: Kind>(entry: &Entry) -> Result<K, ApiError> {
    berth_api::decode::decode_bytes(&entry.value)
        .map_err(|error| ApiError::Internal { message: format!("{} cannot be read: {error}", entry.key) })
}
