//! OpenAPI v2 in the protobuf form that kubectl asks for: the messages of `gnostic`'s `OpenAPIv2.proto`.
//!
//! The encoder covers what kubectl reads: paths with their parameters, definitions, and all extensions.

use crate::wire::{put_bytes, put_number};
use serde_json::{Map, Value};

/// The media type that clients accept. It is not a valid media type, and Go's client rejects a response with it.
pub const OPENAPI_V2_ACCEPTED: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
/// The media type of the response, as upstream.
pub const OPENAPI_V2_MEDIA_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1+protobuf";

/// Returns the protobuf form of an OpenAPI v2 document.
#[must_use]
pub fn openapi_v2(document: &Value) -> Vec<u8> {
    DOCUMENT.encode(document)
}

/// A message: maps members of a JSON object to its fields.
struct Message {
    fields: &'static [(u32, &'static str, Kind)],
    /// The field for members whose names start with `x-`.
    extensions: Option<u32>,
}

/// How a member is encoded. The numbers in `Within` belong to messages with one field around the value, innermost
/// first.
enum Kind {
    Text(Within),
    Texts,
    Truth,
    /// A list of arbitrary JSON, as YAML.
    Anys,
    One(&'static Message, Within),
    Many(&'static Message),
    /// The members of an object: messages of a name and a value, in a field with this number.
    Named(u32, &'static Message, Within),
    Parameters,
}

type Within = &'static [u32];

static DOCUMENT: Message = Message {
    fields: &[
        (1, "swagger", Kind::Text(&[])),
        (2, "info", Kind::One(&INFO, &[])),
        (8, "paths", Kind::Named(2, &PATH_ITEM, &[])),
        (9, "definitions", Kind::Named(1, &SCHEMA, &[])),
    ],
    extensions: Some(16),
};

static INFO: Message = Message { fields: &[(1, "title", Kind::Text(&[])), (2, "version", Kind::Text(&[]))], extensions: Some(7) };

static PATH_ITEM: Message = Message {
    fields: &[
        (2, "get", Kind::One(&OPERATION, &[])),
        (3, "put", Kind::One(&OPERATION, &[])),
        (4, "post", Kind::One(&OPERATION, &[])),
        (5, "delete", Kind::One(&OPERATION, &[])),
        (8, "patch", Kind::One(&OPERATION, &[])),
        (9, "parameters", Kind::Parameters),
    ],
    extensions: Some(10),
};

static OPERATION: Message = Message {
    fields: &[
        (3, "description", Kind::Text(&[])),
        (5, "operationId", Kind::Text(&[])),
        (6, "produces", Kind::Texts),
        (7, "consumes", Kind::Texts),
        (8, "parameters", Kind::Parameters),
        (9, "responses", Kind::Named(1, &RESPONSE, &[1])),
    ],
    extensions: Some(13),
};

static RESPONSE: Message =
    Message { fields: &[(1, "description", Kind::Text(&[])), (2, "schema", Kind::One(&SCHEMA, &[1]))], extensions: Some(5) };

static BODY_PARAMETER: Message = Message {
    fields: &[
        (1, "description", Kind::Text(&[])),
        (2, "name", Kind::Text(&[])),
        (3, "in", Kind::Text(&[])),
        (4, "required", Kind::Truth),
        (5, "schema", Kind::One(&SCHEMA, &[])),
    ],
    extensions: Some(6),
};

static PATH_PARAMETER: Message = Message {
    fields: &[
        (1, "required", Kind::Truth),
        (2, "in", Kind::Text(&[])),
        (3, "description", Kind::Text(&[])),
        (4, "name", Kind::Text(&[])),
        (5, "type", Kind::Text(&[])),
        (20, "uniqueItems", Kind::Truth),
    ],
    extensions: Some(22),
};

static QUERY_PARAMETER: Message = Message {
    fields: &[
        (1, "required", Kind::Truth),
        (2, "in", Kind::Text(&[])),
        (3, "description", Kind::Text(&[])),
        (4, "name", Kind::Text(&[])),
        (6, "type", Kind::Text(&[])),
        (21, "uniqueItems", Kind::Truth),
    ],
    extensions: Some(23),
};

static SCHEMA: Message = Message {
    fields: &[
        (1, "$ref", Kind::Text(&[])),
        (2, "format", Kind::Text(&[])),
        (4, "description", Kind::Text(&[])),
        (19, "required", Kind::Texts),
        (20, "enum", Kind::Anys),
        (21, "additionalProperties", Kind::One(&SCHEMA, &[1])),
        (22, "type", Kind::Text(&[1])),
        (23, "items", Kind::One(&SCHEMA, &[1])),
        (24, "allOf", Kind::Many(&SCHEMA)),
        (25, "properties", Kind::Named(1, &SCHEMA, &[])),
    ],
    extensions: Some(31),
};

impl Message {
    fn encode(&self, value: &Value) -> Vec<u8> {
        let mut out = Vec::new();
        let Some(members) = value.as_object() else { return out };
        for (number, name, kind) in self.fields {
            if let Some(value) = members.get(*name) {
                kind.put(&mut out, *number, value);
            }
        }
        if let Some(number) = self.extensions {
            for (name, value) in members.iter().filter(|(name, _)| name.starts_with("x-")) {
                put_bytes(&mut out, number, &named(name, &any(value)));
            }
        }
        out
    }
}

impl Kind {
    fn put(&self, out: &mut Vec<u8>, number: u32, value: &Value) {
        match (self, value) {
            (Self::Text(within), Value::String(text)) => put_bytes(out, number, &wrapped(within, text.as_bytes().to_vec())),
            (Self::Texts, Value::Array(items)) => {
                items.iter().filter_map(Value::as_str).for_each(|text| put_bytes(out, number, text.as_bytes()));
            }
            (Self::Truth, Value::Bool(true)) => put_number(out, number, 1),
            (Self::Anys, Value::Array(items)) => items.iter().for_each(|item| put_bytes(out, number, &any(item))),
            (Self::One(message, within), Value::Object(_)) => put_bytes(out, number, &wrapped(within, message.encode(value))),
            (Self::Many(message), Value::Array(items)) => items.iter().for_each(|item| put_bytes(out, number, &message.encode(item))),
            (Self::Named(inner, message, within), Value::Object(members)) => {
                put_bytes(out, number, &all_named(*inner, message, within, members));
            }
            (Self::Parameters, Value::Array(items)) => items.iter().for_each(|item| put_bytes(out, number, &parameter(item))),
            // A value whose form violates the specification is omitted.
            _ => (),
        }
    }
}

fn all_named(field: u32, message: &Message, within: Within, members: &Map<String, Value>) -> Vec<u8> {
    members.iter().fold(Vec::new(), |mut out, (name, value)| {
        put_bytes(&mut out, field, &named(name, &wrapped(within, message.encode(value))));
        out
    })
}

fn named(name: &str, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len() + value.len() + 8);
    put_bytes(&mut out, 1, name.as_bytes());
    put_bytes(&mut out, 2, value);
    out
}

/// JSON is valid YAML.
fn any(value: &Value) -> Vec<u8> {
    wrapped(&[2], value.to_string().into_bytes())
}

fn wrapped(within: Within, value: Vec<u8>) -> Vec<u8> {
    within.iter().fold(value, |inner, number| {
        let mut outer = Vec::with_capacity(inner.len() + 8);
        put_bytes(&mut outer, *number, &inner);
        outer
    })
}

/// The location of a parameter selects its message.
fn parameter(value: &Value) -> Vec<u8> {
    let (message, within): (_, Within) = match value.get("in").and_then(Value::as_str) {
        Some("body") => (&BODY_PARAMETER, &[1, 1]),
        Some("path") => (&PATH_PARAMETER, &[4, 2, 1]),
        _ => (&QUERY_PARAMETER, &[3, 2, 1]),
    };
    wrapped(within, message.encode(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Fields, Raw};
    use serde_json::json;

    /// Returns the value at a path of field numbers, the last value of each field.
    fn at<'a>(mut bytes: &'a [u8], path: &[u32]) -> &'a [u8] {
        for number in path {
            let found = Fields::new(bytes).map(|field| field.expect("well formed")).filter(|(found, _)| found == number).last();
            bytes = found.map_or(Err(number), |(_, raw)| Raw::bytes(raw).map_err(|_| number)).expect("the path is there");
        }
        bytes
    }

    #[test]
    fn each_part_is_where_gnostic_has_it() {
        let document = json!({
            "swagger": "2.0",
            "info": {"title": "Kubernetes", "version": "v1"},
            "paths": {"/a": {"patch": {
                "operationId": "patchA",
                "parameters": [{"name": "body", "in": "body", "schema": {"$ref": "#/definitions/A"}}, {"name": "dryRun", "in": "query"}],
                "responses": {"200": {"description": "OK", "schema": {"$ref": "#/definitions/A"}}},
                "x-kubernetes-action": "patch",
            }}},
            "definitions": {"A": {
                "type": "object",
                "required": ["b"],
                "properties": {"b": {"type": "array", "items": {"type": "string", "enum": ["c"]}, "description": "B."}},
                "additionalProperties": {"type": "integer", "format": "int32"},
            }},
        });
        let bytes = openapi_v2(&document);
        let patch = [8, 2, 2, 8];
        let definition = [9, 1, 2];
        for (start, rest, expected) in [
            (&[][..], &[1][..], "2.0"),
            (&[], &[2, 1], "Kubernetes"),
            (&[8, 2], &[1], "/a"),
            (&patch, &[5], "patchA"),
            (&patch, &[8, 1, 2, 3, 4], "dryRun"),
            (&patch, &[9, 1, 1], "200"),
            (&patch, &[9, 1, 2, 1, 2, 1, 1], "#/definitions/A"),
            (&patch, &[13, 1], "x-kubernetes-action"),
            (&patch, &[13, 2, 2], "\"patch\""),
            (&definition, &[22, 1], "object"),
            (&definition, &[19], "b"),
            (&definition, &[25, 1, 1], "b"),
            (&definition, &[25, 1, 2, 23, 1, 22, 1], "string"),
            (&definition, &[25, 1, 2, 23, 1, 20, 2], "\"c\""),
            (&definition, &[21, 1, 2], "int32"),
        ] {
            assert_eq!(at(&bytes, &[start, rest].concat()), expected.as_bytes(), "{start:?} {rest:?}");
        }
    }
}
