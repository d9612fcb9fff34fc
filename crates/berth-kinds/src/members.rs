//! Reads members of JSON objects.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// The text of a member, empty if absent.
pub(crate) fn text<'v>(object: &'v Value, name: &str) -> &'v str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The elements of a member, none if absent.
pub(crate) fn list<'v>(object: &'v Value, name: &str) -> &'v [Value] {
    object.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// A member as a Rust type. `None`: it is absent.
pub(crate) fn member<T: DeserializeOwned>(object: &Value, name: &str) -> Option<T> {
    T::deserialize(object.get(name)?).ok()
}
