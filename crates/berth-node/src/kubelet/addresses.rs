//! IP addresses of pods: each is unique while its pod exists.

use std::{collections::BTreeSet, net::Ipv4Addr};

/// The first allocated address; 4 million follow.
const FIRST: u32 = Ipv4Addr::new(10, 64, 0, 1).to_bits();
const LAST: u32 = Ipv4Addr::new(10, 127, 255, 254).to_bits();

/// The allocated addresses. Allocation is cyclic, so that an address is not reused soon after its pod is deleted.
#[derive(Debug)]
pub(super) struct Addresses {
    taken: BTreeSet<u32>,
    next: u32,
}

impl Default for Addresses {
    fn default() -> Self {
        Self { taken: BTreeSet::new(), next: FIRST }
    }
}

impl Addresses {
    /// Allocates an unused address.
    pub(super) fn take(&mut self) -> String {
        while !self.taken.insert(self.next) {
            self.advance();
        }
        let address = Ipv4Addr::from_bits(self.next);
        self.advance();
        address.to_string()
    }

    /// Records an address that a pod already has.
    pub(super) fn note(&mut self, address: &str) {
        if let Ok(address) = address.parse::<Ipv4Addr>() {
            self.taken.insert(address.to_bits());
        }
    }

    /// Releases an address.
    pub(super) fn give_back(&mut self, address: &str) {
        if let Ok(address) = address.parse::<Ipv4Addr>() {
            self.taken.remove(&address.to_bits());
        }
    }

    fn advance(&mut self) {
        self.next = if self.next == LAST { FIRST } else { self.next + 1 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_one_pod_at_a_time() {
        let mut addresses = Addresses::default();
        addresses.note("10.64.0.2");
        assert_eq!([addresses.take(), addresses.take()], ["10.64.0.1", "10.64.0.3"]);
        addresses.give_back("10.64.0.1");
        assert_eq!(addresses.take(), "10.64.0.4");
    }
}
