//! Bodies that decoders must reject, in each encoding: the response has a code below 500 and a reason, and nothing is
//! created.

use crate::common::{Client, TestServer};
use hyper::Method;
use serde_json::json;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const REVISIONS: &str = "/apis/apps/v1/namespaces/default/controllerrevisions";
const PODS: &str = "/api/v1/namespaces/default/pods";
const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Far deeper than any object, and than the stack of a thread allows.
const DEEP: usize = 10_000;

/// Posts each body. Checks the code and the text of the response.
async fn check(media_type: &str, cases: Vec<(&str, Vec<u8>, u16, &str)>) {
    let server = TestServer::start().await;
    let mut client = server.admin().await;
    for (path, body, code, text) in cases {
        let shown = String::from_utf8_lossy(&body).chars().take(200).collect::<String>();
        let answer = client.send(Method::POST, path, &[("content-type", media_type)], body).await;
        assert_eq!(answer.code.as_u16(), code, "{media_type} {shown:?}: {}", answer.text());
        let message = answer.json()["message"].as_str().unwrap_or_default().to_owned();
        assert!(message.contains(text), "{media_type} {shown:?}: {message}");
        let list = path.split('?').next().unwrap_or(path);
        assert!(made(&mut client, list).await.is_empty(), "{media_type} {shown:?} left something behind");
    }
}

/// Returns the names of the objects that a test created.
async fn made(client: &mut Client, path: &str) -> Vec<String> {
    let list = client.get(path).await.json();
    let names = list["items"].as_array().expect("a list").iter().map(|item| item["metadata"]["name"].to_string());
    names.collect()
}

fn text(path: &'static str, body: &str, code: u16, message: &'static str) -> (&'static str, Vec<u8>, u16, &'static str) {
    (path, body.as_bytes().to_vec(), code, message)
}

fn nested(open: &str, close: &str) -> String {
    format!("{}{}", open.repeat(DEEP), close.repeat(DEEP))
}

