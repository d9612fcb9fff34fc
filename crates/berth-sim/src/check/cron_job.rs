//! That each time of a CronJob has one Job at most, and that Jobs run at the same time only where the policy allows it.

use super::{Checker, Presence, Uid, Violation, violated};
use crate::facts::{CronJob, RunOfCronJob};
use berth_store::env::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// A CronJob, the Jobs that it controls, and the times that ever had one.
#[derive(Debug, Default)]
pub(super) struct TrackedCronJob {
    newest: CronJob,
    /// Since when its spec is what it is.
    spec_since: Option<Timestamp>,
    jobs: BTreeMap<Uid, RunOfCronJob>,
    started: BTreeSet<Timestamp>,
}

impl Checker {
    /// Takes a change of a CronJob in. The times in its status never go back.
    pub(super) fn take_in_cron_job(&mut self, cron_job: CronJob, presence: Presence, now: Timestamp) -> Result<String, Violation> {
        let text = cron_job.to_string();
        if presence == Presence::Gone {
            self.cron_jobs.remove(&cron_job.metadata.uid);
            return Ok(text);
        }
        let known = self.cron_jobs.entry(cron_job.metadata.uid.clone()).or_default();
        let is_new = known.newest.metadata.uid.is_empty();
        let (old, new) = (&known.newest.status, &cron_job.status);
        let name = &cron_job.metadata.name;
        if new.last_schedule_time < old.last_schedule_time {
            return violated(format!("lastScheduleTime of CronJob {name} goes back from {:?}", old.last_schedule_time));
        }
        if new.last_successful_time < old.last_successful_time {
            return violated(format!("lastSuccessfulTime of CronJob {name} goes back from {:?}", old.last_successful_time));
        }
        if is_new || known.newest.spec != cron_job.spec {
            known.spec_since = Some(now);
        }
        known.newest = cron_job;
        Ok(text)
    }

    /// Checks a change of a Job against the CronJob that controls it.
    pub(super) fn check_job_of_cron_job(&mut self, job: RunOfCronJob, presence: Presence, now: Timestamp) -> Result<(), Violation> {
        let uid = job.metadata.uid.clone();
        // It may have been released.
        let controller = job.metadata.controller().to_owned();
        let others = self.cron_jobs.iter_mut().filter(|(cron_job, _)| **cron_job != controller);
        others.for_each(|(_, known)| _ = known.jobs.remove(&uid));
        let Some(known) = self.cron_jobs.get_mut(&controller) else { return Ok(()) };
        if presence == Presence::Gone {
            known.jobs.remove(&uid);
            return Ok(());
        }
        let is_new = known.jobs.insert(uid.clone(), job.clone()).is_none();
        let Some(at) = job.scheduled_at().filter(|_| is_new) else { return Ok(()) };
        let (name, whose) = (&job.metadata.name, &known.newest.metadata.name);
        if !known.started.insert(at) {
            return violated(format!("{at} has a second Job of CronJob {whose}: {name}"));
        }
        if now < at {
            return violated(format!("Job {name} is created before {at}"));
        }
        let since = known.spec_since;
        if since.is_some_and(|since| self.is_known(since, now)) { self.check_spec_of_run(&controller, &job, at, now) } else { Ok(()) }
    }

    /// The spec is old enough that the controller knows it.
    fn check_spec_of_run(&self, cron_job: &str, job: &RunOfCronJob, at: Timestamp, now: Timestamp) -> Result<(), Violation> {
        let Some(known) = self.cron_jobs.get(cron_job) else { return Ok(()) };
        let (name, spec) = (&job.metadata.name, &known.newest.spec);
        if spec.suspend {
            return violated(format!("Job {name} is created although its CronJob is suspended"));
        }
        // A call can be on its way for some seconds.
        let late = now.duration_since(at).as_secs() - super::STALENESS_MAX.as_secs();
        if spec.starting_deadline_seconds.is_some_and(|deadline| deadline < late) {
            return violated(format!("Job {name} is created {late} s after its deadline"));
        }
        let runs = |other: &&RunOfCronJob| other.metadata.uid != job.metadata.uid && other.scheduled_at().is_some() && !other.is_finished();
        let other = known
            .jobs
            .values()
            .find(|other| runs(other) && (spec.concurrency_policy == "Forbid" || other.metadata.deletion_timestamp.is_none()));
        match other.filter(|_| spec.concurrency_policy != "Allow") {
            Some(other) => violated(format!("Jobs {name} and {} run at the same time ({})", other.metadata.name, spec.concurrency_policy)),
            None => Ok(()),
        }
    }
}
