//! The decoded fields of an object of any of the kinds.

use berth_api::k8s_openapi::{
    api::{
        apps::v1::{RollingUpdateDeployment, StatefulSetOrdinals, StatefulSetPersistentVolumeClaimRetentionPolicy},
        autoscaling::v2::CrossVersionObjectReference,
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{OwnerReference, Time},
    },
};
use serde::{Deserialize, Deserializer, de::IgnoredAny};

/// The decoded fields of an object of any of the kinds.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Seen {
    pub(super) metadata: Meta,
    pub(super) spec: Spec,
    pub(super) status: Status,
}

/// Without the owners of fields, which are most of many objects.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Meta {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) generation: i64,
    pub(super) resource_version: String,
    pub(super) creation_timestamp: Option<Time>,
    #[serde(deserialize_with = "list")]
    pub(super) owner_references: Vec<OwnerReference>,
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
    #[serde(deserialize_with = "list")]
    pub(super) metrics: Vec<Metric>,
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
    #[serde(deserialize_with = "list")]
    pub(super) conditions: Vec<Condition>,
    pub(super) current_number_scheduled: i32,
    pub(super) desired_number_scheduled: i32,
    pub(super) number_available: i32,
    pub(super) number_misscheduled: i32,
    pub(super) number_ready: i32,
    pub(super) number_unavailable: i32,
    pub(super) updated_number_scheduled: i32,
    pub(super) active: Option<Active>,
    pub(super) ready: Option<i32>,
    pub(super) succeeded: i32,
    pub(super) failed: i32,
    pub(super) start_time: Option<Time>,
    pub(super) completion_time: Option<Time>,
    pub(super) last_schedule_time: Option<Time>,
    pub(super) last_successful_time: Option<Time>,
    pub(super) desired_replicas: i32,
    #[serde(deserialize_with = "list")]
    pub(super) current_metrics: Vec<Metric>,
}

/// Upstream can write null for an empty list.
fn list<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// A metric of an autoscaler: its target, or its present value.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metric {
    resource: Option<Source>,
    container_resource: Option<Source>,
    object: Option<Source>,
    pods: Option<Source>,
    external: Option<Source>,
}

impl Metric {
    pub(super) fn source(&self) -> Option<&Source> {
        [&self.resource, &self.container_resource, &self.object, &self.pods, &self.external].into_iter().find_map(Option::as_ref)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Source {
    /// The name of a resource.
    name: String,
    /// The name of all other metrics.
    metric: MetricName,
    pub(super) container: String,
    #[serde(alias = "target")]
    pub(super) current: Amounts,
}

impl Source {
    pub(super) fn name(&self) -> &str {
        if self.name.is_empty() { &self.metric.name } else { &self.name }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MetricName {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Amounts {
    pub(super) value: Option<Quantity>,
    pub(super) average_value: Option<Quantity>,
    pub(super) average_utilization: Option<i32>,
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
