//! Decodes a JSON tree to a typed object. This deserializer reports the path of a wrong type, collects unknown fields,
//! and decodes null as the type's empty value. Serde's deserializers do not combine these features.

use super::{Path, base64, report, time};
use crate::quantity::{Quantity, QuantityError};
use k8s_openapi::ByteString;
use serde::{
    Deserializer,
    de::{
        DeserializeOwned, DeserializeSeed, EnumAccess, Error as _, Expected, IntoDeserializer, MapAccess, SeqAccess, Unexpected,
        VariantAccess, Visitor,
    },
    forward_to_deserialize_any,
};
use serde_json::{Number, Value};
use std::{any::type_name, cell::RefCell, fmt, marker::PhantomData};

/// Why a tree is not an object of its kind: the field and the error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// `spec.replicas`. Empty for the object itself, and if it is unknown.
    pub path: String,
    /// `invalid type: string "3", expected i32`.
    pub message: String,
    /// The same error in the words of upstream's converter of patched objects. `None`: the text is that of `message`.
    pub converted: Option<String>,
    /// Whether `path` is set.
    located: bool,
}

impl DecodeError {
    pub(super) fn new(path: String, message: String) -> Self {
        Self { path, message, converted: None, located: true }
    }

    /// Returns the error of invalid base64 at this offset.
    fn of_bytes(place: usize) -> Self {
        let message = format!("illegal base64 data at input byte {place}");
        let converted = Some(format!("error decoding from json: {message}"));
        Self { converted, ..serde::de::Error::custom(message) }
    }

    fn at(mut self, path: Path<'_>) -> Self {
        if !self.located {
            self.path = path.to_string();
            self.located = true;
        }
        self
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let colon = if self.path.is_empty() { "" } else { ": " };
        write!(f, "{}{colon}{}", self.path, self.message)
    }
}

impl std::error::Error for DecodeError {}

impl serde::de::Error for DecodeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { path: String::new(), message: message.to_string(), converted: None, located: false }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let message = format!("invalid type: {found}, expected {expected}");
        Self { converted: converted(found, &expected.to_string()), ..Self::custom(message) }
    }
}

/// Returns upstream's message for a value of the wrong type.
fn converted(found: Unexpected<'_>, expected: &str) -> Option<String> {
    let found = match found {
        Unexpected::Str(_) => "string",
        Unexpected::Seq => "slice",
        Unexpected::Map => "map",
        Unexpected::Bool(_) => "bool",
        Unexpected::Signed(_) | Unexpected::Unsigned(_) => "int64",
        Unexpected::Float(_) => "float64",
        _ => return None,
    };
    let number = |name: &str| match found {
        "float64" => format!("cannot convert float64 to {name}"),
        _ => format!("unrecognized type: {name}"),
    };
    Some(match expected {
        "a map" => format!("cannot restore map from {found}"),
        "a sequence" => format!("cannot restore slice from {found}"),
        "an object" => format!("cannot restore struct from: {found}"),
        "a string" if found == "int64" => "cannot convert int64 to string".to_owned(),
        "a string" => "unrecognized type: string".to_owned(),
        "a boolean" => "unrecognized type: bool".to_owned(),
        "i32" => number("int32"),
        "i64" => number("int64"),
        _ => return None,
    })
}

/// Decodes a client's value. Also returns the paths of unknown fields.
pub(crate) fn decode<T: DeserializeOwned>(value: Value) -> Result<(T, Vec<String>), DecodeError> {
    decode_by(value, PhantomData::<T>)
}

/// Does the same with a seed.
pub(super) fn decode_by<'de, S: DeserializeSeed<'de>>(value: Value, seed: S) -> Result<(S::Value, Vec<String>), DecodeError> {
    let unknown = RefCell::new(Vec::new());
    let object = seed.deserialize(Node { value, path: Path::Root, unknown: &unknown })?;
    Ok((object, unknown.into_inner()))
}

/// Does not use the number's own deserializer, whose error omits the type that was found.
fn visit_number<'de, V: Visitor<'de>>(number: &Number, visitor: V) -> Result<V::Value, DecodeError> {
    match (number.as_u64(), number.as_i64()) {
        (Some(unsigned), _) => visitor.visit_u64(unsigned),
        (None, Some(signed)) => visitor.visit_i64(signed),
        (None, None) => visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN)),
    }
}

