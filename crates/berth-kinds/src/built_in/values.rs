//! What the kinds of this folder read of JSON, and how they begin.

use crate::{Components, Conversion, Definition, Form, Names, Version};
use berth_api::{Scope, label_selector};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;

/// A kind of upstream's Go types with one version, `v1`, which is made of `types`. `T` describes them. `kind` is the last part of the name of one of them.
pub(super) fn native<T: JsonSchema>(group: &str, names: Names, scope: Scope, version: Version, types: &str) -> Definition {
    let name = format!("io.k8s.api.{}.v1.{}", group.trim_end_matches(".k8s.io"), names.kind);
    let components = Components::read(&name, &[types]).expect("the types are in this file");
    let schema = components.structural().expect("the types are complete");
    Definition {
        group: group.to_owned(),
        names,
        scope,
        versions: vec![Version { name: "v1".to_owned(), served: true, storage: true, schema, ..version }],
        conversion: Conversion::None,
        form: Form::Native { types: Arc::new(components), described_by: |generator| generator.subschema_for::<T>() },
        rules: super::rules(),
        empty: Definition::only_metadata(),
        strategy: None,
    }
}

/// The text of a member, empty if absent.
pub(super) fn text<'v>(object: &'v Value, name: &str) -> &'v str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The elements of a member, none if absent.
pub(super) fn list<'v>(object: &'v Value, name: &str) -> &'v [Value] {
    object.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The selector of a member.
pub(super) fn selector(object: &Value, name: &str) -> Option<LabelSelector> {
    LabelSelector::deserialize(object.get(name)?).ok()
}

/// The selector of a member as people read it.
pub(super) fn shown_selector(object: &Value, name: &str) -> String {
    label_selector::shown(selector(object, name).as_ref())
}
