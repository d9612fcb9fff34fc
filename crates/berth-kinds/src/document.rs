//! An object whose kind is data.

use crate::{Content, ConversionError, Form, KindVersion, ScalePaths, Strategy, reading};
use berth_api::{
    FeatureGates, FieldError, Object, ObjectRules, ObjectStrategy, Path, Subresource,
    decode::{self, Codec, DecodeError},
    metadata,
    normal::Normal,
    object::{Scaled, ScaledSelector},
    own_annotations, pod,
};
use berth_identity::{GroupResource, GroupVersionKind};
use k8s_openapi::{
    api::core::v1::PodTemplateSpec,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use serde::de::Error as _;
use serde_json::{Map, Value};
use std::{any::Any, fmt};

/// An object of a [`KindVersion`].
#[derive(Clone)]
pub struct Document {
    kind: KindVersion,
    content: Content,
}

impl KindVersion {
    /// Reads what a client sent. Returns the object, without defaults, and the paths of the fields that the schema does not have.
    ///
    /// # Errors
    /// Metadata of a wrong type, another kind; in the native form any value of a wrong type.
    pub fn decode(&self, value: Value) -> Result<(Document, Vec<String>), DecodeError> {
        let (mut document, unknown) = self.decode_applied(value)?;
        if matches!(self.definition().form, Form::Custom) {
            self.version().schema.remove_nulls(document.content.value_mut());
        }
        Ok((document, unknown))
    }

    /// Reads the result of an apply. Upstream keeps its nulls, which the schema can reject.
    ///
    /// # Errors
    /// [`KindVersion::decode`].
    pub fn decode_applied(&self, value: Value) -> Result<(Document, Vec<String>), DecodeError> {
        let (mut content, mut unknown) = reading::sent(self.wanted(), value)?;
        if matches!(self.definition().form, Form::Custom) {
            let schema = &self.version().schema;
            unknown.extend(schema.prune(content.value_mut()));
            unknown.sort_unstable();
            if self.has_embedded() {
                schema.read_embedded(content.value_mut(), &mut unknown).map_err(DecodeError::custom)?;
            }
        }
        Ok((Document { kind: self.clone(), content }, unknown))
    }

    /// Reads an object of this version that was written here.
    ///
    /// # Errors
    /// Bytes that are no such object.
    pub fn decode_stored(&self, bytes: &[u8]) -> Result<Document, DecodeError> {
        Ok(Document { kind: self.clone(), content: reading::stored(self.wanted(), bytes)? })
    }

    /// An object of this version in the version in which it is stored.
    ///
    /// # Errors
    /// The conversion's.
    pub fn to_stored(&self, object: &Document) -> Result<Vec<u8>, ConversionError> {
        if self.is_storage() { Ok(object.encode()) } else { self.converted_to_stored(object.to_value()) }
    }
}

impl Document {
    /// The version of the kind that it is of.
    #[must_use]
    pub fn version(&self) -> &KindVersion {
        &self.kind
    }

    /// What it holds.
    #[must_use]
    pub fn content(&self) -> &Content {
        &self.content
    }

    /// The same, to change.
    pub fn content_mut(&mut self) -> &mut Content {
        &mut self.content
    }

    /// The template of its pods. `None`: the kind has none, or it cannot be read.
    #[must_use]
    pub fn pod_template(&self) -> Option<PodTemplateSpec> {
        let path = self.kind.definition().pod_template;
        let template = path.iter().try_fold(self.content.members(), |value, name| value.get(name)).filter(|_| !path.is_empty())?;
        decode::decode_tree(template).ok()
    }

    /// Brings the template of its pods to the form that every template has.
    fn set_template_defaults(&mut self) {
        let Some(mut template) = self.pod_template() else { return };
        pod::set_template_defaults(&mut template);
        let path = self.kind.definition().pod_template;
        let at = path.iter().try_fold(self.content.value_mut(), |value, name| value.get_mut(name));
        *at.expect("it has just been read there") = template.encode_tree();
    }

    /// The document that an object is. Every object of a resource whose kind is data is one.
    #[must_use]
    pub fn of(object: &dyn Object) -> Option<&Self> {
        object.as_any().downcast_ref()
    }

    fn same_kind(object: &dyn Object) -> &Self {
        Self::of(object).expect("the registry pairs objects of one resource only")
    }

    fn strategy(&self) -> Option<std::sync::Arc<dyn Strategy>> {
        self.kind.definition().strategy.clone()
    }

    fn is_native(&self) -> bool {
        matches!(self.kind.definition().form, Form::Native { .. })
    }

    /// Takes a member over from another object.
    fn take(&mut self, name: &str, from: &Self) {
        match from.content.members().get(name) {
            Some(value) => _ = self.content.members_mut().insert(name.to_owned(), value.clone()),
            None => _ = self.content.members_mut().remove(name),
        }
    }

    /// The faults of the schema: of everything but metadata, and of the name.
    fn schema_faults(&self, old: Option<&Self>) -> Vec<FieldError> {
        if self.is_native() {
            return Vec::new();
        }
        let schema = &self.kind.version().schema;
        if schema.has_rules_about_the_object() {
            // They can read the kind and the name, too.
            let old = old.map(Self::with_names);
            return schema.validate(&self.with_names(), old.as_ref());
        }
        let mut faults = schema.validate(self.content.members(), old.map(|old| old.content.members()));
        if let Some(metadata) = schema.properties.get("metadata") {
            let old = old.map(|old| names(old.meta()));
            let found = metadata.validate(&names(self.meta()), old.as_ref());
            let inside = |fault: FieldError| FieldError { field: Path::new("metadata").child(&fault.field.to_string()), ..fault };
            faults.extend(found.into_iter().map(inside));
        }
        faults
    }

    /// The object with the part of its metadata that a schema and its rules can judge.
    fn with_names(&self) -> Value {
        let mut members = self.content.members().clone();
        members["apiVersion"] = self.api_version().into();
        members["kind"] = self.kind().into();
        members["metadata"] = names(self.meta());
        members
    }

    fn scale_paths(&self) -> Option<&ScalePaths> {
        self.kind.version().scale.as_ref()
    }

    fn number_at(&self, path: &crate::JsonPath) -> Option<i32> {
        path.first(self.content.members()).and_then(Value::as_i64).map(|number| i32::try_from(number).unwrap_or(i32::MAX))
    }

    /// Upstream judges the numbers that `/scale` shows, whatever the schema allows.
    fn scale_faults(&self) -> Vec<FieldError> {
        // A kind of upstream's Go types has words of its own for them.
        let Some(paths) = self.scale_paths().filter(|_| !self.is_native()) else { return Vec::new() };
        let judged = [&paths.spec_replicas, &paths.status_replicas].into_iter().filter_map(|path| {
            let number = path.first(self.content.members()).and_then(Value::as_i64).filter(|number| *number < 0)?;
            let field = Path::new(path.to_string().trim_start_matches('.'));
            Some(FieldError::invalid(&field, number, "should be a non-negative integer"))
        });
        judged.collect()
    }

    /// What `/status` and `/approval` cannot change is as it was.
    fn prepare_status(&mut self, old: &Self, subresource: Subresource) {
        let status = self.content.members_mut().remove("status");
        self.content.value_mut().clone_from(old.content.members());
        self.content.members_mut().remove("status");
        status.map(|status| self.content.members_mut().insert("status".to_owned(), status));
        if !self.is_native() {
            let meta = self.meta_mut();
            let (managed_fields, resource_version) = (meta.managed_fields.take(), meta.resource_version.take());
            *meta = ObjectMeta { managed_fields, resource_version, ..old.meta().clone() };
        }
        match self.strategy() {
            Some(strategy) if subresource == Subresource::Approval => strategy.prepare_approval(&mut self.content, &old.content),
            Some(strategy) => strategy.prepare_status_update(&mut self.content, &old.content),
            None => (),
        }
    }
}

/// The part of metadata that a schema can judge.
fn names(meta: &ObjectMeta) -> Value {
    let names = [("name", &meta.name), ("generateName", &meta.generate_name)];
    names.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text.clone()?.into()))).collect::<Map<_, _>>().into()
}

