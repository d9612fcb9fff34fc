//! Custom resource definitions that clients create, change and delete while servers run.

use crate::common::{Client, MachineClock, MachineRng, TestServer, next_line};
use berth_api::FeatureGates;
use berth_local::{definitions, service_allocation::Among};
use berth_registry::{Registry, ResourceTable};
use berth_store::{
    DEFAULT_HISTORY_BYTES, MemoryStore, Store,
    env::{Env, Spawner},
};
use futures::future::BoxFuture;
use hyper::{Method, body::Incoming};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const SHIPS: &str = "/apis/e.com/v1/namespaces/default/ships";
const MERGE: (&str, &str) = ("content-type", "application/merge-patch+json");
/// How long anything may take that is not measured.
const WAIT_MAX: Duration = Duration::from_secs(30);

struct Tasks;

impl Spawner for Tasks {
    fn spawn(&self, _: &'static str, task: BoxFuture<'static, ()>) {
        tokio::spawn(task);
    }
}

/// Returns the API over a store, which follows the definitions in it.
async fn api(store: &Arc<dyn Store>, table: Arc<ResourceTable>, among: Among) -> Registry {
    let (clock, rng) = (Arc::new(MachineClock), Arc::new(MachineRng));
    let env = Env { clock: clock.clone(), rng: rng.clone(), spawner: Arc::new(Tasks) };
    let registry = Registry::new(Arc::clone(store), table, clock, rng, Arc::new(FeatureGates::default()));
    registry.bootstrap().await.expect("the store takes the first objects");
    registry.bootstrap_policy().await.expect("the store takes the first roles");
    definitions::start(&registry, among, &env).await.expect("the store can be read");
    registry
}

fn store() -> (Arc<dyn Store>, Arc<ResourceTable>) {
    let table = Arc::new(ResourceTable::default());
    (Arc::new(MemoryStore::new(Arc::clone(&table), DEFAULT_HISTORY_BYTES)), table)
}

async fn serve(registry: Registry) -> TestServer {
    TestServer::start_changed(|config| config.registry = registry).await
}

/// Returns the only server of an empty store.
async fn start() -> TestServer {
    let (store, table) = store();
    serve(api(&store, table, Among::Alone).await).await
}

/// Returns a definition with these versions, of which the first is the storage version.
fn definition(plural: &str, kind: &str, versions: &[&str]) -> Value {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "color": {"type": "string", "default": "gray"},
            "replicas": {"type": "integer", "minimum": 0},
        }},
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}}},
    }});
    let scale = json!({
        "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector",
    });
    let version = |(at, name): (usize, &&str)| {
        json!({
            "name": name, "served": true, "storage": at == 0,
            "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}, "scale": scale},
            "additionalPrinterColumns": [{"name": "Color", "type": "string", "jsonPath": ".spec.color"}],
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.e.com")},
        "spec": {
            "group": "e.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": versions.iter().enumerate().map(version).collect::<Vec<_>>(),
        },
    })
}

fn ships() -> Value {
    definition("ships", "Ship", &["v1"])
}

fn ship(name: &str) -> Value {
    json!({"apiVersion": "e.com/v1", "kind": "Ship", "metadata": {"name": name}, "spec": {"replicas": 2}})
}

async fn define(client: &mut Client, definition: &Value) -> Value {
    let made = client.post(DEFINITIONS, definition).await;
    assert_eq!(made.code, 201, "{}", made.text());
    made.json()
}

async fn patch(client: &mut Client, path: &str, patch: Value) -> Value {
    let answer = client.send(Method::PATCH, path, &[MERGE], patch.to_string()).await;
    assert!(answer.code.is_success(), "{path}: {}", answer.text());
    answer.json()
}

fn condition<'v>(definition: &'v Value, kind: &str) -> [&'v str; 3] {
    let conditions = definition["status"]["conditions"].as_array().into_iter().flatten();
    let found = conditions.into_iter().find(|condition| condition["type"] == kind);
    ["status", "reason", "message"].map(|member| found.and_then(|found| found[member].as_str()).unwrap_or_default())
}

