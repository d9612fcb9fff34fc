//! The data that a schema describes, as expressions see it.
//!
//! Source: upstream `apiserver/pkg/cel/common/schemas.go`.

use crate::{Additional, ListType, Structural, Type};
use berth_cel::{Declaration, Field, ListKind, REQUEST_BYTES_MAX};
use serde_json::Value;

/// The largest text in a request, without its quotes.
const TEXT_BYTES_MAX: u64 = REQUEST_BYTES_MAX - 2;
/// Expressions can read these members of the metadata of an object.
const NAMES: [&str; 2] = ["name", "generateName"];

/// The declaration of the data of a schema. `is_object`: it is an object of the API, with metadata. `None`: expressions cannot read it.
pub(super) fn declaration(schema: &Structural, is_object: bool) -> Option<Declaration> {
    let plain = if schema.int_or_string {
        let max = size(schema.values().max_length).map_or(TEXT_BYTES_MAX, |length| length.saturating_mul(4));
        Some(Declaration::int_or_string(max))
    } else {
        typed(schema, is_object)
    };
    plain.map(|declaration| if schema.nullable { declaration.nullable() } else { declaration })
}

/// A bound. Negative ones are 0.
pub(super) fn size(bound: Option<i64>) -> Option<u64> {
    bound.map(|bound| u64::try_from(bound).unwrap_or(0))
}

fn inner(schema: &Structural) -> Option<Declaration> {
    declaration(schema, schema.embedded_resource)
}

fn typed(schema: &Structural, is_object: bool) -> Option<Declaration> {
    Some(match schema.kind? {
        Type::Boolean => Declaration::bool(),
        Type::Integer => Declaration::int(),
        Type::Number => Declaration::double(),
        Type::String => string(schema),
        Type::Array => {
            let kind = match &schema.list_type {
                None | Some(ListType::Atomic) => ListKind::Atomic,
                Some(ListType::Set) => ListKind::Set,
                Some(ListType::Map(keys)) => ListKind::Map(keys.clone().into()),
            };
            Declaration::list(inner(schema.items.as_ref()?)?, kind, size(schema.values().max_items))
        }
        Type::Object => match &schema.additional {
            Additional::Of(values) => Declaration::map(inner(values)?, size(schema.values().max_properties)),
            Additional::Unset | Additional::Allowed(_) => object(schema, is_object),
        },
    })
}

fn string(schema: &Structural) -> Declaration {
    let length = size(schema.values().max_length);
    match schema.format.as_str() {
        "byte" => Declaration::bytes(length.unwrap_or(TEXT_BYTES_MAX)),
        "duration" => Declaration::duration(),
        "date" => Declaration::date(),
        "date-time" => Declaration::timestamp(),
        _ => {
            let longest = |allowed: &Vec<Value>| allowed.iter().filter_map(Value::as_str).map(|text| text.len() as u64).max().unwrap_or(0);
            let of_values = schema.values().one_of_values.as_ref().map_or(TEXT_BYTES_MAX, longest);
            // A character has at most four bytes.
            Declaration::string(length.map_or(of_values, |length| length.saturating_mul(4)))
        }
    }
}

fn object(schema: &Structural, is_object: bool) -> Declaration {
    let is_own = |name: &str| !is_object || !matches!(name, "apiVersion" | "kind" | "metadata");
    let properties = schema.properties.iter().filter(|(name, _)| is_own(name)).filter_map(|(name, property)| {
        let is_required = property.default.is_none() && schema.required.contains(name);
        Some(Field::new(name, inner(property)?, is_required))
    });
    let text = || Declaration::string(TEXT_BYTES_MAX);
    let is_required = |name: &str| schema.required.iter().any(|required| required == name);
    let own = is_object.then(|| {
        let metadata = Declaration::object(NAMES.map(|name| Field::new(name, text(), false)));
        [("apiVersion", text()), ("kind", text()), ("metadata", metadata)].map(|(name, of)| Field::new(name, of, is_required(name)))
    });
    Declaration::object(properties.chain(own.into_iter().flatten()))
}
