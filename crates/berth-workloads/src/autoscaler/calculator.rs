//! How many pods a metric requires.
//!
//! Source: kubernetes `replica_calculator.go`, `metrics/utilization.go`, `metrics/client.go`. The arithmetic is upstream's, with floating
//! point ratios, so that both decide equally at a limit.

use super::{CPU_INITIALIZATION_PERIOD, INITIAL_READINESS_DELAY, PodSample, WINDOW};
use crate::view::PodPhase;
use jiff::Timestamp;
use std::{
    collections::BTreeMap,
    fmt::{self, Display, Formatter},
};

/// How far the ratio of usage and target may be from 1 without a change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tolerances {
    pub(super) up: f64,
    pub(super) down: f64,
}

impl Tolerances {
    fn include(self, ratio: f64) -> bool {
        1.0 - self.down <= ratio && ratio <= 1.0 + self.up
    }
}

/// What a calculation depends on besides its metric.
#[derive(Clone, Copy, Debug)]
pub(super) struct Basis<'a> {
    pub(super) pods: &'a [PodSample],
    /// `spec.replicas` of the target.
    pub(super) replicas: i32,
    pub(super) tolerances: Tolerances,
    pub(super) now: Timestamp,
}

/// The result of a calculation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Calculated {
    pub(super) replicas: i32,
    /// The average or total, in thousandths.
    pub(super) value: i64,
    /// In percent of the requests, for targets of utilization.
    pub(super) utilization: Option<i32>,
}

/// What is missing to compute a size. The texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Lacking {
    /// The selector matches no pods.
    Pods,
    /// No pod has samples of usage.
    Samples,
    /// No pod has the custom metric.
    CustomMetric,
    /// Samples exist only of pods that do not count.
    ReadyPods,
    /// A pod with samples has no such container.
    Container { container: String, namespace: String, pod: String },
    /// A utilization has no base.
    Request { resource: String, container: String, pod: String },
    /// No sample belongs to a pod with requests.
    Requests,
}

impl Display for Lacking {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pods => f.write_str("no pods returned by selector while calculating replica count"),
            Self::Samples => f.write_str("no metrics returned from resource metrics API"),
            Self::CustomMetric => f.write_str("no metrics returned from custom metrics API"),
            Self::ReadyPods => f.write_str("did not receive metrics for targeted pods (pods might be unready)"),
            Self::Container { container, namespace, pod } => {
                write!(f, "container {container} not present in metrics for pod {namespace}/{pod}")
            }
            Self::Request { resource, container, pod } => {
                write!(f, "missing request for {resource} in container {container} of Pod {pod}")
            }
            Self::Requests => f.write_str("no metrics returned matched known pods"),
        }
    }
}

/// Values of pods by name, in thousandths.
pub(super) type Values<'a> = BTreeMap<&'a str, i64>;

/// The usage of a resource by each pod with a sample, of one container or of all.
pub(super) fn usage<'a>(pods: &'a [PodSample], namespace: &str, resource: &str, container: Option<&str>) -> Result<Values<'a>, Lacking> {
    let mut values = Values::new();
    for pod in pods.iter().filter(|pod| !pod.usage.is_empty()) {
        let mut samples = pod.usage.iter().filter(|sample| container.is_none_or(|container| sample.name == container)).peekable();
        if let Some(container) = container.filter(|_| samples.peek().is_none()) {
            let (container, namespace, pod) = (container.to_owned(), namespace.to_owned(), pod.name.to_string());
            return Err(Lacking::Container { container, namespace, pod });
        }
        let amounts: Option<Vec<i64>> = samples.map(|sample| sample.amounts.get(resource).copied()).collect();
        values.extend(amounts.map(|amounts| (pod.name.as_str(), sum(amounts.into_iter()))));
    }
    if values.is_empty() { Err(Lacking::Samples) } else { Ok(values) }
}

/// The custom metric of each pod that has it.
pub(super) fn custom<'a>(pods: &'a [PodSample], metric: &str) -> Result<Values<'a>, Lacking> {
    let values: Values<'a> = pods.iter().filter_map(|pod| Some((pod.name.as_str(), *pod.metrics.get(metric)?))).collect();
    if values.is_empty() { Err(Lacking::CustomMetric) } else { Ok(values) }
}

