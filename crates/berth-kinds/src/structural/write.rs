//! A schema as JSON.

use super::{Additional, ListType, MapType, Structural, Values};
use serde_json::{Map, Value, json};

impl Structural {
    /// Its JSON. To read it gives an equal schema.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut members = self.extras.clone();
        let mut put = |name: &str, value: Value| _ = members.insert(name.to_owned(), value);
        if let Some(kind) = self.kind {
            put("type", kind.as_str().into());
        }
        if !self.format.is_empty() {
            put("format", self.format.as_str().into());
        }
        if let Some(default) = self.default.as_deref() {
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
        self.values().write(&mut members);
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
        put("pattern", self.pattern.as_ref().map(|pattern| pattern.as_str().into()));
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
    /// Its JSON as OpenAPI publishes it. `metadata` refers to the type of metadata.
    #[must_use]
    pub fn to_openapi(&self, metadata: &Value) -> Value {
        let mut schema = self.to_value();
        describe(&mut schema, metadata);
        schema
    }
}

/// Makes of a schema what OpenAPI publishes: an integer or a string, and an embedded resource, are described in the words of OpenAPI too.
pub(crate) fn describe(schema: &mut Value, metadata: &Value) {
    let Value::Object(members) = schema else { return };
    let has = |members: &Map<String, Value>, name: &str| members.get(name) == Some(&Value::Bool(true));
    if has(members, "x-kubernetes-int-or-string") && !members.contains_key("anyOf") {
        members.insert("anyOf".to_owned(), json!([{"type": "integer"}, {"type": "string"}]));
    }
    let is_embedded = has(members, "x-kubernetes-embedded-resource");
    let parts = ["items", "additionalProperties"];
    parts.into_iter().for_each(|name| members.get_mut(name).into_iter().for_each(|part| describe(part, metadata)));
    if let Some(Value::Object(properties)) = members.get_mut("properties") {
        let described = |name: &str| !(is_embedded && name == "metadata");
        properties.iter_mut().filter(|(name, _)| described(name)).for_each(|(_, part)| describe(part, metadata));
    }
    if is_embedded {
        describe_embedded(members, metadata);
    }
}

fn describe_embedded(members: &mut Map<String, Value>, metadata: &Value) {
    let text = |description: &str| json!({"description": description, "type": "string"});
    if let Value::Object(properties) = members.entry("properties").or_insert_with(|| json!({})) {
        properties.entry("apiVersion").or_insert_with(|| text("Group and version of the object's schema."));
        properties.entry("kind").or_insert_with(|| text("Kind of the object, in CamelCase."));
        properties.insert("metadata".to_owned(), metadata.clone());
    }
    if let Value::Array(required) = members.entry("required").or_insert_with(|| json!([])) {
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|known| known == name) {
                required.push(name.into());
            }
        }
    }
}