impl ObjectStrategy for Document {
    fn rules(&self) -> &ObjectRules {
        &self.kind.definition().rules
    }

    fn normalize(&mut self) {
        if self.is_native() {
            self.content.meta.normalize();
            let kind = self.kind.clone();
            kind.version().schema.normalize(self.content.value_mut());
        }
    }

    fn set_defaults(&mut self) {
        self.normalize();
        if !self.is_native() {
            let kind = self.kind.clone();
            kind.version().schema.add_defaults(self.content.value_mut());
        }
        self.set_template_defaults();
        if let Some(strategy) = self.strategy() {
            strategy.default(&mut self.content);
        }
    }

    fn prepare_create(&mut self, gates: &FeatureGates) {
        if self.kind.version().status {
            self.content.members_mut().remove("status");
            self.normalize();
        }
        if let Some(strategy) = self.strategy() {
            strategy.prepare_create(&mut self.content, gates);
        }
    }

    /// Of a custom resource, `/status` writes the status alone. Of upstream's own kinds, also metadata.
    fn prepare_update(&mut self, old: &dyn Object, subresource: Option<Subresource>, gates: &FeatureGates) {
        let old = Self::same_kind(old);
        match subresource {
            Some(subresource @ (Subresource::Status | Subresource::Approval)) => self.prepare_status(old, subresource),
            Some(Subresource::Finalize) => (),
            _ => {
                if self.kind.version().status {
                    self.take("status", old);
                }
                if let Some(strategy) = self.strategy() {
                    strategy.prepare_update(&mut self.content, &old.content, gates);
                }
            }
        }
    }

    fn stamp(&mut self, old: Option<&dyn Object>, now: &Time) {
        let old = old.map(Self::same_kind);
        if let Some(strategy) = self.strategy() {
            strategy.stamp(&mut self.content, old.map(|old| &old.content), now);
        }
    }

