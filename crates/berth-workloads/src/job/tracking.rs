//! Counting pods that have ended: which the status lists, and which then lose the finalizer.

use super::{
    UNCOUNTED_MAX,
    ending::{Ending, JobResult},
    manage::awaiting_replacement,
    observe::{Observed, not_negative},
};
use crate::view::{JobPodView, PodPhase};
use std::collections::BTreeSet;

/// What the status will contain about ended pods, and what follows.
#[derive(Debug, Default)]
pub(super) struct Tracking<'a> {
    /// `status.succeeded` of a Job that is not Indexed.
    pub(super) succeeded: u32,
    /// `status.failed`.
    pub(super) failed: u32,
    /// `status.uncountedTerminatedPods`.
    pub(super) listed_succeeded: Vec<String>,
    /// `status.uncountedTerminatedPods`.
    pub(super) listed_failed: Vec<String>,
    /// Pods that lose the finalizer once the status is written.
    pub(super) releases: Vec<&'a JobPodView>,
    /// Whether all pods are counted and no finalizer is left.
    pub(super) is_settled: bool,
}

/// Counts the pods of a Job.
///
/// At most [`UNCOUNTED_MAX`] pods are listed at a time. The plan after this one counts the others.
///
/// Source: kubernetes `pkg/controller/job/job_controller.go`, `trackJobStatusAndRemoveFinalizers`.
pub(super) fn track<'a>(observed: &Observed<'a>, ending: Option<&Ending>) -> Tracking<'a> {
    let mut tracking = settle(observed);
    let awaiting = if ending.is_none() { awaiting_replacement(observed) } else { Default::default() };
    let awaiting: BTreeSet<_> = awaiting.values().map(|pod| pod.uid()).collect();
    let mut new_indexes = 0;
    for pod in observed.pods.iter().copied().filter(|pod| pod.is_tracked()) {
        let has_succeeded = pod.pod.phase == PodPhase::Succeeded;
        let has_failed = observed.is_failed(pod) && !awaiting.contains(pod.uid());
        if !(has_succeeded || has_failed || ending.is_some() || observed.is_being_deleted()) {
            continue;
        }
        if !observed.uncounted.contains(pod) && observed.can_count(pod) {
            if has_succeeded && observed.is_indexed() {
                // The index alone keeps it from being counted twice.
                new_indexes += 1;
            } else if has_succeeded {
                tracking.listed_succeeded.push(pod.uid().to_string());
            } else if counts_as_failed(observed, ending, pod) && observed.verdict(pod).is_counted() {
                tracking.listed_failed.push(pod.uid().to_string());
            }
        }
        // The deletion of an active pod makes another version of it: its finalizer is removed when that is read.
        if ending.is_none() || !pod.pod.is_active() {
            tracking.releases.push(pod);
        }
        if UNCOUNTED_MAX <= new_indexes + tracking.listed_succeeded.len() + tracking.listed_failed.len() {
            break;
        }
    }
    tracking
}

/// Turns listed uids whose pods have lost the finalizer into counts.
fn settle<'a>(observed: &Observed<'a>) -> Tracking<'a> {
    let tracked: BTreeSet<&str> = observed.pods.iter().filter(|pod| pod.is_tracked()).map(|pod| pod.uid().as_str()).collect();
    let still_listed =
        |uids: &BTreeSet<&str>| -> Vec<String> { uids.iter().filter(|uid| tracked.contains(*uid)).map(|uid| (*uid).to_owned()).collect() };
    let listed_succeeded = still_listed(&observed.uncounted.succeeded);
    let listed_failed = still_listed(&observed.uncounted.failed);
    let settled = |stored: Option<i32>, before: usize, after: usize| {
        not_negative(stored.unwrap_or(0)).saturating_add(u32::try_from(before - after).unwrap_or(u32::MAX))
    };
    Tracking {
        succeeded: settled(observed.status().succeeded, observed.uncounted.succeeded.len(), listed_succeeded.len()),
        failed: settled(observed.status().failed, observed.uncounted.failed.len(), listed_failed.len()),
        listed_succeeded,
        listed_failed,
        releases: Vec::new(),
        is_settled: tracked.is_empty(),
    }
}

/// Whether a pod that has not succeeded counts as failed.
fn counts_as_failed(observed: &Observed<'_>, ending: Option<&Ending>, pod: &JobPodView) -> bool {
    match ending {
        // The Job deletes the pods that are left. They have not failed.
        Some(Ending { result: JobResult::Success, is_stored: true, .. }) => pod.pod.phase == PodPhase::Failed,
        Some(Ending { result: JobResult::Failure, .. }) => true,
        _ => observed.is_failed(pod),
    }
}
