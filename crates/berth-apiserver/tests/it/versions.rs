//! A kind with two versions, which is added at run time. The `size` of `v1` is the `length` of `v2`, the storage
//! version.

use crate::common::{Answer, Client, TestServer, next_line};
use berth_api::{ObjectRules, Path, Scope};
use berth_identity::GroupResource;
use berth_kinds::{
    Cell, Column, Conversion, Convert, ConvertError, Definition, Form, JsonPath, Names, ScalePaths, SelectableField, Structural, Version,
};
use berth_registry::{Registry, ResourceTable, Target};
use hyper::Method;
use serde_json::{Value, json};
use std::sync::Arc;

const GAUGES: GroupResource = GroupResource::from_static("example.com", "gauges");
const MERGE: (&str, &str) = ("content-type", "application/merge-patch+json");
const JSON_PATCH: (&str, &str) = ("content-type", "application/json-patch+json");
const APPLY: (&str, &str) = ("content-type", "application/apply-patch+yaml");
const TABLE: (&str, &str) = ("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");

struct SizeIsLength;

impl Convert for SizeIsLength {
    fn convert(&self, object: &mut Value, _: &str, to: &str) -> Result<(), ConvertError> {
        let (before, after) = if to == "v2" { ("size", "length") } else { ("length", "size") };
        let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return Ok(()) };
        if to == "v1" && spec.get("color").is_some_and(|color| color == "green") {
            return Err(ConvertError("v1 has no green".to_owned()));
        }
        spec.remove(before).and_then(|value| spec.insert(after.to_owned(), value));
        Ok(())
    }
}

fn path(text: &str) -> JsonPath {
    JsonPath::parse(text).expect("a path")
}

/// Returns a version with this name for the size.
fn version(name: &str, size: &str) -> Version {
    let schema = json!({"type": "object", "required": ["spec"], "properties": {
        "spec": {"type": "object", "properties": {
            size: {"type": "integer", "default": 1, "maximum": 100},
            "color": {"type": "string", "enum": ["red", "green", "blue"]},
            "replicas": {"type": "integer", "default": 0},
            "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"],
                    "properties": {"name": {"type": "string"}, "weight": {"type": "integer"}}}},
        }},
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}}},
    }});
    let column = |name: &str, kind: &str, at: &str, priority| Column {
        name: name.to_owned(),
        kind: kind.to_owned(),
        format: String::new(),
        priority,
        description: format!("Custom resource definition column (in JSONPath format): {at}"),
        cell: Cell::Path(path(at)),
    };
    Version {
        name: name.to_owned(),
        served: true,
        schema: Structural::read(&schema, &Path::new("schema")).expect("a structural schema"),
        status: true,
        scale: Some(ScalePaths {
            spec_replicas: path(".spec.replicas"),
            status_replicas: path(".status.replicas"),
            label_selector: Some(path(".status.selector")),
        }),
        columns: vec![
            column("Size", "integer", &format!(".spec.{size}"), 0),
            column("Light", "string", ".spec.parts[?(@.weight<5)].name", 0),
            column("Age", "date", ".metadata.creationTimestamp", 0),
            column("Color", "string", ".spec.color", 1),
        ],
        selectable_fields: vec![SelectableField::at(&path(&format!(".spec.{size}"))).expect("a path of members")],
        ..Version::default()
    }
}

/// Returns a definition with this storage version.
fn gauges(stored: &str) -> Definition {
    let is_stored = |version: Version| Version { storage: version.name == stored, ..version };
    let names = Names {
        kind: "Gauge".to_owned(),
        plural: "gauges".to_owned(),
        singular: "gauge".to_owned(),
        short_names: vec!["gg".to_owned()],
        categories: vec!["all".to_owned()],
        list_kind: "GaugeList".to_owned(),
    };
    Definition {
        group: "example.com".to_owned(),
        names,
        scope: Scope::Namespaced,
        versions: vec![is_stored(version("v2", "length")), is_stored(version("v1", "size"))],
        conversion: Conversion::By(Arc::new(SizeIsLength)),
        form: Form::Custom,
        rules: ObjectRules::default(),
        empty: Definition::only_metadata(),
        pod_template: &[],
        strategy: None,
    }
}

