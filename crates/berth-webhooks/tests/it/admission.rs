//! What webhooks decide.

use crate::{
    cluster::{Cluster, alice, config_map, hook, json_of, merged},
    server::{Reply, WebhookServer},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use berth_registry::{ApiError, DeleteOptions, WriteOptions};
use serde_json::{Value, json};
use std::borrow::Cow;

fn allow() -> Value {
    json!({"allowed": true})
}

fn patch(operations: &Value) -> Value {
    json!({"allowed": true, "patch": BASE64_STANDARD.encode(operations.to_string()), "patchType": "JSONPatch"})
}

/// Adds a label that is named as the path.
fn label(path: &str, value: &str) -> Value {
    let name = path.trim_start_matches('/');
    patch(&json!([{"op": "add", "path": "/data", "value": {}}, {"op": "add", "path": format!("/data/{name}"), "value": value}]))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_validating_webhook_denies_in_its_own_words_and_warns() {
    let webhook = WebhookServer::start(|path, _| match path {
        "/deny" => Reply::Response(json!({"allowed": false, "status": {"code": 418, "reason": "Because", "message": "not today"}})),
        "/silent" => Reply::Response(json!({"allowed": false, "warnings": ["think again"]})),
        _ => Reply::Response(json!({"allowed": true, "warnings": ["careful"], "auditAnnotations": {"k": "v"}})),
    })
    .await;
    let cluster = Cluster::new().await;
    cluster.configure("Validating", json!([hook(&webhook, "a", "/deny"), hook(&webhook, "b", "/silent")])).await;
    match cluster.create("configmaps", &config_map("x")).await {
        Err(ApiError::Denied { code: 418, reason, message, .. }) => {
            assert_eq!(
                (reason.as_str(), message.as_str()),
                ("Because", "admission webhook \"a.example.com\" denied the request: not today")
            );
        }
        other => panic!("{other:?}"),
    }
    // The warnings of all webhooks accompany the denial.
    cluster.configure("Validating", json!([hook(&webhook, "b", "/silent"), hook(&webhook, "c", "/warn")])).await;
    match cluster.create("configmaps", &config_map("x")).await {
        Err(ApiError::Denied { warnings, .. }) => assert_eq!(warnings, ["careful", "think again"]),
        other => panic!("{other:?}"),
    }
    cluster.configure("Validating", json!([hook(&webhook, "b", "/silent")])).await;
    let silent = "admission webhook \"b.example.com\" denied the request without explanation";
    assert_eq!(cluster.refused("configmaps", &config_map("x")).await, silent);
    cluster.configure("Validating", json!([hook(&webhook, "c", "/warn")])).await;
    let written = cluster.create_with("configmaps", &config_map("x"), &WriteOptions::default()).await.expect("allowed");
    assert_eq!(written.warnings, ["careful"]);
    assert_eq!(written.audit, [(Cow::Borrowed("c.example.com/k"), "v".to_owned())]);
    let (actor, target) = (alice(), cluster.target("configmaps", "x"));
    let (_, remarks) = cluster.registry.delete_with_remarks(&actor, &target, &DeleteOptions::default()).await.expect("allowed");
    assert_eq!((remarks.warnings, remarks.audit), (written.warnings, written.audit));
}

/// The review is that of a real 1.36.2, but for the uid, the time, the user and the field owners.
#[tokio::test(flavor = "multi_thread")]
async fn a_review_shows_the_request() {
    let webhook = WebhookServer::start(|_, _| Reply::Response(allow())).await;
    let cluster = Cluster::new().await;
    cluster.configure("Validating", json!([hook(&webhook, "a", "/x")])).await;
    let options = WriteOptions { dry_run: vec!["All".to_owned()], field_manager: "m".to_owned(), ..WriteOptions::default() };
    cluster.create_with("configmaps", &config_map("x"), &options).await.expect("allowed");
    let [(path, mut review)] = <[_; 1]>::try_from(webhook.taken()).expect("one");
    assert_eq!(path, "/x?timeout=10s");
    let metadata = review["request"]["object"]["metadata"].as_object_mut().expect("an object");
    assert!(["uid", "creationTimestamp"].iter().all(|name| metadata.remove(*name).is_some()), "{metadata:?}");
    let config_maps = json!({"group": "", "version": "v1", "resource": "configmaps"});
    let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    let request = json!({
        "uid": review["request"]["uid"], "kind": kind, "resource": config_maps, "requestKind": kind, "requestResource": config_maps,
        "name": "x", "namespace": "default", "operation": "CREATE",
        "userInfo": {"username": "alice", "groups": ["developers", "system:authenticated"]},
        "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "default"}, "data": {"a": "b"}},
        "oldObject": null, "dryRun": true,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "m", "dryRun": ["All"]},
    });
    assert_eq!(review, json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}));
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_and_deletions_show_the_stored_object() {
    let webhook = WebhookServer::start(|_, _| Reply::Response(allow())).await;
    let cluster = Cluster::new().await;
    let created = cluster.create("configmaps", &config_map("x")).await.expect("no webhook");
    cluster.configure("Validating", json!([hook(&webhook, "a", "/x")])).await;
    cluster.merge("configmaps", "x", &json!({"data": {"c": "d"}})).await.expect("allowed");
    cluster.delete("configmaps", "x").await.expect("allowed");
    let requests: Vec<Value> = webhook.taken().into_iter().map(|(_, mut review)| review["request"].take()).collect();
    let [update, deletion] = <[Value; 2]>::try_from(requests).expect("two");
    assert_eq!([&update["operation"], &deletion["operation"]], ["UPDATE", "DELETE"]);
    assert_eq!(update["object"]["data"], json!({"a": "b", "c": "d"}));
    assert_eq!(update["oldObject"]["data"], json!({"a": "b"}));
    assert!(update["oldObject"]["metadata"]["resourceVersion"].is_string());
    assert_eq!(update["oldObject"]["metadata"]["uid"], created["metadata"]["uid"]);
    assert_eq!(update["options"]["kind"], "UpdateOptions");
    assert_eq!(deletion["object"], Value::Null);
    assert_eq!(deletion["oldObject"]["data"], json!({"a": "b", "c": "d"}));
    assert_eq!(deletion["options"], json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mutating_webhook_changes_what_is_stored_and_the_result_is_defaulted_and_validated() {
    let webhook = WebhookServer::start(|path, _| {
        Reply::Response(match path {
            "/add" => patch(&json!([{"op": "add", "path": "/data/c", "value": "d"}])),
            "/name" => patch(&json!([{"op": "replace", "path": "/metadata/name", "value": "other"}, {"op": "add", "path": "/metadata/uid", "value": "u"}])),
            "/ports" => patch(&json!([{"op": "add", "path": "/spec/ports/-", "value": {"name": "b", "port": 81}}])),
            _ => patch(&json!([{"op": "add", "path": "/data", "value": {"a b": "c"}}])),
        })
    })
    .await;
    let cluster = Cluster::new().await;
    cluster.configure("Mutating", json!([hook(&webhook, "a", "/add"), hook(&webhook, "b", "/name")])).await;
    let created = cluster.create("configmaps", &config_map("x")).await.expect("allowed");
    assert_eq!(created["data"], json!({"a": "b", "c": "d"}));
    assert_eq!(created["metadata"]["name"], "x", "the identity of an object stays");
    cluster.configure("Mutating", json!([hook(&webhook, "a", "/invalid")])).await;
    let refused = cluster.refused("configmaps", &config_map("y")).await;
    assert!(refused.starts_with("ConfigMap \"y\" is invalid: data[a b]: Invalid value: \"a b\""), "{refused}");
    let services = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["services"]}]);
    cluster.configure("Mutating", json!([merged(hook(&webhook, "a", "/ports"), &json!({"rules": services}))])).await;
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"name": "a", "port": 80}]}});
    let created = cluster.create("services", &service).await.expect("allowed");
    assert_eq!(created["spec"]["ports"][1], json!({"name": "b", "port": 81, "protocol": "TCP", "targetPort": 81}));
}

