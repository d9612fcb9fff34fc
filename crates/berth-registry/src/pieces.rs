//! Writes of large objects in pieces: between two of their stages others have their turn.

use berth_store::env::{Clock, Timestamp, yield_now};
use std::time::Duration;

/// What took less is not worth the way through a queue.
const LONG: Duration = Duration::from_millis(1);

/// Since when some work goes on without others having had their turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Since(pub(crate) Timestamp);

impl Since {
    /// Lets others have their turn, if it is long since they had it.
    pub(crate) async fn pause(&mut self, clock: &dyn Clock) {
        if LONG <= clock.now().duration_since(self.0).unsigned_abs() {
            yield_now().await;
            self.0 = clock.now();
        }
    }
}
