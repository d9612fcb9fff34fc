//! The fields that are read of a condition.

use serde::Deserialize;

/// A condition of a pod or a node in the wire's form.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct WireCondition {
    #[serde(rename = "type")]
    pub(crate) type_: String,
    pub(crate) status: String,
}

impl WireCondition {
    /// Whether this condition states that its object is ready.
    pub(crate) fn is_ready(&self) -> bool {
        self.type_ == "Ready" && self.status == "True"
    }
}
