//! What two templates have otherwise, a line each.

use crate::text::shown;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// `spec.containers[0].image: web:1 → web:2`.
pub fn lines(before: &Value, after: &Value) -> Vec<String> {
    let flat = |template: &Value| {
        let mut leaves = BTreeMap::new();
        flatten(template, String::new(), &mut leaves);
        // What a controller has added to tell its pods apart.
        leaves.remove("metadata.labels.pod-template-hash");
        leaves
    };
    let (before, after) = (flat(before), flat(after));
    let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let text = |value: Option<&String>| value.map_or_else(|| "not set".to_owned(), |value| shown(value));
    let differs = keys.into_iter().filter(|key| before.get(*key) != after.get(*key));
    differs.map(|key| format!("{}: {} → {}", shown(key), text(before.get(key)), text(after.get(key)))).collect()
}

fn flatten(value: &Value, path: String, leaves: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                let dot = if path.is_empty() { "" } else { "." };
                flatten(member, format!("{path}{dot}{key}"), leaves);
            }
        }
        Value::Array(items) => items.iter().enumerate().for_each(|(index, item)| flatten(item, format!("{path}[{index}]"), leaves)),
        Value::Null => (),
        Value::String(text) => drop(leaves.insert(path, text.clone())),
        other => drop(leaves.insert(path, other.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_difference_names_what_is_otherwise_and_nothing_else() {
        let before = json!({"metadata": {"labels": {"app": "web", "pod-template-hash": "a"}}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}});
        let after = json!({
            "metadata": {"labels": {"app": "web", "pod-template-hash": "b"}},
            "spec": {"containers": [{"name": "main", "image": "web:2", "args": ["<b>"]}], "none": null},
        });
        assert_eq!(lines(&before, &after), ["spec.containers[0].args[0]: not set → <b>", "spec.containers[0].image: web:1 → web:2"]);
        assert_eq!(lines(&before, &before), [""; 0]);
    }
}
