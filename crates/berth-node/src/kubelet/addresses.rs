//! Addresses of pods: each its own while it is there.

use std::{collections::BTreeSet, net::Ipv4Addr};

/// The first address given out; 4 million follow.
const FIRST: u32 = Ipv4Addr::new(10, 64, 0, 1).to_bits();
const LAST: u32 = Ipv4Addr::new(10, 127, 255, 254).to_bits();

/// Which addresses are taken. Gives them out in turn, so that one is not seen again soon after its pod is gone.
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
    /// An address that no pod has.
    pub(super) fn take(&mut self) -> String {
        while !self.taken.insert(self.next) {
            self.advance();
        }
        let address = Ipv4Addr::from_bits(self.next);
        self.advance();
        address.to_string()
    }

    /// Notes an address that a pod has already.
    pub(super) fn note(&mut self, address: &str) {
        if let Ok(address) = address.parse::<Ipv4Addr>() {
            self.taken.insert(address.to_bits());
        }
    }

    /// Gives an address back.
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
