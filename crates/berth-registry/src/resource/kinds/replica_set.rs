//! ReplicaSet.

use super::text::{AGE, CONTAINERS, IMAGES, NAME, SELECTOR, age_of, containers, integer, name, selector};
use crate::resource::{
    Column, Printed, Resource, Subresource,
    merge_rules::{MergeRule, conditions, to},
};
use berth_api::apps::ReplicaSet;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Its line of the resource table.
pub(super) fn resource() -> Resource {
    let template = json!({"metadata": {}, "spec": {"containers": null}});
    Resource::namespaced::<ReplicaSet>()
        .short(&["rs"])
        .all()
        .sub(&[Subresource::Scale, Subresource::Status])
        .merges(MERGE_RULES)
        .always_has(json!({"spec": {"selector": null, "template": template}}))
}

const MERGE_RULES: &[MergeRule] = &[
    to("ReplicaSet", "spec", "ReplicaSetSpec"),
    to("ReplicaSet", "status", "ReplicaSetStatus"),
    to("ReplicaSetSpec", "template", "PodTemplateSpec"),
    conditions("ReplicaSetStatus"),
];

impl Printed for ReplicaSet {
    const COLUMNS: &'static [Column] = &[
        NAME,
        integer("Desired", "How many pods are wanted."),
        integer("Current", "How many pods there are."),
        integer("Ready", "How many pods are ready."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let (names, images) = containers(self.spec.template.spec.as_ref());
        vec![
            json!(name(&self.metadata)),
            json!(self.spec.replicas.unwrap_or_default()),
            json!(self.status.replicas),
            json!(self.status.ready_replicas),
            json!(age_of(&self.metadata, now)),
            json!(names),
            json!(images),
            json!(selector(self.spec.selector.as_ref())),
        ]
    }
}
