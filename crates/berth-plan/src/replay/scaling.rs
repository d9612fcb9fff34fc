//! The autoscalers of a replay: which ones a recording can be replayed with, the load of their targets, and how their sizes fit it.

use crate::{
    demand::Demand,
    error::{PlanError, UnfitAutoscaler},
    forecast::Peak,
    load::{Load, Loads, resource},
    replay::{
        column::{Autoscaled, Column, Scaling, Size},
        recorded::Recorded,
        samples::{Readings, ReadyPods, Sample},
    },
    times::since,
};
use berth_api::quantity::Quantity;
use berth_controllers::autoscaler::PodUsage;
use berth_identity::{ObjectKey, Revision};
use berth_store::env::Timestamp;
use berth_trace::ObjectId;
use berth_workloads::{autoscaler::AutoscalerView, view::View};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// How long a sample counts if the next one is late. Recordings have one every 15 s.
const SAMPLE_LASTS: Duration = Duration::from_secs(120);
/// The default target of an autoscaler, in percent of the requested cpu.
const UTILIZATION: i32 = 80;
/// How many workloads with usage an error names.
const NAMED_MAX: usize = 5;

/// An autoscaler to replay with.
#[derive(Clone, Debug)]
pub(crate) struct Autoscaler {
    pub(crate) manifest: Value,
    pub(crate) namespace: String,
    name: String,
    pub(crate) target: ObjectId,
    /// Its largest size.
    most: i32,
    goals: Vec<Goal>,
}

