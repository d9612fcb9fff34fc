//! One metric of an autoscaler: its value, and the size that it requires.
//!
//! Source: kubernetes `horizontal.go`, `computeReplicasForMetric` and the functions below it.

use super::{
    AutoscalerState, Described,
    calculator::{self, Basis, Calculated, Lacking},
};
use berth_api::quantity::Quantity;
use k8s_openapi::{
    api::autoscaling::v2::{
        ContainerResourceMetricStatus, CrossVersionObjectReference, ExternalMetricSource, ExternalMetricStatus, MetricIdentifier,
        MetricSpec, MetricStatus, MetricTarget, MetricValueStatus, ObjectMetricSource, ObjectMetricStatus, PodsMetricSource,
        PodsMetricStatus, ResourceMetricStatus,
    },
    apimachinery::pkg::{api::resource::Quantity as WireQuantity, apis::meta::v1::LabelSelector},
};

/// The size that a metric requires.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Proposal {
    pub(super) replicas: i32,
    /// As the reason of a rescale names it.
    pub(super) metric: String,
    pub(super) status: MetricStatus,
}

/// A metric that requires no size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unusable {
    /// Of the condition and the event.
    pub(super) reason: &'static str,
    /// Of the event.
    pub(super) message: String,
    /// What failed, for the message about all metrics.
    pub(super) context: String,
}

/// Computes one metric. `described` is the object of a metric of type `Object`. `current` is `status.replicas` of the target.
pub(super) fn propose(
    state: &AutoscalerState,
    metric: &MetricSpec,
    described: Option<&Described>,
    basis: Basis<'_>,
    current: i32,
) -> Result<Proposal, Unusable> {
    if let Some(source) = &metric.resource {
        let usage = UsageMetric { resource: &source.name, container: None, target: &source.target };
        let context = format!("failed to get {} resource metric value", source.name);
        let (calculated, value) = usage.calculate(state, basis).map_err(unusable("FailedGetResourceMetric", context))?;
        let resource = Some(ResourceMetricStatus { name: source.name.clone(), current: value });
        let status = MetricStatus { type_: "Resource".to_owned(), resource, ..MetricStatus::default() };
        return Ok(Proposal { replicas: calculated.replicas, metric: usage.shown(), status });
    }
    if let Some(source) = &metric.container_resource {
        let usage = UsageMetric { resource: &source.name, container: Some(&source.container), target: &source.target };
        let context = format!("failed to get {} container metric value", source.container);
        let (calculated, value) = usage.calculate(state, basis).map_err(unusable("FailedGetContainerResourceMetric", context))?;
        let (name, container) = (source.name.clone(), source.container.clone());
        let container_resource = Some(ContainerResourceMetricStatus { name, container, current: value });
        let status = MetricStatus { type_: "ContainerResource".to_owned(), container_resource, ..MetricStatus::default() };
        return Ok(Proposal { replicas: calculated.replicas, metric: usage.shown(), status });
    }
    if let Some(source) = &metric.pods {
        return of_pods(source, basis).map_err(unusable("FailedGetPodsMetric", "failed to get pods metric value".to_owned()));
    }
    if let Some(source) = &metric.object {
        let context = "failed to get object metric value".to_owned();
        return of_object(state, source, described, basis, current).map_err(unusable("FailedGetObjectMetric", context));
    }
    if let Some(source) = &metric.external {
        let context = format!("failed to get {} external metric value", source.metric.name);
        return of_external(state, source, basis, current).map_err(unusable("FailedGetExternalMetric", context));
    }
    let message = format!("unknown metric source type {:?}", metric.type_);
    Err(Unusable { reason: "InvalidMetricSourceType", context: message.clone(), message })
}

/// Why a metric requires no size, as text for users.
struct Cause(String);

fn unusable(reason: &'static str, context: String) -> impl FnOnce(Cause) -> Unusable {
    move |Cause(message)| Unusable { reason, message, context }
}

/// The usage of a resource, by pods or by one container of each.
struct UsageMetric<'a> {
    resource: &'a str,
    container: Option<&'a str>,
    target: &'a MetricTarget,
}

impl UsageMetric<'_> {
    fn calculate(&self, state: &AutoscalerState, basis: Basis<'_>) -> Result<(Calculated, MetricValueStatus), Cause> {
        let Self { resource, container, target } = self;
        let of_api = |error: Lacking| match error {
            Lacking::Samples | Lacking::Container { .. } => format!("unable to get metrics for resource {resource}: {error}"),
            other => other.to_string(),
        };
        let values = calculator::usage(basis.pods, &state.autoscaler.namespace, resource, *container);
        if let Some(average) = milli(target.average_value.as_ref()) {
            let calculated = values.and_then(|values| calculator::for_average(basis, average, *resource == "cpu", values));
            let calculated = calculated.map_err(|error| Cause(format!("failed to get {resource} usage: {}", of_api(error))))?;
            return Ok((calculated, average_of(calculated)));
        }
        let Some(percent) = target.average_utilization else {
            let text = "invalid resource metric source: neither an average utilization target nor an average value (usage) target was set";
            return Err(Cause(text.to_owned()));
        };
        let calculated = values.and_then(|values| calculator::for_utilization(basis, percent, resource, *container, values));
        let calculated = calculated.map_err(|error| Cause(format!("failed to get {resource} utilization: {}", of_api(error))))?;
        Ok((calculated, average_of(calculated)))
    }

    fn shown(&self) -> String {
        match (&self.target.average_value, self.container) {
            (Some(_), _) => format!("{} resource", self.resource),
            (None, None) => format!("{} resource utilization (percentage of request)", self.resource),
            (None, Some(_)) => format!("{} container resource utilization (percentage of request)", self.resource),
        }
    }
}

