//! A pod of thousands of containers, each of which something is remarked on.

use super::{Attack, Request, SIXTY};
use serde_json::json;

pub(super) const ATTACK: Attack =
    Attack { name: "containers", connections: SIXTY, by_administrator: Vec::new, prepare: || Vec::new(), request };

fn request() -> Request {
    let containers: Vec<_> =
        (0..6000).map(|at| json!({"name": format!("c{at}"), "image": "i", "ports": [{"containerPort": 80, "name": "http"}]})).collect();
    let pod = json!({"metadata": {"name": "many"}, "spec": {"containers": containers}});
    Request {
        method: "POST",
        path: "/api/v1/namespaces/default/pods?dryRun=All".to_owned(),
        content_type: "application/json",
        body: pod.to_string(),
    }
}
