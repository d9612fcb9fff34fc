//! Attacks with requests that are more expensive than they appear, or that could be decoded as something else.

use crate::common::{Answer, Client, Protocol, TestServer, connect};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const YAML: &str = "application/yaml";
const JSON: &str = "application/json";
const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
const APPLY_PATCH: &str = "application/apply-patch+yaml";
/// Far longer than a response on a busy machine, far shorter than the full work of these requests.
const AT_ONCE: Duration = Duration::from_secs(30);

async fn send(server: &TestServer, method: Method, path: &str, content_type: &str, body: impl Into<bytes::Bytes>) -> Answer {
    let started = Instant::now();
    let answer = server.admin().await.send(method, path, &[("content-type", content_type)], body).await;
    assert!(started.elapsed() < AT_ONCE, "{path} took {:?}", started.elapsed());
    answer
}

fn message(answer: &Answer) -> String {
    answer.json()["message"].as_str().unwrap_or_default().to_owned()
}

async fn a_config_map(server: &TestServer, data: Value) {
    let object = json!({"metadata": {"name": "c"}, "data": data});
    let answer = send(server, Method::POST, CONFIG_MAPS, JSON, object.to_string()).await;
    assert_eq!(answer.code, 201, "{}", answer.text());
}

#[tokio::test]
async fn yaml_that_unfolds_to_billions_is_refused() {
    let server = TestServer::start().await;
    a_config_map(&server, json!({})).await;
    let mut laughs = "a0: &a0 [lol,lol,lol,lol,lol,lol,lol,lol,lol]\n".to_owned();
    for level in 1..12 {
        let before = vec![format!("*a{}", level - 1); 9].join(",");
        laughs += &format!("a{level}: &a{level} [{before}]\n");
    }
    let head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n";
    let many = format!("{head}data: {{x: &x {}}}\nrest: [{}]\n", "y".repeat(1000), vec!["*x"; 100_000].join(","));
    let merged = format!("{head}x: &x {{{}}}\n{}", (0..1000).map(|at| format!("k{at}: v,")).collect::<String>(), "y: {<<: *x}\n");
    for body in [format!("{head}{laughs}"), many] {
        for (method, path, content_type) in [
            (Method::POST, CONFIG_MAPS.to_owned(), YAML),
            (Method::PUT, format!("{CONFIG_MAPS}/c"), YAML),
            (Method::PATCH, format!("{CONFIG_MAPS}/c?fieldManager=m"), APPLY_PATCH),
        ] {
            let answer = send(&server, method.clone(), &path, content_type, body.clone()).await;
            assert!([400, 413].contains(&answer.code.as_u16()), "{method} {content_type}: {}", answer.text());
        }
    }
    // Aliases that stay small are valid YAML.
    assert_eq!(send(&server, Method::PUT, &format!("{CONFIG_MAPS}/c"), YAML, merged).await.code, 200);
}

