//! `berth rollout` against a real `berth up`.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common::{self, Berth, Lines, end_of};
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet},
    core::v1::Pod,
};
use kube::{
    Api, Client, Config, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Output, Stdio},
    time::Instant,
};

const FAST: &[&str] = &["--store", "memory", "--nodes", "2", "--pod-start-latency", "10ms", "--pod-stop-latency", "10ms"];
const BEFORE_SCALE: &str = "deployment.kubernetes.io/replicaset-replicas-before-scale";

/// A cluster, and the test's actions on it.
struct Cluster {
    berth: Berth,
    client: Client,
}

impl Cluster {
    async fn start() -> Self {
        let berth = common::up(FAST);
        let kubeconfig = Kubeconfig::read_from(berth.kubeconfig()).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        Self { berth, client: Client::try_from(config).unwrap() }
    }

    fn deployments(&self) -> Api<Deployment> {
        Api::default_namespaced(self.client.clone())
    }

    /// Creates `web` with one container, `web:1`, and the rest of `spec`.
    async fn create(&self, spec: &Value) {
        let mut web = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "labels": {"app": "web"}, "annotations": {"kubernetes.io/change-cause": "first"}},
            "spec": {
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}},
            },
        });
        merge(&mut web["spec"], spec);
        let request = kube::core::Request::new("/apis/apps/v1/namespaces/default/deployments");
        let request = request.create(&PostParams::default(), web.to_string().into_bytes()).unwrap();
        self.client.request_text(request).await.unwrap();
    }

    async fn patch(&self, patch: Value) {
        self.deployments().patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// A new template, with the image `web:<version>`, and the cause of the change.
    async fn update(&self, version: u32, cause: &str) {
        let containers = json!([{"name": "main", "image": format!("web:{version}")}]);
        let annotations = json!({"kubernetes.io/change-cause": cause});
        self.patch(json!({"metadata": {"annotations": annotations}, "spec": {"template": {"spec": {"containers": containers}}}})).await;
    }

    async fn image(&self) -> String {
        let web = self.deployments().get("web").await.unwrap();
        web.spec.unwrap().template.spec.unwrap().containers[0].image.clone().unwrap()
    }

    async fn annotations(&self) -> BTreeMap<String, String> {
        self.deployments().get("web").await.unwrap().annotations().clone()
    }

    fn command(&self, binary: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary);
        command.arg("rollout").args(arguments).env("KUBECONFIG", self.berth.kubeconfig()).env("HOME", &self.berth.data_dir);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(Path::new(env!("CARGO_BIN_EXE_berth")), arguments).output().unwrap()
    }

    /// Runs `berth rollout`, expects success, and returns the output.
    fn rollout(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{arguments:?}:\n{text}{}", String::from_utf8_lossy(&output.stderr));
        text
    }

    /// Repeats the read until `holds` is true of its result.
    fn until(&self, look: impl Fn() -> Value, holds: impl Fn(&Value) -> bool) -> Value {
        let started = Instant::now();
        loop {
            let seen = look();
            if holds(&seen) {
                return seen;
            }
            assert!(started.elapsed() < common::PATIENCE, "{} still shows {seen}", self.berth.kubeconfig().display());
        }
    }

    /// Runs `berth rollout`, expects exit code 1, and returns the error output.
    fn rollout_fails(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}:\n{}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8(output.stderr).unwrap()
    }
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            from.iter().for_each(|(key, value)| merge(into.entry(key.as_str()).or_insert(Value::Null), value));
        }
        (into, from) => *into = from.clone(),
    }
}

/// Pods that terminate only when a test forces them, and no surge.
fn stuck_at_termination() -> Value {
    json!({
        "replicas": 3, "podReplacementPolicy": "TerminationComplete",
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 3}},
        "template": {
            "metadata": {"annotations": {"sim.berth.dev/terminates-after": "1h"}},
            "spec": {"terminationGracePeriodSeconds": 3600},
        },
    })
}

