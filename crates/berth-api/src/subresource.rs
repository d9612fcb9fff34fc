//! Parts of objects that are reached apart.

use serde::{Deserialize, Serialize};

/// A part of an object with an endpoint of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Subresource {
    /// `status`.
    Status,
    /// `scale`.
    Scale,
    /// `binding` (pods).
    Binding,
    /// `eviction` (pods).
    Eviction,
    /// `finalize` (namespaces).
    Finalize,
    /// `log` (pods): text, what its containers have written.
    Log,
    /// `token` (service accounts): signed, not stored.
    Token,
}

impl Subresource {
    /// The last segment of its path.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Scale => "scale",
            Self::Binding => "binding",
            Self::Eviction => "eviction",
            Self::Finalize => "finalize",
            Self::Log => "log",
            Self::Token => "token",
        }
    }
}
