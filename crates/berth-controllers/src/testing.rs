//! What the tests of several modules share.

use berth_store::env::Rng;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts up.
#[derive(Default)]
pub(crate) struct Numbers(AtomicU64);

impl Rng for Numbers {
    fn fill(&self, bytes: &mut [u8]) {
        let number = self.0.fetch_add(1, Ordering::Relaxed).to_le_bytes();
        bytes.iter_mut().zip(number.iter().cycle()).for_each(|(byte, next)| *byte = *next);
    }
}
