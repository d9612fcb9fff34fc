//! The data of a kind, as expressions see it.
//!
//! Source: kubernetes `apiserver/pkg/cel/openapi`, `apiserver/pkg/admission/plugin/policy/validating/typechecking.go`.

use berth_admission::CHECKED_KINDS_MAX;
use berth_cel::{Declaration, Field, ListKind, REQUEST_BYTES_MAX};
use berth_identity::{GroupVersionKind, GroupVersionResource};
use berth_registry::{Resource, Resources};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// How many combinations of group, version and resource of a policy's rules are read. The lists of a rule can be long.
const NAMES_MAX: usize = 10_000;

const REFERENCE_PREFIX: &str = "#/components/schemas/";

/// Returns the kinds that the rules of a policy name without wildcards, with their data.
pub(crate) fn matched(policy: &Value, resources: &Resources) -> Vec<(GroupVersionKind, Declaration)> {
    let mut found: Vec<(GroupVersionKind, Declaration)> = Vec::new();
    let rules = policy.pointer("/spec/matchConstraints/resourceRules").and_then(Value::as_array);
    let named = rules.into_iter().flatten().flat_map(|rule| {
        let versions = texts(rule, "apiGroups").flat_map(move |group| texts(rule, "apiVersions").map(move |version| (group, version)));
        versions
            .flat_map(move |(group, version)| texts(rule, "resources").map(move |plural| GroupVersionResource::new(group, version, plural)))
    });
    for name in named.take(NAMES_MAX) {
        let Some(resource) = resources.find(&name) else { continue };
        if found.iter().all(|(known, _)| known != resource.gvk()) {
            found.push((resource.gvk().clone(), of(resource)));
            if found.len() == CHECKED_KINDS_MAX {
                break;
            }
        }
    }
    found
}

fn texts<'v>(rule: &'v Value, name: &str) -> impl Iterator<Item = &'v str> + Clone {
    rule.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// Returns the data of a kind.
pub(crate) fn of(resource: &Resource) -> Declaration {
    let (name, schemas) = resource.schemas();
    Reading { schemas: &schemas, known: BTreeMap::new() }.named(&name)
}

/// Types while they are read. A type inside itself has any data.
struct Reading<'a> {
    schemas: &'a Map<String, Value>,
    known: BTreeMap<String, Declaration>,
}

impl Reading<'_> {
    fn named(&mut self, name: &str) -> Declaration {
        if let Some(known) = self.known.get(name) {
            return known.clone();
        }
        if name.ends_with(".IntOrString") {
            return Declaration::int_or_string(REQUEST_BYTES_MAX);
        }
        let Some(schema) = self.schemas.get(name) else { return Declaration::dynamic() };
        self.known.insert(name.to_owned(), Declaration::dynamic());
        let read = self.schema(schema);
        self.known.insert(name.to_owned(), read.clone());
        read
    }

    fn schema(&mut self, schema: &Value) -> Declaration {
        let reference = schema.get("$ref").or_else(|| schema.pointer("/allOf/0/$ref")).and_then(Value::as_str);
        if let Some(name) = reference.and_then(|reference| reference.strip_prefix(REFERENCE_PREFIX)) {
            return self.named(name);
        }
        let text = |name: &str| schema.get(name).and_then(Value::as_str).unwrap_or_default();
        if schema.get("x-kubernetes-int-or-string").is_some() || text("format") == "int-or-string" {
            return Declaration::int_or_string(REQUEST_BYTES_MAX);
        }
        match text("type") {
            "boolean" => Declaration::bool(),
            "integer" => Declaration::int(),
            "number" => Declaration::double(),
            "string" => match text("format") {
                "byte" => Declaration::bytes(REQUEST_BYTES_MAX),
                "date-time" => Declaration::timestamp(),
                "duration" => Declaration::duration(),
                _ => Declaration::string(REQUEST_BYTES_MAX),
            },
            "array" => {
                let elements = schema.get("items").map_or_else(Declaration::dynamic, |items| self.schema(items));
                Declaration::list(elements, ListKind::Atomic, None)
            }
            "object" => self.object(schema),
            _ => Declaration::dynamic(),
        }
    }

    fn object(&mut self, schema: &Value) -> Declaration {
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            let fields: Vec<Field> = properties.iter().map(|(name, property)| Field::new(name, self.schema(property), false)).collect();
            return Declaration::object(fields);
        }
        match schema.get("additionalProperties") {
            Some(values) if values.is_object() => {
                let values = self.schema(values);
                Declaration::map(values, None)
            }
            _ => Declaration::dynamic(),
        }
    }
}
