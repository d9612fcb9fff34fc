//! Why an admitted write was not stored.

use crate::ApiError;

/// Why an admitted write was not stored.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Another writer was first: the object has changed, or its name exists.
    Raced,
    Refused(ApiError),
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self::Refused(error)
    }
}

impl Failure {
    /// Whether the write may have been stored.
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self, Self::Refused(ApiError::OutcomeUnknown { .. }))
    }
}
