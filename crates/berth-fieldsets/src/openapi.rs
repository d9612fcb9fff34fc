//! A [`Schema`] from the `components.schemas` of an OpenAPI v3 document, by its `x-kubernetes-` extensions.

use crate::{FieldType, ListKind, ListType, MapKind, MapType, ScalarKind, Schema, Type, TypeId};
use serde_json::{Map, Value};

const REFERENCE_PREFIX: &str = "#/components/schemas/";

impl Schema {
    /// The types of a document's `components.schemas`, under their names there. What is already known by name is not read again.
    ///
    /// Lists are atomic and maps are granular, unless `x-kubernetes-list-type` or `x-kubernetes-map-type` specifies otherwise. What the document does
    /// not describe may be anything, and has one owner. If it is marked as kept, its maps are granular.
    pub fn add_openapi(&mut self, schemas: &Map<String, Value>) {
        let mut new: Vec<(&String, &Value)> = schemas.iter().filter(|(name, _)| self.named(name).is_none()).collect();
        // A field that takes an atomic type apart copies what was read of the type.
        new.sort_by_key(|(_, schema)| takes_apart(schema));
        // Names first: types refer to each other, and to themselves.
        for (name, _) in &new {
            let id = self.add(Type::Any);
            self.name(name.as_str(), id);
        }
        for (name, schema) in new {
            if let Some(id) = self.named(name) {
                let read = self.read(schema);
                self.set(id, read);
            }
        }
    }

    fn id_of(&mut self, schema: &Value) -> TypeId {
        let is_plain = ["x-kubernetes-map-type", "x-kubernetes-list-type"].iter().all(|word| schema.get(word).is_none());
        match self.referred(schema) {
            Some(id) if is_plain => id,
            _ => {
                let read = self.read(schema);
                self.add(read)
            }
        }
    }

    fn referred(&self, schema: &Value) -> Option<TypeId> {
        let reference = schema.get("$ref").or_else(|| schema.get("allOf")?.get(0)?.get("$ref"))?.as_str()?;
        self.named(reference.strip_prefix(REFERENCE_PREFIX)?)
    }

    fn read(&mut self, schema: &Value) -> Type {
        let map_kind = |kind: &str| schema.get("x-kubernetes-map-type").is_some_and(|found| found == kind);
        let is_atomic_map = map_kind("atomic");
        if let Some(id) = self.referred(schema) {
            // The field overrides its type. The type may not have been read yet, but then nothing below it is needed.
            return match self.get(id).clone() {
                Type::Map(map) if is_atomic_map => Type::Map(MapType { kind: MapKind::Atomic, ..map }),
                Type::Map(map) if map_kind("granular") => Type::Map(MapType { kind: MapKind::Granular, ..map }),
                _ if is_atomic_map => Type::Any,
                other => other,
            };
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("string") => Type::Scalar(ScalarKind::String),
            Some("integer" | "number") => Type::Scalar(ScalarKind::Numeric),
            Some("boolean") => Type::Scalar(ScalarKind::Boolean),
            Some("array") => Type::List(self.list(schema)),
            Some("object") if is_free(schema) && !keeps_others(schema) => Type::Any,
            Some("object") => Type::Map(self.map(schema, if is_atomic_map { MapKind::Atomic } else { MapKind::Granular })),
            _ if keeps_others(schema) => {
                let deduced = self.deduced();
                self.get(deduced).clone()
            }
            // Of one of several scalar types.
            _ if schema.get("oneOf").is_some() || schema.get("anyOf").is_some() => Type::Scalar(ScalarKind::Untyped),
            _ => Type::Any,
        }
    }

    fn list(&mut self, schema: &Value) -> ListType {
        let elements = self.id_of(schema.get("items").unwrap_or(&Value::Null));
        let kind = match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
            Some("set") => ListKind::Set,
            Some("map") => {
                let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array).into_iter().flatten();
                ListKind::Map(keys.filter_map(Value::as_str).map(str::to_owned).collect())
            }
            _ => ListKind::Atomic,
        };
        ListType { elements, kind }
    }

    fn map(&mut self, schema: &Value, kind: MapKind) -> MapType {
        let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        let fields = properties
            .map(|(name, property)| {
                let default = property.get("default").filter(|default| !default.is_object()).cloned();
                (name.clone(), FieldType { of: self.id_of(property), default })
            })
            .collect();
        let described = schema.get("additionalProperties").filter(|elements| elements.is_object());
        let elements = described.map(|elements| self.id_of(elements)).or_else(|| keeps_others(schema).then(|| self.deduced()));
        MapType { fields, elements, kind }
    }
}

/// Whether a field of this type declares that its members have owners.
fn takes_apart(schema: &Value) -> bool {
    let fields = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    fields.into_iter().any(|(_, field)| field.get("x-kubernetes-map-type").is_some_and(|kind| kind == "granular"))
}

/// Whether members stay that the schema does not describe.
fn keeps_others(schema: &Value) -> bool {
    schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true))
}

/// An object without a schema of its members.
fn is_free(schema: &Value) -> bool {
    schema.get("properties").is_none() && !schema.get("additionalProperties").is_some_and(Value::is_object)
}
