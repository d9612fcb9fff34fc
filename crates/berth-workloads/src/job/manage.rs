//! How many pods run: which are created, and which are deleted although they have not ended.

use super::{PODS_MAX, backoff::Delay, ending::Counts, indexes::Indexes, observe::Observed, pod, rank::victims};
use crate::{
    plan::{Rule, TerminatingPod, Wait},
    view::{JobPodView, PodReplacement},
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use std::collections::BTreeMap;

/// The decision about active pods.
#[derive(Debug, Default)]
pub(super) struct Managed<'a> {
    /// Pods that the Job gives up: they lose the finalizer and are deleted. They count neither as succeeded nor as failed.
    pub(super) given_up: Vec<(Rule, &'a JobPodView)>,
    pub(super) creation: Option<Creation>,
    pub(super) waits: Vec<Wait>,
    pub(super) requeue_at: Option<Timestamp>,
    /// How many active pods the Job should have.
    pub(super) wanted: u32,
}

/// Pods to create.
#[derive(Debug)]
pub(super) enum Creation {
    /// Pods of one template.
    Alike { template: Box<Pod>, count: usize },
    /// One pod per index.
    Indexed(Vec<Pod>),
}

/// Decides about the active pods of a Job that does not end.
///
/// A plan either deletes pods or creates pods.
///
/// Source: kubernetes `pkg/controller/job/job_controller.go`, `manageJob`.
pub(super) fn manage<'a>(observed: &Observed<'a>, counts: &Counts) -> Managed<'a> {
    let active = count(observed.active());
    if observed.is_suspended() {
        return Managed { given_up: victims(observed, 0, usize::MAX), waits: vec![Wait::JobSuspended], ..Managed::default() };
    }
    let wanted = wanted(observed, counts, active);
    let given_up = victims(observed, wanted as usize, PODS_MAX);
    if !given_up.is_empty() {
        return Managed { given_up, wanted, ..Managed::default() };
    }
    let missing = wanted.saturating_sub(active);
    let held = held(observed, missing);
    let mut managed = Managed { wanted, ..create(observed, missing - held) };
    if 0 < held {
        managed.waits.push(Wait::PodsTerminating { pods: count(observed.terminating()), then_create: held, last: last_to_end(observed) });
    }
    managed
}

fn wanted(observed: &Observed<'_>, counts: &Counts, active: u32) -> u32 {
    match observed.completions() {
        // Any success decides: other pods continue, and no further one is created.
        None if 0 < counts.succeeded => active,
        None => observed.parallelism(),
        Some(completions) => completions.saturating_sub(counts.succeeded).min(observed.parallelism()),
    }
}

/// How many of the missing pods wait for terminating ones.
fn held(observed: &Observed<'_>, missing: u32) -> u32 {
    match observed.job().choices.replacement {
        PodReplacement::TerminatingOrFailed => 0,
        PodReplacement::Failed => missing.min(count(observed.terminating())),
    }
}

fn last_to_end(observed: &Observed<'_>) -> Option<TerminatingPod> {
    let last = &observed.terminating().max_by_key(|pod| pod.pod.meta.deleted)?.pod;
    Some(TerminatingPod {
        name: last.meta.name.to_string(),
        left_seconds: last.meta.deleted?.duration_since(observed.state.now).as_secs(),
        grace_period_seconds: last.grace_period_seconds?,
    })
}

