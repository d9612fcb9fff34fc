//! Tables: what `kubectl get` prints, computed by the server.

use crate::resource::Column;
use berth_api::{Kind, Object};
use jiff::Timestamp;
use serde_json::{Value, json};

/// How a kind is printed. The default is what a kind without columns of its own shows.
pub trait Printed: Kind {
    /// One entry a cell; the first is the name.
    const COLUMNS: &'static [Column] = &[
        Column { name: "Name", kind: "string", format: "name", priority: 0, description: "Name of the object." },
        Column { name: "Created At", kind: "date", format: "", priority: 0, description: "When the object was created." },
    ];

    /// The cells of its row, one per column; `now` is for ages.
    fn cells(&self, _now: Timestamp) -> Vec<Value> {
        let meta = self.metadata();
        vec![json!(meta.name), json!(meta.creation_timestamp)]
    }
}

pub(crate) fn cells<K: Printed>(object: &dyn Object, now: Timestamp) -> Vec<Value> {
    object.downcast_ref::<K>().map(|object| object.cells(now)).unwrap_or_default()
}

mod kinds;
