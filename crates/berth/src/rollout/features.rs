//! Whether the cluster's controllers support the features that a workload requests. Without a feature, they ignore the request.

use super::{cluster::Connection, error::Error, revision_report::Records, target::Found};
use crate::cluster_options::ClusterOptions;
use berth_api::{FeatureGates, Gate};
use berth_controllers::cluster::FIELD_MANAGER;
use berth_identity::ApiName;
use berth_plan::KnownGates;
use berth_workloads::{
    resources::APPS_V1,
    view::{DeploymentView, PodReplacementPolicy, StatefulSetView},
    workload::WorkloadKind,
};
use serde_json::Value;

/// The path with the gates of the API server and the controllers.
const METRICS: &str = "/metrics";
/// The label of the controllers' series.
const CONTROLLERS: &str = "component=\"kube-controller-manager\"";
/// The start of a metric that exists only if the controllers are berth's and run in the API server's process.
const BESIDE: &str = "berth_events_dropped_total ";
/// The path of the workloads' schemas.
const SCHEMA: &str = "/openapi/v3/apis/apps/v1";

/// A feature that a workload requires for its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Feature {
    /// Its gate.
    pub(super) gate: Gate,
    /// The request.
    asked: &'static str,
    /// A field in the schema of servers with the feature.
    field: Option<&'static str>,
    /// Whether the workload's status proves that the feature is active.
    seen_at_work: bool,
    /// Whether berth's controllers write the workload, whatever its server: they support annotations that the server does not know.
    written_by_berth: bool,
}

fn is_written_by_berth(json: &str) -> bool {
    let object: Value = serde_json::from_str(json).unwrap_or_default();
    let managers = object["metadata"]["managedFields"].as_array();
    managers.into_iter().flatten().any(|entry| entry["manager"] == FIELD_MANAGER)
}

impl Feature {
    /// The feature that the workload requires, if there is one.
    ///
    /// # Errors
    /// The workload has another kind.
    pub(super) fn needed_by(workload: &Found) -> Result<Option<Self>, Error> {
        let written_by_berth = is_written_by_berth(&workload.json);
        Ok(match workload.kind {
            WorkloadKind::Deployment => {
                let deployment: DeploymentView = workload.view()?;
                let asked = !matches!(deployment.choices.policy, Ok(PodReplacementPolicy::Unset) | Err(_));
                asked.then_some(Self {
                    gate: Gate::DeploymentPodReplacementPolicy,
                    asked: "podReplacementPolicy",
                    field: Some("\"podReplacementPolicy\""),
                    seen_at_work: false,
                    written_by_berth,
                })
            }
            WorkloadKind::StatefulSet => {
                let set: StatefulSetView = workload.view()?;
                let mut conditions = set.status.conditions.iter().flatten();
                set.choices.strategy.asks_for_recreate().then(|| Self {
                    gate: Gate::StatefulSetRecreateStrategy,
                    asked: "Recreate",
                    field: None,
                    // Only a controller with the feature writes this condition.
                    seen_at_work: conditions.any(|condition| condition.type_ == "Progressing"),
                    written_by_berth,
                })
            }
            // Its spec requests nothing beyond upstream's.
            WorkloadKind::DaemonSet => None,
        })
    }
}

/// The source of the information about a feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The metrics of the controllers.
    Controllers,
    /// The workload's own status.
    Status,
    /// The metrics of the API server, whose gates need not be those of the controllers.
    ApiServer,
    /// The API server does not know the feature: neither its metrics nor its schema contain it.
    Missing,
    /// No source: an assumption.
    Supposed,
}

/// The state of a feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) gate: Gate,
    pub(super) enabled: bool,
    pub(super) source: Source,
    /// Why there is no better source.
    pub(super) why: String,
}

impl Finding {
    /// The note for users before the other output.
    pub(super) fn note(&self, feature: &Feature) -> Option<String> {
        let Self { gate, enabled, source, why } = self;
        let asked = feature.asked;
        match (enabled, source) {
            (true, Source::Controllers | Source::Status) => None,
            (true, Source::ApiServer) => Some(format!("assuming that the controllers have the feature {gate} on, as the API server does")),
            (true, Source::Missing | Source::Supposed) => {
                Some(format!("assuming that the cluster's controllers have the feature {gate} on: {why}"))
            }
            (false, Source::Controllers | Source::Status) => {
                Some(format!("{asked} has no effect: the controllers have the feature {gate} off"))
            }
            (false, Source::ApiServer | Source::Supposed) => Some(format!("{asked} has no effect: the server has the feature {gate} off")),
            (false, Source::Missing) => Some(format!("{asked} has no effect: this server does not know it")),
        }
    }
}

