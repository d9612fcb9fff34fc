//! The families of HorizontalPodAutoscalers.

use super::{ANNOTATIONS, CREATED, Family, GENERATION, LABELS, Series, created, generation, number, one, truth};
use berth_api::{
    k8s_openapi::{
        api::autoscaling::v2::{MetricSpec, MetricStatus},
        apimachinery::pkg::api::resource,
    },
    quantity::Quantity,
};

const TARGET_LABELS: &[&str] = &["metric_name", "metric_target_type", "container"];

pub(super) static FAMILIES: &[Family] = &[
    Family::one("kube_horizontalpodautoscaler_created", CREATED, created),
    Family::many(
        "kube_horizontalpodautoscaler_info",
        "One for each autoscaler.",
        &["scaletargetref_api_version", "scaletargetref_kind", "scaletargetref_name"],
        |seen| {
            let target = &seen.spec.scale_target_ref;
            vec![(vec![target.api_version.clone().unwrap_or_default(), target.kind.clone(), target.name.clone()], 1.0)]
        },
    ),
    Family::one("kube_horizontalpodautoscaler_metadata_generation", GENERATION, generation),
    Family::one("kube_horizontalpodautoscaler_spec_max_replicas", "The most pods.", |seen| number(seen.spec.max_replicas)),
    Family::one("kube_horizontalpodautoscaler_spec_min_replicas", "The fewest pods.", |seen| number(seen.spec.min_replicas?)),
    Family::many("kube_horizontalpodautoscaler_spec_target_metric", "The wanted value of a metric.", TARGET_LABELS, |seen| {
        seen.spec.metrics.iter().flat_map(wanted).collect()
    }),
    Family::many("kube_horizontalpodautoscaler_status_target_metric", "The present value of a metric.", TARGET_LABELS, |seen| {
        seen.status.current_metrics.iter().flat_map(present).collect()
    }),
    Family::many("kube_horizontalpodautoscaler_status_condition", "Whether a condition has a status.", &["condition", "status"], |seen| {
        let all = seen.status.conditions.iter();
        all.flat_map(|condition| truth(&condition.status).map(|(label, value)| (vec![condition.kind.clone(), label], value))).collect()
    }),
    Family::one("kube_horizontalpodautoscaler_status_current_replicas", "Pods of the target.", |seen| number(seen.status.current_replicas)),
    Family::one("kube_horizontalpodautoscaler_status_desired_replicas", "Pods that the autoscaler wants.", |seen| {
        number(seen.status.desired_replicas)
    }),
    Family::one("kube_horizontalpodautoscaler_labels", LABELS, one),
    Family::one("kube_horizontalpodautoscaler_annotations", ANNOTATIONS, one),
];

/// A value, average and utilization of one metric, as far as it has them.
struct Amounts<'m> {
    metric: &'m str,
    container: &'m str,
    value: Option<&'m resource::Quantity>,
    average: Option<&'m resource::Quantity>,
    utilization: Option<i32>,
}

impl Amounts<'_> {
    fn series(&self) -> Series {
        let of = |kind: &str, value: Option<f64>| {
            let labels = || vec![self.metric.to_owned(), kind.to_owned(), self.container.to_owned()];
            value.map(|value| (labels(), value))
        };
        let values = [
            of("value", self.value.and_then(amount)),
            of("average", self.average.and_then(amount)),
            of("utilization", self.utilization.map(f64::from)),
        ];
        values.into_iter().flatten().collect()
    }
}

/// The nearest double.
#[expect(clippy::cast_precision_loss, reason = "metrics are doubles")]
fn amount(quantity: &resource::Quantity) -> Option<f64> {
    Some(quantity.0.parse::<Quantity>().ok()?.nanos() as f64 / 1e9)
}

fn wanted(spec: &MetricSpec) -> Series {
    let (metric, container, target) = if let Some(source) = &spec.resource {
        (&*source.name, "", &source.target)
    } else if let Some(source) = &spec.container_resource {
        (&*source.name, &*source.container, &source.target)
    } else if let Some(source) = &spec.object {
        (&*source.metric.name, "", &source.target)
    } else if let Some(source) = &spec.pods {
        (&*source.metric.name, "", &source.target)
    } else if let Some(source) = &spec.external {
        (&*source.metric.name, "", &source.target)
    } else {
        return Series::new();
    };
    let (value, average, utilization) = (target.value.as_ref(), target.average_value.as_ref(), target.average_utilization);
    Amounts { metric, container, value, average, utilization }.series()
}

fn present(status: &MetricStatus) -> Series {
    let (metric, container, current) = if let Some(source) = &status.resource {
        (&*source.name, "", &source.current)
    } else if let Some(source) = &status.container_resource {
        (&*source.name, &*source.container, &source.current)
    } else if let Some(source) = &status.object {
        (&*source.metric.name, "", &source.current)
    } else if let Some(source) = &status.pods {
        (&*source.metric.name, "", &source.current)
    } else if let Some(source) = &status.external {
        (&*source.metric.name, "", &source.current)
    } else {
        return Series::new();
    };
    let (value, average, utilization) = (current.value.as_ref(), current.average_value.as_ref(), current.average_utilization);
    Amounts { metric, container, value, average, utilization }.series()
}
