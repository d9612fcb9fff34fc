//! Validates a label selector field by field. [`crate::Selector`] matches with one.

use crate::{
    FieldError, Path,
    faults::Faults,
    names::{check_label_key, check_label_value},
    unset::{entries, list},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// Returns all errors of a selector's keys, values and operators. `path` is the selector's. An empty selector is valid.
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

/// Formats a selector: `k=v,l in (a,b),!m`, sorted by key.
#[must_use]
pub fn shown(selector: Option<&LabelSelector>) -> String {
    let mut texts: Vec<(&str, String)> = Vec::new();
    if let Some(selector) = selector {
        let equal = selector.match_labels.iter().flatten();
        texts.extend(equal.map(|(key, value)| (key.as_str(), format!("{key}={value}"))));
        for requirement in selector.match_expressions.iter().flatten() {
            let key = requirement.key.as_str();
            let mut values = requirement.values.clone().unwrap_or_default();
            values.sort();
            let text = match requirement.operator.as_str() {
                "In" => format!("{key} in ({})", values.join(",")),
                "NotIn" => format!("{key} notin ({})", values.join(",")),
                "DoesNotExist" => format!("!{key}"),
                _ => key.to_owned(),
            };
            texts.push((key, text));
        }
    }
    texts.sort_by_key(|(key, _)| *key);
    let texts: Vec<String> = texts.into_iter().map(|(_, text)| text).collect();
    if texts.is_empty() { "<none>".to_owned() } else { texts.join(",") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_fault_is_reported_at_its_field() {
        let selector = serde_json::from_value(json!({
            "matchLabels": {"a b": "x"},
            "matchExpressions": [
                {"key": "a", "operator": "In"},
                {"key": "a", "operator": "Exists", "values": ["x"]},
                {"key": "a", "operator": "Is"},
                {"key": "", "operator": "NotIn", "values": ["ok", "-"]},
            ],
        }));
        let faults = validate_label_selector(&selector.expect("a selector"), &Path::new("s"));
        let found: Vec<String> =
            faults.iter().map(|fault| fault.to_string().split(" must consist of").next().unwrap_or_default().to_owned()).collect();
        assert_eq!(
            found,
            [
                "s.matchLabels: Invalid value: \"a b\": name part",
                "s.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
                "s.matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                "s.matchExpressions[2].operator: Invalid value: \"Is\": not a valid selector operator",
                "s.matchExpressions[3].key: Invalid value: \"\": name part must be non-empty",
                "s.matchExpressions[3].key: Invalid value: \"\": name part",
                "s.matchExpressions[3].values[1]: Invalid value: \"-\": a valid label must be an empty string or consist of alphanumeric \
                 characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or \
                 '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
            ]
        );
    }
}
