//! Which time is due, and whether its Job may start.

use super::{CronJobState, new_job::job_name};
use crate::view::Concurrency;
use berth_api::cron::{Schedule, ScheduleError};
use jiff::{SignedDuration, Timestamp};

/// With more missed times than these, an event reports them.
const MANY: i64 = 100;

/// The decision about the time that is due.
#[derive(Debug)]
pub(super) struct Due<'a> {
    pub(super) verdict: Verdict<'a>,
    /// The first time that is due.
    pub(super) first: Option<Timestamp>,
    /// The first time that is not due yet.
    pub(super) next: Option<Timestamp>,
    /// The last of more than [`MANY`] missed times.
    pub(super) many_until: Option<Timestamp>,
}

/// What happens at the time that is due.
#[derive(Debug)]
pub(super) enum Verdict<'a> {
    /// The CronJob is being deleted.
    Deleted,
    /// It is suspended.
    Suspended,
    /// Its schedule cannot be read.
    Unreadable(&'a ScheduleError),
    /// Its schedule has no times.
    Never,
    /// No time is due.
    Nothing,
    /// The time to start is over.
    TooLate { at: Timestamp },
    /// The Job of this time exists.
    Started { at: Timestamp },
    /// Another Job runs, and the policy forbids a second one.
    Forbidden { at: Timestamp, active: &'a str },
    /// The Job of this time is created.
    Start { at: Timestamp, name: String },
}

impl Due<'_> {
    fn not(verdict: Verdict<'_>) -> Due<'_> {
        Due { verdict, first: None, next: None, many_until: None }
    }
}

/// Decides which time is due: the last one since a Job was last scheduled, or since the CronJob was created. Of several missed times, only the last
/// one starts.
///
/// Source: kubernetes `pkg/controller/cronjob/utils.go`, `mostRecentScheduleTime`. Upstream estimates the last time by the distance of the first two.
pub(super) fn verdict(state: &CronJobState) -> Due<'_> {
    let (cron_job, now) = (&*state.cron_job, state.now);
    let (meta, spec) = (&cron_job.meta, &*cron_job.spec);
    if meta.deleted.is_some() {
        return Due::not(Verdict::Deleted);
    }
    let schedule = match &cron_job.choices.schedule {
        Err(error @ ScheduleError::UnknownTimeZone { .. }) => return Due::not(Verdict::Unreadable(error)),
        _ if spec.suspend == Some(true) => return Due::not(Verdict::Suspended),
        Err(error) => return Due::not(Verdict::Unreadable(error)),
        Ok(schedule) => schedule,
    };
    let since = cron_job.status.last_schedule_time.as_ref().map(|time| time.0).or(meta.created).unwrap_or(now);
    let Some(first) = schedule.next(since) else { return Due::not(Verdict::Never) };
    let Some(at) = schedule.last(since, now) else { return Due { next: Some(first), ..Due::not(Verdict::Nothing) } };
    let deadline = spec.starting_deadline_seconds.and_then(|seconds| now.checked_sub(SignedDuration::from_secs(seconds)).ok());
    let counted_from = deadline.map_or(since, |deadline| since.max(deadline));
    Due {
        verdict: verdict_at(state, at, deadline),
        first: Some(first),
        next: schedule.next(at),
        many_until: are_many(schedule, counted_from, now).then_some(at),
    }
}

fn verdict_at(state: &CronJobState, at: Timestamp, deadline: Option<Timestamp>) -> Verdict<'_> {
    let cron_job = &*state.cron_job;
    let name = job_name(&cron_job.meta.name, at);
    if deadline.is_some_and(|deadline| at <= deadline) {
        return Verdict::TooLate { at };
    }
    if state.jobs.iter().any(|job| *job.meta.name == *name) {
        return Verdict::Started { at };
    }
    match cron_job.status.active.as_deref().and_then(<[_]>::first) {
        Some(active) if cron_job.choices.concurrency == Concurrency::Forbid => {
            Verdict::Forbidden { at, active: active.name.as_deref().unwrap_or_default() }
        }
        _ => Verdict::Start { at, name },
    }
}

/// Whether many times were missed, estimated by the distance of the first two.
fn are_many(schedule: &Schedule, since: Timestamp, now: Timestamp) -> bool {
    let Some(first) = schedule.next(since).filter(|first| *first <= now) else { return false };
    let Some(second) = schedule.next(first) else { return false };
    let distance = second.duration_since(first).as_secs().max(1);
    MANY < now.duration_since(first).as_secs() / distance + 1
}
