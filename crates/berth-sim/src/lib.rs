//! A whole control plane on one thread, under a virtual clock, from one seed.
//!
//! The registry, the controllers, the scheduler and the simulated nodes are the ones that `berth up` runs. Only their environment is simulated: time
//! and tasks ([`berth_store::virtual_time`]), randomness ([`rng`]), the network between a controller and the API ([`network`]), and the store's
//! scheduling ([`store`]). Start with `Simulation`.
//!
//! # Determinism
//! The seed decides which task runs next, how long calls take, what gets lost, and every name and uid. Time passes only when no task can run. The same
//! seed and the same calls of `Simulation` give the same log, byte for byte.
//!
//! # Checks
//! After every step of every task the changes of the store are replayed, one by one, into a `Checker` (`check.rs`). A violated limit panics,
//! with the seed that replays it.
//!
//! # Features
//! `simulations`, on by default: complete simulations, their storms and checks. `berth plan` is built without them.

#[cfg(feature = "simulations")]
pub mod check;
#[cfg(feature = "simulations")]
pub mod crashes;
#[cfg(feature = "simulations")]
mod etcd;
#[cfg(feature = "simulations")]
mod facts;
#[cfg(feature = "simulations")]
mod machine;
pub mod network;
#[cfg(feature = "simulations")]
mod providers;
pub mod rng;
#[cfg(feature = "simulations")]
pub mod seeds;
#[cfg(feature = "simulations")]
mod simulation;
pub mod store;
#[cfg(feature = "simulations")]
pub mod storm;

#[cfg(feature = "simulations")]
pub use simulation::{Gates, Options, Part, Simulation};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks. There is one thread: a lock is never contended, and a holder that panicked ends the test.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
