//! What an object holds, without its kind: what rules in code read and change.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value};

/// Typed metadata, and everything else as JSON.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Content {
    /// Its metadata.
    pub meta: ObjectMeta,
    /// All members but type and metadata. Always an object.
    members: Value,
}

impl Content {
    pub(crate) fn new(meta: ObjectMeta, members: Map<String, Value>) -> Self {
        Self { meta, members: Value::Object(members) }
    }

    /// All members but type and metadata, as a JSON object.
    #[must_use]
    pub fn members(&self) -> &Value {
        &self.members
    }

    /// The same, to change.
    pub fn members_mut(&mut self) -> &mut Map<String, Value> {
        if !self.members.is_object() {
            self.members = Value::Object(Map::new());
        }
        self.members.as_object_mut().expect("it has just been made one")
    }

    /// The same as a value. What is written there is an object.
    pub(crate) fn value_mut(&mut self) -> &mut Value {
        &mut self.members
    }
}
