//! The status of an autoscaler.

use berth_api::k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscalerCondition, HorizontalPodAutoscalerStatus, MetricStatus};

pub(super) const ABLE_TO_SCALE: &str = "AbleToScale";
pub(super) const SCALING_ACTIVE: &str = "ScalingActive";
pub(super) const SCALING_LIMITED: &str = "ScalingLimited";

/// A status under construction.
pub(super) struct StatusDraft {
    pub(super) status: HorizontalPodAutoscalerStatus,
    now: Timestamp,
}

impl StatusDraft {
    pub(super) fn new(status: &HorizontalPodAutoscalerStatus, now: Timestamp) -> Self {
        Self { status: status.clone(), now }
    }

    fn time(&self) -> Time {
        Time(Timestamp::from_second(self.now.as_second()).unwrap_or(self.now))
    }

    /// Sets a condition. Its time changes with its status only.
    pub(super) fn set(&mut self, kind: &str, is_true: bool, reason: &str, message: impl Into<String>) {
        let status = if is_true { "True" } else { "False" };
        let (time, reason, message) = (self.time(), Some(reason.to_owned()), Some(message.into()));
        let conditions = self.status.conditions.get_or_insert_default();
        match conditions.iter_mut().find(|condition| condition.type_ == kind) {
            Some(condition) => {
                if condition.status != status {
                    (condition.status, condition.last_transition_time) = (status.to_owned(), Some(time));
                }
                (condition.reason, condition.message) = (reason, message);
            }
            None => conditions.push(HorizontalPodAutoscalerCondition {
                last_transition_time: Some(time),
                message,
                reason,
                status: status.to_owned(),
                type_: kind.to_owned(),
            }),
        }
    }

    /// Sets the sizes and metrics.
    pub(super) fn sized(&mut self, current: i32, desired: i32, metrics: Option<Vec<MetricStatus>>) {
        self.status.current_replicas = (current != 0).then_some(current);
        self.status.desired_replicas = desired;
        self.status.current_metrics = metrics;
        self.status.observed_generation = None;
    }

    /// Records the time of a change of the size.
    pub(super) fn scaled(&mut self) {
        self.status.last_scale_time = Some(self.time());
    }
}