#[tokio::test]
async fn status_names_the_terminating_pods_that_block_the_rollout() {
    let cluster = Cluster::start().await;
    cluster.create(&stuck_at_termination()).await;
    assert!(cluster.rollout(&["status", "deployment/web"]).ends_with("deployment \"web\" successfully rolled out\n"));

    cluster.update(2, "second").await;
    let mut status =
        cluster.command(Path::new(env!("CARGO_BIN_EXE_berth")), &["status", "deploy", "web"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = Lines::of(status.stdout.take().unwrap());
    let reason = lines.find(|line| line.starts_with("  waiting for 3 terminating pods (web-")).expect("a reason");
    assert!(reason.ends_with("s of its 3600s grace left) before creating 3 more"), "{reason}");

    let now = cluster.rollout(&["status", "deployment/web", "--watch=false", "-o", "json"]);
    let now: Value = serde_json::from_str(&now).unwrap();
    assert_eq!((&now["state"], &now["name"], &now["revision"]), (&json!("Waiting"), &json!("web"), &json!(2)));
    assert_eq!(now["message"], "Waiting for deployment \"web\" rollout to finish: 0 out of 3 new replicas have been updated...");
    assert_eq!(now["waits"][0]["reason"], "pods_terminating");
    assert_eq!(now["replicas"], json!({"wanted": 3, "total": 0, "updated": 0, "available": 0, "terminating": 3}));
    let late = cluster.rollout_fails(&["status", "deployment/web", "--timeout=50ms"]);
    assert!(late.contains("timed out waiting for the condition"), "{late}");
    let other = cluster.rollout_fails(&["status", "deployment/web", "--revision=1"]);
    assert!(other.contains("desired revision (1) is different from the running revision (2)"), "{other}");

    let pods: Api<Pod> = Api::default_namespaced(cluster.client.clone());
    for pod in pods.list(&ListParams::default()).await.unwrap() {
        pods.delete(&pod.name_any(), &DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() }).await.unwrap();
    }
    assert_eq!(lines.last().as_deref(), Some("deployment \"web\" successfully rolled out"));
    assert!(end_of(&mut status).success());
}

#[tokio::test]
async fn a_rollout_is_complete_only_when_the_last_pod_is_gone() {
    let cluster = Cluster::start().await;
    let mut spec = stuck_at_termination();
    merge(&mut spec, &json!({"replicas": 1, "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}));
    cluster.create(&spec).await;
    cluster.rollout(&["status", "deployment/web"]);
    cluster.update(2, "second").await;
    let mut status =
        cluster.command(Path::new(env!("CARGO_BIN_EXE_berth")), &["status", "deploy", "web"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = Lines::of(status.stdout.take().unwrap());
    // The order is undefined: the pods may show the reason before the Deployment's status shows the progress.
    let expected =
        ["Waiting for deployment \"web\" rollout to finish: 1 replaced replicas are still terminating", "before the rollout is complete"];
    let mut missing = expected.to_vec();
    while !missing.is_empty() {
        let line = lines.next().expect("it goes on as long as the pod is there");
        missing.retain(|text| !line.contains(text));
    }
    status.kill().unwrap();
    status.wait().unwrap();
}

#[tokio::test]
async fn a_missed_deadline_is_exit_code_one() {
    let cluster = Cluster::start().await;
    cluster
        .create(
            &json!({"progressDeadlineSeconds": 1, "template": {"metadata": {"annotations": {"sim.berth.dev/fails": "ImagePullBackOff"}}}}),
        )
        .await;
    let failed = cluster.rollout_fails(&["status", "deployment/web"]);
    assert!(failed.contains("berth: deployment \"web\" exceeded its progress deadline"), "{failed}");
    let json = cluster.run(&["status", "deployment/web", "-o", "json"]);
    let last = String::from_utf8(json.stdout).unwrap();
    let last: Value = serde_json::from_str(last.lines().last().unwrap()).unwrap();
    assert_eq!((json.status.code(), &last["state"]), (Some(1), &json!("Failed")));
}

#[tokio::test]
async fn undo_takes_template_and_annotations_back_but_not_what_scaling_noted() {
    let cluster = Cluster::start().await;
    cluster.create(&json!({})).await;
    cluster.rollout(&["status", "deployment/web"]);
    let none = cluster.rollout_fails(&["undo", "deployment/web"]);
    assert!(none.contains("no rollout history found for deployment \"web\""), "{none}");
    cluster.update(2, "second").await;
    cluster.rollout(&["status", "deployment/web"]);
    let sets: Api<ReplicaSet> = Api::default_namespaced(cluster.client.clone());
    let mut first = sets.list(&ListParams::default()).await.unwrap().items.into_iter();
    let first = first.find(|set| set.annotations()["deployment.kubernetes.io/revision"] == "1").unwrap().name_any();
    let before = json!({"metadata": {"annotations": {BEFORE_SCALE: "7"}}});
    sets.patch(&first, &PatchParams::default(), &Patch::Merge(&before)).await.unwrap();
    cluster.patch(json!({"metadata": {"annotations": {BEFORE_SCALE: "8", "since": "the second"}}})).await;

    assert!(
        cluster
            .rollout(&["undo", "deployment/web", "--dry-run=client"])
            .starts_with("deployment.apps/web rolled back (dry run)\nPod Template:\n")
    );
    assert_eq!(cluster.rollout(&["undo", "deployment/web", "--dry-run=server"]), "deployment.apps/web rolled back (server dry run)\n");
    assert_eq!(cluster.image().await, "web:2");
    assert_eq!(cluster.rollout(&["undo", "deployment/web"]), "deployment.apps/web rolled back\n");
    assert_eq!(cluster.image().await, "web:1");
    let annotations = cluster.annotations().await;
    assert_eq!(annotations["kubernetes.io/change-cause"], "first");
    assert!(!annotations.contains_key(BEFORE_SCALE) && !annotations.contains_key("since"), "{annotations:?}");
    // The command reports the running revision when the controller has seen it. Like kubectl, it does not wait for it.
    cluster.rollout(&["status", "deployment/web"]);
    cluster.rollout(&["status", "deployment/web", "--revision", "3"]);

    let same = cluster.rollout(&["undo", "deployment/web", "--to-revision=3"]);
    assert_eq!(same, "deployment.apps/web skipped rollback (current template already matches revision 3)\n");
    for revision in ["--to-revision=9", "--to-revision=-1"] {
        let missing = cluster.rollout_fails(&["undo", "deployment/web", revision]);
        assert!(missing.contains("unable to find specified revision") && missing.contains("rollout history"), "{missing}");
    }
    cluster.rollout(&["pause", "deployment/web"]);
    let paused = cluster.rollout_fails(&["undo", "deployment/web"]);
    let text = "you cannot rollback a paused deployment; resume it first with 'kubectl rollout resume' and try again";
    assert!(paused.contains(text), "{paused}");
}

#[tokio::test]
async fn history_lists_what_can_be_gone_back_to() {
    let cluster = Cluster::start().await;
    cluster.create(&json!({})).await;
    cluster.rollout(&["status", "deployment/web"]);
    cluster.update(2, "second").await;
    cluster.rollout(&["status", "deployment/web"]);

    let text = cluster.rollout(&["history", "deployment/web"]);
    let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().take(3).collect()).collect();
    let expected = [
        vec!["deployment.apps/web"],
        vec!["REVISION", "CHANGE-CAUSE", "IMAGES"],
        vec!["1", "first", "web:1"],
        vec!["2", "second", "web:2"],
    ];
    assert_eq!(words, expected);
    let json: Value = serde_json::from_str(&cluster.rollout(&["history", "deployment/web", "-o", "json"])).unwrap();
    assert_eq!((&json["kind"], json["revisions"].as_array().unwrap().len()), (&json!("Deployment"), 2));
    assert_eq!((&json["revisions"][1]["revision"], &json["revisions"][1]["images"]), (&json!(2), &json!(["web:2"])));

    let one = cluster.rollout(&["history", "deployment/web", "--revision=1"]);
    assert!(
        one.starts_with("deployment.apps/web with revision #1\nChange-cause: first\nPod Template:\n") && one.contains("web:1"),
        "{one}"
    );
    let yaml = cluster.rollout(&["history", "deployment/web", "--revision=2", "-o", "yaml"]);
    assert!(yaml.contains("image: \"web:2\"") || yaml.contains("image: web:2"), "{yaml}");
    assert!(!yaml.contains("pod-template-hash"), "{yaml}");
    assert!(
        cluster.rollout_fails(&["history", "deployment/web", "--revision=7"]).contains("unable to find specified revision 7 in history")
    );
}

#[tokio::test]
async fn a_paused_deployment_waits_to_be_resumed() {
    let cluster = Cluster::start().await;
    cluster.create(&json!({})).await;
    cluster.rollout(&["status", "deployment/web"]);
    assert_eq!(cluster.rollout(&["pause", "deployment/web"]), "deployment.apps/web paused\n");
    assert!(cluster.rollout_fails(&["pause", "deployment/web"]).contains("deployments.apps \"web\" is already paused"));
    assert!(cluster.rollout_fails(&["restart", "deployment/web"]).contains("can't restart paused deployment (run rollout resume first)"));
    cluster.update(2, "second").await;
    let mut status =
        cluster.command(Path::new(env!("CARGO_BIN_EXE_berth")), &["status", "deploy/web"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = Lines::of(status.stdout.take().unwrap());
    lines.find(|line| line == "  paused: the template does not roll out until you resume it").expect("a reason");
    assert_eq!(cluster.rollout(&["resume", "deployment/web"]), "deployment.apps/web resumed\n");
    assert_eq!(lines.last().as_deref(), Some("deployment \"web\" successfully rolled out"));
    assert!(end_of(&mut status).success());
    assert!(cluster.rollout_fails(&["resume", "deployment/web"]).contains("deployments.apps \"web\" is not paused"));

    assert_eq!(cluster.rollout(&["restart", "deployment", "-l", "app=web"]), "deployment.apps/web restarted\n");
    let template = cluster.deployments().get("web").await.unwrap().spec.unwrap().template;
    assert!(template.metadata.unwrap().annotations.unwrap().contains_key("kubectl.kubernetes.io/restartedAt"));
    // The revision is shown as soon as the controller has seen the change.
    cluster.rollout(&["status", "deployment/web"]);
    cluster.rollout(&["status", "deployment/web", "--revision=3"]);
}

/// A DaemonSet `agent` with the image `agent:1`, and the rest of `spec`.
async fn create_daemon_set(cluster: &Cluster, spec: &Value) -> Api<DaemonSet> {
    let mut set = json!({
        "metadata": {"name": "agent", "labels": {"app": "agent"}, "annotations": {"kubernetes.io/change-cause": "first"}},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "main", "image": "agent:1"}]}},
        },
    });
    merge(&mut set["spec"], spec);
    let sets: Api<DaemonSet> = Api::default_namespaced(cluster.client.clone());
    let request = kube::core::Request::new("/apis/apps/v1/namespaces/default/daemonsets");
    let request = request.create(&PostParams::default(), set.to_string().into_bytes()).unwrap();
    cluster.client.request_text(request).await.unwrap();
    sets
}

async fn patch_daemon_set(sets: &Api<DaemonSet>, spec: Value) {
    sets.patch("agent", &PatchParams::default(), &Patch::Merge(json!({ "spec": spec }))).await.unwrap();
}

fn agent_template(version: u32, annotations: &Value) -> Value {
    let containers = json!([{"name": "main", "image": format!("agent:{version}")}]);
    json!({"metadata": {"annotations": annotations}, "spec": {"containers": containers}})
}

#[tokio::test]
async fn a_daemon_sets_rollout_is_reported_listed_and_undone() {
    let cluster = Cluster::start().await;
    let sets = create_daemon_set(&cluster, &json!({})).await;
    let done = cluster.rollout(&["status", "daemonset/agent"]);
    assert!(done.ends_with("daemon set \"agent\" successfully rolled out\n"), "{done}");
    assert!(cluster.rollout_fails(&["undo", "ds/agent"]).contains("no last revision to roll back to"));
    for (verb, text) in [("pause", "pausing"), ("resume", "resuming"), ("promote", "has no steps: promoting")] {
        let error = cluster.rollout_fails(&[verb, "daemonsets.apps/agent"]);
        assert!(error.contains(&format!("daemonsets.apps \"agent\" {text} is not supported")), "{error}");
    }

    patch_daemon_set(&sets, json!({"template": agent_template(2, &json!({}))})).await;
    cluster.rollout(&["status", "ds/agent"]);
    cluster.rollout(&["status", "ds/agent", "--revision=2"]);
    let history = cluster.rollout(&["history", "ds/agent"]);
    let words: Vec<Vec<&str>> = history.lines().map(|line| line.split_whitespace().take(3).collect()).collect();
    assert_eq!(words[1..], [vec!["REVISION", "CHANGE-CAUSE", "IMAGES"], vec!["1", "first", "agent:1"], vec!["2", "first", "agent:2"]]);
    let one = cluster.rollout(&["history", "ds/agent", "--revision=1"]);
    assert!(one.starts_with("daemonset.apps/agent with revision #1\nChange-cause: first\nPod Template:\n"), "{one}");
    assert!(!one.contains("$patch"), "{one}");
    let json: Value = serde_json::from_str(&cluster.rollout(&["history", "ds/agent", "-o", "json"])).unwrap();
    let kept = json["revisions"][0]["controllerRevision"].as_str().unwrap();
    assert!(json["kind"] == "DaemonSet" && kept.starts_with("agent-"), "{json}");
    let diff = cluster.rollout(&["diff", "ds/agent"]);
    assert!(diff.contains("agent:1 -> agent:2"), "{diff}");

    assert_eq!(cluster.rollout(&["undo", "ds/agent", "--dry-run=server"]), "daemonset.apps/agent rolled back (server dry run)\n");
    assert_eq!(cluster.rollout(&["undo", "ds/agent"]), "daemonset.apps/agent rolled back\n");
    cluster.rollout(&["status", "ds/agent"]);
    cluster.rollout(&["status", "ds/agent", "--revision=3"]);
    let image = sets.get("agent").await.unwrap().spec.unwrap().template.spec.unwrap().containers[0].image.clone();
    assert_eq!(image.as_deref(), Some("agent:1"));
    let same = cluster.rollout(&["undo", "ds/agent", "--to-revision=3"]);
    assert_eq!(same, "daemonset.apps/agent skipped rollback (current template already matches revision 3)\n");
    assert!(cluster.rollout_fails(&["undo", "ds/agent", "--to-revision=9"]).contains("unable to find specified revision 9 in history"));
    assert_eq!(cluster.rollout(&["restart", "ds", "-l", "app=agent"]), "daemonset.apps/agent restarted\n");
    cluster.rollout(&["status", "ds/agent"]);
    cluster.rollout(&["status", "ds/agent", "--revision=4"]);
}

#[tokio::test]
async fn a_stuck_daemon_set_names_the_pod_that_blocks_it_and_what_waits_for_it() {
    let cluster = Cluster::start().await;
    let sets = create_daemon_set(&cluster, &json!({})).await;
    cluster.rollout(&["status", "ds/agent"]);
    patch_daemon_set(&sets, json!({"template": agent_template(2, &json!({"sim.berth.dev/fails": "ImagePullBackOff"}))})).await;
    let now = || -> Value { serde_json::from_str(&cluster.rollout(&["status", "ds/agent", "--watch=false", "-o", "json"])).unwrap() };
    let shown = cluster.until(now, |now| now["causes"][0]["reason"] == "image_pull" && now["waits"][0]["reason"] == "pods_unavailable");
    assert_eq!((&shown["kind"], &shown["state"], &shown["revision"]), (&json!("DaemonSet"), &json!("Waiting"), &json!(2)));
    let message = "Waiting for daemon set \"agent\" rollout to finish: 1 out of 2 new pods have been updated...";
    assert_eq!(
        (&shown["message"], &shown["waits"][0]["message"]),
        (&json!(message), &json!("waiting for 1 of 2 pods to become available"))
    );
    assert_eq!((&shown["replicas"]["wanted"], &shown["replicas"]["available"]), (&json!(2), &json!(1)));
    let late = cluster.rollout_fails(&["status", "ds/agent", "--timeout=50ms"]);
    assert!(late.contains("timed out waiting for the condition"), "{late}");
    cluster.rollout(&["undo", "ds/agent"]);
    let done = cluster.rollout(&["status", "ds/agent"]);
    assert!(done.ends_with("daemon set \"agent\" successfully rolled out\n"), "{done}");

    // kubectl refuses OnDelete.
    patch_daemon_set(
        &sets,
        json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}, "template": agent_template(3, &json!({}))}),
    )
    .await;
    let text = "Waiting for pods to be deleted manually: 0 out of 2 pods have the newest template...";
    let shown = cluster.until(now, |now| now["message"] == text && now["waits"][0]["reason"] == "deletion_by_hand");
    assert_eq!(shown["replicas"]["updated"], 0);
    let pods: Api<Pod> = Api::default_namespaced(cluster.client.clone());
    for pod in pods.list(&ListParams::default()).await.unwrap() {
        pods.delete(&pod.name_any(), &DeleteParams::default()).await.unwrap();
    }
    cluster.rollout(&["status", "ds/agent"]);
}

