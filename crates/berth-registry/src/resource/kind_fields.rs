//! What ownership must know of a kind: its schema, what every object of it holds, what each endpoint cannot change.

use super::Subresource;
use berth_fieldsets::{Root, Schema, Set};
use serde_json::Value;
use std::collections::BTreeMap;

/// One kind.
#[derive(Debug)]
pub(crate) struct KindFields {
    pub(crate) schema: Schema,
    /// Under which `schema` has it.
    pub(crate) name: String,
    /// What every object of the kind holds, upstream's zero value: what came before anything was owned.
    pub(crate) empty: Value,
    /// What the endpoint of the object takes over from the stored one.
    pub(crate) main_ignores: Set,
    /// What that of its status does.
    pub(crate) status_ignores: Set,
    /// The same of the other versions of the kind, by `apiVersion`.
    pub(crate) others: BTreeMap<String, KindFields>,
}

impl KindFields {
    pub(crate) fn root(&self) -> Root<'_> {
        self.schema.root(&self.name).expect("the schema was read under this name")
    }

    /// The fields that an endpoint takes over from the stored object.
    pub(crate) fn ignored(&self, subresource: Option<Subresource>) -> &Set {
        match subresource {
            Some(Subresource::Status) => &self.status_ignores,
            _ => &self.main_ignores,
        }
    }

    /// Makes an object's document hold what every object of the kind holds.
    pub(crate) fn complete(&self, document: &mut Value) {
        fill(document, &self.empty);
    }
}

/// Puts into `document` what it lacks of `wanted`.
pub(crate) fn fill(document: &mut Value, wanted: &Value) {
    let (Value::Object(members), Value::Object(wanted)) = (document, wanted) else { return };
    for (name, wanted) in wanted {
        fill(members.entry(name.as_str()).or_insert_with(|| wanted.clone()), wanted);
    }
}
