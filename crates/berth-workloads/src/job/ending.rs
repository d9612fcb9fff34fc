//! Whether a Job ends, and why.

use super::{
    failure_policy::Verdict,
    observe::{FAILURE_TARGET, Observed, SUCCESS_CRITERIA_MET, not_negative, true_condition},
    success_policy::fulfilled_rule,
};
use crate::view::{JobPodView, PodPhase};
use jiff::{SignedDuration, Timestamp};

/// The final condition of a Job that has failed.
pub(super) const FAILED: &str = "Failed";
/// The final condition of a Job that has succeeded.
pub(super) const COMPLETE: &str = "Complete";

/// A Job that has succeeded or failed. It ends: no pod is created, active pods are deleted, and it is finished when all pods have ended and are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ending {
    pub(super) result: JobResult,
    pub(super) reason: String,
    pub(super) message: String,
    /// Whether the status already contains the interim condition.
    pub(super) is_stored: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobResult {
    Success,
    Failure,
}

impl JobResult {
    pub(super) fn interim_condition(self) -> &'static str {
        match self {
            Self::Success => SUCCESS_CRITERIA_MET,
            Self::Failure => FAILURE_TARGET,
        }
    }

    pub(super) fn final_condition(self) -> &'static str {
        match self {
            Self::Success => COMPLETE,
            Self::Failure => FAILED,
        }
    }
}

impl Ending {
    fn stored(observed: &Observed<'_>, result: JobResult) -> Option<Self> {
        let condition = true_condition(observed.status(), result.interim_condition())?;
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Some(Self { result, reason: text(&condition.reason), message: text(&condition.message), is_stored: true })
    }

    fn failure(reason: &str, message: impl Into<String>) -> Self {
        Self { result: JobResult::Failure, reason: reason.to_owned(), message: message.into(), is_stored: false }
    }

    fn success(reason: &str, message: impl Into<String>) -> Self {
        Self { result: JobResult::Success, ..Self::failure(reason, message) }
    }
}

/// Returns how the Job ends, if it does. A stored decision holds, whatever has become of its reason.
///
/// Source: kubernetes `pkg/controller/job/job_controller.go`, `syncJob`.
pub(super) fn ending(observed: &Observed<'_>, counts: &Counts) -> Option<Ending> {
    Ending::stored(observed, JobResult::Success)
        .or_else(|| Ending::stored(observed, JobResult::Failure))
        .or_else(|| fail_job_rule(observed))
        .or_else(|| backoff_limit(observed, counts))
        .or_else(|| active_deadline(observed))
        .or_else(|| failed_indexes(observed))
        .or_else(|| success_rule(observed))
        .or_else(|| completions_reached(observed, counts))
}

/// The pods of a Job that have ended, whether the status counts them already or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) succeeded: u32,
    /// Without those that the pod failure policy ignores.
    pub(super) failed: u32,
}

impl Counts {
    pub(super) fn of(observed: &Observed<'_>) -> Self {
        let (status, uncounted) = (observed.status(), &observed.uncounted);
        let count = |stored: Option<i32>, listed: usize, new: usize| {
            let pods = u32::try_from(listed + new).unwrap_or(u32::MAX);
            not_negative(stored.unwrap_or(0)).saturating_add(pods)
        };
        let new_succeeded = observed.new_pods().filter(|pod| pod.pod.phase == PodPhase::Succeeded);
        let new_failed = observed.new_pods().filter(|pod| observed.is_failed(pod) && observed.verdict(pod).is_counted());
        let succeeded = match observed.is_indexed() {
            true => observed.succeeded_indexes.len(),
            false => count(status.succeeded, uncounted.succeeded.len(), new_succeeded.count()),
        };
        Self { succeeded, failed: count(status.failed, uncounted.failed.len(), new_failed.count()) }
    }
}

impl Observed<'_> {
    /// When the active deadline passes, if one runs.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        let seconds = self.spec().active_deadline_seconds.filter(|_| !self.is_suspended())?;
        let start = self.status().start_time.as_ref().map_or(self.state.now, |time| time.0);
        Some(start.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX))
    }
}

fn fail_job_rule(observed: &Observed<'_>) -> Option<Ending> {
    observed.spec().pod_failure_policy.as_ref()?;
    let mut failed: Vec<_> = observed.pods.iter().filter(|pod| observed.is_failed(pod)).collect();
    failed.sort_by_key(|pod| pod.finished_at);
    failed.into_iter().find_map(|pod| match observed.verdict(pod) {
        Verdict::FailJob { message } => Some(Ending::failure("PodFailurePolicy", message)),
        _ => None,
    })
}

fn backoff_limit(observed: &Observed<'_>, counts: &Counts) -> Option<Ending> {
    let is_exceeded = observed.backoff_limit() < counts.failed || has_too_many_restarts(observed);
    is_exceeded.then(|| Ending::failure("BackoffLimitExceeded", "Job has reached the specified backoff limit"))
}

/// Pods that restart their own containers do not fail: their restarts count instead.
fn has_too_many_restarts(observed: &Observed<'_>) -> bool {
    let spec = observed.spec().template.spec.as_ref();
    if spec.and_then(|spec| spec.restart_policy.as_deref()) != Some("OnFailure") {
        return false;
    }
    let runs = |pod: &&&JobPodView| matches!(pod.pod.phase, PodPhase::Running | PodPhase::Pending);
    let restarts = observed.pods.iter().filter(runs).map(|pod| not_negative(pod.all_restarts));
    observed.backoff_limit().max(1) <= restarts.fold(0, u32::saturating_add)
}

fn active_deadline(observed: &Observed<'_>) -> Option<Ending> {
    observed.status().start_time.as_ref()?;
    let is_past = observed.deadline()? <= observed.state.now;
    is_past.then(|| Ending::failure("DeadlineExceeded", "Job was active longer than specified deadline"))
}

fn failed_indexes(observed: &Observed<'_>) -> Option<Ending> {
    let failed = observed.failed_indexes.as_ref()?.len();
    if observed.spec().max_failed_indexes.is_some_and(|max| not_negative(max) < failed) {
        let message = "Job has exceeded the specified maximal number of failed indexes";
        return Some(Ending::failure("MaxFailedIndexesExceeded", message));
    }
    let all_ended = observed.index_count() <= failed.saturating_add(observed.succeeded_indexes.len());
    (0 < failed && all_ended).then(|| Ending::failure("FailedIndexes", "Job has failed indexes"))
}

fn success_rule(observed: &Observed<'_>) -> Option<Ending> {
    let policy = observed.spec().success_policy.as_ref().filter(|_| observed.is_indexed());
    let rule = fulfilled_rule(policy, observed.index_count(), &observed.succeeded_indexes)?;
    Some(Ending::success("SuccessPolicy", format!("Matched rules at index {rule}")))
}

/// Enough pods have succeeded, and no other is active. More than enough active pods are deleted first.
fn completions_reached(observed: &Observed<'_>, counts: &Counts) -> Option<Ending> {
    let is_enough = match observed.completions() {
        None => 0 < counts.succeeded,
        Some(completions) => completions <= counts.succeeded,
    };
    let is_reached = is_enough && observed.active().next().is_none();
    is_reached.then(|| Ending::success("CompletionsReached", "Reached expected number of succeeded pods"))
}
