//! `berth plan` against a real `berth up`: what it says comes true there, and what it needs it says.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use common::Berth;
use futures::{StreamExt, pin_mut};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    process::{Command, Output},
    time::{Duration, Instant},
};
use tempfile::TempDir;

const UP: &[&str] = &["--store", "memory", "--nodes", "2", "--pod-start-latency", "700ms", "--pod-stop-latency", "1900ms"];
/// Changes that are no further apart are one.
const BURST: Duration = Duration::from_millis(300);
/// How much later than foretold a busy machine may be.
const LATE: Duration = Duration::from_secs(3);

/// A control plane in which these manifests are rolled out.
fn up(manifests: &[Value]) -> (Berth, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("manifests.yaml");
    let text: Vec<String> = manifests.iter().map(Value::to_string).collect();
    std::fs::write(&file, text.join("\n---\n")).unwrap();
    let mut cluster = common::up(&[UP, &["-f", file.to_str().unwrap()]].concat());
    cluster.line_with("rolled out after");
    (cluster, folder)
}

fn berth(berth: &Berth, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    command.args(arguments).env("KUBECONFIG", berth.kubeconfig()).env("HOME", &berth.data_dir).output().unwrap()
}

fn plan(cluster: &Berth, arguments: &[&str]) -> Value {
    let output = berth(cluster, &[&["plan", "-o", "json", "--start", "700ms", "--stop", "1900ms"], arguments].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn web(policy: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": 3, "podReplacementPolicy": policy, "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}},
        },
    })
}

/// The sizes of a set at the end of each burst.
fn merged(changes: &[(Duration, i64)]) -> Vec<i64> {
    let mut sizes = Vec::new();
    for (index, (at, size)) in changes.iter().enumerate() {
        let is_last = changes.get(index + 1).is_none_or(|(next, _)| *next > *at + BURST);
        if is_last && sizes.last() != Some(size) {
            sizes.push(*size);
        }
    }
    sizes
}

fn foretold(forecast: &Value) -> BTreeMap<String, Vec<(Duration, i64)>> {
    let mut sizes: BTreeMap<String, Vec<(Duration, i64)>> = BTreeMap::new();
    for step in forecast["workloads"][0]["steps"].as_array().unwrap() {
        let size = match step["does"].as_str().unwrap() {
            "createSet" => &step["replicas"],
            "resize" => &step["to"],
            _ => continue,
        };
        let at = Duration::from_secs_f64(step["atSeconds"].as_f64().unwrap());
        sizes.entry(step["set"].as_str().unwrap().to_owned()).or_default().push((at, size.as_i64().unwrap()));
    }
    sizes
}

/// Rolls `web` out, plans a new image and makes it so.
async fn comes_true(policy: &str) {
    let (cluster, _folder) = up(&[web(policy)]);
    let client = cluster.kube_client().await;
    let forecast = plan(&cluster, &["deployment/web", "--image", "main=web:2"])["forecast"].clone();
    assert_eq!((&forecast["supposed"]["controllers"], &forecast["supposed"]["missing"]), (&json!("berth"), &json!([])));
    let foretold = foretold(&forecast);

    let sets = watcher(Api::<ReplicaSet>::default_namespaced(client.clone()), watcher::Config::default()).applied_objects();
    pin_mut!(sets);
    // The one that is there.
    let first = sets.next().await.unwrap().unwrap();
    let mut known = BTreeMap::from([(first.name_any(), 3)]);
    let mut seen: BTreeMap<String, Vec<(Duration, i64)>> = BTreeMap::new();
    let began = Instant::now();
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "web:2"}]}}}});
    Api::<Deployment>::default_namespaced(client).patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let wanted: usize = foretold.values().map(|changes| merged(changes).len()).sum();
    let are_all_seen = |seen: &BTreeMap<String, Vec<(Duration, i64)>>| {
        foretold.iter().all(|(name, changes)| {
            seen.get(name).and_then(|seen| seen.last()).map(|(_, size)| size) == changes.last().map(|(_, size)| size)
        })
    };
    assert!(0 < wanted, "{forecast}");
    while !are_all_seen(&seen) {
        let set = tokio::time::timeout(common::PATIENCE, sets.next()).await.unwrap().unwrap().unwrap();
        let size = i64::from(set.spec.as_ref().unwrap().replicas.unwrap());
        if known.insert(set.name_any(), size) != Some(size) {
            seen.entry(set.name_any()).or_default().push((began.elapsed(), size));
        }
    }
    for (name, changes) in &foretold {
        let seen = &seen[name];
        assert_eq!(merged(seen), merged(changes), "{policy} {name}: {seen:?} {changes:?}");
        let (last_seen, last_foretold) = (seen.last().unwrap().0, changes.last().unwrap().0);
        assert!(last_foretold < last_seen + BURST && last_seen < last_foretold + LATE, "{policy} {name}: {seen:?} {changes:?}");
    }
}

#[tokio::test]
async fn what_is_foretold_of_a_real_cluster_comes_true() {
    comes_true("TerminationComplete").await;
    comes_true("TerminationStarted").await;
}

#[test]
fn files_need_no_cluster_and_what_ci_fails_on_has_an_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("web.yaml");
    std::fs::write(&file, web("TerminationStarted").to_string()).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        command.args(arguments).arg("--from").arg(&file).env_remove("KUBECONFIG").env("HOME", folder.path());
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let change = ["plan", "deployment/web", "--image", "main\u{1b}[31m=web:2"];
    let (code, _, said) = run(&change);
    assert!(code == Some(1) && said.contains("no container main\\u{1b}[31m") && !said.contains('\u{1b}'), "{said}");
    let change = ["plan", "deployment/web", "--image", "main=web:2", "--start", "1s", "--stop", "20s"];
    let (code, told, _) = run(&change);
    assert!(code == Some(0) && told.starts_with("Supposes berth's controllers (") && told.contains("TerminationStarted"), "{told}");
    let (code, _, said) = run(&[&change[..], &["--fail-on", "bound,quota"]].concat());
    assert!(code == Some(3) && said.contains("where 4 are its bound"), "{said}");
    let (code, told, _) = run(&[&change[..], &["--compare", "-o", "json", "--runs", "2"]].concat());
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((code, told["alternatives"].as_array().map(Vec::len), &told["spread"]["runs"]), (Some(0), Some(3), &json!(2)));
    let (code, told, _) = run(&["rollout", "victims", "deployment/web", "--replicas", "1"]);
    assert!(code == Some(0) && told.lines().count() == 2 && told.contains("   1  web-"), "{told}");
    let (code, _, said) = run(&["plan", "deployment/web"]);
    assert!(code == Some(1) && said.contains("nothing is changed"), "{said}");
}

#[test]
fn whoever_may_not_read_all_gets_a_plan_that_is_marked_partial() {
    let bind = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "view"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ada"}]});
    let (cluster, _folder) = up(&[bind, web("TerminationComplete")]);
    let output = berth(&cluster, &["plan", "deployment/web", "--image", "main=web:2", "--as", "ada", "--stop", "1s"]);
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.contains("PARTIAL: nodes cannot be read (") && told.contains("PARTIAL: pods cannot be read ("), "{told}");
    assert!(told.contains("Deployment default/web, 3 pods: complete after"), "{told}");
}
