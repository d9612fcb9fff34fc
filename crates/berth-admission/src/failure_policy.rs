//! What happens to a request if a webhook or a policy fails.

use serde_json::Value;

/// What happens to a request if a webhook or a policy cannot be called or evaluated, or if its answer cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The request is rejected.
    Fail,
    /// The webhook or the policy is skipped.
    Ignore,
}

impl FailurePolicy {
    /// Reads the `failurePolicy` of a webhook, or of the `spec` of a policy. The default is `Fail`.
    #[must_use]
    pub fn read(object: &Value) -> Self {
        match object.get("failurePolicy").and_then(Value::as_str) {
            Some("Ignore") => Self::Ignore,
            _ => Self::Fail,
        }
    }
}
