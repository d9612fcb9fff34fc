//! Memory pressure: writes that enlarge the store are delayed, then rejected, before the operating system kills the
//! process.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

/// The fraction of the watermark from which writes are delayed, in thousandths.
const SLOWED_FROM: u32 = 875;

/// The maximum delay of a write.
const DELAY_MAX: Duration = Duration::from_secs(1);

/// The memory pressure, as the owner of the process measures it. It is read before each write. Before the first
/// measurement, no write is delayed. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Pressure(Arc<AtomicU32>);

/// The handling of a write that enlarges the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    /// Store it.
    Go,
    /// Delay it first.
    Wait(Duration),
    /// Reject it.
    Refuse,
}

impl Pressure {
    /// Sets the used bytes of the process, and the `watermark` above which it rejects writes.
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
