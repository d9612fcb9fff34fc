//! ConversionReview: what a conversion webhook is asked, and its answer. The answer is untrusted.

use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

/// What a conversion webhook is asked.
#[derive(Clone, Copy, Debug)]
pub struct ConversionReview<'a> {
    /// The identity of this review.
    pub uid: &'a str,
    /// The version that the objects become: `example.com/v2`.
    pub desired: &'a str,
    /// The objects.
    pub objects: &'a [Value],
}

/// The only version of ConversionReview that the server sends.
const REVIEW: &str = "apiextensions.k8s.io/v1";

impl ConversionReview<'_> {
    /// Returns its JSON.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let Self { uid, desired, objects } = self;
        let request = json!({"uid": uid, "desiredAPIVersion": desired, "objects": objects});
        json!({"kind": "ConversionReview", "apiVersion": REVIEW, "request": request}).to_string().into_bytes()
    }
}

/// Why the answer of a conversion webhook cannot be used. The text follows `conversion webhook for KIND`, in upstream's
/// words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConversionFault {
    /// Its answer cannot be read.
    #[error("failed: {0}")]
    Undecodable(String),
    /// It failed, or its answer is to another review.
    #[error("failed: {0}")]
    Failed(String),
    /// It returned another number of objects.
    #[error("returned {found} objects, expected {expected}")]
    Count {
        /// How many it returned.
        found: usize,
        /// How many it was sent.
        expected: usize,
    },
    /// It returned an object of another kind or version.
    #[error("returned invalid object at index {index}: {why}")]
    Kind {
        /// The place of the object.
        index: usize,
        /// What differs.
        why: String,
    },
    /// It returned another object.
    #[error("returned invalid object: {0}")]
    Identity(String),
    /// It returned labels or annotations that are no texts.
    #[error("returned invalid metadata: {0}")]
    Metadata(String),
}

