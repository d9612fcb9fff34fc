//! The requests of pods and the capacity of nodes.

use berth_api::{k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity, quantity::Quantity};
use std::collections::BTreeMap;

/// Amounts by resource name: `cpu` in millicores, all others in their own units (`memory` in bytes). A missing name is 0.
///
/// The most common names are in an array, because each scheduled pod is compared with every node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Of [`COMMON`], in that order.
    common: [i64; COMMON.len()],
    /// All other names. No value is 0.
    others: BTreeMap<String, i64>,
}

/// The names in the array.
const COMMON: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pods"];

/// Amounts in the wire's form.
pub(crate) type WireAmounts = BTreeMap<String, WireQuantity>;

impl Amounts {
    /// Converts the wire's quantities. A quantity that cannot be parsed counts as 0. Validation rejects such pods.
    #[must_use]
    pub fn from_wire(wire: &WireAmounts) -> Self {
        let amount = |name: &str, quantity: &WireQuantity| match quantity.0.parse::<Quantity>() {
            Ok(quantity) if name == "cpu" => quantity.milli_value(),
            Ok(quantity) => quantity.value(),
            Err(_) => 0,
        };
        let mut amounts = Self::default();
        wire.iter().for_each(|(name, quantity)| amounts.update(name, |_| amount(name, quantity)));
        amounts
    }

    /// The amount of one resource.
    #[must_use]
    pub fn get(&self, name: &str) -> i64 {
        place(name).map_or_else(|| self.others.get(name).copied().unwrap_or(0), |place| self.common[place])
    }

    /// The cpu in millicores.
    #[must_use]
    pub fn cpu(&self) -> i64 {
        self.common[0]
    }

    /// The memory in bytes.
    #[must_use]
    pub fn memory(&self) -> i64 {
        self.common[1]
    }

    /// Every resource with an amount other than 0.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        let common = COMMON.into_iter().zip(self.common).filter(|(_, amount)| *amount != 0);
        common.chain(self.others.iter().map(|(name, amount)| (name.as_str(), *amount)))
    }

    /// Those of these amounts that exceed `has` minus `used`.
    pub fn beyond(&self, has: &Self, used: &Self) -> impl Iterator<Item = (&str, i64)> {
        let is_short = |place: usize| self.common[place] > 0 && has.common[place] - used.common[place] < self.common[place];
        let common = (0..COMMON.len()).filter(move |place| is_short(*place)).map(|place| (COMMON[place], self.common[place]));
        let others = self.others.iter().map(|(name, wanted)| (name.as_str(), *wanted));
        common.chain(others.filter(|(name, wanted)| *wanted > 0 && has.get(name) - used.get(name) < *wanted))
    }

    /// Adds the other amounts.
    pub fn add(&mut self, other: &Self) {
        self.combine(other, i64::saturating_add);
    }

    /// Subtracts the other amounts.
    pub fn subtract(&mut self, other: &Self) {
        self.combine(other, i64::saturating_sub);
    }

    /// Raises each amount to at least the other's.
    pub fn raise_to(&mut self, other: &Self) {
        self.combine(other, i64::max);
    }

    fn combine(&mut self, other: &Self, with: impl Fn(i64, i64) -> i64) {
        for (own, amount) in self.common.iter_mut().zip(other.common) {
            *own = with(*own, amount);
        }
        other.others.iter().for_each(|(name, amount)| self.update(name, |own| with(own, *amount)));
    }

    fn update(&mut self, name: &str, to: impl FnOnce(i64) -> i64) {
        if let Some(place) = place(name) {
            self.common[place] = to(self.common[place]);
            return;
        }
        match to(self.get(name)) {
            0 => _ = self.others.remove(name),
            amount => _ = self.others.insert(name.to_owned(), amount),
        }
    }
}

/// The index of this resource, if it is a common one.
fn place(name: &str) -> Option<usize> {
    COMMON.iter().position(|common| *common == name)
}

impl<const N: usize> From<[(&str, i64); N]> for Amounts {
    fn from(amounts: [(&str, i64); N]) -> Self {
        let mut all = Self::default();
        amounts.into_iter().for_each(|(name, amount)| all.update(name, |_| amount));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_of_common_and_other_resources_are_counted_alike() {
        for name in ["cpu", "memory", "ephemeral-storage", "pods", "nvidia.com/gpu", "a"] {
            let mut sum = Amounts::from([(name, 3)]);
            sum.add(&Amounts::from([(name, 4), ("b", 1)]));
            assert_eq!((sum.get(name), sum.get("b"), sum.get("c")), (7, 1, 0), "{name}");
            sum.raise_to(&Amounts::from([(name, 9), ("b", -1)]));
            assert_eq!(sum, Amounts::from([("b", 1), (name, 9)]), "{name}");
            sum.subtract(&Amounts::from([(name, 9)]));
            assert_eq!(sum, Amounts::from([("b", 1)]), "{name}: what is 0 is as good as missing");
            assert_eq!(sum.iter().collect::<Vec<_>>(), [("b", 1)]);
        }
    }

    #[test]
    fn what_is_beyond_is_all_that_is_short_and_nothing_else() {
        let (has, used) = (Amounts::from([("cpu", 10), ("gpu", 2), ("pods", 5)]), Amounts::from([("cpu", 8), ("gpu", 1), ("pods", 5)]));
        let beyond = |wanted: &Amounts| wanted.beyond(&has, &used).map(|(name, wanted)| (name.to_owned(), wanted)).collect::<Vec<_>>();
        let list = |names: &[(&str, i64)]| names.iter().map(|(name, wanted)| ((*name).to_owned(), *wanted)).collect::<Vec<_>>();
        assert_eq!(beyond(&Amounts::from([("cpu", 2), ("gpu", 1)])), []);
        assert_eq!(
            beyond(&Amounts::from([("cpu", 3), ("memory", 1), ("gpu", 2), ("x", 1), ("pods", 0)])),
            list(&[("cpu", 3), ("memory", 1), ("gpu", 2), ("x", 1)])
        );
        assert_eq!(beyond(&Amounts::from([("pods", 1)])), list(&[("pods", 1)]), "as a node may have more than it can");
    }
}
