//! Counts, limits and phases of an update.

use super::{Ordinals, REVISION_LABEL};
use crate::view::{PodPhase, PodView};
use berth_api::{
    apps::StatefulSetStatus,
    int_or_string::{Rounding, resolve},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// How many pods may be unavailable during a rolling update: at least 1. `None`: a text that is no percentage.
#[must_use]
pub fn max_unavailable(value: Option<&IntOrString>, replicas: i32) -> Option<i32> {
    value.map_or(Some(1), |value| resolve(value, replicas, Rounding::Down)).map(|number| number.max(1))
}

/// The counts of a set's status. `status` names the two revisions.
pub fn counts<'a>(status: &mut StatefulSetStatus, pods: impl IntoIterator<Item = &'a PodView>, min_ready_seconds: i32, now: Timestamp) {
    let (mut replicas, mut ready, mut available, mut current, mut updated) = (0, 0, 0, 0, 0);
    for pod in pods {
        replicas += i32::from(pod.phase != PodPhase::Unset);
        let is_ready = pod.phase == PodPhase::Running && pod.ready;
        ready += i32::from(is_ready);
        available += i32::from(is_ready && pod.available_at(min_ready_seconds).is_some_and(|at| at <= now));
        let revision = pod.meta.labels.get(REVISION_LABEL).filter(|_| pod.meta.deleted.is_none());
        current += i32::from(revision == Some(&status.current_revision));
        updated += i32::from(revision == Some(&status.update_revision));
    }
    status.replicas = replicas;
    status.ready_replicas = ready;
    status.available_replicas = available;
    status.current_replicas = current;
    status.updated_replicas = updated;
}

/// Makes the update revision the current one, if every wanted pod has it and is ready. Not under OnDelete, which never completes.
pub fn complete_rolling_update(status: &mut StatefulSetStatus, strategy_type: &str, replicas: i32) {
    let all = [status.updated_replicas, status.ready_replicas, status.replicas];
    if matches!(strategy_type, "RollingUpdate" | "Recreate") && all.iter().all(|count| *count == replicas) {
        status.current_replicas = status.updated_replicas;
        status.current_revision.clone_from(&status.update_revision);
    }
}

/// How far a Recreate update is (KEP-3541). Follows from the pods alone, so that it goes on after any interruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Old pods have not been told to go.
    NeedsDeletion,
    /// Old pods are on their way out.
    WaitingTermination,
    /// No old pod is left, new ones are missing.
    ReadyForCreation,
    /// Every wanted pod is there.
    Complete,
}

/// A pod, as far as the phase depends on it.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    /// Its number, whether it is wanted or not.
    pub ordinal: i64,
    /// The revision that its label names; `None` without one.
    pub revision: Option<&'a str>,
    /// Whether it is being deleted.
    pub deleting: bool,
}

/// The phase of a Recreate update to `update_revision`.
#[must_use]
pub fn recreate_phase(ordinals: Ordinals, update_revision: &str, pods: &[Identity<'_>]) -> Phase {
    let (new, old): (Vec<&Identity<'_>>, Vec<_>) = pods.iter().partition(|pod| pod.revision == Some(update_revision));
    let present = new.iter().filter(|pod| !pod.deleting && ordinals.contains(pod.ordinal)).count();
    if old.iter().any(|pod| !pod.deleting) {
        Phase::NeedsDeletion
    } else if !old.is_empty() {
        Phase::WaitingTermination
    } else if i64::try_from(present).is_ok_and(|present| present < ordinals.replicas) {
        Phase::ReadyForCreation
    } else {
        Phase::Complete
    }
}
