//! What the checks read of a CronJob, and of the Jobs that it controls.

use super::{Condition, Metadata};
use berth_store::env::Timestamp;
use serde::Deserialize;
use std::fmt;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CronJob {
    pub(crate) metadata: Metadata,
    pub(crate) spec: CronJobSpec,
    pub(crate) status: CronJobStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CronJobSpec {
    pub(crate) concurrency_policy: String,
    pub(crate) suspend: bool,
    pub(crate) starting_deadline_seconds: Option<i64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CronJobStatus {
    active: Vec<Listed>,
    pub(crate) last_schedule_time: Option<Timestamp>,
    pub(crate) last_successful_time: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Listed {
    name: String,
}

impl fmt::Display for CronJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CronJobStatus { active, last_schedule_time, .. } = &self.status;
        let active: Vec<_> = active.iter().map(|job| job.name.as_str()).collect();
        write!(f, "active={} last={last_schedule_time:?} suspend={}", active.join(","), self.spec.suspend)
    }
}

/// A Job, as its CronJob counts it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RunOfCronJob {
    pub(crate) metadata: Metadata,
    status: RunStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RunStatus {
    conditions: Vec<Condition>,
}

impl RunOfCronJob {
    /// The time that it is scheduled for. `None`: a client created it.
    pub(crate) fn scheduled_at(&self) -> Option<Timestamp> {
        self.metadata.annotations.get("batch.kubernetes.io/cronjob-scheduled-timestamp")?.parse().ok()
    }

    pub(crate) fn is_finished(&self) -> bool {
        let is_end = |condition: &Condition| matches!(condition.type_.as_str(), "Complete" | "Failed") && condition.status == "True";
        self.status.conditions.iter().any(is_end)
    }
}
