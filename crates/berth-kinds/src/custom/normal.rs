//! The normal form of a schema in a custom resource definition, where its reader does not see it.
//!
//! Upstream's Go types read `items`, `additionalProperties`, `additionalItems` and `dependencies` by code: either form of them can be a schema. The
//! kind's own schema cannot express that. It keeps them as they are, and here what is in them loses the members that upstream's types do not have.

use serde_json::{Map, Value};

/// What a member of a schema is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Member {
    /// Left out where it is empty.
    OmitEmpty,
    /// Kept as it is. A null is left out.
    Kept,
    Schema,
    Schemas,
    Named,
    /// A schema, or something else.
    Either,
}

use Member::{Either, Kept, Named, OmitEmpty, Schema, Schemas};

const MEMBERS: [(&str, Member); 44] = [
    ("$ref", Kept),
    ("$schema", OmitEmpty),
    ("additionalItems", Either),
    ("additionalProperties", Either),
    ("allOf", Schemas),
    ("anyOf", Schemas),
    ("default", Kept),
    ("definitions", Named),
    ("dependencies", Kept),
    ("description", OmitEmpty),
    ("enum", OmitEmpty),
    ("example", Kept),
    ("exclusiveMaximum", OmitEmpty),
    ("exclusiveMinimum", OmitEmpty),
    ("externalDocs", Kept),
    ("format", OmitEmpty),
    ("id", OmitEmpty),
    ("items", Either),
    ("maxItems", Kept),
    ("maxLength", Kept),
    ("maxProperties", Kept),
    ("maximum", Kept),
    ("minItems", Kept),
    ("minLength", Kept),
    ("minProperties", Kept),
    ("minimum", Kept),
    ("multipleOf", Kept),
    ("not", Schema),
    ("nullable", OmitEmpty),
    ("oneOf", Schemas),
    ("pattern", OmitEmpty),
    ("patternProperties", Named),
    ("properties", Named),
    ("required", OmitEmpty),
    ("title", OmitEmpty),
    ("type", OmitEmpty),
    ("uniqueItems", OmitEmpty),
    ("x-kubernetes-embedded-resource", OmitEmpty),
    ("x-kubernetes-int-or-string", OmitEmpty),
    ("x-kubernetes-list-map-keys", OmitEmpty),
    ("x-kubernetes-list-type", Kept),
    ("x-kubernetes-map-type", Kept),
    ("x-kubernetes-preserve-unknown-fields", Kept),
    ("x-kubernetes-validations", OmitEmpty),
];

/// Deeper schemas stay as they are. They are rejected.
const DEPTH_MAX: usize = crate::DEPTH_MAX + 1;

/// Brings a schema to its normal form. Idempotent.
pub(crate) fn settle(schema: &mut Value) {
    settle_at(schema, 0);
}

fn settle_at(schema: &mut Value, depth: usize) {
    let Value::Object(members) = schema else { return };
    if DEPTH_MAX < depth {
        return;
    }
    members.retain(|name, value| {
        let Some((_, member)) = MEMBERS.iter().find(|(known, _)| known == name) else { return false };
        match (member, &mut *value) {
            (Schemas | Either, Value::Array(list)) => list.iter_mut().for_each(|part| settle_part(part, depth + 1)),
            (Named, Value::Object(members)) => members.values_mut().for_each(|part| settle_part(part, depth + 1)),
            (Schema | Either, Value::Object(_)) => settle_at(value, depth + 1),
            _ => (),
        }
        match member {
            Kept | Schema | Either => !value.is_null(),
            OmitEmpty | Schemas | Named => !is_empty(value),
        }
    });
}

/// A schema in a list or under a name. A null is an empty one.
fn settle_part(value: &mut Value, depth: usize) {
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    settle_at(value, depth);
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Number(_) => false,
    }
}
