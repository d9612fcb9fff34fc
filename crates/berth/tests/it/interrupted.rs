//! An etcd is given back and taken over, and the command is killed in the middle. The repeated command continues, and everything is there once with its
//! old content.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::{
    common::{self, part::Part},
    etcd::{self, Etcd, TestClient, front::Front},
};
use berth_store::etcd::{Etcd as _, Query};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};
use tempfile::TempDir;

const DEPLOYMENTS: usize = 40;
const STATEFUL_SETS: usize = 10;
const POLICY: &str = "berth.dev/pod-replacement-policy";
const STRATEGY: &str = "berth.dev/update-strategy";
const GIVEN: &str = "berth.dev/given-back";

fn port_of(address: &str) -> u16 {
    address.rsplit(':').next().unwrap().trim_end_matches('/').parse().unwrap()
}

fn manifests() -> Vec<Value> {
    let template =
        |name: &str| json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}});
    let selector = |name: &str| json!({"matchLabels": {"app": name}});
    let deployment = |number: usize| {
        let name = format!("web-{number:02}");
        let spec =
            json!({"replicas": 0, "podReplacementPolicy": "TerminationComplete", "selector": selector(&name), "template": template(&name)});
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "annotations": {"mine": "stays"}}, "spec": spec})
    };
    let stateful_set = |number: usize| {
        let name = format!("db-{number:02}");
        let spec = json!({"replicas": 0, "serviceName": name, "updateStrategy": {"type": "Recreate"}, "selector": selector(&name), "template": template(&name)});
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": spec})
    };
    (0..DEPLOYMENTS).map(deployment).chain((0..STATEFUL_SETS).map(stateful_set)).collect()
}

/// All objects with this key prefix, by key.
fn stored(client: &TestClient, prefix: &str) -> BTreeMap<String, Value> {
    let query = Query { prefix: prefix.into(), start_after: None, at: None, limit: None };
    let found = client.wait(client.client.range(query)).unwrap().keys;
    found.into_iter().map(|found| (found.key.as_str().to_owned(), serde_json::from_slice(&found.value).unwrap_or_default())).collect()
}

/// Deployments and StatefulSets, by key.
fn workloads(client: &TestClient) -> BTreeMap<String, Value> {
    let mut all = stored(client, "/registry/deployments/");
    all.extend(stored(client, "/registry/statefulsets/"));
    all
}

/// Whether annotations replace the fields that a kube-apiserver does not know. An object has either the annotations or the fields, and never both.
fn is_given(object: &Value) -> bool {
    let annotations = &object["metadata"]["annotations"];
    let (annotation, says, field) = match object["kind"].as_str().unwrap() {
        "Deployment" => (POLICY, "TerminationComplete", object["spec"]["podReplacementPolicy"] == "TerminationComplete"),
        _ => (STRATEGY, "Recreate", object["spec"]["updateStrategy"]["type"] == "Recreate"),
    };
    let given = annotations[GIVEN] == annotation && annotations[annotation] == says;
    assert_ne!(given, field, "{object}");
    assert!(given || (annotations[GIVEN].is_null() && annotations[annotation].is_null()), "{object}");
    given
}

fn given(client: &TestClient) -> usize {
    workloads(client).values().filter(|object| is_given(object)).count()
}

/// The uid and the generation of each object, which must not change when annotations replace fields.
fn identities(all: &BTreeMap<String, Value>) -> BTreeMap<&str, (&Value, &Value)> {
    all.iter().map(|(key, object)| (key.as_str(), (&object["metadata"]["uid"], &object["metadata"]["generation"]))).collect()
}

