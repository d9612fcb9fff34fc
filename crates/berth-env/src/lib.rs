//! Time, randomness and tasks as parameters. Start with [`Env`].
//!
//! The `berth` binary passes the machine's clock, random numbers and threads. The simulation and the tests pass seeded numbers and [`virtual_time`].
//! This crate asks the machine for nothing.

pub mod followed;
pub mod steady_time;
pub mod testing;
pub mod virtual_time;

use futures::future::{BoxFuture, poll_fn};
use std::{sync::Arc, task::Poll};

/// A point in wall-clock time, in nanoseconds since the Unix epoch.
pub use jiff::Timestamp;

/// Time.
pub trait Clock: Send + Sync + 'static {
    /// Now. Never earlier than an answer given before.
    fn now(&self) -> Timestamp;
    /// Resolves at `at`, at once if that has passed.
    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()>;
}

/// Randomness. Cryptographically strong in production, seeded in the simulation.
pub trait Rng: Send + Sync + 'static {
    /// Fills `bytes`.
    fn fill(&self, bytes: &mut [u8]);

    /// A number below `bound`; `bound` must not be 0.
    fn below(&self, bound: u64) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        // The bias is below 2^-32 for every bound in use (all under 2^32).
        u64::from_le_bytes(bytes) % bound
    }
}

/// Tasks.
pub trait Spawner: Send + Sync + 'static {
    /// Runs `task` beside the caller until it ends or the process stops. `name` is for logs and profiles.
    fn spawn(&self, name: &'static str, task: BoxFuture<'static, ()>);
}

/// Lets every other runnable task run: between two separate operations, and between the parts of a long one.
pub async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// All three, shared.
#[derive(Clone)]
pub struct Env {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub rng: Arc<dyn Rng>,
    /// Tasks.
    pub spawner: Arc<dyn Spawner>,
}
