//! StatefulSet.

use super::text::{AGE, CONTAINERS, IMAGES, NAME, age_of, containers, name, text};
use crate::resource::{
    Column, Printed, Resource, Subresource,
    merge_rules::{MergeRule, atomic, conditions, to},
};
use berth_api::apps::StatefulSet;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Its line of the resource table.
pub(super) fn resource() -> Resource {
    let template = json!({"metadata": {}, "spec": {"containers": null}});
    Resource::namespaced::<StatefulSet>()
        .short(&["sts"])
        .all()
        .sub(&[Subresource::Scale, Subresource::Status])
        .merges(MERGE_RULES)
        .always_has(json!({"spec": {"selector": null, "template": template, "updateStrategy": {}}}))
}

const MERGE_RULES: &[MergeRule] = &[
    to("StatefulSet", "spec", "StatefulSetSpec"),
    to("StatefulSet", "status", "StatefulSetStatus"),
    to("StatefulSetSpec", "template", "PodTemplateSpec"),
    atomic("StatefulSetSpec", "volumeClaimTemplates"),
    conditions("StatefulSetStatus"),
];

impl Printed for StatefulSet {
    const COLUMNS: &'static [Column] = &[NAME, text("Ready", "Ready pods of those that are wanted."), AGE, CONTAINERS, IMAGES];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let (names, images) = containers(self.spec.template.spec.as_ref());
        vec![
            json!(name(&self.metadata)),
            json!(format!("{}/{}", self.status.ready_replicas, self.spec.replicas.unwrap_or_default())),
            json!(age_of(&self.metadata, now)),
            json!(names),
            json!(images),
        ]
    }
}
