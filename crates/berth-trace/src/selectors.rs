//! The label keys that matter: those that a selector, a node selector, an affinity or a spread constraint names.

use serde_json::Value;
use std::collections::BTreeSet;

/// The maximum number of keys. Further keys are ignored. No real cluster has so many different selectors.
const KEYS_MAX: usize = 4096;

/// Keys that controllers and the scheduler always read.
pub(crate) const ALWAYS: [&str; 6] = [
    berth_api::annotations::POD_TEMPLATE_HASH,
    berth_api::annotations::CONTROLLER_REVISION_HASH,
    berth_api::annotations::STATEFUL_SET_POD_NAME,
    berth_api::annotations::POD_INDEX,
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
];

/// Adds the keys that `value` names. Returns the new ones.
pub(crate) fn take_keys(name: &str, value: &Value, keys: &mut BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    walk(name, value, &mut found);
    found.retain(|key| keys.len() < KEYS_MAX && keys.insert(key.clone()));
    found
}

fn walk(name: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) if name == "matchLabels" || name == "nodeSelector" => found.extend(members.keys().cloned()),
        Value::Object(members) => {
            for (name, value) in members {
                match value {
                    Value::String(key) if name == "key" || name == "topologyKey" => found.push(key.clone()),
                    _ => walk(name, value, found),
                }
            }
        }
        Value::Array(items) if name == "matchLabelKeys" || name == "mismatchLabelKeys" => {
            found.extend(items.iter().filter_map(Value::as_str).map(str::to_owned));
        }
        Value::Array(items) => items.iter().for_each(|item| walk(name, item, found)),
        _ => (),
    }
}
