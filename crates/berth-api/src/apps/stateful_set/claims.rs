//! The claims of each of a StatefulSet's pods.

use crate::{pod::claim::set_claim_spec_defaults, unset::default_to};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;

/// Sets the defaults of a claim template.
pub(super) fn set_defaults(claim: &mut PersistentVolumeClaim) {
    set_claim_spec_defaults(claim.spec.get_or_insert_default());
    default_to(&mut claim.status.get_or_insert_default().phase, "Pending");
}
