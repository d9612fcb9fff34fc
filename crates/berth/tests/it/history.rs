//! The causes and results of changes that kubectl users make, in the output of `berth rollout history`.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common::{self, Berth, deployment, kubectl_is_here, up, up_in};
use berth_testing::Upstream;
use serde_json::{Value, json};
use std::{fs, process::Command};
use tempfile::TempDir;

const FAST: &[&str] = &["--nodes", "2", "--pod-start-latency", "10ms", "--pod-stop-latency", "10ms", "--feature-gates=RolloutRecords=true"];

fn revisions(berth: &Berth, workload: &str) -> Vec<Value> {
    let json: Value = serde_json::from_str(&berth.rollout(&["history", workload, "-o", "json"])).unwrap();
    json["revisions"].as_array().unwrap().clone()
}

/// Number, cause, user, manager, and result.
fn row(revision: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let to = revision["cause"]["toRevision"].as_i64().map_or_else(String::new, |to| format!(" to {to}"));
    let (cause, changed) = (text(&revision["cause"]["kind"]), &revision["changed"]);
    let who = [&changed["user"], &changed["manager"], &changed["source"], &revision["state"]].map(text);
    format!("{} {cause}{to} {}", revision["revision"], who.join(" "))
}

fn annotations(berth: &Berth, what: &str) -> Value {
    let object: Value = serde_json::from_str(&berth.kubectl(&["get", what, "-o", "json"])).unwrap();
    object["metadata"]["annotations"].clone()
}

