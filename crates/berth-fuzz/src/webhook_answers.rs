//! What webhooks answer: reviews and conversions. Whatever an answer is, it leaves bounded texts without control characters for clients and the audit
//! log, a patch that is a list of operations, and converted objects that are the ones that were sent.

use berth_admission::{ConversionReview, Hook, ReviewVersion, read_converted, read_verdict};
use berth_registry::patch;
use serde_json::{Value, json};

/// The uid of every review.
const UID: &str = "u";

fn check_verdict(version: ReviewVersion, hook: Hook, answer: &[u8]) {
    let verdict = match read_verdict(version, UID, hook, answer) {
        Ok(verdict) => verdict,
        Err(fault) => return assert!(!fault.to_string().is_empty()),
    };
    assert!(verdict.warnings.len() <= 32 && verdict.annotations.len() <= 32);
    for warning in &verdict.warnings {
        assert!(!warning.is_empty() && warning.len() <= 256 && !warning.chars().any(char::is_control), "{warning:?}");
    }
    assert!(verdict.denial.is_none_or(|denial| (400..600).contains(&denial.code)));
    let Some(changes) = verdict.patch else { return };
    assert_eq!(hook, Hook::Mutating, "only a mutating webhook changes something");
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "b"}});
    // It may not apply. It never panics.
    let _ = patch::json(&object, &changes);
}

fn identity(object: &Value) -> [Value; 4] {
    ["/kind", "/metadata/name", "/metadata/namespace", "/metadata/uid"].map(|path| object.pointer(path).cloned().unwrap_or_default())
}

fn check_conversion(answer: &[u8]) {
    let object = |name: &str| {
        let metadata = json!({"name": name, "namespace": "n", "uid": "1", "labels": {"l": "1"}, "finalizers": ["a/b"]});
        json!({"apiVersion": "ex.com/v1", "kind": "Gauge", "metadata": metadata, "spec": {"x": 1}})
    };
    for sent in [vec![object("a")], vec![object("a"), object("b")]] {
        let review = ConversionReview { uid: UID, desired: "ex.com/v2", objects: &sent };
        let converted = match read_converted(&review, answer) {
            Ok(converted) => converted,
            Err(fault) => {
                assert!(!fault.to_string().is_empty());
                continue;
            }
        };
        assert_eq!(converted.len(), sent.len());
        for (before, after) in sent.iter().zip(&converted) {
            assert_eq!(identity(before), identity(after));
            assert_eq!((&after["apiVersion"], &after["metadata"]["finalizers"]), (&json!("ex.com/v2"), &before["metadata"]["finalizers"]));
        }
    }
}

/// Reads the input as an answer, and as the response of an answer.
pub fn run(input: &[u8]) {
    let response: Option<Value> = serde_json::from_slice(input).ok();
    let wrapped = |kind: &str, api_version: &str| {
        let mut response = response.clone()?;
        if let Some(members) = response.as_object_mut() {
            members.entry("uid").or_insert_with(|| json!(UID));
        }
        Some(json!({"kind": kind, "apiVersion": api_version, "response": response}).to_string().into_bytes())
    };
    for (version, api_version) in [(ReviewVersion::V1, "admission.k8s.io/v1"), (ReviewVersion::V1Beta1, "admission.k8s.io/v1beta1")] {
        let whole = wrapped("AdmissionReview", api_version);
        for hook in [Hook::Mutating, Hook::Validating] {
            check_verdict(version, hook, input);
            whole.iter().for_each(|answer| check_verdict(version, hook, answer));
        }
    }
    check_conversion(input);
    wrapped("ConversionReview", "apiextensions.k8s.io/v1").iter().for_each(|answer| check_conversion(answer));
}
