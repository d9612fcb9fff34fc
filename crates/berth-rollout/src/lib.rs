//! The state of a rollout and why it waits, in the words of `kubectl rollout status`, and the patches that change its course.
//!
//! Pure. Start with [`status::of_deployment`], [`stateful_set::status`] and [`daemon_set::status`]: a [`RolloutStatus`](status::RolloutStatus) is made from views of the
//! workload and its dependents. The waits come from the same plan that the controller makes of these objects ([`waits`]), and the causes from
//! `berth-workloads` (`cause`).
//! [`verbs`] are the patches of `berth rollout`. Nothing here sends requests to a cluster.

pub mod cron_job;
pub mod daemon_set;
pub mod job;
pub mod outdated;
pub mod replica_set;
pub mod settled;
pub mod state;
pub mod stateful_set;
pub mod status;
pub mod verbs;
pub mod waits;
