//! A whole control plane on one thread, under a virtual clock, from one seed.
//!
//! The registry, the controllers, the scheduler and the simulated nodes are the ones that `berth up` runs; only what they stand on is
//! made: time and tasks ([`berth_store::virtual_time`]), randomness ([`rng`]), the way between a controller and the API ([`network`]), and the store's
//! scheduling ([`store`]). Start with `World`.
//!
//! # Determinism
//! The seed decides which task runs next, how long calls take, what gets lost, and every name and uid. Time passes only when nobody has
//! anything to do. The same seed and the same calls of `World` give the same log, byte for byte.
//!
//! # Checks
//! After every step of every task the changes of the store are replayed, one by one, into a `Checker` (`check.rs`). A violated limit panics,
//! with the seed that replays it.
//!
//! # Features
//! `worlds`, on by default: whole worlds, their storms and checks. `berth plan` is built without them.

#[cfg(feature = "worlds")]
pub mod check;
#[cfg(feature = "worlds")]
pub mod crashes;
#[cfg(feature = "worlds")]
mod etcd;
#[cfg(feature = "worlds")]
mod facts;
#[cfg(feature = "worlds")]
mod machine;
pub mod network;
#[cfg(feature = "worlds")]
mod providers;
pub mod rng;
#[cfg(feature = "worlds")]
pub mod seeds;
pub mod store;
#[cfg(feature = "worlds")]
pub mod storm;
#[cfg(feature = "worlds")]
mod world;

#[cfg(feature = "worlds")]
pub use world::{Gates, Options, Part, World};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks. There is one thread: a lock is never contended, and a holder that panicked ends the test.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
