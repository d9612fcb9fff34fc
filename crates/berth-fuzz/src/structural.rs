//! Structural schemas, which users write, and objects that are judged by them: no panic, a schema is written as it was read, pruning and defaults are
//! idempotent, the number of faults is bounded, and an object that does not change has no faults.

use crate::objects::any_scalar;
use arbitrary::{Result, Unstructured};
use berth_api::Path;
use berth_kinds::{FAULTS_MAX, Structural};
use serde_json::{Map, Value, json};

/// The names of members. There are few, so that values have what schemas describe.
const NAMES: &[&str] = &["a", "b", "c", "name", "spec", "status", "metadata", "apiVersion", "kind", "", "x.y", "é"];
/// Deeper schemas and values take more of an input than it has.
const DEPTH: usize = 5;

/// Members of a schema that bound the values which it allows.
const NUMBERS: &[&str] =
    &["minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "multipleOf"];
const FLAGS: &[&str] = &[
    "nullable",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "uniqueItems",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
];
const TEXTS: &[(&str, &[&str])] = &[
    ("format", &["int32", "int64", "date-time", "ipv4", "uuid", "byte", "email", "other"]),
    ("pattern", &["^a*$", "(", "[0-9]{2}", "(a|b)+c?", "\\d"]),
    ("x-kubernetes-list-type", &["atomic", "set", "map", "other"]),
    ("x-kubernetes-map-type", &["atomic", "granular", "other"]),
];
const JUNCTORS: &[&str] = &["allOf", "anyOf", "oneOf"];

fn check(u: &mut Unstructured<'_>) -> Result<()> {
    let mut written = schema(u, DEPTH)?;
    // The schema of a kind is one of objects.
    if u.ratio(7, 8)? {
        written["type"] = json!("object");
    }
    let path = Path::new("schema");
    let Ok(schema) = Structural::read(&written, &path) else { return Ok(()) };
    let again = Structural::read(&schema.to_value(), &path);
    assert_eq!(again.as_ref(), Ok(&schema), "{written}");
    let _ = schema.to_openapi(&json!({"type": "object"}));

    let (mut object, other) = (value(u, DEPTH)?, value(u, DEPTH)?);
    let faults = schema.validate(&object, None);
    assert!(faults.len() <= FAULTS_MAX, "{} faults", faults.len());
    let same = schema.validate(&object, Some(&object));
    // As upstream, the type and the metadata of an embedded object are judged at each update.
    let has_embedded = written.to_string().contains("x-kubernetes-embedded-resource");
    assert!(same.is_empty() || has_embedded, "{same:?} of {object} by {written}");
    let _ = schema.validate(&object, Some(&other));

    schema.prune(&mut object);
    let pruned = object.clone();
    let left = schema.prune(&mut object);
    assert!(left.is_empty() && object == pruned, "{left:?} of {pruned} by {written}");
    schema.set_defaults(&mut object);
    let once = object.clone();
    schema.set_defaults(&mut object);
    assert_eq!(object, once, "defaults of {pruned} by {written}");
    Ok(())
}

/// Runs the target with one input.
///
/// # Panics
/// Where a rule above is broken.
pub fn run(data: &[u8]) {
    let _ = check(&mut Unstructured::new(data));
}

/// A schema, structural or not.
pub(crate) fn any_schema(u: &mut Unstructured<'_>) -> Result<Value> {
    schema(u, DEPTH)
}

/// A value with the names that schemas describe.
pub(crate) fn any_value(u: &mut Unstructured<'_>) -> Result<Value> {
    value(u, DEPTH)
}

fn schema(u: &mut Unstructured<'_>, depth: usize) -> Result<Value> {
    let mut schema = Map::new();
    let kind = *u.choose(&["object", "object", "array", "string", "integer", "number", "boolean", ""])?;
    if !kind.is_empty() {
        schema.insert("type".to_owned(), kind.into());
    }
    if depth > 0 && kind == "object" {
        if u.ratio(3, 4)? {
            schema.insert("properties".to_owned(), members(u, |u| self::schema(u, depth - 1))?);
        } else {
            let of = if u.ratio(1, 4)? { u.arbitrary::<bool>()?.into() } else { self::schema(u, depth - 1)? };
            schema.insert("additionalProperties".to_owned(), of);
        }
    }
    if depth > 0 && kind == "array" {
        schema.insert("items".to_owned(), self::schema(u, depth - 1)?);
    }
    for _ in 0..u.int_in_range(0..=2)? {
        mark(u, &mut schema, depth)?;
    }
    Ok(schema.into())
}

/// Adds a member to a schema that bounds values, or that changes their treatment.
fn mark(u: &mut Unstructured<'_>, schema: &mut Map<String, Value>, depth: usize) -> Result<()> {
    let (name, value) = match u.int_in_range(0..=7)? {
        0 => (*u.choose(NUMBERS)?, u.int_in_range(-2..=4)?.into()),
        1 => (*u.choose(FLAGS)?, u.arbitrary::<bool>()?.into()),
        2 => {
            let (name, texts) = u.choose(TEXTS)?;
            (*name, (*u.choose(texts)?).into())
        }
        3 => ("default", value(u, depth.min(2))?),
        4 => ("enum", Value::Array(vec![value(u, 1)?, value(u, 0)?])),
        5 => ("required", json!([u.choose(NAMES)?])),
        6 => ("x-kubernetes-list-map-keys", json!([u.choose(NAMES)?])),
        _ if depth == 0 => ("title", any_scalar(u)?),
        _ => {
            let parts = Value::Array(vec![self::schema(u, depth - 1)?, self::schema(u, 0)?]);
            (*u.choose(JUNCTORS)?, parts)
        }
    };
    schema.insert(name.to_owned(), value);
    Ok(())
}

fn value(u: &mut Unstructured<'_>, depth: usize) -> Result<Value> {
    Ok(match u.int_in_range(0..=5)? {
        0..=2 if depth > 0 => members(u, |u| value(u, depth - 1))?,
        3 if depth > 0 => {
            let elements: Result<Vec<Value>> = (0..u.int_in_range(0..=3)?).map(|_| value(u, depth - 1)).collect();
            elements?.into()
        }
        4 => Value::Null,
        _ => any_scalar(u)?,
    })
}

fn members(u: &mut Unstructured<'_>, mut value: impl FnMut(&mut Unstructured<'_>) -> Result<Value>) -> Result<Value> {
    let mut members = Map::new();
    for _ in 0..u.int_in_range(0..=4)? {
        members.insert((*u.choose(NAMES)?).to_owned(), value(u)?);
    }
    Ok(members.into())
}
