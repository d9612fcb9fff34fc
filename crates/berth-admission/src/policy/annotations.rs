//! Annotations of policies for the audit log.

use super::{Policy, PolicyBinding};
use serde_json::json;

/// The annotation about validations that failed.
pub const VALIDATION_FAILURE: &str = "validation.policy.admission.k8s.io/validation_failure";

/// The maximum size of one value, in bytes.
const VALUE_BYTES_MAX: usize = 10 << 10;

/// The annotations of all policies of one request. Several values of one annotation are joined.
#[derive(Clone, Debug, Default)]
pub struct AuditAnnotations(Vec<(String, Vec<String>)>);

impl AuditAnnotations {
    pub(super) fn add(&mut self, name: &str, value: &str) {
        if value.is_empty() {
            return;
        }
        let value = &value[..value.floor_char_boundary(VALUE_BYTES_MAX)];
        match self.0.iter_mut().find(|(known, _)| known == name) {
            None => self.0.push((name.to_owned(), vec![value.to_owned()])),
            Some((_, values)) if values.iter().any(|known| known == value) => (),
            Some((_, values)) => values.push(value.to_owned()),
        }
    }

    /// Returns the names and the values.
    #[must_use]
    pub fn into_vec(self) -> Vec<(String, String)> {
        self.0.into_iter().map(|(name, values)| (name, values.join(", "))).collect()
    }
}

/// Returns the value of [`VALIDATION_FAILURE`] about one validation.
#[must_use]
pub fn validation_failure(policy: &Policy, binding: &PolicyBinding, place: usize, message: &str) -> String {
    let actions: Vec<&str> = binding.actions.iter().map(|action| action.as_str()).collect();
    // In upstream's order of members.
    format!(
        "[{{\"message\":{},\"policy\":{},\"binding\":{},\"expressionIndex\":{place},\"validationActions\":{}}}]",
        json!(message),
        json!(policy.name),
        json!(binding.name),
        json!(actions)
    )
}
