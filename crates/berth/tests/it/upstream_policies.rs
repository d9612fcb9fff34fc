//! Admission policies against the recorded answers of Kubernetes 1.36.2.
//!
//! `upstream_policies.json` has one situation per line: the objects that exist, then requests, each with the server's answer. `{n}` is the situation's
//! own namespace, and the name of its policies. Objects are compared without what a server sets, texts exactly.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common::{self, PATIENCE};
use http_body_util::BodyExt;
use kube::{Client, client::Body};
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};

const SITUATIONS: &str = include_str!("upstream_policies.json");

/// A user without other rights than to create ConfigMaps, as when the answers were recorded.
const CARL: &str = r#"[
    {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "carl"},
     "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}]},
    {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "carl"},
     "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "carl"},
     "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "carl"}]}
]"#;

/// What a server sets.
const SERVERS: [&str; 6] = ["uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "selfLink"];

#[tokio::test]
async fn policies_answer_as_upstream() {
    let berth = common::up(&["--store", "memory", "--nodes", "0"]);
    let client = berth.kube_client().await;
    for object in serde_json::from_str::<Vec<Value>>(CARL).unwrap() {
        assert_eq!(create(&client, &object).await["code"], 201);
    }
    let mut situations: Vec<Value> = serde_json::from_str(SITUATIONS).unwrap();
    for (place, situation) in situations.iter_mut().enumerate() {
        let namespace = format!("s{place:03}");
        *situation = serde_json::from_str(&situation.to_string().replace("{n}", &namespace)).unwrap();
        create(&client, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})).await;
    }
    // The policies of all situations exist at once, and after all other objects, as when the answers were recorded.
    let all = || situations.iter().flat_map(|situation| situation["setup"].as_array().unwrap());
    let is_policy = |object: &&Value| object["apiVersion"] == "admissionregistration.k8s.io/v1";
    for object in all().filter(|object| !is_policy(object)).chain(all().filter(is_policy)) {
        let answer = create(&client, object).await;
        assert_eq!(answer["code"], 201, "{object}: {answer}");
    }
    let mut different = Vec::new();
    for situation in &situations {
        for request in situation["requests"].as_array().unwrap() {
            let (found, wanted) = (sent(&client, request).await, &request["answer"]);
            if found != *wanted {
                different.push(format!("{}\n  berth:    {found}\n  upstream: {wanted}", situation["name"]));
            }
        }
    }
    assert!(different.is_empty(), "{} requests:\n{}", different.len(), different.join("\n"));
}

/// Sends a request, and returns the answer in its recorded form.
async fn sent(client: &Client, request: &Value) -> Value {
    let object = &request["object"];
    let text = |member: &str| request[member].as_str();
    let mut path = path_of(object, text("do") != Some("create"));
    path.extend(text("sub").map(|sub| format!("/{sub}")));
    path.extend(text("query").map(|query| format!("?{query}")));
    let answer = match text("do").unwrap() {
        "create" => send(client, "POST", &path, object, text("user")).await,
        "patch" => send(client, "PATCH", &path, &request["patch"], text("user")).await,
        "delete" => send(client, "DELETE", &path, &Value::Null, None).await,
        _ => return part(client, &path, text("part").unwrap()).await,
    };
    recorded(answer, text("do") == Some("delete"), request["answer"].get("details").is_some())
}

/// Reads a part of an object as soon as a controller has written it.
async fn part(client: &Client, path: &str, part: &str) -> Value {
    let until = Instant::now() + PATIENCE;
    loop {
        let found = send(client, "GET", path, &Value::Null, None).await;
        if found["body"][part]["observedGeneration"].is_number() || until < Instant::now() {
            return json!({"code": found["code"], "part": found["body"][part]});
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn recorded(sent: Value, is_deletion: bool, has_details: bool) -> Value {
    let (code, mut body, warnings) = (sent["code"].clone(), sent["body"].clone(), &sent["warnings"]);
    let mut answer = json!({"code": code});
    if body["kind"] == "Status" && body["status"] == "Failure" {
        for member in ["reason", "message"].into_iter().chain(has_details.then_some("details")) {
            answer[member] = body[member].clone();
        }
    } else if !is_deletion {
        let members = body.as_object_mut().unwrap();
        members.remove("status");
        let metadata = members.get_mut("metadata").and_then(Value::as_object_mut).unwrap();
        SERVERS.iter().for_each(|member| _ = metadata.remove(*member));
        answer["object"] = body;
    }
    if warnings.as_array().is_some_and(|warnings| !warnings.is_empty()) {
        answer["warnings"] = warnings.clone();
    }
    answer
}

async fn create(client: &Client, object: &Value) -> Value {
    send(client, "POST", &path_of(object, false), object, None).await
}

async fn send(client: &Client, method: &str, path: &str, body: &Value, user: Option<&str>) -> Value {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let mut request = http::Request::builder().method(method).uri(path).header("Content-Type", kind);
    if let Some(user) = user {
        request = request.header("Impersonate-User", user).header("Impersonate-Group", "system:authenticated");
    }
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let (head, body) = client.send(request.body(Body::from(body)).unwrap()).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let warnings = head.headers.get_all("Warning").iter().map(|warning| {
        let text = warning.to_str().unwrap();
        text.split_once('"').unwrap().1.strip_suffix('"').unwrap()
    });
    json!({
        "code": head.status.as_u16(),
        "body": serde_json::from_slice(&body).unwrap_or(Value::Object(Map::new())),
        "warnings": warnings.collect::<Vec<_>>(),
    })
}

fn path_of(object: &Value, is_named: bool) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let (api_version, kind) = (text("/apiVersion").unwrap(), text("/kind").unwrap().to_lowercase());
    let root = if api_version.contains('/') { "apis" } else { "api" };
    let plural = kind.strip_suffix('y').map_or_else(|| format!("{kind}s"), |stem| format!("{stem}ies"));
    let namespace = text("/metadata/namespace").map(|namespace| format!("/namespaces/{namespace}")).unwrap_or_default();
    let name = text("/metadata/name").filter(|_| is_named).map(|name| format!("/{name}")).unwrap_or_default();
    format!("/{root}/{api_version}{namespace}/{plural}{name}")
}
