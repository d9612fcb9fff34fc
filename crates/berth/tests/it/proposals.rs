//! Acceptance tests of the proposals, over the wire against a real `berth up`.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Event, Pod},
};
use kube::{
    Api, Client, Config, Error, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams, Request, WatchEvent, WatchParams},
    config::{KubeConfigOptions, Kubeconfig},
    runtime::wait::await_condition,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const SLOW_TO_STOP: &[&str] = &["--store", "memory", "--nodes", "2", "--pod-start-latency", "10ms", "--pod-stop-latency", "1s"];

async fn client(berth: &common::Berth) -> Client {
    let kubeconfig = Kubeconfig::read_from(berth.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

/// Creates `web` with `TerminationComplete`, a surge of one pod, and one pod that may be unavailable.
async fn create(client: &Client, replicas: i32) {
    create_with(client, replicas, Some("TerminationComplete"), &json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}})).await;
}

/// As raw JSON: the client's types do not know `podReplacementPolicy`.
async fn create_with(client: &Client, replicas: i32, policy: Option<&str>, strategy: &Value) {
    let web = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "podReplacementPolicy": policy,
            "strategy": strategy,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}}
        }
    });
    let body = serde_json::to_vec(&web).unwrap();
    let request = Request::new("/apis/apps/v1/namespaces/default/deployments").create(&PostParams::default(), body).unwrap();
    let made: Value = client.request(request).await.unwrap();
    assert_eq!(made["spec"]["podReplacementPolicy"], json!(policy));
}

async fn patch(deployments: &Api<Deployment>, change: &Value) {
    deployments.patch("web", &PatchParams::default(), &Patch::Strategic(change)).await.unwrap();
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}})
}

async fn until_rolled_out(deployments: &Api<Deployment>, replicas: i32) {
    let rolled_out = move |found: Option<&Deployment>| {
        found.is_some_and(|deployment| {
            let status = deployment.status.clone().unwrap_or_default();
            let counts = [status.replicas, status.updated_replicas, status.available_replicas];
            status.observed_generation >= deployment.metadata.generation
                && counts.iter().all(|count| *count == Some(replicas))
                && status.terminating_replicas == Some(0)
        })
    };
    tokio::time::timeout(common::PATIENCE, await_condition(deployments.clone(), "web", rolled_out)).await.expect("in time").unwrap();
}

/// Watches pods from now on. Returns the highest number of pods, once `enough` fires.
async fn most_pods(pods: Api<Pod>, enough: tokio::sync::oneshot::Receiver<()>) -> usize {
    let now = pods.list(&ListParams::default()).await.unwrap();
    let mut there: BTreeSet<String> = now.items.iter().map(ResourceExt::name_any).collect();
    let mut most = there.len();
    let version = now.metadata.resource_version.unwrap();
    let mut changes = pods.watch(&WatchParams::default(), &version).await.unwrap().boxed().take_until(enough);
    while let Some(change) = changes.try_next().await.unwrap() {
        match change {
            WatchEvent::Added(pod) => drop(there.insert(pod.name_any())),
            WatchEvent::Deleted(pod) => drop(there.remove(&pod.name_any())),
            _ => (),
        }
        most = most.max(there.len());
    }
    most
}

#[tokio::test]
async fn pods_never_exceed_size_and_surge_under_termination_complete() {
    let berth = common::up(SLOW_TO_STOP);
    let client = client(&berth).await;
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    create(&client, 6).await;
    until_rolled_out(&deployments, 6).await;
    let (enough, told) = tokio::sync::oneshot::channel();
    let counting = tokio::spawn(most_pods(Api::default_namespaced(client.clone()), told));
    for version in ["web:2", "web:3"] {
        patch(&deployments, &image(version)).await;
    }
    until_rolled_out(&deployments, 6).await;
    enough.send(()).unwrap();
    assert_eq!(counting.await.unwrap(), 7, "6 and a surge of 1, which is used");

    let events: Api<Event> = Api::default_namespaced(client);
    let told = events.list(&ListParams::default()).await.unwrap().items;
    assert!(told.iter().any(|event| event.reason.as_deref() == Some("WaitingForTerminatingPods")));
}

/// The policies, and no policy.
const POLICIES: [Option<&str>; 3] = [None, Some("TerminationStarted"), Some("TerminationComplete")];

/// Applies `changes` one after the other, each as soon as the controllers have seen the one before and have deleted the surplus pods. Returns the
/// highest number of pods.
async fn most_pods_during(client: &Client, changes: &[Value], replicas: i32) -> usize {
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let (enough, told) = tokio::sync::oneshot::channel();
    let counting = tokio::spawn(most_pods(Api::default_namespaced(client.clone()), told));
    for change in changes {
        patch(&deployments, change).await;
        let seen = |found: Option<&Deployment>| found.is_some_and(has_deleted_surplus);
        tokio::time::timeout(common::PATIENCE, await_condition(deployments.clone(), "web", seen)).await.expect("in time").unwrap();
    }
    until_rolled_out(&deployments, replicas).await;
    enough.send(()).unwrap();
    counting.await.unwrap()
}

fn has_deleted_surplus(deployment: &Deployment) -> bool {
    let (spec, status) = (deployment.spec.clone().unwrap_or_default(), deployment.status.clone().unwrap_or_default());
    let surge = i32::from(spec.strategy.unwrap_or_default().rolling_update.is_some());
    status.observed_generation >= deployment.metadata.generation && status.replicas.unwrap_or(0) <= spec.replicas.unwrap_or(1) + surge
}

