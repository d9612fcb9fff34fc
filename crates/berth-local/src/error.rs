//! The registry's errors as a cluster's.

use berth_controllers::ClusterError;
use berth_registry::{ApiError, RESOURCE_QUOTA};
use std::time::Duration;

/// What a refusal by the registry means to a controller: the same as from any API server.
#[must_use]
pub fn cluster_error(error: ApiError) -> ClusterError {
    let text = error.to_string();
    match error {
        ApiError::NotFound { .. } => ClusterError::NotFound(text),
        ApiError::AlreadyExists { .. } => ClusterError::AlreadyExists(text),
        ApiError::Conflict { .. } | ApiError::ApplyConflict { .. } => ClusterError::Conflict(text),
        ApiError::Forbidden { causes, .. } if causes.iter().any(|cause| cause.reason == "NamespaceTerminating") => {
            ClusterError::NamespaceTerminating(text)
        }
        ApiError::Forbidden { refused_by: Some(RESOURCE_QUOTA), .. } => ClusterError::ExceedsQuota(text),
        ApiError::TooManyRequests { retry_after_seconds, .. } => {
            let retry_after = Some(retry_after_seconds).filter(|seconds| *seconds > 0).map(|seconds| Duration::from_secs(seconds.into()));
            ClusterError::Busy { message: text, retry_after }
        }
        ApiError::Expired { .. } | ApiError::TooLargeResourceVersion { .. } | ApiError::NoSpace { .. } => {
            ClusterError::Busy { message: text, retry_after: None }
        }
        ApiError::Unavailable { .. } | ApiError::OutcomeUnknown { .. } | ApiError::Internal { .. } => ClusterError::Unknown(text),
        ApiError::Invalid { .. }
        | ApiError::BadRequest { .. }
        | ApiError::BadRequestFields { .. }
        | ApiError::Denied { .. }
        | ApiError::Forbidden { .. }
        | ApiError::MethodNotAllowed
        | ApiError::NotServed { .. }
        | ApiError::UnknownResource
        | ApiError::Unprocessable
        | ApiError::TooLarge { .. }
        | ApiError::UnsupportedMediaType { .. }
        | ApiError::NotSupported { .. } => ClusterError::Refused(text),
    }
}
