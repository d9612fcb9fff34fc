//! The Job controller's decisions: pods run until enough of them have succeeded, and each of them is counted once.
//!
//! A pod that has finished is counted in two steps, so that no crash loses it or counts it twice. While it has the finalizer
//! `batch.kubernetes.io/job-tracking`, it cannot disappear. First the status lists it (`uncountedTerminatedPods`, or its index in
//! `completedIndexes`). Then it loses the finalizer. When no pod with the finalizer has a listed uid, that uid becomes a count.
//!
//! A plan writes the status first. Finalizers, deletions and creations follow in later stages, so a stale view of the Job changes no pod. Counts that
//! only report can be deferred. The numbers in a status are always those of the pods that were read.
//!
//! Source: kubernetes `pkg/controller/job`; KEP-2307 (tracking), KEP-3329 (pod failure policy), KEP-3850 (backoff per index), KEP-3939 (pod
//! replacement policy), KEP-3998 (success policy), KEP-2232 (suspend).

pub mod backoff;
mod claims;
mod ending;
pub mod failure_policy;
pub mod indexes;
mod manage;
mod observe;
mod orphans;
mod past;
mod plan;
mod pod;
mod rank;
mod status;
pub mod success_policy;
mod tracking;
mod ttl;

pub use orphans::{plan_abandoned, plan_orphans};
pub use past::{PodEnd, counted_end};
pub use plan::{plan, wait_event};
pub use ttl::expires_at;

use crate::{
    shared,
    view::{JobPodView, JobView},
};
use backoff::FailureStreak;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How many pods a reconcile creates or deletes at most.
pub const PODS_MAX: usize = 500;

/// How many pods `status.uncountedTerminatedPods` lists at most: their uids stay below 20 KB.
pub const UNCOUNTED_MAX: usize = 500;

/// The input of a Job's plan: one consistent reading of the caches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobState {
    /// The Job.
    #[serde(with = "shared")]
    pub job: Arc<JobView>,
    /// Pods of its namespace that it controls, or that have no controller and match its selector. Pods that have finished and lost the
    /// finalizer can be left out: they are counted. In any order.
    #[serde(with = "shared::list")]
    pub pods: Vec<Arc<JobPodView>>,
    /// How its counted pods ended ([`counted_end`]).
    pub past: FailureStreak,
    /// The time of this reading.
    pub now: Timestamp,
}

impl JobState {
    /// The pods: by index, then by name.
    fn sorted_pods(&self) -> Vec<&JobPodView> {
        let mut pods: Vec<&JobPodView> = self.pods.iter().map(|pod| &**pod).collect();
        pods.sort_by(|a, b| (a.index, &a.pod.meta.name).cmp(&(b.index, &b.pod.meta.name)));
        pods
    }
}

#[cfg(test)]
mod tests;
