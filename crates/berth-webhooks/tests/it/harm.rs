//! Webhooks that hang, lie, answer too much or send the server elsewhere.

use crate::{
    cluster::{Cluster, config_map, hook, merged},
    server::{Reply, WebhookServer},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use berth_webhooks::ANSWER_BYTES_MAX;
use futures::future::join_all;
use serde_json::{Value, json};

/// The answer to a patch that does not apply.
const MISFIT: &str = "replace operation does not apply: doc is missing path: /nope/x: missing value";

fn response(path: &str) -> Reply {
    let patch =
        |operations: Value| json!({"allowed": true, "patch": BASE64_STANDARD.encode(operations.to_string()), "patchType": "JSONPatch"});
    match path {
        "/allow" => Reply::Response(json!({"allowed": true})),
        "/uid" => Reply::Response(json!({"uid": "x", "allowed": true})),
        "/absent" => Reply::body(r#"{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}"#),
        "/other" => Reply::body(r#"{"apiVersion": "v1", "kind": "Pod"}"#),
        "/older" => Reply::body(r#"{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "response": {"allowed": true}}"#),
        "/garbage" => Reply::body("hello"),
        "/empty" => Reply::body(""),
        "/500" => Reply::Raw("500 Internal Server Error", String::new(), b"oops".to_vec()),
        "/big" => Reply::body(vec![b'x'; 10 << 20]),
        "/redirect" => Reply::Raw("307 Temporary Redirect", "Location: /allow\r\n".to_owned(), b"{}".to_vec()),
        "/root" => Reply::Response(patch(json!([{"op": "replace", "path": "", "value": 5}]))),
        "/kind" => Reply::Response(patch(json!([{"op": "replace", "path": "/kind", "value": "Secret"}]))),
        "/misfit" => Reply::Response(patch(json!([{"op": "replace", "path": "/nope/x", "value": 1}]))),
        "/type" => Reply::Response(patch(json!([{"op": "add", "path": "/data", "value": 5}]))),
        _ => Reply::Hang,
    }
}

/// Returns the error for a mutating webhook that answers as the path states.
async fn error(cluster: &Cluster, webhook: &WebhookServer, path: &str) -> String {
    cluster.configure("Mutating", json!([merged(hook(webhook, "h", path), &json!({"timeoutSeconds": 1}))])).await;
    cluster.refused("configmaps", &config_map("x")).await
}

/// The texts are those of a real 1.36.2, but for those of parsers, of patches, and for what berth refuses and upstream does not.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_cannot_be_used_fails_the_request() {
    let webhook = WebhookServer::start(|path, _| response(path)).await;
    let cluster = Cluster::new().await;
    let failed = |why: &str| format!("failed calling webhook \"h.example.com\": {why}");
    for (path, why) in [
        ("/absent", "received invalid webhook response: webhook response was absent".to_owned()),
        ("/other", "failed to call webhook: no kind \"Pod\" is registered for version \"v1\"".to_owned()),
        ("/empty", "failed to call webhook: 0-length response with status code: 200 and content type: application/json".to_owned()),
        ("/500", "failed to call webhook: an error on the server (\"unknown\") has prevented the request from succeeding".to_owned()),
        ("/big", format!("failed to call webhook: the answer is larger than {ANSWER_BYTES_MAX} bytes")),
        ("/redirect", "failed to call webhook: it answered with a redirection (307), which is not followed".to_owned()),
        ("/older", "failed to call webhook: converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion".to_owned()),
        ("/hang", format!("failed to call webhook: Post \"https://{}/hang?timeout=1s\": context deadline exceeded", webhook.address)),
    ] {
        assert_eq!(error(&cluster, &webhook, path).await, failed(&why), "{path}");
    }
    let uid = error(&cluster, &webhook, "/uid").await;
    assert!(uid.starts_with(&failed("received invalid webhook response: expected response.uid=")) && uid.ends_with("got \"x\""), "{uid}");
    assert!(error(&cluster, &webhook, "/garbage").await.starts_with(&failed("failed to call webhook: ")));
    assert_eq!(error(&cluster, &webhook, "/misfit").await, MISFIT);
    assert!(error(&cluster, &webhook, "/kind").await.contains("can take the place of"));
    for path in ["/root", "/type"] {
        error(&cluster, &webhook, path).await;
    }
    assert!(webhook.taken().iter().all(|(path, _)| !path.starts_with("/allow")), "no redirection was followed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_policy_ignores_failures_but_no_patch_that_does_not_apply() {
    let webhook = WebhookServer::start(|path, _| response(path)).await;
    let cluster = Cluster::new().await;
    for (index, path) in ["/uid", "/garbage", "/500", "/big", "/redirect"].iter().enumerate() {
        let ignoring = merged(hook(&webhook, "h", path), &json!({"failurePolicy": "Ignore"}));
        cluster.configure("Mutating", json!([ignoring.clone()])).await;
        cluster.configure("Validating", json!([ignoring])).await;
        let written = cluster.create_with("configmaps", &config_map(&format!("x{index}")), &Default::default()).await.expect(path);
        let names: Vec<&str> = written.audit.iter().map(|(name, _)| &**name).collect();
        let wanted = [
            "failed-open.mutation.webhook.admission.k8s.io/round_0_index_0",
            "mutation.webhook.admission.k8s.io/round_0_index_0",
            "failed-open.validating.webhook.admission.k8s.io/round_0_index_0",
        ];
        assert_eq!(names, wanted, "{path}");
    }
    cluster.configure("Validating", json!([])).await;
    cluster.configure("Mutating", json!([merged(hook(&webhook, "h", "/misfit"), &json!({"failurePolicy": "Ignore"}))])).await;
    assert_eq!(cluster.refused("configmaps", &config_map("y")).await, MISFIT);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_authority_a_closed_port_and_a_missing_service_are_named() {
    let (webhook, other) = (WebhookServer::start(|path, _| response(path)).await, WebhookServer::start(|path, _| response(path)).await);
    let cluster = Cluster::new().await;
    let refused = async |client: Value| {
        cluster.configure("Validating", json!([merged(hook(&webhook, "h", "/"), &json!({"clientConfig": client}))])).await;
        cluster.refused("configmaps", &config_map("x")).await.replace("failed calling webhook \"h.example.com\": ", "")
    };
    let url = format!("https://{}/allow", webhook.address);
    let posted = format!("failed to call webhook: Post \"{url}?timeout=10s\": ");
    let wrong = json!({"url": url, "caBundle": other.client("/")["caBundle"]});
    assert_eq!(refused(wrong).await, format!("{posted}tls: failed to verify certificate: x509: certificate signed by unknown authority"));
    let garbage = json!({"url": url, "caBundle": BASE64_STANDARD.encode("garbage")});
    let unparsed = "could not get REST client: unable to load root certificates: unable to parse bytes as PEM block";
    assert_eq!(refused(garbage).await, unparsed);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let client = json!({"url": format!("https://{closed}/x"), "caBundle": webhook.client("/")["caBundle"]});
    let wanted = format!("failed to call webhook: Post \"https://{closed}/x?timeout=10s\": dial tcp {closed}: connect: connection refused");
    assert_eq!(refused(client).await, wanted);
    let missing = json!({"service": {"namespace": "default", "name": "nope", "path": "/x"}});
    let wanted = "failed to call webhook: Post \"https://nope.default.svc:443/x?timeout=10s\": service \"nope\" not found";
    assert_eq!(refused(missing).await, wanted);
}

#[tokio::test(flavor = "multi_thread")]
async fn sixty_hanging_requests_delay_no_other_request() {
    let webhook =
        WebhookServer::start(|path, review| if review["request"]["name"] == "quick" { response("/allow") } else { response(path) }).await;
    let cluster = Cluster::new().await;
    cluster.configure("Validating", json!([merged(hook(&webhook, "h", "/hang"), &json!({"timeoutSeconds": 30}))])).await;
    let hanging: Vec<_> = (0..60)
        .map(|index| {
            let cluster = cluster.clone();
            tokio::spawn(async move { cluster.create("configmaps", &config_map(&format!("slow{index}"))).await })
        })
        .collect();
    while webhook.connections() < 60 {
        tokio::task::yield_now().await;
    }
    let secret = |index: usize| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("s{index}")}});
    join_all((0..100).map(async |index| cluster.create("secrets", &secret(index)).await.expect("no webhook"))).await;
    cluster.create("configmaps", &config_map("quick")).await.expect("the same webhook answers this one");
    assert!(hanging.iter().all(|task| !task.is_finished()), "the others were faster than the timeout");
    hanging.iter().for_each(tokio::task::JoinHandle::abort);
}

/// The text is that of a real 1.36.2.
#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_cannot_change_an_object_that_is_deleted() {
    let webhook = WebhookServer::start(|path, _| response(path)).await;
    let cluster = Cluster::new().await;
    cluster.create("configmaps", &config_map("x")).await.expect("no webhook");
    cluster.configure("Mutating", json!([merged(hook(&webhook, "h", "/type"), &json!({"failurePolicy": "Ignore"}))])).await;
    let refused = cluster.delete("configmaps", "x").await.expect_err("it has a patch").to_string();
    let wanted = "admission webhook \"h.example.com\" attempted to modify the object, which is not supported for this operation";
    assert_eq!(refused, wanted);
    cluster.configure("Mutating", json!([])).await;
    cluster.delete("configmaps", "x").await.expect("it is still there");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_kept() {
    let webhook = WebhookServer::start(|path, _| response(path)).await;
    let cluster = Cluster::new().await;
    cluster.configure("Validating", json!([hook(&webhook, "h", "/allow")])).await;
    for index in 0..10 {
        cluster.create("configmaps", &config_map(&format!("x{index}"))).await.expect("allowed");
    }
    assert_eq!((webhook.taken().len(), webhook.connections()), (10, 1));
}
