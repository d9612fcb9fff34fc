//! Subresources of objects.

use berth_identity::GroupVersionKind;
use serde::{Deserialize, Serialize};

/// A part of an object with its own endpoint.
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
    /// `approval` (certificate signing requests): the conditions that approve or deny.
    Approval,
    /// `finalize` (namespaces).
    Finalize,
    /// `log` (pods): the text that containers have written.
    Log,
    /// `token` (service accounts): signed and not stored.
    Token,
}

impl Subresource {
    /// Returns the kind of its requests and responses. `None`: the kind of the object, or text.
    #[must_use]
    pub const fn gvk(self) -> Option<GroupVersionKind> {
        match self {
            Self::Scale => Some(GroupVersionKind::from_static("autoscaling", "v1", "Scale")),
            Self::Eviction => Some(GroupVersionKind::from_static("policy", "v1", "Eviction")),
            Self::Binding => Some(GroupVersionKind::from_static("", "v1", "Binding")),
            Self::Token => Some(GroupVersionKind::from_static("authentication.k8s.io", "v1", "TokenRequest")),
            Self::Status | Self::Approval | Self::Finalize | Self::Log => None,
        }
    }

    /// Returns the last segment of its path.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Scale => "scale",
            Self::Binding => "binding",
            Self::Eviction => "eviction",
            Self::Approval => "approval",
            Self::Finalize => "finalize",
            Self::Log => "log",
            Self::Token => "token",
        }
    }
}
