//! How a policy rejects a request, in upstream's words.

use super::{Policy, PolicyBinding};
use std::fmt;

/// How messages name a validating policy.
pub const VALIDATING: &str = "ValidatingAdmissionPolicy";
/// How messages name a mutating policy.
pub const MUTATING: &str = "policy";

/// A rejection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyDenial {
    kind: &'static str,
    policy: String,
    binding: Option<String>,
    message: String,
    /// The reason of the response.
    pub reason: String,
}

impl PolicyDenial {
    /// Returns a rejection by a policy, with its binding unless no binding was reached.
    #[must_use]
    pub fn new(kind: &'static str, policy: &Policy, binding: Option<&PolicyBinding>, message: impl Into<String>, reason: &str) -> Self {
        let binding = binding.map(|binding| binding.name.clone());
        Self { kind, policy: policy.name.clone(), binding, message: message.into(), reason: reason.to_owned() }
    }

    /// Returns the HTTP code of a reason.
    ///
    /// Source: upstream `reasonToCode`.
    #[must_use]
    pub fn code(&self) -> u16 {
        match self.reason.as_str() {
            "Unauthorized" => 401,
            "Forbidden" => 403,
            "RequestEntityTooLarge" => 413,
            _ => 422,
        }
    }
}

impl fmt::Display for PolicyDenial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} '{}'", self.kind, self.policy)?;
        if let Some(binding) = &self.binding {
            write!(f, " with binding '{binding}'")?;
        }
        write!(f, " denied request: {}", self.message)
    }
}
