//! Deployment.

use super::text::{AGE, CONTAINERS, IMAGES, NAME, SELECTOR, age_of, containers, name, selector, text};
use crate::resource::{
    Column, Printed, Resource, Subresource,
    merge_rules::{MergeRule, PatchStrategy::RetainKeys, Ssa, conditions, list, to},
};
use berth_api::apps::Deployment;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Its line of the resource table.
pub(super) fn resource() -> Resource {
    let template = json!({"metadata": {}, "spec": {"containers": null}});
    Resource::namespaced::<Deployment>()
        .short(&["deploy"])
        .all()
        .sub(&[Subresource::Scale, Subresource::Status])
        .merges(MERGE_RULES)
        .always_has(json!({"spec": {"selector": null, "strategy": {}, "template": template}}))
        .status_keeps(&[&["metadata", "labels"]])
}

const MERGE_RULES: &[MergeRule] = &[
    to("Deployment", "spec", "DeploymentSpec"),
    to("Deployment", "status", "DeploymentStatus"),
    to("DeploymentSpec", "template", "PodTemplateSpec"),
    list("DeploymentSpec", "strategy", RetainKeys, Ssa::Granular),
    conditions("DeploymentStatus"),
];

impl Printed for Deployment {
    const COLUMNS: &'static [Column] = &[
        NAME,
        text("Ready", "Ready pods of those that are wanted."),
        text("Up-to-date", "Pods that have the newest template."),
        text("Available", "Pods that have been ready for long enough."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let (names, images) = containers(self.spec.template.spec.as_ref());
        vec![
            json!(name(&self.metadata)),
            json!(format!("{}/{}", self.status.ready_replicas, self.spec.replicas.unwrap_or_default())),
            json!(self.status.updated_replicas),
            json!(self.status.available_replicas),
            json!(age_of(&self.metadata, now)),
            json!(names),
            json!(images),
            json!(selector(self.spec.selector.as_ref())),
        ]
    }
}
