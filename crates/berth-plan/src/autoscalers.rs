//! The autoscalers of the changed workloads: which of them run in a forecast, and with the usage of which pods.

use crate::{
    change::Change,
    controller_log::Autoscaling,
    demand::Demand,
    load::{Load, Loads, resource},
    snapshot::{Snapshot, is_of_berth, uid},
    times::{seconds, since},
};
use berth_api::annotations::{SIM_CPU, SIM_MEMORY};
use berth_controllers::autoscaler::PodUsage;
use berth_identity::{ObjectKey, Revision};
use berth_store::env::Timestamp;
use berth_workloads::{
    autoscaler::{AutoscalerView, ScaledView, longest_window},
    selector::Labels,
    view::View,
    workload::{WorkloadId, WorkloadKind},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// The kind of autoscalers.
pub(crate) const KIND: &str = "HorizontalPodAutoscaler";

/// How long an autoscaler rests after its stabilization window until it counts as settled: some of its intervals.
const REST_AFTER_WINDOW: Duration = Duration::from_secs(60);

/// What is known of the usage of a cluster's pods.
#[derive(Clone, Debug, Default)]
pub enum KnownUsage {
    /// There is no cluster.
    #[default]
    NoCluster,
    /// Why it cannot be read.
    Unknown(String),
    /// The items of lists of `metrics.k8s.io`.
    Measured(Vec<Value>),
}

/// The usage with which an autoscaler runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "usage")]
pub enum AutoscalerUsage {
    /// The annotations of simulated pods, or half of their requests.
    Annotations,
    /// What `metrics.k8s.io` reports. Ready pods share it.
    Metrics {
        /// The number of pods with a sample.
        pods: usize,
        /// What they use together.
        cpu_millis: i64,
        /// What they use together.
        memory_bytes: i64,
    },
    /// The autoscaler does not run.
    Unknown {
        /// The reason.
        why: String,
    },
}

/// An autoscaler of a changed workload.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AutoscalerForecast {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What it scales.
    pub target: WorkloadId,
    /// The usage with which it runs.
    #[serde(flatten)]
    pub usage: AutoscalerUsage,
    /// The sizes that it sets.
    pub changes: Vec<AutoscalerChange>,
}

/// A size that an autoscaler sets.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AutoscalerChange {
    /// When.
    #[serde(rename = "atSeconds", serialize_with = "seconds")]
    pub at: Duration,
    /// In pods.
    pub from: i32,
    /// In pods.
    pub to: i32,
    /// As its event states it.
    pub why: String,
}

impl AutoscalerForecast {
    /// Whether it runs in the forecast.
    #[must_use]
    pub fn runs(&self) -> bool {
        !matches!(self.usage, AutoscalerUsage::Unknown { .. })
    }
}

/// The autoscalers of a forecast.
pub(crate) struct Autoscalers {
    all: BTreeMap<ObjectKey, (AutoscalerForecast, AutoscalerView)>,
}

/// The namespaces whose pods have autoscalers that run only with the usage of `metrics.k8s.io`.
#[must_use]
pub fn measured_namespaces(snapshot: &Snapshot, change: &Change) -> BTreeSet<String> {
    let targets = change.targets().unwrap_or_default();
    if has_simulated_nodes(snapshot) {
        return BTreeSet::new();
    }
    let of_targets = autoscalers(snapshot, change).into_iter().filter(|(_, view)| target(view, &targets).is_some());
    of_targets.map(|(key, _)| key.namespace.to_string()).collect()
}

impl Autoscalers {
    /// The autoscalers of `targets`.
    pub(crate) fn of(snapshot: &Snapshot, change: &Change, targets: &[WorkloadId], usage: &KnownUsage) -> Self {
        let found = autoscalers(snapshot, change).into_iter().filter_map(|(key, view)| {
            let target = target(&view, targets)?;
            let usage = usage_of(snapshot, change, &view, &target, usage);
            let (namespace, name) = (key.namespace.to_string(), key.name.to_string());
            let forecast = AutoscalerForecast { namespace, name, target, usage, changes: Vec::new() };
            Some((key, (forecast, view)))
        });
        Self { all: found.collect() }
    }

