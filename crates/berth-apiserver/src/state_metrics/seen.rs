//! The decoded fields of an object of any of the kinds.

use berth_api::k8s_openapi::{
    api::{
        apps::v1::{RollingUpdateDeployment, StatefulSetOrdinals, StatefulSetPersistentVolumeClaimRetentionPolicy},
        autoscaling::v2::{CrossVersionObjectReference, MetricSpec, MetricStatus},
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use serde::{Deserialize, de::IgnoredAny};

/// The decoded fields of an object of any of the kinds.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Seen {
    pub(super) metadata: ObjectMeta,
    pub(super) spec: Spec,
    pub(super) status: Status,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Spec {
    pub(super) replicas: Option<i32>,
    pub(super) paused: bool,
    pub(super) strategy: DeploymentStrategy,
    pub(super) ordinals: Option<StatefulSetOrdinals>,
    pub(super) persistent_volume_claim_retention_policy: Option<StatefulSetPersistentVolumeClaimRetentionPolicy>,
    pub(super) parallelism: Option<i32>,
    pub(super) completions: Option<i32>,
    pub(super) active_deadline_seconds: Option<i64>,
    pub(super) suspend: bool,
    pub(super) schedule: String,
    pub(super) time_zone: String,
    pub(super) concurrency_policy: String,
    pub(super) starting_deadline_seconds: Option<i64>,
    pub(super) successful_jobs_history_limit: Option<i32>,
    pub(super) failed_jobs_history_limit: Option<i32>,
    pub(super) min_replicas: Option<i32>,
    pub(super) max_replicas: i32,
    pub(super) scale_target_ref: CrossVersionObjectReference,
    pub(super) metrics: Vec<MetricSpec>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DeploymentStrategy {
    pub(super) rolling_update: Option<RollingUpdateDeployment>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Status {
    pub(super) replicas: i32,
    pub(super) ready_replicas: i32,
    pub(super) available_replicas: i32,
    pub(super) unavailable_replicas: i32,
    pub(super) updated_replicas: i32,
    pub(super) current_replicas: i32,
    pub(super) fully_labeled_replicas: i32,
    pub(super) terminating_replicas: Option<i32>,
    pub(super) observed_generation: i64,
    pub(super) current_revision: String,
    pub(super) update_revision: String,
    pub(super) conditions: Vec<Condition>,
    pub(super) current_number_scheduled: i32,
    pub(super) desired_number_scheduled: i32,
    pub(super) number_available: i32,
    pub(super) number_misscheduled: i32,
    pub(super) number_ready: i32,
    pub(super) number_unavailable: i32,
    pub(super) updated_number_scheduled: i32,
    pub(super) active: Active,
    pub(super) ready: Option<i32>,
    pub(super) succeeded: i32,
    pub(super) failed: i32,
    pub(super) start_time: Option<Time>,
    pub(super) completion_time: Option<Time>,
    pub(super) last_schedule_time: Option<Time>,
    pub(super) last_successful_time: Option<Time>,
    pub(super) desired_replicas: i32,
    pub(super) current_metrics: Vec<MetricStatus>,
}

/// The field `active`, whose type depends on the kind.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Active {
    /// The running pods of a Job.
    Pods(i32),
    /// The running Jobs of a CronJob.
    Jobs(Vec<IgnoredAny>),
}

impl Default for Active {
    fn default() -> Self {
        Self::Pods(0)
    }
}

impl Active {
    pub(super) fn count(&self) -> i32 {
        match self {
            Self::Pods(pods) => *pods,
            Self::Jobs(jobs) => i32::try_from(jobs.len()).unwrap_or(i32::MAX),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: String,
    pub(super) reason: String,
}
