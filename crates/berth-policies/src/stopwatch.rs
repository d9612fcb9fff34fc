//! Measures evaluations for metrics.
#![expect(clippy::disallowed_types, reason = "metrics have the real time of an evaluation, which decides nothing")]

use std::time::{Duration, Instant};

pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}
