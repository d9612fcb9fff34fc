//! The load of workloads: what their pods use together. In a simulation, the ready pods of a workload share it.

use berth_controllers::autoscaler::PodUsage;
use berth_identity::{GroupResource, ObjectKey};
use berth_store::env::Timestamp;
use berth_workloads::{
    autoscaler::{PodSample, share},
    resources::{DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS},
};
use std::collections::BTreeMap;

/// What the pods of a workload use together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    /// In millicores.
    pub(crate) cpu_millis: i64,
    /// In bytes.
    pub(crate) memory_bytes: i64,
}

impl Load {
    /// In thousandths, by resource.
    fn amounts(self) -> BTreeMap<String, i64> {
        [("cpu".to_owned(), self.cpu_millis), ("memory".to_owned(), self.memory_bytes.saturating_mul(1000))].into()
    }
}

/// The load of each workload at each time. Workloads without an entry have simulated pods.
pub(crate) struct Loads<F>(pub(crate) BTreeMap<(GroupResource, ObjectKey), F>);

impl<F: Fn(Timestamp) -> Option<Load> + Send + Sync> PodUsage for Loads<F> {
    fn measure(&self, resource: &GroupResource, target: &ObjectKey, pods: &mut [PodSample], now: Timestamp) {
        if let Some(load) = self.0.get(&(resource.clone(), target.clone())) {
            share(load(now).map(Load::amounts).as_ref(), pods);
        }
    }
}

/// The resource of a kind whose load can be known.
pub(crate) fn resource(kind: &str) -> Option<GroupResource> {
    match kind {
        "Deployment" => Some(DEPLOYMENTS),
        "ReplicaSet" => Some(REPLICA_SETS),
        "StatefulSet" => Some(STATEFUL_SETS),
        _ => None,
    }
}