#[tokio::test]
async fn only_termination_complete_bounds_a_rollout_that_is_scaled_again_and_again() {
    for policy in POLICIES {
        let berth = common::up(SLOW_TO_STOP);
        let client = client(&berth).await;
        create_with(&client, 4, policy, &json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}})).await;
        until_rolled_out(&Api::default_namespaced(client.clone()), 4).await;
        let size = |replicas: i32| json!({"spec": {"replicas": replicas}});
        let changes = [image("web:2"), image("web:3"), size(6), image("web:4"), size(8)];
        let most = most_pods_during(&client, &changes, 8).await;
        match policy {
            Some("TerminationComplete") => assert_eq!(most, 9, "8 and a surge of 1, which is used"),
            _ => assert!(most > 9, "{policy:?} does not wait for terminating pods, and yet there were never more than {most}"),
        }
    }
}

#[tokio::test]
async fn a_recreate_rollout_waits_for_terminating_pods_unless_termination_started_is_asked_for() {
    for policy in POLICIES {
        let berth = common::up(SLOW_TO_STOP);
        let client = client(&berth).await;
        create_with(&client, 4, policy, &json!({"type": "Recreate"})).await;
        until_rolled_out(&Api::default_namespaced(client.clone()), 4).await;
        let rolling = most_pods_during(&client, &[image("web:2")], 4).await;
        assert_eq!(rolling, if policy == Some("TerminationStarted") { 8 } else { 4 }, "{policy:?}");
        let changes = [json!({"spec": {"replicas": 1}}), json!({"spec": {"replicas": 4}})];
        let scaling = most_pods_during(&client, &changes, 4).await;
        assert_eq!(scaling, if policy == Some("TerminationComplete") { 4 } else { 7 }, "{policy:?}");
    }
}

#[tokio::test]
async fn a_bad_deletion_cost_answers_400_and_its_causes() {
    let berth = common::up(&["--store", "memory"]);
    let pods: Api<Pod> = Api::default_namespaced(client(&berth).await);
    let pod = |cost: &str| -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "p", "annotations": {COST: cost}}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}
        }))
        .unwrap()
    };
    let refused = |error: Error| {
        let Error::Api(status) = error else { panic!("{error}") };
        assert_eq!((status.code, status.reason.as_str()), (400, "BadRequest"), "{status:?}");
        let causes = status.details.unwrap().causes;
        assert_eq!(causes.len(), 1);
        assert_eq!(causes[0].field, format!("metadata.annotations[{COST}]"));
    };
    refused(pods.create(&PostParams::default(), &pod("cheap")).await.unwrap_err());
    pods.create(&PostParams::default(), &pod("-5")).await.unwrap();
    let patch = json!({"metadata": {"annotations": {COST: "1e3"}}});
    refused(pods.patch("p", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap_err());
    assert_eq!(pods.get("p").await.unwrap().annotations()[COST], "-5");
}

#[tokio::test]
async fn the_cheapest_pod_is_deleted_first() {
    let berth = common::up(SLOW_TO_STOP);
    let client = client(&berth).await;
    let (deployments, pods): (Api<Deployment>, Api<Pod>) =
        (Api::default_namespaced(client.clone()), Api::default_namespaced(client.clone()));
    create(&client, 4).await;
    until_rolled_out(&deployments, 4).await;
    let names: Vec<String> = pods.list(&ListParams::default()).await.unwrap().iter().map(ResourceExt::name_any).collect();
    for (name, cost) in names.iter().zip(["5", "-9", "100", "6"]) {
        let patch = json!({"metadata": {"annotations": {COST: cost}}});
        pods.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }
    for (size, left) in [(3, vec![0, 2, 3]), (2, vec![2, 3]), (1, vec![2])] {
        let scale = json!({"spec": {"replicas": size}});
        deployments.patch_scale("web", &PatchParams::default(), &Patch::Merge(&scale)).await.unwrap();
        until_rolled_out(&deployments, size).await;
        let now: Vec<String> = pods.list(&ListParams::default()).await.unwrap().iter().map(ResourceExt::name_any).collect();
        assert_eq!(now, left.into_iter().map(|index| names[index].clone()).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn metrics_show_the_gates_and_the_waits() {
    let berth = common::up(&["--store", "memory", "--feature-gates", "PodDeletionCost=false"]);
    let client = client(&berth).await;
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    create(&client, 1).await;
    until_rolled_out(&deployments, 1).await;
    let change = json!({"spec": {"paused": true, "template": {"spec": {"containers": [{"name": "main", "image": "web:2"}]}}}});
    deployments.patch("web", &PatchParams::default(), &Patch::Strategic(&change)).await.unwrap();
    let seen = |found: Option<&Deployment>| {
        found.is_some_and(|found| found.status.as_ref().is_some_and(|status| status.observed_generation == found.metadata.generation))
    };
    tokio::time::timeout(common::PATIENCE, await_condition(deployments, "web", seen)).await.expect("in time").unwrap();
    let mut request = Request::new("/").get("metrics", &kube::api::GetParams::default()).unwrap();
    *request.uri_mut() = "/metrics".parse().unwrap();
    let text = client.request_text(request).await.unwrap();
    for line in [
        r#"kubernetes_feature_enabled{name="DeploymentPodReplacementPolicy",stage="BETA"} 1"#,
        r#"kubernetes_feature_enabled{name="DeploymentReplicaSetTerminatingReplicas",stage="BETA"} 1"#,
        r#"kubernetes_feature_enabled{name="PodDeletionCost",stage="BETA"} 0"#,
        r#"berth_waits{controller="deployment",reason="paused"} 1"#,
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
}
