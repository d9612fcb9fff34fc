//! The columns of `kubectl get` for a kind with a Rust type.

use super::Column;
use berth_api::{Kind, k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta};
use jiff::Timestamp;
use serde_json::{Value, json};

/// The columns and cells of a kind. The default is that of a kind without columns of its own.
pub trait Printed: Kind {
    /// One entry per cell. Exactly one has the format `name`.
    const COLUMNS: &'static [Column] = &[NAME, Column { kind: "date", ..text("Created At", "When the object was created.") }];

    /// Returns the cells of its row, one per column. `now` is for ages.
    fn cells(&self, _now: Timestamp) -> Vec<Value> {
        let meta = self.metadata();
        vec![json!(name(meta)), json!(meta.creation_timestamp)]
    }

    /// Returns the conditions of its row, from which clients may hide rows.
    fn row_conditions(&self) -> Vec<Value> {
        Vec::new()
    }
}

/// The column of the object's name.
pub(crate) const NAME: Column =
    Column { name: "Name", kind: "string", format: "name", priority: 0, description: "Name of the object, unique in its namespace." };

/// A column that is always shown.
pub(crate) const fn text(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "string", format: "", priority: 0, description }
}

/// Returns the object's name, or an empty text.
pub(crate) fn name(meta: &ObjectMeta) -> &str {
    meta.name.as_deref().unwrap_or_default()
}
