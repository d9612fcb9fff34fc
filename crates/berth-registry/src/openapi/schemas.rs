//! The schemas of types, in upstream's form.

use crate::{
    patch::merge_keys::{self, KEY_DEFAULTS},
    resource::{
        KindSchema, Resource,
        merge_rules::{PatchStrategy, Ssa},
    },
};
use berth_api::k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use berth_identity::GroupVersionKind;
use berth_kinds::Published;
use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

const REFERENCE_PREFIX: &str = "#/components/schemas/";
/// The name prefix under which berth's own types replace upstream's.
const OWN_TYPES_PREFIX: &str = "io.k8s.api.apps.v1.";
/// Map types that have one owner in server-side apply.
const ATOMIC_MAP_TYPES: [&str; 19] = [
    "ConfigMapKeySelector",
    "EndpointAddress",
    "EndpointPort",
    "FileKeySelector",
    "LabelSelector",
    "LocalObjectReference",
    "NodeSelector",
    "NodeSelectorTerm",
    "ObjectFieldSelector",
    "ObjectReference",
    "OwnerReference",
    "ResourceFieldSelector",
    "RoleRef",
    "ScopeSelector",
    "SecretKeySelector",
    "SecretReference",
    "Subject",
    "TopologySelectorTerm",
    "TypedLocalObjectReference",
];

/// Collects the schemas of one document.
pub(super) struct Schemas {
    generator: SchemaGenerator,
    /// The group, version and kind of types that are API objects.
    kinds: Vec<(String, Value)>,
    lists: Vec<(String, Value)>,
    /// Types that are published unchanged, with the descriptions of generated types of the same names.
    published: Map<String, Value>,
}

/// Returns a kind as in `x-kubernetes-group-version-kind`.
pub(super) fn gvk_value(kind: &GroupVersionKind) -> Value {
    json!({"group": kind.group, "version": kind.version, "kind": kind.kind})
}

impl Schemas {
    pub(super) fn new() -> Self {
        let settings = SchemaSettings::openapi3().with(|settings| settings.transforms.clear());
        Self { generator: settings.into_generator(), kinds: Vec::new(), lists: Vec::new(), published: Map::new() }
    }

    /// Returns a reference to the schema of a type that is not an API object itself.
    pub(super) fn reference<T: JsonSchema>(&mut self) -> Value {
        reference_to(&name_in(&self.generator.subschema_for::<T>()))
    }

    /// Returns a reference to the schema of an object.
    pub(super) fn object<T: JsonSchema>(&mut self, gvk: &GroupVersionKind) -> Value {
        let schema = self.generator.subschema_for::<T>();
        self.kind(&schema, gvk)
    }

    /// Returns references to the schemas of a resource's kind and of its list.
    pub(super) fn resource(&mut self, resource: &Resource) -> (Value, Value) {
        let gvk = resource.gvk();
        let object = match resource.rules.schema(&mut self.generator) {
            KindSchema::Generated(schema) => self.kind(&schema, gvk),
            KindSchema::Published(Published { name, mut schemas }) => {
                if let Some(schema) = schemas.get_mut(&name) {
                    mark_kind(schema, &gvk_value(gvk));
                    mark_selectable(schema, resource);
                }
                self.published.extend(schemas);
                reference_to(&name)
            }
        };
        let list_meta = self.reference::<ListMeta>();
        let name = format!("{}List", name_of(&object));
        let reference = reference_to(&name);
        let mut list = json!({
            "description": format!("{}List is a list of {}.", resource.kind(), resource.plural()),
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": API_VERSION.schema(),
                "kind": KIND.schema(),
                "metadata": wrap(&list_meta, Some("Standard list metadata.")),
                "items": {"description": format!("List of {}", resource.plural()), "type": "array", "items": wrap(&object, None)},
            },
            "x-kubernetes-group-version-kind": [{"group": gvk.group, "version": gvk.version, "kind": format!("{}List", gvk.kind)}],
        });
        mark_selectable(&mut list, resource);
        if !self.lists.iter().any(|(known, _)| *known == name) {
            self.lists.push((name, list));
        }
        (object, reference)
    }

    fn kind(&mut self, schema: &Schema, gvk: &GroupVersionKind) -> Value {
        let name = name_in(schema);
        if !self.kinds.iter().any(|(known, _)| *known == name) {
            self.kinds.push((name.clone(), gvk_value(gvk)));
        }
        reference_to(&name)
    }

    /// Returns `components.schemas`.
    pub(super) fn finish(mut self) -> Map<String, Value> {
        let definitions = self.generator.take_definitions(false);
        let mut schemas: Map<String, Value> =
            definitions.into_iter().map(|(name, schema)| (public_name(&name), normalize(schema))).collect();
        for (name, schema) in &mut schemas {
            mark_fields(name, schema);
        }
        for (name, gvk) in self.kinds {
            if let Some(schema) = schemas.get_mut(&name) {
                complete_kind(schema, &gvk);
            }
        }
        schemas.extend(self.lists);
        for (name, mut schema) in self.published {
            if let Some(generated) = schemas.get(&name) {
                describe(&mut schema, generated);
            }
            schemas.insert(name, schema);
        }
        schemas
    }
}

