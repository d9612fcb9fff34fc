//! HorizontalPodAutoscaler.

use crate::{
    FeatureGates, FieldError, Gate, Kind, Path,
    faults::{Faults, NOT_NEGATIVE},
    names::check_path_segment,
    object::GenerationRule,
    pod::quantities::parse,
    unset::{list, text},
};
use k8s_openapi::{
    api::autoscaling::v2::{
        ContainerResourceMetricSource, CrossVersionObjectReference, ExternalMetricSource, HPAScalingPolicy, HPAScalingRules,
        HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec, HorizontalPodAutoscalerStatus, MetricIdentifier, MetricSpec, MetricTarget,
        ObjectMetricSource, PodsMetricSource, ResourceMetricSource,
    },
    apimachinery::pkg::api::resource::Quantity,
};

/// The default target in percent of the requested CPU, without a metric.
const UTILIZATION: i32 = 80;
/// Annotations that only `autoscaling/v1` has: fields of this version.
const V1_ANNOTATIONS: [&str; 4] = [
    "autoscaling.alpha.kubernetes.io/behavior",
    "autoscaling.alpha.kubernetes.io/conditions",
    "autoscaling.alpha.kubernetes.io/current-metrics",
    "autoscaling.alpha.kubernetes.io/metrics",
];
const METRIC_TYPES: &[&str] = &["ContainerResource", "External", "Object", "Pods", "Resource"];
const TARGET_TYPES: &[&str] = &["AverageValue", "Utilization", "Value"];
const SELECT_POLICIES: &[&str] = &["Disabled", "Max", "Min"];
/// The maximum period of a policy, in seconds.
const PERIOD_MAX: i32 = 1800;
/// The maximum stabilization window, in seconds.
const WINDOW_MAX: i32 = 3600;

impl Kind for HorizontalPodAutoscaler {
    const GENERATION_RULE: GenerationRule = GenerationRule::None;
    const HAS_STATUS: bool = true;

    fn set_defaults(&mut self) {
        let spec = &mut self.spec;
        spec.min_replicas.get_or_insert(1);
        if list(&spec.metrics).is_empty() {
            let target =
                MetricTarget { type_: "Utilization".to_owned(), average_utilization: Some(UTILIZATION), ..MetricTarget::default() };
            let resource = Some(ResourceMetricSource { name: "cpu".to_owned(), target });
            spec.metrics = Some(vec![MetricSpec { type_: "Resource".to_owned(), resource, ..MetricSpec::default() }]);
        }
        if let Some(behavior) = &mut spec.behavior {
            set_rules(behavior.scale_up.get_or_insert_default(), Some(0), &[("Pods", 4), ("Percent", 100)]);
            set_rules(behavior.scale_down.get_or_insert_default(), None, &[("Percent", 100)]);
        }
        self.status.get_or_insert_default();
        if let Some(annotations) = &mut self.metadata.annotations {
            annotations.retain(|name, _| !V1_ANNOTATIONS.contains(&name.as_str()));
            if annotations.is_empty() {
                self.metadata.annotations = None;
            }
        }
    }

    fn prepare_create(&mut self, gates: &FeatureGates) {
        self.status = Some(HorizontalPodAutoscalerStatus::default());
        if !gates.enabled(Gate::HPAConfigurableTolerance) {
            drop_tolerances(&mut self.spec);
        }
    }

    fn prepare_update(&mut self, old: &Self, gates: &FeatureGates) {
        self.status.clone_from(&old.status);
        if !gates.enabled(Gate::HPAConfigurableTolerance) && !has_tolerance(&old.spec) {
            drop_tolerances(&mut self.spec);
        }
    }

    fn prepare_status_update(&mut self, old: &Self, _gates: &FeatureGates) {
        self.spec.clone_from(&old.spec);
    }

    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        validate_spec(&self.spec, &mut faults);
        faults.into_vec()
    }

    fn validate_status_update(&self, _old: &Self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        let status = self.status.clone().unwrap_or_default();
        faults.not_negative(&Path::new("status.currentReplicas"), status.current_replicas);
        faults.not_negative(&Path::new("status.desiredReplicas"), Some(status.desired_replicas));
        faults.into_vec()
    }
}