/// The number of pods for a utilization in percent of the requests.
pub(super) fn for_utilization(
    basis: Basis<'_>,
    target: i32,
    resource: &str,
    container: Option<&str>,
    values: Values<'_>,
) -> Result<Calculated, Lacking> {
    let grouped = Grouped::of(basis, resource == "cpu", values)?;
    let requests = requests(basis.pods, resource, container)?;
    let utilization = |values: &Values<'_>| Utilization::of(values, &requests, target);
    let now = utilization(&grouped.values)?;
    // Missing pods of a scale-down count as if they used their whole request, or more if the target is above it.
    let fallback = |pod: &str| requests.get(pod).map_or(0, |request| request.saturating_mul(i64::from(target.max(100))) / 100);
    let ratio_with = |values: &Values<'_>| utilization(values).map(|utilization| utilization.ratio);
    let replicas = grouped.replicas(basis, now.ratio, fallback, Stillness::NoMissing, ratio_with)?;
    Ok(Calculated { replicas, value: now.average, utilization: Some(now.percent) })
}

/// The number of pods for an average value per pod, in thousandths. `is_cpu`: samples of pods that start do not count.
pub(super) fn for_average(basis: Basis<'_>, target: i64, is_cpu: bool, values: Values<'_>) -> Result<Calculated, Lacking> {
    let grouped = Grouped::of(basis, is_cpu, values)?;
    let average = |values: &Values<'_>| sum(values.values().copied()) / length(values.len()).max(1);
    let ratio = |values: &Values<'_>| average(values) as f64 / target as f64;
    let (value, now) = (average(&grouped.values), ratio(&grouped.values));
    let replicas = grouped.replicas(basis, now, |_| target, Stillness::CountsAsUp, |values| Ok(ratio(values)))?;
    Ok(Calculated { replicas, value, utilization: None })
}

/// The number of pods for a value of the target as a whole, in thousandths.
pub(super) fn for_value(basis: Basis<'_>, value: i64, target: i64) -> Result<Calculated, Lacking> {
    let ratio = value as f64 / target as f64;
    let replicas = match basis.replicas {
        0 => ceil(ratio),
        current if basis.tolerances.include(ratio) => current,
        _ => ceil(ratio * ready_pods(basis.pods)? as f64),
    };
    Ok(Calculated { replicas, value, utilization: None })
}

/// The number of pods for a value of the target as a whole, of which each pod takes an equal part. `current` is `status.replicas`.
pub(super) fn for_value_per_pod(basis: Basis<'_>, current: i32, value: i64, target: i64) -> Calculated {
    let ratio = value as f64 / (target as f64 * f64::from(current));
    let replicas = if basis.tolerances.include(ratio) { current } else { ceil(value as f64 / target as f64) };
    let average = (value as f64 / f64::from(current)).ceil();
    // A target without pods has no average.
    let value = if average.is_finite() { average as i64 } else { value };
    Calculated { replicas, value, utilization: None }
}

fn ready_pods(pods: &[PodSample]) -> Result<usize, Lacking> {
    if pods.is_empty() {
        return Err(Lacking::Pods);
    }
    let is_ready = |pod: &&PodSample| pod.phase == PodPhase::Running && pod.ready.as_ref().is_some_and(|ready| ready.status == "True");
    Ok(pods.iter().filter(is_ready).count())
}

fn sum(values: impl Iterator<Item = i64>) -> i64 {
    values.fold(0, i64::saturating_add)
}

fn length(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

/// Rounds up to a number of pods. `as` limits what does not fit.
fn ceil(pods: f64) -> i32 {
    pods.ceil() as i32
}

/// How missing pods count if usage is exactly at its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stillness {
    /// Not at all.
    NoMissing,
    /// As in a scale-up.
    CountsAsUp,
}

/// The pods by what is known of them.
#[derive(Debug)]
struct Grouped<'a> {
    /// The values of pods that count.
    values: Values<'a>,
    ready: usize,
    /// Pods that do not count yet.
    unready: Vec<&'a str>,
    /// Pods without a value.
    missing: Vec<&'a str>,
}

impl<'a> Grouped<'a> {
    fn of(basis: Basis<'a>, is_cpu: bool, mut values: Values<'a>) -> Result<Self, Lacking> {
        if basis.pods.is_empty() {
            return Err(Lacking::Pods);
        }
        let (mut ready, mut unready, mut missing) = (0, Vec::new(), Vec::new());
        for pod in basis.pods {
            let name = pod.name.as_str();
            if pod.is_terminating || pod.phase == PodPhase::Failed {
                values.remove(name);
            } else if pod.phase == PodPhase::Pending || (is_cpu && values.contains_key(name) && is_starting(pod, basis.now)) {
                values.remove(name);
                unready.push(name);
            } else if values.contains_key(name) {
                ready += 1;
            } else {
                missing.push(name);
            }
        }
        if values.is_empty() { Err(Lacking::ReadyPods) } else { Ok(Self { values, ready, unready, missing }) }
    }