#[tokio::test]
async fn nesting_without_end_is_refused() {
    let server = TestServer::start().await;
    a_config_map(&server, json!({})).await;
    let object = format!("{CONFIG_MAPS}/c");
    let apply = format!("{object}?fieldManager=m");
    let (lists, maps) = ("[".repeat(1_000_000), r#"{"a":"#.repeat(500_000));
    let value = format!("{}0{}", "[".repeat(9_000), "]".repeat(9_000));
    for (method, path, content_type, body) in [
        (Method::POST, CONFIG_MAPS, JSON, lists.clone()),
        (Method::POST, CONFIG_MAPS, JSON, maps.clone()),
        (Method::POST, CONFIG_MAPS, YAML, lists.clone()),
        (Method::POST, CONFIG_MAPS, YAML, "- ".repeat(100_000)),
        (Method::POST, CONFIG_MAPS, YAML, format!("a: {value}")),
        (Method::PUT, &object, JSON, format!(r#"{{"a":{value}}}"#)),
        (Method::PATCH, &object, MERGE_PATCH, format!(r#"{{"a":{value}}}"#)),
        (Method::PATCH, &object, STRATEGIC_PATCH, format!(r#"{{"a":{value}}}"#)),
        (Method::PATCH, &object, JSON_PATCH, format!(r#"[{{"op":"add","path":"/data","value":{value}}}]"#)),
        (Method::PATCH, &object, JSON_PATCH, lists),
        (Method::PATCH, &apply, APPLY_PATCH, maps),
        (Method::DELETE, &object, JSON, format!(r#"{{"dryRun":{value}}}"#)),
    ] {
        let answer = send(&server, method.clone(), path, content_type, body).await;
        assert_eq!(answer.code, 400, "{method} {content_type}: {}", answer.text());
    }
    assert_eq!(server.admin().await.get(&object).await.code, 200);
}

#[tokio::test]
async fn yaml_nests_as_deep_as_json() {
    let server = TestServer::start().await;
    // Unknown fields are dropped, but decoded first. The object itself is one level.
    let nested = |depth: usize| {
        let value = format!("{}{}", "[".repeat(depth - 1), "]".repeat(depth - 1));
        format!(r#"{{"metadata": {{"generateName": "c-"}}, "nothing": {value}}}"#)
    };
    for (depth, code) in [(127, 201), (128, 400)] {
        for content_type in [JSON, YAML] {
            let answer = send(&server, Method::POST, CONFIG_MAPS, content_type, nested(depth)).await;
            assert_eq!(answer.code, code, "{depth} {content_type}: {}", answer.text());
        }
    }
}

#[tokio::test]
async fn what_nests_deep_is_shown_in_every_writing() {
    let server = TestServer::start().await;
    let revisions = "/apis/apps/v1/namespaces/default/controllerrevisions";
    let data = format!("{}{}", r#"{"a":["#.repeat(62), "]}".repeat(62));
    let object = format!(r#"{{"metadata":{{"name":"r"}},"revision":1,"data":{data}}}"#);
    let answer = send(&server, Method::POST, revisions, JSON, object).await;
    assert_eq!(answer.code, 201, "{}", answer.text());
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    for path in [revisions.to_owned(), format!("{revisions}/r")] {
        for (accept, query) in [(YAML, ""), (JSON, "?pretty=true"), (table, "?includeObject=Object")] {
            let answer = server.admin().await.send(Method::GET, &format!("{path}{query}"), &[("accept", accept)], "").await;
            assert_eq!(answer.code, 200, "{accept}: {}", answer.text());
        }
    }
}

#[tokio::test]
async fn patches_of_too_many_operations_and_copies_that_grow_are_refused() {
    let server = TestServer::start().await;
    a_config_map(&server, json!({"a": "x".repeat(1000)})).await;
    let object = format!("{CONFIG_MAPS}/c");
    let patch = |operations: Vec<Value>| Value::from(operations).to_string();
    let many = patch(vec![json!({"op": "test", "path": "/kind", "value": "ConfigMap"}); 10_001]);
    let answer = send(&server, Method::PATCH, &object, JSON_PATCH, many).await;
    let text = "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001";
    assert_eq!((answer.code.as_u16(), message(&answer)), (413, text.to_owned()));
    let doubling = (0..40).map(|at| json!({"op": "copy", "from": "/data", "path": format!("/data/x{at}")})).collect();
    let answer = send(&server, Method::PATCH, &object, JSON_PATCH, patch(doubling)).await;
    assert!([413, 422].contains(&answer.code.as_u16()), "{}", answer.text());
    let pointer = json!([{"op": "add", "path": "/a".repeat(500_000), "value": 1}]).to_string();
    assert_eq!(send(&server, Method::PATCH, &object, JSON_PATCH, pointer).await.code, 422);
}

#[tokio::test]
async fn what_is_not_quite_an_object_is_refused() {
    let server = TestServer::start().await;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let pods = "/api/v1/namespaces/default/pods";
    let pod = |cpu: &str| {
        let container = json!({"name": "c", "image": "i", "resources": {"limits": {"cpu": cpu}}});
        json!({"metadata": {"name": "p"}, "spec": {"containers": [container]}}).to_string().into_bytes()
    };
    let replicas = |count: &str| {
        let template = r#"{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
        let spec = format!(r#"{{"replicas":{count},"selector":{{"matchLabels":{{"a":"b"}}}},"template":{template}}}"#);
        format!(r#"{{"metadata":{{"name":"d"}},"spec":{spec}}}"#).into_bytes()
    };
    for (path, body, codes) in [
        (CONFIG_MAPS, br#"{"metadata":{"name":"c"}} {"metadata":{"name":"d"}}"#.to_vec(), [400, 400]),
        (CONFIG_MAPS, br#"{"metadata":{"name":"c"}}x"#.to_vec(), [400, 400]),
        (CONFIG_MAPS, br#"{"metadata":{"name":"c"},"data":{"a":1e999999999}}"#.to_vec(), [400, 400]),
        (CONFIG_MAPS, b"{\"metadata\":{\"name\":\"c\"},\"data\":{\"a\":\"\xff\"}}".to_vec(), [400, 400]),
        (CONFIG_MAPS, b"{\"metadata\":{\"name\":\"c\0\"}}".to_vec(), [400, 422]),
        (CONFIG_MAPS, br#"{"metadata":{"name":"c\u0000"}}"#.to_vec(), [422, 422]),
        (CONFIG_MAPS, br#"{"metadata":{"name":"../x"}}"#.to_vec(), [422, 422]),
        (CONFIG_MAPS, br#"{"metadata":{"name":"a/b"}}"#.to_vec(), [422, 422]),
        (CONFIG_MAPS, br#"{"metadata":{"name":"c","namespace":"kube-system"}}"#.to_vec(), [400, 400]),
        (CONFIG_MAPS, br#"{"kind":"Secret","apiVersion":"v1","metadata":{"name":"c"}}"#.to_vec(), [400, 400]),
        (deployments, replicas("2147483648"), [400, 400]),
        (deployments, replicas("-9223372036854775809"), [400, 400]),
        (deployments, replicas("-1"), [422, 422]),
        (deployments, replicas("1.5"), [400, 400]),
        (pods, pod("1e999999999999"), [400, 422]),
        (pods, pod(&"9".repeat(100_000)), [201, 422]),
        (pods, pod("-1"), [422, 422]),
    ] {
        let shown = String::from_utf8_lossy(&body[..body.len().min(100)]).into_owned();
        let answer = send(&server, Method::POST, path, JSON, body).await;
        assert!(codes.contains(&answer.code.as_u16()), "{shown}: {}", answer.text());
    }
}

/// They are decoded before the work is charged to a user.
#[tokio::test]
async fn options_of_a_deletion_are_short() {
    let server = TestServer::start().await;
    let options =
        |count: usize| json!({"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": vec!["All"; count]}).to_string().into_bytes();
    let name = format!("{CONFIG_MAPS}/none");
    for path in [&*name, CONFIG_MAPS] {
        let answer = send(&server, Method::DELETE, path, JSON, options(20_000)).await;
        assert_eq!(answer.code, StatusCode::PAYLOAD_TOO_LARGE, "{path}: {}", answer.text());
        assert!(answer.text().contains("DeleteOptions have 65536 bytes at most"), "{}", answer.text());
    }
    assert_eq!(send(&server, Method::DELETE, &name, JSON, options(1_000)).await.code, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn names_and_texts_longer_than_allowed_are_refused() {
    let server = TestServer::start().await;
    let with = |part: &str, value: Value| {
        let mut metadata = json!({"name": "c"});
        metadata[part] = value;
        json!({ "metadata": metadata })
    };
    let owner = |at: usize| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": format!("owner-{at}"), "uid": format!("{at:0100}")});
    for (object, code) in [
        (with("name", json!("n".repeat(253))), 201),
        (with("name", json!("n".repeat(254))), 422),
        (with("labels", json!({"l".repeat(63): "v".repeat(63)})), 201),
        (with("labels", json!({"l".repeat(64): "v"})), 422),
        (with("labels", json!({"l": "v".repeat(64)})), 422),
        (with("labels", json!({format!("{}/l", "p".repeat(254)): "v"})), 422),
        (with("annotations", json!({"a": "v".repeat(262_144)})), 422),
        (with("finalizers", json!((0..70_000).map(|at| format!("f{at}.example.com/x")).collect::<Vec<_>>())), 413),
        (with("ownerReferences", json!((0..12_000).map(owner).collect::<Vec<_>>())), 413),
        (json!({"metadata": {"name": "c"}, "data": {"a": "x".repeat((1 << 20) + 1)}}), 422),
        (json!({"metadata": {"name": "c"}, "binaryData": {"a": "AAAA".repeat(400_000)}}), 422),
    ] {
        // The size of an object counts when it is stored.
        let dry_run = if code == 413 { "" } else { "?dryRun=All" };
        let answer = send(&server, Method::POST, &format!("{CONFIG_MAPS}{dry_run}"), JSON, object.to_string()).await;
        assert_eq!(answer.code, code, "{} for {}", &answer.text()[..200.min(answer.body.len())], &object.to_string()[..60]);
    }
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"a": "x".repeat((1 << 20) + 1)}});
    assert_eq!(send(&server, Method::POST, "/api/v1/namespaces/default/secrets", JSON, secret.to_string()).await.code, 422);
    let made = send(&server, Method::POST, CONFIG_MAPS, JSON, json!({"metadata": {"generateName": "g".repeat(200)}}).to_string()).await;
    assert_eq!((made.code.as_u16(), made.json()["metadata"]["name"].as_str().map(str::len)), (201, Some(63)));
    for (manager, code) in [("m".repeat(128), 201), ("m".repeat(129), 422)] {
        let path = format!("{CONFIG_MAPS}?dryRun=All&fieldManager={manager}");
        assert_eq!(send(&server, Method::POST, &path, JSON, json!({"metadata": {"name": "c"}}).to_string()).await.code, code);
    }
    assert_eq!(send(&server, Method::POST, CONFIG_MAPS, JSON, "x".repeat((3 << 20) + 1)).await.code, 413);
}

#[tokio::test]
async fn selectors_and_tokens_that_are_forged_or_huge_are_refused_or_harmless() {
    let server = TestServer::start().await;
    a_config_map(&server, json!({})).await;
    let object = json!({"metadata": {"name": "d"}});
    assert_eq!(send(&server, Method::POST, CONFIG_MAPS, JSON, object.to_string()).await.code, 201);
    let elsewhere = "/api/v1/namespaces/kube-system/secrets";
    assert_eq!(send(&server, Method::POST, elsewhere, JSON, json!({"metadata": {"name": "z"}}).to_string()).await.code, 201);
    let mut admin = server.admin().await;
    let token = |json: &str| URL_SAFE_NO_PAD.encode(json);
    let values = vec!["v"; 20_000].join(",");
    for (query, code, names) in [
        (format!("continue={}", token(r#"{"rv":1,"after":""}"#)), 200, Some(vec![])),
        (format!("continue={}", token(r#"{"after":"c"}"#)), 200, Some(vec!["d"])),
        (format!("continue={}", token(r#"{"after":"../../secrets/kube-system/a"}"#)), 200, Some(vec!["c", "d"])),
        (format!("continue={}", token(r#"{"after":"c","left":18446744073709551615}"#)), 200, Some(vec!["d"])),
        (format!("limit=1&continue={}", token(r#"{"after":"","left":0}"#)), 200, None),
        (format!("continue={}", token(r#"{"rv":18446744073709551615,"after":""}"#)), 0, None),
        (format!("continue={}", token(&"[".repeat(40_000))), 400, None),
        ("continue=%00".to_owned(), 400, None),
        (format!("labelSelector=a+in+({values})"), 200, Some(vec![])),
        (format!("labelSelector={}", vec!["a"; 1_000].join(",")), 200, Some(vec![])),
        (format!("labelSelector={}", vec!["a"; 20_000].join(",")), 400, None),
        (format!("labelSelector={}", "(".repeat(20_000)), 400, None),
        (format!("fieldSelector={}", vec!["metadata.name%3Dc"; 1_000].join(",")), 200, Some(vec!["c"])),
        (format!("fieldSelector={}", vec!["metadata.name%3Dc"; 2_700].join(",")), 400, None),
        ("limit=9223372036854775807".to_owned(), 200, Some(vec!["c", "d"])),
        ("limit=9223372036854775808".to_owned(), 400, None),
    ] {
        let started = Instant::now();
        let answer = admin.get(&format!("{CONFIG_MAPS}?{query}")).await;
        assert!(started.elapsed() < AT_ONCE);
        let shown = &query[..query.len().min(60)];
        assert!(
            answer.code == code || code == 0 && answer.code.is_client_error() || code == 0 && answer.code == 504,
            "{shown}: {}",
            answer.text()
        );
        let Some(names) = names else { continue };
        let list = answer.json();
        let found: Vec<&str> =
            list["items"].as_array().expect("a list").iter().filter_map(|item| item["metadata"]["name"].as_str()).collect();
        assert_eq!(found, names, "{shown}");
    }
}

#[tokio::test]
async fn clients_cannot_make_up_metric_series() {
    let server = TestServer::start().await;
    let mut admin = server.admin().await;
    for path in ["/apis/made-up/v1/things", "/apis/apps/made-up/things", "/api/v1/made-ups", "/api/v1/pods/p/made-up", "/made-up"] {
        assert!(admin.get(path).await.code.is_client_error(), "{path}");
    }
    let method = Method::from_bytes(b"MADEUP").expect("a method");
    admin.send(method, &format!("{CONFIG_MAPS}/made-up"), &[("user-agent", "made-up")], "").await;
    let metrics = admin.get("/metrics").await.text().to_lowercase();
    assert!(metrics.contains("apiserver_request_total") && !metrics.contains("made-up") && !metrics.contains("madeup"), "{metrics}");
}

#[tokio::test]
async fn heads_longer_than_allowed_are_refused() {
    let server = TestServer::start().await;
    let long = "x".repeat(300 << 10);
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let mut client = Client::connect(&server, Some(&server.pki.admin), protocol).await;
        assert_eq!(client.send(Method::GET, CONFIG_MAPS, &[("x-long", &long)], "").await.code, 431, "{protocol:?}");
        let mut client = Client::connect(&server, Some(&server.pki.admin), protocol).await;
        let nearly = "x".repeat(100 << 10);
        assert_eq!(client.send(Method::GET, CONFIG_MAPS, &[("x-long", &nearly)], "").await.code, 200, "{protocol:?}");
    }
    let mut stream = connect(&server, Some(&server.pki.admin), Protocol::Http1).await;
    stream.write_all(format!("GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n", &long[..70_000]).as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 414"), "{answer}");
    let many: Vec<(String, String)> = (0..200).map(|at| (format!("x-{at}"), "y".to_owned())).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(server.admin().await.send(Method::GET, CONFIG_MAPS, &many, "").await.code, 431);
}
