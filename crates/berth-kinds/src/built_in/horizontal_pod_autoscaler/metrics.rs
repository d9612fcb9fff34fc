//! What annotations of `autoscaling/v1` have of `autoscaling/v2`. The order of the fields is that of upstream's texts.

use k8s_openapi::{
    api::autoscaling::v2,
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{LabelSelector, Time},
    },
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A type with optional fields that are left out.
macro_rules! form {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty,)* } { $($optional:ident: $optional_type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub(super) struct $name {
            $($field: $type,)*
            $(#[serde(skip_serializing_if = "Option::is_none")] $optional: Option<$optional_type>,)*
        }
    };
}

form! { Reference { kind: String, name: String, } { api_version: String, } }
form! { OfObject { target: Reference, metric_name: String, target_value: Amount, } { selector: LabelSelector, average_value: Amount, } }
form! { OfPods { metric_name: String, target_average_value: Amount, } { selector: LabelSelector, } }
form! { OfResource { name: String, } { target_average_utilization: i32, target_average_value: Amount, container: String, } }
form! { OfExternal { metric_name: String, } { metric_selector: LabelSelector, target_value: Amount, target_average_value: Amount, } }
form! { ObjectNow { target: Reference, metric_name: String, current_value: Amount, } { selector: LabelSelector, average_value: Amount, } }
form! { PodsNow { metric_name: String, current_average_value: Amount, } { selector: LabelSelector, } }
form! { ResourceNow { name: String, } { current_average_utilization: i32, current_average_value: Amount, container: String, } }
form! { ExternalNow { metric_name: String, } { metric_selector: LabelSelector, current_value: Amount, current_average_value: Amount, } }

/// An amount. It is always written.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub(super) struct Amount(String);

impl Default for Amount {
    fn default() -> Self {
        Self("0".to_owned())
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = Quantity::deserialize(from)?.0;
        text.parse::<berth_api::quantity::Quantity>().map_err(serde::de::Error::custom)?;
        Ok(Self(text))
    }
}

impl Amount {
    fn of(quantity: Option<Quantity>) -> Self {
        quantity.map(|quantity| Self(quantity.0)).unwrap_or_default()
    }

    fn quantity(self) -> Quantity {
        Quantity(self.0)
    }
}

fn amount(quantity: Option<Quantity>) -> Option<Amount> {
    quantity.map(|quantity| Amount(quantity.0))
}

impl Reference {
    fn of(reference: v2::CrossVersionObjectReference) -> Self {
        Self { kind: reference.kind, name: reference.name, api_version: reference.api_version }
    }

    fn into_v2(self) -> v2::CrossVersionObjectReference {
        v2::CrossVersionObjectReference { kind: self.kind, name: self.name, api_version: self.api_version }
    }
}

fn metric(name: String, selector: Option<LabelSelector>) -> v2::MetricIdentifier {
    v2::MetricIdentifier { name, selector }
}

fn target(type_: &str) -> v2::MetricTarget {
    v2::MetricTarget { type_: type_.to_owned(), ..v2::MetricTarget::default() }
}

/// What is measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metric {
    #[serde(rename = "type")]
    type_: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<OfObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pods: Option<OfPods>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<OfResource>,
    #[serde(skip_serializing_if = "Option::is_none")]
    container_resource: Option<OfResource>,
    #[serde(skip_serializing_if = "Option::is_none")]
    external: Option<OfExternal>,
}

