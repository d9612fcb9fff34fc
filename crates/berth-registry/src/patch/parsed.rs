//! A patch as a request carries it, read.

use super::{go::as_in_go, json, merge};
use crate::{ApiError, Patch};
use berth_api::{
    FieldError, Path,
    decode::{DecodeError, parse_json},
};
use berth_identity::GroupKind;
use serde_json::Value;
use std::borrow::Cow;

/// A patch that has been read.
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

    /// The result on a view that has no lists: a strategic patch is a merge patch there.
    pub(crate) fn apply_plain(&self, before: &Value) -> Result<Value, ApiError> {
        match self {
            Self::Json(bytes) => json(before, bytes),
            Self::Merge(value, _) => Ok(merge(before.clone(), value)),
            Self::Strategic(value, _) => Ok(merge(before.clone(), value)),
        }
    }

    /// Paths of fields that the patch has twice.
    pub(crate) fn duplicates(&self) -> &[String] {
        match self {
            Self::Json(_) => &[],
            Self::Merge(_, duplicates) | Self::Strategic(_, duplicates) => duplicates,
        }
    }

    /// As [`Parsed::unreadable`], of a value that does not fit the kind.
    pub(crate) fn unfit(&self, error: &DecodeError) -> ApiError {
        match (self, &error.converted) {
            (Self::Strategic(..), Some(converted)) => self.unreadable(converted),
            _ => self.unreadable(&error.to_string()),
        }
    }

    /// 422 about the patch itself: what it makes of the object cannot be read.
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
