//! OpenAPI v2, for clients without v3: all documents in one, in the older format.

use super::build;
use crate::{discovery::group_versions, resource::Resources};
use serde_json::{Map, Value, json};

const REFERENCE_PREFIX: &str = "#/definitions/";
const GVK: &str = "x-kubernetes-group-version-kind";
const PRESERVE_UNKNOWN_FIELDS: &str = "x-kubernetes-preserve-unknown-fields";
const SYNTAXES: [&str; 2] = ["application/json", "application/yaml"];

/// Returns the whole document.
pub(super) fn document(resources: &Resources) -> Value {
    let (mut info, mut paths, mut definitions) = (Value::Null, Map::new(), Map::new());
    for version in group_versions(resources) {
        let mut document = build(resources, &version);
        info = document["info"].take();
        paths.extend(members(document["paths"].take()).map(|(path, item)| (path, path_item(item))));
        for (name, value) in members(document["components"]["schemas"].take()) {
            add_definition(&mut definitions, name, schema(value));
        }
    }
    json!({
        "swagger": "2.0",
        "info": info,
        "paths": paths,
        "definitions": definitions,
        "securityDefinitions": {"BearerToken": {
            "type": "apiKey", "in": "header", "name": "authorization", "description": "Bearer token authentication",
        }},
        "security": [{"BearerToken": []}],
    })
}

fn members(value: Value) -> impl Iterator<Item = (String, Value)> {
    let members = if let Value::Object(members) = value { members } else { Map::new() };
    members.into_iter()
}

/// Marks a type in several documents as a kind only in that of its own group.
fn add_definition(definitions: &mut Map<String, Value>, name: String, schema: Value) {
    if definitions.get(&name).is_none_or(|known| known.get(GVK).is_none()) {
        definitions.insert(name, schema);
    }
}

fn path_item(item: Value) -> Value {
    let convert = |(key, value): (String, Value)| {
        let value = if key == "parameters" { parameters(value) } else { operation(value) };
        (key, value)
    };
    Value::Object(members(item).map(convert).collect())
}

/// Converts an operation: the body becomes a parameter, and the media types apply to all responses.
fn operation(mut operation: Value) -> Value {
    let content: Map<_, _> = members(operation["requestBody"]["content"].take()).collect();
    let mut all = parameters(operation["parameters"].take());
    if let (Value::Array(all), Some((_, first))) = (&mut all, content.iter().next()) {
        all.push(json!({"name": "body", "in": "body", "required": true, "schema": schema(first["schema"].clone())}));
    }
    let responses: Map<_, _> = members(operation["responses"].take()).map(|(code, answer)| (code, response(answer))).collect();
    if let Value::Object(members) = &mut operation {
        members.remove("requestBody");
    }
    operation["parameters"] = all;
    operation["responses"] = Value::Object(responses);
    operation["produces"] = json!(SYNTAXES);
    operation["consumes"] = content.into_iter().map(|(kind, _)| Value::String(kind)).collect();
    operation
}

fn response(mut answer: Value) -> Value {
    let content = answer["content"][SYNTAXES[0]]["schema"].take();
    match content {
        Value::Null => json!({"description": answer["description"]}),
        content => json!({"description": answer["description"], "schema": schema(content)}),
    }
}

/// Converts parameters: v2 has the type in the parameter itself.
fn parameters(list: Value) -> Value {
    let parameter = |mut value: Value| {
        if let Value::Object(parameter) = &mut value {
            let schema = parameter.remove("schema").unwrap_or_default();
            parameter.extend(members(schema));
        }
        value
    };
    match list {
        Value::Array(list) => list.into_iter().map(parameter).collect(),
        _ => Value::Array(Vec::new()),
    }
}

fn schema(value: Value) -> Value {
    let Value::Object(mut schema_of) = value else { return value };
    schema_of.remove("default");
    if let Some(Value::Array(parts)) = schema_of.remove("allOf") {
        schema_of.extend(parts.into_iter().filter(|part| part.get("$ref").is_some()).flat_map(members));
    }
    remove_new_words(&mut schema_of);
    // A value that may be an object or a list has no type here, as upstream. kubectl would validate every value against
    // a type.
    if schema_of.remove("oneOf").is_some_and(|parts| is_scalar(&parts)) {
        schema_of.insert("type".to_owned(), json!("string"));
        schema_of.insert("format".to_owned(), json!("int-or-string"));
    }
    let convert = |(key, value): (String, Value)| match (key.as_str(), value) {
        ("$ref", Value::String(reference)) => {
            let name = reference.rsplit('/').next().unwrap_or_default();
            (key, Value::String(format!("{REFERENCE_PREFIX}{name}")))
        }
        ("properties", properties) => (key, Value::Object(members(properties).map(|(name, value)| (name, schema(value))).collect())),
        ("items" | "additionalProperties", value) => (key, schema(value)),
        (_, value) => (key, value),
    };
    Value::Object(schema_of.into_iter().map(convert).collect())
}

/// Removes keywords of a custom resource that v2 cannot express. If v2 could express only a part of a type, the schema
/// has no type.
///
/// Source: upstream `apiextensions-apiserver/pkg/controller/openapi/v2`, `ToStructuralOpenAPIV2`.
fn remove_new_words(schema: &mut Map<String, Value>) {
    let is_null_allowed = schema.remove("nullable") == Some(Value::Bool(true));
    let is_int_or_string = schema.contains_key("x-kubernetes-int-or-string");
    let is_open = schema.get(PRESERVE_UNKNOWN_FIELDS) == Some(&Value::Bool(true));
    if is_open && schema.contains_key(GVK) {
        // An object of which nothing is known but its kind.
        schema.retain(|word, _| ["type", GVK].contains(&word.as_str()));
    } else if is_null_allowed || is_int_or_string || is_open {
        ["type", "items", "properties", "additionalProperties"].iter().for_each(|word| _ = schema.remove(*word));
    }
    ["anyOf", "not"].iter().for_each(|word| _ = schema.remove(*word));
}

/// Whether each alternative is a number or a string.
fn is_scalar(alternatives: &Value) -> bool {
    let is_one = |part: &Value| matches!(part["type"].as_str(), Some("integer" | "number" | "string"));
    alternatives.as_array().is_some_and(|parts| parts.iter().all(is_one))
}
