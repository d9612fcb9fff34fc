//! When a finished Job is deleted.

use super::{
    ending::{COMPLETE, FAILED},
    observe::true_condition,
};
use crate::view::JobView;
use jiff::{SignedDuration, Timestamp};

/// When a finished Job expires (`spec.ttlSecondsAfterFinished`); `None`: it is not finished, or has no such time.
///
/// Source: kubernetes `pkg/controller/ttlafterfinished/ttlafterfinished_controller.go`.
#[must_use]
pub fn expires_at(job: &JobView) -> Option<Timestamp> {
    let ttl = job.spec.ttl_seconds_after_finished?;
    let finished = true_condition(&job.status, COMPLETE).or_else(|| true_condition(&job.status, FAILED))?;
    let at = finished.last_transition_time.as_ref()?.0;
    Some(at.checked_add(SignedDuration::from_secs(ttl.into())).unwrap_or(Timestamp::MAX))
}