fn rules(spec: &HorizontalPodAutoscalerSpec) -> impl Iterator<Item = &HPAScalingRules> {
    spec.behavior.iter().flat_map(|behavior| [&behavior.scale_up, &behavior.scale_down]).flatten()
}

fn has_tolerance(spec: &HorizontalPodAutoscalerSpec) -> bool {
    rules(spec).any(|rules| rules.tolerance.is_some())
}

/// Source: upstream `dropDisabledFields`.
fn drop_tolerances(spec: &mut HorizontalPodAutoscalerSpec) {
    let behavior = spec.behavior.iter_mut().flat_map(|behavior| [&mut behavior.scale_up, &mut behavior.scale_down]);
    behavior.flatten().for_each(|rules| rules.tolerance = None);
}

fn set_rules(rules: &mut HPAScalingRules, window: Option<i32>, policies: &[(&str, i32)]) {
    rules.select_policy.get_or_insert_with(|| "Max".to_owned());
    if rules.stabilization_window_seconds.is_none() {
        rules.stabilization_window_seconds = window;
    }
    if rules.policies.is_none() {
        let policy = |(type_, value): &(&str, i32)| HPAScalingPolicy { type_: (*type_).to_owned(), value: *value, period_seconds: 15 };
        rules.policies = Some(policies.iter().map(policy).collect());
    }
}

fn validate_spec(spec: &HorizontalPodAutoscalerSpec, faults: &mut Faults) {
    let path = Path::new("spec");
    let min = spec.min_replicas.unwrap_or(1);
    if min < 1 {
        faults.invalid(&path.child("minReplicas"), min, "must be greater than or equal to 1");
    }
    match spec.max_replicas {
        0 => faults.required(&path.child("maxReplicas"), "must be set and greater than 0"),
        max if max < 0 => faults.invalid(&path.child("maxReplicas"), max, "must be greater than or equal to 1"),
        _ => (),
    }
    if spec.max_replicas < min {
        faults.invalid(&path.child("maxReplicas"), spec.max_replicas, "must be greater than or equal to `minReplicas`");
    }
    validate_reference(&spec.scale_target_ref, &path.child("scaleTargetRef"), faults);
    validate_group(&spec.scale_target_ref, &path.child("scaleTargetRef"), faults);
    for (index, metric) in list(&spec.metrics).iter().enumerate() {
        validate_metric(metric, &path.child("metrics").index(index), faults);
    }
    let is_of_pods = |metric: &MetricSpec| !matches!(metric.type_.as_str(), "Object" | "External");
    if min == 0 && list(&spec.metrics).iter().all(is_of_pods) {
        faults.forbidden(&path.child("metrics"), "must specify at least one Object or External metric to support scaling to zero replicas");
    }
    let behavior = spec.behavior.iter().flat_map(|behavior| [("scaleUp", &behavior.scale_up), ("scaleDown", &behavior.scale_down)]);
    for (field, rules) in behavior {
        if let Some(rules) = rules {
            validate_rules(rules, &path.child("behavior").child(field), faults);
        }
    }
}

fn validate_reference(reference: &CrossVersionObjectReference, path: &Path, faults: &mut Faults) {
    faults.set_form(&path.child("kind"), &reference.kind, check_path_segment);
    faults.set_form(&path.child("name"), &reference.name, check_path_segment);
}

/// Only one kind of the core group has replicas.
fn validate_group(reference: &CrossVersionObjectReference, path: &Path, faults: &mut Faults) {
    let version = text(&reference.api_version);
    match version.matches('/').count() {
        0 if version == "v1" && reference.kind == "ReplicationController" => (),
        0 => faults.invalid(&path.child("apiVersion"), version, "apiVersion must specify API group"),
        1 => (),
        _ => faults.invalid(&path.child("apiVersion"), version, format!("unexpected GroupVersion string: {version}")),
    }
}

