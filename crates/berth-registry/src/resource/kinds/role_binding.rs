//! RoleBinding, and columns that it has in common with ClusterRoleBinding.

use super::text::{AGE, NAME, age_of, name, text, wide};
use crate::resource::{Column, Printed, Resource, merge_rules::atomic};
use berth_api::k8s_openapi::{
    api::rbac::v1::{RoleBinding, RoleRef, Subject},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Its line of the resource table.
pub(super) fn resource() -> Resource {
    Resource::namespaced::<RoleBinding>().put_creates().merges(const { &[atomic("RoleBinding", "subjects")] })
}

pub(super) const COLUMNS: &[Column] = &[
    NAME,
    text("Role", "The role that is granted."),
    AGE,
    wide("Users", "Users that it is granted to."),
    wide("Groups", "Groups that it is granted to."),
    wide("ServiceAccounts", "Service accounts that it is granted to."),
];

impl Printed for RoleBinding {
    const COLUMNS: &'static [Column] = COLUMNS;

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        cells(&self.metadata, &self.role_ref, self.subjects.as_deref().unwrap_or_default(), now)
    }
}

pub(super) fn cells(meta: &ObjectMeta, role: &RoleRef, subjects: &[Subject], now: Timestamp) -> Vec<Value> {
    let of_kind = |kind: &str| {
        let texts: Vec<String> = subjects.iter().filter(|subject| subject.kind == kind).map(subject_text).collect();
        texts.join(", ")
    };
    vec![
        json!(name(meta)),
        json!(format!("{}/{}", role.kind, role.name)),
        json!(age_of(meta, now)),
        json!(of_kind("User")),
        json!(of_kind("Group")),
        json!(of_kind("ServiceAccount")),
    ]
}

/// Returns the name, and for a service account its namespace too.
fn subject_text(subject: &Subject) -> String {
    match subject.kind.as_str() {
        "ServiceAccount" => format!("{}/{}", subject.namespace.as_deref().unwrap_or_default(), subject.name),
        _ => subject.name.clone(),
    }
}
