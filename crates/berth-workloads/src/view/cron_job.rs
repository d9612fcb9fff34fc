//! What plans read of a CronJob.

use super::{WorkloadSpec, WorkloadView, decode_workload};
use crate::resources::{CRON_JOB, CRON_JOBS};
use berth_api::cron::{Schedule, ScheduleError};
use berth_identity::{GroupResource, Revision};
use k8s_openapi::{
    api::batch::v1::{CronJobSpec, CronJobStatus},
    apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference},
};
use std::collections::BTreeMap;

/// What plans read of a CronJob.
pub type CronJobView = WorkloadView<CronJobSpec>;

/// The choices of a CronJob, parsed.
#[derive(Clone, Debug, PartialEq)]
pub struct CronJobChoices {
    /// `spec.schedule` in `spec.timeZone`.
    pub schedule: Result<Schedule, ScheduleError>,
    /// `spec.concurrencyPolicy`.
    pub concurrency: Concurrency,
}

/// `spec.concurrencyPolicy` of a CronJob.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Concurrency {
    /// Any number of its Jobs run at the same time.
    #[default]
    Allow,
    /// No Job is created while another one runs.
    Forbid,
    /// A new Job replaces those that run.
    Replace,
}

impl Default for CronJobChoices {
    fn default() -> Self {
        CronJobSpec::default().choices(&BTreeMap::new())
    }
}

impl WorkloadSpec for CronJobSpec {
    type Status = CronJobStatus;
    type Choices = CronJobChoices;
    const RESOURCE: GroupResource = CRON_JOBS;

    fn selector(&self) -> Option<&LabelSelector> {
        None
    }

    fn choices(&self, _: &BTreeMap<String, String>) -> CronJobChoices {
        CronJobChoices {
            schedule: Schedule::parse(&self.schedule, self.time_zone.as_deref()),
            concurrency: match self.concurrency_policy.as_deref() {
                Some("Forbid") => Concurrency::Forbid,
                Some("Replace") => Concurrency::Replace,
                _ => Concurrency::Allow,
            },
        }
    }

    fn decode(json: &[u8], revision: Revision) -> Result<CronJobView, serde_json::Error> {
        decode_workload(json, revision)
    }
}

/// Whether this owner is a CronJob.
#[must_use]
pub fn is_cron_job(owner: &OwnerReference) -> bool {
    CRON_JOB.is_written(&owner.api_version, &owner.kind)
}
