//! The CronJob controller's decisions: which Job is due, and which Jobs are listed, replaced and deleted.
//!
//! The name of a Job follows from the time that it is scheduled for. So a time has one Job at most, whatever crashes. A plan first makes the status
//! true of the existing Jobs, also of one that was created before a crash. Only a plan that finds it true creates a Job. So the policy about concurrent
//! Jobs counts all of them.
//!
//! Jobs are never adopted. A Job that a client creates from the template is controlled by the CronJob. It counts for the history limits and for
//! `lastSuccessfulTime`, and not as active.
//!
//! Source: kubernetes `pkg/controller/cronjob` (`cronjob_controllerv2.go`, `utils.go`).

mod due;
mod history;
mod new_job;
mod plan;
mod status;

pub use history::end_of;
pub use new_job::scheduled_at;
pub use plan::{plan, wait_event};

use crate::{
    shared,
    view::{CronJobView, JobView},
};
use berth_identity::Name;
use due::{Verdict, verdict};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The input of a CronJob's plan: one consistent reading of the caches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CronJobState {
    /// The CronJob.
    #[serde(with = "shared")]
    pub cron_job: Arc<CronJobView>,
    /// The Jobs that it controls. In any order.
    #[serde(with = "shared::list")]
    pub jobs: Vec<Arc<JobView>>,
    /// Whether another object has the name of the Job that is due.
    pub is_name_taken: bool,
    /// The time of this reading.
    pub now: Timestamp,
}

impl CronJobState {
    /// The state of a CronJob that controls these Jobs. `has_job` returns whether its namespace has a Job of a name.
    #[must_use]
    pub fn new(cron_job: Arc<CronJobView>, jobs: Vec<Arc<JobView>>, now: Timestamp, has_job: impl FnOnce(Name) -> bool) -> Self {
        let mut state = Self { cron_job, jobs, is_name_taken: false, now };
        if let Verdict::Start { name, .. } = verdict(&state).verdict {
            state.is_name_taken = has_job(name.into());
        }
        state
    }

    /// Since when a Job is due that can be created. `None`: none is.
    #[must_use]
    pub fn due_since(&self) -> Option<Timestamp> {
        let due = verdict(self);
        due.first.filter(|_| matches!(due.verdict, Verdict::Start { .. }) && !self.is_name_taken)
    }

    /// The Jobs, by name.
    fn sorted_jobs(&self) -> Vec<&JobView> {
        let mut jobs: Vec<&JobView> = self.jobs.iter().map(|job| &**job).collect();
        jobs.sort_by(|a, b| a.meta.name.cmp(&b.meta.name));
        jobs
    }
}

#[cfg(test)]
mod tests;