fn of_pods(source: &PodsMetricSource, basis: Basis<'_>) -> Result<Proposal, Cause> {
    let name = &source.metric.name;
    let values = calculator::custom(basis.pods, name).map_err(|error| Cause(format!("unable to get metric {name}: {error}")))?;
    let target = milli(source.target.average_value.as_ref()).unwrap_or_default();
    let calculated = calculator::for_average(basis, target, false, values).map_err(|error| Cause(error.to_string()))?;
    let pods = Some(PodsMetricStatus { metric: source.metric.clone(), current: average_of(calculated) });
    let status = MetricStatus { type_: "Pods".to_owned(), pods, ..MetricStatus::default() };
    Ok(Proposal { replicas: calculated.replicas, metric: format!("pods metric {name}"), status })
}

fn of_object(
    state: &AutoscalerState,
    source: &ObjectMetricSource,
    described: Option<&Described>,
    basis: Basis<'_>,
    current: i32,
) -> Result<Proposal, Cause> {
    let (namespace, object, name) = (&state.autoscaler.namespace, &source.described_object, &source.metric.name);
    let value = described_value(object, name, described)
        .map_err(|Cause(why)| Cause(format!("unable to get metric {name}: {} on {namespace} {}/{why}", object.kind, object.name)));
    let (calculated, value) = whole(&source.target, value, basis, current)
        .ok_or_else(|| Cause("invalid object metric source: neither a value target nor an average value target was set".to_owned()))??;
    let shown = if source.target.type_ == "Value" { format!("{} metric {name}", object.kind) } else { external_name(&source.metric) };
    let status = ObjectMetricStatus { described_object: object.clone(), metric: source.metric.clone(), current: value };
    let status = MetricStatus { type_: "Object".to_owned(), object: Some(status), ..MetricStatus::default() };
    Ok(Proposal { replicas: calculated.replicas, metric: shown, status })
}

fn described_value(object: &CrossVersionObjectReference, metric: &str, described: Option<&Described>) -> Result<i64, Cause> {
    match described {
        Some(Described::Found(Some(value))) => Ok(*value),
        Some(Described::Found(None)) => Err(Cause(format!("the object has no annotation metrics.berth.dev/{metric} with a quantity"))),
        Some(Described::Missing) => Err(Cause(format!("{} {:?} not found", object.kind, object.name))),
        Some(Described::UnknownKind) | None => Err(Cause(format!("berth reads no metrics of the kind {}", object.kind))),
    }
}

fn of_external(state: &AutoscalerState, source: &ExternalMetricSource, basis: Basis<'_>, current: i32) -> Result<Proposal, Cause> {
    let (name, namespace) = (&source.metric.name, &state.autoscaler.namespace);
    let value = state.autoscaler.metrics.get(name).copied().ok_or_else(|| {
        let selector = shown_selector(source.metric.selector.as_ref());
        let why = format!("the autoscaler has no annotation metrics.berth.dev/{name} with a quantity");
        Cause(format!("unable to get external metric {namespace}/{name}/{selector}: {why}"))
    });
    let (calculated, value) = whole(&source.target, value, basis, current)
        .ok_or_else(|| Cause("invalid external metric source: neither a value target nor an average value target was set".to_owned()))??;
    let status = ExternalMetricStatus { metric: source.metric.clone(), current: value };
    let status = MetricStatus { type_: "External".to_owned(), external: Some(status), ..MetricStatus::default() };
    Ok(Proposal { replicas: calculated.replicas, metric: external_name(&source.metric), status })
}

/// The size for a value of the target as a whole. `None`: the target has neither a value nor an average.
fn whole(
    target: &MetricTarget,
    value: Result<i64, Cause>,
    basis: Basis<'_>,
    current: i32,
) -> Option<Result<(Calculated, MetricValueStatus), Cause>> {
    let amount = |value: i64| Some(WireQuantity(Quantity::from_nanos(i128::from(value) * 1_000_000).to_string()));
    match (milli(target.value.as_ref()), milli(target.average_value.as_ref())) {
        (_, Some(average)) if target.type_ != "Value" => Some(value.map(|value| {
            let calculated = calculator::for_value_per_pod(basis, current, value, average);
            (calculated, MetricValueStatus { average_value: amount(calculated.value), ..MetricValueStatus::default() })
        })),
        (Some(wanted), _) => Some(value.and_then(|value| {
            let calculated =
                calculator::for_value(basis, value, wanted).map_err(|error| Cause(format!("unable to calculate ready pods: {error}")))?;
            Ok((calculated, MetricValueStatus { value: amount(calculated.value), ..MetricValueStatus::default() }))
        })),
        _ => None,
    }
}

fn average_of(calculated: Calculated) -> MetricValueStatus {
    let average = Quantity::from_nanos(i128::from(calculated.value) * 1_000_000).to_string();
    MetricValueStatus { average_utilization: calculated.utilization, average_value: Some(WireQuantity(average)), value: None }
}

fn milli(quantity: Option<&WireQuantity>) -> Option<i64> {
    quantity.and_then(|quantity| quantity.0.parse::<Quantity>().ok()).map(Quantity::milli_value)
}

fn external_name(metric: &MetricIdentifier) -> String {
    format!("external metric {}({})", metric.name, shown_selector(metric.selector.as_ref()))
}

/// A selector as upstream's messages print it.
fn shown_selector(selector: Option<&LabelSelector>) -> String {
    let Some(selector) = selector else { return "nil".to_owned() };
    let labels: String = selector.match_labels.iter().flatten().map(|(key, value)| format!("{key}: {value},")).collect();
    format!("&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{}},}}")
}