impl Metric {
    /// A metric of `autoscaling/v2`. `None`: it cannot be read.
    pub(super) fn of_v2(value: &Value) -> Option<Self> {
        let spec = v2::MetricSpec::deserialize(value).ok()?;
        let resource = |name, target: v2::MetricTarget, container| OfResource {
            name,
            target_average_utilization: target.average_utilization,
            target_average_value: amount(target.average_value),
            container,
        };
        Some(Self {
            type_: spec.type_,
            object: spec.object.map(|source| OfObject {
                target: Reference::of(source.described_object),
                metric_name: source.metric.name,
                target_value: Amount::of(source.target.value),
                selector: source.metric.selector,
                average_value: amount(source.target.average_value),
            }),
            pods: spec.pods.map(|source| OfPods {
                metric_name: source.metric.name,
                target_average_value: Amount::of(source.target.average_value),
                selector: source.metric.selector,
            }),
            resource: spec.resource.map(|source| resource(source.name, source.target, None)),
            container_resource: spec.container_resource.map(|source| resource(source.name, source.target, Some(source.container))),
            external: spec.external.map(|source| OfExternal {
                metric_name: source.metric.name,
                metric_selector: source.metric.selector,
                target_value: amount(source.target.value),
                target_average_value: amount(source.target.average_value),
            }),
        })
    }

    pub(super) fn into_v2(self) -> v2::MetricSpec {
        let of_resource = |source: &OfResource| v2::MetricTarget {
            average_utilization: source.target_average_utilization,
            average_value: source.target_average_value.clone().map(Amount::quantity),
            ..target(if source.target_average_utilization.is_some() { "Utilization" } else { "AverageValue" })
        };
        v2::MetricSpec {
            type_: self.type_,
            object: self.object.map(|source| v2::ObjectMetricSource {
                described_object: source.target.into_v2(),
                metric: metric(source.metric_name, source.selector),
                target: match source.average_value {
                    Some(average) => v2::MetricTarget { average_value: Some(average.quantity()), ..target("AverageValue") },
                    None => v2::MetricTarget { value: Some(source.target_value.quantity()), ..target("Value") },
                },
            }),
            pods: self.pods.map(|source| v2::PodsMetricSource {
                metric: metric(source.metric_name, source.selector),
                target: v2::MetricTarget { average_value: Some(source.target_average_value.quantity()), ..target("AverageValue") },
            }),
            resource: self.resource.map(|source| v2::ResourceMetricSource { target: of_resource(&source), name: source.name }),
            container_resource: self.container_resource.map(|source| v2::ContainerResourceMetricSource {
                target: of_resource(&source),
                name: source.name,
                container: source.container.unwrap_or_default(),
            }),
            external: self.external.map(|source| v2::ExternalMetricSource {
                metric: metric(source.metric_name, source.metric_selector),
                target: v2::MetricTarget {
                    average_value: source.target_average_value.map(Amount::quantity),
                    ..match source.target_value {
                        Some(value) => v2::MetricTarget { value: Some(value.quantity()), ..target("Value") },
                        None => target("AverageValue"),
                    }
                },
            }),
        }
    }
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct CurrentMetric {
    #[serde(rename = "type")]
    type_: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<ObjectNow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pods: Option<PodsNow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<ResourceNow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    container_resource: Option<ResourceNow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    external: Option<ExternalNow>,
}

impl CurrentMetric {
    /// A metric of `autoscaling/v2`. `None`: it cannot be read.
    pub(super) fn of_v2(value: &Value) -> Option<Self> {
        let status = v2::MetricStatus::deserialize(value).ok()?;
        let resource = |name, current: v2::MetricValueStatus, container| ResourceNow {
            name,
            current_average_utilization: current.average_utilization,
            current_average_value: Some(Amount::of(current.average_value)),
            container,
        };
        Some(Self {
            type_: status.type_,
            object: status.object.map(|source| ObjectNow {
                target: Reference::of(source.described_object),
                metric_name: source.metric.name,
                current_value: Amount::of(source.current.value),
                selector: source.metric.selector,
                average_value: amount(source.current.average_value),
            }),
            pods: status.pods.map(|source| PodsNow {
                metric_name: source.metric.name,
                current_average_value: Amount::of(source.current.average_value),
                selector: source.metric.selector,
            }),
            resource: status.resource.map(|source| resource(source.name, source.current, None)),
            container_resource: status.container_resource.map(|source| resource(source.name, source.current, Some(source.container))),
            external: status.external.map(|source| ExternalNow {
                metric_name: source.metric.name,
                metric_selector: source.metric.selector,
                current_value: Some(Amount::of(source.current.value)),
                current_average_value: amount(source.current.average_value),
            }),
        })
    }

