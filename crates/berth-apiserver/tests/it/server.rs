//! The real server over real sockets.

use crate::common::{self, Client, Protocol, TestServer, next_line};
use berth_apiserver::{BindError, Server};
use flate2::read::GzDecoder;
use hyper::Method;
use serde_json::{Value, json};
use std::{io::Read, time::Duration};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn config_map(name: &str, data: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": data}})
}

#[tokio::test]
async fn anonymous_clients_see_health_and_version_only() {
    let server = TestServer::start().await;
    let mut client = server.anonymous().await;
    for path in ["/healthz", "/livez", "/readyz"] {
        let answer = client.get(path).await;
        assert_eq!((answer.code.as_u16(), answer.text().as_str()), (200, "ok"), "{path}");
    }
    assert_eq!(client.get("/version").await.code, 200);
    let answer = client.get("/nope").await;
    assert_eq!(answer.code, 403);
    assert_eq!(answer.json()["message"], "forbidden: User \"system:anonymous\" cannot get path \"/nope\"");
    assert_eq!(answer.json()["details"], json!({}));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
}

#[tokio::test]
async fn tokens_and_certificates_prove_who_asks() {
    let server = TestServer::start().await;
    let mut anonymous = server.anonymous().await;
    let good = format!("Bearer {}", server.pki.admin_token);
    assert_eq!(anonymous.send(Method::GET, CONFIG_MAPS, &[("authorization", &good)], "").await.code, 200);
    let refused = anonymous.send(Method::GET, CONFIG_MAPS, &[("authorization", "Bearer wrong")], "").await;
    assert_eq!((refused.code.as_u16(), refused.json()["message"].as_str()), (401, Some("Unauthorized")));
    assert_eq!(refused.json().get("details"), None);

    let stranger = TestServer::start().await;
    let mut untrusted = Client::connect(&server, Some(&stranger.pki.admin), Protocol::Http1).await;
    assert_eq!(untrusted.get("/version").await.code, 401);
    assert_eq!(untrusted.send(Method::GET, CONFIG_MAPS, &[("authorization", &good)], "").await.code, 200);

    let mut admin = server.admin().await;
    assert_eq!(admin.send(Method::GET, CONFIG_MAPS, &[("authorization", "Bearer wrong")], "").await.code, 200);
}

#[tokio::test]
async fn objects_are_written_read_and_deleted_over_both_protocols() {
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let server = TestServer::start().await;
        let mut client = Client::connect(&server, Some(&server.pki.admin), protocol).await;
        let created = client.post(CONFIG_MAPS, &config_map("c", "1")).await;
        assert_eq!(created.code, 201, "{}", created.text());
        assert_eq!(created.header("content-type"), Some("application/json"));
        assert_eq!(created.header("cache-control"), Some("no-cache, private"));
        assert_eq!(created.header("audit-id").map(str::len), Some(36));
        let object = format!("{CONFIG_MAPS}/c");
        let read = client.get(&object).await.json();
        assert_eq!(read, created.json());
        assert!(read["metadata"]["resourceVersion"].is_string());
        let list = client.get(CONFIG_MAPS).await.json();
        assert_eq!((&list["kind"], list["items"].as_array().map(Vec::len)), (&json!("ConfigMapList"), Some(1)));
        assert_eq!(list["items"][0].get("kind"), None);
        let merge = [("content-type", "application/merge-patch+json")];
        let patched = client.send(Method::PATCH, &object, &merge, r#"{"data":{"a":"2"}}"#).await;
        assert_eq!((patched.code.as_u16(), &patched.json()["data"]["a"]), (200, &json!("2")));
        let deleted = client.send(Method::DELETE, &object, &[], "").await;
        assert_eq!((deleted.code.as_u16(), &deleted.json()["status"]), (200, &json!("Success")));
        assert_eq!(client.get(&object).await.code, 404);
    }
}

