//! The plan of one CronJob.

use super::{
    CronJobState,
    due::{Due, Verdict, verdict},
    history::surplus,
    new_job::new_job,
    status::{event, stored, true_status},
};
use crate::{
    plan::{Action, EventRecord, Outcome, Plan, Propagation, Reason, Repeat, Severity, Stage, Subresource, Urgency, Wait, merge_patch},
    view::{Concurrency, CronJobView, JobView},
};
use berth_api::cron::ScheduleError;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};
use std::{borrow::Cow, collections::BTreeSet};

/// Decides what to do for one CronJob.
///
/// A status that is not true of its Jobs is written first. Otherwise the Job that is due is created. Finished Jobs beyond the limits are deleted.
#[must_use]
pub fn plan(state: &CronJobState) -> Plan {
    let cron_job = &*state.cron_job;
    let surplus = surplus(state);
    let (status, events) = true_status(state, &surplus);
    let deletions: Vec<Action> =
        surplus.into_iter().map(|(job, limit)| delete(cron_job, job, Reason::BeyondJobHistoryLimit { limit })).collect();
    if let Some(patch) = merge_patch(&stored(cron_job), &status) {
        // The Job that is due follows when the caches show this status. A Job is counted as successful before it is deleted.
        return Plan { stages: stages([vec![write_status(cron_job, patch, Reason::JobsChanged)], deletions]), events, ..Plan::default() };
    }
    let mut plan = due(state);
    plan.events.splice(0..0, events);
    // A deletion and a creation do not depend on each other, and a quota can reject the creation until the deletion is done.
    match plan.stages.iter_mut().find(|stage| stage.actions.iter().any(|action| matches!(action, Action::Create { .. }))) {
        Some(stage) => stage.actions.extend(deletions),
        None => plan.stages.extend(stages([deletions])),
    }
    plan
}

/// What happens at the time that is due.
fn due(state: &CronJobState) -> Plan {
    let cron_job = &*state.cron_job;
    let Due { verdict, next, many_until, .. } = verdict(state);
    let has_schedule =
        !matches!(verdict, Verdict::Deleted | Verdict::Suspended | Verdict::Unreadable(ScheduleError::UnknownTimeZone { .. }));
    let mut events: Vec<EventRecord> = unsupported(cron_job).filter(|_| has_schedule).into_iter().collect();
    events.extend(many_until.map(|at| too_many(cron_job, at)));
    let wait = Plan { events, requeue_at: next, ..Plan::default() };
    let with_event = |mut plan: Plan, event| {
        plan.events.push(event);
        plan
    };
    match verdict {
        Verdict::Nothing => wait,
        Verdict::Deleted => {
            Plan { waits: vec![Wait::BeingDeleted { kind: "CronJob".to_owned(), name: cron_job.meta.name.to_string() }], ..wait }
        }
        Verdict::Suspended => Plan { waits: vec![Wait::CronJobSuspended], ..wait },
        Verdict::Unreadable(error) => with_event(wait, unreadable(cron_job, error)),
        Verdict::Never => {
            let message =
                format!("invalid schedule: {} : time difference between two schedules is less than 1 second", cron_job.spec.schedule);
            with_event(wait, once(cron_job, Severity::Warning, "InvalidSchedule", message))
        }
        Verdict::TooLate { at } => with_event(wait, too_late(cron_job, at)),
        Verdict::Started { at } => {
            Plan { stages: stages([vec![write_status(cron_job, json!({"lastScheduleTime": Time(at)}), Reason::JobsChanged)]]), ..wait }
        }
        Verdict::Forbidden { at, active } => {
            let plan = Plan { waits: vec![Wait::JobActive { job: active.to_owned() }], ..wait };
            let message = "Not starting job because prior execution is running and concurrency policy is Forbid".to_owned();
            with_event(plan, once_at(cron_job, at, Severity::Normal, "JobAlreadyActive", message))
        }
        Verdict::Start { at, name } if state.is_name_taken => {
            let message = format!("Error creating job: jobs.batch \"{name}\" already exists");
            let plan = Plan { waits: vec![Wait::JobNameTaken { job: name }], ..wait };
            with_event(plan, once_at(cron_job, at, Severity::Warning, "FailedCreate", message))
        }
        Verdict::Start { at, name } => Plan { stages: start(state, at, &name), ..wait },
    }
}

