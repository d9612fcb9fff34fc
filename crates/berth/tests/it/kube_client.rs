//! Rust's `kube` client against a real `berth up`: create, watch, scale, bad update, undo, delete with each cascade.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::Pod,
};
use kube::{
    Api, Error, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, PropagationPolicy},
    runtime::{WatchStreamExt, reflector, wait::await_condition, watcher},
};
use serde_json::json;
use std::sync::Arc;

const FAST: &[&str] = &["--store", "memory", "--nodes", "2", "--pod-start-latency", "10ms", "--pod-stop-latency", "10ms"];

fn web(replicas: i32) -> Deployment {
    serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}}
        }
    }))
    .unwrap()
}

/// Whether the Deployment's newest template runs in `replicas` available pods, and no other template does.
fn rolled_out(replicas: i32) -> impl Fn(Option<&Deployment>) -> bool {
    move |deployment| {
        deployment.is_some_and(|deployment| {
            let status = deployment.status.clone().unwrap_or_default();
            status.observed_generation >= deployment.metadata.generation
                && [status.replicas, status.updated_replicas, status.available_replicas].iter().all(|count| *count == Some(replicas))
        })
    }
}

async fn until(api: &Api<Deployment>, holds: impl Fn(Option<&Deployment>) -> bool) {
    tokio::time::timeout(common::PATIENCE, await_condition(api.clone(), "web", holds)).await.expect("in time").unwrap();
}

async fn until_none<K>(api: &Api<K>)
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let empty = async {
        while !api.list(&ListParams::default()).await.unwrap().items.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(common::PATIENCE, empty).await.expect("in time");
}

/// A client that already runs sends requests so early that caches are still incomplete.
#[tokio::test]
async fn a_server_that_is_reported_as_ready_is_ready() {
    for _ in 0..9 {
        let berth = common::up(FAST);
        let request = http::Request::get("/readyz?verbose").body(Vec::new()).unwrap();
        let health = berth.kube_client().await.request_text(request).await.unwrap();
        assert!(health.ends_with("readyz check passed\n"), "{health}");
    }
}

#[tokio::test]
async fn a_deployment_lives_and_dies() {
    let berth = common::up(FAST);
    let client = berth.kube_client().await;
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let sets: Api<ReplicaSet> = Api::default_namespaced(client.clone());
    let pods: Api<Pod> = Api::default_namespaced(client.clone());

    deployments.create(&PostParams::default(), &web(3)).await.unwrap();
    until(&deployments, rolled_out(3)).await;
    let again = deployments.create(&PostParams::default(), &web(3)).await.unwrap_err();
    assert!(matches!(&again, Error::Api(status) if status.code == 409 && status.reason == "AlreadyExists"), "{again}");

    let scale = json!({"spec": {"replicas": 6}});
    deployments.patch_scale("web", &PatchParams::default(), &Patch::Merge(&scale)).await.unwrap();
    until(&deployments, rolled_out(6)).await;

    let broken = json!({"spec": {"template": {"metadata": {"annotations": {"sim.berth.dev/fails": "ImagePullBackOff"}}}}});
    deployments.patch("web", &PatchParams::default(), &Patch::Strategic(&broken)).await.unwrap();
    let has_begun = |web: &Deployment| {
        let status = web.status.clone().unwrap_or_default();
        status.observed_generation >= web.metadata.generation && status.updated_replicas > Some(0)
    };
    until(&deployments, |found| found.is_some_and(has_begun)).await;
    let serving = deployments.get("web").await.unwrap().status.unwrap().available_replicas.unwrap();
    assert!(serving >= 5, "25 % of 6 rounded down may be missing, {serving} serve");
    let mended = json!({"spec": {"template": {"metadata": {"annotations": null}}}});
    deployments.patch("web", &PatchParams::default(), &Patch::Merge(&mended)).await.unwrap();
    until(&deployments, rolled_out(6)).await;
    assert_eq!(sets.list(&ListParams::default()).await.unwrap().items.len(), 2);

    deployments
        .delete("web", &DeleteParams { propagation_policy: Some(PropagationPolicy::Foreground), ..DeleteParams::default() })
        .await
        .unwrap();
    until_none(&deployments).await;
    assert!(pods.list(&ListParams::default()).await.unwrap().items.is_empty(), "foreground: the pods went first");

    deployments.create(&PostParams::default(), &web(2)).await.unwrap();
    until(&deployments, rolled_out(2)).await;
    deployments
        .delete("web", &DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() })
        .await
        .unwrap();
    until_none(&deployments).await;
    assert_eq!(pods.list(&ListParams::default()).await.unwrap().items.len(), 2);
    let orphans = sets.list(&ListParams::default()).await.unwrap().items;
    assert!(orphans.iter().all(|set| set.owner_references().is_empty()));
    for set in orphans {
        sets.delete(&set.name_any(), &DeleteParams { propagation_policy: Some(PropagationPolicy::Background), ..DeleteParams::default() })
            .await
            .unwrap();
    }
    until_none(&pods).await;
}

