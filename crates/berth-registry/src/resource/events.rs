//! Events: one store, two groups. `v1` is the form kept; `events.k8s.io/v1` shows the same events under other field names.

use super::StoredForm;
use berth_api::Object;
use bytes::Bytes;
use serde_json::{Map, Value};

/// Fields of `v1`, each with its name in `events.k8s.io/v1`. All others have one name.
const NAMES: &[(&str, &str)] = &[
    ("count", "deprecatedCount"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("involvedObject", "regarding"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
];

/// Events of `events.k8s.io/v1` are stored as those of `v1`.
pub(crate) struct AsCore;

impl StoredForm for AsCore {
    fn api_version(&self) -> &str {
        "v1"
    }

    fn encode(&self, event: &dyn Object) -> Result<Bytes, String> {
        Ok(to_core(event.to_value()))
    }

    fn show(&self, stored: &[u8]) -> Result<Option<Bytes>, String> {
        from_core(stored).map(Some).ok_or_else(|| "it is no event".to_owned())
    }
}

/// The form kept, of an event of `events.k8s.io/v1`.
fn to_core(event: Value) -> Bytes {
    renamed(event, "v1", |name| NAMES.iter().find(|(_, other)| *other == name).map(|(core, _)| *core))
}

/// The form of `events.k8s.io/v1`; `None` for bytes that are no event.
fn from_core(bytes: &[u8]) -> Option<Bytes> {
    let event: Value = serde_json::from_slice(bytes).ok()?;
    event
        .is_object()
        .then(|| renamed(event, "events.k8s.io/v1", |name| NAMES.iter().find(|(core, _)| *core == name).map(|(_, other)| *other)))
}

fn renamed(event: Value, api_version: &str, name: impl Fn(&str) -> Option<&'static str>) -> Bytes {
    let Value::Object(members) = event else { return Bytes::new() };
    let rename = |(member, value): (String, Value)| match name(&member) {
        Some(other) => (other.to_owned(), value),
        None if member == "apiVersion" => (member, api_version.into()),
        None => (member, value),
    };
    // Members come out sorted, so `apiVersion` is first but `kind` is not: encoders want it second.
    let members: Map<String, Value> = members.into_iter().map(rename).collect();
    let mut out = format!("{{\"apiVersion\":\"{api_version}\",\"kind\":\"Event\"").into_bytes();
    for (member, value) in members.iter().filter(|(member, _)| !matches!(member.as_str(), "apiVersion" | "kind")) {
        out.extend_from_slice(format!(",{}:{value}", Value::from(member.as_str())).as_bytes());
    }
    out.push(b'}');
    out.into()
}