/// A StatefulSet `db` of three pods with the image `db:1`, and the rest of `spec`.
async fn create_stateful_set(cluster: &Cluster, spec: &Value) -> Api<StatefulSet> {
    let mut set = json!({
        "metadata": {"name": "db"},
        "spec": {
            "serviceName": "db", "replicas": 3, "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "main", "image": "db:1"}]}},
        },
    });
    merge(&mut set["spec"], spec);
    let sets: Api<StatefulSet> = Api::default_namespaced(cluster.client.clone());
    let request = kube::core::Request::new("/apis/apps/v1/namespaces/default/statefulsets");
    let request = request.create(&PostParams::default(), set.to_string().into_bytes()).unwrap();
    cluster.client.request_text(request).await.unwrap();
    sets
}

async fn patch_stateful_set(sets: &Api<StatefulSet>, spec: Value) {
    sets.patch("db", &PatchParams::default(), &Patch::Merge(json!({ "spec": spec }))).await.unwrap();
}

fn db_template(version: u32, annotations: &Value) -> Value {
    let containers = json!([{"name": "main", "image": format!("db:{version}")}]);
    json!({"metadata": {"annotations": annotations}, "spec": {"containers": containers}})
}

#[tokio::test]
async fn a_stateful_sets_rollout_is_reported_listed_and_undone() {
    let cluster = Cluster::start().await;
    let sets = create_stateful_set(&cluster, &json!({})).await;
    let done = cluster.rollout(&["status", "statefulset/db"]);
    assert!(done.ends_with("partitioned roll out complete: 3 new pods have been updated...\n"), "{done}");
    assert!(cluster.rollout_fails(&["undo", "sts/db"]).contains("no last revision to roll back to"));
    assert!(cluster.rollout_fails(&["pause", "sts/db"]).contains("statefulsets.apps \"db\" pausing is not supported"));
    assert!(cluster.rollout_fails(&["resume", "sts/db"]).contains("statefulsets.apps \"db\" resuming is not supported"));

    patch_stateful_set(&sets, json!({"template": db_template(2, &json!({}))})).await;
    cluster.rollout(&["status", "sts/db", "--revision=2"]);
    let history = cluster.rollout(&["history", "sts/db"]);
    let words: Vec<Vec<&str>> = history.lines().map(|line| line.split_whitespace().take(3).collect()).collect();
    assert_eq!(words[1..], [vec!["REVISION", "CHANGE-CAUSE", "IMAGES"], vec!["1", "<none>", "db:1"], vec!["2", "<none>", "db:2"]]);
    let one = cluster.rollout(&["history", "sts/db", "--revision=1"]);
    assert!(one.starts_with("statefulset.apps/db with revision #1\nPod Template:\n") && !one.contains("$patch"), "{one}");
    let json: Value = serde_json::from_str(&cluster.rollout(&["history", "sts/db", "-o", "json"])).unwrap();
    let kept = json["revisions"][0]["controllerRevision"].as_str().unwrap();
    assert!(json["kind"] == "StatefulSet" && kept.starts_with("db-"), "{json}");

    assert_eq!(cluster.rollout(&["undo", "sts/db", "--dry-run=server"]), "statefulset.apps/db rolled back (server dry run)\n");
    assert_eq!(cluster.rollout(&["undo", "sts/db"]), "statefulset.apps/db rolled back\n");
    cluster.rollout(&["status", "sts/db", "--revision=3"]);
    let image = sets.get("db").await.unwrap().spec.unwrap().template.spec.unwrap().containers[0].image.clone();
    assert_eq!(image.as_deref(), Some("db:1"));
    let same = cluster.rollout(&["undo", "sts/db", "--to-revision=3"]);
    assert_eq!(same, "statefulset.apps/db skipped rollback (current template already matches revision 3)\n");
    assert!(cluster.rollout_fails(&["undo", "sts/db", "--to-revision=9"]).contains("unable to find specified revision 9 in history"));
    assert_eq!(cluster.rollout(&["restart", "statefulset/db"]), "statefulset.apps/db restarted\n");
    cluster.rollout(&["status", "sts/db", "--revision=4"]);
}

