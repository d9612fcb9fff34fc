//! What `kubectl get` prints of a kind that is a type of Rust.

use super::Column;
use berth_api::{Kind, k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta};
use jiff::Timestamp;
use serde_json::{Value, json};

/// How a kind is printed. The default is what a kind without columns of its own shows.
pub trait Printed: Kind {
    /// One entry a cell; exactly one has the format `name`.
    const COLUMNS: &'static [Column] = &[NAME, Column { kind: "date", ..text("Created At", "When the object was created.") }];

    /// The cells of its row, one per column; `now` is for ages.
    fn cells(&self, _now: Timestamp) -> Vec<Value> {
        let meta = self.metadata();
        vec![json!(name(meta)), json!(meta.creation_timestamp)]
    }

    /// Conditions of its row; clients may hide rows by them.
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

/// The object's name; empty where it has none.
pub(crate) fn name(meta: &ObjectMeta) -> &str {
    meta.name.as_deref().unwrap_or_default()
}
