//! The logs of simulated pods, and the errors for operations that they do not support.

use crate::common::{Client, Protocol, TestServer};
use http_body_util::BodyExt as _;
use hyper::{Method, body::Incoming};
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";
const MERGE: [(&str, &str); 1] = [("content-type", "application/merge-patch+json")];

/// Returns the next piece of a followed log, or `None` at its end.
async fn next_text(body: &mut Incoming) -> Option<String> {
    loop {
        let data = body.frame().await?.expect("the log goes on").into_data().expect("a log has no trailers");
        // HTTP/2 may end with an empty frame.
        if !data.is_empty() {
            return Some(String::from_utf8(data.into()).expect("UTF-8"));
        }
    }
}

async fn set_status(client: &mut Client, name: &str, status: &Value) {
    let patch = json!({"status": status}).to_string();
    let answer = client.send(Method::PATCH, &format!("{PODS}/{name}/status"), &MERGE, patch).await;
    assert_eq!(answer.code, 200, "{}", answer.text());
}

fn running(is_ready: bool) -> Value {
    let container = json!({"name": "c", "image": "i", "imageID": "", "ready": is_ready, "restartCount": 0,
        "state": {"running": {"startedAt": "2026-01-01T00:00:05Z"}}});
    let ready = if is_ready { "True" } else { "False" };
    let condition = json!({"type": "ContainersReady", "status": ready, "lastTransitionTime": "2026-01-01T00:00:05Z"});
    json!({"phase": "Running", "containerStatuses": [container], "conditions": [condition]})
}