    pub(super) fn into_v2(self) -> v2::MetricStatus {
        let of_resource = |source: &ResourceNow| v2::MetricValueStatus {
            average_utilization: source.current_average_utilization,
            average_value: source.current_average_value.clone().map(Amount::quantity),
            value: None,
        };
        v2::MetricStatus {
            type_: self.type_,
            object: self.object.map(|source| v2::ObjectMetricStatus {
                described_object: source.target.into_v2(),
                metric: metric(source.metric_name, source.selector),
                current: v2::MetricValueStatus {
                    average_utilization: None,
                    average_value: source.average_value.map(Amount::quantity),
                    value: Some(source.current_value.quantity()),
                },
            }),
            pods: self.pods.map(|source| v2::PodsMetricStatus {
                metric: metric(source.metric_name, source.selector),
                current: v2::MetricValueStatus {
                    average_value: Some(source.current_average_value.quantity()),
                    ..v2::MetricValueStatus::default()
                },
            }),
            resource: self.resource.map(|source| v2::ResourceMetricStatus { current: of_resource(&source), name: source.name }),
            container_resource: self.container_resource.map(|source| v2::ContainerResourceMetricStatus {
                current: of_resource(&source),
                name: source.name,
                container: source.container.unwrap_or_default(),
            }),
            external: self.external.map(|source| v2::ExternalMetricStatus {
                metric: metric(source.metric_name, source.metric_selector),
                current: v2::MetricValueStatus {
                    average_utilization: None,
                    average_value: source.current_average_value.map(Amount::quantity),
                    value: source.current_value.map(Amount::quantity),
                },
            }),
        }
    }
}

/// A condition. A missing time is written as null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    last_transition_time: Option<Time>,
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
}

/// How fast the size changes, with the names of upstream's internal type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Behavior {
    scale_up: Option<ScalingRules>,
    scale_down: Option<ScalingRules>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct ScalingRules {
    stabilization_window_seconds: Option<i32>,
    select_policy: Option<String>,
    policies: Option<Vec<Policy>>,
    tolerance: Option<Amount>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Policy {
    #[serde(rename = "Type")]
    type_: String,
    value: i32,
    period_seconds: i32,
}

impl Behavior {
    /// The behavior of `autoscaling/v2`. `None`: it cannot be read.
    pub(super) fn of_v2(value: &Value) -> Option<Self> {
        let behavior = v2::HorizontalPodAutoscalerBehavior::deserialize(value).ok()?;
        Some(Self { scale_up: behavior.scale_up.map(ScalingRules::of), scale_down: behavior.scale_down.map(ScalingRules::of) })
    }

    pub(super) fn into_v2(self) -> v2::HorizontalPodAutoscalerBehavior {
        v2::HorizontalPodAutoscalerBehavior {
            scale_up: self.scale_up.map(ScalingRules::into_v2),
            scale_down: self.scale_down.map(ScalingRules::into_v2),
        }
    }
}

impl ScalingRules {
    fn of(rules: v2::HPAScalingRules) -> Self {
        let policy =
            |policy: v2::HPAScalingPolicy| Policy { type_: policy.type_, value: policy.value, period_seconds: policy.period_seconds };
        Self {
            stabilization_window_seconds: rules.stabilization_window_seconds,
            select_policy: rules.select_policy,
            policies: rules.policies.map(|policies| policies.into_iter().map(policy).collect()),
            tolerance: amount(rules.tolerance),
        }
    }

    fn into_v2(self) -> v2::HPAScalingRules {
        let policy =
            |policy: Policy| v2::HPAScalingPolicy { type_: policy.type_, value: policy.value, period_seconds: policy.period_seconds };
        v2::HPAScalingRules {
            stabilization_window_seconds: self.stabilization_window_seconds,
            select_policy: self.select_policy,
            policies: self.policies.map(|policies| policies.into_iter().map(policy).collect()),
            tolerance: self.tolerance.map(Amount::quantity),
        }
    }
}
