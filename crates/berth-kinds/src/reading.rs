//! From bytes and trees to documents, and back.
//!
//! Type and metadata are typed in both forms. In the native form, so is everything else: the schema reads a value as upstream's Go types do. It does
//! that as a `serde` seed, so that the reader of typed objects finds wrong types, unknown fields and nulls here too.

use crate::{
    Additional, Content, Structural, Type,
    structural::{QUANTITY, Wire},
};
use berth_api::decode::{DecodeError, decode_by};
use berth_api::{go, normal::Normal};
use k8s_openapi::{
    ByteString,
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{ObjectMeta, Time},
        util::intstr::IntOrString,
    },
};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor},
};
use serde_json::{Map, Value};
use std::fmt;

/// What an object of a version must be.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'k> {
    pub(crate) api_version: &'k str,
    pub(crate) kind: &'k str,
    /// The schema that reads the members, in the native form.
    pub(crate) native: Option<&'k Structural>,
}

/// What a client sent, and the paths of fields of the metadata, in the native form of all fields, that there are not.
pub(crate) fn sent(wanted: Wanted<'_>, value: Value) -> Result<(Content, Vec<String>), DecodeError> {
    let (mut read, unknown) = decode_by(value, Root(wanted))?;
    read.meta.normalize();
    Ok((read, unknown))
}

/// What was written here.
pub(crate) fn stored(wanted: Wanted<'_>, bytes: &[u8]) -> Result<Content, DecodeError> {
    let text = std::str::from_utf8(bytes).map_err(DecodeError::custom)?;
    Root(wanted).deserialize(&mut serde_json::Deserializer::from_str(text)).map_err(DecodeError::custom)
}

/// The JSON of an object: type first, then the other members sorted.
#[must_use]
pub fn encode(value: &Value) -> Vec<u8> {
    let text = |name: &str| Value::from(value.get(name).and_then(Value::as_str).unwrap_or_default());
    let mut out = format!("{{\"apiVersion\":{},\"kind\":{}", text("apiVersion"), text("kind")).into_bytes();
    let members = value.as_object().into_iter().flatten().filter(|(name, _)| !matches!(name.as_str(), "apiVersion" | "kind"));
    for (name, value) in members {
        write_member(&mut out, name, value);
    }
    out.push(b'}');
    out
}

/// Adds a member to the JSON of an object.
pub(crate) fn write_member(out: &mut Vec<u8>, name: &str, value: &impl Serialize) {
    out.push(b',');
    go::write_json(out, &name);
    out.push(b':');
    go::write_json(out, value);
}

/// Whether bytes are an object of this version that was encoded here.
pub(crate) fn begins_with_type(bytes: &[u8], api_version: &str) -> bool {
    let parts = ["{\"apiVersion\":\"", api_version, "\",\"kind\":\""];
    parts.into_iter().try_fold(bytes, |rest, part| rest.strip_prefix(part.as_bytes())).is_some()
}

/// Reads a whole object.
struct Root<'k>(Wanted<'k>);

impl<'de> DeserializeSeed<'de> for Root<'_> {
    type Value = Content;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Content, D::Error> {
        from.deserialize_struct("Object", &[], self)
    }
}

impl<'de> Visitor<'de> for Root<'_> {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.kind)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Content, A::Error> {
        let schema = self.0.native;
        let (mut meta, mut content) = (ObjectMeta::default(), Map::new());
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "apiVersion" => check_type(&map.next_value::<String>()?, self.0.api_version)?,
                "kind" => check_type(&map.next_value::<String>()?, self.0.kind)?,
                "metadata" => meta = map.next_value()?,
                _ => match schema {
                    Some(schema) => member(schema, name, &mut map, &mut content)?,
                    None => _ = content.insert(name, map.next_value()?),
                },
            }
        }
        schema.into_iter().for_each(|schema| add_required(schema, &mut content));
        Ok(Content::new(meta, content))
    }
}

fn check_type<E: serde::de::Error>(found: &str, wanted: &str) -> Result<(), E> {
    if found == wanted { Ok(()) } else { Err(E::invalid_value(Unexpected::Str(found), &wanted)) }
}

/// Reads a member of an object of a Go type.
fn member<'de, A: MapAccess<'de>>(schema: &Structural, name: String, map: &mut A, to: &mut Map<String, Value>) -> Result<(), A::Error> {
    let Some(property) = schema.properties.get(&name) else {
        map.next_value::<IgnoredAny>()?;
        return Ok(());
    };
    // A member that is written as null where it is empty is read so too.
    let value = if schema.required.contains(&name) && property.wire != Wire::Null {
        Some(map.next_value_seed(Typed(property))?)
    } else {
        map.next_value_seed(Optional(property))?
    };
    value.map(|value| to.insert(name, value));
    Ok(())
}