fn berth(arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_berth"))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Kills the child as soon as `is_time`. Returns whether it was still running.
fn kill_when(mut child: Child, is_time: impl Fn() -> bool) -> bool {
    let ran = loop {
        if child.try_wait().unwrap().is_some() {
            break false;
        }
        if is_time() {
            break true;
        }
    };
    child.kill().unwrap();
    child.wait().unwrap();
    ran
}

#[test]
fn what_is_killed_while_it_is_given_back_or_taken_over_goes_on_where_it_was() {
    if !etcd::is_here() {
        return;
    }
    let (etcd, folder) = (Etcd::start(etcd::PATIENT), TempDir::new().unwrap());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // A proxy with a delay of some milliseconds for each write: otherwise the command would end before the test notices its start.
    let way = runtime.block_on(Front::before(vec![port_of(&etcd.endpoint)]));
    let (data_dir, endpoint) = (folder.path().join("data").display().to_string(), format!("http://127.0.0.1:{}", way.port));
    let file = folder.path().join("all.json");
    fs::write(&file, json!({"apiVersion": "v1", "kind": "List", "items": manifests()}).to_string()).unwrap();
    let over = ["--store", "etcd", "--etcd-servers", &endpoint, "--data-dir", &data_dir];
    let up = |more: &[&str]| Part::start(&[&["up", "--secure-port", "0", "--controllers=-*"][..], &over, more].concat(), None);
    let mut first = up(&["-f", file.to_str().unwrap()]);
    let client = etcd.client();
    common::until("all is stored", || workloads(&client).len() == DEPLOYMENTS + STATEFUL_SETS);
    first.line_with("API server ready at");
    assert!(first.terminate().success());
    let before = workloads(&client);
    assert_eq!(given(&client), 0);

    way.slow_down(Duration::from_millis(5));
    // Each run is killed after more than `at` objects, but before all are done.
    let mut killed_at = Vec::new();
    for at in [0, 1, DEPLOYMENTS / 2, DEPLOYMENTS - 1, DEPLOYMENTS + STATEFUL_SETS / 2] {
        let giving = berth(&[&["store", "give-back"][..], &over].concat());
        assert!(kill_when(giving, || at < given(&client)), "it was over before {at} were given back");
        killed_at.push(given(&client));
        assert_eq!(identities(&workloads(&client)), identities(&before));
    }
    assert!(killed_at.iter().all(|given| (1..DEPLOYMENTS + STATEFUL_SETS).contains(given)) && killed_at.is_sorted(), "{killed_at:?}");
    assert!(stored(&client, "/registry/berth.dev/").contains_key("/registry/berth.dev/control-plane"), "it is berth's until the end");
    // A server that starts after all this finds the original objects, and its owner can begin to give the etcd back again.
    way.slow_down(Duration::ZERO);
    let mut kept = up(&[]);
    kept.line_with("API server ready at");
    assert_eq!(workloads(&client), before, "as it was, to the last annotation");
    assert!(kept.terminate().success());
    way.slow_down(Duration::from_millis(5));
    assert!(kill_when(berth(&[&["store", "give-back"][..], &over].concat()), || 0 < given(&client)), "it was over at once");

    let ended = berth(&[&["store", "give-back"][..], &over].concat()).wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(given(&client), DEPLOYMENTS + STATEFUL_SETS);
    assert_eq!(identities(&workloads(&client)), identities(&before));
    assert!(stored(&client, "/registry/berth.dev/").is_empty());

    // The reverse: the server owns the etcd at once, and converts the objects one after the other.
    let mut taken_at = Vec::new();
    for at in [0, DEPLOYMENTS / 2, DEPLOYMENTS + STATEFUL_SETS / 2] {
        let taking = berth(&[&["up", "--secure-port", "0", "--controllers=-*", "--take-over"][..], &over].concat());
        let left = DEPLOYMENTS + STATEFUL_SETS - at;
        assert!(kill_when(taking, || given(&client) < left), "it ended before {at} were taken");
        taken_at.push(DEPLOYMENTS + STATEFUL_SETS - given(&client));
        assert_eq!(identities(&workloads(&client)), identities(&before));
    }
    assert!(taken_at.iter().all(|taken| (1..DEPLOYMENTS + STATEFUL_SETS).contains(taken)) && taken_at.is_sorted(), "{taken_at:?}");
    way.slow_down(Duration::ZERO);
    // The takeover is recorded: the user need not repeat the option.
    let mut last = up(&[]);
    last.line_with("API server ready at");
    assert_eq!(workloads(&client), before, "as it was, to the last annotation");
    assert!(last.terminate().success());
    drop(way);
    assert!(Path::new(&data_dir).exists());
}
