//! Counts, limits and phases of an update.

use super::{EffectiveStrategy, REVISION_LABEL};
use crate::view::{PodPhase, PodView};
use berth_api::{
    apps::StatefulSetStatus,
    int_or_string::{Rounding, resolve},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// How many pods may be unavailable during a rolling update: at least 1. `None` if a text is not a percentage.
#[must_use]
pub fn max_unavailable(value: Option<&IntOrString>, replicas: i32) -> Option<i32> {
    value.map_or(Some(1), |value| resolve(value, replicas, Rounding::Down)).map(|number| number.max(1))
}

/// What one pod adds to the counts of a set's status, whatever its revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// 1 once it has a phase.
    pub replicas: i32,
    /// 1 while it runs and is ready.
    pub ready: i32,
    /// 1 once it has been ready for `minReadySeconds`.
    pub available: i32,
}

impl Share {
    /// The share of a pod at `now`.
    #[must_use]
    pub fn of(pod: &PodView, min_ready_seconds: i32, now: Timestamp) -> Self {
        let is_ready = is_ready(pod);
        let is_available = is_ready && pod.available_at(min_ready_seconds).is_some_and(|at| at <= now);
        Self { replicas: i32::from(pod.phase != PodPhase::Unset), ready: i32::from(is_ready), available: i32::from(is_available) }
    }
}

/// Whether it runs and is ready.
#[must_use]
pub fn is_ready(pod: &PodView) -> bool {
    pod.phase == PodPhase::Running && pod.ready
}

/// The revision in a pod's label; empty without one.
#[must_use]
pub fn revision_of(pod: &PodView) -> &str {
    pod.meta.labels.get(REVISION_LABEL).unwrap_or_default()
}

/// The counts of a set's status. `status` names the two revisions.
pub fn counts<'a>(status: &mut StatefulSetStatus, pods: impl IntoIterator<Item = &'a PodView>, min_ready_seconds: i32, now: Timestamp) {
    let mut total = Share::default();
    let (mut current, mut updated) = (0, 0);
    for pod in pods {
        let share = Share::of(pod, min_ready_seconds, now);
        total.replicas += share.replicas;
        total.ready += share.ready;
        total.available += share.available;
        let revision = pod.meta.labels.get(REVISION_LABEL).filter(|_| pod.meta.deleted.is_none());
        current += i32::from(revision == Some(&*status.current_revision));
        updated += i32::from(revision == Some(&*status.update_revision));
    }
    set_counts(status, total, current, updated);
}

pub(super) fn set_counts(status: &mut StatefulSetStatus, total: Share, current: i32, updated: i32) {
    status.replicas = total.replicas;
    status.ready_replicas = total.ready;
    status.available_replicas = total.available;
    status.current_replicas = current;
    status.updated_replicas = updated;
}

/// Makes the update revision the current one if every desired pod has it and is ready. OnDelete never completes an update.
pub fn complete_rolling_update(status: &mut StatefulSetStatus, strategy: EffectiveStrategy, replicas: i32) {
    let all = [status.updated_replicas, status.ready_replicas, status.replicas];
    if strategy != EffectiveStrategy::OnDelete && all.iter().all(|count| *count == replicas) {
        status.current_replicas = status.updated_replicas;
        status.current_revision.clone_from(&status.update_revision);
    }
}

/// The phase of a Recreate update (KEP-3541). It follows from the pods alone, so the update can resume after any interruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Old pods are not terminating yet.
    NeedsDeletion,
    /// Old pods are terminating.
    WaitingTermination,
    /// No old pod remains, and new ones are missing.
    ReadyForCreation,
    /// Every desired pod exists.
    Complete,
}

/// The counts of pods that determine the phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhaseCounts {
    /// Pods of other revisions than the update revision, desired or not, that are not terminating.
    pub old: usize,
    /// The same, terminating.
    pub old_deleting: usize,
    /// Desired pods of the update revision that are not terminating.
    pub new: usize,
}

impl PhaseCounts {
    /// The phase of a set with this number of replicas.
    #[must_use]
    pub fn phase(self, replicas: i64) -> Phase {
        if self.old > 0 {
            Phase::NeedsDeletion
        } else if self.old_deleting > 0 {
            Phase::WaitingTermination
        } else if i64::try_from(self.new).is_ok_and(|new| new < replicas) {
            Phase::ReadyForCreation
        } else {
            Phase::Complete
        }
    }
}
