//! The facts about a kind that field ownership needs: its schema, the fields of every object, and the immutable fields
//! of each endpoint.

use super::Subresource;
use berth_fieldsets::{Root, Schema, Set};
use serde_json::Value;
use std::collections::BTreeMap;

/// The facts about one kind.
#[derive(Debug)]
pub(crate) struct KindFields {
    pub(crate) schema: Schema,
    /// The name of the kind's schema in `schema`.
    pub(crate) name: String,
    /// The fields of every object of the kind (upstream's zero value), before any field has an owner.
    pub(crate) empty: Value,
    /// The fields that the main endpoint copies from the stored object.
    pub(crate) main_ignores: Set,
    /// The fields that the status endpoint copies.
    pub(crate) status_ignores: Set,
    /// The facts about the other versions of the kind, by `apiVersion`.
    pub(crate) others: BTreeMap<String, KindFields>,
}

impl KindFields {
    pub(crate) fn root(&self) -> Root<'_> {
        self.schema.root(&self.name).expect("the schema was read under this name")
    }

    /// Returns the fields that an endpoint copies from the stored object.
    pub(crate) fn ignored(&self, subresource: Option<Subresource>) -> &Set {
        match subresource {
            Some(Subresource::Status | Subresource::Approval) => &self.status_ignores,
            _ => &self.main_ignores,
        }
    }

    /// Adds the fields of every object of the kind to a document.
    pub(crate) fn complete(&self, document: &mut Value) {
        fill(document, &self.empty);
    }
}

/// Adds the fields of `wanted` that `document` lacks.
pub(crate) fn fill(document: &mut Value, wanted: &Value) {
    let (Value::Object(members), Value::Object(wanted)) = (document, wanted) else { return };
    for (name, wanted) in wanted {
        fill(members.entry(name.as_str()).or_insert_with(|| wanted.clone()), wanted);
    }
}
