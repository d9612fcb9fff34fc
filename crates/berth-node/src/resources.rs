//! Amounts of what pods ask for and nodes have.

use berth_api::{k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity, quantity::Quantity};
use std::collections::BTreeMap;

/// Amounts by resource name: `cpu` in thousandths of a core, everything else in its own unit (`memory` in bytes). A name that is missing is 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amounts(BTreeMap<String, i64>);

/// As the wire has them.
pub(crate) type WireAmounts = BTreeMap<String, WireQuantity>;

impl Amounts {
    /// Reads the wire's quantities. One that cannot be parsed counts as 0: validation let no such pod in.
    #[must_use]
    pub fn from_wire(wire: &WireAmounts) -> Self {
        let amount = |name: &str, quantity: &WireQuantity| match quantity.0.parse::<Quantity>() {
            Ok(quantity) if name == "cpu" => quantity.milli_value(),
            Ok(quantity) => quantity.value(),
            Err(_) => 0,
        };
        Self(wire.iter().map(|(name, quantity)| (name.clone(), amount(name, quantity))).collect())
    }

    /// How much of one resource.
    #[must_use]
    pub fn get(&self, name: &str) -> i64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// Every resource named, with its amount.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), *amount))
    }

    /// Adds another's amounts.
    pub fn add(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let own = self.0.entry(name.clone()).or_default();
            *own = own.saturating_add(*amount);
        }
    }

    /// Takes another's amounts away.
    pub fn subtract(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let own = self.0.entry(name.clone()).or_default();
            *own = own.saturating_sub(*amount);
        }
    }

    /// Raises each amount to at least the other's.
    pub fn raise_to(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let own = self.0.entry(name.clone()).or_default();
            *own = (*own).max(*amount);
        }
    }
}

impl<const N: usize> From<[(&str, i64); N]> for Amounts {
    fn from(amounts: [(&str, i64); N]) -> Self {
        Self(amounts.into_iter().map(|(name, amount)| (name.to_owned(), amount)).collect())
    }
}
