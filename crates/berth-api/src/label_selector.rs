//! What is wrong with a label selector, field by field. [`crate::Selector`] is for matching with one.

use crate::{
    FieldError, Path,
    faults::Faults,
    names::{check_label_key, check_label_value},
    unset::{entries, list},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// All faults of a selector's keys, values and operators; `path` is the selector's. An empty selector has none.
#[must_use]
pub fn validate_label_selector(selector: &LabelSelector, path: &Path) -> Vec<FieldError> {
    let mut faults = Faults::default();
    let labels_path = path.child("matchLabels");
    for (key, value) in entries(&selector.match_labels) {
        faults.form(&labels_path, key, check_label_key);
        faults.form(&labels_path, value, check_label_value);
    }
    for (index, requirement) in list(&selector.match_expressions).iter().enumerate() {
        validate_requirement(requirement, &path.child("matchExpressions").index(index), &mut faults);
    }
    faults.into_vec()
}

fn validate_requirement(requirement: &LabelSelectorRequirement, path: &Path, faults: &mut Faults) {
    let values = list(&requirement.values);
    match requirement.operator.as_str() {
        "In" | "NotIn" if values.is_empty() => {
            faults.required(&path.child("values"), "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            faults.forbidden(&path.child("values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => (),
        other => faults.invalid(&path.child("operator"), other, "not a valid selector operator"),
    }
    faults.form(&path.child("key"), &requirement.key, check_label_key);
    for (index, value) in values.iter().enumerate() {
        faults.form(&path.child("values").index(index), value, check_label_value);
    }
}