    /// The number of pods for a ratio of usage to target. Pods that do not count dampen the change, and never turn it around.
    fn replicas(
        mut self,
        basis: Basis<'_>,
        ratio: f64,
        missing_value: impl Fn(&str) -> i64,
        stillness: Stillness,
        ratio_with: impl Fn(&Values<'_>) -> Result<f64, Lacking>,
    ) -> Result<i32, Lacking> {
        let waits_for_unready = !self.unready.is_empty() && 1.0 < ratio;
        if !waits_for_unready && self.missing.is_empty() {
            let is_near = basis.tolerances.include(ratio);
            return Ok(if is_near { basis.replicas } else { ceil(ratio * self.ready as f64) });
        }
        for pod in &self.missing {
            let value =
                if ratio < 1.0 { Some(missing_value(pod)) } else { (1.0 < ratio || stillness == Stillness::CountsAsUp).then_some(0) };
            self.values.extend(value.map(|value| (*pod, value)));
        }
        if waits_for_unready {
            self.values.extend(self.unready.iter().map(|pod| (*pod, 0)));
        }
        let new = ratio_with(&self.values)?;
        let turns = (ratio < 1.0 && 1.0 < new) || (1.0 < ratio && new < 1.0);
        if basis.tolerances.include(new) || turns {
            return Ok(basis.replicas);
        }
        let replicas = ceil(new * self.values.len() as f64);
        let turns = (new < 1.0 && basis.replicas < replicas) || (1.0 < new && replicas < basis.replicas);
        Ok(if turns { basis.replicas } else { replicas })
    }
}

/// Whether the CPU sample of a pod is that of its start.
fn is_starting(pod: &PodSample, now: Timestamp) -> bool {
    let (Some(ready), Some(start)) = (&pod.ready, pod.start_time) else { return true };
    let (is_unready, since) = (ready.status == "False", ready.since.unwrap_or(Timestamp::MIN));
    if now < start.saturating_add(CPU_INITIALIZATION_PERIOD).unwrap_or(Timestamp::MAX) {
        is_unready || now < since.saturating_add(WINDOW).unwrap_or(Timestamp::MAX)
    } else {
        is_unready && since < start.saturating_add(INITIAL_READINESS_DELAY).unwrap_or(Timestamp::MAX)
    }
}

/// The requests of each pod, of one container or of all.
fn requests<'a>(pods: &'a [PodSample], resource: &str, container: Option<&str>) -> Result<Values<'a>, Lacking> {
    let mut requests = Values::new();
    for pod in pods {
        let whole = pod.own_requests.as_ref().filter(|_| container.is_none()).and_then(|requests| requests.get(resource));
        let request = match whole {
            Some(request) => *request,
            None => {
                let counted = pod.requests.iter().filter(|sample| container.is_none_or(|container| sample.name == container));
                let amount = |sample: &super::ContainerSample| {
                    let (resource, container) = (resource.to_owned(), sample.name.clone());
                    let missing = || Lacking::Request { resource: resource.clone(), container, pod: pod.name.to_string() };
                    sample.amounts.get(&resource).copied().ok_or_else(missing)
                };
                sum(counted.map(amount).collect::<Result<Vec<_>, _>>()?.into_iter())
            }
        };
        requests.insert(pod.name.as_str(), request);
    }
    Ok(requests)
}

/// Usage in comparison with requests.
struct Utilization {
    percent: i32,
    average: i64,
    /// Of the utilization and its target.
    ratio: f64,
}

impl Utilization {
    fn of(values: &Values<'_>, requests: &Values<'_>, target: i32) -> Result<Self, Lacking> {
        let known = || values.iter().filter_map(|(pod, value)| Some((*value, *requests.get(pod)?)));
        let (used, requested) = (sum(known().map(|(value, _)| value)), sum(known().map(|(_, request)| request)));
        if requested == 0 {
            return Err(Lacking::Requests);
        }
        let percent = i32::try_from(i128::from(used) * 100 / i128::from(requested)).unwrap_or(i32::MAX);
        let ratio = f64::from(percent) / f64::from(target);
        Ok(Self { percent, average: used / length(known().count()).max(1), ratio })
    }
}