impl ConversionFault {
    /// Returns upstream's label of metrics.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::Undecodable(_) => "conversion_webhook_call_failure",
            Self::Failed(_) => "conversion_webhook_malformed_response_failure",
            Self::Count { .. } => "conversion_webhook_partial_response_failure",
            Self::Kind { .. } | Self::Identity(_) | Self::Metadata(_) => "conversion_webhook_invalid_converted_object_failure",
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireAnswer {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    api_version: String,
    response: Option<WireResponse>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireResponse {
    #[serde(default)]
    uid: String,
    #[serde(default)]
    result: WireResult,
    #[serde(default, deserialize_with = "or_empty")]
    converted_objects: Vec<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireResult {
    status: String,
    message: String,
}

fn or_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Value>, D::Error> {
    Ok(Option::<Vec<Value>>::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads the answer to `review`. The result has the objects in their order, each with the metadata that it had, but for
/// labels and annotations.
///
/// # Errors
/// [`ConversionFault`].
pub fn read_converted(review: &ConversionReview<'_>, answer: &[u8]) -> Result<Vec<Value>, ConversionFault> {
    let answer: WireAnswer = serde_json::from_slice(answer).map_err(|error| ConversionFault::Undecodable(error.to_string()))?;
    if (answer.kind.as_str(), answer.api_version.as_str()) != ("ConversionReview", REVIEW) {
        let why = format!("no kind {:?} is registered for version {:?}", answer.kind, answer.api_version);
        return Err(ConversionFault::Undecodable(why));
    }
    let response = answer.response.ok_or_else(|| ConversionFault::Failed("no response provided".to_owned()))?;
    if response.uid != review.uid {
        return Err(ConversionFault::Failed(format!("expected response.uid={:?}, got {:?}", review.uid, response.uid)));
    }
    let WireResult { status, message } = response.result;
    if status != "Success" {
        let why = if message.is_empty() { format!("response.result.status was '{status}', not 'Success'") } else { message };
        return Err(ConversionFault::Failed(why));
    }
    let (found, expected) = (response.converted_objects.len(), review.objects.len());
    if found != expected {
        return Err(ConversionFault::Count { found, expected });
    }
    let pairs = review.objects.iter().zip(response.converted_objects).enumerate();
    pairs.map(|(index, (before, after))| checked(index, before, after, review.desired)).collect()
}

fn checked(index: usize, before: &Value, mut after: Value, desired: &str) -> Result<Value, ConversionFault> {
    let text = |object: &Value, path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    if !after.is_object() {
        return Err(ConversionFault::Kind { index, why: "it is no JSON object".to_owned() });
    }
    let (kind, version) = (text(&after, "/kind"), text(&after, "/apiVersion"));
    if version != desired {
        return Err(ConversionFault::Kind { index, why: format!("invalid groupVersion (expected {desired}, received {version})") });
    }
    if kind != text(before, "/kind") {
        return Err(ConversionFault::Kind { index, why: format!("invalid kind (expected {}, received {kind})", text(before, "/kind")) });
    }
    for (path, what) in [("/metadata/name", "name"), ("/metadata/namespace", "namespace"), ("/metadata/uid", "UID")] {
        let (before, after) = (text(before, path), text(&after, path));
        if before != after {
            return Err(ConversionFault::Identity(format!("must have the same {what}: {before} != {after}")));
        }
    }
    after["metadata"] = metadata(before, &after)?;
    Ok(after)
}

/// Returns the metadata of `before`, with the labels and annotations of `after`.
fn metadata(before: &Value, after: &Value) -> Result<Value, ConversionFault> {
    let mut metadata = before.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    for field in ["labels", "annotations"] {
        metadata.remove(field);
        let Some(values) = after["metadata"].get(field).filter(|values| !values.is_null()) else { continue };
        let wrong = |why: String| Err(ConversionFault::Metadata(why));
        let Some(members) = values.as_object() else {
            return wrong(format!("invalid metadata.{field} of type {} in converted object", go_type(values)));
        };
        if let Some((key, value)) = members.iter().find(|(_, value)| !value.is_string()) {
            return wrong(format!("metadata.{field}[{key}] must be a string, but is {} in converted object", go_type(value)));
        }
        metadata.insert(field.to_owned(), values.clone());
    }
    Ok(Value::Object(metadata))
}

/// Returns the name of the type in which upstream reads a value.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object() -> Value {
        json!({"apiVersion": "ex.com/v1", "kind": "Gauge", "metadata": {"name": "a", "namespace": "n", "uid": "1", "labels": {"l": "1"}}, "spec": {"x": 1}})
    }

    /// Returns the result for an answer with this response.
    fn read(response: &Value) -> Result<Vec<Value>, String> {
        let review = ConversionReview { uid: "u", desired: "ex.com/v2", objects: &[object()] };
        let answer = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response});
        read_converted(&review, answer.to_string().as_bytes()).map_err(|fault| fault.to_string())
    }

    fn converted(change: impl FnOnce(&mut Value)) -> Result<Vec<Value>, String> {
        let mut object = object();
        object["apiVersion"] = json!("ex.com/v2");
        change(&mut object);
        read(&json!({"uid": "u", "result": {"status": "Success"}, "convertedObjects": [object]}))
    }

    #[test]
    fn a_converted_object_keeps_its_metadata_but_for_labels_and_annotations() {
        let found = converted(|object| {
            object["metadata"]["labels"] = json!({"m": "2"});
            object["metadata"]["finalizers"] = json!(["x/y"]);
            object["spec"] = json!({"y": 2});
        });
        let metadata = json!({"name": "a", "namespace": "n", "uid": "1", "labels": {"m": "2"}});
        assert_eq!(found, Ok(vec![json!({"apiVersion": "ex.com/v2", "kind": "Gauge", "metadata": metadata, "spec": {"y": 2}})]));
    }

    /// The texts are those of a real 1.36.2.
    #[test]
    fn a_converter_that_lies_fails() {
        let lie = |change: fn(&mut Value)| converted(change).expect_err("a lie");
        assert_eq!(lie(|object| object["metadata"]["name"] = json!("zz")), "returned invalid object: must have the same name: a != zz");
        assert_eq!(
            lie(|object| object["metadata"]["namespace"] = json!("zz")),
            "returned invalid object: must have the same namespace: n != zz"
        );
        assert_eq!(lie(|object| object["metadata"]["uid"] = json!("zz")), "returned invalid object: must have the same UID: 1 != zz");
        let kind = "returned invalid object at index 0: invalid kind (expected Gauge, received Other)";
        assert_eq!(lie(|object| object["kind"] = json!("Other")), kind);
        let version = "returned invalid object at index 0: invalid groupVersion (expected ex.com/v2, received x/v9)";
        assert_eq!(lie(|object| object["apiVersion"] = json!("x/v9")), version);
        assert_eq!(lie(|object| object["metadata"] = Value::Null), "returned invalid object: must have the same name: a != ");
        let labels = lie(|object| object["metadata"]["labels"] = json!({"a": 5}));
        assert_eq!(labels, "returned invalid metadata: metadata.labels[a] must be a string, but is int64 in converted object");
        let annotations = lie(|object| object["metadata"]["annotations"] = json!("x"));
        assert_eq!(annotations, "returned invalid metadata: invalid metadata.annotations of type string in converted object");
        let refused = |response: Value| read(&response).expect_err("a fault");
        assert_eq!(refused(Value::Null), "failed: no response provided");
        assert_eq!(refused(json!({"uid": "x", "result": {"status": "Success"}})), "failed: expected response.uid=\"u\", got \"x\"");
        assert_eq!(refused(json!({"uid": "u"})), "failed: response.result.status was '', not 'Success'");
        assert_eq!(refused(json!({"uid": "u", "result": {"status": "Failed", "message": "cannot"}})), "failed: cannot");
        assert_eq!(
            refused(json!({"uid": "u", "result": {"status": "Success"}, "convertedObjects": null})),
            "returned 0 objects, expected 1"
        );
        assert_eq!(
            refused(json!({"uid": "u", "result": {"status": "Success"}, "convertedObjects": [5]})),
            "returned invalid object at index 0: it is no JSON object"
        );
    }
}
