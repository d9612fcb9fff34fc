//! The annotation with which users choose the pods that a scale-down deletes first (KEP-2255).

use crate::{FieldError, Path, annotations::POD_DELETION_COST};
use std::collections::BTreeMap;

/// The message about an invalid value.
const REFUSAL: &str = "must be a 32bit integer";

/// Returns the cost by which controllers rank pods. Lower costs are deleted first. 0 if the annotation is missing or
/// invalid.
#[must_use]
pub fn deletion_cost(annotations: &BTreeMap<String, String>) -> i32 {
    annotations.get(POD_DELETION_COST).and_then(|value| parse(value)).unwrap_or(0)
}

/// Whether `value` is a cost: a signed 32-bit decimal without a leading `+` or `0`. As upstream, this checks only the
/// first character, so `-0` and `-05` are valid.
#[must_use]
pub fn is_valid_deletion_cost(value: &str) -> bool {
    parse(value).is_some()
}

/// Whether an error is that of an invalid cost. KEP-2255 requires a different response if it is the only error.
#[must_use]
pub fn is_deletion_cost_error(error: &FieldError) -> bool {
    error.detail == REFUSAL && error.field.to_string().ends_with(&format!("annotations[{POD_DELETION_COST}]"))
}

/// Returns the error of an invalid cost among `annotations`. `path` is that of the annotations.
pub(super) fn validate(annotations: Option<&BTreeMap<String, String>>, path: &Path) -> Option<FieldError> {
    let value = invalid(annotations)?;
    Some(FieldError::invalid(&path.key(POD_DELETION_COST), value, REFUSAL))
}

/// Returns the error of an invalid cost after a change of a pod's annotations, through any write path. Returns none if
/// the pod already had an invalid cost, so that it can be changed.
#[must_use]
pub fn validate_deletion_cost_update(
    annotations: Option<&BTreeMap<String, String>>,
    old: Option<&BTreeMap<String, String>>,
) -> Option<FieldError> {
    if invalid(old).is_some() { None } else { validate(annotations, &Path::new("metadata.annotations")) }
}

fn invalid(annotations: Option<&BTreeMap<String, String>>) -> Option<&str> {
    annotations?.get(POD_DELETION_COST).map(String::as_str).filter(|value| !is_valid_deletion_cost(value))
}

fn parse(value: &str) -> Option<i32> {
    let first = value.as_bytes().first()?;
    let leading_zero = *first == b'0' && value != "0";
    if *first == b'+' || leading_zero { None } else { value.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize)]
    struct Case {
        name: String,
        value: Option<String>,
        expected: Expected,
    }

    #[derive(serde::Deserialize)]
    struct Expected {
        cost: i32,
        valid: bool,
    }

    fn annotations(value: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(POD_DELETION_COST.to_owned(), value.to_owned())])
    }

    #[test]
    fn costs_are_read_as_in_the_vectors() {
        let text = include_str!("../../../../testdata/vectors/pod_deletion_cost.json");
        let cases: Vec<Case> = serde_json::from_str(text).expect("the vectors are JSON");
        for case in cases {
            let annotations = case.value.as_deref().map(annotations).unwrap_or_default();
            let valid = validate(Some(&annotations), &Path::new("metadata.annotations")).is_none();
            assert_eq!((deletion_cost(&annotations), valid), (case.expected.cost, case.expected.valid), "{}", case.name);
        }
    }

    #[test]
    fn only_the_first_character_is_special() {
        for (value, valid) in [("0", true), ("-0", true), ("-05", true), ("05", false), ("", false), ("00", false), ("-2147483648", true)] {
            assert_eq!(is_valid_deletion_cost(value), valid, "{value:?}");
        }
    }

    #[test]
    fn the_fault_names_the_annotation_and_is_recognized() {
        let error = validate(Some(&annotations("abc")), &Path::new("spec.template.annotations")).expect("abc is no cost");
        assert_eq!(
            error.to_string(),
            "spec.template.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: \"abc\": must be a 32bit integer"
        );
        assert!(is_deletion_cost_error(&error));
        assert!(!is_deletion_cost_error(&FieldError::invalid(&Path::new("spec.replicas"), -1, REFUSAL)));
    }
}
