//! A kind that no type of Rust describes: what it is called and what its objects hold is data, as of a custom resource.

use berth_api::{
    FeatureGates, FieldError, Object, Path, Scope,
    k8s_openapi::{
        apimachinery::pkg::apis::meta::v1::ObjectMeta,
        schemars::{Schema, SchemaGenerator},
    },
    object::{GenerationRule, NameRule},
};
use berth_identity::{GroupResource, GroupVersionKind};
use berth_registry::{
    Resource, Subresource,
    resource::{DecodeError, Decoded, Names, PrinterColumn, Rules, SelectableField},
};
use jiff::Timestamp;
use serde::de::Error as _;
use serde_json::{Map, Value, json};
use std::{any::Any, borrow::Cow, sync::Arc};

/// A widget: the group and version `api_version`, with `fields` to select by.
pub(crate) fn widgets(api_version: &str, fields: &[&str]) -> Resource {
    let kind = GroupVersionKind::parse(api_version, "Widget").expect("an API version");
    let names = Names { singular: "widget".into(), short_names: vec!["wd".into()], ..Names::new(kind.clone(), "widgets") };
    let rules = WidgetRules(Arc::new(Definition {
        resource: GroupResource::new(&kind.group, "widgets"),
        api_version: api_version.to_owned(),
        kind: kind.kind.to_string(),
        schema_name: format!("com.example.{}.Widget", kind.version),
        columns: vec![("Color".to_owned(), "/spec/color".to_owned())],
        size_max: 10,
    }));
    let mut resource = Resource::new(names, Scope::Namespaced, rules);
    resource.subresources = vec![Subresource::Status];
    let field = |name: &&str| SelectableField { name: (*name).into(), pointer: format!("/{}", name.replace('.', "/")) };
    resource.selectable_fields = fields.iter().map(field).collect();
    resource
}

#[derive(Debug, PartialEq)]
struct Definition {
    resource: GroupResource,
    api_version: String,
    kind: String,
    schema_name: String,
    /// Names and JSON pointers.
    columns: Vec<(String, String)>,
    size_max: i64,
}

struct WidgetRules(Arc<Definition>);

impl WidgetRules {
    fn read(&self, value: Value) -> Result<(Widget, Vec<String>), DecodeError> {
        let Value::Object(mut members) = value else { return Err(DecodeError::custom("it is no object")) };
        let meta = members.remove("metadata").map(serde_json::from_value).transpose().map_err(DecodeError::custom)?.unwrap_or_default();
        members.retain(|name, _| !matches!(name.as_str(), "apiVersion" | "kind"));
        let unknown = members.keys().filter(|name| !matches!(name.as_str(), "spec" | "status")).cloned().collect();
        members.retain(|name, _| matches!(name.as_str(), "spec" | "status"));
        Ok((Widget { definition: Arc::clone(&self.0), meta, members }, unknown))
    }
}

impl Rules for WidgetRules {
    fn decode(&self, value: Value) -> Result<Decoded, DecodeError> {
        let (object, unknown) = self.read(value)?;
        Ok(Decoded { object: Box::new(object), unknown })
    }

    fn decode_stored(&self, bytes: &[u8]) -> Result<Box<dyn Object>, DecodeError> {
        let value = serde_json::from_slice(bytes).map_err(DecodeError::custom)?;
        Ok(Box::new(self.read(value)?.0))
    }

    fn columns(&self) -> Cow<'_, [PrinterColumn<'_>]> {
        let column = |name, format| PrinterColumn { name, kind: "string", format, priority: 0, description: "" };
        let columns = self.0.columns.iter().map(|(name, _)| column(name.as_str(), ""));
        [column("Name", "name")].into_iter().chain(columns).collect()
    }

    fn cells(&self, object: &dyn Object, _now: Timestamp) -> Vec<Value> {
        let value = object.to_value();
        let cells = self.0.columns.iter().map(|(_, pointer)| value.pointer(pointer).cloned().unwrap_or_default());
        [json!(object.meta().name)].into_iter().chain(cells).collect()
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Schema {
        let spec = json!({"type": "object", "properties": {"color": {"type": "string"}, "size": {"type": "integer"}}});
        let status = json!({"type": "object", "properties": {"ready": {"type": "boolean"}}});
        let schema = json!({"type": "object", "properties": {"metadata": {"type": "object"}, "spec": spec, "status": status}});
        generator.definitions_mut().insert(self.0.schema_name.clone(), schema);
        Schema::new_ref(format!("#/components/schemas/{}", self.0.schema_name))
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Widget {
    definition: Arc<Definition>,
    meta: ObjectMeta,
    /// `spec` and `status`.
    members: Map<String, Value>,
}

impl Widget {
    fn of(object: &dyn Object) -> &Self {
        object.as_any().downcast_ref().expect("the registry pairs objects of one resource only")
    }

    /// Takes a member over from another version.
    fn keep(&mut self, member: &str, old: &dyn Object) {
        match Self::of(old).members.get(member) {
            Some(value) => drop(self.members.insert(member.to_owned(), value.clone())),
            None => drop(self.members.remove(member)),
        }
    }
}

impl Object for Widget {
    fn api_version(&self) -> &str {
        &self.definition.api_version
    }

    fn kind(&self) -> &str {
        &self.definition.kind
    }

    fn resource(&self) -> GroupResource {
        self.definition.resource.clone()
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Subdomain
    }

    fn generation_rule(&self) -> GenerationRule {
        GenerationRule::Spec
    }

    fn requires_resource_version(&self) -> bool {
        true
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }

    fn encode(&self) -> Vec<u8> {
        self.to_value().to_string().into_bytes()
    }

    fn to_value(&self) -> Value {
        let mut value = json!({"apiVersion": self.definition.api_version, "kind": self.definition.kind, "metadata": self.meta});
        for (name, member) in &self.members {
            value[name] = member.clone();
        }
        value
    }

    fn set_defaults(&mut self) {
        let spec = self.members.entry("spec").or_insert_with(|| json!({}));
        if spec["size"].is_null() {
            spec["size"] = json!(1);
        }
    }

    fn prepare_create(&mut self, _: &FeatureGates) {
        self.members.remove("status");
    }

    fn prepare_update(&mut self, old: &dyn Object, _: &FeatureGates) {
        self.keep("status", old);
    }

    fn prepare_status_update(&mut self, old: &dyn Object, _: &FeatureGates) {
        self.keep("spec", old);
    }

    fn validate(&self, _: &FeatureGates) -> Vec<FieldError> {
        let (size, max) = (self.members["spec"]["size"].as_i64().unwrap_or(0), self.definition.size_max);
        let field = Path::new("spec").child("size");
        if size <= max { Vec::new() } else { vec![FieldError::invalid(&field, size, format!("must not be above {max}"))] }
    }

    fn validate_update(&self, _: &dyn Object, gates: &FeatureGates) -> Vec<FieldError> {
        self.validate(gates)
    }

    fn validate_status_update(&self, _: &dyn Object, _: &FeatureGates) -> Vec<FieldError> {
        Vec::new()
    }

    fn warnings(&self, _: Option<&dyn Object>) -> Vec<String> {
        Vec::new()
    }

    fn spec_differs(&self, old: &dyn Object) -> bool {
        self.members.get("spec") != Self::of(old).members.get("spec")
    }

    fn same_as(&self, other: &dyn Object) -> bool {
        self == Self::of(other)
    }

    fn clone_object(&self) -> Box<dyn Object> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
