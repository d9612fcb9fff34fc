//! What the status of a Job must be as the next one of another status. A rule that the stored status breaks too is not applied again.

use super::indexes;
use berth_api::{FieldError, Path, faults::Faults};
use k8s_openapi::api::batch::v1::{JobSpec, JobStatus};
use serde_json::json;
use std::collections::BTreeSet;

const COMPLETE: &str = "Complete";
const FAILED: &str = "Failed";
const FAILURE_TARGET: &str = "FailureTarget";
const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";

fn is_true(status: &JobStatus, kind: &str) -> bool {
    status.conditions.iter().flatten().any(|condition| condition.type_ == kind && condition.status == "True")
}

fn is_finished(status: &JobStatus) -> bool {
    is_true(status, COMPLETE) || is_true(status, FAILED)
}

/// Source: upstream `ValidateJobUpdateStatus` and `getStatusValidationOptions`.
pub(super) fn validate_update(spec: &JobSpec, new: &JobStatus, old: &JobStatus, faults: &mut Faults) {
    validate_counts(new, faults);
    validate_end(new, old, faults);
    validate_finished(new, old, faults);
    validate_indexes(spec, new, old, faults);
    validate_pods(new, old, faults);
    validate_success(spec, new, faults);
    validate_progress(spec, new, old, faults);
}

fn conditions(why: &str) -> FieldError {
    FieldError::invalid_part(&Path::new("status").child("conditions"), why)
}

fn validate_counts(new: &JobStatus, faults: &mut Faults) {
    let path = Path::new("status");
    let counts = [
        ("active", new.active),
        ("succeeded", new.succeeded),
        ("failed", new.failed),
        ("ready", new.ready),
        ("terminating", new.terminating),
    ];
    for (field, count) in counts {
        faults.not_negative(&path.child(field), count);
    }
    let Some(uncounted) = &new.uncounted_terminated_pods else { return };
    let path = path.child("uncountedTerminatedPods");
    let mut seen = BTreeSet::new();
    for (field, uids) in [("succeeded", &uncounted.succeeded), ("failed", &uncounted.failed)] {
        for (index, uid) in uids.iter().flatten().enumerate() {
            let path = path.child(field).index(index);
            if uid.is_empty() {
                faults.invalid(&path, "", "must not be empty");
            } else {
                faults.unique(&path, uid, &mut seen);
            }
        }
    }
}

/// Rules of the conditions that end a Job, and of the times of its begin and end.
fn validate_end(new: &JobStatus, old: &JobStatus, faults: &mut Faults) {
    let path = Path::new("status").child("completionTime");
    let [is_complete, has_failed, is_failing] = [COMPLETE, FAILED, FAILURE_TARGET].map(|kind| is_true(new, kind));
    let changed = |kind: &str| is_true(new, kind) != is_true(old, kind);
    let changes_completion = changed(COMPLETE) || new.completion_time != old.completion_time;
    if (changed(COMPLETE) || changed(FAILED)) && is_complete && has_failed {
        faults.add([conditions("cannot set Complete=True and Failed=true conditions")]);
    }
    if (changed(COMPLETE) || changed(FAILURE_TARGET)) && is_complete && is_failing {
        faults.add([conditions("cannot set Complete=True and FailureTarget=true conditions")]);
    }
    if changes_completion && new.completion_time.is_some() && !is_complete {
        faults.invalid(&path, json!(new.completion_time), "cannot set completionTime when there is no Complete=True condition");
    }
    if changes_completion && new.completion_time.is_none() && is_complete {
        faults.required(&path, "completionTime is required for Complete jobs");
    }
    let changes_times = new.start_time != old.start_time || new.completion_time != old.completion_time;
    if changes_times && new.start_time.as_ref().zip(new.completion_time.as_ref()).is_some_and(|(start, end)| end.0 < start.0) {
        faults.invalid(&path, json!(new.completion_time), "must be equal to or after `startTime`");
    }
    if (changed(FAILED) || changed(FAILURE_TARGET)) && has_failed && !is_failing {
        faults.add([conditions("cannot set Failed=True condition without the FailureTarget=true condition")]);
    }
    if (changed(COMPLETE) || changed(SUCCESS_CRITERIA_MET)) && is_complete && !is_true(new, SUCCESS_CRITERIA_MET) {
        faults.add([conditions("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")]);
    }
}

fn validate_finished(new: &JobStatus, old: &JobStatus, faults: &mut Faults) {
    let path = Path::new("status");
    let ends = is_finished(new) != is_finished(old);
    if !is_finished(new) {
        return;
    }
    let active = new.active.unwrap_or_default();
    if (ends || new.active != old.active) && 0 < active {
        faults.invalid(&path.child("active"), active, "active>0 is invalid for finished job");
    }
    if (ends || new.start_time != old.start_time) && new.start_time.is_none() {
        faults.required(&path.child("startTime"), "startTime is required for finished job");
    }
    let uncounted = new.uncounted_terminated_pods.as_ref();
    let some = uncounted.is_some_and(|pods| pods.succeeded.iter().chain(&pods.failed).any(|pods| !pods.is_empty()));
    if (ends || new.uncounted_terminated_pods != old.uncounted_terminated_pods) && some {
        faults.invalid(&path.child("uncountedTerminatedPods"), json!(uncounted), "must be empty for finished job");
    }
}