/// Waits until the definition is as wanted, by a watch.
async fn until(server: &TestServer, name: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let path = format!("{DEFINITIONS}?watch=1&fieldSelector=metadata.name%3D{name}");
    let mut client = server.admin().await;
    let mut watch = client.open(Method::GET, &path, &[], "").await.into_body();
    let found = async {
        loop {
            let event = next_line(&mut watch).await.expect("the watch goes on");
            if event["type"] != "DELETED" && wanted(&event["object"]) {
                return event["object"].clone();
            }
        }
    };
    tokio::time::timeout(WAIT_MAX, found).await.expect("the definition changes")
}

async fn until_established(server: &TestServer, name: &str) -> Value {
    until(server, name, |definition| condition(definition, "Established")[0] == "True").await
}

/// Waits until the definition does not exist any more.
async fn until_gone(client: &mut Client, name: &str) {
    let gone = async {
        while client.get(&format!("{DEFINITIONS}/{name}")).await.code != 404 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(WAIT_MAX, gone).await.expect("the definition is removed");
}

async fn watch(client: &mut Client) -> Incoming {
    client.open(Method::GET, &format!("{SHIPS}?watch=1"), &[], "").await.into_body()
}

/// Returns the types of the remaining events of a watch that ends.
async fn rest(mut watch: Incoming) -> Vec<String> {
    let rest = async {
        let mut types = Vec::new();
        while let Some(event) = next_line(&mut watch).await {
            types.push(event["type"].as_str().unwrap_or_default().to_owned());
        }
        types
    };
    tokio::time::timeout(WAIT_MAX, rest).await.expect("the watch ends")
}

#[tokio::test]
async fn a_defined_kind_is_served_at_once_and_established_then() {
    let server = start().await;
    let mut client = server.admin().await;
    assert_eq!(client.get(SHIPS).await.code, 404);
    let made = define(&mut client, &ships()).await;
    assert_eq!((&made["status"]["storedVersions"], &made["metadata"]["generation"]), (&json!(["v1"]), &json!(1)));
    assert_eq!(made["spec"]["names"]["listKind"], "ShipList");
    let first = client.post(SHIPS, &ship("a")).await;
    assert_eq!((first.code.as_u16(), &first.json()["spec"]), (201, &json!({"color": "gray", "replicas": 2})), "{}", first.text());

    let established = until_established(&server, "ships.e.com").await;
    assert_eq!(condition(&established, "NamesAccepted"), ["True", "NoConflicts", "no conflicts found"]);
    assert_eq!(condition(&established, "Established"), ["True", "InitialNamesAccepted", "the initial names have been accepted"]);
    assert_eq!(established["status"]["acceptedNames"]["kind"], "Ship");

    let verbs = json!(["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]);
    let listed = client.get("/apis/e.com/v1").await.json();
    let names: Vec<&Value> = listed["resources"].as_array().into_iter().flatten().map(|resource| &resource["name"]).collect();
    assert_eq!((names, &listed["resources"][0]["verbs"]), (vec![&json!("ships"), &json!("ships/status"), &json!("ships/scale")], &verbs));
    let accept = ("accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
    let aggregated = client.send(Method::GET, "/apis", &[accept], "").await.json();
    let last = aggregated["items"].as_array().and_then(|groups| groups.last()).cloned().unwrap_or_default();
    assert_eq!((&last["metadata"]["name"], &last["versions"][0]["resources"][0]["verbs"]), (&json!("e.com"), &verbs));
    let document = client.get("/openapi/v3/apis/e.com/v1").await.json();
    let schema = &document["components"]["schemas"]["com.e.v1.Ship"];
    assert_eq!(schema["properties"]["spec"]["properties"]["color"]["type"], "string", "{schema}");
    let content = &document["paths"]["/apis/e.com/v1/namespaces/{namespace}/ships/{name}"]["patch"]["requestBody"]["content"];
    let patches: Vec<&String> = content.as_object().into_iter().flat_map(|content| content.keys()).collect();
    assert_eq!(patches, ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"]);
    assert!(client.get("/openapi/v2").await.json()["definitions"]["com.e.v1.Ship"].is_object());
    let rows = client.send(Method::GET, SHIPS, &[("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")], "").await.json();
    assert_eq!((&rows["columnDefinitions"][1]["name"], &rows["rows"][0]["cells"][1]), (&json!("Color"), &json!("gray")));
}

#[tokio::test]
async fn the_older_definition_keeps_a_name_and_the_newer_one_gets_it_after_its_deletion() {
    let server = start().await;
    let mut client = server.admin().await;
    define(&mut client, &ships()).await;
    define(&mut client, &definition("boats", "Ship", &["v1"])).await;
    let refused = until(&server, "boats.e.com", |boats| condition(boats, "NamesAccepted")[0] == "False").await;
    assert_eq!(condition(&refused, "NamesAccepted"), ["False", "ListKindConflict", "\"ShipList\" is already in use"]);
    assert_eq!(condition(&refused, "Established"), ["False", "NotAccepted", "not all names are accepted"]);
    assert_eq!(condition(&until_established(&server, "ships.e.com").await, "NamesAccepted")[0], "True");
    let boats = "/apis/e.com/v1/namespaces/default/boats";
    assert_eq!(client.get(boats).await.code, 404);
    let other = client.post(DEFINITIONS, &definition("ships", "Ship", &["v1"])).await;
    assert_eq!(other.code, 409);

    let deleted = client.send(Method::DELETE, &format!("{DEFINITIONS}/ships.e.com"), &[], "").await;
    assert_eq!(deleted.code, 200, "{}", deleted.text());
    until_established(&server, "boats.e.com").await;
    assert_eq!((client.get(boats).await.code.as_u16(), client.get(SHIPS).await.code.as_u16()), (200, 404));
}

#[tokio::test]
async fn a_change_of_the_schema_ends_watches_and_other_changes_do_not() {
    let server = start().await;
    let (mut client, mut watching) = (server.admin().await, server.admin().await);
    define(&mut client, &ships()).await;
    until_established(&server, "ships.e.com").await;
    let path = format!("{DEFINITIONS}/ships.e.com");
    let mut open = watch(&mut watching).await;
    patch(&mut client, &path, json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(client.post(SHIPS, &ship("a")).await.code, 201);
    let event = next_line(&mut open).await.expect("the watch goes on");
    assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("a")));

    let mut changed = client.get(&path).await.json();
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"] =
        json!({"type": "integer", "default": 7});
    let answer = client.send(Method::PUT, &path, &[("content-type", "application/json")], changed.to_string()).await;
    assert_eq!((answer.code.as_u16(), &answer.json()["metadata"]["generation"]), (200, &json!(2)), "{}", answer.text());
    assert_eq!(rest(open).await, Vec::<String>::new());
    let read = client.get(&format!("{SHIPS}/a")).await.json();
    assert_eq!(read["spec"], json!({"color": "gray", "replicas": 2, "size": 7}), "stored objects get the new defaults");
    let made = client.post(SHIPS, &ship("b")).await.json();
    assert_eq!(made["spec"]["size"], 7);
}

#[tokio::test]
async fn a_deleted_definition_stays_until_its_objects_are_deleted() {
    let server = start().await;
    let (mut client, mut watching) = (server.admin().await, server.admin().await);
    let made = define(&mut client, &ships()).await;
    let mut held = ship("held");
    held["metadata"]["finalizers"] = json!(["e.com/hold"]);
    for object in [&held, &ship("free")] {
        assert_eq!(client.post(SHIPS, object).await.code, 201);
    }
    let mut open = watch(&mut watching).await;
    for _ in 0..2 {
        assert_eq!(next_line(&mut open).await.expect("the watch goes on")["type"], "ADDED");
    }

    let path = format!("{DEFINITIONS}/ships.e.com");
    let deleted = client.send(Method::DELETE, &path, &[], "").await.json();
    assert_eq!(deleted["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]), "{deleted}");
    assert_eq!(deleted["metadata"]["generation"], made["metadata"]["generation"]);
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    assert_eq!(condition(&deleted, "Terminating"), ["True", "InstanceDeletionPending", message]);
    let progress = until(&server, "ships.e.com", |ships| condition(ships, "Terminating")[1] == "InstanceDeletionInProgress").await;
    assert_eq!(condition(&progress, "Terminating")[2], "CustomResource deletion is in progress");

    let refused = client.post(SHIPS, &ship("new")).await;
    let message = "ships.e.com \"new\" is forbidden: create not allowed while custom resource definition is terminating";
    assert_eq!((refused.code.as_u16(), refused.json()["message"].as_str()), (403, Some(message)), "{}", refused.text());
    assert_eq!(
        client.get("/apis/e.com/v1").await.json()["resources"][0]["verbs"],
        json!(["delete", "deletecollection", "get", "list", "watch"])
    );
    let changed = patch(&mut client, &format!("{SHIPS}/held"), json!({"spec": {"color": "red"}})).await;
    assert_eq!(changed["spec"]["color"], "red");
    assert!(client.get(&path).await.code.is_success(), "an object is left");
    patch(&mut client, &format!("{SHIPS}/held"), json!({"metadata": {"finalizers": null}})).await;
    until_gone(&mut client, "ships.e.com").await;
    let events = rest(open).await;
    assert_eq!(events.iter().filter(|kind| *kind == "DELETED").count(), 2, "{events:?}");
    assert_eq!(client.get(SHIPS).await.code, 404);

    define(&mut client, &ships()).await;
    let list = client.get(SHIPS).await.json();
    assert_eq!(list["items"], json!([]), "the objects of the first definition are deleted");
}

#[tokio::test]
async fn a_server_is_ready_with_the_stored_definitions() {
    let (store, table) = store();
    let first = serve(api(&store, table, Among::Alone).await).await;
    let mut client = first.admin().await;
    define(&mut client, &ships()).await;
    until_established(&first, "ships.e.com").await;
    assert_eq!(client.post(SHIPS, &ship("a")).await.code, 201);
    let object = client.get(&format!("{SHIPS}/a")).await.json();

    let registry = api(&store, Arc::default(), Among::Alone).await;
    let served = registry.resources().all().iter().any(|resource| resource.plural() == "ships");
    assert!(served, "before the first request");
    let again = serve(registry).await;
    let mut client = again.admin().await;
    assert_eq!(client.get(&format!("{SHIPS}/a")).await.json(), object);
}

#[tokio::test]
async fn every_server_serves_what_any_of_them_has_acknowledged() {
    let (store, table) = store();
    let first = serve(api(&store, table, Among::Others).await).await;
    let second = serve(api(&store, Arc::default(), Among::Others).await).await;
    let (mut here, mut there) = (first.admin().await, second.admin().await);
    for round in 0..20 {
        let (plural, kind) = (format!("things{round}"), format!("Thing{round}"));
        define(&mut here, &definition(&plural, &kind, &["v1"])).await;
        let path = format!("/apis/e.com/v1/namespaces/default/{plural}");
        let object = json!({"apiVersion": "e.com/v1", "kind": kind, "metadata": {"name": "a"}});
        let made = there.post(&path, &object).await;
        assert_eq!(made.code, 201, "{plural}: {}", made.text());
        assert_eq!(here.get(&format!("{path}/a")).await.json(), made.json());
    }
}

#[tokio::test]
async fn servers_agree_about_conflicting_names() {
    let (store, table) = store();
    let first = serve(api(&store, table, Among::Others).await).await;
    let second = serve(api(&store, Arc::default(), Among::Others).await).await;
    let (mut here, mut there) = (first.admin().await, second.admin().await);
    for round in 0..10 {
        let kind = format!("Ship{round}");
        let [one, other] = ["a", "b"].map(|letter| definition(&format!("ships{letter}{round}"), &kind, &["v1"]));
        let (a, b) = tokio::join!(define(&mut here, &one), define(&mut there, &other));
        let revision = |made: &Value| made["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse::<u64>().ok());
        let (older, newer) = if revision(&a) < revision(&b) { (a, b) } else { (b, a) };
        let name = |made: &Value| made["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        until_established(&first, &name(&older)).await;
        until(&first, &name(&newer), |found| condition(found, "NamesAccepted")[0] == "False").await;
        for client in [&mut here, &mut there] {
            for (made, code) in [(&older, 200), (&newer, 404)] {
                let path = format!("/apis/e.com/v1/{}", made["spec"]["names"]["plural"].as_str().unwrap_or_default());
                assert_eq!(client.get(&path).await.code.as_u16(), code, "{path}");
            }
        }
    }
}

#[tokio::test]
async fn objects_of_one_version_are_served_and_stored_in_another() {
    let (store, table) = store();
    let registry = api(&store, table, Among::Alone).await;
    let server = serve(registry.clone()).await;
    let mut client = server.admin().await;
    define(&mut client, &definition("ships", "Ship", &["v1", "v2"])).await;
    assert_eq!(client.post(SHIPS, &ship("a")).await.code, 201);
    let second = "/apis/e.com/v2/namespaces/default/ships/a";
    let before = client.get(second).await.json();
    assert_eq!((&before["apiVersion"], &before["spec"]["replicas"]), (&json!("e.com/v2"), &json!(2)));
    assert_eq!(client.get("/apis/e.com").await.json()["preferredVersion"]["version"], "v2", "the later stable version");

    let path = format!("{DEFINITIONS}/ships.e.com");
    let mut changed = client.get(&path).await.json();
    for (at, is_stored) in [(0, false), (1, true)] {
        changed["spec"]["versions"][at]["storage"] = json!(is_stored);
    }
    let answer = client.send(Method::PUT, &path, &[("content-type", "application/json")], changed.to_string()).await;
    assert_eq!(answer.json()["status"]["storedVersions"], json!(["v1", "v2"]), "{}", answer.text());
    let resource = || registry.resources().all().iter().find(|resource| resource.plural() == "ships").cloned().expect("served");
    tokio::time::timeout(WAIT_MAX, async {
        while resource().stored_api_version() != "e.com/v2" {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the new storage version is used");
    let stored = async || {
        let target =
            berth_registry::Target { resource: resource(), namespace: Some("default".to_owned()), name: "a".to_owned(), subresource: None };
        let bytes = registry.stored(&target).await.expect("stored");
        serde_json::from_slice::<Value>(&bytes).expect("JSON")["apiVersion"].clone()
    };
    assert_eq!(stored().await, "e.com/v1", "nothing has written it");
    // A migration writes each object as it is.
    let object = client.get(&format!("{SHIPS}/a")).await.json();
    let written = client.send(Method::PUT, &format!("{SHIPS}/a"), &[("content-type", "application/json")], object.to_string()).await;
    assert_eq!(written.code, 200, "{}", written.text());
    assert_eq!(stored().await, "e.com/v2");
    let removed = patch(&mut client, &format!("{path}/status"), json!({"status": {"storedVersions": ["v2"]}})).await;
    assert_eq!(removed["status"]["storedVersions"], json!(["v2"]));
}

#[tokio::test]
async fn status_and_scale_have_endpoints_of_their_own() {
    let server = start().await;
    let mut client = server.admin().await;
    define(&mut client, &ships()).await;
    let mut sent = ship("a");
    sent["status"] = json!({"replicas": 9});
    let made = client.post(SHIPS, &sent).await.json();
    assert_eq!((made.get("status"), &made["metadata"]["generation"]), (None, &json!(1)));
    let path = format!("{SHIPS}/a");
    let status =
        patch(&mut client, &format!("{path}/status"), json!({"status": {"replicas": 1, "selector": "a=b"}, "spec": {"replicas": 9}})).await;
    assert_eq!((&status["spec"]["replicas"], &status["metadata"]["generation"]), (&json!(2), &json!(1)));
    let scale = client.get(&format!("{path}/scale")).await.json();
    assert_eq!(
        (&scale["kind"], &scale["spec"], &scale["status"]),
        (&json!("Scale"), &json!({"replicas": 2}), &json!({"replicas": 1, "selector": "a=b"}))
    );
    let scaled = patch(&mut client, &format!("{path}/scale"), json!({"spec": {"replicas": 5}})).await;
    assert_eq!(scaled["spec"]["replicas"], 5);
    let read = client.get(&path).await.json();
    assert_eq!((&read["spec"]["replicas"], &read["metadata"]["generation"]), (&json!(5), &json!(2)));
    let conflict = client
        .send(Method::PATCH, &format!("{path}/scale"), &[MERGE], r#"{"metadata":{"resourceVersion":"1"},"spec":{"replicas":6}}"#)
        .await;
    assert_eq!(conflict.code, 409, "{}", conflict.text());
    let strategic = ("content-type", "application/strategic-merge-patch+json");
    assert_eq!(client.send(Method::PATCH, &format!("{path}/scale"), &[strategic], "{}").await.code, 415);
}

#[tokio::test]
async fn every_response_about_a_deprecated_version_has_a_warning() {
    let server = start().await;
    let mut client = server.admin().await;
    let mut deprecated = definition("ships", "Ship", &["v1", "v1beta1"]);
    deprecated["spec"]["versions"][1]["deprecated"] = json!(true);
    define(&mut client, &deprecated).await;
    let warning = Some(r#"299 - "e.com/v1beta1 Ship is deprecated; use e.com/v1 Ship""#);
    let old = "/apis/e.com/v1beta1/namespaces/default/ships";
    let mut sent = ship("a");
    sent["apiVersion"] = json!("e.com/v1beta1");
    let made = client.post(old, &sent).await;
    assert_eq!((made.code.as_u16(), made.header("warning")), (201, warning), "{}", made.text());
    for (path, code) in [(old.to_owned(), 200), (format!("{old}/a"), 200), (format!("{old}/a/scale"), 200), (format!("{old}/b"), 404)] {
        let answer = client.get(&path).await;
        assert_eq!((answer.code.as_u16(), answer.header("warning")), (code, warning), "{path}");
    }
    assert_eq!(client.get(SHIPS).await.header("warning"), None);
}

/// What kubectl without OpenAPI v3 validates against.
#[tokio::test]
async fn the_old_openapi_has_no_types_where_anything_is_allowed() {
    let server = start().await;
    let mut client = server.admin().await;
    let mut open = ships();
    let version = &mut open["spec"]["versions"][0];
    version["selectableFields"] = json!([{"jsonPath": ".spec.color"}]);
    version["schema"]["openAPIV3Schema"]["properties"]["status"]["x-kubernetes-preserve-unknown-fields"] = json!(true);
    define(&mut client, &open).await;
    let mut blobs = definition("blobs", "Blob", &["v1"]);
    blobs["spec"]["versions"] = json!([{
        "name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
    }]);
    define(&mut client, &blobs).await;
    let old = client.get("/openapi/v2").await.json();
    assert_eq!(old["definitions"]["com.e.v1.Ship"]["properties"]["status"], json!({"x-kubernetes-preserve-unknown-fields": true}));
    let gvk = json!([{"group": "e.com", "version": "v1", "kind": "Blob"}]);
    assert_eq!(old["definitions"]["com.e.v1.Blob"], json!({"type": "object", "x-kubernetes-group-version-kind": gvk}));
    let document = client.get("/openapi/v3/apis/e.com/v1").await.json();
    for kind in ["com.e.v1.Ship", "com.e.v1.ShipList"] {
        assert_eq!(document["components"]["schemas"][kind]["x-kubernetes-selectable-fields"], json!([{"fieldPath": "spec.color"}]));
    }
    assert_eq!(document["components"]["schemas"]["com.e.v1.Ship"]["properties"]["status"]["type"], "object");
}

#[tokio::test]
async fn custom_objects_have_no_protobuf() {
    let server = start().await;
    let mut client = server.admin().await;
    define(&mut client, &ships()).await;
    assert_eq!(client.post(SHIPS, &ship("a")).await.code, 201);
    let protobuf = "application/vnd.kubernetes.protobuf";
    assert_eq!(client.send(Method::POST, SHIPS, &[("content-type", protobuf)], "k8s\0").await.code, 415);
    assert_eq!(client.send(Method::GET, SHIPS, &[("accept", protobuf)], "").await.code, 406);
    let either = client.send(Method::GET, SHIPS, &[("accept", "application/vnd.kubernetes.protobuf,application/json")], "").await;
    assert_eq!(either.json()["kind"], "ShipList");
}

#[tokio::test]
async fn roles_and_quotas_count_custom_objects_as_any_others() {
    let server = start().await;
    let (mut admin, mut user) = (server.admin().await, server.user("jane", &["crew"]).await);
    define(&mut admin, &ships()).await;
    server.let_edit("crew").await;
    assert_eq!(user.get(SHIPS).await.code, 403, "the role has no rule for it");
    let role = json!({
        "metadata": {"name": "ships-edit", "labels": {"rbac.authorization.k8s.io/aggregate-to-edit": "true"}},
        "rules": [{"apiGroups": ["e.com"], "resources": ["ships"], "verbs": ["*"]}],
    });
    assert_eq!(admin.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", &role).await.code, 201);
    assert_eq!(user.get(SHIPS).await.code, 200, "an aggregated role has the rule now");

    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"count/ships.e.com": "0"}}});
    let made = admin.post("/api/v1/namespaces/default/resourcequotas", &quota).await;
    assert_eq!(made.code, 201, "{}", made.text());
    let path = "/api/v1/namespaces/default/resourcequotas/q/status";
    patch(&mut admin, path, json!({"status": {"hard": {"count/ships.e.com": "0"}, "used": {"count/ships.e.com": "0"}}})).await;
    let refused = user.post(SHIPS, &ship("a")).await;
    assert!(refused.code == 403 && refused.text().contains("exceeded quota: q, requested: count/ships.e.com=1"), "{}", refused.text());
}

#[tokio::test]
async fn server_side_apply_merges_by_the_schema() {
    let server = start().await;
    let mut client = server.admin().await;
    let mut ships = ships();
    ships["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["decks"] = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "size": {"type": "integer"}}},
    });
    define(&mut client, &ships).await;
    for (manager, deck) in [("one", json!({"name": "upper", "size": 1})), ("two", json!({"name": "lower"}))] {
        let applied = json!({"apiVersion": "e.com/v1", "kind": "Ship", "metadata": {"name": "a"}, "spec": {"decks": [deck]}});
        let path = format!("{SHIPS}/a?fieldManager={manager}");
        let answer = client.send(Method::PATCH, &path, &[("content-type", "application/apply-patch+yaml")], applied.to_string()).await;
        assert!(answer.code.is_success(), "{}", answer.text());
    }
    let decks = client.get(&format!("{SHIPS}/a")).await.json()["spec"]["decks"].clone();
    assert_eq!(decks, json!([{"name": "upper", "size": 1}, {"name": "lower"}]));
}
