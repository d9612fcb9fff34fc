//! CustomResourceDefinition: a kind that a client defines. The server serves it as soon as its names are accepted.

use super::values::text;
use crate::{
    Column, Components, Content, Conversion, Definition, Form, Names, Strategy, Version,
    custom::{begin_deletion, normal::settle, validate},
};
use berth_api::{FeatureGates, FieldError, ObjectRules, Scope, Subresource, object::FinalizerRule};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Map, Value, json};
use std::sync::Arc;

const KIND: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition";
/// The port of a webhook's Service, unless the definition names another.
const WEBHOOK_PORT: i32 = 443;

/// The definition of the kind.
#[must_use]
pub fn custom_resource_definition() -> Definition {
    let types = Components::new(KIND, &[TYPES], None);
    let version = Version {
        name: "v1".to_owned(),
        served: true,
        storage: true,
        schema: types.structural().expect("the types are complete"),
        status: true,
        columns: vec![Column::of_name(super::NAME_DESCRIPTION), Column::created()],
        ..Version::default()
    };
    let short_names = ["crd", "crds"].map(str::to_owned).to_vec();
    let categories = vec!["api-extensions".to_owned()];
    Definition {
        group: "apiextensions.k8s.io".to_owned(),
        names: Names { short_names, categories, ..Names::of("CustomResourceDefinition", "customresourcedefinitions") },
        scope: Scope::Cluster,
        versions: vec![version],
        conversion: Conversion::None,
        form: Form::Native { types: Arc::new(types), described_by: |generator| generator.subschema_for::<CustomResourceDefinition>() },
        rules: ObjectRules { requires_resource_version: true, finalizer_rule: FinalizerRule::Plain, ..super::rules() },
        empty: json!({"metadata": {}, "spec": {"group": "", "names": {"kind": "", "plural": ""}, "scope": "", "versions": []}}),
        pod_template: &[],
        strategy: Some(Arc::new(Definitions)),
    }
}

struct Definitions;

impl Strategy for Definitions {
    fn default(&self, definition: &mut Content) {
        let Some(Value::Object(spec)) = definition.members_mut().get_mut("spec") else { return };
        if let Some(Value::Object(names)) = spec.get_mut("names") {
            let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
            if !kind.is_empty() {
                set(names, "singular", kind.to_lowercase());
                set(names, "listKind", format!("{kind}List"));
            }
        }
        let conversion = spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
        if let Some(Value::Object(service)) = conversion.pointer_mut("/webhook/clientConfig/service") {
            service.entry("port").or_insert_with(|| WEBHOOK_PORT.into());
        }
        for version in spec.get_mut("versions").and_then(Value::as_array_mut).into_iter().flatten() {
            version.pointer_mut("/schema/openAPIV3Schema").into_iter().for_each(settle);
        }
    }

    fn prepare_create(&self, definition: &mut Content, _: &FeatureGates) {
        add_stored_version(definition);
    }

    fn prepare_update(&self, definition: &mut Content, _old: &Content, _: &FeatureGates) {
        add_stored_version(definition);
    }

    fn begin_deletion(&self, definition: &mut Content, now: &Time) {
        begin_deletion(definition, now);
    }

    fn validate(&self, definition: &Content) -> Vec<FieldError> {
        validate::validate(&definition.meta, definition.members())
    }

    fn validate_update(&self, definition: &Content, old: &Content, subresource: Option<Subresource>) -> Vec<FieldError> {
        if subresource.is_some() {
            return validate::validate_status(definition.members());
        }
        validate::validate_update((&definition.meta, definition.members()), (&old.meta, old.members()))
    }

    fn warnings(&self, definition: &Content, old: Option<&Content>) -> Vec<String> {
        let is_new = old.is_none_or(|old| old.members().get("spec") != definition.members().get("spec"));
        if is_new { validate::warnings(definition.members()) } else { Vec::new() }
    }
}

fn set(names: &mut Map<String, Value>, name: &str, text: String) {
    if names.get(name).and_then(Value::as_str).unwrap_or_default().is_empty() {
        names.insert(name.to_owned(), text.into());
    }
}

/// The status names each version in which objects can be stored.
fn add_stored_version(definition: &mut Content) {
    let members = definition.members_mut();
    let versions = members.get("spec").and_then(|spec| spec.get("versions")).and_then(Value::as_array).into_iter().flatten();
    let mut versions = versions.filter(|version| version.get("storage") == Some(&Value::Bool(true)));
    // Validation rejects a definition with several.
    let storage = versions.next().map(|version| text(version, "name").to_owned());
    let status = members.entry("status").or_insert_with(|| json!({"acceptedNames": {"kind": "", "plural": ""}, "conditions": null}));
    if !status["storedVersions"].is_array() {
        status["storedVersions"] = json!([]);
    }
    let Some(stored) = status["storedVersions"].as_array_mut() else { return };
    if let Some(name) = storage.filter(|name| !stored.iter().any(|stored| stored.as_str() == Some(name))) {
        stored.push(name.into());
    }
    if stored.is_empty() {
        status["storedVersions"] = Value::Null;
    }
}

/// Its types as OpenAPI publishes them, without their descriptions, which are `k8s-openapi`'s. The marks are for what upstream's Go types leave out and what they always write.
const TYPES: &str = include_str!("custom_resource_definition.json");
