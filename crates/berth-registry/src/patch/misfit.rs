//! Why an operation of a JSON patch does not fit a document, in the words of upstream's library.
//!
//! Source: `evanphx/json-patch` version 4, which kube-apiserver uses. The texts are those of a real 1.36.2.

use super::pointer::{Pointer, child, get, index};
use serde_json::{Map, Value};

/// An operation that does not fit a document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Misfit {
    text: String,
    /// Whether it is a test that failed, so that the document is another one than the author expected.
    pub is_failed_test: bool,
}

impl Misfit {
    /// Returns why an operation does not fit the document before it.
    pub(super) fn of(doc: &Value, operation: &Map<String, Value>) -> Self {
        let text = |member: &str| operation.get(member).and_then(Value::as_str);
        let name = text("op").unwrap_or("unknown");
        let plain = |text: String| Self { text, is_failed_test: false };
        match (name, text("path"), text("from")) {
            ("add" | "remove", None, _) => plain(format!("{name} operation failed to decode path: missing value")),
            ("replace" | "test", None, _) => {
                plain(format!("{name} operation failed to decode path: operation missing path field: missing value"))
            }
            ("move" | "copy", _, None) => {
                plain(format!("{name} operation failed to decode from: operation, missing from field: missing value"))
            }
            ("move" | "copy", path, Some(from)) => plain(of_two(doc, name, path.unwrap_or_default(), from)),
            ("test", Some(path), _) => match parent(doc, path) {
                Some(_) => Self { text: format!("testing value {path} failed: test failed"), is_failed_test: true },
                None => plain(format!("test operation does not apply: is missing path: {path}: missing value")),
            },
            ("replace", Some(path), _) => match parent(doc, path) {
                Some(_) => plain(format!("replace operation does not apply: doc is missing key: {path}: missing value")),
                None => plain(format!("replace operation does not apply: doc is missing path: {path}: missing value")),
            },
            ("add" | "remove", Some(path), _) => plain(of_one(doc, name, path)),
            _ => plain(format!("Unexpected kind: {name}")),
        }
    }
}

fn of_one(doc: &Value, name: &str, path: &str) -> String {
    match parent(doc, path) {
        Some((parent, key)) => of_key(parent, name, &key, path),
        None => format!("{name} operation does not apply: doc is missing path: {path:?}: missing value"),
    }
}

fn of_two(doc: &Value, name: &str, path: &str, from: &str) -> String {
    let Some((of_from, key)) = parent(doc, from) else {
        return format!("{name} operation does not apply: doc is missing from path: {from}: missing value");
    };
    let is_there = Pointer::parse(from).and_then(|from| get(doc, &from)).flatten().is_some();
    if !is_there && (name == "move" || of_from.is_array()) {
        return of_key(of_from, name, &key, &key);
    }
    match parent(doc, path) {
        Some((parent, key)) => of_key(parent, name, &key, &key),
        None => format!("{name} operation does not apply: doc is missing destination path: {path}: missing value"),
    }
}

/// Returns why a key of a parent cannot be used.
fn of_key(parent: &Value, name: &str, key: &str, path: &str) -> String {
    let why = match (parent, key.parse::<i64>()) {
        (Value::Array(items), Ok(_)) if index(key, items.len()).is_none() => {
            format!("Unable to access invalid index: {key}: invalid index referenced")
        }
        (Value::Array(_), Err(_)) if name == "add" => {
            format!("value was not a proper array index: '{key}': strconv.Atoi: parsing {key:?}: invalid syntax")
        }
        (Value::Array(_), Err(_)) => format!("strconv.Atoi: parsing {key:?}: invalid syntax"),
        (Value::Object(members), _) if !members.contains_key(key) => format!("Unable to remove nonexistent key: {key}: missing value"),
        // The limits of depth, of copies and of moved values.
        _ => return format!("{name} operation does not apply: {path}: the result is too large"),
    };
    format!("error in {name} for path: '{path}': {why}")
}

/// Returns the container at the end of a path, and the key in it.
fn parent<'d>(doc: &'d Value, path: &str) -> Option<(&'d Value, String)> {
    let mut steps = Pointer::parse(path)?.steps;
    let key = steps.pop()?;
    let parent = steps.iter().try_fold(doc, |at, step| child(at, step))?;
    (parent.is_object() || parent.is_array()).then_some((parent, key))
}

#[cfg(test)]
mod tests {
    use crate::patch::{JsonPatchError, json_with_reason};
    use serde_json::json;