#[tokio::test]
async fn a_stuck_stateful_set_names_the_pod_that_blocks_it_and_why() {
    let cluster = Cluster::start().await;
    let sets = create_stateful_set(&cluster, &json!({})).await;
    cluster.rollout(&["status", "sts/db"]);
    patch_stateful_set(&sets, json!({"template": db_template(2, &json!({"sim.berth.dev/fails": "ImagePullBackOff"}))})).await;
    let mut status = cluster.command(Path::new(env!("CARGO_BIN_EXE_berth")), &["status", "sts/db"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut missing = vec!["  waiting for db-2 to become ready before db-1 is replaced", "  db-2 cannot pull its image: "];
    let mut lines = Lines::of(status.stdout.take().unwrap());
    while !missing.is_empty() {
        let line = lines.next().expect("it goes on as long as the pod is stuck");
        missing.retain(|text| !line.contains(text));
    }
    // Between two attempts a kubelet reports ImagePullBackOff, and ErrImagePull for a moment after each.
    let now = std::iter::repeat_with(|| cluster.rollout(&["status", "sts/db", "--watch=false", "-o", "json"]))
        .take(1000)
        .map(|text| serde_json::from_str::<Value>(&text).unwrap())
        .find(|now| now["unreadyPods"] == json!([{"name": "db-2", "reasons": ["ImagePullBackOff"]}]))
        .unwrap();
    assert_eq!((&now["causes"][0]["reason"], &now["causes"][0]["object"]), (&json!("image_pull"), &json!({"kind": "Pod", "name": "db-2"})));
    let message = now["causes"][0]["message"].as_str().unwrap();
    assert!(message.starts_with("db-2 cannot pull its image: ImagePullBackOff: Back-off pulling image \"db:2\""), "{message}");
    assert_eq!((&now["state"], &now["waits"][0]["reason"], &now["revision"]), (&json!("Waiting"), &json!("pod_not_ready"), &json!(2)));
    let late = cluster.rollout_fails(&["status", "sts/db", "--timeout=50ms"]);
    assert!(late.contains("timed out waiting for the condition"), "{late}");

    patch_stateful_set(&sets, json!({"template": db_template(3, &json!({"sim.berth.dev/fails": null}))})).await;
    lines.find(|line| line.contains("waiting for db-2 to become ready: it has an older template")).expect("still stuck");
    let pods: Api<Pod> = Api::default_namespaced(cluster.client.clone());
    pods.delete("db-2", &DeleteParams::default()).await.unwrap();
    assert_eq!(lines.last().as_deref(), Some("partitioned roll out complete: 3 new pods have been updated..."));
    assert!(end_of(&mut status).success());
}

#[tokio::test]
async fn every_strategy_of_a_stateful_set_has_a_status() {
    let cluster = Cluster::start().await;
    let going =
        json!({"metadata": {"annotations": {"sim.berth.dev/terminates-after": "1h"}}, "spec": {"terminationGracePeriodSeconds": 3600}});
    let sets = create_stateful_set(&cluster, &json!({"updateStrategy": {"type": "OnDelete"}, "template": going})).await;
    cluster.rollout(&["status", "sts/db"]);
    patch_stateful_set(&sets, json!({"template": db_template(2, &json!({}))})).await;
    let now = || -> Value { serde_json::from_str(&cluster.rollout(&["status", "sts/db", "--watch=false", "-o", "json"])).unwrap() };
    let by_hand =
        |now: &Value| now["message"].as_str().is_some_and(|text| text.starts_with("Waiting for pods to be deleted manually: 0 out of 3"));
    let shown = cluster.until(now, by_hand);
    assert_eq!((&shown["waits"][0]["reason"], &shown["phase"]), (&json!("deletion_by_hand"), &Value::Null));

    patch_stateful_set(&sets, json!({"updateStrategy": {"type": "Recreate"}})).await;
    let shown = cluster.until(now, |now| now["phase"] == "WaitingTermination" && now["replicas"]["terminating"] == 3);
    assert!(shown["message"].as_str().unwrap().starts_with("Waiting for 3 pods to be deleted before pods of revision db-"), "{shown}");
    assert!(shown["waits"][0]["message"].as_str().unwrap().ends_with("before creating 3 more"), "{shown}");
    let pods: Api<Pod> = Api::default_namespaced(cluster.client.clone());
    for pod in pods.list(&ListParams::default()).await.unwrap() {
        pods.delete(&pod.name_any(), &DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() }).await.unwrap();
    }
    let done = cluster.rollout(&["status", "sts/db"]);
    assert!(done.contains("statefulset recreate complete 3 pods at revision db-"), "{done}");
    assert_eq!(now()["phase"], "Complete");

    let rolling =
        json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 3}}, "template": db_template(3, &json!({}))});
    patch_stateful_set(&sets, rolling).await;
    let kept = cluster.rollout(&["status", "sts/db"]);
    assert!(kept.contains("partitioned roll out complete: 0 new pods have been updated..."), "{kept}");
    assert!(kept.ends_with("  the partition keeps 3 pods of older templates: only ordinals from 3 are updated\n"), "{kept}");
}