struct Gauges {
    server: TestServer,
    table: Arc<ResourceTable>,
    registry: Registry,
    client: Client,
}

impl Gauges {
    /// Starts a server and adds the kind.
    async fn start() -> Self {
        let mut registry: Option<Registry> = None;
        let server = TestServer::start_changed(|config| registry = Some(config.registry.clone())).await;
        let registry = registry.expect("a server has one");
        let mut client = server.admin().await;
        assert_eq!(client.get(&all("v1")).await.code, 404);
        let table = Arc::clone(registry.table());
        table.define(gauges("v2")).expect("nothing is called so");
        Self { server, table, registry, client }
    }

    async fn patch(&mut self, path: &str, kind: (&str, &str), body: Value) -> Answer {
        self.client.send(Method::PATCH, path, &[kind], body.to_string()).await
    }

    async fn spec(&mut self, version: &str, name: &str) -> Value {
        self.client.get(&one(version, name)).await.json()["spec"].clone()
    }

    /// Returns the stored JSON of an object.
    async fn stored(&self, name: &str) -> Value {
        let resource = Arc::clone(self.table.resources().by_name(&GAUGES).expect("served"));
        let target = Target { resource, namespace: Some("default".to_owned()), name: name.to_owned(), subresource: None };
        serde_json::from_slice(&self.registry.stored(&target).await.expect("stored")).expect("JSON")
    }
}

fn all(version: &str) -> String {
    format!("/apis/example.com/{version}/namespaces/default/gauges")
}

fn one(version: &str, name: &str) -> String {
    format!("{}/{name}", all(version))
}

fn gauge(version: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("example.com/{version}"), "kind": "Gauge", "metadata": {"name": name}, "spec": spec})
}