    #[test]
    fn an_operation_that_does_not_fit_has_upstreams_words() {
        let doc = json!({"metadata": {"finalizers": ["a/z"]}, "data": {"a": "b"}});
        for (operation, wanted) in [
            (
                json!({"op": "replace", "path": "/nope/x", "value": 1}),
                "replace operation does not apply: doc is missing path: /nope/x: missing value",
            ),
            (
                json!({"op": "replace", "path": "/metadata/finalizers/7", "value": ""}),
                "replace operation does not apply: doc is missing key: /metadata/finalizers/7: missing value",
            ),
            (
                json!({"op": "remove", "path": "/data/zz"}),
                "error in remove for path: '/data/zz': Unable to remove nonexistent key: zz: missing value",
            ),
            (
                json!({"op": "remove", "path": "/nope/x"}),
                "remove operation does not apply: doc is missing path: \"/nope/x\": missing value",
            ),
            (
                json!({"op": "remove", "path": "/data/a/b"}),
                "remove operation does not apply: doc is missing path: \"/data/a/b\": missing value",
            ),
            (
                json!({"op": "remove", "path": "/metadata/finalizers/7"}),
                "error in remove for path: '/metadata/finalizers/7': Unable to access invalid index: 7: invalid index referenced",
            ),
            (
                json!({"op": "remove", "path": "/metadata/finalizers/z"}),
                "error in remove for path: '/metadata/finalizers/z': strconv.Atoi: parsing \"z\": invalid syntax",
            ),
            (
                json!({"op": "add", "path": "/nope/x", "value": 1}),
                "add operation does not apply: doc is missing path: \"/nope/x\": missing value",
            ),
            (
                json!({"op": "add", "path": "data", "value": 1}),
                "add operation does not apply: doc is missing path: \"data\": missing value",
            ),
            (
                json!({"op": "add", "path": "/metadata/finalizers/7", "value": ""}),
                "error in add for path: '/metadata/finalizers/7': Unable to access invalid index: 7: invalid index referenced",
            ),
            (
                json!({"op": "add", "path": "/metadata/finalizers/z", "value": ""}),
                "error in add for path: '/metadata/finalizers/z': value was not a proper array index: 'z': strconv.Atoi: parsing \"z\": invalid syntax",
            ),
            (json!({"op": "add", "value": 1}), "add operation failed to decode path: missing value"),
            (
                json!({"op": "move", "from": "/data/zz", "path": "/data/b"}),
                "error in move for path: 'zz': Unable to remove nonexistent key: zz: missing value",
            ),
            (
                json!({"op": "move", "from": "/nope/x", "path": "/data/b"}),
                "move operation does not apply: doc is missing from path: /nope/x: missing value",
            ),
            (
                json!({"op": "move", "from": "/data/a", "path": "/nope/q"}),
                "move operation does not apply: doc is missing destination path: /nope/q: missing value",
            ),
            (
                json!({"op": "move", "path": "/data/q"}),
                "move operation failed to decode from: operation, missing from field: missing value",
            ),
            (
                json!({"op": "copy", "from": "/nope/x", "path": "/data/b"}),
                "copy operation does not apply: doc is missing from path: /nope/x: missing value",
            ),
            (
                json!({"op": "copy", "from": "/data/a", "path": "/nope/q"}),
                "copy operation does not apply: doc is missing destination path: /nope/q: missing value",
            ),
            (json!({"op": "test", "path": "/data/a", "value": "z"}), "testing value /data/a failed: test failed"),
            (
                json!({"op": "test", "path": "/nope/x", "value": 1}),
                "test operation does not apply: is missing path: /nope/x: missing value",
            ),
            (json!({"op": "test", "value": 1}), "test operation failed to decode path: operation missing path field: missing value"),
            (json!({"op": "frob", "path": "/data/a"}), "Unexpected kind: frob"),
            (json!({"path": "/data/a"}), "Unexpected kind: unknown"),
        ] {
            // An operation before it changes the document that it is applied to.
            let patch = json!([{"op": "add", "path": "/data/q", "value": "x"}, operation]);
            match json_with_reason(&doc, patch.to_string().as_bytes()) {
                Err(JsonPatchError::Misfit(misfit)) => {
                    assert_eq!(misfit.to_string(), wanted);
                    assert_eq!(misfit.is_failed_test, wanted.ends_with(": test failed"));
                }
                other => panic!("{operation}: {other:?}"),
            }
        }
    }
}
