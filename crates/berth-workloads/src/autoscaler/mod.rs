//! HorizontalPodAutoscalers: how many pods a target needs for its metrics, and how fast its size may change.
//!
//! [`plan`] computes one size every [`SYNC_PERIOD`], as upstream. Between reconciles the controller remembers [`Memory`]. After a restart,
//! the last scaling in the status replaces it.
//!
//! Source: kubernetes `pkg/controller/podautoscaler/{horizontal,replica_calculator}.go`; KEP-853 (behavior), KEP-4951 (tolerance).

mod behavior;
mod calculator;
mod load;
mod metric;
mod plan;
mod status;
#[cfg(test)]
mod tests;
mod view;

pub use behavior::{Memory, Recommendation, Resize, ScaleEvent, longest_window};
pub use load::share;
pub use plan::{plan, wait_event};
pub use view::{AutoscalerView, ContainerSample, MeasuredPodView, PodSample, ReadyCondition, ScaledView};

use crate::resources::{DEPLOYMENTS, INGRESSES, REPLICA_SETS, REPLICATION_CONTROLLERS, SERVICES, STATEFUL_SETS};
use berth_identity::{GroupResource, Name};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::autoscaling::v2::CrossVersionObjectReference;
use serde::{Deserialize, Serialize};

/// The interval of reconciles of one autoscaler.
pub const SYNC_PERIOD: SignedDuration = SignedDuration::from_secs(15);
/// The time over which a sample of usage was measured.
pub const WINDOW: SignedDuration = SignedDuration::from_secs(15);
/// How long after the start of a pod its CPU samples count only if the pod was ready during their [`WINDOW`].
const CPU_INITIALIZATION_PERIOD: SignedDuration = SignedDuration::from_mins(5);
/// A pod that became unready within this time after its start counts as never ready.
const INITIAL_READINESS_DELAY: SignedDuration = SignedDuration::from_secs(30);
/// The stabilization window of a scale-down, if the autoscaler has none.
const DOWNSCALE_STABILIZATION_SECONDS: i32 = 300;
/// How far the ratio of usage and target may be from 1 without a change.
const TOLERANCE: f64 = 0.1;

/// How many autoscalers of the same pods a plan reads: one more than a message names. Each has the message in its status.
pub const SELECTED_BY_MAX: usize = NAMED_MAX + 1;
/// How many autoscalers a message names.
const NAMED_MAX: usize = 8;

/// Whether several autoscalers select the same pods. Then none of them scales.
#[must_use]
pub fn is_ambiguous(selected_by: &[Name]) -> bool {
    1 < selected_by.len()
}

/// The input of one autoscaler's plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AutoscalerState {
    /// The autoscaler.
    pub autoscaler: AutoscalerView,
    /// What it scales.
    pub target: Target,
    /// The resource of the target, if a client defined its kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_resource: Option<GroupResource>,
    /// The pods that the selector of the target matches, by name. Empty if several autoscalers select them.
    pub pods: Vec<PodSample>,
    /// The first [`SELECTED_BY_MAX`] autoscalers of the namespace, by name, whose targets select some of these pods.
    pub selected_by: Vec<Name>,
    /// The objects that metrics of type `Object` describe, in the order of the metrics that have one.
    pub described: Vec<Described>,
    /// The memory of the reconcile before.
    pub memory: Memory,
    /// Whether `behavior` can set a tolerance (gate `HPAConfigurableTolerance`).
    pub tolerance_is_configurable: bool,
    /// Why the target could not be scaled last time.
    pub last_error: Option<String>,
    /// The time of the snapshot.
    pub now: Timestamp,
}

/// What an autoscaler refers to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Target {
    /// It exists.
    Found(ScaledView),
    /// There is no object of this name.
    Missing,
    /// The kind has no scale that berth knows.
    WithoutScale,
    /// The API group has no such kind.
    UnknownKind,
}

/// The sort of an object that a reference names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// berth can scale objects of this resource.
    Scaled(GroupResource),
    /// Objects of the kind have no scale.
    WithoutScale,
    /// The API group has no such kind.
    Unknown,
}

impl TargetKind {
    /// The kind that a `scaleTargetRef` names. Its API version matters only for the group.
    #[must_use]
    pub fn of(reference: &CrossVersionObjectReference) -> Self {
        match (group_of(reference), reference.kind.as_str()) {
            ("apps", "Deployment") => Self::Scaled(DEPLOYMENTS),
            ("apps", "ReplicaSet") => Self::Scaled(REPLICA_SETS),
            ("apps", "StatefulSet") => Self::Scaled(STATEFUL_SETS),
            ("", "ReplicationController") => Self::Scaled(REPLICATION_CONTROLLERS),
            ("apps", "DaemonSet" | "ControllerRevision") | ("batch", "Job" | "CronJob") => Self::WithoutScale,
            _ => Self::Unknown,
        }
    }
}

/// The resource of an object that a metric of type `Object` describes. `None`: berth reads no metrics of it.
#[must_use]
pub fn described_resource(reference: &CrossVersionObjectReference) -> Option<GroupResource> {
    match (group_of(reference), reference.kind.as_str()) {
        ("", "Service") => Some(SERVICES),
        ("networking.k8s.io", "Ingress") => Some(INGRESSES),
        _ => match TargetKind::of(reference) {
            TargetKind::Scaled(resource) => Some(resource),
            TargetKind::WithoutScale | TargetKind::Unknown => None,
        },
    }
}

/// The API group that a reference names.
#[must_use]
pub fn group_of(reference: &CrossVersionObjectReference) -> &str {
    let version = reference.api_version.as_deref().unwrap_or_default();
    version.split_once('/').map_or("", |(group, _)| group)
}

/// The object that a metric of type `Object` describes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Described {
    /// Its annotation for the metric, as milli-units. `None`: it has no valid one.
    Found(Option<i64>),
    /// There is no object of this name.
    Missing,
    /// berth reads no metrics of this kind.
    UnknownKind,
}