#[tokio::test]
async fn two_controllers_apply_to_one_object() {
    let berth = common::up(&["--store", "memory", "--controllers=-*", "--nodes", "0"]);
    let deployments: Api<Deployment> = Api::default_namespaced(berth.kube_client().await);
    let config = |spec: serde_json::Value| {
        let metadata = json!({"name": "web"});
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
    };
    let (owner, other) = (PatchParams::apply("owner"), PatchParams::apply("other"));
    let whole = config(serde_json::to_value(web(3).spec).unwrap());
    let made = deployments.patch("web", &owner, &Patch::Apply(&whole)).await.unwrap();
    let again = deployments.patch("web", &owner, &Patch::Apply(&whole)).await.unwrap();
    assert_eq!(again.resource_version(), made.resource_version());

    let replicas = config(json!({"replicas": 5}));
    let refused = deployments.patch("web", &other, &Patch::Apply(&replicas)).await.unwrap_err();
    let Error::Api(status) = refused else { panic!("{refused}") };
    let text = "Apply failed with 1 conflict: conflict with \"owner\": .spec.replicas";
    assert_eq!((status.code, status.reason.as_str(), status.message.as_str()), (409, "Conflict", text));
    let forced = deployments.patch("web", &other.clone().force(), &Patch::Apply(&replicas)).await.unwrap();
    assert_eq!(forced.spec.unwrap().replicas, Some(5));
    let mut managers: Vec<String> = forced.metadata.managed_fields.unwrap().into_iter().filter_map(|entry| entry.manager).collect();
    managers.sort();
    assert_eq!(managers, ["other", "owner"]);

    // The fields that the second manager gives up get their defaults, because the first manager no longer owns them.
    let left = deployments.patch("web", &other, &Patch::Apply(&config(json!({})))).await.unwrap();
    assert_eq!(left.spec.unwrap().replicas, Some(1));
}

#[tokio::test]
async fn a_reflector_sees_every_pod_come_and_go() {
    let berth = common::up(FAST);
    let client = berth.kube_client().await;
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let pods: Api<Pod> = Api::default_namespaced(client.clone());

    let (reader, writer) = reflector::store();
    // All events, including the end of the first list: only then does the store contain the list.
    let mut events = watcher(pods, watcher::Config::default()).reflect(writer).boxed();
    deployments.create(&PostParams::default(), &web(4)).await.unwrap();
    let seen = async {
        let is_running = |pod: &Arc<Pod>| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
        while reader.state().iter().filter(|pod| is_running(pod)).count() < 4 {
            events.try_next().await.unwrap().expect("a watch has no end");
        }
        deployments.delete("web", &DeleteParams::default()).await.unwrap();
        while !reader.state().is_empty() {
            events.try_next().await.unwrap().expect("a watch has no end");
        }
    };
    tokio::time::timeout(common::PATIENCE, seen).await.expect("in time");
}
