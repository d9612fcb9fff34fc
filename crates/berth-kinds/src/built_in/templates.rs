//! What kinds share whose objects make pods of a template.

use super::values::{LABEL_SELECTOR_TYPES, list, text};
use crate::{Cell, Column, Content, SharedTypes};
use berth_api::{
    Path,
    decode::{DecodeError, decode_tree},
    faults::Faults,
    names::check_dns_label,
};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::{Value, json};

/// The types of a pod template and of selectors.
pub(super) static TEMPLATE_TYPES: SharedTypes = SharedTypes::new(&[include_str!("pod_template.json"), LABEL_SELECTOR_TYPES]);

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

/// A column of the number at a path, which is 0 where it is absent.
macro_rules! count_column {
    ($name:literal, $description:literal, $path:literal) => {
        $crate::Column {
            kind: "integer".to_owned(),
            cell: $crate::Cell::Computed(|object| {
                serde_json::json!(object.members().pointer($path).and_then(serde_json::Value::as_i64).unwrap_or(0))
            }),
            ..$crate::Column::text($name, $description)
        }
    };
}
pub(super) use count_column;

/// A column that only wide output shows.
pub(super) fn wide(name: &str, description: &str, cell: Cell) -> Column {
    Column { priority: 1, cell, ..Column::text(name, description) }
}

/// A member of each container, joined by commas.
pub(super) fn joined(object: &Content, spec: &str, member: &str) -> Value {
    let spec = object.members().pointer(spec).unwrap_or(&Value::Null);
    json!(list(spec, "containers").iter().map(|container| text(container, member)).collect::<Vec<_>>().join(","))
}

/// A template as a type.
///
/// # Errors
/// No type can hold it.
pub(super) fn read_template(template: &Value) -> Result<PodTemplateSpec, DecodeError> {
    decode_tree(template)
}

/// What a template may not have whose pods run until they are deleted, although pods may.
pub(super) fn validate_always_restarted(template: &PodTemplateSpec, kind: &str, path: &Path, faults: &mut Faults) {
    let (path, spec) = (path.child("spec"), template.spec.as_ref());
    let policy = spec.and_then(|spec| spec.restart_policy.as_deref()).unwrap_or_default();
    faults.known(&path.child("restartPolicy"), policy, &["Always"]);
    if spec.is_some_and(|spec| spec.active_deadline_seconds.is_some()) {
        faults.forbidden(&path.child("activeDeadlineSeconds"), format!("activeDeadlineSeconds in {kind} is not Supported"));
    }
}

/// Labels as people read them: `a=b,c=d`.
pub(super) fn labels_shown(labels: &Value) -> String {
    let pairs: Vec<String> =
        labels.as_object().into_iter().flatten().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    if pairs.is_empty() { "<none>".to_owned() } else { pairs.join(",") }
}

/// The warning about a name that is too much for the names and host names of pods.
pub(super) fn name_warning(object: &Content) -> Option<String> {
    let reasons = check_dns_label(object.meta.name.as_deref().unwrap_or_default());
    let advice = "this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended";
    (!reasons.is_empty()).then(|| format!("metadata.name: {advice}: [{}]", reasons.join(" ")))
}
