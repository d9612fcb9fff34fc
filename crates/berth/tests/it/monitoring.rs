//! Alerts and dashboard for users of Prometheus (`monitoring/`): `/metrics` has the metrics that they query.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common;
use berth_testing::{Tool, skip};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, api::GetParams, core::Request, runtime::wait::await_condition};
use regex::Regex;
use serde::Deserialize;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

/// The labels that Prometheus itself adds to scraped series.
const OF_PROMETHEUS: &[&str] = &["job", "instance"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../monitoring")
}

fn board() -> Value {
    serde_json::from_str(&fs::read_to_string(folder().join("board.json")).unwrap()).unwrap()
}

/// An expression of the board as Prometheus gets it, with the labels that its legend shows.
struct Shown {
    expression: String,
    legend: String,
}

fn of_board() -> Vec<Shown> {
    let variables = Regex::new(r"\$(namespace|deployment|statefulset)\b").unwrap();
    let filled = |text: &str| variables.replace_all(&text.replace("$__rate_interval", "5m"), ".*").into_owned();
    let board = board();
    let panels = board["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut shown: Vec<Shown> =
        targets.map(|target| Shown { expression: filled(&text(&target["expr"])), legend: text(&target["legendFormat"]) }).collect();
    // A variable offers the values of a label: `label_values(metric, label)`.
    let values = Regex::new(r"^label_values\((.*), (\w+)\)$").unwrap();
    for variable in board["templating"]["list"].as_array().unwrap().iter().filter(|variable| variable["type"] == "query") {
        let query = filled(variable["definition"].as_str().unwrap());
        let found = values.captures(&query).unwrap();
        shown.push(Shown { expression: found[1].to_owned(), legend: format!("{{{{{}}}}}", &found[2]) });
    }
    shown
}

#[derive(Deserialize)]
struct Alerts {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
struct Rule {
    alert: String,
    expr: String,
    annotations: BTreeMap<String, String>,
}

fn alerts() -> Vec<Rule> {
    let alerts: Alerts = serde_saphyr::from_str(&fs::read_to_string(folder().join("alerts.yml")).unwrap()).unwrap();
    alerts.groups.into_iter().flat_map(|group| group.rules).collect()
}

/// A name and its matchers, `name{label="value",…}`.
#[derive(Debug)]
struct Selector {
    name: String,
    /// Label, operator, value.
    matchers: Vec<[String; 3]>,
}

/// The selectors of an expression, and the labels that it groups by or joins on.
fn asked_for(expression: &str) -> (Vec<Selector>, BTreeSet<String>) {
    let grouping = Regex::new(r"\b(?:by|on|group_left)\s*\(([^)]*)\)").unwrap();
    let listed = |found: regex::Captures<'_>| found[1].split(',').map(|label| label.trim().to_owned()).collect::<Vec<_>>();
    let labels = grouping.captures_iter(expression).flat_map(listed).collect();
    let rest = grouping.replace_all(expression, "");
    // Every metric of berth has an underscore in its name, and so have some functions.
    let named = Regex::new(r#"\b([a-z]+(?:_[a-z0-9]+)+|up)\b(?:\{([^}]*)\}|(\())?"#).unwrap();
    let matcher = Regex::new(r#"(\w+)(=~|!~|!=|=)"([^"]*)""#).unwrap();
    // Names are outside braces and strings.
    let selectors = named.captures_iter(&rest).filter(|found| found.get(3).is_none()).map(|found| {
        let matchers = found.get(2).map_or("", |inside| inside.as_str());
        let matchers = matcher.captures_iter(matchers).map(|one| [1, 2, 3].map(|part| one[part].to_owned())).collect();
        Selector { name: found[1].to_owned(), matchers }
    });
    (selectors.collect(), labels)
}

#[test]
fn expressions_are_taken_apart() {
    let (selectors, labels) = asked_for(
        r#"histogram_quantile(0.99, sum by (verb, le) (rate(a_bucket{verb!~"W|C"}[5m]))) / on (job) group_left (b) c_d{e="f",g=~".*"} or vector(0) + up"#,
    );
    assert_eq!(labels, ["verb", "le", "job", "b"].map(str::to_owned).into());
    let shown: Vec<String> = selectors.iter().map(|selector| format!("{} {:?}", selector.name, selector.matchers)).collect();
    assert_eq!(shown, [r#"a_bucket [["verb", "!~", "W|C"]]"#, r#"c_d [["e", "=", "f"], ["g", "=~", ".*"]]"#, "up []"],);
}

/// The samples of the text format: name and labels.
fn samples(text: &str) -> Vec<(String, BTreeMap<String, String>)> {
    let label = Regex::new(r#"(\w+)="((?:[^"\\]|\\.)*)""#).unwrap();
    let sample = |line: &str| {
        let (name, labels) = line.rsplit_once(' ')?.0.split_once('{').unwrap_or((line.split(' ').next()?, ""));
        let labels = label.captures_iter(labels).map(|found| (found[1].to_owned(), found[2].to_owned())).collect();
        Some((name.to_owned(), labels))
    };
    text.lines().filter(|line| !line.starts_with('#')).filter_map(sample).collect()
}

/// The missing parts of an expression: names without a series of that kind, and labels that none of its series has.
fn unanswered(expression: &str, shown: &str, samples: &[(String, BTreeMap<String, String>)]) -> Vec<String> {
    let (selectors, mut labels) = asked_for(expression);
    assert!(!selectors.is_empty(), "nothing is asked for in {expression}");
    let legend = Regex::new(r"\{\{ *(?:\$labels\.)?(\w+) *\}\}").unwrap();
    labels.extend(legend.captures_iter(shown).map(|found| found[1].to_owned()));
    let mut missing = Vec::new();
    let mut there: BTreeSet<&str> = OF_PROMETHEUS.iter().copied().collect();
    for Selector { name, matchers } in &selectors {
        if name == "up" {
            continue;
        }
        // For a regular expression checks only the label, because no request need have failed.
        let matches = |labels: &BTreeMap<String, String>| {
            matchers.iter().all(|[label, operator, value]| labels.get(label).is_some_and(|found| operator != "=" || found == value))
        };
        let answers: Vec<_> = samples.iter().filter(|(known, labels)| known == name && matches(labels)).collect();
        if answers.is_empty() {
            missing.push(format!("{name} {matchers:?}"));
        }
        there.extend(answers.iter().flat_map(|(_, labels)| labels.keys().map(String::as_str)));
    }
    missing
        .extend(labels.iter().filter(|label| !there.contains(label.as_str()) && *label != "value").map(|label| format!("label {label}")));
    missing
}

/// The metrics of a part in a separate process.
async fn of_a_part(kubeconfig: &Path) -> String {
    let port = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port().to_string();
    let options =
        ["scheduler", "--secure-port", &port, "--authorization-always-allow-paths", "/metrics", "--leader-elect-resource-name", "another"];
    let mut part = common::part::Part::start(&options, Some(kubeconfig));
    part.line_with("works on");
    let mut config = kube::Config::new(format!("https://127.0.0.1:{port}").parse().unwrap());
    config.accept_invalid_certs = true;
    let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
    kube::Client::try_from(config).unwrap().request_text(request).await.unwrap()
}

#[tokio::test]
async fn what_the_board_and_the_alerts_ask_for_is_exposed() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let [shop, database] = ["shop.yaml", "database.yaml"].map(|name| examples.join(name).to_str().unwrap().to_owned());
    let mut berth = common::up(&["--store", "memory", "-f", &shop, "-f", &database]);
    berth.line_with("rolled out after");
    let client = berth.kube_client().await;
    // A waiting workload: a paused Deployment with another template.
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "shop");
    let change = serde_json::json!({"spec": {"paused": true, "template": {"metadata": {"labels": {"new": "one"}}}}});
    deployments.patch("web", &kube::api::PatchParams::default(), &kube::api::Patch::Merge(&change)).await.unwrap();
    let seen = |found: Option<&Deployment>| {
        found.is_some_and(|found| found.status.as_ref().is_some_and(|status| status.observed_generation == found.metadata.generation))
    };
    tokio::time::timeout(common::PATIENCE, await_condition(deployments, "web", seen)).await.expect("in time").unwrap();
    let mut request = Request::new("/").get("metrics", &GetParams::default()).unwrap();
    *request.uri_mut() = "/metrics".parse().unwrap();
    let mut samples = samples(&client.request_text(request).await.unwrap());
    samples.extend(self::samples(&of_a_part(&berth.kubeconfig()).await));

    let mut missing = Vec::new();
    for Shown { expression, legend } in of_board() {
        missing.extend(unanswered(&expression, &legend, &samples).into_iter().map(|what| format!("board: {what} of {expression}")));
    }
    for Rule { alert, expr, annotations } in alerts() {
        let told: String = annotations.into_values().collect();
        missing.extend(unanswered(&expr, &told, &samples).into_iter().map(|what| format!("{alert}: {what} of {expr}")));
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert_eq!(unanswered("sum by (verb) (kube_pods_total)", "{{verb}}", &samples), ["kube_pods_total []", "label verb"]);
}

/// Runs promtool on a file of this folder. Does nothing if the machine has no promtool.
fn promtool(arguments: &[&str], file: &Path) {
    let run = Command::new("promtool").args(arguments).arg(file).current_dir(file.parent().unwrap()).output();
    let Ok(output) = run else { return skip(Tool::Promtool, "it is not on this machine (Debian package prometheus)") };
    assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
}

#[test]
fn alerts_fire_as_in_their_cases() {
    promtool(&["check", "rules"], &folder().join("alerts.yml"));
    promtool(&["test", "rules"], &folder().join("alerts-test.yml"));
    let cases = fs::read_to_string(folder().join("alerts-test.yml")).unwrap();
    for Rule { alert, .. } in alerts() {
        let told = cases.split("alertname: ").skip(1).filter(|case| case.lines().next() == Some(&alert));
        let (speaks, silent): (Vec<&str>, Vec<&str>) =
            told.partition(|case| case.lines().nth(1).is_some_and(|line| line.contains("exp_alerts:")));
        assert!(!speaks.is_empty() && !silent.is_empty(), "{alert} wants a case in which it speaks and one in which it does not");
    }
}

#[test]
fn expressions_of_the_board_are_promql() {
    // The expressions as rules, which promtool reads.
    let record = |(number, shown): (usize, Shown)| serde_json::json!({"record": format!("board:{number}"), "expr": shown.expression});
    let rules: Vec<Value> = of_board().into_iter().enumerate().map(record).collect();
    assert!(rules.len() > 30, "{}", rules.len());
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("board.yml");
    fs::write(&file, serde_json::json!({"groups": [{"name": "board", "rules": rules}]}).to_string()).unwrap();
    promtool(&["check", "rules"], &file);
}

#[test]
fn panels_of_the_board_do_not_overlap() {
    let board = board();
    let mut taken = BTreeSet::new();
    for panel in board["panels"].as_array().unwrap() {
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_u64().unwrap());
        assert!(x + w <= 24, "{} is wider than the board", panel["title"]);
        for cell in (y..y + h).flat_map(|row| (x..x + w).map(move |column| (row, column))) {
            assert!(taken.insert(cell), "{} covers another panel", panel["title"]);
        }
    }
}
