//! The claims that each of a StatefulSet's pods gets.

use crate::{Path, decode::drop_empty, pod::claim::set_claim_spec_defaults, quantity::Quantity, unset::default_to};
use k8s_openapi::{api::core::v1::PersistentVolumeClaim, apimachinery::pkg::api::resource::Quantity as WireQuantity};
use std::collections::BTreeMap;

const STORAGE: &str = "storage";

/// Fills in what a claim template may leave out.
pub(super) fn set_defaults(claim: &mut PersistentVolumeClaim) {
    set_claim_spec_defaults(claim.spec.get_or_insert_default());
    default_to(&mut claim.status.get_or_insert_default().phase, "Pending");
    drop_empty(&mut claim.metadata);
}

/// Warns about a size that is no whole number of bytes.
pub(super) fn warnings(claim: &PersistentVolumeClaim, path: &Path) -> Vec<String> {
    let Some(resources) = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref()) else { return Vec::new() };
    let path = path.child("spec").child("resources");
    let warning = |(field, quantities): (&str, &Option<BTreeMap<String, WireQuantity>>)| {
        let text = &quantities.as_ref()?.get(STORAGE)?.0;
        let fractional = text.parse::<Quantity>().is_ok_and(|quantity| !quantity.is_integer());
        let path = path.child(field).key(STORAGE);
        fractional.then(|| format!("{path}: fractional byte value {text:?} is invalid, must be an integer"))
    };
    [("requests", &resources.requests), ("limits", &resources.limits)].into_iter().filter_map(warning).collect()
}
