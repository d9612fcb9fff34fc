//! Objects that a webhook reviews whose server accepts connections and never answers.

use super::{Attack, Request, SIXTY};
use serde_json::json;
use std::{net::TcpListener, sync::LazyLock, thread};

pub(super) const ATTACK: Attack =
    Attack { name: "hanging-webhook", connections: SIXTY, by_administrator: || vec![configuration()], prepare: Vec::new, request };

/// The label of the objects that the webhook reviews.
const LABEL: &str = "hangs";

/// The port of the server, which runs until the process ends.
static PORT: LazyLock<u16> = LazyLock::new(|| {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // The connections stay open.
    thread::spawn(move || listener.incoming().collect::<Vec<_>>());
    port
});

fn configuration() -> Request {
    let webhook = json!({
        "name": "hanging.example.com", "clientConfig": {"url": format!("https://127.0.0.1:{}/", *PORT)}, "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "timeoutSeconds": 30, "objectSelector": {"matchLabels": {LABEL: "yes"}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
    });
    Request {
        method: "POST",
        path: "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations".to_owned(),
        content_type: "application/json",
        body: json!({"metadata": {"name": "hanging"}, "webhooks": [webhook]}).to_string(),
    }
}

fn request() -> Request {
    Request {
        method: "POST",
        path: "/api/v1/namespaces/default/configmaps?dryRun=All".to_owned(),
        content_type: "application/json",
        body: json!({"metadata": {"name": "reviewed", "labels": {LABEL: "yes"}}}).to_string(),
    }
}
