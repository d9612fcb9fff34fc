//! A decoded patch of a request.

use super::{go::as_in_go, json, merge};
use crate::{ApiError, Patch};
use berth_api::{
    FieldError, Path,
    decode::{DecodeError, parse_json},
};
use berth_identity::GroupKind;
use serde_json::Value;
use std::borrow::Cow;

/// A decoded patch.
pub(crate) enum Parsed<'a> {
    Json(&'a [u8]),
    Merge(Cow<'a, Value>, Vec<String>),
    Strategic(Value, Vec<String>),
}

impl<'a> Parsed<'a> {
    /// # Errors
    /// 400 for what is no JSON, or no object where one must be.
    pub(crate) fn new(patch: &'a Patch) -> Result<Self, ApiError> {
        Ok(match patch {
            Patch::Json(bytes) => Self::Json(bytes),
            Patch::MergeValue(value) => Self::Merge(Cow::Borrowed(value), Vec::new()),
            Patch::Merge(bytes) => {
                let (value, duplicates) = parse(bytes)?;
                Self::Merge(Cow::Owned(value), duplicates)
            }
            Patch::Strategic(bytes) => {
                let (value, duplicates) = parse(bytes)?;
                Self::Strategic(value, duplicates)
            }
            Patch::Apply(_) => return Err(ApiError::Internal { message: "an apply is no plain patch".to_owned() }),
        })
    }

    /// Applies the patch to a view without lists, where a strategic patch is equal to a merge patch.
    pub(crate) fn apply_plain(&self, before: &Value) -> Result<Value, ApiError> {
        match self {
            Self::Json(bytes) => json(before, bytes),
            Self::Merge(value, _) => Ok(merge(before.clone(), value)),
            Self::Strategic(value, _) => Ok(merge(before.clone(), value)),
        }
    }

    /// Returns the paths of duplicate fields in the patch.
    pub(crate) fn duplicates(&self) -> &[String] {
        match self {
            Self::Json(_) => &[],
            Self::Merge(_, duplicates) | Self::Strategic(_, duplicates) => duplicates,
        }
    }

    /// Returns [`Parsed::unreadable`] for a value that does not fit the kind.
    pub(crate) fn unfit(&self, error: &DecodeError) -> ApiError {
        match (self, &error.converted) {
            (Self::Strategic(..), Some(converted)) => self.unreadable(converted),
            _ => self.unreadable(&error.to_string()),
        }
    }

    /// Returns the 422 for a patch whose result cannot be decoded.
    pub(crate) fn unreadable(&self, why: &str) -> ApiError {
        let text = match self {
            Self::Json(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Self::Merge(value, _) => value.to_string(),
            Self::Strategic(value, _) => as_in_go(value),
        };
        let errors = vec![FieldError::invalid(&Path::new("patch"), text, why)];
        ApiError::Invalid { kind: GroupKind::default(), name: String::new(), errors }
    }
}

fn parse(bytes: &[u8]) -> Result<(Value, Vec<String>), ApiError> {
    let parsed = parse_json(bytes).map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))?;
    if !parsed.value.is_object() {
        return Err(ApiError::bad_request("error decoding patch: it is no JSON object"));
    }
    Ok((parsed.value, parsed.duplicates))
}
