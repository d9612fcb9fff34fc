//! The status that is true of the existing Jobs.

use super::{
    CronJobState,
    history::{end_of, has_succeeded},
    new_job::scheduled_at,
};
use crate::{
    plan::{EventRecord, Repeat, Severity},
    resources::JOB,
    view::{CronJobView, JobView},
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{batch::v1::CronJobStatus, core::v1::ObjectReference},
    apimachinery::pkg::apis::meta::v1::Time,
};
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

/// How far the API server's clock may be behind the controller's.
const CLOCK_SKEW_MAX: SignedDuration = SignedDuration::from_mins(1);

/// The status that is true of the existing Jobs, and events about Jobs. `surplus`: Jobs that the same plan deletes.
///
/// Source: kubernetes `pkg/controller/cronjob/cronjob_controllerv2.go`, `syncCronJob`.
pub(super) fn true_status(state: &CronJobState, surplus: &[(&JobView, i32)]) -> (CronJobStatus, Vec<EventRecord>) {
    let cron_job = &*state.cron_job;
    let jobs = state.sorted_jobs();
    let by_uid: BTreeMap<&str, &JobView> = jobs.iter().map(|job| (job.meta.uid.as_str(), *job)).collect();
    let surplus: BTreeSet<&str> = surplus.iter().map(|(job, _)| job.meta.uid.as_str()).collect();
    let mut events = Vec::new();
    let mut status = stored(cron_job);
    let mut active = status.active.take().unwrap_or_default();
    active.retain(|listed| match listed.uid.as_deref().and_then(|uid| by_uid.get(uid)) {
        None => {
            let message = format!("Active job went missing: {}", listed.name.as_deref().unwrap_or_default());
            events.push(event(cron_job, Severity::Normal, "MissingJob", message));
            false
        }
        Some(job) => match end_of(job) {
            None => true,
            Some(end) => {
                let message = format!("Saw completed job: {}, condition: {}", job.meta.name, end.type_);
                let is_kept = !surplus.contains(job.meta.uid.as_str());
                events.extend(is_kept.then(|| event(cron_job, Severity::Normal, "SawCompletedJob", message)));
                false
            }
        },
    });
    let listed: BTreeSet<&str> = active.iter().filter_map(|listed| listed.uid.as_deref()).collect();
    let mut new = Vec::new();
    for job in &jobs {
        let at = scheduled_at(&cron_job.meta.name, job);
        if end_of(job).is_none() && !listed.contains(job.meta.uid.as_str()) {
            match at {
                Some(_) => new.push(reference(job)),
                None => events.push(unexpected(cron_job, job)),
            }
        }
        status.last_schedule_time = latest(status.last_schedule_time.take(), at.filter(|at| was_due(job, *at)).map(Time));
        if has_succeeded(job) {
            status.last_successful_time = latest(status.last_successful_time.take(), job.status.completion_time.clone());
        }
    }
    active.extend(new);
    status.active = Some(active).filter(|active| !active.is_empty());
    (status, events)
}

/// Whether a time was due when the Job was created. A client can write any time into a Job, and one far ahead would stop the CronJob until then.
/// Only the API server writes the time of the creation.
fn was_due(job: &JobView, at: Timestamp) -> bool {
    job.meta.created.is_none_or(|created| at.duration_since(created) <= CLOCK_SKEW_MAX)
}

/// The stored status. No list is the same as an empty one.
pub(super) fn stored(cron_job: &CronJobView) -> CronJobStatus {
    let status = &cron_job.status;
    CronJobStatus { active: status.active.clone().filter(|active| !active.is_empty()), ..status.clone() }
}

fn latest(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    [a, b].into_iter().flatten().max_by_key(|time| time.0)
}

fn reference(job: &JobView) -> ObjectReference {
    let meta = &job.meta;
    ObjectReference {
        api_version: Some(JOB.api_version()),
        kind: Some(JOB.kind.to_string()),
        namespace: Some(meta.namespace.to_string()),
        name: Some(meta.name.to_string()),
        uid: Some(meta.uid.to_string()),
        resource_version: Some(meta.revision.to_string()),
        ..ObjectReference::default()
    }
}

/// A client has created a Job from the template, or a client has removed the annotation of one.
fn unexpected(cron_job: &CronJobView, job: &JobView) -> EventRecord {
    let message = format!("Saw a job that the controller did not create or forgot: {}", job.meta.name);
    EventRecord { repeat: Repeat::OncePer(job.meta.uid.to_string()), ..event(cron_job, Severity::Warning, "UnexpectedJob", message) }
}

pub(super) fn event(cron_job: &CronJobView, severity: Severity, reason: impl Into<Cow<'static, str>>, message: String) -> EventRecord {
    EventRecord::new(cron_job.reference(), severity, reason, message)
}
