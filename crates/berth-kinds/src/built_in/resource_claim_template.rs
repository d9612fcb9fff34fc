//! ResourceClaimTemplate: the claim that each of several pods gets. No part of berth creates these claims: templates are kept.

use super::{
    devices::{DEVICE_TYPES, GROUP, default_claim, validate_claim},
    values::{member, native_sharing, spec},
};
use crate::{Column, Content, Definition, Names, Strategy, Version};
use berth_api::{
    FieldError, ObjectRules, Path, Scope, Subresource,
    faults::Faults,
    metadata::{validate_annotations, validate_labels},
    object::GenerationRule,
};
use serde_json::json;
use std::sync::Arc;

/// The metadata that a claim does not take from its template, in the order of upstream's messages.
const NOT_TAKEN: [&str; 8] =
    ["name", "generateName", "uid", "resourceVersion", "generation", "deletionTimestamp", "ownerReferences", "finalizers"];

/// The definition of the kind.
#[must_use]
pub fn resource_claim_template() -> Definition {
    let version = Version { columns: vec![Column::of_name(super::NAME_DESCRIPTION), Column::age()], ..Version::default() };
    Definition {
        rules: ObjectRules { generation_rule: GenerationRule::None, ..super::rules() },
        empty: json!({"metadata": {}, "spec": {"metadata": {}, "spec": {"devices": {"requests": null}}}}),
        strategy: Some(Arc::new(Templates)),
        ..native_sharing::<k8s_openapi::api::resource::v1::ResourceClaimTemplate>(
            GROUP,
            Names::of("ResourceClaimTemplate", "resourceclaimtemplates"),
            Scope::Namespaced,
            version,
            &[],
            Some(&DEVICE_TYPES),
        )
    }
}

struct Templates;

impl Strategy for Templates {
    fn default(&self, template: &mut Content) {
        default_claim(&mut template.members_mut()["spec"]["spec"]["devices"]);
    }

    fn validate(&self, template: &Content) -> Vec<FieldError> {
        let mut faults = Faults::default();
        let (path, spec) = (Path::new("spec"), spec(template));
        let (of_metadata, metadata) = (path.child("metadata"), &spec["metadata"]);
        faults.add(validate_annotations(member(metadata, "annotations").as_ref(), &of_metadata.child("annotations")));
        faults.add(validate_labels(member(metadata, "labels").as_ref(), &of_metadata.child("labels")));
        for field in NOT_TAKEN.into_iter().filter(|field| metadata.get(field).is_some()) {
            faults.forbidden(&of_metadata.child(field), "cannot be set");
        }
        validate_claim(&spec["spec"]["devices"], &path.child("spec").child("devices"), &mut faults);
        faults.into_vec()
    }

    fn validate_update(&self, template: &Content, old: &Content, _: Option<Subresource>) -> Vec<FieldError> {
        let mut faults = Faults::default();
        if spec(template) != spec(old) {
            faults.invalid(&Path::new("spec"), spec(template).clone(), "field is immutable");
        }
        faults.add(self.validate(template));
        faults.into_vec()
    }
}
