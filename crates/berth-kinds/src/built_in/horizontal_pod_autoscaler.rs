//! `autoscaling/v1` of HorizontalPodAutoscaler. It has a target for CPU alone. Annotations have everything else of `autoscaling/v2`, in which the
//! objects are stored and judged.
//!
//! Source: upstream `pkg/apis/autoscaling/v1/conversion.go`.

mod metrics;

use super::values::native;
use crate::{Content, Definition, Names, Strategy, Version};
use berth_api::{FeatureGates, FieldError, Kind, Object, Scope, Subresource, decode::decode_tree, object::GenerationRule};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use metrics::{Behavior, Condition, CurrentMetric, Metric};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use std::sync::Arc;

const V1: &str = "autoscaling/v1";
const V2: &str = "autoscaling/v2";
/// What is measured besides CPU.
const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
/// How fast the size changes.
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
/// What was measured.
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
/// The conditions of the status.
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const OF_SPEC: [&str; 2] = [METRICS, BEHAVIOR];
const OF_STATUS: [&str; 2] = [CONDITIONS, CURRENT_METRICS];

/// The definition of the version.
#[must_use]
pub fn horizontal_pod_autoscaler_v1() -> Definition {
    let names = Names {
        short_names: vec!["hpa".to_owned()],
        categories: vec!["all".to_owned()],
        ..Names::of("HorizontalPodAutoscaler", "horizontalpodautoscalers")
    };
    Definition {
        rules: berth_api::ObjectRules { generation_rule: GenerationRule::None, ..super::rules() },
        empty: json!({"metadata": {}, "spec": {"maxReplicas": 0, "scaleTargetRef": {}}, "status": {"currentReplicas": 0, "desiredReplicas": 0}}),
        strategy: Some(Arc::new(Autoscalers)),
        ..native::<k8s_openapi::api::autoscaling::v1::HorizontalPodAutoscaler>(
            "autoscaling",
            names,
            Scope::Namespaced,
            Version { status: true, ..Version::default() },
            &[TYPES],
        )
    }
}

struct Autoscalers;

impl Strategy for Autoscalers {
    /// The defaults are those of `autoscaling/v2`.
    fn default(&self, autoscaler: &mut Content) {
        change(autoscaler, berth_api::ObjectStrategy::set_defaults);
    }

    fn prepare_create(&self, autoscaler: &mut Content, gates: &FeatureGates) {
        keep(autoscaler, &Content::default(), OF_STATUS);
        change(autoscaler, |current| Kind::prepare_create(current, gates));
    }

    fn prepare_update(&self, autoscaler: &mut Content, old: &Content, gates: &FeatureGates) {
        keep(autoscaler, old, OF_STATUS);
        let Some(old) = typed(old) else { return };
        change(autoscaler, |current| Kind::prepare_update(current, &old, gates));
    }

    fn prepare_status_update(&self, autoscaler: &mut Content, old: &Content) {
        keep(autoscaler, old, OF_SPEC);
    }

    fn validate(&self, autoscaler: &Content) -> Vec<FieldError> {
        typed(autoscaler).map(|autoscaler| Kind::validate(&autoscaler, &FeatureGates::default())).unwrap_or_default()
    }

    fn validate_update(&self, autoscaler: &Content, old: &Content, subresource: Option<Subresource>) -> Vec<FieldError> {
        let (Some(autoscaler), Some(old)) = (typed(autoscaler), typed(old)) else { return Vec::new() };
        let gates = FeatureGates::default();
        match subresource {
            Some(_) => autoscaler.validate_status_update(&old, &gates),
            None => Kind::validate_update(&autoscaler, &old, &gates),
        }
    }
}

/// Changes an object as one of `autoscaling/v2`.
fn change(autoscaler: &mut Content, change: impl FnOnce(&mut HorizontalPodAutoscaler)) {
    let Some(mut current) = typed(autoscaler) else { return };
    change(&mut current);
    let shown = autoscaler_to_v1(current.to_value());
    for part in ["spec", "status"] {
        autoscaler.members_mut().insert(part.to_owned(), shown[part].clone());
    }
    autoscaler.meta.annotations =
        shown["metadata"].get("annotations").and_then(|annotations| serde_json::from_value(annotations.clone()).ok());
}

/// Takes annotations from the stored object: this endpoint cannot change them.
fn keep(autoscaler: &mut Content, old: &Content, names: [&str; 2]) {
    let annotations = autoscaler.meta.annotations.get_or_insert_default();
    for name in names {
        match old.meta.annotations.as_ref().and_then(|annotations| annotations.get(name)) {
            Some(stored) => _ = annotations.insert(name.to_owned(), stored.clone()),
            None => _ = annotations.remove(name),
        }
    }
    if annotations.is_empty() {
        autoscaler.meta.annotations = None;
    }
}

/// The object in the version that has rules. `None`: it cannot be read, which no object of the schema can be.
fn typed(autoscaler: &Content) -> Option<HorizontalPodAutoscaler> {
    let mut value = autoscaler.members().clone();
    value["kind"] = json!("HorizontalPodAutoscaler");
    value["metadata"] = json!(autoscaler.meta);
    decode_tree(&autoscaler_to_v2(value)).ok()
}