/// The usage that an autoscaler aims at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Goal {
    resource: Resource,
    per_pod: PerPod,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resource {
    Cpu,
    Memory,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PerPod {
    /// In percent of the requests.
    Utilization(i32),
    /// In millicores, or in bytes.
    Average(i64),
}

impl Autoscaler {
    /// All autoscalers of a replay.
    ///
    /// # Errors
    /// The recording cannot be replayed with one of them.
    pub(crate) fn all(manifests: &[Value], recorded: &Recorded) -> Result<Vec<Self>, PlanError> {
        let mut targets = BTreeSet::new();
        let read = |manifest: &Value| {
            let found = Self::of(manifest, recorded)
                .and_then(|found| if targets.insert(found.target.clone()) { Ok(found) } else { Err(UnfitAutoscaler::SameTarget) });
            let name = || manifest["metadata"]["name"].as_str().unwrap_or("without a name").to_owned();
            found.map_err(|source| PlanError::Autoscaler { name: name(), source })
        };
        let all: Vec<Self> = manifests.iter().map(read).collect::<Result<_, _>>()?;
        check_demand(&all, recorded)?;
        Ok(all)
    }

    fn of(manifest: &Value, recorded: &Recorded) -> Result<Self, UnfitAutoscaler> {
        let is_one = manifest["apiVersion"] == "autoscaling/v2" && manifest["kind"] == "HorizontalPodAutoscaler";
        let view = AutoscalerView::decode(manifest.to_string().as_bytes(), Revision(0));
        let view = view.ok().filter(|_| is_one && manifest["spec"]["scaleTargetRef"].is_object()).ok_or(UnfitAutoscaler::Kind)?;
        if view.name.is_empty() {
            return Err(UnfitAutoscaler::Kind);
        }
        let own = || recorded.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let namespace = if view.namespace.is_empty() { own() } else { view.namespace.to_string() };
        let reference = &view.spec.scale_target_ref;
        let is_target = |id: &&ObjectId| id.kind == reference.kind && id.namespace == namespace && id.name == reference.name;
        let target = recorded.usage.keys().find(is_target).cloned().ok_or_else(|| UnfitAutoscaler::NoUsage {
            kind: reference.kind.clone(),
            namespace: namespace.clone(),
            name: reference.name.clone(),
            known: recorded.usage.keys().take(NAMED_MAX).map(|id| format!("{} {}/{}", id.kind, id.namespace, id.name)).collect(),
        })?;
        let goals = goals(&view)?;
        let mut manifest = manifest.clone();
        manifest["metadata"]["namespace"] = json!(namespace);
        Ok(Self { manifest, namespace, name: view.name.to_string(), target, most: view.spec.max_replicas, goals })
    }

    /// The result of each column. `readings` has the pods of each column.
    pub(crate) fn report(&self, recorded: &Recorded, columns: &[(&Column, Option<&Readings>)]) -> Autoscaled {
        let samples = recorded.usage.get(&self.target).map(Vec::as_slice).unwrap_or_default();
        let mut load: BTreeMap<&'static str, Peak<i64>> = BTreeMap::new();
        for sample in samples {
            for (resource, value) in [("cpu", sample.load.cpu_millis), ("memory", sample.load.memory_bytes)] {
                let peak = load.entry(resource).or_insert(Peak { value, at: sample.at });
                if peak.value < value {
                    *peak = Peak { value, at: sample.at };
                }
            }
        }
        let scaling = |(column, readings): &(&Column, Option<&Readings>)| {
            let is_it =
                |id: &ObjectId, kind: &str, namespace: &str, name: &str| (id.kind, &*id.namespace, &*id.name) == (kind, namespace, name);
            let workload = column.workloads.iter().find(|one| is_it(&self.target, one.kind, &one.namespace, &one.name))?;
            let sizes = workload.wanted.iter().filter(|(at, _)| *at <= recorded.facts.lasts);
            let sizes: Vec<Size> = sizes.map(|(at, replicas)| Size { at: *at, replicas: i64::from(*replicas) }).collect();
            let pods: Vec<ReadyPods> = match readings {
                Some(readings) => readings.get(&self.target).cloned().unwrap_or_default(),
                None => samples.iter().map(|sample| sample.pods).collect(),
            };
            Some(Scaling {
                column: column.name.clone(),
                changes: sizes.len().saturating_sub(1),
                sizes,
                pod_seconds: (workload.sum.pod_minutes * 600.0).round() / 10.0,
                over_target: self.over_target(samples, &pods, recorded.facts.lasts),
            })
        };
        Autoscaled {
            kind: self.target.kind,
            namespace: self.target.namespace.clone(),
            name: self.target.name.clone(),
            autoscaler: self.name.clone(),
            instead_of: recorded.autoscalers.get(&self.target).cloned(),
            samples: samples.len(),
            load,
            columns: columns.iter().filter_map(scaling).collect(),
        }
    }

    /// How long the ready pods had to use more than the autoscaler aims at, without its tolerance.
    fn over_target(&self, samples: &[Sample], pods: &[ReadyPods], lasts: Duration) -> Duration {
        let next = |index: usize| samples.get(index + 1).map_or(lasts, |next| next.at);
        let over = samples
            .iter()
            .zip(pods)
            .enumerate()
            .filter(|(_, (sample, pods))| self.goals.iter().any(|goal| goal.is_exceeded(sample.load, **pods)));
        over.map(|(index, (sample, _))| next(index).saturating_sub(sample.at).min(SAMPLE_LASTS)).sum()
    }
}

impl Goal {
    fn is_exceeded(self, load: Load, pods: ReadyPods) -> bool {
        let of = |load: Load| match self.resource {
            Resource::Cpu => i128::from(load.cpu_millis),
            Resource::Memory => i128::from(load.memory_bytes),
        };
        let count = i128::from(pods.count);
        match self.per_pod {
            PerPod::Utilization(percent) => i128::from(percent) * of(pods.requests) * count < of(load) * 100,
            PerPod::Average(amount) => i128::from(amount) * count < of(load),
        }
    }
}

/// Checks that a simulation can create the pods of the autoscalers' largest sizes, beside those that the recording begins with.
fn check_demand(autoscalers: &[Autoscaler], recorded: &Recorded) -> Result<(), PlanError> {
    let mut demand = Demand::of_all(&recorded.initial, 0);
    for Autoscaler { target, most, .. } in autoscalers {
        let object = recorded.initial.iter().find(|object| ObjectId::of(object).as_ref() == Some(target));
        demand.resize(object, target.kind, *most);
    }
    demand.check().map(drop)
}

fn goals(view: &AutoscalerView) -> Result<Vec<Goal>, UnfitAutoscaler> {
    let Some(metrics) = view.spec.metrics.as_ref().filter(|metrics| !metrics.is_empty()) else {
        return Ok(vec![Goal { resource: Resource::Cpu, per_pod: PerPod::Utilization(UTILIZATION) }]);
    };
    let goal = |metric: &berth_api::k8s_openapi::api::autoscaling::v2::MetricSpec| {
        let source = metric.resource.as_ref().filter(|_| metric.type_ == "Resource");
        let resource = match source.map(|source| source.name.as_str()) {
            Some("cpu") => Resource::Cpu,
            Some("memory") => Resource::Memory,
            Some(other) => return Err(UnfitAutoscaler::Metric(format!("Resource for {other}"))),
            None => return Err(UnfitAutoscaler::Metric(metric.type_.clone())),
        };
        let target = source.map(|source| &source.target);
        let average = target.and_then(|target| target.average_value.as_ref()).and_then(|amount| amount.0.parse::<Quantity>().ok());
        let average = average.map(|amount| if resource == Resource::Cpu { amount.milli_value() } else { amount.value() });
        let percent = target.and_then(|target| target.average_utilization);
        // Validation rejects a target without either.
        let per_pod = average.map_or_else(|| PerPod::Utilization(percent.unwrap_or(UTILIZATION)), PerPod::Average);
        Ok(Goal { resource, per_pod })
    };
    metrics.iter().map(goal).collect()
}

/// The usage of the targets over the time of a replay that begins at `begins`.
pub(crate) fn usage(recorded: &Recorded, autoscalers: &[Autoscaler]) -> Arc<dyn PodUsage> {
    let begins = recorded.begins;
    let of = |autoscaler: &Autoscaler| {
        let target = &autoscaler.target;
        let samples: Arc<[(Duration, Load)]> = recorded.usage.get(target)?.iter().map(|sample| (sample.at, sample.load)).collect();
        let key = ObjectKey::new(target.namespace.as_str(), target.name.as_str());
        Some(((resource(target.kind)?, key), move |now: Timestamp| load_at(&samples, since(begins, now))))
    };
    Arc::new(Loads(autoscalers.iter().filter_map(of).collect()))
}

/// The last load by then, if it still counts.
fn load_at(samples: &[(Duration, Load)], at: Duration) -> Option<Load> {
    let (sampled, load) = samples.get(samples.partition_point(|(sampled, _)| *sampled <= at).checked_sub(1)?)?;
    (at.saturating_sub(*sampled) <= SAMPLE_LASTS).then_some(*load)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn second(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn load(cpu_millis: i64, memory_bytes: i64) -> Load {
        Load { cpu_millis, memory_bytes }
    }

    fn view(metrics: &Value) -> AutoscalerView {
        let object = json!({"metadata": {"name": "web"}, "spec": {"maxReplicas": 9, "metrics": metrics,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}});
        AutoscalerView::decode(object.to_string().as_bytes(), Revision(0)).expect("an autoscaler")
    }

    fn resource_metric(name: &str, target: &Value) -> Value {
        json!({"type": "Resource", "resource": {"name": name, "target": target}})
    }

    #[test]
    fn a_load_counts_until_the_next_one_and_not_for_long() {
        let samples = [(second(10), load(100, 0)), (second(25), load(200, 0))];
        let at = |seconds: u64| load_at(&samples, second(seconds)).map(|load| load.cpu_millis);
        assert_eq!([at(9), at(10), at(24), at(25), at(145), at(146)], [None, Some(100), Some(100), Some(200), Some(200), None]);
        assert_eq!(load_at(&[], second(1)), None);
    }

    #[test]
    fn metrics_without_a_recorded_value_are_refused_by_name() {
        let cpu = resource_metric("cpu", &json!({"type": "Utilization", "averageUtilization": 50}));
        let memory = resource_metric("memory", &json!({"type": "AverageValue", "averageValue": "64Mi"}));
        let found = goals(&view(&json!([cpu, memory])));
        let wanted = [
            Goal { resource: Resource::Cpu, per_pod: PerPod::Utilization(50) },
            Goal { resource: Resource::Memory, per_pod: PerPod::Average(64 << 20) },
        ];
        assert_eq!(found, Ok(wanted.to_vec()));
        assert_eq!(goals(&view(&json!([]))), Ok(vec![Goal { resource: Resource::Cpu, per_pod: PerPod::Utilization(80) }]), "the default");
        let external = json!({"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "3"}}});
        assert_eq!(goals(&view(&json!([external]))), Err(UnfitAutoscaler::Metric("External".to_owned())));
    }

    #[test]
    fn the_time_over_the_target_is_that_of_too_few_ready_pods() {
        let goal = |metric: &Value| goals(&view(&json!([metric]))).expect("a goal")[0];
        let half = goal(&resource_metric("cpu", &json!({"type": "Utilization", "averageUtilization": 50})));
        let pods = |count: u32| ReadyPods { count, requests: load(100, 64 << 20) };
        // Two pods that request 100m each are at their target with 100m together.
        assert!(
            !half.is_exceeded(load(100, 0), pods(2)) && half.is_exceeded(load(101, 0), pods(2)) && half.is_exceeded(load(1, 0), pods(0))
        );
        assert!(!half.is_exceeded(load(0, 0), pods(0)), "no load needs no pod");
        let average = goal(&resource_metric("memory", &json!({"type": "AverageValue", "averageValue": "64Mi"})));
        assert!(!average.is_exceeded(load(900, 128 << 20), pods(2)) && average.is_exceeded(load(0, (128 << 20) + 1), pods(2)));
        let target = ObjectId { kind: "Deployment", namespace: "default".to_owned(), name: "web".to_owned() };
        let autoscaler = Autoscaler {
            manifest: Value::Null,
            namespace: String::new(),
            name: String::new(),
            target,
            most: 9,
            goals: vec![half, average],
        };
        let sample = |at: u64, cpu: i64| Sample { at: second(at), load: load(cpu, 0), pods: ReadyPods::default() };
        let samples = [sample(0, 300), sample(15, 90), sample(30, 300), sample(400, 300)];
        let of = |counts: [u32; 4]| autoscaler.over_target(&samples, &counts.map(pods), second(410));
        assert_eq!(of([2, 2, 2, 2]), second(15 + 120 + 10), "a sample counts for two minutes");
        assert_eq!(of([6, 2, 2, 9]), second(120));
        assert_eq!(of([6, 2, 6, 6]), Duration::ZERO);
    }
}
