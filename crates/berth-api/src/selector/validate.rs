//! Faults of a selector in a spec.

use crate::{
    FieldError, Path,
    names::{check_label_key, check_label_value},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// All faults of `selector`, which stands at `path`.
#[must_use]
pub fn validate_label_selector(selector: &LabelSelector, path: &Path) -> Vec<FieldError> {
    let mut faults = crate::metadata::validate_labels(selector.match_labels.as_ref(), &path.child("matchLabels"));
    for (index, expression) in selector.match_expressions.iter().flatten().enumerate() {
        faults.extend(validate_expression(expression, &path.child("matchExpressions").index(index)));
    }
    faults
}

fn validate_expression(expression: &LabelSelectorRequirement, path: &Path) -> Vec<FieldError> {
    let values = expression.values.as_deref().unwrap_or_default();
    let values_path = path.child("values");
    let mut faults = Vec::new();
    match (expression.operator.as_str(), values.is_empty()) {
        ("In" | "NotIn", false) | ("Exists" | "DoesNotExist", true) => {}
        ("In" | "NotIn", true) => faults.push(FieldError::required(&values_path, "must be specified when `operator` is 'In' or 'NotIn'")),
        ("Exists" | "DoesNotExist", false) => {
            faults.push(FieldError::forbidden(&values_path, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"));
        }
        (unknown, _) => faults.push(FieldError::invalid(&path.child("operator"), unknown, "not a valid selector operator")),
    }
    let key = check_label_key(&expression.key).into_iter();
    faults.extend(key.map(|message| FieldError::invalid(&path.child("key"), expression.key.as_str(), message)));
    for (index, value) in values.iter().enumerate() {
        let messages = check_label_value(value).into_iter();
        faults.extend(messages.map(|message| FieldError::invalid(&values_path.index(index), value.as_str(), message)));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_fault_stands_at_its_field() {
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