/// An object of `autoscaling/v1` as one of `autoscaling/v2`. Parts can be missing.
#[must_use]
pub fn autoscaler_to_v2(mut autoscaler: Value) -> Value {
    autoscaler["apiVersion"] = V2.into();
    let annotations = take_annotations(&mut autoscaler);
    let annotation = |name: &str| annotations.get(name).and_then(Value::as_str);
    if let Some(spec) = autoscaler.get_mut("spec").and_then(Value::as_object_mut) {
        let cpu = spec.remove("targetCPUUtilizationPercentage").filter(|percent| !percent.is_null());
        let cpu = cpu.map(|percent| json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}}));
        let others = annotation(METRICS).and_then(read::<Vec<Metric>>).unwrap_or_default();
        let metrics: Vec<Value> = others.into_iter().map(|metric| json!(metric.into_v2())).chain(cpu).collect();
        if !metrics.is_empty() {
            spec.insert("metrics".to_owned(), metrics.into());
        }
        if let Some(behavior) = annotation(BEHAVIOR).and_then(read::<Behavior>).filter(|behavior| *behavior != Behavior::default()) {
            spec.insert("behavior".to_owned(), json!(behavior.into_v2()));
        }
    }
    let of_status: Vec<&str> = OF_STATUS.into_iter().filter(|name| annotation(name).is_some()).collect();
    if autoscaler.get("status").is_none() && !of_status.is_empty() {
        autoscaler["status"] = json!({});
    }
    if let Some(status) = autoscaler.get_mut("status").and_then(Value::as_object_mut) {
        let cpu = status.remove("currentCPUUtilizationPercentage").filter(|percent| !percent.is_null());
        let cpu = cpu.map(|percent| json!([{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": percent}}}]));
        let measured = annotation(CURRENT_METRICS).and_then(read::<Vec<CurrentMetric>>).filter(|metrics| !metrics.is_empty());
        let measured = measured.map(|metrics| metrics.into_iter().map(|metric| json!(metric.into_v2())).collect()).or(cpu);
        measured.map(|measured: Value| status.insert("currentMetrics".to_owned(), measured));
        if let Some(conditions) = annotation(CONDITIONS).and_then(read::<Vec<Condition>>).filter(|conditions| !conditions.is_empty()) {
            status.insert("conditions".to_owned(), json!(conditions));
        }
    }
    autoscaler
}

/// An object of `autoscaling/v2` as one of `autoscaling/v1`. Parts can be missing.
#[must_use]
pub fn autoscaler_to_v1(mut autoscaler: Value) -> Value {
    autoscaler["apiVersion"] = V1.into();
    take_annotations(&mut autoscaler);
    let mut annotations = Vec::new();
    if let Some(spec) = autoscaler.get_mut("spec").and_then(Value::as_object_mut) {
        let metrics = take_list(spec, "metrics");
        if let Some(percent) = metrics.iter().find_map(|metric| cpu(metric, "target")) {
            spec.insert("targetCPUUtilizationPercentage".to_owned(), percent.clone());
        }
        let others: Vec<Metric> = metrics.iter().filter(|metric| cpu(metric, "target").is_none()).filter_map(Metric::of_v2).collect();
        if !others.is_empty() {
            annotations.push((METRICS, written(&others)));
        }
        if let Some(behavior) = spec.remove("behavior").as_ref().and_then(Behavior::of_v2) {
            annotations.push((BEHAVIOR, written(&behavior)));
        }
    }
    if let Some(status) = autoscaler.get_mut("status").and_then(Value::as_object_mut) {
        let measured = take_list(status, "currentMetrics");
        if let Some(percent) = measured.iter().find_map(|metric| cpu(metric, "current")) {
            status.insert("currentCPUUtilizationPercentage".to_owned(), percent.clone());
        }
        let measured: Vec<CurrentMetric> = measured.iter().filter_map(CurrentMetric::of_v2).collect();
        if !measured.is_empty() {
            annotations.push((CURRENT_METRICS, written(&measured)));
        }
        let conditions: Vec<Condition> =
            take_list(status, "conditions").into_iter().filter_map(|condition| serde_json::from_value(condition).ok()).collect();
        if !conditions.is_empty() {
            annotations.push((CONDITIONS, written(&conditions)));
        }
        status.entry("currentReplicas").or_insert(json!(0));
    }
    for (name, text) in annotations {
        autoscaler["metadata"]["annotations"][name] = text.into();
    }
    autoscaler
}

/// The annotations that only `autoscaling/v1` has.
fn take_annotations(autoscaler: &mut Value) -> Map<String, Value> {
    let Some(metadata) = autoscaler.get_mut("metadata").and_then(Value::as_object_mut) else { return Map::new() };
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else { return Map::new() };
    let taken = OF_SPEC.into_iter().chain(OF_STATUS).filter_map(|name| annotations.remove_entry(name)).collect();
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    taken
}

fn take_list(part: &mut Map<String, Value>, name: &str) -> Vec<Value> {
    match part.remove(name) {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    }
}

/// The percentage of a metric of CPU.
fn cpu<'v>(metric: &'v Value, side: &str) -> Option<&'v Value> {
    let resource = metric.get("resource").filter(|resource| metric["type"] == "Resource" && resource["name"] == "cpu")?;
    resource.get(side)?.get("averageUtilization").filter(|percent| !percent.is_null())
}

/// An annotation that cannot be read is ignored, as upstream.
fn read<T: DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::from_str(text).ok()
}

fn written(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("its keys are strings")
}

/// Its types as OpenAPI publishes them, without their descriptions, which are `k8s-openapi`'s. The marks are for what upstream's Go types leave out and what they always write.
const TYPES: &str = include_str!("horizontal_pod_autoscaler.json");
