//! HorizontalPodAutoscaler: one key prefix, two versions. `autoscaling/v2` is the stored form.

use super::text::{AGE, NAME, age_of, name, text};
use crate::resource::{
    BoxObject, Column, DecodeError, Decoded, FormError, KindSchema, Printed, PrinterColumn, Resource, Rules, StoredForm, Subresource,
    merge_rules::{MergeRule, atomic, conditions, to},
};
use berth_api::{
    Object,
    decode::{decode_tree, from_json},
    k8s_openapi::{
        api::autoscaling::v2::{HorizontalPodAutoscaler, MetricSpec, MetricStatus, MetricTarget, MetricValueStatus},
        apimachinery::pkg::api::resource::Quantity,
    },
};
use berth_kinds::{
    built_in::{autoscaler_to_v1, autoscaler_to_v2, horizontal_pod_autoscaler_v1},
    encode,
};
use bytes::Bytes;
use jiff::Timestamp;
use schemars::SchemaGenerator;
use serde_json::{Value, json};
use std::borrow::Cow;

const V1: &str = "autoscaling/v1";
const V2: &str = "autoscaling/v2";
/// The maximum number of targets in a cell. Further targets are only counted.
const SHOWN_MAX: usize = 2;
/// The text of a value that no controller has reported.
const UNKNOWN: &str = "<unknown>";

/// The lines of the resource table: `autoscaling/v2`, then `autoscaling/v1`.
pub(super) fn resources() -> [Resource; 2] {
    [versioned(v2(), v1), versioned(v1(), v2)]
}

fn v1() -> Resource {
    super::data(horizontal_pod_autoscaler_v1()).stored_as(AsV2)
}

fn v2() -> Resource {
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

/// Autoscalers of `autoscaling/v1` are stored as those of `autoscaling/v2`.
struct AsV2;

impl StoredForm for AsV2 {
    fn api_version(&self) -> &str {
        V2
    }

    fn encode(&self, autoscaler: &dyn Object) -> Result<Bytes, FormError> {
        let stored = read_v1(autoscaler).ok_or(FormError::NoAutoscaler)?;
        Ok(stored.encode().into())
    }

    fn show(&self, stored: &[u8]) -> Result<Option<Bytes>, FormError> {
        let stored: Value = from_json(stored).map_err(|_| FormError::NoAutoscaler)?;
        Ok(Some(encode(&autoscaler_to_v1(stored)).into()))
    }
}

/// An object of `autoscaling/v1` as a type.
fn read_v1(autoscaler: &dyn Object) -> Option<HorizontalPodAutoscaler> {
    decode_tree(&autoscaler_to_v2(autoscaler.to_value())).ok()
}

/// A version that knows the other one.
fn versioned(resource: Resource, other: fn() -> Resource) -> Resource {
    let is_v1 = resource.version() == "v1";
    Resource { rules: Box::new(Versioned { rules: resource.rules, other, is_v1 }), ..resource }
}

/// The rules of one version. Both are printed as `autoscaling/v2`, and field owners are known in both.
struct Versioned {
    rules: Box<dyn Rules>,
    other: fn() -> Resource,
    is_v1: bool,
}

impl Rules for Versioned {
    fn decode(&self, value: Value) -> Result<Decoded, DecodeError> {
        self.rules.decode(value)
    }

    fn decode_stored(&self, bytes: &[u8]) -> Result<BoxObject, DecodeError> {
        self.rules.decode_stored(bytes)
    }

    fn decode_tree(&self, tree: &Value) -> Result<BoxObject, DecodeError> {
        self.rules.decode_tree(tree)
    }

    fn adopt(&self, object: BoxObject) -> Result<BoxObject, DecodeError> {
        self.rules.adopt(object)
    }

    fn columns(&self) -> Cow<'_, [PrinterColumn<'_>]> {
        Cow::Borrowed(HorizontalPodAutoscaler::COLUMNS)
    }

    fn cells(&self, object: &dyn Object, now: Timestamp) -> Vec<Value> {
        if !self.is_v1 {
            return self.rules.cells(object, now);
        }
        read_v1(object).map(|autoscaler| autoscaler.cells(now)).unwrap_or_default()
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> KindSchema {
        self.rules.schema(generator)
    }

    fn other_versions(&self) -> Vec<Resource> {
        vec![(self.other)()]
    }

    fn convert(&self, document: &Value, from: &str, to: &str) -> Option<Value> {
        match (from, to) {
            (V1, V2) => Some(autoscaler_to_v2(document.clone())),
            (V2, V1) => Some(autoscaler_to_v1(document.clone())),
            _ => None,
        }
    }

    fn empty(&self) -> Option<Value> {
        self.rules.empty()
    }
}

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
        let statuses = self.status.as_ref().and_then(|status| status.current_metrics.as_deref()).unwrap_or_default();
        let metrics = self.spec.metrics.iter().flatten().enumerate();
        let targets: Vec<String> = metrics.filter_map(|(index, metric)| target(metric, statuses.get(index))).collect();
        let reference = &self.spec.scale_target_ref;
        vec![
            json!(name(&self.metadata)),
            json!(format!("{}/{}", reference.kind, reference.name)),
            json!(shown(&targets)),
            json!(self.spec.min_replicas.map_or_else(|| "<unset>".to_owned(), |least| least.to_string())),
            json!(self.spec.max_replicas.to_string()),
            json!(self.status.as_ref().and_then(|status| status.current_replicas).unwrap_or(0)),
            json!(age_of(&self.metadata, now)),
        ]
    }
}

