//! Why an admitted write is not there.

use crate::ApiError;

/// Why an admitted write is not there.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Another writer was first: the object has changed, or its name is taken.
    Raced,
    Refused(ApiError),
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self::Refused(error)
    }
}

impl Failure {
    /// Whether the write may have happened all the same.
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self, Self::Refused(ApiError::OutcomeUnknown { .. }))
    }
}