    fn begin_deletion(&mut self, now: &Time) {
        if let Some(strategy) = self.strategy() {
            strategy.begin_deletion(&mut self.content, now);
        }
    }

    fn validate(&self, _: &FeatureGates) -> Vec<FieldError> {
        let mut faults = self.schema_faults(None);
        faults.extend(self.scale_faults());
        faults.extend(self.strategy().into_iter().flat_map(|strategy| strategy.validate(&self.content)));
        faults
    }

    fn validate_update(&self, old: &dyn Object, subresource: Option<Subresource>, _: &FeatureGates) -> Vec<FieldError> {
        if subresource == Some(Subresource::Finalize) {
            return Vec::new();
        }
        let old = Self::same_kind(old);
        let mut faults = self.schema_faults(Some(old));
        faults.extend(self.scale_faults());
        let of_status = subresource.filter(|subresource| matches!(subresource, Subresource::Status | Subresource::Approval));
        faults.extend(self.strategy().into_iter().flat_map(|strategy| strategy.validate_update(&self.content, &old.content, of_status)));
        faults
    }

    fn warnings(&self, old: Option<&dyn Object>) -> Vec<String> {
        let old = old.map(Self::same_kind);
        let mut warnings: Vec<String> = self.kind.version().deprecation_warning.iter().cloned().collect();
        warnings.extend(self.strategy().into_iter().flat_map(|strategy| strategy.warnings(&self.content, old.map(|old| &old.content))));
        if !self.is_native() {
            warnings.extend(metadata::finalizer_warnings(self.meta(), old.map(Object::meta)));
        }
        if self.is_native() && old.is_none_or(|old| old.meta().annotations != self.meta().annotations || self.spec_differs(old)) {
            warnings.extend(own_annotations::of_object(self.kind(), self.meta()));
        }
        warnings
    }

    /// Everything but metadata, and the status where that is written through its own endpoint.
    fn spec_differs(&self, old: &dyn Object) -> bool {
        let (has_status, old) = (self.kind.version().status, Self::same_kind(old));
        let is_spec = |(name, _): &(&String, &Value)| !(has_status && name.as_str() == "status");
        let members = |object: &'_ Self| -> Vec<(String, Value)> {
            let members = object.content.members().as_object().into_iter().flatten().filter(is_spec);
            members.map(|(name, value)| (name.clone(), value.clone())).collect()
        };
        self.content.members() != old.content.members() && members(self) != members(old)
    }

    fn scale(&self) -> Option<Scaled<'_>> {
        let paths = self.scale_paths()?;
        let selector = paths.label_selector.as_ref().and_then(|path| path.first(self.content.members()));
        let selector = selector.and_then(|selector| match selector {
            Value::String(text) => Some(ScaledSelector::Text(text)),
            Value::Object(labels) => Some(ScaledSelector::Equal(labels)),
            _ => None,
        });
        Some(Scaled {
            replicas: self.number_at(&paths.spec_replicas),
            current: self.number_at(&paths.status_replicas).unwrap_or(0),
            selector,
        })
    }

    fn set_replicas(&mut self, replicas: i32) {
        let kind = self.kind.clone();
        let Some(fields) = kind.version().scale.as_ref().and_then(|paths| paths.spec_replicas.fields()) else { return };
        let mut at = self.content.value_mut();
        for name in fields {
            if !at.is_object() {
                *at = Value::Object(Map::new());
            }
            at = &mut at[name];
        }
        *at = replicas.into();
    }
}

impl Object for Document {
    fn api_version(&self) -> &str {
        self.kind.api_version()
    }

    fn kind(&self) -> &str {
        &self.kind.definition().names.kind
    }

    fn gvk(&self) -> GroupVersionKind {
        self.kind.gvk().clone()
    }

    fn resource(&self) -> GroupResource {
        self.kind.resource().clone()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.content.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.content.meta
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = format!("{{\"apiVersion\":\"{}\",\"kind\":\"{}\"", self.api_version(), self.kind()).into_bytes();
        let members = || self.content.members().as_object().into_iter().flatten();
        for (name, value) in members().take_while(|(name, _)| name.as_str() < "metadata") {
            reading::write_member(&mut out, name, value);
        }
        reading::write_member(&mut out, "metadata", self.meta());
        for (name, value) in members().skip_while(|(name, _)| name.as_str() < "metadata") {
            reading::write_member(&mut out, name, value);
        }
        out.push(b'}');
        out
    }

    fn to_value(&self) -> Value {
        let mut value = self.content.members().clone();
        value["apiVersion"] = self.api_version().into();
        value["kind"] = self.kind().into();
        value["metadata"] = serde_json::to_value(self.meta()).expect("metadata have string keys only");
        value
    }

    fn same_as(&self, other: &dyn Object) -> bool {
        Self::of(other).is_some_and(|other| self.kind.is(&other.kind) && self.content == other.content)
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

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Document").field("kind", &self.kind).field("content", &self.content).finish()
    }
}

#[cfg(test)]
mod tests;
