//! The server's own metrics, under upstream's names.

use crate::{
    flow::FlowCollectors,
    path::{ResourcePath, Route},
};
use berth_api::gates::{FeatureGates, Gate, Maturity};
use prometheus::{
    HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    core::{Collector, Desc},
    proto::MetricFamily,
};
use std::time::Duration;

/// Upstream's buckets of request durations, in seconds.
const DURATION_BUCKETS: [f64; 20] =
    [0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 30.0, 60.0];

/// The metrics of requests.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    requests: IntCounterVec,
    durations: HistogramVec,
    long_running: IntGaugeVec,
    inflight_reading: IntGauge,
    inflight_mutating: IntGauge,
    /// The metrics of flow control.
    pub(crate) flow: FlowCollectors,
}

/// The labels of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Labels<'a> {
    /// In upper case. `WATCH` and `LIST` are distinct from `GET`.
    pub(crate) verb: &'static str,
    /// The group. Empty for core and for other paths.
    pub(crate) group: &'a str,
    /// `v1`.
    pub(crate) version: &'a str,
    /// The plural. It contains existing resources only, so that clients cannot create series.
    pub(crate) resource: &'a str,
    /// The subresource, or empty.
    pub(crate) subresource: &'a str,
    /// `cluster`, `namespace`, `resource`, or empty.
    pub(crate) scope: &'static str,
}

impl<'a> Labels<'a> {
    /// Returns the labels of a request for an existing resource.
    #[must_use]
    pub(crate) fn of(verb: &'static str, route: &'a Route<'a>) -> Self {
        let other = Self { verb, group: "", version: "", resource: "", subresource: "", scope: "" };
        match route {
            Route::Resource(at) => Self {
                group: &at.resource.group,
                version: &at.resource.version,
                resource: &at.resource.plural,
                subresource: at.subresource.unwrap_or_default(),
                scope: scope(at),
                ..other
            },
            _ => other,
        }
    }
}

