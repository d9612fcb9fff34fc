//! Randomness from a seed.

use crate::lock;
use berth_store::env::Rng;
use rand_chacha::ChaCha12Rng;
use rand_core::SeedableRng;
use std::sync::Mutex;

/// What randomness is for. Each purpose has its own stream, so that drawing more for one changes nothing of another.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    /// Uids, names of pods and events: what the simulated programs draw themselves.
    Names,
    /// Which task runs next.
    Order,
    /// Latencies and faults.
    Network,
    /// What a test does.
    Script,
    /// What an etcd fails to do.
    Etcd,
    /// What is answered to analyses.
    Analyses,
}

/// ChaCha12 of a seed.
pub struct SeededRng(Mutex<ChaCha12Rng>);

impl SeededRng {
    /// The stream of `seed` for `purpose`.
    #[must_use]
    pub fn new(seed: u64, purpose: Purpose) -> Self {
        let mut generator = ChaCha12Rng::seed_from_u64(seed);
        generator.set_stream(purpose as u64);
        Self(Mutex::new(generator))
    }

    /// One of `choices`, each as likely as any other.
    ///
    /// # Panics
    /// If there are none.
    pub fn choose<'a, T>(&self, choices: &'a [T]) -> &'a T {
        &choices[usize::try_from(self.below(choices.len() as u64)).expect("it is an index")]
    }

    /// Whether something that happens `per_mille` times in a thousand happens now.
    #[must_use]
    pub fn happens(&self, per_mille: u32) -> bool {
        per_mille > 0 && self.below(1000) < per_mille.into()
    }
}

impl Rng for SeededRng {
    fn fill(&self, bytes: &mut [u8]) {
        rand_core::Rng::fill_bytes(&mut *lock(&self.0), bytes);
    }
}