#[tokio::test]
async fn each_verb_works_in_each_version() {
    let mut gauges = Gauges::start().await;
    let made = gauges.client.post(&all("v1"), &gauge("v1", "g", json!({"size": 3, "color": "red"}))).await;
    assert_eq!((made.code.as_u16(), &made.json()["spec"]), (201, &json!({"size": 3, "color": "red", "replicas": 0})), "{}", made.text());
    let stored = gauges.stored("g").await;
    assert_eq!(
        (&stored["apiVersion"], &stored["spec"]["length"], &stored["spec"]["size"]),
        (&json!("example.com/v2"), &json!(3), &Value::Null)
    );

    // Get and list.
    let [first, second] = [gauges.client.get(&one("v1", "g")).await.json(), gauges.client.get(&one("v2", "g")).await.json()];
    assert_eq!(first, made.json());
    assert_eq!((&second["apiVersion"], &second["spec"]), (&json!("example.com/v2"), &json!({"length": 3, "color": "red", "replicas": 0})));
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    for (version, object, field) in [("v1", &first, "size"), ("v2", &second, "length")] {
        let list = gauges.client.get(&all(version)).await.json();
        assert_eq!((&list["kind"], &list["apiVersion"], &list["items"]), (&json!("GaugeList"), &object["apiVersion"], &json!([object])));
        for (value, found) in [(3, 1), (4, 0)] {
            let selected = gauges.client.get(&format!("{}?fieldSelector=spec.{field}%3D{value}", all(version))).await.json();
            assert_eq!(selected["items"].as_array().map(Vec::len), Some(found), "{version} {value}");
        }
    }

    // A PUT must have the version that it changes.
    let mut changed = second.clone();
    changed["spec"]["length"] = json!(4);
    let put = gauges.client.send(Method::PUT, &one("v2", "g"), &[], changed.to_string()).await;
    assert_eq!((put.code.as_u16(), &put.json()["metadata"]["generation"]), (200, &json!(2)), "{}", put.text());
    let stale = gauges.client.send(Method::PUT, &one("v1", "g"), &[], first.to_string()).await;
    assert_eq!(stale.code, 409);
    let unversioned = gauges.client.send(Method::PUT, &one("v1", "g"), &[], gauge("v1", "g", json!({})).to_string()).await;
    let why = r#"gauges.example.com "g" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"#;
    assert_eq!((unversioned.code.as_u16(), unversioned.json()["message"].as_str()), (422, Some(why)));

    // Patches apply to the object in their own version.
    let patch = json!([{"op": "test", "path": "/spec/size", "value": 4}, {"op": "replace", "path": "/spec/size", "value": 5}]);
    let patched = gauges.patch(&one("v1", "g"), JSON_PATCH, patch).await;
    assert_eq!((patched.code.as_u16(), &patched.json()["spec"]["size"]), (200, &json!(5)), "{}", patched.text());
    let patched = gauges.patch(&one("v2", "g"), MERGE, json!({"spec": {"length": 6, "color": null}})).await;
    assert_eq!((patched.code.as_u16(), &patched.json()["spec"]), (200, &json!({"length": 6, "replicas": 0})), "{}", patched.text());
    let refused = gauges.patch(&one("v1", "g"), MERGE, json!({"spec": {"size": "x"}})).await;
    let why =
        r#"Gauge.example.com "g" is invalid: spec.size: Invalid value: "string": spec.size in body must be of type integer: "string""#;
    let cause = &refused.json()["details"]["causes"][0]["reason"];
    assert_eq!((refused.json()["message"].as_str(), cause), (Some(why), &json!("FieldValueTypeInvalid")));
    let unknown = gauges.patch(&format!("{}?fieldValidation=Strict", one("v1", "g")), MERGE, json!({"spec": {"length": 1}})).await;
    assert!(unknown.text().contains("unknown field \\\"spec.length\\\""), "{}", unknown.text());
    let strategic = ("content-type", "application/strategic-merge-patch+json");
    assert_eq!(gauges.patch(&one("v1", "g"), strategic, json!({})).await.code, 415);

    // Only the status endpoint writes the status.
    let status = gauges.patch(&format!("{}/status", one("v1", "g")), MERGE, json!({"status": {"replicas": 2}, "spec": {"size": 9}})).await;
    assert_eq!((&status.json()["status"], &status.json()["spec"]["size"]), (&json!({"replicas": 2}), &json!(6)), "{}", status.text());
    let mut changed = gauges.client.get(&one("v2", "g")).await.json();
    changed["status"] = json!({"replicas": 3, "selector": "a=b"});
    let put = gauges.client.send(Method::PUT, &format!("{}/status", one("v2", "g")), &[], changed.to_string()).await;
    assert_eq!(
        (put.code.as_u16(), &put.json()["metadata"]["generation"]),
        (200, &status.json()["metadata"]["generation"]),
        "{}",
        put.text()
    );
    let ignored = gauges.patch(&one("v1", "g"), MERGE, json!({"status": {"replicas": 9}})).await;
    assert_eq!(ignored.json()["status"]["replicas"], 3);

    // Scale.
    for (version, replicas) in [("v1", 4), ("v2", 5)] {
        let at = format!("{}/scale", one(version, "g"));
        let mut scale = gauges.client.get(&at).await.json();
        assert_eq!((&scale["kind"], &scale["status"]), (&json!("Scale"), &json!({"replicas": 3, "selector": "a=b"})));
        scale["spec"]["replicas"] = json!(replicas);
        let put = gauges.client.send(Method::PUT, &at, &[], scale.to_string()).await;
        assert_eq!((put.code.as_u16(), &put.json()["spec"]["replicas"]), (200, &json!(replicas)), "{}", put.text());
        let patched = gauges.patch(&at, MERGE, json!({"spec": {"replicas": replicas + 10}})).await;
        assert_eq!(patched.json()["spec"]["replicas"], replicas + 10, "{}", patched.text());
        assert_eq!(gauges.spec("v2", "g").await["replicas"], replicas + 10);
    }

    // Deletes.
    let gone = gauges.client.send(Method::DELETE, &one("v1", "g"), &[], "").await;
    assert_eq!(gone.code, 200, "{}", gone.text());
    assert_eq!(gauges.client.get(&one("v2", "g")).await.code, 404);
    for (name, version) in [("a", "v1"), ("b", "v2")] {
        assert_eq!(gauges.client.post(&all(version), &gauge(version, name, json!({}))).await.code, 201);
    }
    let gone = gauges.client.send(Method::DELETE, &all("v1"), &[], "").await;
    assert_eq!((gone.code.as_u16(), gone.json()["items"].as_array().map(Vec::len)), (200, Some(2)), "{}", gone.text());
    assert_eq!(gauges.client.get(&all("v2")).await.json()["items"], json!([]));
}

