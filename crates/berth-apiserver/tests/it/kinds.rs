//! A kind is added and removed at run time.

use crate::common::{Client, TestServer, next_line, widget::widgets};
use berth_identity::GroupResource;
use berth_registry::{Registry, ResourceTable};
use hyper::Method;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

const GROUP_VERSION: &str = "example.com/v1";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const WIDGET: &str = "/apis/example.com/v1/namespaces/default/widgets/w";
const MERGE: (&str, &str) = ("content-type", "application/merge-patch+json");

/// Returns a server, and its resource table.
async fn start() -> (TestServer, Arc<ResourceTable>) {
    let mut registry: Option<Registry> = None;
    let server = TestServer::start_changed(|config| registry = Some(config.registry.clone())).await;
    (server, Arc::clone(registry.expect("a server has one").table()))
}

fn widget(name: &str, color: &str) -> Value {
    json!({"apiVersion": GROUP_VERSION, "kind": "Widget", "metadata": {"name": name}, "spec": {"color": color}})
}

/// Returns everything that describes the served resources: documents, and the ETag of aggregated discovery.
async fn documents(client: &mut Client) -> [String; 6] {
    let accept = ("accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
    let aggregated = client.send(Method::GET, "/apis", &[accept], "").await;
    let protobuf = ("accept", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf");
    let old = client.send(Method::GET, "/openapi/v2", &[protobuf], "").await;
    let tags = [&aggregated, &old].map(|answer| answer.header("etag").expect("a tag").to_owned());
    let [aggregate_tag, old_tag] = tags;
    let [root, groups, index] = [client.get("/").await, client.get("/apis").await, client.get("/openapi/v3").await].map(|a| a.text());
    [aggregate_tag, aggregated.text(), old_tag, root, groups, index]
}

#[tokio::test]
async fn an_added_kind_is_served_as_any_other_until_it_is_removed() {
    let (server, table) = start().await;
    let mut client = server.admin().await;
    let before = documents(&mut client).await;
    assert_eq!((client.get(WIDGETS).await.code.as_u16(), client.get("/apis/example.com/v1").await.code.as_u16()), (404, 404));

    table.define(widgets(GROUP_VERSION, &["spec.color"])).expect("nothing is called so");
    let made = client.post(WIDGETS, &widget("w", "red")).await;
    assert_eq!(made.code, 201, "{}", made.text());
    let object = made.json();
    assert_eq!((&object["spec"], &object["metadata"]["generation"]), (&json!({"color": "red", "size": 1}), &json!(1)));
    assert!(object["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:color"].is_object(), "{object}");
    let refused = client.post(WIDGETS, &json!({"metadata": {"name": "x"}, "spec": {"size": 11}})).await;
    let message =
        r#"Widget.example.com "x" is invalid: spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10"#;
    assert_eq!((refused.code.as_u16(), refused.json()["message"].as_str()), (422, Some(message)));
    let strict = client.post(&format!("{WIDGETS}?fieldValidation=Strict"), &json!({"metadata": {"name": "x"}, "bogus": 1})).await;
    assert!(strict.text().contains("strict decoding error: unknown field \\\"bogus\\\""), "{}", strict.text());

    assert_eq!(client.get(WIDGET).await.json(), object);
    let list = client.get(WIDGETS).await.json();
    assert_eq!((&list["kind"], &list["items"][0]["metadata"]["name"]), (&json!("WidgetList"), &json!("w")));
    for (color, found) in [("red", 1), ("blue", 0)] {
        let selected = client.get(&format!("{WIDGETS}?fieldSelector=spec.color%3D{color}")).await.json();
        assert_eq!(selected["items"].as_array().map(Vec::len), Some(found), "{color}");
    }
    let rows = client.send(Method::GET, WIDGETS, &[("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")], "").await.json();
    assert_eq!((&rows["columnDefinitions"][1]["name"], &rows["rows"][0]["cells"]), (&json!("Color"), &json!(["w", "red"])));

    let version = object["metadata"]["resourceVersion"].as_str().expect("a version");
    let mut watching = server.admin().await;
    let watch = watching.open(Method::GET, &format!("{WIDGETS}?watch=1&resourceVersion={version}"), &[], "").await;
    let mut watch = watch.into_body();
    let patched = client.send(Method::PATCH, WIDGET, &[MERGE], r#"{"spec":{"color":"blue"},"status":{"ready":true}}"#).await;
    assert_eq!((patched.code.as_u16(), &patched.json()["metadata"]["generation"]), (200, &json!(2)), "{}", patched.text());
    let event = next_line(&mut watch).await.expect("the watch goes on");
    assert_eq!((&event["type"], &event["object"]), (&json!("MODIFIED"), &patched.json()));
    assert_eq!(event["object"].get("status"), None);
    let status = client.send(Method::PATCH, &format!("{WIDGET}/status"), &[MERGE], r#"{"status":{"ready":true}}"#).await;
    assert_eq!((&status.json()["status"], &status.json()["spec"]["color"]), (&json!({"ready": true}), &json!("blue")));
    let applied = [("content-type", "application/apply-patch+yaml")];
    let path = format!("{WIDGET}?fieldManager=painter");
    let conflict = client.send(Method::PATCH, &path, &applied, widget("w", "green").to_string()).await;
    assert!(conflict.text().contains(".spec.color"), "{}", conflict.text());
    let forced = client.send(Method::PATCH, &format!("{path}&force=true"), &applied, widget("w", "green").to_string()).await;
    assert_eq!((forced.code.as_u16(), &forced.json()["spec"]["color"]), (200, &json!("green")), "{}", forced.text());

    let during = documents(&mut client).await;
    for (before, during) in before.iter().zip(&during) {
        assert_ne!(before, during);
    }
    assert!(during[1].contains(r#""shortNames":["wd"]"#), "{}", during[1]);
    assert!(during[3].contains("/apis/example.com/v1"), "{}", during[3]);
    assert_eq!(client.get("/apis/example.com").await.json()["preferredVersion"]["groupVersion"], GROUP_VERSION);
    let resources = client.get("/apis/example.com/v1").await.json();
    assert_eq!(resources["resources"][1]["name"], "widgets/status");
    let document = client.get("/openapi/v3/apis/example.com/v1").await.json();
    assert!(document["paths"][format!("{}/{{name}}", WIDGETS.replace("default", "{namespace}"))]["patch"].is_object(), "{document}");
    let schema = &document["components"]["schemas"]["com.example.v1.Widget"];
    assert_eq!(schema["x-kubernetes-group-version-kind"], json!([{"group": "example.com", "version": "v1", "kind": "Widget"}]));

    assert_eq!(table.undefine(&GroupResource::from_static("example.com", "widgets")).len(), 1);
    let end = async {
        while let Some(event) = next_line(&mut watch).await {
            assert_eq!(event["type"], "MODIFIED", "what was written before it ended");
        }
    };
    tokio::time::timeout(Duration::from_secs(30), end).await.expect("the watch ends");
    for path in [WIDGETS, WIDGET, "/apis/example.com", "/apis/example.com/v1", "/openapi/v3/apis/example.com/v1"] {
        assert_eq!(client.get(path).await.code, 404, "{path}");
    }
    assert_eq!(client.post(WIDGETS, &widget("x", "red")).await.code, 404);
    assert_eq!(documents(&mut client).await, before);

    table.define(widgets(GROUP_VERSION, &[])).expect("nothing is called so any more");
    assert_eq!(client.get(WIDGET).await.json(), forced.json(), "objects outlive their kind");
}

#[tokio::test]
async fn objects_from_before_a_field_was_selectable_are_selected_by_it() {
    let (server, table) = start().await;
    let mut client = server.admin().await;
    table.define(widgets(GROUP_VERSION, &[])).expect("nothing is called so");
    assert_eq!(client.post(WIDGETS, &widget("w", "red")).await.code, 201);
    let red = format!("{WIDGETS}?fieldSelector=spec.color%3Dred");
    assert_eq!(client.get(&red).await.code, 400);
    table.define(widgets(GROUP_VERSION, &["spec.color"])).expect("in its place");
    assert_eq!(client.post(WIDGETS, &widget("x", "red")).await.code, 201);
    assert_eq!(client.post(WIDGETS, &widget("y", "blue")).await.code, 201);
    let list = client.get(&red).await.json();
    let names: Vec<&Value> = list["items"].as_array().into_iter().flatten().map(|item| &item["metadata"]["name"]).collect();
    assert_eq!(names, ["w", "x"]);
}

#[tokio::test]
async fn a_kind_that_is_not_built_in_takes_no_strategic_patch() {
    let (server, table) = start().await;
    let mut client = server.admin().await;
    table.define(widgets(GROUP_VERSION, &[])).expect("nothing is called so");
    let made = client.post(WIDGETS, &widget("w", "red")).await.json();
    let message = "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, \
                   application/merge-patch+json, application/apply-patch+yaml";
    for content_type in ["application/strategic-merge-patch+json", "application/json", ""] {
        for path in [WIDGET.to_owned(), format!("{WIDGET}/status")] {
            let refused = client.send(Method::PATCH, &path, &[("content-type", content_type)], r#"{"spec":{"color":"blue"}}"#).await;
            let status = refused.json();
            let told = (refused.code.as_u16(), status["reason"].as_str(), status["message"].as_str());
            assert_eq!(told, (415, Some("UnsupportedMediaType"), Some(message)), "{content_type:?} {path}");
        }
    }
    assert_eq!(client.get(WIDGET).await.json(), made);
}

#[tokio::test]
async fn metadata_of_a_kind_that_is_not_built_in_is_owned_as_any_other() {
    let (server, table) = start().await;
    let mut client = server.admin().await;
    table.define(widgets(GROUP_VERSION, &[])).expect("nothing is called so");
    let owner = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": format!("uid-of-{name}")});
    for manager in ["first", "second"] {
        let metadata = json!({
            "name": "w", "labels": {manager: "true"}, "finalizers": [format!("example.com/{manager}")], "ownerReferences": [owner(manager)],
        });
        let applied = json!({"apiVersion": GROUP_VERSION, "kind": "Widget", "metadata": metadata});
        let path = format!("{WIDGET}?fieldManager={manager}");
        let answer = client.send(Method::PATCH, &path, &[("content-type", "application/apply-patch+yaml")], applied.to_string()).await;
        assert!(answer.code.is_success(), "{}", answer.text());
    }
    let metadata = &client.get(WIDGET).await.json()["metadata"];
    assert_eq!(metadata["labels"], json!({"first": "true", "second": "true"}));
    assert_eq!(metadata["finalizers"], json!(["example.com/first", "example.com/second"]));
    assert_eq!(metadata["ownerReferences"], json!([owner("first"), owner("second")]));
    for (at, manager) in ["first", "second"].into_iter().enumerate() {
        let own = json!({
            "f:labels": {format!("f:{manager}"): {}},
            "f:finalizers": {format!("v:\"example.com/{manager}\""): {}},
            "f:ownerReferences": {format!("k:{{\"uid\":\"uid-of-{manager}\"}}"): {}},
        });
        assert_eq!(metadata["managedFields"][at]["fieldsV1"]["f:metadata"], own);
    }
}

#[tokio::test]
async fn two_servers_in_one_process_serve_different_kinds() {
    let ((first, table), (second, _)) = (start().await, start().await);
    table.define(widgets(GROUP_VERSION, &[])).expect("nothing is called so");
    assert_eq!(first.admin().await.get(WIDGETS).await.code, 200);
    assert_eq!(second.admin().await.get(WIDGETS).await.code, 404);
}
