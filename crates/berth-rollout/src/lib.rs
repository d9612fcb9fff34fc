//! How a rollout stands and why it waits, in the words of `kubectl rollout status`, and what is written to change its course: for whoever tells people.
//!
//! Pure. Start with [`look::of_deployment`] and [`stateful_set::look`]: a [`Look`](look::Look) is made from views of the workload and of what belongs to it. What is
//! waited for comes from the very plan that the controller makes of the same objects ([`waits`]), what stands in the way from `berth-workloads` (`cause`).
//! [`verbs`] are the patches of `berth rollout`. Nothing here asks a cluster.

pub mod look;
pub mod outdated;
pub mod settled;
pub mod state;
pub mod stateful_set;
pub mod verbs;
pub mod waits;