/// The state of the cluster's features.
#[derive(Debug, Default)]
pub(super) struct Features {
    findings: Vec<Finding>,
    /// The controllers' gates: the detected ones, otherwise the defaults.
    pub(super) gates: FeatureGates,
}

impl Features {
    pub(super) fn is_known(&self, gate: Gate) -> bool {
        self.findings.iter().any(|finding| finding.gate == gate)
    }

    pub(super) fn add(&mut self, finding: Finding) {
        self.gates.set(finding.gate, finding.enabled);
        self.findings.push(finding);
    }

    pub(super) fn findings(&self) -> &[Finding] {
        &self.findings
    }
}

/// Queries the cluster in order of reliability: the workload's status, the controllers' metrics, the server's metrics, its schema.
pub(super) async fn find(connection: &Connection, feature: &Feature) -> Finding {
    corrected_by_writer(feature, ask(connection, feature).await)
}

/// Whether the controllers of a workload support the annotations of `berth.dev`: they write it, or the API server is berth's.
pub(super) async fn support_annotations(connection: &Connection, workload: &Found) -> bool {
    is_written_by_berth(&workload.json) || connection.text("/version").await.is_ok_and(|version| version.contains("+berth\""))
}

/// The number of workloads that are read to detect writes by berth's controllers.
const WORKLOADS_MAX: u32 = 100;

/// The gates of a cluster's controllers that workloads can require, with a note about controllers that support none of them. Gates without
/// information count as on.
pub(crate) async fn of_cluster(options: &ClusterOptions) -> Result<(FeatureGates, Option<String>), Error> {
    let connection = Connection::open(options).await?;
    let namespace = options.namespace.as_deref().filter(|_| !options.all_namespaces);
    let mut written_by_berth = false;
    for plural in ["deployments", "statefulsets"] {
        // Other code reports that the user may not read them.
        let some =
            connection.some(&APPS_V1.with_resource(ApiName::from_static(plural)), namespace, WORKLOADS_MAX).await.unwrap_or_default();
        written_by_berth |= some.iter().any(|item| is_written_by_berth(&item.json));
    }
    let deployments = Feature {
        gate: Gate::DeploymentPodReplacementPolicy,
        asked: "podReplacementPolicy",
        field: Some("\"podReplacementPolicy\""),
        seen_at_work: false,
        written_by_berth,
    };
    let recreate = Feature { gate: Gate::StatefulSetRecreateStrategy, asked: "Recreate", field: None, ..deployments.clone() };
    let mut features = Features::default();
    for feature in [deployments, recreate] {
        features.add(find(&connection, &feature).await);
    }
    let are_others = features.findings.iter().all(|finding| !finding.enabled && finding.source == Source::Missing);
    let note =
        "this cluster's controllers are not berth's: podReplacementPolicy, Recreate and the annotations of berth.dev have no effect here";
    Ok((features.gates, are_others.then(|| note.to_owned())))
}

/// A server that does not know a feature provides no evidence about berth's controllers, if these write the workload.
fn corrected_by_writer(feature: &Feature, found: Finding) -> Finding {
    match found.source {
        Source::Missing if feature.written_by_berth => {
            let why = "berth's controllers write this annotation, but the server does not report their features".to_owned();
            Finding { enabled: true, source: Source::Supposed, why, ..found }
        }
        _ => found,
    }
}

async fn ask(connection: &Connection, feature: &Feature) -> Finding {
    let finding = |enabled, source, why: &str| Finding { gate: feature.gate, enabled, source, why: why.to_owned() };
    if feature.seen_at_work {
        return finding(true, Source::Status, "");
    }
    match connection.text(METRICS).await {
        Ok(metrics) => of_metrics(feature, &metrics).map_or_else(
            || finding(true, Source::Supposed, "its metrics do not include features"),
            |(enabled, source)| finding(enabled, source, ""),
        ),
        Err(error) => match (feature.field, connection.text(SCHEMA).await) {
            (Some(field), Ok(schema)) if !schema.contains(field) => finding(false, Source::Missing, ""),
            _ => {
                let why = if let Error::Refused { message, .. } = error { message } else { error.to_string() };
                finding(true, Source::Supposed, &format!("its metrics cannot be read: {why}"))
            }
        },
    }
}

/// The feature gates of the cluster's controllers and API server, for a forecast. Gates that its metrics do not contain have their
/// defaults.
pub(super) async fn gates(connection: &Connection) -> KnownGates {
    match connection.text(METRICS).await {
        Ok(metrics) => gates_of(&metrics),
        Err(error) => {
            let why = if let Error::Refused { message, .. } = error { message } else { error.to_string() };
            KnownGates { unknown: Some(format!("the cluster's metrics cannot be read ({why})")), ..KnownGates::default() }
        }
    }
}

