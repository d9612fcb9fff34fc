//! ControllerRevision: an immutable state with a mutable number.

use super::not_negative;
use crate::{FeatureGates, FieldError, Kind, Path};
use k8s_openapi::api::apps::v1::ControllerRevision;
use serde_json::Value;

impl Kind for ControllerRevision {
    const CHECKS_NEW_NAME_BASE: bool = true;

    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        let path = Path::new("data");
        let data = match self.data.as_ref().map(|data| &data.0) {
            None | Some(Value::Null) => Some(FieldError::required(&path, "data is mandatory")),
            Some(Value::Object(_)) => None,
            Some(_) => Some(FieldError::required(&path, "data must be a valid JSON object")),
        };
        revision_fault(self).into_iter().chain(data).collect()
    }

    fn validate_update(&self, old: &Self, _gates: &FeatureGates) -> Vec<FieldError> {
        let changed = self.data != old.data;
        let shown = || self.data.as_ref().map_or(Value::Null, |data| data.0.clone());
        let data = changed.then(|| FieldError::invalid(&Path::new("data"), shown(), "field is immutable"));
        revision_fault(self).into_iter().chain(data).collect()
    }
}

fn revision_fault(object: &ControllerRevision) -> Option<FieldError> {
    not_negative(&Path::new("revision"), object.revision)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[expect(clippy::needless_pass_by_value, reason = "a table reads better without borrows")]
    fn revision(data: Value, revision: i64) -> ControllerRevision {
        serde_json::from_value(json!({"data": data, "revision": revision})).expect("a revision")
    }

    fn check(faults: &[FieldError], wanted: &[&str]) {
        assert_eq!(faults.iter().map(ToString::to_string).collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn data_is_an_object_that_never_changes() {
        let gates = FeatureGates::default();
        let stored = revision(json!({"a": 1}), 1);
        check(&stored.validate(&gates), &[]);
        check(&revision(json!(null), 1).validate(&gates), &["data: Required value: data is mandatory"]);
        check(
            &revision(json!([1]), -1).validate(&gates),
            &["revision: Invalid value: -1: must be greater than or equal to 0", "data: Required value: data must be a valid JSON object"],
        );
        check(&revision(json!({"a": 1}), 7).validate_update(&stored, &gates), &[]);
        check(&revision(json!({"a": 2}), 1).validate_update(&stored, &gates), &["data: Invalid value: {\"a\":2}: field is immutable"]);
    }
}