fn validate_indexes(spec: &JobSpec, new: &JobStatus, old: &JobStatus, faults: &mut Faults) {
    let path = Path::new("status");
    let [completed_path, failed_path] = ["completedIndexes", "failedIndexes"].map(|field| path.child(field));
    let completed = new.completed_indexes.as_deref().unwrap_or_default();
    let changes_completed = completed != old.completed_indexes.as_deref().unwrap_or_default();
    let changes_failed = new.failed_indexes != old.failed_indexes;
    let failed = new.failed_indexes.as_deref();
    let parsed = |text: &str| spec.completions.map_or(Ok(Vec::new()), |completions| indexes::parse(text, completions));
    if changes_completed && let Err(why) = parsed(completed) {
        faults.invalid(&completed_path, completed, format!("error parsing completedIndexes: {why}"));
    }
    if changes_failed
        && spec.backoff_limit_per_index.is_some()
        && let Some(failed) = failed
        && let Err(why) = parsed(failed)
    {
        faults.invalid(&failed_path, failed, format!("error parsing failedIndexes: {why}"));
    }
    if changes_completed && !completed.is_empty() && spec.completion_mode.as_deref() != Some("Indexed") {
        faults.invalid(&completed_path, completed, "cannot set non-empty completedIndexes when non-indexed completion mode");
    }
    let Some(failed) = failed else { return };
    if changes_failed && spec.backoff_limit_per_index.is_none() {
        faults.invalid(&failed_path, failed, "cannot set non-null failedIndexes when backoffLimitPerIndex is null");
    }
    if (changes_failed || changes_completed)
        && let (Ok(completed), Ok(parsed)) = (parsed(completed), parsed(failed))
        && let Some(index) = indexes::overlap(&completed, &parsed)
    {
        faults.invalid(&failed_path, failed, format!("failedIndexes and completedIndexes overlap at index: {index}"));
    }
}

fn validate_pods(new: &JobStatus, old: &JobStatus, faults: &mut Faults) {
    let path = Path::new("status");
    let ends = is_finished(new) != is_finished(old);
    let terminating = new.terminating.unwrap_or_default();
    if (ends || new.terminating != old.terminating) && is_finished(new) && 0 < terminating {
        faults.invalid(&path.child("terminating"), terminating, "terminating>0 is invalid for finished job");
    }
    let ready = new.ready.unwrap_or_default();
    if (new.ready != old.ready || new.active != old.active) && new.active.unwrap_or_default() < ready {
        faults.invalid(&path.child("ready"), ready, "cannot set more ready pods than active");
    }
}

fn validate_success(spec: &JobSpec, new: &JobStatus, faults: &mut Faults) {
    let is_met = is_true(new, SUCCESS_CRITERIA_MET);
    if is_met && is_true(new, FAILURE_TARGET) {
        faults.add([conditions("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")]);
    }
    if is_met && is_true(new, FAILED) {
        faults.add([conditions("cannot set Failed=True and SuccessCriteriaMet=true conditions")]);
    }
    if spec.success_policy.is_some() && is_true(new, COMPLETE) && !is_met {
        faults.add([conditions("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")]);
    }
}

/// Counters and conditions do not go back.
fn validate_progress(spec: &JobSpec, new: &JobStatus, old: &JobStatus, faults: &mut Faults) {
    let path = Path::new("status");
    let ended = |kind: &str| is_true(old, kind) && !is_true(new, kind);
    for kind in [FAILED, COMPLETE, FAILURE_TARGET].into_iter().filter(|kind| ended(kind)) {
        faults.add([conditions(&format!("cannot disable the terminal {kind}=True condition"))]);
    }
    let [failed, old_failed] = [new, old].map(|status| status.failed.unwrap_or_default());
    if failed < old_failed {
        faults.invalid(&path.child("failed"), failed, "cannot decrease the failed counter");
    }
    // An indexed Job with as many pods at a time as completions can shrink.
    let can_shrink = spec.completion_mode.as_deref() == Some("Indexed") && spec.completions == spec.parallelism;
    let [succeeded, old_succeeded] = [new, old].map(|status| status.succeeded.unwrap_or_default());
    if !can_shrink && succeeded < old_succeeded {
        faults.invalid(&path.child("succeeded"), succeeded, "cannot decrease the succeeded counter");
    }
    if new.completion_time.as_ref().zip(old.completion_time.as_ref()).is_some_and(|(new, old)| new != old) {
        faults.invalid(&path.child("completionTime"), json!(new.completion_time), "field is immutable");
    }
    if old.start_time.is_some() && new.start_time != old.start_time && spec.suspend != Some(true) {
        faults.invalid(&path.child("startTime"), json!(new.start_time), "field is immutable for unsuspended job once set");
    }
    if ended(SUCCESS_CRITERIA_MET) {
        faults.add([conditions("cannot disable the SuccessCriteriaMet=True condition")]);
    }
}
