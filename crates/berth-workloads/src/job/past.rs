//! How pods ended that a Job has counted.

use super::backoff::FailureStreak;
use crate::view::{JobPodView, PodPhase, PodReplacement};
use jiff::Timestamp;

/// How a pod ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodEnd {
    /// It succeeded at this time.
    Succeeded(Timestamp),
    /// It failed at this time.
    Failed(Timestamp),
}

impl FailureStreak {
    /// Takes in the end of a pod.
    pub fn take_in(&mut self, end: PodEnd) {
        match end {
            PodEnd::Succeeded(at) => self.succeeded(at),
            PodEnd::Failed(at) => self.failed(at),
        }
    }
}

/// Returns how a pod of the Job ended, if this change of the cache shows that the Job has counted it.
///
/// The controller takes in each change, and so knows the streak without the counted pods. After a restart, the first list shows the counted pods that still
/// exist. A pod that the Job gave up has no end: it is deleted as soon as it finishes. `None` is the side where the pod does not exist.
#[must_use]
pub fn counted_end(old: Option<&JobPodView>, new: Option<&JobPodView>, replacement: PodReplacement) -> Option<PodEnd> {
    let is_tracked = |pod: Option<&JobPodView>| pod.is_some_and(JobPodView::is_tracked);
    match (old, new) {
        (Some(old), new) if old.is_tracked() && !is_tracked(new) => end_of(old, replacement),
        (None, Some(new)) if !new.is_tracked() && new.pod.phase.is_finished() && new.pod.meta.deleted.is_none() => end_of(new, replacement),
        _ => None,
    }
}

/// How a pod ended, if it has.
pub(super) fn end_of(pod: &JobPodView, replacement: PodReplacement) -> Option<PodEnd> {
    let at = pod.finished_at?;
    match pod.pod.phase {
        PodPhase::Succeeded => Some(PodEnd::Succeeded(at)),
        _ if is_failed(pod, replacement) => Some(PodEnd::Failed(at)),
        _ => None,
    }
}

/// Whether a pod counts as failed.
pub(super) fn is_failed(pod: &JobPodView, replacement: PodReplacement) -> bool {
    match pod.pod.phase {
        PodPhase::Failed => true,
        PodPhase::Succeeded => false,
        _ => replacement == PodReplacement::TerminatingOrFailed && pod.pod.meta.deleted.is_some(),
    }
}