/// A property that every object has.
struct TypeProperty(&'static str);

const API_VERSION: TypeProperty = TypeProperty("Group and version of the object's schema.");
const KIND: TypeProperty = TypeProperty("Kind of the object, in CamelCase.");

impl TypeProperty {
    fn schema(&self) -> Value {
        json!({"description": self.0, "type": "string"})
    }
}

/// Returns the name in a reference.
pub(super) fn name_of(reference: &Value) -> String {
    reference["$ref"].as_str().unwrap_or_default().trim_start_matches(REFERENCE_PREFIX).to_owned()
}

/// Returns the published name in a generated reference.
fn name_in(schema: &Schema) -> String {
    let reference = schema.get("$ref").and_then(Value::as_str).unwrap_or_default();
    public_name(reference.trim_start_matches(REFERENCE_PREFIX))
}

fn public_name(name: &str) -> String {
    if name.contains('.') { name.to_owned() } else { format!("{OWN_TYPES_PREFIX}{name}") }
}

fn reference_to(name: &str) -> Value {
    json!({"$ref": format!("{REFERENCE_PREFIX}{name}")})
}

/// Wraps a reference with a description. OpenAPI 3.0 ignores siblings of `$ref`, so the reference goes into `allOf`.
fn wrap(reference: &Value, description: Option<&str>) -> Value {
    let mut schema = json!({"allOf": [reference], "default": {}});
    if let Some(description) = description {
        schema["description"] = json!(description);
    }
    schema
}

/// Converts the generated schema to upstream's form: nothing is nullable, references are in `allOf`, and there are no
/// Rust defaults.
fn normalize(schema: Value) -> Value {
    match schema {
        Value::Object(members) => normalize_object(members),
        Value::Array(items) => Value::Array(items.into_iter().map(normalize).collect()),
        other => other,
    }
}

fn normalize_object(mut schema: Map<String, Value>) -> Value {
    schema.remove("default");
    schema.remove("nullable");
    take_null_out(&mut schema);
    if schema.get("format") == Some(&json!("byte")) || schema.remove("contentEncoding").is_some() {
        schema.insert("format".to_owned(), json!("byte"));
    }
    if schema.remove("x-kubernetes-int-or-string").is_some() && !schema.contains_key("oneOf") {
        schema.insert("oneOf".to_owned(), json!([{"type": "string"}, {"type": "number"}]));
    }
    if let Some(reference) = schema.remove("$ref") {
        let name = reference.as_str().unwrap_or_default().trim_start_matches(REFERENCE_PREFIX);
        let reference = reference_to(&public_name(name));
        if schema.is_empty() {
            return reference;
        }
        schema.insert("allOf".to_owned(), json!([reference]));
    }
    // Members of `properties` are field names, not keywords of the schema.
    let members = schema.into_iter().map(|(key, value)| match (key.as_str(), value) {
        ("properties", Value::Object(properties)) => {
            let properties = properties.into_iter().map(|(name, schema)| (name, normalize(schema))).collect();
            (key, Value::Object(properties))
        }
        ("enum" | "required" | "example", value) => (key, value),
        (_, value) => (key, normalize(value)),
    });
    Value::Object(members.collect())
}

/// Replaces `type: [T, null]` and `anyOf: [T, null]` by `T`, because an absent field is not null.
fn take_null_out(schema: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    let Some(Value::Array(choices)) = schema.get_mut("anyOf") else { return };
    choices.retain(|choice| choice != &json!({"type": "null"}));
    if let [Value::Object(only)] = choices.as_slice() {
        let only = only.clone();
        schema.remove("anyOf");
        schema.extend(only);
    }
}

/// Copies the descriptions of another schema of the same form, at all depths.
fn describe(schema: &mut Value, described: &Value) {
    match (schema, described) {
        (Value::Object(members), Value::Object(described)) => {
            if let Some(text @ Value::String(_)) = described.get("description") {
                members.entry("description").or_insert_with(|| text.clone());
            }
            for (name, part) in members {
                described.get(name).into_iter().for_each(|described| describe(part, described));
            }
        }
        (Value::Array(parts), Value::Array(described)) => {
            parts.iter_mut().zip(described).for_each(|(part, described)| describe(part, described));
        }
        _ => (),
    }
}

/// Adds the kind to a type that is published unchanged.
fn mark_kind(schema: &mut Value, gvk: &Value) {
    schema["x-kubernetes-group-version-kind"] = json!([gvk]);
    let Some(properties) = schema["properties"].as_object_mut() else { return };
    properties.entry("apiVersion").or_insert_with(|| API_VERSION.schema());
    properties.entry("kind").or_insert_with(|| KIND.schema());
}

/// Adds the fields that selectors of a custom resource can name. Upstream publishes those of no other kinds.
fn mark_selectable(schema: &mut Value, resource: &Resource) {
    let fields = resource.selectable_fields.iter().filter(|_| !resource.is_built_in());
    let fields: Vec<Value> = fields.map(|field| json!({"fieldPath": *field.name})).collect();
    if !fields.is_empty() {
        schema["x-kubernetes-selectable-fields"] = Value::Array(fields);
    }
}

/// Adds the kind to a type that is an API object.
fn complete_kind(schema: &mut Value, gvk: &Value) {
    schema["x-kubernetes-group-version-kind"] = json!([gvk]);
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.retain(|name| !matches!(name.as_str(), Some("metadata" | "spec" | "status")));
    }
    if schema["required"].as_array().is_none_or(Vec::is_empty) {
        schema.as_object_mut().map(|members| members.remove("required"));
    }
    let Some(properties) = schema["properties"].as_object_mut() else { return };
    properties.entry("apiVersion").or_insert_with(|| API_VERSION.schema());
    properties.entry("kind").or_insert_with(|| KIND.schema());
    for part in ["metadata", "spec", "status"] {
        if let Some(Value::Object(property)) = properties.get_mut(part) {
            property.insert("default".to_owned(), json!({}));
        }
    }
}

