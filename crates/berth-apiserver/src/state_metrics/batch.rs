//! The families of Jobs and CronJobs.

use super::{
    ANNOTATIONS, CREATED, Family, LABELS, OWNER_LABELS, OWNERS, Seen, Series, created, large, number, one, owners, seconds, seen::Active,
    truth,
};
use berth_api::cron::Schedule;

/// The reasons of failed Jobs that have a series. Other reasons are in the one without a reason.
const FAILURE_REASONS: [&str; 3] = ["BackoffLimitExceeded", "DeadlineExceeded", "Evicted"];

pub(super) static JOB: &[Family] = &[
    Family::one("kube_job_created", CREATED, created),
    Family::one("kube_job_info", "One for each Job.", one),
    Family::many("kube_job_owner", OWNERS, OWNER_LABELS, owners),
    Family::one("kube_job_spec_parallelism", "Pods that may run at the same time.", |seen| number(seen.spec.parallelism?)),
    Family::one("kube_job_spec_completions", "Pods that must succeed.", |seen| number(seen.spec.completions?)),
    Family::one("kube_job_spec_active_deadline_seconds", "How long the Job may be active.", |seen| {
        large(seen.spec.active_deadline_seconds?)
    }),
    Family::one("kube_job_status_active", "Pods that run or are pending.", active),
    Family::one("kube_job_status_ready", "Ready pods.", |seen| number(seen.status.ready?)),
    Family::one("kube_job_status_succeeded", "Pods that succeeded.", |seen| number(seen.status.succeeded)),
    Family::many("kube_job_status_failed", "Pods that failed, or 1 for the reason of a failed Job.", &["reason"], failed),
    Family::one("kube_job_status_suspended", "Whether the Job is suspended.", |seen| {
        number(i32::from(condition(seen, "Suspended").is_some_and(|status| status == "True")))
    }),
    Family::one("kube_job_status_start_time", "When the Job started, in seconds since 1970.", |seen| {
        seconds(seen.status.start_time.as_ref()?)
    }),
    Family::one("kube_job_status_completion_time", "When the Job was complete, in seconds since 1970.", |seen| {
        seconds(seen.status.completion_time.as_ref()?)
    }),
    Family::many("kube_job_complete", "Whether the Job is complete.", &["condition"], |seen| of_condition(seen, "Complete")),
    Family::many("kube_job_failed", "Whether the Job has failed.", &["condition"], |seen| of_condition(seen, "Failed")),
    Family::one("kube_job_labels", LABELS, one),
    Family::one("kube_job_annotations", ANNOTATIONS, one),
];

pub(super) static CRON_JOB: &[Family] = &[
    Family::one("kube_cronjob_created", CREATED, created),
    Family::many("kube_cronjob_info", "One for each CronJob.", &["schedule", "concurrency_policy", "timezone"], |seen| {
        let spec = &seen.spec;
        vec![(vec![spec.schedule.clone(), spec.concurrency_policy.clone(), spec.time_zone.clone()], 1.0)]
    }),
    Family::one("kube_cronjob_status_active", "Jobs that run.", active),
    Family::one("kube_cronjob_status_last_schedule_time", "When a Job was last created, in seconds since 1970.", |seen| {
        seconds(seen.status.last_schedule_time.as_ref()?)
    }),
    Family::one("kube_cronjob_status_last_successful_time", "When a Job last succeeded, in seconds since 1970.", |seen| {
        seconds(seen.status.last_successful_time.as_ref()?)
    }),
    Family::one("kube_cronjob_next_schedule_time", "When the next Job is due, in seconds since 1970.", next_schedule_time),
    Family::one("kube_cronjob_spec_suspend", "Whether no Jobs are created.", |seen| number(i32::from(seen.spec.suspend))),
    Family::one("kube_cronjob_spec_starting_deadline_seconds", "How late a Job may start.", |seen| {
        large(seen.spec.starting_deadline_seconds?)
    }),
    Family::one("kube_cronjob_spec_successful_job_history_limit", "Succeeded Jobs that are kept.", |seen| {
        number(seen.spec.successful_jobs_history_limit?)
    }),
    Family::one("kube_cronjob_spec_failed_job_history_limit", "Failed Jobs that are kept.", |seen| {
        number(seen.spec.failed_jobs_history_limit?)
    }),
    Family::one("kube_cronjob_metadata_resource_version", "The object's resource version.", |seen| {
        large(seen.metadata.resource_version.parse().ok()?)
    }),
    Family::one("kube_cronjob_labels", LABELS, one),
    Family::one("kube_cronjob_annotations", ANNOTATIONS, one),
];

fn active(seen: &Seen) -> Option<f64> {
    number(seen.status.active.as_ref().map_or(0, Active::count))
}

/// The first time after the last Job, or after the creation. It is in the past if the controller is late.
fn next_schedule_time(seen: &Seen) -> Option<f64> {
    let spec = &seen.spec;
    let since = seen.status.last_schedule_time.as_ref().or(seen.metadata.creation_timestamp.as_ref()).filter(|_| !spec.suspend)?;
    let zone = Some(&*spec.time_zone).filter(|zone| !zone.is_empty());
    large(Schedule::parse(&spec.schedule, zone).ok()?.next(since.0)?.as_second())
}

fn condition<'s>(seen: &'s Seen, kind: &str) -> Option<&'s str> {
    seen.status.conditions.iter().find(|condition| condition.kind == kind).map(|condition| &*condition.status)
}

/// No series before the Job has the condition.
fn of_condition(seen: &Seen, kind: &str) -> Series {
    condition(seen, kind).map(|status| truth(status).map(|(label, value)| (vec![label], value)).to_vec()).unwrap_or_default()
}

/// A Job that failed for a known reason has a series of each such reason. Otherwise the one series counts failed pods.
fn failed(seen: &Seen) -> Series {
    let failure = seen.status.conditions.iter().find(|condition| condition.kind == "Failed" && condition.status == "True");
    let reason = failure.map(|failure| &*failure.reason).filter(|reason| FAILURE_REASONS.contains(reason));
    match reason {
        Some(reason) => FAILURE_REASONS.iter().map(|known| (vec![(*known).to_owned()], f64::from(u8::from(*known == reason)))).collect(),
        None => vec![(vec![String::new()], f64::from(seen.status.failed))],
    }
}