fn gates_of(metrics: &str) -> KnownGates {
    let mut known = KnownGates { unknown: unknown_gates(metrics).map(str::to_owned), ..KnownGates::default() };
    for gate in Gate::ALL.iter().copied() {
        let [controllers, server] = [true, false].map(|of_controllers| value(gate, metrics, of_controllers));
        server.into_iter().for_each(|on| known.server.set(gate, on));
        controllers.or(server).into_iter().for_each(|on| known.controllers.set(gate, on));
    }
    known
}

/// Why these metrics do not show the controllers' gates.
fn unknown_gates(metrics: &str) -> Option<&'static str> {
    let has_own = |line: &str| line.starts_with("kubernetes_feature_enabled{") && line.contains(CONTROLLERS);
    let is_known = metrics.lines().any(|line| line.starts_with(BESIDE) || has_own(line));
    (!is_known).then_some("they are a separate process, and the API server reports only its own gates")
}

/// Whether a gate is on according to the controllers' own series, or to the series of the API server or of both.
fn value(gate: Gate, metrics: &str, of_controllers: bool) -> Option<bool> {
    let named = format!("name=\"{gate}\"");
    let about_features = metrics.lines().filter(|line| line.starts_with("kubernetes_feature_enabled{"));
    let mut lines = about_features.filter(|line| line.contains(&named) && line.contains(CONTROLLERS) == of_controllers);
    lines.find_map(|line| line.rsplit(' ').next()).map(|value| value == "1")
}

/// Whether the server itself records the author of each change, according to its metrics.
pub(super) async fn records(connection: &Connection) -> Records {
    match connection.text(METRICS).await {
        Ok(metrics) => records_of(&metrics),
        Err(error) => {
            let why = if let Error::Refused { message, .. } = error { message } else { error.to_string() };
            Records::Unknown(format!("its metrics cannot be read: {why}"))
        }
    }
}

fn records_of(metrics: &str) -> Records {
    let mut about_features = metrics.lines().filter(|line| line.starts_with("kubernetes_feature_enabled{")).peekable();
    if about_features.peek().is_none() {
        return Records::Unknown("its metrics do not include features".to_owned());
    }
    let named = format!("name=\"{}\"", Gate::RolloutRecords);
    let is_on = about_features.any(|line| line.contains(&named) && !line.contains(CONTROLLERS) && line.ends_with(" 1"));
    if is_on { Records::Kept } else { Records::NotKept }
}

