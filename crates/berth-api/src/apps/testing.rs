//! Objects for the tests of this folder, as clients send them.

use super::{Deployment, ReplicaSet, StatefulSet};
use crate::{FeatureGates, FieldError, Kind};
use serde_json::{Value, json};

/// Returns a small valid object with `patch` merged in (RFC 7396), decoded and defaulted.
fn build<K: Kind>(patch: Value) -> K {
    let mut value = json!({
        "metadata": {"name": "w", "namespace": "n"},
        "spec": {
            "selector": {"matchLabels": {"app": "w"}},
            "template": {
                "metadata": {"labels": {"app": "w"}},
                "spec": {"restartPolicy": "Always", "containers": [{"name": "c", "image": "i:1"}]},
            },
        },
    });
    merge(&mut value, patch);
    let (mut object, unknown) = crate::decode::decode::<K>(value).expect("decodes");
    assert_eq!(unknown, Vec::<String>::new());
    crate::ObjectStrategy::set_defaults(&mut object);
    object
}

fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        let target = target.as_object_mut().expect("made one above");
        if value.is_null() {
            target.remove(&key);
        } else {
            merge(target.entry(key).or_insert(Value::Null), value);
        }
    }
}

pub(super) fn deployment(patch: Value) -> Deployment {
    build(patch)
}

pub(super) fn replica_set(patch: Value) -> ReplicaSet {
    build(patch)
}

pub(super) fn stateful_set(patch: Value) -> StatefulSet {
    build(patch)
}

/// Returns the default gates with these settings, in the format of the command line.
pub(super) fn gates(text: &str) -> FeatureGates {
    FeatureGates::parse(text).expect("known gates")
}

/// Compares errors by their prefixes.
pub(super) fn check(faults: &[FieldError], wanted: &[&str]) {
    let found: Vec<String> = faults.iter().map(ToString::to_string).collect();
    let same = found.len() == wanted.len() && found.iter().zip(wanted).all(|(found, wanted)| found.starts_with(wanted));
    assert!(same, "found {found:#?}, wanted {wanted:#?}");
}

/// Checks that an object survives encoding and decoding, and that `apiVersion`, `kind` and `metadata` come first.
pub(super) fn check_round_trip<K: Kind>(object: &K) {
    let bytes = crate::Object::encode(object);
    let start = format!(r#"{{"apiVersion":"{}","kind":"{}","metadata":{{"#, K::API_VERSION, K::KIND);
    assert!(bytes.starts_with(start.as_bytes()), "{}", String::from_utf8_lossy(&bytes));
    assert_eq!(&crate::decode::decode_bytes::<K>(&bytes).expect("decodes"), object);
}