/// A part of the tree with its path, and the collection of unknown fields.
struct Node<'a> {
    value: Value,
    path: Path<'a>,
    unknown: &'a RefCell<Vec<String>>,
}

impl Node<'_> {
    /// Visits `empty` instead of null.
    fn or_empty<'de, V: Visitor<'de>>(mut self, empty: Value, visitor: V) -> Result<V::Value, DecodeError> {
        if self.value.is_null() {
            self.value = empty;
        }
        self.deserialize_any(visitor)
    }
}

macro_rules! null_is {
    ($empty:expr; $($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
            self.or_empty($empty, visitor)
        }
    )*};
}

impl<'de> Deserializer<'de> for Node<'_> {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let Self { value, path, unknown } = self;
        match value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(value),
            Value::Number(number) => visit_number(&number, visitor),
            Value::String(value) => visitor.visit_string(value),
            Value::Array(list) => visitor.visit_seq(Elements { list: list.into_iter(), index: 0, path: &path, unknown }),
            Value::Object(map) => visitor.visit_map(Members { map: map.into_iter(), member: None, path: &path, unknown }),
        }
        .map_err(|error| error.at(path))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        report(&mut self.unknown.borrow_mut(), self.path);
        visitor.visit_unit()
    }

    fn deserialize_option<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, DecodeError> {
        // Only the type of bytes requests itself in this way. Its own deserializer accepts the standard form of base64
        // only.
        if let (true, Value::String(text)) = (type_name::<V::Value>() == type_name::<ByteString>(), &mut self.value) {
            let text = std::mem::take(text);
            self.value = base64::canonical(text).map_err(|place| DecodeError::of_bytes(place).at(self.path))?;
        }
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(mut self, name: &'static str, visitor: V) -> Result<V::Value, DecodeError> {
        if let (Some(form), Value::String(text)) = (time::form_of(name), &self.value) {
            let wrong = || DecodeError::invalid_value(Unexpected::Str(text), &"a time as in RFC 3339").at(self.path);
            self.value = time::canonical(text, form).ok_or_else(wrong)?.into();
        }
        if name == "Quantity" {
            self.value = quantity(self.value).map_err(|error| DecodeError::custom(error).at(self.path))?.into();
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        mut self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        // A nested object has the field's type, independent of its own `kind`. Upstream overwrites that.
        if let (true, false, Value::Object(members)) = (is_object(fields), matches!(self.path, Path::Root), &mut self.value) {
            members.retain(|member, value| !(matches!(member.as_str(), "apiVersion" | "kind") && (value.is_string() || value.is_null())));
        }
        match self.value {
            Value::Object(_) | Value::Null => self.or_empty(Value::Object(serde_json::Map::new()), visitor),
            // A derived struct would accept a list of its members in order.
            other => Err(DecodeError::invalid_type(unexpected(&other), &"an object").at(self.path)),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        match self.value {
            Value::String(variant) => visitor.visit_enum(UnitVariant(variant)),
            other => Err(DecodeError::invalid_type(unexpected(&other), &"a string")),
        }
        .map_err(|error: DecodeError| error.at(self.path))
    }

    null_is! { Value::Bool(false); deserialize_bool }
    null_is! { 0.into(); deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_u8 deserialize_u16 deserialize_u32
    deserialize_u64 deserialize_f32 deserialize_f64 }
    null_is! { Value::String(String::new()); deserialize_str deserialize_string deserialize_identifier }
    null_is! { Value::Array(Vec::new()); deserialize_seq }
    null_is! { Value::Object(serde_json::Map::new()); deserialize_map }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.or_empty(Value::String(String::new()), visitor)
    }

    forward_to_deserialize_any! { i128 u128 char bytes unit unit_struct tuple tuple_struct }
}

/// Whether a type with these fields is an API object. References to objects have no metadata.
fn is_object(fields: &[&str]) -> bool {
    ["apiVersion", "kind", "metadata"].iter().all(|field| fields.contains(field))
}

/// Returns the canonical text of a quantity. Null is empty, and a number is decoded as its digits, as upstream.
fn quantity(value: Value) -> Result<String, QuantityError> {
    let text = match value {
        Value::Null => return Ok("0".to_owned()),
        Value::String(text) => text,
        other => other.to_string(),
    };
    text.parse::<Quantity>().map(|quantity| quantity.to_string())
}

fn unexpected(value: &Value) -> Unexpected<'_> {
    match value {
        Value::Null => Unexpected::Unit,
        Value::Bool(value) => Unexpected::Bool(*value),
        Value::Number(_) => Unexpected::Other("number"),
        Value::String(value) => Unexpected::Str(value),
        Value::Array(_) => Unexpected::Seq,
        Value::Object(_) => Unexpected::Map,
    }
}

