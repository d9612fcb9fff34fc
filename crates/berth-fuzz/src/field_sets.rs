//! FieldsV1 and `managedFields` from any client: accepted or refused, printed as they were read, and sets obey the laws of sets.

use crate::objects::has_floats;
use berth_api::k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use berth_fieldsets::{Managers, PathElement, Set};
use serde_json::Value;

fn laws(a: &Set, b: &Set) {
    assert_eq!(a.clone().union(b), b.clone().union(a));
    assert_eq!(a.intersection(b), b.intersection(a));
    assert_eq!(a.clone().difference(b).union(&a.intersection(b)), *a);
    assert!(a.clone().difference(b).intersection(b).is_empty());
    assert!(a.clone().recursive_difference(b).intersection(b).is_empty());
    assert_eq!(a.leaves().leaves(), a.leaves());
    assert_eq!(Set::of(a.paths()), *a);
    assert!(a.paths().iter().all(|path| a.has(path)));
    let printed: Value = serde_json::from_str(&a.encode()).expect("JSON");
    assert_eq!(Set::from_value(&printed).as_ref(), Ok(a));
    assert_eq!(Set::from_value(&a.to_value()).as_ref(), Ok(a));
}

/// See [`has_floats`].
fn is_exact(element: &PathElement) -> bool {
    match element {
        PathElement::Key(keys) => !keys.iter().any(|(_, value)| has_floats(&value.0)),
        PathElement::Value(value) => !has_floats(&value.0),
        PathElement::Field(_) | PathElement::Index(_) => true,
    }
}

fn has_floats_in_keys(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.iter().any(|(key, value)| {
            has_floats_in_keys(value) || PathElement::decode(key).is_ok_and(|element| element.is_some_and(|e| !is_exact(&e)))
        }),
        Value::Array(items) => items.iter().any(has_floats_in_keys),
        _ => false,
    }
}

// Lines: two sets, then a list of managers' entries, each as JSON; or elements of paths.

/// Runs the target with one input.
///
/// # Panics
/// Where a rule above is broken.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut sets = Vec::new();
    for line in text.lines() {
        if let Ok(Some(element)) = PathElement::decode(line) {
            assert!(!is_exact(&element) || PathElement::decode(&element.encode()) == Ok(Some(element.clone())), "{element:?}");
        }
        let Ok(value) = serde_json::from_str::<Value>(line) else { continue };
        if has_floats_in_keys(&value) {
            continue;
        }
        sets.extend(Set::from_value(&value));
        let Ok(entries) = serde_json::from_value::<Vec<ManagedFieldsEntry>>(value) else { continue };
        if let Ok(managers) = Managers::decode(&entries) {
            assert_eq!(Managers::decode(&managers.encode()), Ok(managers));
        }
    }
    for pair in sets.windows(2) {
        laws(&pair[0], &pair[1]);
    }
}
