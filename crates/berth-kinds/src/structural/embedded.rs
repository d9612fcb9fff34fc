//! Objects of the API in an object: `x-kubernetes-embedded-resource`. Their type and their metadata are those of every object.
//!
//! Source: upstream `apiextensions-apiserver/pkg/apiserver/schema/objectmeta`.

use super::{Additional, Structural};
use berth_api::{FieldError, Path, Scope, decode::decode_by, metadata, names::check_dns_1035_label, normal::Normal, object::NameRule};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value};
use std::marker::PhantomData;

impl Structural {
    /// Brings the metadata of embedded objects to the form that metadata have. Adds the paths of the fields that metadata do not have to `unknown`.
    ///
    /// # Errors
    /// The type or the metadata of an embedded object cannot be read. Upstream answers that the request is bad.
    pub(crate) fn read_embedded(&self, object: &mut Value, unknown: &mut Vec<String>) -> Result<(), FieldError> {
        let mut visit = |value: &mut Map<String, Value>, path: &Path| read_resource(value, path, unknown);
        self.each_embedded(object, &Path::new(""), &mut visit)
    }

    /// The faults of embedded objects. `is_resource`: the value is an object of the API itself.
    pub(super) fn embedded_faults(&self, value: &Value, is_resource: bool) -> Vec<FieldError> {
        let mut faults = Vec::new();
        self.judge_embedded(value, is_resource, &Path::new(""), &mut faults);
        faults
    }

    fn each_embedded(
        &self,
        value: &mut Value,
        path: &Path,
        visit: &mut impl FnMut(&mut Map<String, Value>, &Path) -> Result<(), FieldError>,
    ) -> Result<(), FieldError> {
        match value {
            Value::Object(members) => {
                if self.embedded_resource {
                    visit(members, path)?;
                }
                for (name, value) in members {
                    match (self.properties.get(name.as_str()), &self.additional) {
                        (Some(property), _) => property.each_embedded(value, &path.child(name), visit)?,
                        (None, Additional::Of(schema)) => schema.each_embedded(value, &path.key(name), visit)?,
                        (None, Additional::Unset | Additional::Allowed(_)) => (),
                    }
                }
            }
            Value::Array(list) => {
                let Some(items) = &self.items else { return Ok(()) };
                for (index, element) in list.iter_mut().enumerate() {
                    items.each_embedded(element, &path.index(index), visit)?;
                }
            }
            _ => (),
        }
        Ok(())
    }

    fn judge_embedded(&self, value: &Value, is_resource: bool, path: &Path, faults: &mut Vec<FieldError>) {
        if super::FAULTS_MAX <= faults.len() {
            return;
        }
        match value {
            Value::Object(members) => {
                if is_resource {
                    judge_resource(members, path, faults);
                }
                for (name, value) in members {
                    match (self.properties.get(name.as_str()), &self.additional) {
                        (Some(property), _) => property.judge_embedded(value, property.embedded_resource, &path.child(name), faults),
                        (None, Additional::Of(schema)) => schema.judge_embedded(value, schema.embedded_resource, &path.key(name), faults),
                        (None, Additional::Unset | Additional::Allowed(_)) => (),
                    }
                }
            }
            Value::Array(list) => {
                let Some(items) = &self.items else { return };
                for (index, element) in list.iter().enumerate() {
                    items.judge_embedded(element, items.embedded_resource, &path.index(index), faults);
                }
            }
            _ => (),
        }
    }
}

fn read_resource(members: &mut Map<String, Value>, path: &Path, unknown: &mut Vec<String>) -> Result<(), FieldError> {
    for name in ["apiVersion", "kind"] {
        if let Some(value) = members.get(name).filter(|value| !value.is_string()) {
            return Err(FieldError::invalid(&path.child(name), value.clone(), "must be a string"));
        }
    }
    let Some(metadata) = members.get_mut("metadata") else { return Ok(()) };
    let at = path.child("metadata");
    let (meta, fields) = meta_of(metadata.take()).map_err(|(value, why)| FieldError::invalid(&at, value, why))?;
    unknown.extend(fields.into_iter().map(|field| at.child(&field).to_string()));
    *metadata = serde_json::to_value(meta).expect("metadata have string keys only");
    Ok(())
}

/// Metadata, and the paths of fields that there are not. A null is empty metadata.
fn meta_of(value: Value) -> Result<(ObjectMeta, Vec<String>), (Value, String)> {
    let value = if value.is_null() { Value::Object(Map::new()) } else { value };
    let read = decode_by(value.clone(), PhantomData::<ObjectMeta>);
    let (mut meta, unknown) = read.map_err(|error| (value, error.to_string()))?;
    meta.normalize();
    Ok((meta, unknown))
}

fn judge_resource(members: &Map<String, Value>, path: &Path, faults: &mut Vec<FieldError>) {
    // What cannot be read hides all else.
    let text = |name: &str| members.get(name).filter(|value| !value.is_string()).map(|value| (path.child(name), value));
    if let Some((at, value)) = text("apiVersion").or_else(|| text("kind")) {
        return faults.push(FieldError::invalid(&at, value.clone(), "must be a string"));
    }
    let meta = members.get("metadata").map(|metadata| meta_of(metadata.clone())).transpose();
    let mut meta = match meta {
        Err((value, why)) => return faults.push(FieldError::invalid(&path.child("metadata"), value, why)),
        Ok(meta) => meta.map(|(meta, _)| meta).unwrap_or_default(),
    };
    for (name, judge) in [("apiVersion", group_version as fn(&str) -> Option<String>), ("kind", kind as fn(&str) -> Option<String>)] {
        let at = path.child(name);
        match members.get(name).and_then(Value::as_str) {
            None => faults.push(FieldError::required(&at, "")),
            Some("") => faults.push(FieldError::invalid(&at, "", "must not be empty")),
            Some(text) => faults.extend(judge(text).map(|why| FieldError::invalid(&at, text, why))),
        }
    }
    // An embedded object needs no name, and can be of any scope.
    if meta.name.is_none() {
        meta.name = Some("a".to_owned());
    }
    let scope = if meta.namespace.as_deref().unwrap_or_default().is_empty() { Scope::Cluster } else { Scope::Namespaced };
    let found = metadata::validate_new(&meta, NameRule::PathSegment, scope);
    faults.extend(found.into_iter().map(|fault| FieldError { field: path.child(&fault.field.to_string()), ..fault }));
}

fn group_version(text: &str) -> Option<String> {
    (1 < text.matches('/').count()).then(|| format!("unexpected GroupVersion string: {text}"))
}

fn kind(text: &str) -> Option<String> {
    let why = check_dns_1035_label(&text.to_lowercase()).into_iter().next()?;
    Some(format!("may have mixed case, but should otherwise match: {why}"))
}
