//! Which finished Jobs are deleted.

use super::CronJobState;
use crate::view::JobView;
use k8s_openapi::api::batch::v1::JobCondition;

const COMPLETE: &str = "Complete";
const FAILED: &str = "Failed";

/// The condition with which a Job has ended.
#[must_use]
pub fn end_of(job: &JobView) -> Option<&JobCondition> {
    let mut conditions = job.status.conditions.iter().flatten();
    conditions.find(|condition| (condition.type_ == COMPLETE || condition.type_ == FAILED) && condition.status == "True")
}

/// Whether a Job has succeeded.
pub(super) fn has_succeeded(job: &JobView) -> bool {
    end_of(job).is_some_and(|end| end.type_ == COMPLETE)
}

/// The finished Jobs beyond the limit of their result, those that started first, with that limit.
///
/// Source: kubernetes `pkg/controller/cronjob/cronjob_controllerv2.go`, `cleanupFinishedJobs`.
pub(super) fn surplus(state: &CronJobState) -> Vec<(&JobView, i32)> {
    let spec = &state.cron_job.spec;
    [(COMPLETE, spec.successful_jobs_history_limit), (FAILED, spec.failed_jobs_history_limit)]
        .into_iter()
        .flat_map(|(result, limit)| limit.map_or_else(Vec::new, |limit| surplus_of(state, result, limit)))
        .collect()
}

fn surplus_of<'a>(state: &'a CronJobState, result: &str, limit: i32) -> Vec<(&'a JobView, i32)> {
    let has_ended_so = |job: &&JobView| job.meta.deleted.is_none() && end_of(job).is_some_and(|end| end.type_ == result);
    let mut ended: Vec<&JobView> = state.sorted_jobs().into_iter().filter(has_ended_so).collect();
    // A Job that never started counts as the newest. The order of names remains among those that started at the same time.
    let started = |job: &JobView| job.status.start_time.as_ref().map(|time| time.0);
    ended.sort_by_key(|job| (started(job).is_none(), started(job)));
    let kept = usize::try_from(limit).unwrap_or(0);
    ended.truncate(ended.len().saturating_sub(kept));
    ended.into_iter().map(|job| (job, limit)).collect()
}