#[tokio::test]
async fn an_applier_of_each_version_owns_its_fields() {
    let mut gauges = Gauges::start().await;
    let apply = |version: &str, manager: &str, force: bool| format!("{}?fieldManager={manager}&force={force}", one(version, "g"));
    let part = |name: &str, weight: i64| json!({"name": name, "weight": weight});
    let first = gauge("v1", "g", json!({"size": 3, "parts": [part("a", 1)]}));
    let made = gauges.patch(&apply("v1", "first", false), APPLY, first.clone()).await;
    assert_eq!(made.code, 201, "{}", made.text());
    let entry = &made.json()["metadata"]["managedFields"][0];
    let owned = json!({"f:size": {}, "f:parts": {"k:{\"name\":\"a\"}": {".": {}, "f:name": {}, "f:weight": {}}}});
    assert_eq!((&entry["apiVersion"], &entry["fieldsV1"]["f:spec"]), (&json!("example.com/v1"), &owned));

    // An element of a keyed list is owned by its applier, in any version.
    let second = gauge("v2", "g", json!({"color": "blue", "parts": [part("b", 9)]}));
    let applied = gauges.patch(&apply("v2", "second", false), APPLY, second).await;
    assert_eq!(applied.code, 200, "{}", applied.text());
    assert_eq!(applied.json()["spec"]["parts"], json!([part("a", 1), part("b", 9)]));
    assert_eq!(applied.json()["metadata"]["managedFields"].as_array().map(Vec::len), Some(2), "{}", applied.text());

    // The size of one version is the length of the other.
    let other = gauge("v2", "g", json!({"length": 5, "color": "blue", "parts": [part("b", 9)]}));
    let conflict = gauges.patch(&apply("v2", "second", false), APPLY, other.clone()).await;
    let text = "Apply failed with 1 conflict: conflict with \"first\": .spec.size";
    assert_eq!((conflict.code.as_u16(), conflict.json()["message"].as_str()), (409, Some(text)));
    let forced = gauges.patch(&apply("v2", "second", true), APPLY, other).await;
    assert_eq!((forced.code.as_u16(), &forced.json()["spec"]["length"]), (200, &json!(5)), "{}", forced.text());
    let conflict = gauges.patch(&apply("v1", "first", false), APPLY, first).await;
    assert_eq!(conflict.code, 409, "{}", conflict.text());

    // A field that an applier omits is removed, unless another one owns it.
    let less = gauges.patch(&apply("v1", "first", false), APPLY, gauge("v1", "g", json!({}))).await;
    assert_eq!(less.code, 200, "{}", less.text());
    assert_eq!(less.json()["spec"]["parts"], json!([part("b", 9)]));
    assert_eq!(less.json()["spec"]["size"], 5);

    // A client's change of a field in one version takes its ownership from an applier in the other.
    let patched = gauges.patch(&format!("{}?fieldManager=third", one("v1", "g")), MERGE, json!({"spec": {"size": 7}})).await;
    let managers = patched.json()["metadata"]["managedFields"].clone();
    let of = |name: &str| managers.as_array().into_iter().flatten().find(|entry| entry["manager"] == name).cloned().unwrap_or_default();
    assert_eq!(of("third")["fieldsV1"]["f:spec"], json!({"f:size": {}}));
    assert_eq!(
        (&of("second")["apiVersion"], &of("second")["fieldsV1"]["f:spec"]["f:length"]),
        (&json!("example.com/v2"), &Value::Null),
        "{managers}"
    );
}

