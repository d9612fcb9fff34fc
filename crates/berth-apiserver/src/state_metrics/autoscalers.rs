//! The families of HorizontalPodAutoscalers.

use super::{
    ANNOTATIONS, CREATED, Family, GENERATION, LABELS, Series, created, generation, number, one,
    seen::{Amounts, Metric},
    truth,
};
use berth_api::{k8s_openapi::apimachinery::pkg::api::resource, quantity::Quantity};

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
        seen.spec.metrics.iter().flat_map(amounts).collect()
    }),
    Family::many("kube_horizontalpodautoscaler_status_target_metric", "The present value of a metric.", TARGET_LABELS, |seen| {
        seen.status.current_metrics.iter().flat_map(amounts).collect()
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

/// One series for each sort of amount that the metric has.
fn amounts(metric: &Metric) -> Series {
    let Some(source) = metric.source() else { return Series::new() };
    let Amounts { value, average_value, average_utilization } = &source.current;
    let of = |sort: &str, amount: Option<f64>| Some((vec![source.name().to_owned(), sort.to_owned(), source.container.clone()], amount?));
    let sorts = [
        of("value", value.as_ref().and_then(number_of)),
        of("average", average_value.as_ref().and_then(number_of)),
        of("utilization", average_utilization.map(f64::from)),
    ];
    sorts.into_iter().flatten().collect()
}

/// The nearest double.
#[expect(clippy::cast_precision_loss, reason = "metrics are doubles")]
fn number_of(quantity: &resource::Quantity) -> Option<f64> {
    Some(quantity.0.parse::<Quantity>().ok()?.nanos() as f64 / 1e9)
}