#[tokio::test]
async fn workloads_are_named_by_manifests_and_across_namespaces() {
    let cluster = Cluster::start().await;
    cluster.create(&json!({})).await;
    cluster.berth.rollout(&["status", "deployment/web"]);
    let folder = cluster.berth.data_dir.join("manifests/deeper");
    std::fs::create_dir_all(&folder).unwrap();
    let web = common::deployment("web", 1, "web:1");
    std::fs::write(folder.join("web.yaml"), format!("{web}---\napiVersion: v1\nkind: Service\nmetadata: {{name: web}}\n")).unwrap();
    let manifests = folder.parent().unwrap().to_str().unwrap();
    let done = cluster.rollout(&["status", "-R", "-f", manifests]);
    assert!(done.ends_with("deployment \"web\" successfully rolled out\n"), "{done}");
    let shallow = cluster.rollout_fails(&["status", "-f", manifests]);
    assert!(shallow.contains("contains no *.yaml, *.yml or *.json file; --recursive also reads its subfolders"), "{shallow}");
    let elsewhere = cluster.rollout_fails(&["status", "-f", manifests, "-R", "-n", "shop"]);
    assert!(elsewhere.contains("deployments.apps \"web\" not found"), "{elsewhere}");

    let all = cluster.rollout(&["status", "deployment", "-A", "-l", "app=web"]);
    assert!(all.contains("successfully rolled out"), "{all}");
    assert!(cluster.rollout_fails(&["status", "sts", "-A"]).contains("no statefulsets found in any namespace"));
    let named = cluster.rollout_fails(&["status", "deployment/web", "-A"]);
    assert!(named.contains("a resource cannot be retrieved by name across all namespaces"), "{named}");
}

