//! Generates documents with one odd value, for each field of every kind. Checks whether a document strictly fits its
//! kind's schema.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use berth_api::quantity::Quantity;
use berth_registry::{Resource, resource::built_in};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The values for every field. Each fits somewhere, and clients send all of them.
const ODD: &[&str] = &[
    "null",
    "true",
    "0",
    "3",
    "3.0",
    "3.5",
    "1e3",
    "-1",
    "2147483648",
    "9223372036854775807",
    "18446744073709551615",
    "1e300",
    "\"\"",
    "\"x\"",
    "\"5x\"",
    "\"5\"",
    "\"1Ei\"",
    "\"0.5\"",
    "\".5\"",
    "\"5.\"",
    "\"1e\"",
    "\"1e3\"",
    "\"1e99\"",
    "\"-1\"",
    "\"+1\"",
    "\" 1\"",
    "\"1.2.3\"",
    "\"1mi\"",
    "\"\u{663}\"",
    "\"NaN\"",
    "\"25%\"",
    "\"2026-01-01T00:00:00Z\"",
    "\"2026-01-01T00:00:00.123456789+01:00\"",
    "\"0000-01-01T00:00:00Z\"",
    "\"9999-12-31T23:59:59.999999999Z\"",
    "\"2026-01-01 00:00:00Z\"",
    "\"2026-13-01T00:00:00Z\"",
    "\"AA==\"",
    "\"AA\"",
    "\"A A=\"",
    "\"\\u0000\"",
    "[]",
    "[null]",
    "[\"x\"]",
    "[[]]",
    "{}",
    "{\"a\": null}",
    "{\"a\": 1}",
    "{\"a\": \"5x\"}",
];

/// The schemas of all kinds.
pub(crate) struct Schemas {
    by_name: BTreeMap<String, Value>,
}

const PREFIX: &str = "#/components/schemas/";
const GVK: &str = "x-kubernetes-group-version-kind";

impl Schemas {
    pub(crate) fn new() -> Self {
        let documents = built_in().openapi();
        let mut by_name = BTreeMap::<String, Value>::new();
        for path in documents.paths() {
            let document: Value = serde_json::from_slice(&documents.document(path).expect("it is listed").json).expect("JSON");
            for (name, schema) in document["components"]["schemas"].as_object().expect("schemas") {
                // A kind of another document is only a type in this one.
                if schema.get(GVK).is_some() || !by_name.contains_key(name) {
                    by_name.insert(name.clone(), schema.clone());
                }
            }
        }
        Self { by_name }
    }

    fn of(&self, resource: &Resource) -> &Value {
        let gvk = json!({"group": resource.group(), "version": resource.version(), "kind": resource.kind()});
        let is_it = |schema: &&Value| schema[GVK].as_array().is_some_and(|all| all.contains(&gvk));
        self.by_name.values().find(is_it).expect("every kind has a schema")
    }

    /// Returns the name and the schema of a reference.
    fn follow<'s>(&'s self, schema: &'s Value) -> Option<(&'s str, &'s Value)> {
        let reference = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str())?;
        let name = reference.strip_prefix(PREFIX).expect("a reference to a schema");
        Some((name, &self.by_name[name]))
    }

    /// Returns documents of the kind. `seen` ensures that the fields of a type that several kinds share are filled
    /// once.
    pub(crate) fn odd_documents(&self, resource: &Resource, seen: &mut BTreeSet<String>) -> Vec<Value> {
        let mut documents = Vec::new();
        self.fill(self.of(resource), seen, &|value| value, &mut documents);
        documents
    }

    fn fill(&self, schema: &Value, seen: &mut BTreeSet<String>, place: &dyn Fn(Value) -> Value, out: &mut Vec<Value>) {
        out.extend(ODD.iter().map(|text| place(serde_json::from_str(text).expect("JSON"))));
        if let Some((name, schema)) = self.follow(schema) {
            if seen.insert(name.to_owned()) {
                self.fill(schema, seen, place, out);
            }
            return;
        }
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            if !["apiVersion", "kind"].contains(&name.as_str()) {
                self.fill(schema, seen, &|value| place(json!({name: value})), out);
            }
        }
        if schema["additionalProperties"].is_object() {
            self.fill(&schema["additionalProperties"], seen, &|value| place(json!({"k": value})), out);
        }
        if schema["items"].is_object() {
            self.fill(&schema["items"], seen, &|value| place(json!([value])), out);
        }
    }

    /// Returns the first value that does not fit the schema of its kind. `None`: the document fits.
    pub(crate) fn fault(&self, resource: &Resource, document: &Value) -> Option<String> {
        self.fault_at(self.of(resource), document, "")
    }

    fn fault_at(&self, schema: &Value, value: &Value, path: &str) -> Option<String> {
        let wrong = |what: &str| Some(format!("{path}: {value} is no {what}"));
        if let Some((name, schema)) = self.follow(schema) {
            return match name.rsplit('.').next() {
                Some("Quantity") if value.as_str().is_some_and(|text| text.parse::<Quantity>().is_ok()) => None,
                Some("Quantity") => wrong("quantity"),
                Some("IntOrString") if value.is_string() || is_int32(value) => None,
                Some("IntOrString") => wrong("number or string"),
                // Every server stores these unchanged.
                Some("FieldsV1" | "RawExtension") => None,
                _ => self.fault_at(schema, value, path),
            };
        }
        match (schema["type"].as_str(), schema["format"].as_str()) {
            (Some("boolean"), _) if !value.is_boolean() => wrong("boolean"),
            (Some("integer"), Some("int32")) if !is_int32(value) => wrong("int32"),
            (Some("integer"), _) if !value.is_i64() => wrong("int64"),
            (Some("string"), format) => match (value.as_str(), format) {
                (None, _) => wrong("string"),
                (Some(text), Some("date-time")) if !text.ends_with('Z') || text.parse::<Timestamp>().is_err() => wrong("time"),
                (Some(text), Some("byte")) if BASE64_STANDARD.decode(text).is_err() => wrong("base64"),
                _ => None,
            },
            (Some("array"), _) => match value.as_array() {
                Some(items) => {
                    items.iter().enumerate().find_map(|(index, item)| self.fault_at(&schema["items"], item, &format!("{path}[{index}]")))
                }
                None => wrong("list"),
            },
            (Some("object"), _) => {
                let Some(members) = value.as_object() else { return wrong("object") };
                let (properties, others) = (&schema["properties"], &schema["additionalProperties"]);
                let is_free = !properties.is_object() && !others.is_object();
                let is_nil = |name: &str, value: &Value| value.is_null() && NULL.contains(&name);
                members.iter().filter(|(name, value)| !is_free && !is_nil(name, value)).find_map(|(name, value)| {
                    let path = format!("{path}.{name}");
                    match [&properties[name.as_str()], others].into_iter().find(|schema| schema.is_object()) {
                        Some(schema) => self.fault_at(schema, value, &path),
                        None => Some(format!("{path}: the kind has no such field")),
                    }
                })
            }
            _ => None,
        }
    }
}

/// Members that upstream writes as null where they are empty.
const NULL: &[&str] = &["conditions", "default", "lastTransitionTime", "requests"];

fn is_int32(value: &Value) -> bool {
    value.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
}