#[test]
fn the_history_shows_the_actions_of_kubectls_users() {
    if !kubectl_is_here() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let manifest = folder.path().join("web.yaml");
    let config = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {a: b}\n";
    fs::write(&manifest, format!("{}{config}", deployment("web", 2, "web:1"))).unwrap();
    let unchanged = "deployment.apps/web unchanged\nconfigmap/web unchanged\n";
    let file = manifest.to_str().unwrap();
    let data = folder.path().join("data");
    let mut berth = up_in(&data, &[FAST, &["-f", file]].concat());
    berth.line_with("rolled out after");
    let settle = || drop(berth.rollout(&["status", "deployment/web"]));
    assert_eq!(berth.kubectl(&["apply", "-f", file]), unchanged, "as berth up has made them");
    assert_eq!(berth.kubectl(&["apply", "-f", file]), unchanged);

    berth.kubectl(&["set", "image", "deployment/web", "main=web:2"]);
    settle();
    berth.kubectl(&["--as=alice", "--as-group=system:masters", "rollout", "restart", "deployment/web"]);
    settle();
    berth.kubectl(&["rollout", "undo", "deployment/web", "--to-revision=1"]);
    settle();
    berth.kubectl(&["scale", "deployment/web", "--replicas=3"]);
    settle();
    let rows = revisions(&berth, "deployment/web");
    assert_eq!(
        rows.iter().map(row).collect::<Vec<_>>(),
        [
            "2 image kubernetes-admin kubectl-set Server Complete",
            "3 restart alice kubectl-rollout Server Complete",
            "4 undo to 1 kubernetes-admin kubectl Server Complete",
        ]
    );
    assert!(rows.iter().all(|row| row["tookSeconds"].is_i64() && row["began"].is_string()), "{rows:?}");
    let text = berth.rollout(&["history", "deployment/web"]);
    assert!(text.contains("  scaled from 2 to 3 by kubernetes-admin (kubectl) "), "{text}");

    // kubectl's rollback restores the template, but not the old record.
    let own = annotations(&berth, "deployment/web");
    assert!(own["berth.dev/rollout"].is_null(), "{own}");
    assert!(own["berth.dev/changed-by"].as_str().unwrap().contains(r#""manager":"kubectl""#), "{own}");
    let history = berth.kubectl(&["rollout", "history", "deployment/web"]);
    assert_eq!(history.lines().filter(|line| line.starts_with(['2', '3', '4'])).count(), 3, "{history}");
    assert!(berth.kubectl(&["rollout", "history", "deployment/web", "--revision=4"]).contains("web:1"));

    // Client-side apply still works, and so does server-side apply, over fields without an owner.
    let applied = berth.kubectl(&["apply", "-f", file]);
    assert_eq!(applied, "deployment.apps/web configured\nconfigmap/web unchanged\n", "the size is the manifest's again");
    let applied = berth.kubectl(&["apply", "--server-side", "--force-conflicts", "-f", file]);
    assert_eq!(applied, "deployment.apps/web serverside-applied\nconfigmap/web serverside-applied\n");
    settle();
    assert!(annotations(&berth, "deployment/web")["berth.dev/changed-by"].is_string());
    let managers = berth.kubectl(&["get", "deployment", "web", "--show-managed-fields", "-o", "jsonpath={.metadata.managedFields}"]);
    assert!(!managers.contains("berth.dev/"), "{managers}");
}

#[test]
fn two_revisions_are_compared_and_one_is_made_of_the_other() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(&[FAST, &["--store", "memory"]].concat());
    berth.apply(&deployment("web", 1, "web:1"));
    berth.rollout(&["status", "deployment/web"]);
    assert!(berth.rollout_fails(&["diff", "deployment/web"]).contains("no revision before 1 exists"));
    berth.kubectl(&["set", "image", "deployment/web", "main=web:2"]);
    berth.kubectl(&["set", "env", "deployment/web", "LOG=debug"]);
    berth.rollout(&["status", "deployment/web"]);
    let newest = revisions(&berth, "deployment/web").last().unwrap()["revision"].to_string();
    let text = berth.rollout(&["diff", "deployment/web", "--from=1", "--to", &newest]);
    let wanted = format!(
        "deployment.apps/web: revision 1 to {newest}\n+ spec.containers[main].env: [{{\"name\":\"LOG\",\"value\":\"debug\"}}]\n  spec.containers[main].image: web:1 -> web:2\n"
    );
    assert_eq!(text, wanted);
    let json: Value = serde_json::from_str(&berth.rollout(&["diff", "deployment/web", "--from=1", "--to", &newest, "-o", "json"])).unwrap();
    assert_eq!(json["changes"][1], json!({"path": "spec.containers[main].image", "from": "web:1", "to": "web:2"}));
    let patch = berth.rollout(&["diff", "deployment/web", "--from", &newest, "--to=1", "-o", "patch"]);
    berth.kubectl(&["patch", "deployment", "web", "--type=merge", "--patch", patch.trim()]);
    berth.rollout(&["status", "deployment/web"]);
    let rows = revisions(&berth, "deployment/web");
    assert_eq!(row(rows.last().unwrap()).split(' ').skip(1).take(3).collect::<Vec<_>>(), ["undo", "to", "1"], "it is revision 1 again");
    let missing = berth.rollout_fails(&["diff", "deployment/web", "--from=77"]);
    assert!(missing.contains("unable to find specified revision 77 in history"), "{missing}");
}

const SET: &str = "apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: main, image: 'db:1'}]}
";

#[test]
fn the_history_shows_revisions_of_a_stateful_set_too() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(&[FAST, &["--store", "memory"]].concat());
    berth.apply(SET);
    berth.rollout(&["status", "sts/db"]);
    berth.kubectl(&["set", "image", "sts/db", "main=db:2"]);
    berth.rollout(&["status", "sts/db", "--revision=2"]);
    berth.kubectl(&["rollout", "undo", "sts/db"]);
    berth.rollout(&["status", "sts/db", "--revision=3"]);
    let is_told = |rows: &[Value]| rows.iter().all(|row| row["state"] == "Complete" && row["tookSeconds"].is_i64());
    common::until("the last rollout is told to be complete", || is_told(&revisions(&berth, "sts/db")));
    let rows = revisions(&berth, "sts/db");
    let wanted = ["2 image kubernetes-admin kubectl-set Server Complete", "3 undo to 1 kubernetes-admin kubectl Server Complete"];
    assert_eq!(rows.iter().map(row).collect::<Vec<_>>(), wanted);
    let text = berth.rollout(&["diff", "sts/db", "--from=3", "--to=2"]);
    assert_eq!(text, "statefulset.apps/db: revision 3 to 2\n  spec.containers[main].image: db:1 -> db:2\n");
}

#[test]
fn the_history_shows_who_promoted_a_step() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(&[FAST, &["--store", "memory"]].concat());
    let steps = "  annotations: {berth.dev/steps: '50%, pause, 100%'}\nspec:\n  replicas";
    berth.apply(&deployment("web", 2, "web:1").replacen("spec:\n  replicas", steps, 1));
    berth.rollout(&["status", "deployment/web"]);
    berth.kubectl(&["set", "image", "deployment/web", "main=web:2"]);
    let is_at_step = || berth.rollout(&["status", "deployment/web", "--watch=false"]).contains("step 2 of 3");
    common::until("it waits at its second step", is_at_step);
    assert!(revisions(&berth, "deployment/web").iter().all(|row| row["promoted"].is_null()));
    berth.rollout(&["promote", "deployment/web", "--as", "alice", "--as-group", "system:masters"]);
    berth.rollout(&["status", "deployment/web"]);
    let rows = revisions(&berth, "deployment/web");
    let promoted = &rows[1]["promoted"];
    assert_eq!(
        (&rows[0]["promoted"], &promoted[0]["step"], &promoted[0]["by"]["user"], &promoted[0]["by"]["source"], &promoted[1]),
        (&Value::Null, &json!(2), &json!("alice"), &json!("Server"), &Value::Null),
        "{rows:?}"
    );
    let text = berth.rollout(&["history", "deployment/web"]);
    assert!(text.contains("\n  2: promoted past step 2 by alice ("), "{text}");
}