#[tokio::test]
async fn what_was_changed_is_printed_as_asked() {
    let cluster = Cluster::start().await;
    cluster.create(&json!({})).await;
    cluster.berth.rollout(&["status", "deployment/web"]);
    assert_eq!(cluster.rollout(&["restart", "deployment/web", "-o", "name"]), "deployment.apps/web\n");
    let paused: Value = serde_json::from_str(&cluster.rollout(&["pause", "deployment/web", "-o", "json"])).unwrap();
    assert_eq!((&paused["kind"], &paused["spec"]["paused"]), (&json!("Deployment"), &json!(true)));
    assert!(paused["metadata"].get("managedFields").is_none(), "{paused}");
    let resumed = cluster.rollout(&["resume", "deployment/web", "-o", "yaml"]);
    assert!(resumed.contains("kind: Deployment\n") && !resumed.contains("paused: true"), "{resumed}");

    cluster.update(2, "second").await;
    cluster.berth.rollout(&["status", "deployment/web"]);
    let bare = cluster.run(&["undo", "deployment/web", "--dry-run", "-o", "json"]);
    assert_eq!(
        String::from_utf8(bare.stderr).unwrap().lines().next(),
        Some("Warning: --dry-run is deprecated and can be replaced with --dry-run=client.")
    );
    let would: Value = serde_json::from_slice(&bare.stdout).unwrap();
    assert_eq!(would["spec"]["template"]["spec"]["containers"][0]["image"], "web:1");
    assert_eq!(cluster.image().await, "web:2", "nothing was sent");
    let checked: Value = serde_json::from_str(&cluster.rollout(&["undo", "deployment/web", "--dry-run=server", "-o", "json"])).unwrap();
    assert_eq!(checked["spec"]["template"]["spec"]["containers"][0]["image"], "web:1");
    assert_eq!(cluster.image().await, "web:2", "nothing was kept");
}

