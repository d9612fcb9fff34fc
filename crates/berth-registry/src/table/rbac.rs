//! Bindings of roles.

use super::{
    Printed,
    text::{AGE, NAME, age_of, name, text, wide},
};
use crate::resource::Column;
use berth_api::k8s_openapi::{
    api::rbac::v1::{ClusterRoleBinding, RoleBinding, RoleRef, Subject},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use jiff::Timestamp;
use serde_json::{Value, json};

const COLUMNS: &[Column] = &[
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

impl Printed for ClusterRoleBinding {
    const COLUMNS: &'static [Column] = COLUMNS;

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        cells(&self.metadata, &self.role_ref, self.subjects.as_deref().unwrap_or_default(), now)
    }
}

fn cells(meta: &ObjectMeta, role: &RoleRef, subjects: &[Subject], now: Timestamp) -> Vec<Value> {
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

/// The name, of a service account with its namespace.
fn subject_text(subject: &Subject) -> String {
    match subject.kind.as_str() {
        "ServiceAccount" => format!("{}/{}", subject.namespace.as_deref().unwrap_or_default(), subject.name),
        _ => subject.name.clone(),
    }
}
