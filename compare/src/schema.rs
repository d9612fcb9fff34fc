//! What the fields of a kind are, by the OpenAPI documents that the real Kubernetes serves.

use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Fields whose feature gates are off: docs/deviations.md lists that berth stores them, and then all that follows differs.
const GATED: &[&str] = &["clusterTrustBundle", "podCertificate", "schedulingGroup", "stopSignal"];

/// All schemas of the documents that were read.
#[derive(Default)]
pub(crate) struct Schemas {
    definitions: Map<String, Value>,
    /// Names of definitions by API version and kind.
    roots: BTreeMap<(String, String), String>,
}

/// What a schema describes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shape<'s> {
    Object(&'s Map<String, Value>),
    Map(&'s Value),
    List(&'s Value),
    Text,
    Time,
    Bytes,
    Integer,
    Boolean,
    IntOrString,
    Quantity,
    Any,
}

impl Schemas {
    /// Adds an OpenAPI v3 document.
    pub(crate) fn add(&mut self, document: Value) {
        let Some(Value::Object(definitions)) = document.pointer("/components/schemas").cloned() else { return };
        for (name, mut definition) in definitions {
            if let Some(properties) = definition.get_mut("properties").and_then(Value::as_object_mut) {
                properties.retain(|name, _| !GATED.contains(&name.as_str()));
            }
            for kind in definition["x-kubernetes-group-version-kind"].as_array().into_iter().flatten() {
                let text = |field: &str| kind[field].as_str().unwrap_or_default().to_owned();
                let (group, version) = (text("group"), text("version"));
                let api_version = if group.is_empty() { version } else { format!("{group}/{version}") };
                self.roots.insert((api_version, text("kind")), name.clone());
            }
            self.definitions.insert(name, definition);
        }
    }

    /// The schema of a kind.
    pub(crate) fn root(&self, api_version: &str, kind: &str) -> Option<&Value> {
        let name = self.roots.get(&(api_version.to_owned(), kind.to_owned()))?;
        self.definitions.get(name)
    }

    /// Follows references.
    pub(crate) fn resolve<'s>(&'s self, schema: &'s Value) -> &'s Value {
        let reference = schema["$ref"].as_str().or_else(|| schema.pointer("/allOf/0/$ref").and_then(Value::as_str));
        let name = reference.and_then(|reference| reference.rsplit('/').next());
        name.and_then(|name| self.definitions.get(name)).map_or(schema, |found| self.resolve(found))
    }

    /// What it describes.
    pub(crate) fn shape<'s>(&'s self, schema: &'s Value) -> Shape<'s> {
        let schema = self.resolve(schema);
        if schema["format"] == "int-or-string" {
            return Shape::IntOrString;
        }
        if schema["oneOf"].is_array() {
            return Shape::Quantity;
        }
        match (schema["type"].as_str().unwrap_or_default(), schema["format"].as_str().unwrap_or_default()) {
            ("object", _) => match (&schema["properties"], &schema["additionalProperties"]) {
                (Value::Object(properties), _) => Shape::Object(properties),
                (_, item @ Value::Object(_)) => Shape::Map(item),
                _ => Shape::Any,
            },
            ("array", _) => Shape::List(&schema["items"]),
            ("string", "date-time") => Shape::Time,
            ("string", "byte") => Shape::Bytes,
            ("string", _) => Shape::Text,
            ("integer" | "number", _) => Shape::Integer,
            ("boolean", _) => Shape::Boolean,
            _ => Shape::Any,
        }
    }

    /// The schema of a field, of a list's items, or of a map's values.
    pub(crate) fn child<'s>(&'s self, schema: &'s Value, step: &str) -> Option<&'s Value> {
        match self.shape(schema) {
            Shape::Object(properties) => properties.get(step),
            Shape::Map(item) | Shape::List(item) => Some(item),
            _ => None,
        }
    }

    /// The field by which a strategic patch finds an item of this list.
    pub(crate) fn merge_key(schema: &Value) -> Option<&str> {
        schema["x-kubernetes-patch-merge-key"].as_str()
    }
}
