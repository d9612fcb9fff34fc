//! The Job of a time.

use crate::{
    claim,
    resources::CRON_JOB,
    view::{CronJobView, JobView},
};
use berth_api::{annotations::CRON_JOB_SCHEDULED_AT, cron::time_zone};
use jiff::{Timestamp, tz::TimeZone};
use k8s_openapi::{api::batch::v1::Job, apimachinery::pkg::apis::meta::v1::ObjectMeta};

/// The name of the Job of a time, which no other time has. Times that are less than a minute apart can share one.
pub(super) fn job_name(cron_job: &str, at: Timestamp) -> String {
    format!("{cron_job}-{}", at.as_second().div_euclid(60))
}

/// The time that a Job of a CronJob of this name is scheduled for. `None`: a client created it.
#[must_use]
pub fn scheduled_at(cron_job: &str, job: &JobView) -> Option<Timestamp> {
    let at = job.annotations.get(CRON_JOB_SCHEDULED_AT)?.parse::<Timestamp>().ok()?;
    // A status has whole seconds.
    let at = Timestamp::from_second(at.as_second()).ok()?;
    (*job.meta.name == *job_name(cron_job, at)).then_some(at)
}

/// The Job of a time.
///
/// Source: kubernetes `pkg/controller/cronjob/utils.go`, `getJobFromTemplate2`.
pub(super) fn new_job(cron_job: &CronJobView, at: Timestamp) -> Job {
    let template = &cron_job.spec.job_template;
    let metadata = template.metadata.clone().unwrap_or_default();
    let mut annotations = metadata.annotations.unwrap_or_default();
    annotations.insert(CRON_JOB_SCHEDULED_AT.to_owned(), shown(at, cron_job.spec.time_zone.as_deref()));
    Job {
        metadata: ObjectMeta {
            name: Some(job_name(&cron_job.meta.name, at)),
            namespace: Some(cron_job.meta.namespace.to_string()),
            labels: metadata.labels,
            annotations: Some(annotations),
            owner_references: Some(vec![claim::controller_reference(&CRON_JOB, &cron_job.meta)]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        ..Job::default()
    }
}

/// A time in a zone, as RFC 3339 writes it.
fn shown(at: Timestamp, zone: Option<&str>) -> String {
    let zone = zone.and_then(time_zone).unwrap_or(TimeZone::UTC);
    let text = at.to_zoned(zone).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
    text.strip_suffix("+00:00").map_or(text.clone(), |time| format!("{time}Z"))
}
