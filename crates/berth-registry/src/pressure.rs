//! How much of its memory the process has taken: who stores more is slowed, then refused, before the machine ends the process.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

/// From which part of the watermark writers are slowed, in thousandths.
const SLOWED_FROM: u32 = 875;

/// The longest that a write is held up.
const DELAY_MAX: Duration = Duration::from_secs(1);

/// Told by whoever can see the process's memory, asked before anything more is stored. Nothing is held up until it is told. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Pressure(Arc<AtomicU32>);

/// What a write that makes the store larger is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    /// Go on.
    Go,
    /// Wait so long first.
    Wait(Duration),
    /// Nothing more is taken.
    Refuse,
}

impl Pressure {
    /// The process takes `used` bytes, and `watermark` is where it stores no more.
    pub fn set(&self, used: u64, watermark: u64) {
        let thousandths = used.saturating_mul(1000) / watermark.max(1);
        self.0.store(u32::try_from(thousandths).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    pub(crate) fn advice(&self) -> Advice {
        match self.0.load(Ordering::Relaxed) {
            ..SLOWED_FROM => Advice::Go,
            level @ SLOWED_FROM..1000 => Advice::Wait(DELAY_MAX * (level - SLOWED_FROM + 1) / (1000 - SLOWED_FROM)),
            1000.. => Advice::Refuse,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closer_the_watermark_the_longer_the_wait() {
        let pressure = Pressure::default();
        let advice = |used| {
            pressure.set(used, 8000);
            pressure.advice()
        };
        assert_eq!(pressure.advice(), Advice::Go);
        assert_eq!(advice(6999), Advice::Go);
        assert_eq!(advice(7000), Advice::Wait(DELAY_MAX / 125));
        assert_eq!(advice(7999), Advice::Wait(DELAY_MAX));
        assert_eq!(advice(8000), Advice::Refuse);
        assert_eq!(advice(u64::MAX), Advice::Refuse);
    }
}