/// Source: upstream `validateMetricSpec`.
fn validate_metric(metric: &MetricSpec, path: &Path, faults: &mut Faults) {
    let type_path = path.child("type");
    if metric.type_.is_empty() {
        faults.required(&type_path, "must specify a metric source type");
    }
    let is_known = METRIC_TYPES.contains(&metric.type_.as_str());
    // Upstream reports an unknown type twice.
    let times = if is_known { 0 } else { 2 };
    (0..times).for_each(|_| faults.add([FieldError::not_supported(&type_path, metric.type_.as_str(), METRIC_TYPES)]));
    let mut present = sources(metric);
    if let Some((_, field, source)) = present.first() {
        validate_source(*source, &path.child(field), faults);
    }
    let expected = SOURCES.iter().find(|(type_, _)| *type_ == metric.type_);
    if let Some((_, field)) = expected.filter(|(type_, _)| !present.iter().any(|(present, ..)| present == type_)) {
        faults.required(&path.child(field), "must populate information for the given metric source");
    }
    if present.len() != 1 {
        present.retain(|(type_, ..)| *type_ != metric.type_);
        present.iter().for_each(|(_, field, _)| faults.forbidden(&path.child(field), "must populate the given metric source only"));
    }
}

/// The types of metrics and their source fields, in the order of validation.
const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];

