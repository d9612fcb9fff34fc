//! Match conditions of webhooks.

use crate::{
    cluster::{Cluster, config_map, hook, merged},
    server::{Reply, WebhookServer},
};
use berth_registry::ApiError;
use serde_json::{Value, json};

async fn denying() -> WebhookServer {
    WebhookServer::start(|_, _| Reply::Response(json!({"allowed": false, "status": {"message": "no"}}))).await
}

fn conditions(expressions: &[&str]) -> Value {
    let named = |(index, text): (usize, &&str)| json!({"name": format!("c{index}"), "expression": text});
    json!({"matchConditions": expressions.iter().enumerate().map(named).collect::<Vec<_>>()})
}

/// The texts are those of a real 1.36.2.
#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_is_called_if_all_its_conditions_hold() {
    let webhook = denying().await;
    let cluster = Cluster::new().await;
    let conditions_of_requests: [(&[&str], bool); 4] = [
        (&["object.metadata.name.startsWith('x')", "request.userInfo.username == 'alice' && oldObject == null"], true),
        (&["true", "request.operation == 'DELETE'"], false),
        (&["object.nope == 1", "request.dryRun"], false),
        (&["!authorizer.requestResource.check('create').allowed() && !authorizer.path('/x').check('get').allowed()"], true),
    ];
    for kind in ["Mutating", "Validating"] {
        for (index, (expressions, is_called)) in conditions_of_requests.into_iter().enumerate() {
            cluster.configure(kind, json!([merged(hook(&webhook, "h", "/"), &conditions(expressions))])).await;
            let created = cluster.create("configmaps", &config_map(&format!("x{}-{index}", kind.to_lowercase()))).await;
            assert_eq!((created.is_err(), webhook.taken().len()), (is_called, usize::from(is_called)), "{kind} {expressions:?}");
        }
        cluster.configure(kind, json!([])).await;
    }
}

/// The answers are those of a real 1.36.2.
#[tokio::test(flavor = "multi_thread")]
async fn a_condition_that_cannot_be_evaluated_rejects_or_skips_as_the_failure_policy_decides() {
    let webhook = denying().await;
    let cluster = Cluster::new().await;
    let broken =
        |policy: &str| merged(hook(&webhook, "b", "/"), &merged(conditions(&["object.nope == 1"]), &json!({"failurePolicy": policy})));
    for kind in ["Mutating", "Validating"] {
        cluster.configure(kind, json!([broken("Fail")])).await;
        match cluster.create("configmaps", &config_map("x")).await {
            Err(ApiError::Forbidden { message, .. }) => {
                let wanted = "configmaps \"x\" is forbidden: expression 'object.nope == 1' resulted in error: no such key: nope";
                assert_eq!(message, wanted);
            }
            other => panic!("{other:?}"),
        }
        cluster.configure(kind, json!([broken("Ignore")])).await;
        let name = format!("ignored-{}", kind.to_lowercase());
        cluster.create("configmaps", &config_map(&name)).await.expect("the webhook is skipped");
        cluster.configure(kind, json!([])).await;
    }
    assert_eq!(webhook.taken().len(), 0);
    // All conditions are evaluated before the first call of a validating webhook.
    cluster.configure("Validating", json!([hook(&webhook, "a", "/"), broken("Fail")])).await;
    assert!(cluster.refused("configmaps", &config_map("x")).await.ends_with("no such key: nope"));
    assert_eq!(webhook.taken().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mutating_webhook_sees_the_changes_of_those_before_it_in_its_conditions() {
    let webhook = WebhookServer::start(|path, _| match path {
        "/mark" => Reply::patch(&json!([{"op": "add", "path": "/data/marked", "value": "yes"}])),
        _ => Reply::Response(json!({"allowed": true})),
    })
    .await;
    let cluster = Cluster::new().await;
    let marked = |name: &str| merged(hook(&webhook, name, "/see"), &conditions(&["has(object.data.marked)"]));
    cluster.configure("Mutating", json!([marked("a"), hook(&webhook, "b", "/mark"), marked("c")])).await;
    cluster.create("configmaps", &config_map("x")).await.expect("allowed");
    let paths: Vec<String> = webhook.taken().into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["/mark?timeout=10s", "/see?timeout=10s"]);
}