/// Adds the patch strategies and list types of a type's fields.
fn mark_fields(name: &str, schema: &mut Value) {
    let short = name.rsplit('.').next().unwrap_or_default();
    if ATOMIC_MAP_TYPES.contains(&short) {
        schema["x-kubernetes-map-type"] = json!("atomic");
    }
    if short == ANY {
        schema.as_object_mut().map(|schema| schema.remove("type"));
    }
    default_required(schema);
    for (_, name, default) in KEY_DEFAULTS.iter().filter(|(of, ..)| *of == short) {
        if let Some(Value::Object(property)) = schema.pointer_mut(&format!("/properties/{name}")) {
            property.insert("default".to_owned(), json!(default));
        }
    }
    for rule in merge_keys::all().filter(|rule| rule.of == short) {
        if let Some(Value::Object(property)) = schema.pointer_mut(&format!("/properties/{}", rule.name)) {
            mark_strategy(property, rule.strategy);
            mark_ssa(property, rule.ssa);
        }
    }
}

/// The type for arbitrary JSON. It has no `type` upstream, where k8s-openapi has `object`.
const ANY: &str = "JSON";

/// Adds the zero value as the default of required scalars. A later rule may reject the zero value.
fn default_required(schema: &mut Value) {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    for name in required.iter().filter_map(Value::as_str) {
        let Some(Value::Object(property)) = schema.pointer_mut(&format!("/properties/{name}")) else { continue };
        let zero = match property.get("type").and_then(Value::as_str) {
            Some("string") => json!(""),
            Some("integer" | "number") => json!(0),
            Some("boolean") => json!(false),
            _ => continue,
        };
        property.insert("default".to_owned(), zero);
    }
}

fn mark_strategy(property: &mut Map<String, Value>, strategy: PatchStrategy) {
    let (strategy, key) = match strategy {
        PatchStrategy::Plain => return,
        PatchStrategy::Key(key) => ("merge", Some(key)),
        PatchStrategy::KeyRetainKeys(key) => ("merge,retainKeys", Some(key)),
        PatchStrategy::Primitive => ("merge", None),
        PatchStrategy::RetainKeys => ("retainKeys", None),
        PatchStrategy::Replace => ("replace", None),
    };
    property.insert("x-kubernetes-patch-strategy".to_owned(), json!(strategy));
    if let Some(key) = key {
        property.insert("x-kubernetes-patch-merge-key".to_owned(), json!(key));
    }
}

fn mark_ssa(property: &mut Map<String, Value>, ssa: Ssa) {
    let kind = match ssa {
        Ssa::Granular => return,
        Ssa::AtomicMap | Ssa::GranularMap => {
            let kind = if ssa == Ssa::AtomicMap { "atomic" } else { "granular" };
            property.insert("x-kubernetes-map-type".to_owned(), json!(kind));
            return;
        }
        Ssa::Atomic => "atomic",
        Ssa::Set => "set",
        Ssa::MapOf(keys) => {
            property.insert("x-kubernetes-list-map-keys".to_owned(), json!(keys));
            "map"
        }
    };
    property.insert("x-kubernetes-list-type".to_owned(), json!(kind));
}