/// The source of a metric.
#[derive(Clone, Copy)]
enum Source<'a> {
    Object(&'a ObjectMetricSource),
    External(&'a ExternalMetricSource),
    Pods(&'a PodsMetricSource),
    Resource(&'a ResourceMetricSource),
    ContainerResource(&'a ContainerResourceMetricSource),
}

/// Returns the sources that are set, with their types and fields.
fn sources(metric: &MetricSpec) -> Vec<(&'static str, &'static str, Source<'_>)> {
    let all = [
        metric.object.as_ref().map(Source::Object),
        metric.external.as_ref().map(Source::External),
        metric.pods.as_ref().map(Source::Pods),
        metric.resource.as_ref().map(Source::Resource),
        metric.container_resource.as_ref().map(Source::ContainerResource),
    ];
    SOURCES.iter().zip(all).filter_map(|((type_, field), source)| Some((*type_, *field, source?))).collect()
}

fn validate_source(source: Source<'_>, path: &Path, faults: &mut Faults) {
    let target_path = path.child("target");
    match source {
        Source::Object(source) => {
            validate_reference(&source.described_object, &path.child("describedObject"), faults);
            validate_identifier(&source.metric, &path.child("metric"), faults);
            validate_target(&source.target, &target_path, faults);
            validate_amounts(&source.target, "must set either a target value or averageValue", &target_path, faults);
        }
        Source::External(source) => {
            validate_identifier(&source.metric, &path.child("metric"), faults);
            validate_target(&source.target, &target_path, faults);
            validate_amounts(&source.target, "must set either a target value for metric or a per-pod target", &target_path, faults);
            if source.target.value.is_some() && source.target.average_value.is_some() {
                faults.forbidden(&target_path.child("value"), "may not set both a target value for metric and a per-pod target");
            }
        }
        Source::Pods(source) => {
            validate_identifier(&source.metric, &path.child("metric"), faults);
            validate_target(&source.target, &target_path, faults);
            if source.target.average_value.is_none() {
                faults.required(&target_path.child("averageValue"), "must specify a positive target averageValue");
            }
        }
        Source::Resource(source) => {
            validate_resource(&source.name, path, faults);
            validate_usage(&source.target, &target_path, faults);
        }
        Source::ContainerResource(source) => {
            validate_resource(&source.name, path, faults);
            if source.container.is_empty() {
                faults.required(&path.child("container"), "must specify a container");
            }
            validate_usage(&source.target, &target_path, faults);
        }
    }
}

fn validate_amounts(target: &MetricTarget, detail: &str, path: &Path, faults: &mut Faults) {
    if target.value.is_none() && target.average_value.is_none() {
        faults.required(&path.child("averageValue"), detail);
    }
}

fn validate_resource(name: &str, path: &Path, faults: &mut Faults) {
    if name.is_empty() {
        faults.required(&path.child("name"), "must specify a resource name");
    }
}

fn validate_usage(target: &MetricTarget, path: &Path, faults: &mut Faults) {
    validate_target(target, path, faults);
    match (target.average_utilization, &target.average_value) {
        (None, None) => faults.required(&path.child("averageUtilization"), "must set either a target raw value or a target utilization"),
        (Some(_), Some(_)) => {
            faults.forbidden(&path.child("averageValue"), "may not set both a target raw value and a target utilization");
        }
        _ => (),
    }
}

fn validate_identifier(metric: &MetricIdentifier, path: &Path, faults: &mut Faults) {
    if metric.name.is_empty() {
        faults.required(&path.child("name"), "must specify a metric name");
    } else {
        faults.form(&path.child("name"), &metric.name, check_path_segment);
    }
}

fn validate_target(target: &MetricTarget, path: &Path, faults: &mut Faults) {
    if target.type_.is_empty() {
        faults.required(&path.child("type"), "must specify a metric target type");
    }
    if !TARGET_TYPES.contains(&target.type_.as_str()) {
        faults.invalid(&path.child("type"), target.type_.as_str(), "must be either Utilization, Value, or AverageValue");
    }
    for (field, amount) in [("value", &target.value), ("averageValue", &target.average_value)] {
        if let Some(amount) = amount.as_ref().filter(|amount| !is_positive(amount)) {
            faults.invalid(&path.child(field), amount.0.as_str(), "must be positive");
        }
    }
    if let Some(utilization) = target.average_utilization.filter(|utilization| *utilization < 1) {
        faults.invalid(&path.child("averageUtilization"), utilization, "must be greater than 0");
    }
}

fn is_positive(amount: &Quantity) -> bool {
    parse(amount).is_some_and(|number| !number.is_zero() && !number.is_negative())
}

fn validate_rules(rules: &HPAScalingRules, path: &Path, faults: &mut Faults) {
    if let Some(window) = rules.stabilization_window_seconds {
        if window < 0 {
            faults.invalid(&path.child("stabilizationWindowSeconds"), window, "must be greater than or equal to zero");
        }
        if window > WINDOW_MAX {
            faults.invalid(&path.child("stabilizationWindowSeconds"), window, "must be less than or equal to 3600");
        }
    }
    faults.one_of(&path.child("selectPolicy"), text(&rules.select_policy), SELECT_POLICIES);
    let policies = path.child("policies");
    if list(&rules.policies).is_empty() {
        faults.required(&policies, "must specify at least one Policy");
    }
    for (index, policy) in list(&rules.policies).iter().enumerate() {
        validate_policy(policy, &policies.index(index), faults);
    }
    if let Some(tolerance) =
        rules.tolerance.as_ref().filter(|tolerance| parse(tolerance).is_some_and(crate::quantity::Quantity::is_negative))
    {
        faults.invalid(&path.child("tolerance"), tolerance.0.as_str(), NOT_NEGATIVE);
    }
}

fn validate_policy(policy: &HPAScalingPolicy, path: &Path, faults: &mut Faults) {
    faults.one_of(&path.child("type"), &policy.type_, &["Percent", "Pods"]);
    for (field, value) in [("value", policy.value), ("periodSeconds", policy.period_seconds)] {
        if value <= 0 {
            faults.invalid(&path.child(field), value, "must be greater than zero");
        }
    }
    if policy.period_seconds > PERIOD_MAX {
        faults.invalid(&path.child("periodSeconds"), policy.period_seconds, "must be less than or equal to 1800");
    }
}
