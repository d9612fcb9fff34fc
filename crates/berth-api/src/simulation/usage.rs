//! The resource usage of simulated containers over time: `sim.berth.dev/cpu` and `memory`.

use super::spread::parse_duration;
use crate::{
    annotations::{SIM_CPU, SIM_MEMORY},
    quantity::Quantity,
    unset::list,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod};
use std::{collections::BTreeMap, time::Duration};

/// An amount over the time since the container's start: `200m`, or points such as `0s=100m 5m=900m`. It is interpolated
/// linearly between two points, and constant before the first and after the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve(Vec<(Duration, Quantity)>);

impl Curve {
    /// Parses an annotation's value. `None`: an amount is negative or not a quantity, or the times do not increase.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let amount = |text: &str| text.parse().ok().filter(|amount: &Quantity| !amount.is_negative());
        if let Some(amount) = amount(text.trim()) {
            return Some(Self(vec![(Duration::ZERO, amount)]));
        }
        let point = |text: &str| text.split_once('=').and_then(|(time, value)| Some((parse_duration(time)?, amount(value)?)));
        let points: Vec<(Duration, Quantity)> = text.split_whitespace().map(point).collect::<Option<_>>()?;
        let increases = points.windows(2).all(|pair| pair[0].0 < pair[1].0);
        (increases && !points.is_empty()).then_some(Self(points))
    }

    /// Returns the amount at this time after the container's start.
    #[must_use]
    pub fn at(&self, elapsed: Duration) -> Quantity {
        let next = self.0.partition_point(|(time, _)| *time <= elapsed);
        let before = next.checked_sub(1).and_then(|index| self.0.get(index));
        match (before, self.0.get(next)) {
            (Some((from, low)), Some((to, high))) => {
                let (part, whole) = (micros(elapsed.saturating_sub(*from)), micros(to.saturating_sub(*from)).max(1));
                let rise = (high.nanos() - low.nanos()).saturating_mul(part) / whole;
                Quantity::from_nanos(low.nanos() + rise)
            }
            (Some((_, amount)), None) | (None, Some((_, amount))) => *amount,
            (None, None) => Quantity::ZERO,
        }
    }
}

fn micros(duration: Duration) -> i128 {
    i128::try_from(duration.as_micros()).unwrap_or(i128::MAX)
}

/// The usage of one container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerUsage {
    /// The container's name.
    pub name: String,
    /// In cores.
    pub cpu: Quantity,
    /// In whole bytes.
    pub memory: Quantity,
}

/// Returns the usage of a pod's running containers at `now`, init containers first.
///
/// A container without the annotation uses half of its request. An annotation without a container's name applies to each
/// container except init containers.
#[must_use]
pub fn usage(pod: &Pod, now: Timestamp) -> Vec<ContainerUsage> {
    let (Some(spec), Some(status)) = (&pod.spec, &pod.status) else { return Vec::new() };
    let init = list(&spec.init_containers).iter().map(|container| (container, false));
    let all = init.chain(spec.containers.iter().map(|container| (container, true)));
    let statuses = list(&status.init_container_statuses).iter().chain(list(&status.container_statuses));
    let statuses: BTreeMap<&str, &ContainerStatus> = statuses.map(|status| (status.name.as_str(), status)).collect();
    let curve = |key: &str| pod.metadata.annotations.as_ref()?.get(key).and_then(|text| Curve::parse(text));
    // Parsed once for all containers: there can be thousands, and a curve can be as long as all annotations may be.
    let (all_cpu, all_memory) = (curve(SIM_CPU), curve(SIM_MEMORY));
    let used = |(container, is_main): (&Container, bool)| {
        let elapsed = running_for(statuses.get(container.name.as_str())?, now)?;
        let amount = |key: &str, all: Option<&Curve>, resource: &str| {
            let own = curve(&format!("{key}.{}", container.name));
            let curve = own.as_ref().or(all.filter(|_| is_main));
            curve.map_or_else(|| half_requested(container, resource), |curve| curve.at(elapsed))
        };
        let memory = Quantity::from_integer(amount(SIM_MEMORY, all_memory.as_ref(), "memory").value());
        Some(ContainerUsage { name: container.name.clone(), cpu: amount(SIM_CPU, all_cpu.as_ref(), "cpu"), memory })
    };
    all.filter_map(used).collect()
}

