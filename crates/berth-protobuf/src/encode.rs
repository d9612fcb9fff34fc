//! The reverse direction, for tests: JSON to protobuf as Go encodes it, and random objects of any kind.

use crate::{
    envelope::PREFIX,
    schema::{Field, Kind, MessageId, Schema, Shape},
    wire::{put_bytes, put_number},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// Returns the whole body of an object that has `apiVersion` and `kind`.
pub(crate) fn body(object: &Value) -> Vec<u8> {
    let [api_version, kind] = ["apiVersion", "kind"].map(|name| object[name].as_str().expect("a typed object"));
    let id = Schema::get().find(api_version, kind).expect("a known kind");
    let mut type_meta = Vec::new();
    put_bytes(&mut type_meta, 1, api_version.as_bytes());
    put_bytes(&mut type_meta, 2, kind.as_bytes());
    let mut body = PREFIX.to_vec();
    put_bytes(&mut body, 1, &type_meta);
    put_bytes(&mut body, 2, &message(id, object));
    body
}

fn number(out: &mut Vec<u8>, field: u32, value: i64) {
    put_number(out, field, value.cast_unsigned());
}

fn message(id: MessageId, object: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    for field in &Schema::get().message(id).fields {
        encode_field(&mut out, field, if field.shape == Shape::Inline { object } else { &object[field.name] });
    }
    out
}

fn encode_field(out: &mut Vec<u8>, field: &Field, value: &Value) {
    match (field.shape, value) {
        (Shape::Inline, _) => encode_value(out, field.number, field.kind, value),
        (Shape::List, Value::Array(items)) => items.iter().for_each(|item| encode_value(out, field.number, field.kind, item)),
        (Shape::Map, Value::Object(members)) => {
            for (name, value) in members {
                let mut entry = Vec::new();
                put_bytes(&mut entry, 1, name.as_bytes());
                encode_value(&mut entry, 2, field.kind, value);
                put_bytes(out, field.number, &entry);
            }
        }
        (_, Value::Null) => (),
        (_, value) => encode_value(out, field.number, field.kind, value),
    }
}

fn encode_value(out: &mut Vec<u8>, field: u32, kind: Kind, value: &Value) {
    let text = || value.as_str().expect("a string").as_bytes();
    let mut inner = Vec::new();
    match kind {
        Kind::Bool => return number(out, field, value.as_bool().expect("a boolean").into()),
        Kind::Int32 | Kind::Int64 => return number(out, field, value.as_i64().expect("an integer")),
        Kind::String => inner.extend_from_slice(text()),
        Kind::Bytes => inner = BASE64_STANDARD.decode(text()).expect("base64"),
        Kind::Strings => value.as_array().expect("a list").iter().for_each(|item| encode_value(&mut inner, 1, Kind::String, item)),
        Kind::Quantity => put_bytes(&mut inner, 1, text()),
        Kind::IntOrString => match value {
            Value::String(text) => {
                number(&mut inner, 1, 1);
                number(&mut inner, 2, 0);
                put_bytes(&mut inner, 3, text.as_bytes());
            }
            value => number(&mut inner, 2, value.as_i64().expect("an integer")),
        },
        Kind::Time | Kind::MicroTime => {
            let time: Timestamp = value.as_str().expect("a string").parse().expect("a time");
            number(&mut inner, 1, time.as_second());
            number(&mut inner, 2, time.subsec_nanosecond().into());
        }
        Kind::FieldsV1 | Kind::RawExtension => put_bytes(&mut inner, 1, value.to_string().as_bytes()),
        Kind::Message(id) => inner = message(id, value),
    }
    put_bytes(out, field, &inner);
}

/// A random number generator with a fixed sequence for each seed.
pub(crate) struct Choices(pub(crate) u64);

impl Choices {
    /// Returns a number below `limit`.
    fn below(&mut self, limit: u64) -> u64 {
        // Knuth's generator; its upper bits are the good ones.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    /// Returns an object as Go would print it. Fields that are always printed are present, and fields with `omitempty`
    /// are not empty.
    pub(crate) fn object(&mut self, api_version: &str, kind: &str, id: MessageId) -> Value {
        let mut members = Map::from_iter([("apiVersion".to_owned(), json!(api_version)), ("kind".to_owned(), json!(kind))]);
        self.members(id, &mut members, 12);
        Value::Object(members)
    }

    fn members(&mut self, id: MessageId, members: &mut Map<String, Value>, depth: u64) {
        for field in &Schema::get().message(id).fields {
            if let (Shape::Inline, Kind::Message(id)) = (field.shape, field.kind) {
                self.members(id, members, depth);
            } else if field.shape == Shape::Always || self.below(14) < depth {
                members.extend(self.field(field, depth).map(|value| (field.name.to_owned(), value)));
            }
        }
    }

    fn field(&mut self, field: &Field, depth: u64) -> Option<Value> {
        let count = 1 + self.below(2);
        let value = match field.shape {
            Shape::List => (0..count).map(|_| self.value(field.kind, depth)).collect(),
            Shape::Map => Value::Object((0..count).map(|n| (format!("k{n}/\"x"), self.value(field.kind, depth))).collect()),
            Shape::Pointer | Shape::NonEmpty | Shape::Always | Shape::Inline => self.value(field.kind, depth),
        };
        let is_empty = [json!(""), json!(0), json!(false), json!({}), json!([])].contains(&value);
        (field.shape != Shape::NonEmpty || !is_empty).then_some(value)
    }

    fn value(&mut self, kind: Kind, depth: u64) -> Value {
        let any = self.below(3);
        match kind {
            Kind::Bool => json!(any == 0),
            Kind::Int32 => json!([0, i32::MAX, i32::MIN][any as usize]),
            Kind::Int64 => json!([0, i64::MAX, i64::MIN][any as usize]),
            Kind::String => json!(["", "text", "\u{1}\"é\\\u{1F6A2}"][any as usize]),
            Kind::Bytes => json!(["", "AP8=", "YWJj"][any as usize]),
            Kind::Strings => (0..any).map(|n| json!(n.to_string())).collect(),
            Kind::Quantity => json!(["0", "100m", "1Gi"][any as usize]),
            Kind::IntOrString => [json!(0), json!("25%"), json!(-1)][any as usize].clone(),
            Kind::Time => json!(["1970-01-01T00:00:00Z", "2026-02-03T04:05:06Z", "1969-12-31T23:59:59Z"][any as usize]),
            Kind::MicroTime => {
                json!(["1970-01-01T00:00:00.000000Z", "2026-02-03T04:05:06.000007Z", "2026-02-03T04:05:06.700000Z"][any as usize])
            }
            Kind::FieldsV1 | Kind::RawExtension => {
                [json!({}), json!({"f:a": {".": {}}}), json!({"a": [1, null, "b"]})][any as usize].clone()
            }
            Kind::Message(id) => {
                let mut members = Map::new();
                self.members(id, &mut members, depth.saturating_sub(2));
                Value::Object(members)
            }
        }
    }
}
