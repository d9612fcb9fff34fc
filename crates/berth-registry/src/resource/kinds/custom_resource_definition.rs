//! CustomResourceDefinition.

use super::text::{NAME, name};
use crate::resource::{
    Column, Printed, Resource,
    merge_rules::{MergeRule, atomic},
};
use berth_api::k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Its line of the resource table.
pub(super) fn resource() -> Resource {
    Resource::cluster::<CustomResourceDefinition>()
        .short(&["crd", "crds"])
        .read_only(NO_CUSTOM_RESOURCES)
        .stored_at("apiextensions.k8s.io/customresourcedefinitions")
        .merges(MERGE_RULES)
}

/// The kind exists for clients that list definitions, as kubectl does before it reports an unknown kind. The list is
/// empty.
const NO_CUSTOM_RESOURCES: &str =
    "berth does not serve custom resources yet: CustomResourceDefinitions can only be listed, and there are none";

const MERGE_RULES: &[MergeRule] = &[
    atomic("CustomResourceDefinitionNames", "categories"),
    atomic("CustomResourceDefinitionNames", "shortNames"),
    atomic("CustomResourceDefinitionSpec", "versions"),
    atomic("CustomResourceDefinitionStatus", "storedVersions"),
    atomic("CustomResourceDefinitionVersion", "additionalPrinterColumns"),
    atomic("CustomResourceDefinitionVersion", "selectableFields"),
    atomic("JSONSchemaProps", "allOf"),
    atomic("JSONSchemaProps", "anyOf"),
    atomic("JSONSchemaProps", "enum"),
    atomic("JSONSchemaProps", "oneOf"),
    atomic("JSONSchemaProps", "required"),
    atomic("JSONSchemaProps", "x-kubernetes-list-map-keys"),
    atomic("WebhookConversion", "conversionReviewVersions"),
];

impl Printed for CustomResourceDefinition {
    const COLUMNS: &'static [Column] =
        &[NAME, Column { name: "Created At", kind: "date", format: "", priority: 0, description: "When the definition was made." }];

    fn cells(&self, _now: Timestamp) -> Vec<Value> {
        vec![json!(name(&self.metadata)), json!(self.metadata.creation_timestamp)]
    }
}
