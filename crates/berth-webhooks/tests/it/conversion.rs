//! Webhooks that convert custom objects between versions.

use crate::{
    cluster::{Cluster, alice, json_of},
    server::{Reply, WebhookServer},
};
use berth_api::{ObjectRules, Path, Scope};
use berth_kinds::{Conversion, ConversionWebhook, Definition, Form, Names, Structural, Version};
use berth_registry::{Collection, GetOptions, ListOptions, WatchEvent, WatchOptions};
use futures::StreamExt;
use serde_json::{Value, json};
use std::sync::Arc;

/// `v2` calls the size `length`.
fn convert(review: &Value) -> Reply {
    let to = review["request"]["desiredAPIVersion"].as_str().unwrap_or_default();
    let (before, after) = if to.ends_with("v2") { ("size", "length") } else { ("length", "size") };
    let objects = review["request"]["objects"].as_array().cloned().unwrap_or_default();
    let converted: Vec<Value> = objects
        .into_iter()
        .map(|mut object| {
            object["apiVersion"] = json!(to);
            if let Some(value) = object.as_object_mut().and_then(|members| members.remove(before)) {
                object[after] = value;
            }
            object
        })
        .collect();
    Reply::Response(json!({"result": {"status": "Success"}, "convertedObjects": converted}))
}

/// Serves gauges in `v1`, which is stored, and `v2`.
fn define(cluster: &Cluster, webhook: &WebhookServer) {
    let version = |name: &str, field: &str| {
        let schema = json!({"type": "object", "properties": {field: {"type": "integer"}}});
        Version {
            name: name.to_owned(),
            served: true,
            storage: name == "v1",
            schema: Structural::read(&schema, &Path::new("schema")).expect("structural"),
            ..Version::default()
        }
    };
    let conversion = ConversionWebhook { client_config: webhook.client("/convert"), review_versions: vec!["v1".to_owned()] };
    let definition = Definition {
        group: "ex.com".to_owned(),
        names: Names::of("Gauge", "gauges"),
        scope: Scope::Namespaced,
        versions: vec![version("v1", "size"), version("v2", "length")],
        conversion: Conversion::Webhook(Arc::new(conversion)),
        form: Form::Custom,
        rules: ObjectRules::default(),
        empty: Definition::only_metadata(),
        pod_template: &[],
        strategy: None,
    };
    cluster.registry.table().define(definition).expect("a free name");
}

fn gauge(version: &str, name: &str, field: &str) -> Value {
    json!({"apiVersion": format!("ex.com/{version}"), "kind": "Gauge", "metadata": {"name": name}, field: 5})
}

async fn get(cluster: &Cluster, what: &str, name: &str) -> Result<Value, String> {
    let found = cluster.registry.get(&cluster.target(what, name), &GetOptions::default()).await;
    found.map(|current| json_of(&current)).map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_stored_in_one_version_and_served_in_each() {
    let webhook = WebhookServer::start(|_, review| convert(review)).await;
    let cluster = Cluster::new().await;
    define(&cluster, &webhook);
    let created = cluster.create("ex.com/v2/gauges", &gauge("v2", "a", "length")).await.expect("converted");
    assert_eq!((&created["apiVersion"], &created["length"]), (&json!("ex.com/v2"), &json!(5)));
    cluster.create("ex.com/v1/gauges", &gauge("v1", "b", "size")).await.expect("stored as it is");
    let sent: Vec<Value> = webhook.taken().into_iter().map(|(_, review)| review["request"]["desiredAPIVersion"].clone()).collect();
    assert_eq!(sent, ["ex.com/v1"], "only what another version stores is converted");
    for (version, field) in [("v1", "size"), ("v2", "length")] {
        for name in ["a", "b"] {
            let found = get(&cluster, &format!("ex.com/{version}/gauges"), name).await.expect("converted");
            assert_eq!(found[field], 5, "{version} {name}");
        }
    }
    let changed = cluster.merge("ex.com/v2/gauges", "b", &json!({"length": 6})).await.expect("converted both ways");
    assert_eq!(changed["length"], 6);
    assert_eq!(get(&cluster, "ex.com/v1/gauges", "b").await.expect("stored")["size"], 6);
    cluster.delete("ex.com/v2/gauges", "b").await.expect("deleted");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_and_watches_convert_many_objects_in_one_call() {
    let webhook = WebhookServer::start(|_, review| convert(review)).await;
    let cluster = Cluster::new().await;
    define(&cluster, &webhook);
    for index in 0..20 {
        cluster.create("ex.com/v1/gauges", &gauge("v1", &format!("g{index}"), "size")).await.expect("stored");
    }
    let target = cluster.target("ex.com/v2/gauges", "x");
    let at = Collection { resource: target.resource, namespace: target.namespace };
    let list = cluster.registry.list(&alice(), &at, &ListOptions::default()).await.expect("converted");
    let lengths: Vec<Value> =
        list.items.iter().map(|entry| serde_json::from_slice::<Value>(&entry.value).expect("JSON")["length"].clone()).collect();
    assert_eq!(lengths, vec![json!(5); 20]);
    assert_eq!(webhook.taken().len(), 1);
    let options = WatchOptions { resource_version: list.revision.to_string(), ..WatchOptions::default() };
    let mut events = cluster.registry.watch(&alice(), &at, &options).await.expect("a watch");
    cluster.create("ex.com/v1/gauges", &gauge("v1", "new", "size")).await.expect("stored");
    match events.next().await {
        Some(WatchEvent::Added(entry)) => {
            assert_eq!(serde_json::from_slice::<Value>(&entry.value).expect("JSON")["length"], 5);
        }
        other => panic!("{other:?}"),
    }
}

/// The texts are those of a real 1.36.2.
#[tokio::test(flavor = "multi_thread")]
async fn a_converter_that_fails_or_lies_fails_the_request() {
    let webhook = WebhookServer::start(|_, review| {
        let name = review["request"]["objects"][0]["metadata"]["name"].as_str().unwrap_or_default();
        let Reply::Response(mut response) = convert(review) else { unreachable!("it answers") };
        match name {
            "fails" => return Reply::Response(json!({"result": {"status": "Failed", "message": "cannot"}})),
            "few" => response["convertedObjects"] = json!([]),
            "renames" => response["convertedObjects"][0]["metadata"]["name"] = json!("zz"),
            "breaks" => return Reply::Raw("500 Internal Server Error", String::new(), b"x".to_vec()),
            _ => (),
        }
        Reply::Response(response)
    })
    .await;
    let cluster = Cluster::new().await;
    define(&cluster, &webhook);
    for (name, why) in [
        ("fails", "failed: cannot"),
        ("few", "returned 0 objects, expected 1"),
        ("renames", "returned invalid object: must have the same name: renames != zz"),
        ("breaks", "failed: an error on the server (\"unknown\") has prevented the request from succeeding"),
    ] {
        cluster.create("ex.com/v1/gauges", &gauge("v1", name, "size")).await.expect("stored");
        let wanted = format!("conversion webhook for ex.com/v1, Kind=Gauge {why}");
        assert_eq!(get(&cluster, "ex.com/v2/gauges", name).await, Err(wanted));
        assert_eq!(get(&cluster, "ex.com/v1/gauges", name).await.expect("no conversion")["size"], 5);
    }
}