#[tokio::test]
async fn a_watch_shows_the_version_that_it_asks_for() {
    let mut gauges = Gauges::start().await;
    let begun = gauges.client.post(&all("v1"), &gauge("v1", "g", json!({"size": 3}))).await.json();
    let since = begun["metadata"]["resourceVersion"].as_str().expect("a version").to_owned();
    let mut watches = Vec::new();
    for (version, field) in [("v1", "size"), ("v2", "length")] {
        let mut client = gauges.server.admin().await;
        let selected = format!("{}?watch=1&resourceVersion={since}&fieldSelector=spec.{field}%3D4", all(version));
        let everything = client.open(Method::GET, &format!("{}?watch=1&resourceVersion={since}", all(version)), &[], "").await.into_body();
        let mut client = gauges.server.admin().await;
        let selected = client.open(Method::GET, &selected, &[], "").await.into_body();
        watches.push((version, field, everything, selected));
    }
    gauges.patch(&one("v2", "g"), MERGE, json!({"spec": {"length": 4}})).await;
    gauges.client.send(Method::DELETE, &one("v1", "g"), &[], "").await;
    for (version, field, mut everything, mut selected) in watches {
        for (kind, watch) in [("MODIFIED", &mut everything), ("ADDED", &mut selected)] {
            for kind in [kind, "DELETED"] {
                let event = next_line(watch).await.expect("the watch goes on");
                let object = &event["object"];
                assert_eq!((&event["type"], &object["apiVersion"]), (&json!(kind), &json!(format!("example.com/{version}"))));
                assert_eq!(object["spec"], json!({field: 4, "replicas": 0}));
            }
        }
    }
}