#[tokio::test]
async fn the_cluster_can_be_named_without_a_kubeconfig() {
    let cluster = Cluster::start().await;
    cluster.create(&json!({})).await;
    let config = std::fs::read_to_string(cluster.berth.kubeconfig()).unwrap();
    let server = config.lines().find_map(|line| line.trim().strip_prefix("server: ")).unwrap().to_owned();
    let pki = cluster.berth.data_dir.join("pki");
    let token = std::fs::read_to_string(pki.join("token")).unwrap();
    let status = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        command.args(["rollout", "status", "deployment/web", "--server", &server]).args(arguments);
        let output = command.env_remove("KUBECONFIG").env("HOME", "/none").output().unwrap();
        (output.status.code(), format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)))
    };
    let check = |arguments: &[&str], code: i32, says: &str| {
        let (ended, text) = status(arguments);
        assert!(ended == Some(code) && text.contains(says), "{arguments:?}: {ended:?} {text}");
    };
    let authority = pki.join("ca.pem");
    let trusted = ["--certificate-authority", authority.to_str().unwrap(), "--token", token.trim()];
    check(&trusted, 0, "successfully rolled out");
    check(&[&trusted[..], &["--request-timeout", "30"]].concat(), 0, "successfully rolled out");
    check(&["--insecure-skip-tls-verify", "--token", token.trim()], 0, "successfully rolled out");
    check(&["--insecure-skip-tls-verify", "--token", "wrong"], 1, "Unauthorized");
    check(&["--token", token.trim()], 1, "cannot reach https://127.0.0.1");
    let alice = ["--as", "alice", "--as-group", "dev"];
    check(&[&trusted[..], &alice].concat(), 1, "User \"alice\" cannot get resource \"deployments\"");
    check(&["--server", "localhost"], 2, "cannot be used multiple times");
}