struct Elements<'a> {
    list: std::vec::IntoIter<Value>,
    index: usize,
    path: &'a Path<'a>,
    unknown: &'a RefCell<Vec<String>>,
}

impl<'de> SeqAccess<'de> for Elements<'_> {
    type Error = DecodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, DecodeError> {
        let Some(value) = self.list.next() else { return Ok(None) };
        let path = Path::Element(self.path, self.index);
        self.index += 1;
        seed.deserialize(Node { value, path, unknown: self.unknown }).map(Some)
    }
}

struct Members<'a> {
    map: serde_json::map::IntoIter,
    /// The member whose key was visited last.
    member: Option<(String, Value)>,
    path: &'a Path<'a>,
    unknown: &'a RefCell<Vec<String>>,
}

impl<'de> MapAccess<'de> for Members<'_> {
    type Error = DecodeError;

    fn next_key_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, DecodeError> {
        let Some((key, value)) = self.map.next() else { return Ok(None) };
        let (key, _) = self.member.insert((key, value));
        seed.deserialize(key.as_str().into_deserializer()).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, DecodeError> {
        let (key, value) = self.member.take().ok_or_else(|| DecodeError::custom("a value was asked for before its key"))?;
        let path = Path::Member(self.path, &key);
        seed.deserialize(Node { value, path, unknown: self.unknown }).map_err(|error| error.at(path))
    }
}

/// A variant without data, the only form of enumerations in API types.
struct UnitVariant(String);

impl<'de> EnumAccess<'de> for UnitVariant {
    type Error = DecodeError;
    type Variant = Self;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self), DecodeError> {
        let variant = seed.deserialize(self.0.as_str().into_deserializer())?;
        Ok((variant, self))
    }
}

impl<'de> VariantAccess<'de> for UnitVariant {
    type Error = DecodeError;