fn create<'a>(observed: &Observed<'a>, missing: u32) -> Managed<'a> {
    let max = (missing as usize).min(PODS_MAX);
    if max == 0 {
        return Managed::default();
    }
    if observed.spec().backoff_limit_per_index.is_none()
        && let Some(delay) = delay(observed).filter(|delay| observed.state.now < delay.until)
    {
        return delayed(missing, delay);
    }
    if !observed.is_indexed() {
        let creation = Creation::Alike { template: Box::new(pod::template(observed)), count: max };
        return Managed { creation: Some(creation), ..Managed::default() };
    }
    let failed = awaiting_replacement(observed);
    let (mut now, mut later) = (Vec::new(), Vec::new());
    for index in taken_indexes(observed).missing(observed.index_count()).take(max) {
        match index_delay(failed.get(&index).copied()).filter(|delay| observed.state.now < delay.until) {
            Some(delay) => later.push(delay),
            None => now.push(index),
        }
    }
    let next = later.iter().min_by_key(|delay| delay.until);
    let mut managed = next.map_or_else(Managed::default, |next| delayed(u32::try_from(later.len()).unwrap_or(u32::MAX), *next));
    if !now.is_empty() {
        let template = pod::indexed_template(observed);
        let pods = now.into_iter().map(|index| pod::of_index(observed, &template, index, failed.get(&index).copied()));
        managed.creation = Some(Creation::Indexed(pods.collect()));
    }
    managed
}

fn delayed<'a>(pods: u32, delay: Delay) -> Managed<'a> {
    let wait = Wait::PodBackoff { pods, failures: delay.failures, until: delay.until };
    Managed { waits: vec![wait], requeue_at: Some(delay.until), ..Managed::default() }
}

/// The delay after failures of pods of any index.
fn delay(observed: &Observed<'_>) -> Option<Delay> {
    let mut streak = observed.state.past.clone();
    // Counted pods are in the past already.
    let tracked = observed.pods.iter().filter(|pod| pod.is_tracked() && observed.can_count(pod));
    tracked.filter_map(|pod| observed.end_of(pod)).for_each(|end| streak.take_in(end));
    streak.delay()
}

/// The delay after failures of pods of one index, of which this is the last.
fn index_delay(last: Option<&JobPodView>) -> Option<Delay> {
    let last = last?;
    let failures = last.index_failures.saturating_add(last.ignored_index_failures).saturating_add(1);
    Some(Delay::after(failures, last.finished_at?))
}

/// Indexes that get no pod: they have ended, or have a pod.
fn taken_indexes(observed: &Observed<'_>) -> Indexes {
    let waits_for_end = observed.job().choices.replacement == PodReplacement::Failed;
    let terminating = observed.terminating().filter(|_| waits_for_end);
    let with_pod: Indexes = observed.active().chain(terminating).filter_map(|pod| pod.index).collect();
    let ended = observed.failed_indexes.iter().fold(observed.succeeded_indexes.clone(), |all, failed| all.union(failed));
    ended.union(&with_pod)
}

/// The last failed pod of each index that will get another one. It keeps the finalizer until then: its annotations have the number of failures.
///
/// Source: kubernetes `pkg/controller/job/indexed_job_utils.go`, `getPodsWithDelayedDeletionPerIndex`.
pub(super) fn awaiting_replacement<'a>(observed: &Observed<'a>) -> BTreeMap<u32, &'a JobPodView> {
    let mut last: BTreeMap<u32, &JobPodView> = BTreeMap::new();
    let Some(failed_indexes) = &observed.failed_indexes else { return last };
    let with_pod: Indexes = observed.active().filter_map(|pod| pod.index).collect();
    let is_open = |index: u32| !observed.succeeded_indexes.contains(index) && !failed_indexes.contains(index) && !with_pod.contains(index);
    let order = |pod: &JobPodView| (pod.index_failures.saturating_add(pod.ignored_index_failures), pod.finished_at);
    for pod in observed.pods.iter().copied().filter(|pod| pod.is_tracked() && observed.can_count(pod) && observed.is_failed(pod)) {
        let Some(index) = pod.index.filter(|index| is_open(*index)) else { continue };
        match last.get(&index) {
            Some(other) if order(pod) < order(other) => (),
            _ => drop(last.insert(index, pod)),
        }
    }
    last
}

/// How many pods.
pub(super) fn count<'a>(pods: impl Iterator<Item = &'a JobPodView>) -> u32 {
    u32::try_from(pods.count()).unwrap_or(u32::MAX)
}