#[tokio::test]
async fn it_is_a_plugin_of_kubectl_too() {
    let cluster = Cluster::start().await;
    cluster.create(&json!({})).await;
    let plugin = cluster.berth.data_dir.join("kubectl-berth");
    symlink(env!("CARGO_BIN_EXE_berth"), &plugin).unwrap();
    let output = cluster.command(&plugin, &["status", "deployment/web"]).output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().contains("successfully rolled out"));
    let help = Command::new(&plugin).args(["rollout", "status", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(help.contains("Usage: kubectl berth rollout status"), "{help}");
}

#[tokio::test]
async fn errors_name_the_next_step() {
    let cluster = Cluster::start().await;
    cluster.create(&json!({})).await;
    let missing = cluster.rollout_fails(&["status", "deployment/none", "deployment/web"]);
    assert!(missing.contains("deployments.apps \"none\" not found; searched in namespace default (--namespace"), "{missing}");
    let nowhere = cluster.rollout_fails(&["status", "deployment/web", "--namespace", "shopp"]);
    assert!(nowhere.contains("namespace shopp does not exist"), "{nowhere}");
    let elsewhere = cluster.rollout_fails(&["status", "deployment/web", "--namespace", "kube-public"]);
    assert!(elsewhere.contains("searched in namespace kube-public, but it exists in default (--namespace)"), "{elsewhere}");
    assert!(cluster.rollout_fails(&["restart", "deploy", "-l", "a=b"]).contains("no deployments found in namespace default"));
    assert!(cluster.rollout_fails(&["status", "deployment/web", "--context", "other"]).contains("get-contexts"));
    let kubeconfig = cluster.rollout_fails(&["status", "deployment/web", "--kubeconfig", "/none"]);
    assert!(kubeconfig.contains("cannot read the kubeconfig /none"), "{kubeconfig}");
    let nowhere =
        Command::new(env!("CARGO_BIN_EXE_berth")).args(["rollout", "status", "deploy/web"]).env_clear().env("HOME", "/none").output();
    let nowhere = String::from_utf8(nowhere.unwrap().stderr).unwrap();
    assert!(nowhere.contains("no cluster found: choose a kubeconfig"), "{nowhere}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    let gone = command.args(["rollout", "status", "deploy/web"]).env_clear().env("KUBECONFIG", "/none/kubeconfig").output();
    let gone = String::from_utf8(gone.unwrap().stderr).unwrap();
    assert!(gone.contains("cannot read the kubeconfig /none/kubeconfig"), "{gone}");
    let path = cluster.berth.kubeconfig();
    let config = std::fs::read_to_string(&path).unwrap();
    let server = config.lines().find(|line| line.contains("server:")).unwrap();
    std::fs::write(&path, config.replace(server, "    server: https://127.0.0.1:1")).unwrap();
    let down = cluster.rollout_fails(&["status", "deployment/web"]);
    assert!(down.contains("cannot reach https://127.0.0.1:1") && down.contains("check that it is running"), "{down}");
}
