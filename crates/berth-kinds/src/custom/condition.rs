//! The conditions of a custom resource definition.

/// A condition of a definition, without its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomCondition {
    /// `NamesAccepted`.
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word.
    pub reason: String,
    /// What people read.
    pub message: String,
}

impl CustomCondition {
    pub(super) fn of(kind: &str, status: &str, reason: &str, message: &str) -> Self {
        Self { kind: kind.to_owned(), status: status.to_owned(), reason: reason.to_owned(), message: message.to_owned() }
    }
}
