//! HorizontalPodAutoscaler. Simulated pods use nothing that could be measured: it is stored, and a condition says that nothing acts on it.

use crate::{
    FeatureGates, FieldError, Kind, Path,
    faults::Faults,
    names::check_path_segment,
    object::GenerationRule,
    unset::{list, text},
};
use k8s_openapi::api::autoscaling::v2::{
    HPAScalingPolicy, HPAScalingRules, HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec, HorizontalPodAutoscalerStatus, MetricSpec,
    MetricTarget, ResourceMetricSource,
};

/// Of the processor time asked for, in percent, where no metric is named.
const UTILIZATION: i32 = 80;
const METRIC_TYPES: &[&str] = &["ContainerResource", "External", "Object", "Pods", "Resource"];
const TARGET_TYPES: &[&str] = &["AverageValue", "Utilization", "Value"];
const SELECT_POLICIES: &[&str] = &["Disabled", "Max", "Min"];
/// Of a policy, in seconds.
const PERIOD_MAX: i32 = 1800;
/// In which the highest or lowest recommendation counts, in seconds.
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
    }

    fn prepare_create(&mut self, _gates: &FeatureGates) {
        self.status = Some(HorizontalPodAutoscalerStatus::default());
    }

    fn prepare_update(&mut self, old: &Self, _gates: &FeatureGates) {
        self.status.clone_from(&old.status);
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
    if spec.max_replicas < 1 {
        faults.invalid(&path.child("maxReplicas"), spec.max_replicas, "must be greater than 0");
    }
    if spec.max_replicas < min {
        faults.invalid(&path.child("maxReplicas"), spec.max_replicas, "must be greater than or equal to `minReplicas`");
    }
    let target = path.child("scaleTargetRef");
    faults.set_form(&target.child("kind"), &spec.scale_target_ref.kind, check_path_segment);
    faults.set_form(&target.child("name"), &spec.scale_target_ref.name, check_path_segment);
    let version = text(&spec.scale_target_ref.api_version);
    match version.matches('/').count() {
        0 if version.is_empty() => faults.invalid(&target.child("apiVersion"), "", "apiVersion must specify API group"),
        0 | 1 => (),
        _ => faults.invalid(&target.child("apiVersion"), version, format!("unexpected GroupVersion string: {version}")),
    }
    for (index, metric) in list(&spec.metrics).iter().enumerate() {
        validate_metric(metric, &path.child("metrics").index(index), faults);
    }
    let behavior = spec.behavior.iter().flat_map(|behavior| [("scaleUp", &behavior.scale_up), ("scaleDown", &behavior.scale_down)]);
    for (field, rules) in behavior {
        if let Some(rules) = rules {
            validate_rules(rules, &path.child("behavior").child(field), faults);
        }
    }
}

fn validate_metric(metric: &MetricSpec, path: &Path, faults: &mut Faults) {
    let type_path = path.child("type");
    if metric.type_.is_empty() {
        return faults.required(&type_path, "must specify a metric source type");
    }
    faults.one_of(&type_path, &metric.type_, METRIC_TYPES);
    let targets = [
        ("ContainerResource", "containerResource", metric.container_resource.as_ref().map(|source| &source.target)),
        ("External", "external", metric.external.as_ref().map(|source| &source.target)),
        ("Object", "object", metric.object.as_ref().map(|source| &source.target)),
        ("Pods", "pods", metric.pods.as_ref().map(|source| &source.target)),
        ("Resource", "resource", metric.resource.as_ref().map(|source| &source.target)),
    ];
    for (type_, field, target) in targets {
        let path = path.child(field);
        match target {
            None if type_ == metric.type_ => faults.required(&path, "must populate information for the given metric source"),
            Some(_) if type_ != metric.type_ => {
                faults.forbidden(&path, "must populate the given metric source only");
            }
            Some(target) => validate_target(target, &path.child("target"), faults),
            None => (),
        }
    }
}

fn validate_target(target: &MetricTarget, path: &Path, faults: &mut Faults) {
    if target.type_.is_empty() {
        return faults.required(&path.child("type"), "must specify a metric target type");
    }
    if !TARGET_TYPES.contains(&target.type_.as_str()) {
        let detail = "must be either Utilization, Value, or AverageValue";
        return faults.invalid(&path.child("type"), target.type_.as_str(), detail);
    }
    if let Some(utilization) = target.average_utilization.filter(|utilization| *utilization < 1) {
        faults.invalid(&path.child("averageUtilization"), utilization, "must be greater than 0");
    }
    let amounts = [target.average_utilization.is_some(), target.average_value.is_some(), target.value.is_some()];
    if !amounts.contains(&true) {
        faults.required(path, "must set a target value");
    }
}

fn validate_rules(rules: &HPAScalingRules, path: &Path, faults: &mut Faults) {
    if let Some(window) = rules.stabilization_window_seconds {
        faults.not_negative(&path.child("stabilizationWindowSeconds"), Some(window));
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