/// Deletes the Jobs that the new one replaces, creates it, and notes its time. If that is not written, the next plan reads the time from the Job.
fn start(state: &CronJobState, at: Timestamp, name: &str) -> Vec<Stage> {
    let cron_job = &*state.cron_job;
    let active = cron_job.status.active.as_deref().unwrap_or_default();
    let is_replace = cron_job.choices.concurrency == Concurrency::Replace;
    let listed: BTreeSet<&str> = active.iter().filter(|_| is_replace).filter_map(|listed| listed.uid.as_deref()).collect();
    let is_replaced = |job: &&JobView| job.meta.deleted.is_none() && listed.contains(job.meta.uid.as_str());
    let replaced: Vec<&JobView> = state.sorted_jobs().into_iter().filter(is_replaced).collect();
    let deletions = replaced.iter().map(|job| delete(cron_job, job, Reason::ReplacedByNext { at })).collect();
    let creation = Action::Create {
        object: new_job(cron_job, at).into(),
        reason: Reason::Scheduled { at },
        events: Outcome {
            success: Some(event(cron_job, Severity::Normal, "SuccessfulCreate", format!("Created job {name}"))),
            failure: Some(event(cron_job, Severity::Warning, "FailedCreate", "Error creating job: ".to_owned())),
        },
    };
    let mut status = json!({"lastScheduleTime": Time(at)});
    if !replaced.is_empty() {
        let gone: BTreeSet<&str> = replaced.iter().map(|job| job.meta.uid.as_str()).collect();
        let left: Vec<_> = active.iter().filter(|listed| listed.uid.as_deref().is_none_or(|uid| !gone.contains(uid))).collect();
        status["active"] = if left.is_empty() { Value::Null } else { json!(left) };
    }
    stages([deletions, vec![creation], vec![write_status(cron_job, status, Reason::Scheduled { at })]])
}

fn stages(actions: impl IntoIterator<Item = Vec<Action>>) -> Vec<Stage> {
    actions.into_iter().filter(|actions| !actions.is_empty()).map(|actions| Stage { actions }).collect()
}

/// Deletes this Job, in any version: its status changes all the time.
fn delete(cron_job: &CronJobView, job: &JobView, reason: Reason) -> Action {
    Action::Delete {
        target: job.reference().in_any_version(),
        propagation: Some(Propagation::Background),
        grace_period_seconds: None,
        reason,
        events: Outcome {
            success: Some(event(cron_job, Severity::Normal, "SuccessfulDelete", format!("Deleted job {}", job.meta.name))),
            failure: Some(event(cron_job, Severity::Warning, "FailedDelete", "Deleted job: ".to_owned())),
        },
    }
}

fn write_status(cron_job: &CronJobView, patch: Value, reason: Reason) -> Action {
    Action::Patch {
        target: cron_job.reference(),
        subresource: Some(Subresource::Status),
        patch: json!({"status": patch}),
        urgency: Urgency::Now,
        reason,
        events: Outcome::default(),
    }
}

fn unsupported(cron_job: &CronJobView) -> Option<EventRecord> {
    let schedule = &cron_job.spec.schedule;
    let message = format!(
        "CRON_TZ or TZ used in schedule {schedule:?} is not officially supported, \
         see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
    );
    schedule.contains("TZ").then(|| once(cron_job, Severity::Warning, "UnsupportedSchedule", message))
}

fn unreadable(cron_job: &CronJobView, error: &ScheduleError) -> EventRecord {
    let (reason, message) = match error {
        ScheduleError::UnknownTimeZone { zone } => ("UnknownTimeZone", format!("invalid timeZone: {zone:?}: {error}")),
        _ => ("UnparseableSchedule", format!("unparseable schedule: {:?} : {error}", cron_job.spec.schedule)),
    };
    once(cron_job, Severity::Warning, reason, message)
}

fn too_many(cron_job: &CronJobView, at: Timestamp) -> EventRecord {
    let message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew".to_owned();
    once_at(cron_job, at, Severity::Warning, "TooManyMissedTimes", message)
}

fn too_late(cron_job: &CronJobView, at: Timestamp) -> EventRecord {
    let message = format!("Missed scheduled time to start a job: {}", at.strftime("%a, %d %b %Y %H:%M:%S +0000"));
    once_at(cron_job, at, Severity::Warning, "MissSchedule", message)
}

/// An event whose cause lasts.
fn once(cron_job: &CronJobView, severity: Severity, reason: impl Into<Cow<'static, str>>, message: String) -> EventRecord {
    EventRecord { repeat: Repeat::Once, ..event(cron_job, severity, reason, message) }
}

/// An event about a time, which several plans find due.
fn once_at(
    cron_job: &CronJobView,
    at: Timestamp,
    severity: Severity,
    reason: impl Into<Cow<'static, str>>,
    message: String,
) -> EventRecord {
    EventRecord { repeat: Repeat::OncePer(at.to_string()), ..event(cron_job, severity, reason, message) }
}

/// Returns the event that reports that a CronJob has begun to wait. Its other events are upstream's, so only a wait for another controller has one.
#[must_use]
pub fn wait_event(cron_job: &CronJobView, wait: &Wait) -> Option<EventRecord> {
    let reason = wait.event_reason().filter(|_| matches!(wait, Wait::SecondWriter(_)))?;
    Some(event(cron_job, Severity::Warning, reason, wait.to_string()))
}
