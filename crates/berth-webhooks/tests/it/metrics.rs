//! What calls of webhooks count. The names and labels are those of a real 1.36.2.

use crate::{
    cluster::{Cluster, config_map, hook, merged},
    server::{Reply, WebhookServer},
};
use prometheus::{Registry, TextEncoder};
use serde_json::{Value, json};

/// Returns the counters of a webhook, without those of durations.
fn counters(cluster: &Cluster, name: &str) -> Vec<String> {
    let registry = Registry::new();
    cluster.webhooks.register(&registry).expect("a new registry");
    let text = TextEncoder::new().encode_to_string(&registry.gather()).expect("text");
    let of_webhook = format!("name=\"{name}.example.com\"");
    let lines = text.lines().filter(|line| line.contains(&of_webhook) && !line.contains("_seconds_"));
    lines.map(|line| line.trim_start_matches("apiserver_admission_").replace(&of_webhook, "name")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_call_counts_by_its_outcome() {
    let webhook = WebhookServer::start(|path, _| match path {
        "/allow" => Reply::Response(json!({"allowed": true})),
        "/deny" => Reply::Response(json!({"allowed": false, "status": {"code": 418}})),
        "/patch" => Reply::patch(&json!([{"op": "remove", "path": "/nope"}])),
        _ => Reply::Raw("500 Internal Server Error", String::new(), Vec::new()),
    })
    .await;
    let cluster = Cluster::new().await;
    let ignored = json!({"failurePolicy": "Ignore"});
    let skipped = json!({"matchConditions": [{"name": "never", "expression": "false"}]});
    let condition = json!({"name": "broken", "expression": "object.nope == 1"});
    let broken = json!({"failurePolicy": "Ignore", "matchConditions": [condition]});
    for (name, path, more) in [
        ("allow", "/allow", json!({})),
        ("deny", "/deny", json!({})),
        ("fail", "/fail", json!({})),
        ("ignore", "/fail", ignored),
        ("skip", "/allow", skipped),
        ("broken", "/allow", broken),
    ] {
        cluster.configure("Validating", json!([merged(hook(&webhook, name, path), &more)])).await;
        // Some are rejected.
        let _: Result<Value, _> = cluster.create("configmaps", &config_map(name)).await;
    }
    cluster.configure("Validating", json!([])).await;
    cluster.configure("Mutating", json!([hook(&webhook, "patch", "/patch")])).await;
    cluster.refused("configmaps", &config_map("patch")).await;
    for (name, wanted) in [
        ("allow", &["webhook_request_total{code=\"200\",name,operation=\"CREATE\",rejected=\"false\",type=\"validating\"} 1"][..]),
        (
            "deny",
            &[
                "webhook_rejection_count{error_type=\"no_error\",name,operation=\"CREATE\",rejection_code=\"418\",type=\"validating\"} 1",
                "webhook_request_total{code=\"418\",name,operation=\"CREATE\",rejected=\"true\",type=\"validating\"} 1",
            ],
        ),
        (
            "fail",
            &[
                "webhook_rejection_count{error_type=\"calling_webhook_error\",name,operation=\"CREATE\",rejection_code=\"500\",type=\"validating\"} 1",
                "webhook_request_total{code=\"500\",name,operation=\"CREATE\",rejected=\"true\",type=\"validating\"} 1",
            ],
        ),
        (
            "ignore",
            &[
                "webhook_fail_open_count{name,type=\"validating\"} 1",
                "webhook_request_total{code=\"500\",name,operation=\"CREATE\",rejected=\"false\",type=\"validating\"} 1",
            ],
        ),
        ("skip", &["match_condition_exclusions_total{kind=\"webhook\",name,operation=\"CREATE\",type=\"validate\"} 1"]),
        (
            "broken",
            &[
                "match_condition_evaluation_errors_total{kind=\"webhook\",name,operation=\"CREATE\",type=\"validating\"} 1",
                "match_condition_exclusions_total{kind=\"webhook\",name,operation=\"CREATE\",type=\"validate\"} 1",
            ],
        ),
        (
            "patch",
            &[
                "webhook_rejection_count{error_type=\"apiserver_internal_error\",name,operation=\"CREATE\",rejection_code=\"0\",type=\"admit\"} 1",
                "webhook_request_total{code=\"0\",name,operation=\"CREATE\",rejected=\"true\",type=\"admit\"} 1",
            ],
        ),
    ] {
        assert_eq!(counters(&cluster, name), wanted, "{name}");
    }
}