/// A field of a protobuf message that holds bytes, a text or a message.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let (mut field, mut left) = (vec![number << 3 | 2], content.len());
    while left >= 0x80 {
        field.push(u8::try_from(left % 0x80).unwrap() | 0x80);
        left /= 0x80;
    }
    [&[&field[..], &[u8::try_from(left).unwrap()]].concat(), content].concat()
}

fn protobuf(api_version: &str, kind: &str, object: &[u8]) -> Vec<u8> {
    let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), field(1, &type_meta), field(2, object)].concat()
}

/// Go clients send protobuf: the history records their writes like all others.
#[tokio::test(flavor = "multi_thread")]
async fn the_history_shows_writes_in_protobuf_too() {
    const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
    let berth = up(&[FAST, &["--store", "memory"]].concat());
    let client = berth.kube_client().await;
    let label = [field(1, b"app"), field(2, b"web")].concat();
    let web = |image: &str| {
        let container = [field(1, b"main"), field(2, image.as_bytes())].concat();
        let template = [field(1, &field(11, &label)), field(2, &field(2, &container))].concat();
        let spec = [vec![0x08, 2], field(2, &field(1, &label)), field(3, &template)].concat();
        protobuf("apps/v1", "Deployment", &[field(1, &field(1, b"web")), field(2, &spec)].concat())
    };
    let scale =
        protobuf("autoscaling/v1", "Scale", &[field(1, &[field(1, b"web"), field(3, b"default")].concat()), field(2, &[0x08, 3])].concat());
    let send = async |method: http::Method, path: &str, body: Vec<u8>| {
        let request = http::Request::builder()
            .method(method)
            .uri(format!("{path}?fieldManager=tool"))
            .header("content-type", "application/vnd.kubernetes.protobuf")
            .header("accept", "application/json")
            .header("impersonate-user", "alice")
            .header("impersonate-group", "system:masters");
        let answer: Result<Value, _> = client.request(request.body(body).unwrap()).await;
        answer.unwrap();
        berth.rollout(&["status", "deployment/web"]);
    };
    send(http::Method::POST, DEPLOYMENTS, web("web:1")).await;
    send(http::Method::PUT, &format!("{DEPLOYMENTS}/web"), web("web:2")).await;
    send(http::Method::PUT, &format!("{DEPLOYMENTS}/web/scale"), scale).await;
    let rows = revisions(&berth, "deployment/web");
    assert_eq!(rows.iter().map(row).collect::<Vec<_>>(), ["1 created alice tool Server Complete", "2 image alice tool Server Complete"]);
    let text = berth.rollout(&["history", "deployment/web"]);
    assert!(text.contains("  scaled from 2 to 3 by alice (tool) "), "{text}");
}

/// With its own controllers and server, a Kubernetes shows the newest field manager, and ignores the annotations.
#[test]
fn on_a_real_kubernetes_the_history_shows_the_field_manager() {
    if !kubectl_is_here() {
        return;
    }
    let Some(upstream) = Upstream::start(&[]) else { return };
    let kubectl = |arguments: &[&str]| {
        let output = Command::new("kubectl").args(arguments).env("KUBECONFIG", upstream.kubeconfig()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let folder = TempDir::new().unwrap();
    let manifest = folder.path().join("web.yaml");
    let forged = r#"berth.dev/changed-by: '{"at":"2026-01-01T00:00:00Z","user":"somebody-else","manager":"m"}'"#;
    fs::write(
        &manifest,
        deployment("web", 0, "web:1").replace("spec:\n  replicas", &format!("  annotations: {{{forged}}}\nspec:\n  replicas")),
    )
    .unwrap();
    kubectl(&["apply", "-f", manifest.to_str().unwrap()]);
    kubectl(&["rollout", "status", "deployment/web"]);
    kubectl(&["set", "image", "deployment/web", "main=web:2"]);
    kubectl(&["rollout", "status", "deployment/web"]);
    let berth = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        let output = command.arg("rollout").args(arguments).env("KUBECONFIG", upstream.kubeconfig()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (text, remark) = berth(&["history", "deployment/web"]);
    assert!(text.contains("kubectl-set (field manager)") && !text.contains("somebody-else"), "{text}");
    assert!(remark.contains("the server does not write them"), "{remark}");
    let json: Value = serde_json::from_str(&berth(&["history", "deployment/web", "-o", "json"]).0).unwrap();
    assert_eq!(
        json["revisions"].as_array().unwrap().iter().map(row).collect::<Vec<_>>(),
        ["1 created - - - -", "2 image - kubectl-set FieldManager Complete"]
    );
    let (diff, _) = berth(&["diff", "deployment/web"]);
    assert_eq!(diff, "deployment.apps/web: revision 1 to 2\n  spec.containers[main].image: web:1 -> web:2\n");
}