fn scope(at: &ResourcePath<'_>) -> &'static str {
    match (&at.name, &at.namespace) {
        (Some(_), _) => "resource",
        (None, Some(_)) => "namespace",
        (None, None) => "cluster",
    }
}

/// Decrements a gauge when dropped.
#[derive(Debug)]
pub(crate) struct Inflight(IntGauge);

impl Inflight {
    fn new(gauge: IntGauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Inflight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    /// Registers all metrics, including the feature gates of the server and the controllers.
    ///
    /// # Errors
    /// A metric with one of these names exists.
    pub(crate) fn register(registry: &Registry, gates: &FeatureGates, controllers: &FeatureGates) -> Result<Self, prometheus::Error> {
        let resource = ["verb", "group", "version", "resource", "subresource", "scope"];
        let requests = IntCounterVec::new(
            Opts::new("apiserver_request_total", "Requests answered."),
            &["code", "component", "group", "resource", "scope", "subresource", "verb", "version"],
        )?;
        let durations = HistogramVec::new(
            HistogramOpts::new("apiserver_request_duration_seconds", "Time until the answer began.").buckets(DURATION_BUCKETS.to_vec()),
            &resource,
        )?;
        let long_running = IntGaugeVec::new(Opts::new("apiserver_longrunning_requests", "Watches that are open."), &resource)?;
        let inflight = IntGaugeVec::new(Opts::new("apiserver_current_inflight_requests", "Requests being answered."), &["request_kind"])?;
        let enabled = GatePositions::new(gates, controllers)?;
        let collectors: [Box<dyn Collector>; 5] = [
            Box::new(requests.clone()),
            Box::new(durations.clone()),
            Box::new(long_running.clone()),
            Box::new(inflight.clone()),
            Box::new(enabled),
        ];
        for collector in collectors {
            registry.register(collector)?;
        }
        let flow = FlowCollectors::new()?;
        flow.register(registry)?;
        let [inflight_reading, inflight_mutating] = ["readOnly", "mutating"].map(|kind| inflight.with_label_values(&[kind]));
        Ok(Self { requests, durations, long_running, inflight_reading, inflight_mutating, flow })
    }

    pub(crate) fn begin(&self, verb: &str) -> Inflight {
        let reads = matches!(verb, "GET" | "LIST" | "WATCH" | "HEAD");
        Inflight::new(if reads { self.inflight_reading.clone() } else { self.inflight_mutating.clone() })
    }

    pub(crate) fn begin_watch(&self, labels: &Labels<'_>) -> Inflight {
        Inflight::new(self.long_running.with_label_values(&resource_values(labels)))
    }

    pub(crate) fn answered(&self, labels: &Labels<'_>, code: &str, took: Duration) {
        let Labels { verb, group, version, resource, subresource, scope } = *labels;
        self.requests.with_label_values(&[code, "apiserver", group, resource, scope, subresource, verb, version]).inc();
        if verb != "WATCH" {
            self.durations.with_label_values(&resource_values(labels)).observe(took.as_secs_f64());
        }
    }
}

fn resource_values<'a>(labels: &Labels<'a>) -> [&'a str; 6] {
    [labels.verb, labels.group, labels.version, labels.resource, labels.subresource, labels.scope]
}

/// Registers the feature gates of a process other than an API server.
///
/// # Errors
/// A metric with that name exists.
pub fn register_gates(registry: &Registry, gates: &FeatureGates) -> Result<(), prometheus::Error> {
    registry.register(Box::new(GatePositions::new(gates, gates)?))
}

/// `kubernetes_feature_enabled`: one series per gate if the server and the controllers of this process agree, as
/// upstream. Otherwise one for each, with the label `component`.
struct GatePositions {
    same: IntGaugeVec,
    apart: IntGaugeVec,
}

impl GatePositions {
    fn new(server: &FeatureGates, controllers: &FeatureGates) -> Result<Self, prometheus::Error> {
        let options = || Opts::new("kubernetes_feature_enabled", "Whether a feature gate is on.");
        let same = IntGaugeVec::new(options(), &["name", "stage"])?;
        let apart = IntGaugeVec::new(options(), &["component", "name", "stage"])?;
        for gate in Gate::ALL.iter().copied() {
            let stage = match gate.maturity() {
                Maturity::Alpha => "ALPHA",
                Maturity::Beta => "BETA",
            };
            let position = |gates: &FeatureGates| i64::from(gates.enabled(gate));
            if position(server) == position(controllers) {
                same.with_label_values(&[gate.name(), stage]).set(position(server));
            } else {
                apart.with_label_values(&["kube-apiserver", gate.name(), stage]).set(position(server));
                apart.with_label_values(&["kube-controller-manager", gate.name(), stage]).set(position(controllers));
            }
        }
        Ok(Self { same, apart })
    }
}

impl Collector for GatePositions {
    fn desc(&self) -> Vec<&Desc> {
        self.same.desc()
    }

    /// Returns one family, because both have the same name.
    fn collect(&self) -> Vec<MetricFamily> {
        let mut families = self.same.collect();
        if let Some(family) = families.first_mut() {
            let apart = self.apart.collect().into_iter().flat_map(|mut family| family.take_metric());
            family.mut_metric().extend(apart);
        }
        families
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path;
    use prometheus::TextEncoder;

    #[test]
    fn requests_and_gates_are_shown_under_upstreams_names() {
        let registry = Registry::new();
        let metrics = Metrics::register(&registry, &FeatureGates::default(), &FeatureGates::default()).expect("registered");
        let route = path::parse("/apis/apps/v1/namespaces/a/deployments");
        metrics.answered(&Labels::of("LIST", &route), "200", Duration::from_millis(10));
        let _open = metrics.begin("POST");
        let text = TextEncoder::new().encode_to_string(&registry.gather()).expect("text");
        for line in [
            r#"apiserver_request_total{code="200",component="apiserver",group="apps",resource="deployments",scope="namespace",subresource="",verb="LIST",version="v1"} 1"#,
            r#"apiserver_current_inflight_requests{request_kind="mutating"} 1"#,
            r#"apiserver_current_inflight_requests{request_kind="readOnly"} 0"#,
            r#"kubernetes_feature_enabled{name="PodDeletionCost",stage="BETA"} 1"#,
            r#"kubernetes_feature_enabled{name="MaxUnavailableStatefulSet",stage="BETA"} 0"#,
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }

    #[test]
    fn gates_whose_positions_differ_between_server_and_controllers_are_reported_per_component() {
        let gates = |text: &str| FeatureGates::parse(text).expect("known gates");
        let positions =
            GatePositions::new(&gates("PodDeletionCost=false"), &gates("StatefulSetRecreateStrategy=false")).expect("valid names");
        let registry = Registry::new();
        registry.register(Box::new(positions)).expect("registered");
        let text = TextEncoder::new().encode_to_string(&registry.gather()).expect("text");
        let lines = |gate: &str| text.lines().filter(|line| line.contains(&format!("\"{gate}\""))).map(str::to_owned).collect::<Vec<_>>();
        let pair = |gate: &str, positions: [u8; 2]| {
            ["kube-apiserver", "kube-controller-manager"]
                .iter()
                .zip(positions)
                .map(|(component, position)| {
                    format!(r#"kubernetes_feature_enabled{{component="{component}",name="{gate}",stage="BETA"}} {position}"#)
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(lines("PodDeletionCost"), pair("PodDeletionCost", [0, 1]));
        assert_eq!(lines("StatefulSetRecreateStrategy"), pair("StatefulSetRecreateStrategy", [1, 0]));
        let same = r#"kubernetes_feature_enabled{name="DeploymentPodReplacementPolicy",stage="BETA"} 1"#;
        assert_eq!(lines("DeploymentPodReplacementPolicy"), [same]);
        assert_eq!(text.matches("# TYPE kubernetes_feature_enabled").count(), 1);
    }
}