/// A request may contain a fencing token, which can make a write fail and has no other effect.
#[tokio::test]
async fn a_write_for_who_leads_no_longer_is_a_conflict() {
    const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let server = TestServer::start().await;
    server.let_edit("editors").await;
    let mut client = server.user("editor", &["editors"]).await;
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"},
        "spec": {"holderIdentity": "a", "leaseTransitions": 1}});
    assert_eq!(server.admin().await.post(LEASES, &lease).await.code, 201);
    let mut write = async |name: &str, said: &[&str]| {
        let led = said.iter().map(|said| ("berth-lease", *said));
        let headers: Vec<_> = [("content-type", "application/json")].into_iter().chain(led).collect();
        client.send(Method::POST, CONFIG_MAPS, &headers, config_map(name, "1").to_string()).await
    };
    assert_eq!(write("led", &["default/l;a;1"]).await.code, 201);
    let refused = write("late", &["default/l;a;0"]).await;
    assert_eq!((refused.code.as_u16(), &refused.json()["reason"]), (409, &json!("Conflict")), "{}", refused.text());
    for (said, why) in [
        (&["a"][..], "the header berth-lease: \"a\" is not of the form NAMESPACE/NAME;HOLDER;TRANSITIONS"),
        (&["default/l;a;1", "default/l;a;1"], "the header berth-lease: it stands twice"),
    ] {
        let bad = write("bad", said).await;
        assert_eq!((bad.code.as_u16(), &bad.json()["message"]), (400, &json!(why)));
    }
    let read = client.send(Method::GET, CONFIG_MAPS, &[("berth-lease", "a")], "").await;
    assert_eq!(read.code, 200, "reads are not about it");
    let names: Vec<_> = read.json()["items"].as_array().expect("a list").iter().map(|map| map["metadata"]["name"].clone()).collect();
    assert!(names.contains(&json!("led")) && !names.contains(&json!("late")), "{names:?}");
}

#[tokio::test]
async fn a_refusal_reaches_a_client_that_is_still_sending() {
    let server = TestServer::start().await;
    let mut client = server.admin().await;
    let body = "x".repeat(1 << 20);
    for (path, media_type, code) in [
        (CONFIG_MAPS, "image/jpeg", 415),
        ("/api/v1/namespaces/default/configmaps/c", "application/json", 405),
        ("/api/v1/namespaces/default/ships", "application/json", 404),
        ("/version", "application/json", 405),
    ] {
        // The next request uses the same connection, which would be closed if the body were not read.
        let answer = client.send(Method::POST, path, &[("content-type", media_type)], body.clone()).await;
        assert_eq!(answer.code.as_u16(), code, "{path} {}", answer.text());
    }
}