/// Reads the metrics. A server whose metrics contain other features but not this one does not have it.
///
/// A server whose controllers run in its process has separate series for their gates if these differ. A label contains the component's
/// name.
fn of_metrics(feature: &Feature, metrics: &str) -> Option<(bool, Source)> {
    let about_features = || metrics.lines().filter(|line| line.starts_with("kubernetes_feature_enabled{"));
    let value = |of_controllers: bool| value(feature.gate, metrics, of_controllers);
    let of_both = if metrics.lines().any(|line| line.starts_with(BESIDE)) { Source::Controllers } else { Source::ApiServer };
    let told = value(true).map(|enabled| (enabled, Source::Controllers)).or_else(|| value(false).map(|enabled| (enabled, of_both)));
    told.or_else(|| about_features().next().map(|_| (false, Source::Missing)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feature() -> Feature {
        Feature { gate: Gate::StatefulSetRecreateStrategy, asked: "Recreate", field: None, seen_at_work: false, written_by_berth: false }
    }

    fn check(lines: &[&str], wanted: Option<(bool, Source)>) {
        assert_eq!(of_metrics(&feature(), &lines.join("\n")), wanted, "{lines:?}");
    }

    const HELP: &str = "# HELP kubernetes_feature_enabled Whether a feature gate is on.\n# TYPE kubernetes_feature_enabled gauge";
    const OTHER: &str = r#"kubernetes_feature_enabled{name="PodDeletionCost",stage="BETA"} 1"#;
    const ON: &str = r#"kubernetes_feature_enabled{name="StatefulSetRecreateStrategy",stage="BETA"} 1"#;
    const SERVER: &str = r#"kubernetes_feature_enabled{component="kube-apiserver",name="StatefulSetRecreateStrategy",stage="BETA"} 1"#;
    const CONTROLLERS: &str =
        r#"kubernetes_feature_enabled{component="kube-controller-manager",name="StatefulSetRecreateStrategy",stage="BETA"} 0"#;

    #[test]
    fn the_controllers_own_gates_count_before_the_servers() {
        check(&[HELP, OTHER, SERVER, CONTROLLERS], Some((false, Source::Controllers)));
        check(&[HELP, OTHER, ON], Some((true, Source::ApiServer)));
        let beside = "berth_events_dropped_total 0";
        check(&[beside, HELP, OTHER, ON], Some((true, Source::Controllers)));
        check(&[HELP, OTHER], Some((false, Source::Missing)));
        check(&["apiserver_request_total 7"], None);
    }

    #[test]
    fn a_plan_is_made_with_the_gates_that_the_metrics_name() {
        let on = |known: &KnownGates| [&known.controllers, &known.server].map(|gates| gates.enabled(Gate::StatefulSetRecreateStrategy));
        let of = |lines: &[&str]| gates_of(&lines.join("\n"));
        assert_eq!(on(&of(&[HELP, SERVER, CONTROLLERS])), [false, true], "each has its own");
        assert_eq!(on(&of(&[HELP, OTHER, &ON.replace("} 1", "} 0")])), [false, false], "one line is of both");
        assert_eq!(on(&of(&[HELP, OTHER])), [true, true], "as by default");
        assert!([&[CONTROLLERS][..], &[OTHER, "berth_events_dropped_total 0"]].map(of).iter().all(|known| known.unknown.is_none()));
        let apart = "they are a separate process, and the API server reports only its own gates";
        assert_eq!(of(&[HELP, OTHER, SERVER]).unknown.as_deref(), Some(apart));
    }

    #[test]
    fn the_servers_own_gate_shows_whether_it_keeps_records() {
        let line =
            |component: &str, on: u8| format!("kubernetes_feature_enabled{{{component}name=\"RolloutRecords\",stage=\"ALPHA\"}} {on}");
        let of = |lines: &[&str]| records_of(&lines.join("\n"));
        assert_eq!(of(&[HELP, OTHER, &line("", 1)]), Records::Kept);
        assert_eq!(of(&[HELP, OTHER, &line("", 0)]), Records::NotKept);
        assert_eq!(of(&[HELP, OTHER]), Records::NotKept, "it is another's server");
        let (server, controllers) = ("component=\"kube-apiserver\",", "component=\"kube-controller-manager\",");
        assert_eq!(of(&[&line(server, 1), &line(controllers, 0)]), Records::Kept);
        assert_eq!(of(&[&line(server, 0), &line(controllers, 1)]), Records::NotKept);
        assert_eq!(of(&["apiserver_request_total 7"]), Records::Unknown("its metrics do not include features".to_owned()));
    }

    #[test]
    fn notes_state_what_is_only_assumed() {
        let finding = |enabled, source| Finding { gate: Gate::StatefulSetRecreateStrategy, enabled, source, why: "forbidden".to_owned() };
        let note = |enabled, source| finding(enabled, source).note(&feature());
        assert_eq!((note(true, Source::Controllers), note(true, Source::Status)), (None, None));
        let supposed = "assuming that the cluster's controllers have the feature StatefulSetRecreateStrategy on: forbidden";
        assert_eq!(note(true, Source::Supposed).as_deref(), Some(supposed));
        let off = "Recreate has no effect: the controllers have the feature StatefulSetRecreateStrategy off";
        assert_eq!(note(false, Source::Controllers).as_deref(), Some(off));
        let mut features = Features::default();
        features.add(finding(false, Source::Controllers));
        assert!(!features.gates.enabled(Gate::StatefulSetRecreateStrategy) && features.gates.enabled(Gate::DeploymentPodReplacementPolicy));
    }

    #[test]
    fn berths_controllers_honor_annotations_that_their_server_does_not_know() {
        let written_by = |manager: &str| {
            let json = serde_json::json!({
                "metadata": {
                    "name": "web", "annotations": {"berth.dev/pod-replacement-policy": "TerminationComplete"},
                    "managedFields": [{"manager": manager, "subresource": "status"}],
                },
                "spec": {},
            });
            let workload = Found { kind: WorkloadKind::Deployment, name: "web".to_owned(), json: json.to_string() };
            let feature = Feature::needed_by(&workload).expect("a Deployment").expect("it asks for a policy");
            let missing = Finding { gate: feature.gate, enabled: false, source: Source::Missing, why: String::new() };
            let found = corrected_by_writer(&feature, missing);
            (found.enabled, found.note(&feature).expect("a note"))
        };
        let upstream = "podReplacementPolicy has no effect: this server does not know it".to_owned();
        assert_eq!(written_by("kube-controller-manager"), (false, upstream));
        let (is_enabled, note) = written_by("berth-controller-manager");
        assert!(
            is_enabled && note.ends_with("on: berth's controllers write this annotation, but the server does not report their features"),
            "{note}"
        );
    }
}
