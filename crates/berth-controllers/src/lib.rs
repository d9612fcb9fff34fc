//! The shell around the plans: the [`Cluster`] seam, caches, work queues, the executor, events.

pub mod analysis;
pub mod autoscaler;
mod by_labels;
pub mod cache;
pub mod certificates;
pub mod claim_doubts;
pub mod cluster;
mod creations;
pub mod cron_job;
pub mod daemon_set;
pub mod deployment;
pub mod disruption;
pub mod election;
pub mod events;
pub mod executor;
pub mod garbage_collector;
pub mod guard;
pub mod job;
pub mod lags;
mod lazy;
pub mod manager;
pub mod metadata;
pub mod metrics;
pub mod namespace;
pub mod node_lifecycle;
pub mod own_writes;
pub mod owners;
pub mod panics;
pub mod plan_loop;
pub mod pod_gc;
pub mod pods;
pub mod queue;
pub mod replica_set;
pub mod resource_quota;
mod scales;
pub mod service_endpoints;
mod sorted;
pub mod stateful_set;
#[cfg(test)]
mod testing;
pub mod volume_binder;
pub mod waits;
pub mod worker;

pub use berth_workloads::plan::Propagation;
pub use cluster::{Change, Cluster, ClusterError, DeleteParams, RawObject, ServedKind};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks. A holder that panicked leaves plain data that is still whole: no guard here is held over a call that can fail half-way.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