fn running_for(status: &ContainerStatus, now: Timestamp) -> Option<Duration> {
    let running = status.state.as_ref()?.running.as_ref()?;
    let since = running.started_at.as_ref().map_or(now, |time| time.0);
    Some(Duration::try_from(now.duration_since(since)).unwrap_or(Duration::ZERO))
}

fn half_requested(container: &Container, resource: &str) -> Quantity {
    let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let request: Option<Quantity> = requests.and_then(|requests| requests.get(resource)).and_then(|amount| amount.0.parse().ok());
    request.map_or(Quantity::ZERO, |request| Quantity::from_nanos(request.nanos() / 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_curve_passes_through_its_points() {
        let curve = |text: &str| Curve::parse(text).unwrap_or_else(|| panic!("{text} is a curve"));
        let at = |curve: &Curve, seconds: u64| curve.at(Duration::from_secs(seconds)).to_string();
        let constant = curve("200m");
        assert_eq!((at(&constant, 0), at(&constant, 1000)), ("200m".to_owned(), "200m".to_owned()));
        let rising = curve("10s=100m 5m10s=900m  6m=0");
        for (second, expected) in [(0, "100m"), (10, "100m"), (160, "500m"), (310, "900m"), (335, "450m"), (360, "0"), (9999, "0")] {
            assert_eq!(at(&rising, second), expected, "after {second} s");
        }
        for text in ["", " ", "-1", "0s=-1m", "5s=1 5s=2", "5s=1 1s=2", "0s=1,5s=2", "0s", "200m 300m", "x"] {
            assert_eq!(Curve::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn each_running_container_uses_what_its_annotation_specifies_or_half_of_its_request() {
        let running = |name: &str, since: &str| json!({"name": name, "image": "i", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {"startedAt": since}}});
        let ended = json!({"name": "once", "image": "i", "imageID": "", "ready": true, "restartCount": 0, "state": {"terminated": {"exitCode": 0}}});
        let requests = json!({"requests": {"cpu": "50m", "memory": "16Mi"}});
        let pod = |annotations: Value| -> Pod {
            let pod = json!({
                "metadata": {"name": "p", "annotations": annotations},
                "spec": {
                    "initContainers": [{"name": "once"}, {"name": "proxy", "restartPolicy": "Always", "resources": requests}],
                    "containers": [{"name": "a", "resources": requests}, {"name": "b"}, {"name": "waits"}],
                },
                "status": {
                    "initContainerStatuses": [ended, running("proxy", "2026-01-01T00:00:00Z")],
                    "containerStatuses": [running("b", "2026-01-01T00:01:00Z"), running("a", "2026-01-01T00:00:00Z")],
                },
            });
            serde_json::from_value(pod).expect("a pod")
        };
        let check = |annotations: Value, expected: &[(&str, &str, &str)]| {
            let now = "2026-01-01T00:01:00Z".parse().expect("a time");
            let found = usage(&pod(annotations), now);
            let found: Vec<_> = found.iter().map(|used| (used.name.clone(), used.cpu.to_string(), used.memory.to_string())).collect();
            let expected: Vec<_> =
                expected.iter().map(|(name, cpu, memory)| ((*name).to_owned(), (*cpu).to_owned(), (*memory).to_owned())).collect();
            assert_eq!(found, expected);
        };
        check(json!({}), &[("proxy", "25m", "8388608"), ("a", "25m", "8388608"), ("b", "0", "0")]);
        check(
            json!({"sim.berth.dev/cpu": "0s=0 2m=1", "sim.berth.dev/memory": "1k", "sim.berth.dev/memory.a": "1.5", "sim.berth.dev/cpu.proxy": "1"}),
            &[("proxy", "1", "8388608"), ("a", "500m", "2"), ("b", "0", "1k")],
        );
        check(json!({"sim.berth.dev/cpu": "much"}), &[("proxy", "25m", "8388608"), ("a", "25m", "8388608"), ("b", "0", "0")]);
    }
}
