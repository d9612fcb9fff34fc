//! Lets other tasks run between the stages of a write of a large object.

use berth_store::env::{Clock, Timestamp, yield_now};
use std::time::Duration;

/// Shorter work is not worth a yield.
const LONG: Duration = Duration::from_millis(1);

/// The time since other tasks last ran.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Since(pub(crate) Timestamp);

impl Since {
    /// Yields if the last yield was long ago.
    pub(crate) async fn pause(&mut self, clock: &dyn Clock) {
        if LONG <= clock.now().duration_since(self.0).unsigned_abs() {
            yield_now().await;
            self.0 = clock.now();
        }
    }
}