#[tokio::test]
async fn json_that_is_not_what_it_should_be_is_refused() {
    let quota = |amount: &str| format!(r#"{{"metadata":{{"name":"a"}},"spec":{{"hard":{{"cpu":"{amount}"}}}}}}"#);
    let replicas = |number: &str| format!(r#"{{"metadata":{{"name":"a"}},"spec":{{"replicas":{number}}}}}"#);
    let grace = |number: &str| format!(r#"{{"metadata":{{"name":"a"}},"spec":{{"terminationGracePeriodSeconds":{number}}}}}"#);
    let deep = |open, close| format!(r#"{{"metadata":{{"name":"a"}},"data":{}}}"#, nested(open, close));
    check(
        JSON,
        vec![
            text(CONFIG_MAPS, r#"{"metadata":{"name":"a"}} {}"#, 400, "trailing characters"),
            text(CONFIG_MAPS, r#"{"metadata":{"name":"a"}}x"#, 400, "trailing characters"),
            text(CONFIG_MAPS, r#"{"metadata":{"name":"a"}"#, 400, "EOF"),
            text(CONFIG_MAPS, "", 400, ""),
            (CONFIG_MAPS, b"{\"metadata\":{\"name\":\"a\"},\"data\":{\"k\":\"\xff\"}}".to_vec(), 400, "invalid unicode"),
            text(CONFIG_MAPS, r#"{"metadata":{"name":"a"},"data":{"k":"\ud800"}}"#, 400, "unexpected end of hex escape"),
            text(CONFIG_MAPS, r#"{"metadata":{"name":"a\u0000b"}}"#, 422, "metadata.name: Invalid value"),
            text(CONFIG_MAPS, r#"{"metadata":{"name":"a","labels":{"l":"\u0000"}}}"#, 422, "metadata.labels: Invalid value"),
            text(DEPLOYMENTS, &replicas("2147483648"), 400, "spec.replicas: invalid value: integer `2147483648`, expected i32"),
            text(DEPLOYMENTS, &replicas("-2147483649"), 400, "spec.replicas: invalid value"),
            text(DEPLOYMENTS, &replicas("1.5"), 400, "spec.replicas: invalid type"),
            text(DEPLOYMENTS, &replicas("1e400"), 400, "number out of range"),
            text(PODS, &grace("9223372036854775808"), 400, "spec.terminationGracePeriodSeconds: invalid value"),
            text(PODS, &grace("123456789012345678901234567890"), 400, "spec.terminationGracePeriodSeconds: invalid type"),
            text(QUOTAS, &quota("1e1000"), 400, "spec.hard.cpu"),
            text(QUOTAS, &quota("1e-1000"), 400, "spec.hard.cpu"),
            text(QUOTAS, &quota("1e99999999999999999999"), 400, "spec.hard.cpu"),
            text(QUOTAS, &quota("1\\u0000"), 400, "spec.hard.cpu"),
            text(CONFIG_MAPS, &deep("[", "]"), 400, "recursion limit exceeded"),
            text(CONFIG_MAPS, &deep("{\"a\":", "}"), 400, "recursion limit exceeded"),
            text(CONFIG_MAPS, &"[".repeat(1 << 20), 400, "recursion limit exceeded"),
        ],
    )
    .await;
}

#[tokio::test]
async fn duplicate_members_are_refused_where_that_is_asked_for() {
    let twice = r#"{"metadata":{"name":"a"},"data":{"k":"1","k":"2"}}"#;
    let strict = "/api/v1/namespaces/default/configmaps?fieldValidation=Strict";
    check(JSON, vec![text(strict, twice, 400, "duplicate field \"data.k\"")]).await;
    let server = TestServer::start().await;
    let mut client = server.admin().await;
    let warned = client.send(Method::POST, CONFIG_MAPS, &[("content-type", JSON)], twice).await;
    assert_eq!((warned.code.as_u16(), &warned.json()["data"]["k"]), (201, &json!("2")));
    assert!(warned.header("warning").is_some_and(|text| text.contains("duplicate field")), "{:?}", warned.headers);
}

#[tokio::test]
async fn yaml_that_is_not_what_it_should_be_is_refused() {
    let laughs = |levels: usize, width: usize| {
        let level = |n: usize| format!("l{n}: &l{n} [{}]\n", vec![format!("*l{}", n - 1); width].join(", "));
        format!("metadata: {{name: a}}\nl0: &l0 [lol]\n{}", (1..levels).map(level).collect::<String>())
    };
    let deep = |open, close| format!("{{metadata: {{name: a}}, data: {}}}", nested(open, close));
    let staircase = (0..1000).map(|n| format!("{}a:\n", " ".repeat(n))).collect::<String>();
    check(
        YAML,
        vec![
            text(CONFIG_MAPS, "metadata: {name: a}\n---\nmetadata: {name: b}\n", 400, "multiple YAML documents"),
            text(CONFIG_MAPS, "metadata: {name: a}}", 400, "error converting YAML to JSON"),
            (CONFIG_MAPS, b"metadata: {name: a}\ndata: {k: \"\xff\"}\n".to_vec(), 400, "UTF-8"),
            text(CONFIG_MAPS, "metadata: {name: \"a\\0b\"}\n", 422, "metadata.name: Invalid value"),
            text(CONFIG_MAPS, "metadata: {name: a}\ndata: {k: '1', k: '2'}\n", 400, "duplicate"),
            text(DEPLOYMENTS, "metadata: {name: a}\nspec: {replicas: 2147483648}\n", 400, "expected i32"),
            text(PODS, "metadata: {name: a}\nspec: {terminationGracePeriodSeconds: 9223372036854775808}\n", 400, "invalid value"),
            text(QUOTAS, "metadata: {name: a}\nspec: {hard: {cpu: 1e1000}}\n", 400, "non-finite"),
            text(QUOTAS, "metadata: {name: a}\nspec: {hard: {cpu: '1e1000'}}\n", 400, "spec.hard.cpu"),
            text(CONFIG_MAPS, &laughs(10, 10), 400, "error converting YAML to JSON"),
            text(CONFIG_MAPS, &laughs(3, 2000), 400, "error converting YAML to JSON"),
            text(CONFIG_MAPS, "metadata: {name: a}\ndata: &a {k: *a}\n", 400, "error converting YAML to JSON"),
            text(CONFIG_MAPS, &deep("[", "]"), 400, "error converting YAML to JSON"),
            text(CONFIG_MAPS, &deep("{a: ", "}"), 400, "error converting YAML to JSON"),
            text(CONFIG_MAPS, &deep("- ", ""), 400, "error converting YAML to JSON"),
            text(CONFIG_MAPS, &staircase, 400, "error converting YAML to JSON"),
        ],
    )
    .await;
}

/// Writes a field of bytes.
fn put(out: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    out.push(number << 3 | 2);
    let mut length = bytes.len();
    while 0x80 <= length {
        out.push(u8::try_from(length & 0x7f).expect("seven bits") | 0x80);
        length >>= 7;
    }
    out.push(u8::try_from(length).expect("seven bits"));
    out.extend_from_slice(bytes);
}

fn message(fields: &[(u8, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, bytes) in fields {
        put(&mut out, *number, bytes);
    }
    out
}

/// Returns a body of a kind, with the name `a` and further fields.
fn body(api_version: &str, kind: &str, fields: &[u8]) -> Vec<u8> {
    let metadata = message(&[(1, &message(&[(1, b"a")]))]);
    named(api_version, kind, &[metadata.as_slice(), fields].concat())
}

fn named(api_version: &str, kind: &str, object: &[u8]) -> Vec<u8> {
    let kind = message(&[(1, api_version.as_bytes()), (2, kind.as_bytes())]);
    [b"k8s\0".as_slice(), &message(&[(1, &kind), (2, object)])].concat()
}

#[tokio::test]
async fn protobuf_that_is_not_what_it_should_be_is_refused() {
    let good = body("v1", "ConfigMap", b"");
    let spec = |fields: &[u8]| message(&[(2, fields)]);
    let amount = message(&[(1, b"cpu"), (2, &message(&[(1, b"1e1000")]))]);
    let data = |raw: &[u8]| message(&[(2, &message(&[(1, raw)]))]);
    let mut matryoshka = b"{}".to_vec();
    for _ in 0..1000 {
        matryoshka = body("apps/v1", "ControllerRevision", &data(&matryoshka));
    }
    let name_with_nul = named("v1", "ConfigMap", &message(&[(1, &message(&[(1, b"a\0b")]))]));
    check(
        PROTOBUF,
        vec![
            (CONFIG_MAPS, [good.as_slice(), b"\xff"].concat(), 400, "unexpected end of data"),
            (CONFIG_MAPS, [good.as_slice(), b"garbage"].concat(), 400, "could not be decoded"),
            (CONFIG_MAPS, good[..good.len() - 1].to_vec(), 400, "unexpected end of data"),
            (CONFIG_MAPS, b"k8s\0".to_vec(), 400, "Kind"),
            (CONFIG_MAPS, b"{}".to_vec(), 400, "prefix"),
            (CONFIG_MAPS, body("v1", "ConfigMap", &message(&[(2, &message(&[(1, b"k"), (2, b"\xff")]))])), 400, "data[k]: invalid UTF-8"),
            (CONFIG_MAPS, name_with_nul, 422, "metadata.name: Invalid value"),
            (
                DEPLOYMENTS,
                body("apps/v1", "Deployment", &spec(b"\x08\x80\x80\x80\x80\x08")),
                400,
                "spec.replicas: a number out of the range",
            ),
            (DEPLOYMENTS, body("apps/v1", "Deployment", &spec(&[b"\x08".as_slice(), &[0xff; 10]].concat())), 400, "overflows 64 bits"),
            (QUOTAS, body("v1", "ResourceQuota", &message(&[(2, &message(&[(1, &amount)]))])), 400, "spec.hard.cpu"),
            (REVISIONS, body("apps/v1", "ControllerRevision", &data(nested("[", "]").as_bytes())), 400, "recursion limit exceeded"),
            (REVISIONS, body("apps/v1", "ControllerRevision", &data(b"{} {}")), 400, "data: invalid JSON"),
            (REVISIONS, matryoshka, 400, "exceeded max depth"),
        ],
    )
    .await;
}

#[tokio::test]
async fn patches_that_nest_too_deep_are_refused() {
    let server = TestServer::start().await;
    let mut client = server.admin().await;
    let object = json!({"metadata": {"name": "a"}, "data": {"k": "1"}});
    assert_eq!(client.post(CONFIG_MAPS, &object).await.code, 201);
    let deep = nested(r#"{"a":"#, "}");
    let path = format!("{CONFIG_MAPS}/a");
    for (media_type, body) in [
        ("application/merge-patch+json", format!(r#"{{"data":{deep}}}"#)),
        ("application/strategic-merge-patch+json", format!(r#"{{"data":{deep}}}"#)),
        ("application/json-patch+json", format!(r#"[{{"op":"add","path":"/data/d","value":{deep}}}]"#)),
        ("application/json-patch+json", format!(r#"[{{"op":"add","path":"{}","value":1}}]"#, "/a".repeat(DEEP))),
        ("application/apply-patch+yaml", format!("{{apiVersion: v1, kind: ConfigMap, data: {}}}", nested("{a: ", "}"))),
    ] {
        let query = if media_type.contains("apply") { "?fieldManager=m" } else { "" };
        let answer = client.send(Method::PATCH, &format!("{path}{query}"), &[("content-type", media_type)], body).await;
        assert!((400..=422).contains(&answer.code.as_u16()), "{media_type}: {}", answer.text());
    }
    assert_eq!(client.get(&path).await.json()["data"], json!({"k": "1"}));
}
