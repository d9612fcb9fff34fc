//! Workloads and what guards them.

use super::{
    Printed,
    text::{AGE, CONTAINERS, IMAGES, NAME, SELECTOR, age_of, containers, int_or_string, integer, name, selector, text},
};
use crate::resource::Column;
use berth_api::{
    apps::{Deployment, ReplicaSet, StatefulSet},
    k8s_openapi::{
        api::{apps::v1::ControllerRevision, policy::v1::PodDisruptionBudget},
        apimachinery::pkg::apis::meta::v1::OwnerReference,
    },
};
use jiff::Timestamp;
use serde_json::{Value, json};

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

impl Printed for ControllerRevision {
    const COLUMNS: &'static [Column] = &[
        NAME,
        text("Controller", "The object whose revision it is."),
        text("Revision", "The number of the revision; higher is newer."),
        AGE,
    ];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let controller = self.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
        vec![
            json!(name(&self.metadata)),
            json!(controller.map_or_else(|| "<none>".to_owned(), owner_text)),
            json!(self.revision),
            json!(age_of(&self.metadata, now)),
        ]
    }
}

/// `statefulset.apps/web`.
fn owner_text(owner: &OwnerReference) -> String {
    let kind = owner.kind.to_lowercase();
    match owner.api_version.rsplit_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{}", owner.name),
        None => format!("{kind}/{}", owner.name),
    }
}

impl Printed for PodDisruptionBudget {
    const COLUMNS: &'static [Column] = &[
        NAME,
        text("Min Available", "How many pods must stay available."),
        text("Max Unavailable", "How many pods may be unavailable."),
        integer("Allowed Disruptions", "How many pods may be evicted now."),
        AGE,
    ];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let spec = self.spec.clone().unwrap_or_default();
        let allowed = self.status.as_ref().and_then(|status| status.disruptions_allowed).unwrap_or_default();
        vec![
            json!(name(&self.metadata)),
            json!(int_or_string(spec.min_available.as_ref())),
            json!(int_or_string(spec.max_unavailable.as_ref())),
            json!(allowed),
            json!(age_of(&self.metadata, now)),
        ]
    }
}
