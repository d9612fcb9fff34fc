//! HorizontalPodAutoscaler.

use super::text::{AGE, NAME, age_of, first_few, name, or, text};
use crate::resource::{
    Column, Printed, Resource, Subresource,
    merge_rules::{MergeRule, atomic, conditions, to},
};
use berth_api::k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscaler, MetricSpec, MetricTarget};
use jiff::Timestamp;
use serde_json::{Value, json};

/// The maximum number of targets in a cell. Further targets are only counted.
const SHOWN_MAX: usize = 2;

/// Its line of the resource table.
pub(super) fn resource() -> Resource {
    Resource::namespaced::<HorizontalPodAutoscaler>()
        .short(&["hpa"])
        .all()
        .sub(&[Subresource::Status])
        .merges(MERGE_RULES)
        .always_has(json!({"spec": {"maxReplicas": 0, "scaleTargetRef": {}}, "status": {"currentMetrics": null, "desiredReplicas": 0}}))
}

const MERGE_RULES: &[MergeRule] = &[
    to("HorizontalPodAutoscaler", "status", "HorizontalPodAutoscalerStatus"),
    conditions("HorizontalPodAutoscalerStatus"),
    atomic("HorizontalPodAutoscalerSpec", "metrics"),
    atomic("HorizontalPodAutoscalerStatus", "currentMetrics"),
    atomic("HPAScalingRules", "policies"),
];

impl Printed for HorizontalPodAutoscaler {
    const COLUMNS: &'static [Column] = &[
        NAME,
        text("Reference", "What is scaled."),
        text("Targets", "What is measured, and what it should be."),
        text("MinPods", "The fewest pods."),
        text("MaxPods", "The most pods."),
        text("Replicas", "How many pods there were when it was last looked at."),
        AGE,
    ];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let targets: Vec<String> = self.spec.metrics.iter().flatten().filter_map(target).collect();
        let reference = &self.spec.scale_target_ref;
        vec![
            json!(name(&self.metadata)),
            json!(format!("{}/{}", reference.kind, reference.name)),
            json!(or(Some(&first_few(&targets, SHOWN_MAX)), "<none>")),
            json!(self.spec.min_replicas.map_or_else(|| "<unset>".to_owned(), |least| least.to_string())),
            json!(self.spec.max_replicas.to_string()),
            json!(self.status.as_ref().and_then(|status| status.current_replicas).unwrap_or(0)),
            json!(age_of(&self.metadata, now)),
        ]
    }
}

/// Formats a target: `cpu: <unknown>/80%`. The current value is unknown, because there are no metrics.
fn target(metric: &MetricSpec) -> Option<String> {
    let resource = metric.resource.as_ref().map(|source| (Some(source.name.as_str()), &source.target));
    let container = || metric.container_resource.as_ref().map(|source| (Some(source.name.as_str()), &source.target));
    let other = || {
        let target = metric.pods.as_ref().map(|source| &source.target);
        let target = target.or_else(|| metric.object.as_ref().map(|source| &source.target));
        target.or_else(|| metric.external.as_ref().map(|source| &source.target)).map(|target| (None, target))
    };
    let (name, target) = resource.or_else(container).or_else(other)?;
    Some(format!("{}<unknown>/{}", name.map(|name| format!("{name}: ")).unwrap_or_default(), wanted(target)))
}

fn wanted(target: &MetricTarget) -> String {
    match (target.average_utilization, &target.average_value, &target.value) {
        (Some(percent), ..) => format!("{percent}%"),
        (None, Some(average), _) => format!("{} (avg)", average.0),
        (None, None, Some(value)) => value.0.clone(),
        (None, None, None) => "<auto>".to_owned(),
    }
}