/// Creates a pod on a node with a running container.
async fn a_running_pod(client: &mut Client, name: &str, annotations: &Value) {
    let pod = json!({"metadata": {"name": name, "annotations": annotations},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
    assert_eq!(client.post(PODS, &pod).await.code, 201);
    set_status(client, name, &running(false)).await;
}

#[tokio::test]
async fn a_log_is_text_and_refusals_are_upstreams() {
    let server = TestServer::start().await;
    let mut client = server.admin().await;
    let containers = json!([{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]);
    assert_eq!(client.post(PODS, &json!({"metadata": {"name": "unbound"}, "spec": {"containers": containers}})).await.code, 201);
    a_running_pod(&mut client, "p", &json!({"sim.berth.dev/logs": "hello"})).await;
    let whole = "simulated container \"c\" of image \"i\" started\nhello\n";
    let stamped = "2026-01-01T00:00:05.000000000Z hello\n";
    for (path, code, expected) in [
        ("p/log", 200, whole),
        ("p/log?container=c&tailLines=1&timestamps=true", 200, stamped),
        ("p/log?limitBytes=9", 200, "simulated"),
        ("p/log?sinceTime=2026-01-01T00:00:06Z", 200, ""),
        ("p/log?sinceSeconds=5", 200, ""),
        ("unbound/log?container=a", 204, ""),
        ("unbound/log?container=a&follow=true", 204, ""),
        ("unbound/log", 400, "a container name must be specified for pod unbound, choose one of: [a b]"),
        ("p/log?container=z", 400, "container z is not valid for pod p"),
        ("p/log?previous=true", 400, "previous terminated container \"c\" in pod \"p\" not found"),
        ("p/log?tailLines=x", 400, "strconv.ParseInt: parsing \"x\": invalid syntax"),
        ("p/log?sinceTime=bad", 400, "parsing time \"bad\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"bad\""),
        ("p/log?tailLines=-1", 422, "PodLogOptions \"p\" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0"),
        ("none/log", 404, "pods \"none\" not found"),
    ] {
        let answer = client.get(&format!("{PODS}/{path}")).await;
        let text = if answer.code.is_success() { answer.text() } else { answer.json()["message"].as_str().unwrap_or_default().to_owned() };
        assert_eq!((answer.code.as_u16(), text.as_str()), (code, expected), "{path}");
    }
    for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
        assert_eq!(client.send(method.clone(), &format!("{PODS}/p/log"), &MERGE, "{}").await.code, 405, "{method}");
    }
}

#[tokio::test]
async fn a_log_that_is_followed_goes_on_until_the_pod_is_gone() {
    let server = TestServer::start().await;
    let mut admin = server.admin().await;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        a_running_pod(&mut admin, "p", &json!({})).await;
        let mut reader = Client::connect(&server, Some(&server.pki.admin), protocol).await;
        let log = reader.open(Method::GET, &format!("{PODS}/p/log?follow=true"), &[], "").await;
        assert_eq!((log.status().as_u16(), log.headers()["content-type"].as_bytes()), (200, &b"text/plain"[..]));
        let mut log = log.into_body();
        assert_eq!(next_text(&mut log).await.as_deref(), Some("simulated container \"c\" of image \"i\" started\n"));
        set_status(&mut admin, "p", &running(true)).await;
        assert_eq!(next_text(&mut log).await.as_deref(), Some("simulated container \"c\" is ready\n"));
        let answer = admin.send(Method::DELETE, &format!("{PODS}/p?gracePeriodSeconds=0"), &[], "").await;
        assert_eq!(answer.code, 200);
        assert_eq!(next_text(&mut log).await, None, "{protocol:?}");
    }
}

#[tokio::test]
async fn followed_logs_count_among_the_watches_of_a_user() {
    let server = TestServer::start_limited(berth_apiserver::Limits { watches_per_user: 1, ..berth_apiserver::Limits::default() }).await;
    let mut admin = server.admin().await;
    a_running_pod(&mut admin, "p", &json!({})).await;
    server.let_edit("team").await;
    let path = format!("{PODS}/p/log?follow=true");
    let first = server.user("u", &["team"]).await.open(Method::GET, &path, &[], "").await;
    assert_eq!(first.status(), 200);
    let second = server.user("u", &["team"]).await.get(&path).await;
    assert_eq!(second.code, 429, "{}", second.text());
}

#[tokio::test]
async fn what_needs_a_running_container_is_refused_with_the_reason() {
    let server = TestServer::start().await;
    let mut admin = server.admin().await;
    a_running_pod(&mut admin, "p", &json!({})).await;
    server.let_edit("team").await;
    let services = "/api/v1/namespaces/default/services";
    for (method, path, why) in [
        (Method::GET, format!("{PODS}/p/exec?command=ls"), "pods are simulated: no container runs in which a command could be executed"),
        (Method::POST, format!("{PODS}/p/exec?command=ls"), "pods are simulated: no container runs in which a command could be executed"),
        (Method::POST, format!("{PODS}/p/attach"), "pods are simulated: no container runs to which one could attach"),
        (Method::GET, format!("{PODS}/p/portforward?ports=80"), "pods are simulated: no container runs to which a port could be forwarded"),
        (Method::GET, format!("{PODS}/p/proxy/a/b"), "pods are simulated: no container runs that could answer"),
        (Method::GET, format!("{services}/http:web:80/proxy/"), "pods are simulated: none of this service could answer"),
    ] {
        let upgrade = [("connection", "upgrade"), ("upgrade", "websocket"), ("sec-websocket-version", "13"), ("sec-websocket-key", "eA==")];
        for headers in [&[][..], &upgrade] {
            let answer = server.user("u", &["team"]).await.send(method.clone(), &path, headers, "").await;
            let found = answer.json();
            assert_eq!((answer.code.as_u16(), found["reason"].as_str()), (405, Some("MethodNotAllowed")), "{method} {path}");
            assert_eq!(found["message"], why, "{method} {path}");
        }
        // An unauthorized user does not get the reason.
        assert_eq!(server.user("stranger", &[]).await.send(method.clone(), &path, &[], "").await.code, 403, "{method} {path}");
    }
    let debug = admin.send(Method::PATCH, &format!("{PODS}/p/ephemeralcontainers"), &MERGE, "{}").await;
    assert_eq!(
        (debug.code.as_u16(), debug.json()["message"].as_str()),
        (405, Some("pods are simulated: no ephemeral container could run beside the others"))
    );
    assert_eq!(admin.get("/api/v1/nodes/n/proxy/metrics").await.json()["message"], "nodes are simulated: no kubelet answers");
    assert_eq!(admin.get(&format!("{PODS}/none/exec")).await.json()["message"], "pods \"none\" not found");
    assert_eq!(admin.get(&format!("{PODS}/p/made-up")).await.code, 404);
}