    /// Whether an object is another kind, or an autoscaler that runs.
    pub(crate) fn includes(&self, kind: &str, namespace: &str, name: &str) -> bool {
        kind != KIND || self.all.get(&ObjectKey::new(namespace, name)).is_some_and(|(forecast, _)| forecast.runs())
    }

    /// The usage of the pods of targets. `None`: no autoscaler runs.
    pub(crate) fn usage(&self) -> Option<Arc<dyn PodUsage>> {
        let running = || self.all.values().map(|(forecast, _)| forecast).filter(|forecast| forecast.runs());
        let load = |forecast: &AutoscalerForecast| {
            let AutoscalerUsage::Metrics { cpu_millis, memory_bytes, .. } = forecast.usage else { return None };
            let load = Load { cpu_millis, memory_bytes };
            Some(((resource(forecast.target.kind.name())?, forecast.target.key()), move |_: Timestamp| Some(load)))
        };
        running().next()?;
        Some(Arc::new(Loads(running().filter_map(load).collect())))
    }

    /// The pods that they can add to `demand`, which contains the workloads of `objects`.
    pub(crate) fn add_demand(&self, objects: &[Value], demand: &mut Demand) {
        for (forecast, view) in self.all.values().filter(|(forecast, _)| forecast.runs()) {
            let target = objects.iter().find(|object| is_workload(object, &forecast.target));
            demand.resize(target, forecast.target.kind.name(), view.spec.max_replicas);
        }
    }

    /// How long nothing may change before no running one changes its target any more. `None`: none runs.
    pub(crate) fn rest(&self) -> Option<Duration> {
        let running = self.all.values().filter(|(forecast, _)| forecast.runs());
        let longest = running.map(|(_, view)| longest_window(view)).max()?;
        Some(longest.unsigned_abs() + REST_AFTER_WINDOW)
    }

    /// The result, with the sizes that controllers have planned since `began`.
    pub(crate) fn finish(self, autoscalings: &[Autoscaling], began: Timestamp) -> Vec<AutoscalerForecast> {
        let mut all = self.all;
        for Autoscaling { at, autoscaler, from, to, why } in autoscalings.iter().filter(|autoscaling| began <= autoscaling.at) {
            let Some((forecast, _)) = all.get_mut(autoscaler) else { continue };
            // A size that another write delays is planned again.
            let is_known = forecast.changes.last().is_some_and(|last| (last.from, last.to) == (*from, *to));
            if !is_known {
                forecast.changes.push(AutoscalerChange { at: since(began, *at), from: *from, to: *to, why: why.clone() });
            }
        }
        all.into_values().map(|(forecast, _)| forecast).collect()
    }
}

/// The autoscalers of the snapshot and of the change.
fn autoscalers(snapshot: &Snapshot, change: &Change) -> BTreeMap<ObjectKey, AutoscalerView> {
    let changed = change.namespaced();
    let view = |object: &Value| {
        let mut view = AutoscalerView::decode(object.to_string().as_bytes(), Revision(0)).ok()?;
        if view.namespace.is_empty() {
            view.namespace = "default".into();
        }
        Some((ObjectKey::new(&*view.namespace, &*view.name), view))
    };
    let is_one = |object: &&Value| object["apiVersion"] == "autoscaling/v2" && object["kind"] == KIND;
    snapshot.objects.iter().chain(&changed).filter(is_one).filter_map(view).collect()
}

/// The changed workload that an autoscaler scales.
fn target(autoscaler: &AutoscalerView, targets: &[WorkloadId]) -> Option<WorkloadId> {
    let reference = &autoscaler.spec.scale_target_ref;
    let id = WorkloadId::new(WorkloadKind::named(&reference.kind)?, autoscaler.namespace.clone(), reference.name.as_str());
    targets.contains(&id).then_some(id)
}

