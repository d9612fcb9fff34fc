//! The usage of workloads' pods, as `metrics.k8s.io` reports it: one total per workload, so its size does not depend on the pods.

use crate::{
    allowed::{USAGE_MAX, WORKLOADS},
    line::{ObjectId, Usage},
};
use berth_api::quantity::Quantity;
use berth_identity::Revision;
use berth_workloads::{
    autoscaler::ScaledView,
    selector::{Labels, Selector},
    view::View,
};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The workloads whose usage is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measured {
    /// The targets of autoscalers.
    Autoscaled,
    /// All Deployments and StatefulSets, and the targets of autoscalers.
    All,
}

/// The usage of one pod: cpu in millicores, memory in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodUsage {
    /// In millicores.
    pub cpu_millis: i64,
    /// In bytes.
    pub memory_bytes: i64,
}

#[derive(Deserialize)]
struct PodMetrics {
    metadata: Named,
    containers: Vec<ContainerMetrics>,
}

#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    namespace: String,
    name: String,
}

#[derive(Deserialize)]
struct ContainerMetrics {
    usage: ContainerUsage,
}

#[derive(Deserialize)]
struct ContainerUsage {
    cpu: String,
    memory: String,
}

impl PodUsage {
    /// Reads an item of a list of `metrics.k8s.io`: namespace and name of the pod, and its usage. `None`: it is not one, or has no container.
    #[must_use]
    pub fn of(item: &Value) -> Option<((String, String), Self)> {
        let PodMetrics { metadata, containers } = PodMetrics::deserialize(item).ok()?;
        let mut sum = Self { cpu_millis: 0, memory_bytes: 0 };
        for ContainerMetrics { usage } in &containers {
            let amount = |text: &str| text.parse::<Quantity>().ok().filter(|amount| !amount.is_negative());
            sum.cpu_millis = sum.cpu_millis.saturating_add(amount(&usage.cpu)?.milli_value());
            sum.memory_bytes = sum.memory_bytes.saturating_add(amount(&usage.memory)?.value());
        }
        (!containers.is_empty()).then_some(((metadata.namespace, metadata.name), sum))
    }
}

/// The measured pods of a cluster that are not terminating, by namespace.
pub(crate) struct MeasuredPods(BTreeMap<String, Vec<(Labels, PodUsage)>>);

#[derive(Deserialize)]
struct Pod {
    metadata: PodMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodMetadata {
    #[serde(default)]
    labels: Labels,
    #[serde(default)]
    deletion_timestamp: Option<String>,
}

impl MeasuredPods {
    /// `pod` returns the JSON of a recorded pod, with all labels.
    pub(crate) fn of<'a>(items: &[Value], pod: impl Fn(&str, &str) -> Option<&'a str>) -> Self {
        let mut pods: BTreeMap<String, Vec<(Labels, PodUsage)>> = BTreeMap::new();
        for ((namespace, name), usage) in items.iter().filter_map(PodUsage::of) {
            let known = pod(&namespace, &name).and_then(|text| serde_json::from_str::<Pod>(text).ok());
            if let Some(Pod { metadata }) = known.filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
                pods.entry(namespace).or_default().push((metadata.labels, usage));
            }
        }
        Self(pods)
    }

    /// The usage of a workload, whose JSON is `text`. `None`: no pod of it has a sample.
    pub(crate) fn usage(&self, workload: &ObjectId, text: &str) -> Option<Usage> {
        let selector: Selector = ScaledView::decode(text.as_bytes(), Revision(0)).ok()?.selector?;
        let mut sum = Usage { workload: workload.clone(), pods: 0, cpu_millis: 0, memory_bytes: 0 };
        for (labels, usage) in self.0.get(&workload.namespace)? {
            if selector.matches(labels) {
                sum.pods += 1;
                sum.cpu_millis = sum.cpu_millis.saturating_add(usage.cpu_millis).min(USAGE_MAX);
                sum.memory_bytes = sum.memory_bytes.saturating_add(usage.memory_bytes).min(USAGE_MAX);
            }
        }
        (0 < sum.pods).then_some(sum)
    }
}

/// The workload that an autoscaler scales, if its usage can be recorded.
pub(crate) fn target(namespace: &str, autoscaler: &str) -> Option<ObjectId> {
    let object: Value = serde_json::from_str(autoscaler).ok()?;
    let reference = &object["spec"]["scaleTargetRef"];
    let kind = WORKLOADS.into_iter().find(|kind| reference["kind"] == *kind)?;
    Some(ObjectId { kind, namespace: namespace.to_owned(), name: reference["name"].as_str()?.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pods_usage_is_that_of_its_containers_together() {
        let item = |containers: Value| json!({"metadata": {"namespace": "shop", "name": "web-1"}, "containers": containers});
        let container = |cpu: &str, memory: &str| json!({"name": "main", "usage": {"cpu": cpu, "memory": memory}});
        let found = PodUsage::of(&item(json!([container("120500000n", "64Mi"), container("1", "1Ki")])));
        let sum = PodUsage { cpu_millis: 1121, memory_bytes: (64 << 20) + 1024 };
        assert_eq!(found, Some((("shop".to_owned(), "web-1".to_owned()), sum)));
        for none in [json!([]), json!([container("x", "1")]), json!([container("-1", "1")]), json!([{"name": "main"}]), json!(3)] {
            assert_eq!(PodUsage::of(&item(none.clone())), None, "{none}");
        }
        assert_eq!(PodUsage::of(&json!(null)), None);
    }
}
