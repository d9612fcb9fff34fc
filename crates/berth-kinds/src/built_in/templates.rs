//! What kinds share whose objects make pods of a template.

use super::values::{LABEL_SELECTOR_TYPES, list, text};
use crate::{Cell, Column, Content};
use serde_json::{Value, json};

/// The types of a pod template and of selectors.
pub(super) const TEMPLATE_TYPES: [&str; 2] = [include_str!("pod_template.json"), LABEL_SELECTOR_TYPES];

/// The columns of the template's containers, which only wide output shows. `spec`: where the pod's spec is.
macro_rules! container_columns {
    ($spec:expr) => {{
        fn names(object: &$crate::Content) -> serde_json::Value {
            $crate::built_in::templates::joined(object, $spec, "name")
        }
        fn images(object: &$crate::Content) -> serde_json::Value {
            $crate::built_in::templates::joined(object, $spec, "image")
        }
        [
            $crate::built_in::templates::wide("Containers", "Names of the template's containers.", $crate::Cell::Computed(names)),
            $crate::built_in::templates::wide("Images", "Images of the template's containers.", $crate::Cell::Computed(images)),
        ]
    }};
}
pub(super) use container_columns;

/// A column that only wide output shows.
pub(super) fn wide(name: &str, description: &str, cell: Cell) -> Column {
    Column { priority: 1, cell, ..Column::text(name, description) }
}

/// A member of each container, joined by commas.
pub(super) fn joined(object: &Content, spec: &str, member: &str) -> Value {
    let spec = object.members().pointer(spec).unwrap_or(&Value::Null);
    json!(list(spec, "containers").iter().map(|container| text(container, member)).collect::<Vec<_>>().join(","))
}
