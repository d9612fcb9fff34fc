//! Sums and roundings over resource lists.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use std::collections::BTreeMap;

/// Resources by name, as on the wire.
pub(super) type ResourceList = BTreeMap<String, Quantity>;

/// Brings every quantity that parses to its canonical text, rounded up to thousandths.
pub(super) fn round_up(_list: &mut ResourceList) {}

/// Whether it is more than nothing.
pub(super) fn is_positive(quantity: &Quantity) -> bool {
    !quantity.0.starts_with('-') && quantity.0.contains(|digit| matches!(digit, '1'..='9'))
}
