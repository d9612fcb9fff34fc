//! The status of a Job.

use super::{
    ending::{COMPLETE, Ending},
    indexes::Indexes,
    manage::count,
    observe::Observed,
    tracking::Tracking,
};
use jiff::Timestamp;
use k8s_openapi::{
    api::batch::v1::{JobCondition, JobStatus, UncountedTerminatedPods},
    apimachinery::pkg::apis::meta::v1::Time,
};

const SUSPENDED: &str = "Suspended";

/// What a new status announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    None,
    Suspended,
    Resumed,
    Finished,
}

/// The status after this plan's first stage, and its news. `is_managed`: the Job neither ends nor is being deleted.
pub(super) fn status(observed: &Observed<'_>, ending: Option<&Ending>, tracking: &Tracking<'_>, is_managed: bool) -> (JobStatus, News) {
    let (now, stored) = (observed.state.now, observed.status());
    let mut status = JobStatus {
        active: not_zero(count(observed.active())),
        ready: Some(number(count(observed.active().filter(|pod| pod.pod.ready)))),
        terminating: Some(number(count(observed.terminating()))),
        failed: not_zero(tracking.failed),
        uncounted_terminated_pods: Some(UncountedTerminatedPods {
            failed: not_empty(&tracking.listed_failed),
            succeeded: not_empty(&tracking.listed_succeeded),
        }),
        ..stored.clone()
    };
    count_succeeded(observed, tracking, &mut status);
    if status.start_time.is_none() && !observed.is_suspended() {
        status.start_time = Some(Time(now));
    }
    let mut news = News::None;
    if is_managed {
        news = suspend(observed, &mut status);
    }
    if let Some(ending) = ending {
        if !ending.is_stored {
            status.conditions.get_or_insert_default().push(condition(ending, ending.result.interim_condition(), now));
        } else if is_over(observed, tracking) {
            status.conditions.get_or_insert_default().push(condition(ending, ending.result.final_condition(), now));
            if ending.result.final_condition() == COMPLETE {
                status.completion_time = Some(Time(now));
            }
            news = News::Finished;
        }
    }
    (status, news)
}

/// Whether the change is more than numbers that only report: a decision, or pods that lose the finalizer when it is written.
pub(super) fn is_urgent(stored: &JobStatus, new: &JobStatus) -> bool {
    let listed = |status: &JobStatus| -> Vec<String> {
        let lists = status.uncounted_terminated_pods.iter();
        lists.flat_map(|lists| lists.succeeded.iter().chain(&lists.failed)).flatten().cloned().collect()
    };
    let known = listed(stored);
    let text = |indexes: &Option<String>| indexes.clone().unwrap_or_default();
    stored.conditions != new.conditions
        || listed(new).iter().any(|uid| !known.contains(uid))
        || text(&stored.completed_indexes) != text(&new.completed_indexes)
        || text(&stored.failed_indexes) != text(&new.failed_indexes)
}

fn count_succeeded(observed: &Observed<'_>, tracking: &Tracking<'_>, status: &mut JobStatus) {
    if observed.is_indexed() {
        let text = |indexes: &Indexes| indexes.to_string();
        status.succeeded = not_zero(observed.succeeded_indexes.len());
        status.completed_indexes = Some(text(&observed.succeeded_indexes)).filter(|text| !text.is_empty());
        status.failed_indexes = observed.failed_indexes.as_ref().map(text);
    } else {
        status.succeeded = not_zero(tracking.succeeded);
    }
}

/// A Job is finished when its pods have ended and are counted.
fn is_over(observed: &Observed<'_>, tracking: &Tracking<'_>) -> bool {
    let is_listed = !tracking.listed_succeeded.is_empty() || !tracking.listed_failed.is_empty();
    tracking.is_settled && !is_listed && observed.active().next().is_none() && observed.terminating().next().is_none()
}

/// Sets the condition Suspended. The active deadline runs from the start, so a suspended Job has not started (KEP-5440).
fn suspend(observed: &Observed<'_>, status: &mut JobStatus) -> News {
    let now = observed.state.now;
    let mut conditions = status.conditions.take().unwrap_or_default();
    let stored = conditions.iter_mut().find(|condition| condition.type_ == SUSPENDED);
    let news = match (observed.is_suspended(), stored) {
        (true, Some(stored)) if stored.status != "True" => {
            *stored = suspended("True", "JobSuspended", "Job suspended", now);
            News::Suspended
        }
        (true, None) => {
            conditions.push(suspended("True", "JobSuspended", "Job suspended", now));
            News::Suspended
        }
        (false, Some(stored)) if stored.status != "False" => {
            *stored = suspended("False", "JobResumed", "Job resumed", now);
            status.start_time = Some(Time(now));
            News::Resumed
        }
        _ => News::None,
    };
    status.conditions = Some(conditions).filter(|conditions| !conditions.is_empty());
    if observed.is_suspended() {
        status.start_time = None;
    }
    news
}

fn suspended(status: &str, reason: &str, message: &str, now: Timestamp) -> JobCondition {
    JobCondition {
        type_: SUSPENDED.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    }
}

fn condition(ending: &Ending, type_: &str, now: Timestamp) -> JobCondition {
    JobCondition { type_: type_.to_owned(), ..suspended("True", &ending.reason, &ending.message, now) }
}

fn number(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn not_zero(count: u32) -> Option<i32> {
    (0 < count).then(|| number(count))
}

fn not_empty(uids: &[String]) -> Option<Vec<String>> {
    (!uids.is_empty()).then(|| uids.to_vec())
}
