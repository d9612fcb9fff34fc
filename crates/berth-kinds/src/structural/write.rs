//! A schema as JSON.

use super::{Additional, ListType, MapType, Structural, Values};
use serde_json::{Map, Value};
use std::sync::Arc;

impl Structural {
    /// Its JSON. To read it gives an equal schema.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut members = self.extras.clone();
        let mut put = |name: &str, value: Value| _ = members.insert(name.to_owned(), value);
        if !self.description.is_empty() {
            put("description", self.description.as_str().into());
        }
        if let Some(kind) = self.kind {
            put("type", kind.as_str().into());
        }
        if !self.format.is_empty() {
            put("format", self.format.as_str().into());
        }
        if let Some(default) = &self.default {
            put("default", default.clone());
        }
        if !self.properties.is_empty() {
            put("properties", self.properties.iter().map(|(name, schema)| (name.clone(), schema.to_value())).collect());
        }
        match &self.additional {
            Additional::Unset => (),
            Additional::Allowed(allowed) => put("additionalProperties", (*allowed).into()),
            Additional::Of(schema) => put("additionalProperties", schema.to_value()),
        }
        if let Some(items) = &self.items {
            put("items", items.to_value());
        }
        if !self.required.is_empty() {
            put("required", self.required.clone().into());
        }
        let flags = [
            ("nullable", self.nullable),
            ("x-kubernetes-preserve-unknown-fields", self.preserve_unknown_fields),
            ("x-kubernetes-int-or-string", self.int_or_string),
            ("x-kubernetes-embedded-resource", self.embedded_resource),
        ];
        flags.into_iter().filter(|(_, is_set)| *is_set).for_each(|(name, _)| put(name, true.into()));
        let list_type = self.list_type.as_ref().map(|list_type| match list_type {
            ListType::Atomic => "atomic",
            ListType::Set => "set",
            ListType::Map(_) => "map",
        });
        list_type.into_iter().for_each(|word| put("x-kubernetes-list-type", word.into()));
        if let Some(ListType::Map(keys)) = &self.list_type {
            put("x-kubernetes-list-map-keys", keys.clone().into());
        }
        if let Some(map_type) = self.map_type {
            put("x-kubernetes-map-type", if map_type == MapType::Atomic { "atomic" } else { "granular" }.into());
        }
        self.values.write(&mut members);
        Value::Object(members)
    }
}

impl Values {
    fn write(&self, members: &mut Map<String, Value>) {
        let mut put = |name: &str, value: Option<Value>| _ = value.map(|value| members.insert(name.to_owned(), value));
        let flag = |is_set: bool| is_set.then_some(Value::Bool(true));
        put("enum", self.one_of_values.clone().map(Value::Array));
        put("minimum", self.minimum.clone().map(Value::Number));
        put("exclusiveMinimum", flag(self.exclusive_minimum));
        put("maximum", self.maximum.clone().map(Value::Number));
        put("exclusiveMaximum", flag(self.exclusive_maximum));
        put("multipleOf", self.multiple_of.clone().map(Value::Number));
        put("minLength", self.min_length.map(Value::from));
        put("maxLength", self.max_length.map(Value::from));
        put("pattern", self.pattern.as_ref().map(|pattern| pattern.0.as_str().into()));
        put("minItems", self.min_items.map(Value::from));
        put("maxItems", self.max_items.map(Value::from));
        put("minProperties", self.min_properties.map(Value::from));
        put("maxProperties", self.max_properties.map(Value::from));
        let list = |schemas: &[Structural]| (!schemas.is_empty()).then(|| schemas.iter().map(Structural::to_value).collect());
        put("allOf", list(&self.all_of));
        put("anyOf", list(&self.any_of));
        put("oneOf", list(&self.one_of));
        put("not", self.not.as_ref().map(|schema| schema.to_value()));
    }
}

impl Structural {
    /// Its JSON as OpenAPI publishes it: an integer or a string, and an embedded resource, are described in the words of OpenAPI too.
    /// `metadata` refers to the type of metadata.
    #[must_use]
    pub fn to_openapi(&self, metadata: &Value) -> Value {
        let mut published = self.clone();
        published.describe();
        let mut value = published.to_value();
        if self.embedded_resource {
            let text = |description: &str| serde_json::json!({"description": description, "type": "string"});
            let properties = value.as_object_mut().map(|members| members.entry("properties").or_insert_with(|| Value::Object(Map::new())));
            if let Some(Value::Object(properties)) = properties {
                properties.entry("apiVersion").or_insert_with(|| text("Group and version of the object's schema."));
                properties.entry("kind").or_insert_with(|| text("Kind of the object, in CamelCase."));
                properties.insert("metadata".to_owned(), metadata.clone());
            }
        }
        for (name, schema) in &self.properties {
            if !(self.embedded_resource && name == "metadata") {
                value["properties"][name] = schema.to_openapi(metadata);
            }
        }
        if let Additional::Of(schema) = &self.additional {
            value["additionalProperties"] = schema.to_openapi(metadata);
        }
        if let Some(items) = &self.items {
            value["items"] = items.to_openapi(metadata);
        }
        value
    }

    fn describe(&mut self) {
        if self.int_or_string && self.values.any_of.is_empty() {
            let of = |kind| Self { kind: Some(kind), ..Self::default() };
            self.values.any_of = vec![of(super::Type::Integer), of(super::Type::String)];
        }
        if self.embedded_resource {
            let missing = ["kind", "apiVersion"].into_iter().filter(|name| !self.required.iter().any(|known| known == name));
            let missing: Vec<String> = missing.map(str::to_owned).collect();
            self.required.extend(missing);
        }
        // What is below is described by the caller.
        self.properties.values_mut().for_each(|schema| *schema = Arc::default());
        self.items = self.items.as_ref().map(|_| Arc::default());
    }
}
