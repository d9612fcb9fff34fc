//! The pod garbage collector: periodically finds pods that no other controller deletes.

use crate::{
    cache::AnyCache,
    executor::{ExecutionError, Executor},
    metadata::MetaCache,
    panics::caught,
    replica_set::PodCache,
};
use berth_env::Clock;
use berth_identity::ObjectKey;
use berth_workloads::{
    Plan,
    pod_gc::{self, PodGcState},
};
use jiff::{SignedDuration, Timestamp};
use prometheus::IntCounter;
use std::{collections::BTreeMap, sync::Arc};

/// The interval of the checks.
const INTERVAL: SignedDuration = SignedDuration::from_secs(20);

/// The pod garbage collector.
pub struct PodCollector {
    /// All pods.
    pub pods: Arc<PodCache>,
    /// All nodes.
    pub nodes: Arc<MetaCache>,
    /// Executes its plans.
    pub executor: Executor,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Counts panics.
    pub panics: IntCounter,
}

impl PodCollector {
    /// Checks every 20 s, indefinitely, after the caches have synced.
    pub async fn run(self) {
        self.pods.synced().await;
        self.nodes.synced().await;
        let mut missing = BTreeMap::new();
        loop {
            match caught(self.reconcile(&mut missing)).await {
                Ok(None) => (),
                Ok(Some(ExecutionError::Panicked(panicked))) | Err(panicked) => {
                    self.panics.inc();
                    tracing::error!(controller = "podgc", panic = ?panicked.0, "a reconcile panicked; requeued");
                }
                Ok(Some(error)) => tracing::debug!(%error, "a pod could not be removed; retrying later"),
            }
            self.clock.sleep_until(self.clock.now() + INTERVAL).await;
        }
    }

    async fn reconcile(&self, missing: &mut BTreeMap<String, Timestamp>) -> Option<ExecutionError> {
        let plan = self.plan(missing, self.clock.now());
        self.executor.execute("all pods", plan).await.error
    }

    /// Plans one check, and updates `missing`. The cost is linear in the nodes that pods name and in the deleted pods.
    fn plan(&self, missing: &mut BTreeMap<String, Timestamp>, now: Timestamp) -> Plan {
        let (pods, nodes) = (self.pods.read(), self.nodes.read());
        let index = pods.index();
        let is_missing = |node: &&str| !node.is_empty() && nodes.get(&ObjectKey::cluster_scoped(*node)).is_none();
        *missing = pod_gc::missing_since(index.nodes().filter(is_missing), missing, now);
        let lost = pod_gc::lost_nodes(missing, now).flat_map(|node| index.on_node(node)).map(|pod| &**pod).collect();
        pod_gc::plan(&PodGcState { missing: missing.clone(), lost, candidates: index.collectable(), now })
    }
}