fn shown(targets: &[String]) -> String {
    match targets.len().saturating_sub(SHOWN_MAX) {
        _ if targets.is_empty() => "<none>".to_owned(),
        0 => targets.join(", "),
        more => format!("{} + {more} more...", targets[..SHOWN_MAX].join(", ")),
    }
}

/// Formats a metric: `cpu: 40%/80%`, its present value and its target. `None`: its source is missing.
///
/// Source: upstream `formatHPAMetrics`.
fn target(metric: &MetricSpec, status: Option<&MetricStatus>) -> Option<String> {
    if let Some(source) = &metric.resource {
        let current = status.and_then(|status| status.resource.as_ref()).map(|status| &status.current);
        return Some(format!("{}: {}", source.name, usage(&source.target, current)));
    }
    if let Some(source) = &metric.container_resource {
        let current = status.and_then(|status| status.container_resource.as_ref()).map(|status| &status.current);
        return Some(format!("{}: {}", source.name, usage(&source.target, current)));
    }
    if let Some(source) = &metric.pods {
        let current = status.and_then(|status| status.pods.as_ref()).map(|status| &status.current);
        return Some(usage(&source.target, current));
    }
    if let Some(source) = &metric.object {
        return Some(whole(&source.target, status.and_then(|status| status.object.as_ref()).map(|status| &status.current)));
    }
    let source = metric.external.as_ref()?;
    Some(whole(&source.target, status.and_then(|status| status.external.as_ref()).map(|status| &status.current)))
}

/// Formats an average over pods or a utilization.
fn usage(target: &MetricTarget, current: Option<&MetricValueStatus>) -> String {
    if let Some(average) = &target.average_value {
        return format!("{}/{}", amount(current.and_then(|current| current.average_value.as_ref())), average.0);
    }
    let percent = |percent: Option<i32>, missing: &str| percent.map_or_else(|| missing.to_owned(), |percent| format!("{percent}%"));
    let current = percent(current.and_then(|current| current.average_utilization), UNKNOWN);
    format!("{current}/{}", percent(target.average_utilization, "<auto>"))
}

/// Formats a value of the target as a whole, or its average per pod.
fn whole(target: &MetricTarget, current: Option<&MetricValueStatus>) -> String {
    match (&target.average_value, &target.value) {
        (Some(average), _) => format!("{}/{} (avg)", amount(current.and_then(|current| current.average_value.as_ref())), average.0),
        (None, Some(value)) => format!("{}/{}", amount(current.and_then(|current| current.value.as_ref())), value.0),
        (None, None) => format!("{UNKNOWN}/<auto>"),
    }
}

fn amount(current: Option<&Quantity>) -> &str {
    current.map_or(UNKNOWN, |amount| amount.0.as_str())
}