#[tokio::test]
async fn an_object_that_cannot_be_converted_is_an_error_in_reads_lists_and_watches() {
    let mut gauges = Gauges::start().await;
    let begun = gauges.client.post(&all("v2"), &gauge("v2", "a", json!({"length": 3}))).await.json();
    let since = begun["metadata"]["resourceVersion"].as_str().expect("a version").to_owned();
    let mut watches = Vec::new();
    for version in ["v1", "v2"] {
        let mut client = gauges.server.admin().await;
        let path = format!("{}?watch=1&resourceVersion={since}", all(version));
        watches.push(client.open(Method::GET, &path, &[], "").await.into_body());
    }
    assert_eq!(gauges.client.post(&all("v2"), &gauge("v2", "g", json!({"color": "green"}))).await.code, 201);

    let why = "cannot be read: conversion from example.com/v2 to example.com/v1 failed: v1 has no green";
    let is_why = |status: &Value| status["code"] == 500 && status["message"].as_str().is_some_and(|message| message.ends_with(why));
    let part = ("accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io");
    for (path, headers) in [(one("v1", "g"), vec![]), (all("v1"), vec![]), (all("v1"), vec![TABLE]), (all("v1"), vec![part])] {
        let refused = gauges.client.send(Method::GET, &path, &headers, "").await;
        assert!(refused.code == 500 && is_why(&refused.json()), "{path} {headers:?}: {}", refused.text());
    }
    let refused = gauges.client.get(&format!("{}?watch=1", all("v1"))).await;
    assert!(refused.code == 500 && is_why(&refused.json()), "{}", refused.text());
    let event = next_line(&mut watches[0]).await.expect("an error");
    assert!(event["type"] == "ERROR" && is_why(&event["object"]), "{event}");
    assert_eq!(next_line(&mut watches[0]).await, None, "a watch ends with its error");

    // The watch of the storage version continues.
    let event = next_line(&mut watches[1]).await.expect("the watch goes on");
    assert_eq!((&event["type"], &event["object"]["spec"]["color"]), (&json!("ADDED"), &json!("green")));
    assert_eq!(gauges.client.get(&all("v2")).await.json()["items"].as_array().map(Vec::len), Some(2));
    assert_eq!(gauges.client.send(Method::DELETE, &one("v2", "g"), &[], "").await.code, 200);
    assert_eq!(gauges.client.get(&all("v1")).await.json()["items"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn tables_and_documents_describe_each_version() {
    let mut gauges = Gauges::start().await;
    let parts = json!([{"name": "heavy", "weight": 9}, {"name": "light", "weight": 1}]);
    gauges.client.post(&all("v1"), &gauge("v1", "g", json!({"size": 3, "color": "red", "parts": parts}))).await;
    for version in ["v1", "v2"] {
        let table = gauges.client.send(Method::GET, &all(version), &[TABLE], "").await.json();
        let columns: Vec<Value> =
            table["columnDefinitions"].as_array().into_iter().flatten().map(|column| json!([column["name"], column["priority"]])).collect();
        assert_eq!(columns, [json!(["Name", 0]), json!(["Size", 0]), json!(["Light", 0]), json!(["Age", 0]), json!(["Color", 1])]);
        let cells = table["rows"][0]["cells"].as_array().expect("cells");
        assert_eq!((&cells[..3], &cells[4]), (&[json!("g"), json!(3), json!("light")][..], &json!("red")));
        assert!(cells[3].as_str().is_some_and(|age| age.ends_with('s')), "{cells:?}");
    }

    let group = gauges.client.get("/apis/example.com").await.json();
    let versions: Vec<&Value> = group["versions"].as_array().into_iter().flatten().map(|version| &version["version"]).collect();
    assert_eq!((versions, &group["preferredVersion"]["version"]), (vec![&json!("v2"), &json!("v1")], &json!("v2")));
    let mut hashes = Vec::new();
    for version in ["v1", "v2"] {
        let resources = gauges.client.get(&format!("/apis/example.com/{version}")).await.json()["resources"].clone();
        let names: Vec<&Value> = resources.as_array().into_iter().flatten().map(|resource| &resource["name"]).collect();
        assert_eq!(names, ["gauges", "gauges/status", "gauges/scale"]);
        assert_eq!((&resources[0]["shortNames"], &resources[0]["categories"]), (&json!(["gg"]), &json!(["all"])));
        hashes.push(resources[0]["storageVersionHash"].clone());
    }
    assert_eq!(hashes[0], hashes[1], "objects of both are stored alike");
    let aggregated = ("accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
    let groups = gauges.client.send(Method::GET, "/apis", &[aggregated], "").await.json();
    let of_group =
        groups["items"].as_array().into_iter().flatten().find(|group| group["metadata"]["name"] == "example.com").expect("served");
    assert_eq!(of_group["versions"].as_array().map(Vec::len), Some(2));

    let old = gauges.client.get("/openapi/v2").await.json();
    for (version, size) in [("v1", "size"), ("v2", "length")] {
        let document = gauges.client.get(&format!("/openapi/v3/apis/example.com/{version}")).await.json();
        let schema = &document["components"]["schemas"][format!("com.example.{version}.Gauge")];
        assert_eq!(schema["x-kubernetes-group-version-kind"], json!([{"group": "example.com", "version": version, "kind": "Gauge"}]));
        assert_eq!(schema["properties"]["spec"]["properties"][size], json!({"type": "integer", "default": 1, "maximum": 100}));
        assert_eq!(
            schema["properties"]["metadata"]["allOf"][0]["$ref"],
            "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
        );
        let list = &schema["properties"]["spec"]["properties"]["parts"];
        assert_eq!((&list["x-kubernetes-list-type"], &list["x-kubernetes-list-map-keys"]), (&json!("map"), &json!(["name"])));
        let definition = &old["definitions"][format!("com.example.{version}.Gauge")];
        assert_eq!(definition["properties"]["spec"]["properties"][size]["type"], "integer");
    }
}

#[tokio::test]
async fn objects_are_served_after_another_version_is_the_one_to_store() {
    let mut gauges = Gauges::start().await;
    gauges.client.post(&all("v1"), &gauge("v1", "g", json!({"size": 3}))).await;
    gauges.table.define(super::versions::gauges("v1")).expect("in place of the earlier one");
    assert_eq!(gauges.stored("g").await["apiVersion"], "example.com/v2");
    assert_eq!((gauges.spec("v1", "g").await["size"].clone(), gauges.spec("v2", "g").await["length"].clone()), (json!(3), json!(3)));
    gauges.patch(&one("v2", "g"), MERGE, json!({"spec": {"length": 4}})).await;
    let stored = gauges.stored("g").await;
    assert_eq!((&stored["apiVersion"], &stored["spec"]["size"]), (&json!("example.com/v1"), &json!(4)));
    assert_eq!(
        gauges.client.get(&format!("{}?fieldSelector=spec.length%3D4", all("v2"))).await.json()["items"].as_array().map(Vec::len),
        Some(1)
    );
    assert_eq!(gauges.table.undefine(&GAUGES).len(), 2);
    assert_eq!(gauges.client.get(&all("v1")).await.code, 404);
}
