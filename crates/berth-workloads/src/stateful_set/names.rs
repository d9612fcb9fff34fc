//! Names that follow from a set's name and an ordinal.

use berth_identity::Ordinal;

/// The name of the pod with this ordinal.
#[must_use]
pub fn pod_name(set: &str, ordinal: Ordinal) -> String {
    format!("{set}-{ordinal}")
}

/// The name of the claim of the pod with this ordinal, for a claim template.
#[must_use]
pub fn claim_name(template: &str, set: &str, ordinal: Ordinal) -> String {
    format!("{template}-{set}-{ordinal}")
}