/// A required member that is absent is empty, and one that is written as null where it is empty is null. One that is not written where it is empty stays
/// absent.
fn add_required(schema: &Structural, to: &mut Map<String, Value>) {
    let is_meta = |name: &str| matches!(name, "apiVersion" | "kind" | "metadata");
    for name in schema.required.iter().filter(|name| !is_meta(name)) {
        let Some(property) = schema.properties.get(name).filter(|property| property.wire != Wire::OmitEmpty) else { continue };
        to.entry(name.as_str()).or_insert_with(|| property.empty());
    }
    for (name, _) in schema.properties.iter().filter(|(_, property)| property.wire == Wire::Null) {
        to.entry(name.as_str()).or_insert(Value::Null);
    }
}

/// A value that can be null or absent.
struct Optional<'s>(&'s Structural);

impl<'de> DeserializeSeed<'de> for Optional<'_> {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Option<Value>, D::Error> {
        from.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for Optional<'_> {
    type Value = Option<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("option")
    }

    fn visit_none<E>(self) -> Result<Option<Value>, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Option<Value>, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Option<Value>, D::Error> {
        Typed(self.0).deserialize(from).map(Some)
    }
}

/// A value as the Go type of its schema.
struct Typed<'s>(&'s Structural);

impl<'de> DeserializeSeed<'de> for Typed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        fn tree<E: serde::de::Error>(value: impl Serialize) -> Result<Value, E> {
            serde_json::to_value(value).map_err(E::custom)
        }
        let schema = self.0;
        if schema.int_or_string {
            return tree(IntOrString::deserialize(from)?);
        }
        match (schema.kind, schema.format.as_str()) {
            (Some(Type::String), QUANTITY) => tree(Quantity::deserialize(from)?),
            (Some(Type::String), "date-time") => tree(Time::deserialize(from)?),
            (Some(Type::String), "byte") => tree(ByteString::deserialize(from)?),
            (Some(Type::String), _) => String::deserialize(from).map(Value::from),
            (Some(Type::Boolean), _) => bool::deserialize(from).map(Value::from),
            (Some(Type::Integer), "int32") => i32::deserialize(from).map(Value::from),
            (Some(Type::Integer), _) => i64::deserialize(from).map(Value::from),
            (Some(Type::Number), _) => f64::deserialize(from).map(number),
            (Some(Type::Array), _) => from.deserialize_seq(Elements(schema)),
            (Some(Type::Object), _) if schema.properties.is_empty() => from.deserialize_map(Members(schema)),
            (Some(Type::Object), _) => from.deserialize_struct("Object", &[], Members(schema)),
            (None, _) => Value::deserialize(from).map(with_numbers_of_go),
        }
    }
}

/// A number as Go writes it: without a fraction if it has none.
fn number(number: f64) -> Value {
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() < EXACT_MAX { Value::from(number as i64) } else { Value::from(number) }
}

/// JSON without a type, with numbers as Go writes them. What is read back is then equal.
fn with_numbers_of_go(mut value: Value) -> Value {
    fn change(value: &mut Value) {
        match value {
            Value::Number(found) if found.as_i64().is_none() => *value = found.as_f64().map_or(Value::Null, number),
            Value::Array(list) => list.iter_mut().for_each(change),
            Value::Object(members) => members.values_mut().for_each(change),
            _ => (),
        }
    }
    change(&mut value);
    value
}

struct Elements<'s>(&'s Structural);

impl<'de> Visitor<'de> for Elements<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let any = Structural::default();
        let items = self.0.items.as_deref().unwrap_or(&any);
        let mut elements = Vec::new();
        while let Some(element) = list.next_element_seed(Typed(items))? {
            elements.push(element);
        }
        Ok(Value::Array(elements))
    }
}

struct Members<'s>(&'s Structural);

impl<'de> Visitor<'de> for Members<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            match &self.0.additional {
                Additional::Of(schema) => _ = members.insert(name, map.next_value_seed(Typed(schema))?),
                Additional::Unset | Additional::Allowed(_) if self.0.properties.is_empty() => _ = members.insert(name, map.next_value()?),
                Additional::Unset | Additional::Allowed(_) => member(self.0, name, &mut map, &mut members)?,
            }
        }
        add_required(self.0, &mut members);
        Ok(Value::Object(members))
    }
}