/// The calls and the result are those of a real 1.36.2.
#[tokio::test(flavor = "multi_thread")]
async fn mutating_webhooks_run_in_order_and_again_if_the_object_changed_after_them() {
    let webhook = WebhookServer::start(|path, review| {
        let data = review["request"]["object"]["data"].as_object().cloned().unwrap_or_default();
        let name = path.trim_start_matches('/');
        let seen = data.keys().filter(|key| *key != "a").count().to_string();
        Reply::Response(patch(&json!([{"op": "add", "path": format!("/data/{name}"), "value": seen}])))
    })
    .await;
    let cluster = Cluster::new().await;
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    let hooks = json!([
        merged(hook(&webhook, "z", "/first"), &again),
        hook(&webhook, "a", "/second"),
        merged(hook(&webhook, "b", "/third"), &again)
    ]);
    cluster.configure("Mutating", hooks).await;
    let created = cluster.create("configmaps", &config_map("x")).await.expect("allowed");
    let paths: Vec<String> = webhook.taken().into_iter().map(|(path, _)| path.trim_end_matches("?timeout=10s").to_owned()).collect();
    assert_eq!(paths, ["/first", "/second", "/third", "/first", "/third"], "the first one changed the object once more");
    assert_eq!(created["data"], json!({"a": "b", "first": "3", "second": "1", "third": "3"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_are_called_for_what_they_match_only() {
    let webhook = WebhookServer::start(|_, _| Reply::Response(json!({"allowed": false, "status": {"message": "no"}}))).await;
    let cluster = Cluster::new().await;
    let denied = "admission webhook \"a.example.com\" denied the request: no";
    let everything = json!([{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}]);
    cluster.configure("Validating", json!([merged(hook(&webhook, "a", "/x"), &json!({"rules": everything}))])).await;
    assert_eq!(cluster.refused("configmaps", &config_map("x")).await, denied);
    // The configuration itself can be removed.
    cluster.configure("Validating", json!([])).await;
    assert_eq!(webhook.taken().len(), 1);
    cluster.create("configmaps", &config_map("x")).await.expect("no webhook any more, at once");
    let selectors = json!({"objectSelector": {"matchLabels": {"a": "b"}}, "namespaceSelector": {"matchLabels": {"c": "d"}}});
    cluster.configure("Validating", json!([merged(hook(&webhook, "a", "/x"), &selectors)])).await;
    let mut labeled = config_map("y");
    labeled["metadata"]["labels"] = json!({"a": "b"});
    cluster.create("configmaps", &labeled).await.expect("the namespace has other labels");
    cluster.merge("namespaces", "default", &json!({"metadata": {"labels": {"c": "d"}}})).await.expect("a label");
    cluster.create("configmaps", &config_map("z")).await.expect("the object has no label");
    labeled["metadata"]["name"] = json!("w");
    assert_eq!(cluster.refused("configmaps", &labeled).await, denied);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_for_another_version_sees_the_object_in_that_version() {
    let webhook = WebhookServer::start(|path, _| {
        Reply::Response(match path {
            "/patch" => patch(&json!([{"op": "replace", "path": "/spec/metrics/0/resource/target/averageUtilization", "value": 50}])),
            _ => allow(),
        })
    })
    .await;
    let cluster = Cluster::new().await;
    let rules =
        |version: &str| json!([{"apiGroups": ["autoscaling"], "apiVersions": [version], "operations": ["CREATE"], "resources": ["*"]}]);
    let autoscaler = |name: &str| {
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
        let spec = json!({"maxReplicas": 3, "scaleTargetRef": target, "targetCPUUtilizationPercentage": 80});
        json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": name}, "spec": spec})
    };
    cluster.configure("Validating", json!([merged(hook(&webhook, "a", "/x"), &json!({"rules": rules("v2")}))])).await;
    cluster.create("autoscaling/v1/horizontalpodautoscalers", &autoscaler("a")).await.expect("allowed");
    let (_, review) = webhook.taken().pop().expect("one call");
    assert_eq!(review["request"]["object"]["apiVersion"], "autoscaling/v2");
    assert_eq!(review["request"]["kind"]["version"], "v2");
    assert_eq!(review["request"]["requestKind"]["version"], "v1");
    cluster
        .configure("Validating", json!([merged(hook(&webhook, "a", "/x"), &json!({"rules": rules("v2"), "matchPolicy": "Exact"}))]))
        .await;
    cluster.create("autoscaling/v1/horizontalpodautoscalers", &autoscaler("b")).await.expect("not called");
    assert_eq!(webhook.taken().len(), 0);
    cluster.configure("Validating", json!([])).await;
    cluster.configure("Mutating", json!([merged(hook(&webhook, "a", "/patch"), &json!({"rules": rules("v2")}))])).await;
    let created = cluster.create("autoscaling/v1/horizontalpodautoscalers", &autoscaler("c")).await.expect("allowed");
    assert_eq!(created["spec"]["targetCPUUtilizationPercentage"], 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn mutating_webhooks_come_before_validating_ones() {
    let webhook = WebhookServer::start(|path, review| {
        Reply::Response(match path {
            "/change" => label("/marked", "yes"),
            _ => json!({"allowed": review["request"]["object"]["data"]["marked"] == "yes"}),
        })
    })
    .await;
    let cluster = Cluster::new().await;
    cluster.configure("Validating", json!([hook(&webhook, "a", "/check")])).await;
    assert!(cluster.refused("configmaps", &config_map("x")).await.ends_with("denied the request without explanation"));
    cluster.configure("Mutating", json!([hook(&webhook, "a", "/change")])).await;
    let options = WriteOptions::default();
    let written = cluster.create_with("configmaps", &config_map("x"), &options).await.expect("the mark is there");
    assert_eq!(json_of(&written.object)["data"], json!({"marked": "yes"}));
    let mutation = json!({"configuration": "c", "webhook": "a.example.com", "mutated": true}).to_string();
    assert_eq!(written.audit, [(Cow::Borrowed("mutation.webhook.admission.k8s.io/round_0_index_0"), mutation)]);
}
