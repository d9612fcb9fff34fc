//! What the kinds of this folder read of JSON, and how they begin.

pub(crate) use crate::members::{list, member, text};

use crate::{Cell, Components, Content, Conversion, Definition, Form, JsonPath, Names, SharedTypes, Version};
use berth_api::{Path, Scope, faults::Faults, label_selector, names::check_dns_subdomain};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde_json::Value;
use std::{collections::BTreeSet, sync::Arc};

/// A kind of upstream's Go types with one version, `v1`, which is made of `types`. `T` describes them. `kind` is the last part of the name of one of them.
pub(super) fn native<T: JsonSchema>(group: &str, names: Names, scope: Scope, version: Version, types: &[&'static str]) -> Definition {
    native_sharing::<T>(group, names, scope, version, types, None)
}

/// The same, where types that are not in `types` are in `shared`.
pub(super) fn native_sharing<T: JsonSchema>(
    group: &str,
    names: Names,
    scope: Scope,
    version: Version,
    types: &[&'static str],
    shared: Option<&'static SharedTypes>,
) -> Definition {
    let package = if group.is_empty() { "core" } else { group.trim_end_matches(".k8s.io").trim_end_matches(".apiserver") };
    let name = format!("io.k8s.api.{package}.v1.{}", names.kind);
    native_of_type::<T>(group, names, scope, version, Components::new(&name, types, shared))
}

/// The same, where the name of the kind's type is another one.
pub(super) fn native_of_type<T: JsonSchema>(
    group: &str,
    names: Names,
    scope: Scope,
    version: Version,
    components: Components,
) -> Definition {
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
        pod_template: &[],
        strategy: None,
    }
}

/// The cell of a column whose value is at this path.
pub(crate) fn at(path: &str) -> Cell {
    Cell::Path(JsonPath::parse(path).expect("a path of this crate"))
}

/// The spec of an object.
pub(crate) fn spec(object: &Content) -> &Value {
    &object.members()["spec"]
}

/// A domain, and a path in it.
///
/// Source: upstream `IsDomainPrefixedPath`.
pub(super) fn domain_prefixed_path(text: &str, path: &Path, faults: &mut Faults) {
    if !faults.set(path, text) {
        return;
    }
    let Some((domain, rest)) = text.split_once('/').filter(|(domain, rest)| !domain.is_empty() && !rest.is_empty()) else {
        return faults.invalid(path, text, "must be a domain-prefixed path (such as \"acme.io/foo\")");
    };
    faults.form(path, domain, check_dns_subdomain);
    if !rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte)) {
        faults.invalid(path, rest, r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')");
    }
}

/// Conditions have types, each once.
pub(super) fn validate_conditions(status: &Value, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for (index, condition) in list(status, "conditions").iter().enumerate() {
        let path = Path::new("status").child("conditions").index(index).child("type");
        if faults.set(&path, text(condition, "type")) {
            faults.unique(&path, text(condition, "type"), &mut seen);
        }
    }
}

/// The selector of a member.
pub(super) fn selector(object: &Value, name: &str) -> Option<LabelSelector> {
    member(object, name)
}

/// The selector of a member as people read it.
pub(super) fn shown_selector(object: &Value, name: &str) -> String {
    label_selector::shown(selector(object, name).as_ref())
}

/// The types of selectors, for kinds that have one.
pub(super) const LABEL_SELECTOR_TYPES: &str = r##"{
  "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector": {
    "properties": {
      "matchExpressions": {
        "items": {
          "$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelectorRequirement"
        },
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        "x-berth-omit-empty": true
      },
      "matchLabels": {
        "additionalProperties": {
          "type": "string"
        },
        "type": "object",
        "x-berth-omit-empty": true
      }
    },
    "type": "object",
    "x-kubernetes-map-type": "atomic"
  },
  "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelectorRequirement": {
    "properties": {
      "key": {
        "default": "",
        "type": "string"
      },
      "operator": {
        "default": "",
        "type": "string"
      },
      "values": {
        "items": {
          "type": "string"
        },
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        "x-berth-omit-empty": true
      }
    },
    "required": [
      "key",
      "operator"
    ],
    "type": "object"
  }
}"##;
