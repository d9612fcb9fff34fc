//! ControllerRevision.

use super::text::{AGE, NAME, age_of, name, text};
use crate::resource::{AuditedBody, Column, Printed, Resource};
use berth_api::k8s_openapi::{api::apps::v1::ControllerRevision, apimachinery::pkg::apis::meta::v1::OwnerReference};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Its line of the resource table. Its `data` is a template, which is no secret.
pub(super) fn resource() -> Resource {
    Resource::namespaced::<ControllerRevision>().always_has(json!({"revision": 0})).audited(AuditedBody::WithData)
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