fn is_workload(object: &Value, workload: &WorkloadId) -> bool {
    let metadata = &object["metadata"];
    let namespace = metadata["namespace"].as_str().unwrap_or("default");
    object["kind"] == workload.kind.name() && *workload.namespace == *namespace && metadata["name"] == *workload.name
}

/// The usage with which an autoscaler runs, or why it does not.
fn usage_of(snapshot: &Snapshot, change: &Change, autoscaler: &AutoscalerView, target: &WorkloadId, usage: &KnownUsage) -> AutoscalerUsage {
    if has_simulated_nodes(snapshot) || has_annotations(snapshot, change, target) {
        return AutoscalerUsage::Annotations;
    }
    let unknown = |why: String| AutoscalerUsage::Unknown { why };
    let metrics = autoscaler.spec.metrics.iter().flatten();
    if let Some(other) = metrics.into_iter().find(|metric| metric.type_ != "Resource") {
        return unknown(format!("the value of its metric of type {} is unknown", other.type_));
    }
    match usage {
        KnownUsage::NoCluster => {
            unknown(format!("the usage of its pods is unknown; set it by the annotations {SIM_CPU} and {SIM_MEMORY} of the template"))
        }
        KnownUsage::Unknown(why) => unknown(format!("the usage of its pods cannot be read: {why}")),
        KnownUsage::Measured(items) => {
            measured(snapshot, target, items).unwrap_or_else(|| unknown("metrics.k8s.io has no usage of its pods".to_owned()))
        }
    }
}

/// Whether all pods of the cluster are simulated. Then their annotations set their usage.
fn has_simulated_nodes(snapshot: &Snapshot) -> bool {
    let mut nodes = snapshot.of_kinds(&["Node"]).peekable();
    nodes.peek().is_some() && nodes.all(is_of_berth)
}

/// Whether the template of a workload without a cluster sets the usage of its pods.
fn has_annotations(snapshot: &Snapshot, change: &Change, target: &WorkloadId) -> bool {
    let changed = change.namespaced();
    let mut objects = snapshot.objects.iter().chain(&changed).filter(|object| is_workload(object, target));
    // The pods of a cluster are real, whatever their annotations are.
    !snapshot.objects.iter().any(|object| uid(object).is_some())
        && objects.any(|object| {
            let annotations = object["spec"]["template"]["metadata"]["annotations"].as_object();
            annotations.is_some_and(|all| all.keys().any(|key| key.starts_with(SIM_CPU) || key.starts_with(SIM_MEMORY)))
        })
}

/// The usage of the pods that the workload selects and that are not terminating. `None`: none has a sample.
fn measured(snapshot: &Snapshot, target: &WorkloadId, items: &[Value]) -> Option<AutoscalerUsage> {
    let workload = snapshot.objects.iter().find(|object| is_workload(object, target))?;
    let selector = ScaledView::decode(workload.to_string().as_bytes(), Revision(0)).ok()?.selector?;
    let usage: BTreeMap<(String, String), berth_trace::PodUsage> = items.iter().filter_map(berth_trace::PodUsage::of).collect();
    let (mut pods, mut sum) = (0, Load::default());
    for pod in snapshot.of_kinds(&["Pod"]) {
        let metadata = &pod["metadata"];
        let text = |member: &str| metadata[member].as_str().unwrap_or_default().to_owned();
        let labels = Labels::deserialize(&metadata["labels"]).unwrap_or_default();
        let is_own = *target.namespace == *text("namespace") && metadata["deletionTimestamp"].is_null() && selector.matches(&labels);
        let Some(usage) = usage.get(&(text("namespace"), text("name"))).filter(|_| is_own) else { continue };
        pods += 1;
        sum.cpu_millis = sum.cpu_millis.saturating_add(usage.cpu_millis);
        sum.memory_bytes = sum.memory_bytes.saturating_add(usage.memory_bytes);
    }
    (0 < pods).then_some(AutoscalerUsage::Metrics { pods, cpu_millis: sum.cpu_millis, memory_bytes: sum.memory_bytes })
}
