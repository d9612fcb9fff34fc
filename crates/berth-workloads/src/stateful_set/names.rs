//! Names that follow from a set's name and a number.

use berth_identity::Ordinal;

/// The pod with this number.
#[must_use]
pub fn pod_name(set: &str, ordinal: Ordinal) -> String {
    format!("{set}-{ordinal}")
}

/// The claim that the pod with this number gets of a claim template.
#[must_use]
pub fn claim_name(template: &str, set: &str, ordinal: Ordinal) -> String {
    format!("{template}-{set}-{ordinal}")
}