    fn unit_variant(self) -> Result<(), DecodeError> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, _seed: T) -> Result<T::Value, DecodeError> {
        Err(DecodeError::invalid_type(Unexpected::UnitVariant, &"a case with a value"))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value, DecodeError> {
        Err(DecodeError::invalid_type(Unexpected::UnitVariant, &visitor))
    }

    fn struct_variant<V: Visitor<'de>>(self, _fields: &'static [&'static str], visitor: V) -> Result<V::Value, DecodeError> {
        Err(DecodeError::invalid_type(Unexpected::UnitVariant, &visitor))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Object, apps::Deployment};
    use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
    use serde_json::json;

    #[expect(clippy::needless_pass_by_value, reason = "a table reads better without borrows")]
    fn check<K: crate::Kind>(value: serde_json::Value, unknown: &[&str], wanted: serde_json::Value) {
        let (object, found) = crate::decode::decode::<K>(value).expect("decodes");
        assert_eq!(found, unknown);
        let found = object.to_value();
        for (key, value) in wanted.as_object().expect("an object") {
            assert_eq!(&found[key], value, "{key}");
        }
    }

    #[test]
    fn unknown_fields_are_listed_with_their_paths() {
        check::<Deployment>(
            json!({
                "foo": 1,
                "metadata": {"name": "a", "Name": "b", "labels": {"any": "x"}},
                "spec": {"Replicas": 3, "template": {"spec": {"containers": [{"name": "c", "foo": {"bar": 1}}], "volumes": [{"nfss": {}}]}}},
            }),
            &["foo", "metadata.Name", "spec.Replicas", "spec.template.spec.containers[0].foo", "spec.template.spec.volumes[0].nfss"],
            json!({}),
        );
    }

    #[test]
    fn null_is_the_empty_value() {
        check::<Deployment>(
            json!({"metadata": null, "spec": {"replicas": null, "template": null, "strategy": {"rollingUpdate": null}, "paused": null}}),
            &[],
            json!({"metadata": {}, "spec": {"strategy": {}, "template": {}}}),
        );
        check::<Pod>(
            json!({"metadata": {"labels": {"a": null}, "name": null}, "spec": {"containers": [null, {"args": [null], "command": null}]}}),
            &[],
            json!({"spec": {"containers": [{"name": ""}, {"name": "", "args": [""]}]}}),
        );
        check::<ConfigMap>(json!({"data": {"a": null}}), &[], json!({"data": {"a": ""}}));
        check::<Secret>(json!({"data": {"a": "aGk=", "b": null}}), &[], json!({"data": {"a": "aGk=", "b": ""}}));
    }

    #[test]
    fn empty_metadata_are_absent() {
        check::<ConfigMap>(
            json!({"metadata": {"name": "a", "labels": {}, "annotations": {}, "finalizers": [], "ownerReferences": [], "uid": "", "generation": 0}}),
            &[],
            json!({"metadata": {"name": "a"}}),
        );
    }

    #[test]
    fn a_wrong_type_is_also_reported_in_the_words_of_upstreams_converter() {
        for (spec, wanted) in [
            (json!({"template": {"metadata": {"labels": "x"}}}), "cannot restore map from string"),
            (json!({"template": {"metadata": {"labels": ["x"]}}}), "cannot restore map from slice"),
            (json!({"template": {"metadata": {"labels": {"a": 1}}}}), "cannot convert int64 to string"),
            (json!({"template": {"metadata": {"labels": {"a": true}}}}), "unrecognized type: string"),
            (json!({"template": {"spec": {"containers": "x"}}}), "cannot restore slice from string"),
            (json!({"template": {"spec": {"hostAliases": {}}}}), "cannot restore slice from map"),
            (json!({"template": "x"}), "cannot restore struct from: string"),
            (json!({"replicas": "x"}), "unrecognized type: int32"),
            (json!({"replicas": 1.5}), "cannot convert float64 to int32"),
            (json!({"paused": "x"}), "unrecognized type: bool"),
            (json!({"template": {"spec": {"terminationGracePeriodSeconds": "1"}}}), "unrecognized type: int64"),
        ] {
            let refused = crate::decode::decode::<Deployment>(json!({"spec": spec})).expect_err("refused");
            assert_eq!(refused.converted.as_deref(), Some(wanted), "{refused}");
        }
    }

    #[test]
    fn bytes_are_read_and_refused_as_upstream_does() {
        check::<Secret>(json!({"data": {"a": "YR==", "b": "Y\nQ=="}}), &[], json!({"data": {"a": "YQ==", "b": "YQ=="}}));
        let refused = crate::decode::decode::<Secret>(json!({"data": {"a": "YQ"}})).expect_err("refused");
        assert_eq!(refused.to_string(), "data.a: illegal base64 data at input byte 0");
        assert_eq!(refused.converted.as_deref(), Some("error decoding from json: illegal base64 data at input byte 0"));
    }

    fn check_refused<K: crate::Kind>(value: serde_json::Value, wanted: &str) {
        assert_eq!(crate::decode::decode::<K>(value).expect_err("refused").to_string(), wanted);
    }

    #[test]
    fn a_wrong_type_is_named_with_its_path() {
        check_refused::<Deployment>(json!({"spec": {"replicas": "3"}}), "spec.replicas: invalid type: string \"3\", expected i32");
        check_refused::<Deployment>(
            json!({"spec": {"replicas": 3_000_000_000_u32}}),
            "spec.replicas: invalid value: integer `3000000000`, expected i32",
        );
        check_refused::<Deployment>(json!({"spec": {"replicas": 1.5}}), "spec.replicas: invalid type: floating point `1.5`, expected i32");
        check_refused::<Deployment>(
            json!({"spec": {"template": {"spec": {"containers": [{"ports": [{"containerPort": "http"}]}]}}}}),
            "spec.template.spec.containers[0].ports[0].containerPort: invalid type: string \"http\", expected i32",
        );
        check_refused::<Deployment>(
            json!({"metadata": {"labels": {"a": 1}}}),
            "metadata.labels.a: invalid type: integer `1`, expected a string",
        );
        check_refused::<Pod>(
            json!({"spec": {"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "5x"}}]}}),
            "spec.volumes[0].emptyDir.sizeLimit: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        );
        check_refused::<Deployment>(json!({"spec": {"strategy": []}}), "spec.strategy: invalid type: sequence, expected an object");
        check_refused::<Pod>(json!({"spec": {"containers": ["c"]}}), "spec.containers[0]: invalid type: string \"c\", expected an object");
        check_refused::<Deployment>(json!([]), "invalid type: sequence, expected an object");
        check_refused::<Deployment>(json!({"kind": "Pod"}), "invalid value: string \"Pod\", expected Deployment");
    }
}
