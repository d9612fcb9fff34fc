//! Manifests.
#![allow(dead_code, reason = "each test uses a part")]

use serde_json::{Value, json};

/// A Deployment of `replicas` pods of the image `main:1`; `spec` is merged into its spec.
pub(crate) fn deployment(replicas: u32, spec: &Value) -> Value {
    let mut deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"terminationGracePeriodSeconds": 600, "containers": [{"name": "main", "image": "main:1"}]},
            },
        },
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        deployment["spec"][key] = value.clone();
    }
    deployment
}

/// The same as a StatefulSet.
pub(crate) fn stateful_set(replicas: u32, spec: &Value) -> Value {
    let mut set = deployment(replicas, spec);
    set["kind"] = json!("StatefulSet");
    set["spec"]["serviceName"] = json!("web");
    set
}