#[tokio::test]
async fn watches_yield_a_line_an_event_until_their_time_is_up() {
    let server = TestServer::start().await;
    let mut client = server.admin().await;
    let mut watcher = server.admin().await;
    client.post(CONFIG_MAPS, &config_map("c", "1")).await;
    let selector = "fieldSelector=metadata.name%3Dc";
    let path = format!("{CONFIG_MAPS}?watch=true&timeoutSeconds=1&{selector}");
    let mut watch = watcher.open(Method::GET, &path, &[], "").await.into_body();
    let added = next_line(&mut watch).await.expect("an event");
    assert_eq!((&added["type"], &added["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("c")));
    client.send(Method::DELETE, &format!("{CONFIG_MAPS}/c"), &[], "").await;
    let deleted = next_line(&mut watch).await.expect("an event");
    assert_eq!(deleted["type"], "DELETED");
    assert_eq!(next_line(&mut watch).await, None);
}

#[tokio::test]
async fn stopping_ends_watches_and_fails_readiness() {
    let server = TestServer::start().await;
    let (readiness, mut watcher) = (server.readiness.clone(), server.admin().await);
    let mut watch = watcher.open(Method::GET, &format!("{CONFIG_MAPS}?watch=true"), &[], "").await.into_body();
    let address = server.address;
    let stopped = server.stop();
    while next_line(&mut watch).await.is_some() {}
    stopped.await.expect("it ends by itself");
    readiness.set_ready();
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn stopping_does_not_wait_for_watchers_that_do_not_read() {
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let server = TestServer::start().await;
        let mut admin = server.admin().await;
        // More than sockets buffer.
        for number in 0..24 {
            let created = admin.post(CONFIG_MAPS, &config_map(&format!("c{number}"), &"x".repeat(900_000))).await;
            assert_eq!(created.code, 201, "{}", created.text());
        }
        let mut watcher = Client::connect(&server, Some(&server.pki.admin), protocol).await;
        let unread = watcher.open(Method::GET, &format!("{CONFIG_MAPS}?watch=true"), &[], "").await;
        let stopped = tokio::time::timeout(Duration::from_secs(5), server.stop()).await;
        stopped.expect("within ten seconds").expect("it ends by itself");
        drop(unread);
    }
}

#[tokio::test]
async fn what_cannot_be_understood_is_refused_by_its_own_code() {
    let server = TestServer::start().await;
    let mut client = server.admin().await;
    for (path, code, text) in [
        ("/nope", 404, "404 page not found\n"),
        ("/apis/nope/v1", 404, "404 page not found\n"),
        ("/apis/nope/v1/things", 404, "404 page not found\n"),
        ("/readyz/nope", 404, "404 page not found\n"),
    ] {
        let answer = client.get(path).await;
        assert_eq!((answer.code.as_u16(), answer.text().as_str()), (code, text), "{path}");
    }
    let unknown = client.get("/api/v1/namespaces/default/things").await;
    assert_eq!((unknown.code.as_u16(), &unknown.json()["details"]), (404, &json!({})));
    for (content_type, body, code) in [
        ("application/cbor", "\u{0}".to_owned(), 415),
        ("application/vnd.kubernetes.protobuf", "{}".to_owned(), 400),
        ("application/vnd.kubernetes.protobuf", "k8s\0".to_owned(), 400),
        ("application/vnd.kubernetes.protobuf", "k8s\0\n\x0f\n\x02v1\x12\tConfigMap\x12\x08\n\x06\n\x04from".to_owned(), 201),
        ("application/json", "x".repeat((3 << 20) + 1), 413),
        ("application/yaml", "a: [".to_owned(), 400),
        ("application/yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: from-yaml}\n".to_owned(), 201),
    ] {
        let answer = server.admin().await.send(Method::POST, CONFIG_MAPS, &[("content-type", content_type)], body).await;
        assert_eq!(answer.code.as_u16(), code, "{content_type}: {}", answer.text());
    }
    assert_eq!(client.send(Method::PUT, CONFIG_MAPS, &[], "{}").await.code, 405);
    assert_eq!(client.send(Method::POST, "/api/v1/configmaps", &[], "{}").await.code, 405);
    assert_eq!(client.send(Method::GET, CONFIG_MAPS, &[("accept", "text/html")], "").await.code, 406);
    assert_eq!(
        client.send(Method::PATCH, &format!("{CONFIG_MAPS}/from-yaml"), &[("content-type", "application/json")], "{}").await.code,
        415
    );
}

/// Returns a protobuf field of bytes, shorter than 128.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, u8::try_from(bytes.len()).expect("short")], bytes].concat()
}

/// Returns a protobuf body as text. Its content here is ASCII.
fn protobuf(api_version: &str, kind: &str, object: &[u8]) -> String {
    let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    let body = [b"k8s\0".to_vec(), field(1, &type_meta), field(2, object)].concat();
    String::from_utf8(body).expect("ASCII")
}

#[tokio::test]
async fn protobuf_bodies_create_update_and_delete() {
    let server = TestServer::start().await;
    let mut client = server.admin().await;
    let sent =
        [("content-type", "application/vnd.kubernetes.protobuf"), ("accept", "application/vnd.kubernetes.protobuf,application/json")];
    let path = format!("{CONFIG_MAPS}/c");
    let object = |value: &str| {
        let data = field(2, &[field(1, b"a"), field(2, value.as_bytes())].concat());
        protobuf("v1", "ConfigMap", &[field(1, &field(1, b"c")), data].concat())
    };
    let strict = format!("{CONFIG_MAPS}?fieldValidation=Strict");
    for (method, path, body, code, data) in [
        (Method::POST, &strict, object("1"), 201, json!({"a": "1"})),
        (Method::PUT, &path, object("2"), 200, json!({"a": "2"})),
        (Method::POST, &strict, protobuf("v1", "Secret", b""), 400, json!(null)),
        (Method::PUT, &path, object("3"), 200, json!({"a": "3"})),
        (Method::DELETE, &path, protobuf("v1", "DeleteOptions", &field(2, &field(1, b"other"))), 409, json!(null)),
        (Method::DELETE, &path, protobuf("v1", "DeleteOptions", &field(5, b"All")), 200, json!(null)),
        (Method::GET, &path, String::new(), 200, json!({"a": "3"})),
        (Method::DELETE, &path, protobuf("meta.k8s.io/v1", "DeleteOptions", b""), 200, json!(null)),
        (Method::GET, &path, String::new(), 404, json!(null)),
    ] {
        let answer = client.send(method.clone(), path, &sent, body).await;
        assert_eq!((answer.code.as_u16(), &answer.json()["data"]), (code, &data), "{method}: {}", answer.text());
    }
    let cut = client.send(Method::POST, CONFIG_MAPS, &sent, protobuf("v1", "ConfigMap", b"\x0a\x02\x0a\x05")).await;
    assert_eq!(cut.code, 400);
    assert_eq!(cut.json()["message"], "the body of the request could not be decoded: metadata: unexpected end of data");
}

/// Its KEPs give `podReplacementPolicy` number 10; 0x48 and 0x38 are `terminatingReplicas` of a Deployment's and of a ReplicaSet's status.
#[tokio::test]
async fn protobuf_carries_the_pod_replacement_policy_and_terminating_replicas() {
    const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
    let server = TestServer::start().await;
    let mut client = server.admin().await;
    let sent = [("content-type", "application/vnd.kubernetes.protobuf")];
    let label = [field(1, b"a"), field(2, b"b")].concat();
    let template = [field(1, &field(11, &label)), field(2, &field(2, &[field(1, b"c"), field(2, b"i")].concat()))].concat();
    let spec = |policy: &[u8]| field(2, &[field(2, &field(1, &label)), field(3, &template), policy.to_vec()].concat());
    let object = |kind: &str, parts: &[Vec<u8>]| protobuf("apps/v1", kind, &[field(1, &field(1, b"d")), parts.concat()].concat());
    let policy = |policy: &str| object("Deployment", &[spec(&field(10, policy.as_bytes()))]);
    let strict = |path: &str| format!("{path}?fieldValidation=Strict");
    let (one, status) = (format!("{DEPLOYMENTS}/d"), format!("{DEPLOYMENTS}/d/status"));
    for (method, path, body, code, policy, terminating) in [
        (Method::POST, strict(DEPLOYMENTS), policy("Soon"), 422, json!(null), json!(null)),
        (Method::POST, strict(DEPLOYMENTS), policy("TerminationComplete"), 201, json!("TerminationComplete"), json!(null)),
        (Method::PUT, strict(&one), policy("TerminationStarted"), 200, json!("TerminationStarted"), json!(null)),
        (Method::PUT, strict(&one), policy("TerminationComplete"), 200, json!("TerminationComplete"), json!(null)),
        (Method::PUT, strict(&status), object("Deployment", &[field(3, b"\x48\x02")]), 200, json!("TerminationComplete"), json!(2)),
        (Method::PUT, one.clone(), object("Deployment", &[spec(b"")]), 200, json!(null), json!(2)),
        (Method::POST, strict(SETS), object("ReplicaSet", &[spec(b"")]), 201, json!(null), json!(null)),
        (Method::PUT, format!("{SETS}/d/status"), object("ReplicaSet", &[field(3, b"\x38\x03")]), 200, json!(null), json!(3)),
    ] {
        let answer = client.send(method.clone(), &path, &sent, body).await;
        assert_eq!(answer.code.as_u16(), code, "{method} {path}: {}", answer.text());
        let found = answer.json();
        assert_eq!(found["spec"]["podReplacementPolicy"], policy, "{method} {path}");
        assert_eq!(found["status"]["terminatingReplicas"], terminating, "{method} {path}");
    }
}

#[tokio::test]
async fn lists_come_as_tables_metadata_yaml_and_compressed() {
    let server = TestServer::start().await;
    let mut client = server.admin().await;
    for number in 0..150 {
        let created = client.post(CONFIG_MAPS, &config_map(&format!("c{number:03}"), &"x".repeat(1024))).await;
        assert_eq!(created.code, 201);
    }
    let list = |accept: &'static str, encoding: &'static str| [("accept", accept), ("accept-encoding", encoding)];
    let path = format!("{CONFIG_MAPS}?limit=2");
    let table = client.send(Method::GET, &path, &list("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", ""), "").await;
    assert_eq!(table.header("content-type"), Some("application/json"));
    assert_eq!((&table.json()["kind"], &table.json()["rows"][0]["cells"][0]), (&json!("Table"), &json!("c000")));
    let partial = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let refused = client.send(Method::GET, &path, &list(partial, ""), "").await;
    let message = "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)";
    assert_eq!((refused.code.as_u16(), &refused.json()["message"]), (406, &json!(message)));
    let yaml = client.send(Method::GET, &path, &list("application/yaml", ""), "").await;
    assert_eq!(yaml.header("content-type"), Some("application/yaml"));
    assert!(yaml.text().contains("kind: ConfigMapList"), "{}", yaml.text());

    let whole = client.send(Method::GET, CONFIG_MAPS, &list("*/*", ""), "").await;
    assert_eq!(whole.header("content-encoding"), None);
    let compressed = client.send(Method::GET, CONFIG_MAPS, &list("*/*", "gzip"), "").await;
    assert_eq!(compressed.header("content-encoding"), Some("gzip"));
    let mut plain = Vec::new();
    GzDecoder::new(compressed.body.as_ref()).read_to_end(&mut plain).expect("gzip");
    assert_eq!(plain, whole.body);
}

#[tokio::test]
async fn aggregated_discovery_is_served_once_and_then_known() {
    let server = TestServer::start().await;
    let mut client = server.admin().await;
    let accept = ("accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json");
    for path in ["/api", "/apis"] {
        let first = client.send(Method::GET, path, &[accept], "").await;
        let content_type = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        assert_eq!(first.header("content-type"), Some(content_type));
        assert_eq!(first.json()["kind"], "APIGroupDiscoveryList");
        let tag = first.header("etag").expect("a tag").to_owned();
        let again = client.send(Method::GET, path, &[accept, ("if-none-match", &tag)], "").await;
        assert_eq!((again.code.as_u16(), again.body.len()), (304, 0));
    }
    assert_eq!(client.get("/api").await.json()["kind"], "APIVersions");
    assert_eq!(client.get("/apis").await.json()["kind"], "APIGroupList");
    assert_eq!(client.get("/apis/apps").await.json()["kind"], "APIGroup");
    assert_eq!(client.get("/apis/apps/v1").await.json()["kind"], "APIResourceList");
    assert_eq!(client.get("/apis/nope").await.code, 404);
}

#[tokio::test]
async fn openapi_documents_are_found_by_their_hash() {
    let server = TestServer::start().await;
    let mut client = server.admin().await;
    let index = client.get("/openapi/v3").await.json();
    let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().expect("a URL");
    let document = client.get(url).await;
    assert!(document.header("cache-control").is_some_and(|value| value.contains("immutable")));
    assert!(document.json()["components"]["schemas"].is_object());
}

#[tokio::test]
async fn the_old_openapi_document_comes_as_json_and_as_kubectl_asks() {
    let server = TestServer::start().await;
    let mut client = server.admin().await;
    let json = client.get("/openapi/v2").await;
    assert!(json.json()["definitions"]["io.k8s.api.apps.v1.Deployment"].is_object());
    let accept = ("accept", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf");
    let binary = client.send(Method::GET, "/openapi/v2", &[accept], "").await;
    assert_eq!(
        (binary.code.as_u16(), binary.header("content-type")),
        (200, Some("application/com.github.proto-openapi.spec.v2.v1+protobuf"))
    );
    assert!(binary.body.starts_with(b"\x0a\x032.0\x12"));
    let tags = [json.header("etag").expect("a tag").to_owned(), binary.header("etag").expect("a tag").to_owned()];
    assert_ne!(tags[0], tags[1]);
    let again = client.send(Method::GET, "/openapi/v2", &[accept, ("if-none-match", &tags[1])], "").await;
    assert_eq!((again.code.as_u16(), again.body.len()), (304, 0));
}

#[tokio::test]
async fn metrics_count_what_was_asked() {
    let server = TestServer::start().await;
    let mut client = server.admin().await;
    client.get(CONFIG_MAPS).await;
    let text = client.get("/metrics").await.text();
    for part in [r#"resource="configmaps""#, r#"verb="LIST""#, "apiserver_request_duration_seconds_bucket", "kubernetes_feature_enabled"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[tokio::test]
async fn a_taken_port_is_named() {
    let taken = TestServer::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let config = common::config(folder.path(), taken.address).await;
    let Err(error) = Server::bind(config).await else { panic!("the port is taken") };
    assert!(matches!(error, BindError::InUse { .. }), "{error}");
    assert!(error.to_string().contains(&taken.address.to_string()));
}
