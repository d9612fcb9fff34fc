//! The pod garbage collector: looks for pods that nobody will finish, now and then.

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

/// How often to look.
const INTERVAL: SignedDuration = SignedDuration::from_secs(20);

/// The pod garbage collector.
pub struct PodCollector {
    /// All pods.
    pub pods: Arc<PodCache>,
    /// All nodes.
    pub nodes: Arc<MetaCache>,
    /// Carries its plans out.
    pub executor: Executor,
    /// When to look.
    pub clock: Arc<dyn Clock>,
    /// Looks that panicked.
    pub panics: IntCounter,
}

impl PodCollector {
    /// Looks every 20 s, for ever, once the caches are complete.
    pub async fn run(self) {
        self.pods.synced().await;
        self.nodes.synced().await;
        let mut missing = BTreeMap::new();
        loop {
            match caught(self.look(&mut missing)).await {
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

    async fn look(&self, missing: &mut BTreeMap<String, Timestamp>) -> Option<ExecutionError> {
        let plan = self.plan(missing, self.clock.now());
        self.executor.carry_out("all pods", plan).await.error
    }

    /// Costs the nodes that pods name, and what is removed. `missing` is brought up to date.
    fn plan(&self, missing: &mut BTreeMap<String, Timestamp>, now: Timestamp) -> Plan {
        let (pods, nodes) = (self.pods.read(), self.nodes.read());
        let index = pods.index();
        let is_missing = |node: &&str| !node.is_empty() && nodes.get(&ObjectKey::cluster_scoped(*node)).is_none();
        *missing = pod_gc::missing_since(index.nodes().filter(is_missing), missing, now);
        let lost = pod_gc::lost_nodes(missing, now).flat_map(|node| index.on_node(node)).map(|pod| &**pod).collect();
        pod_gc::plan(&PodGcState { missing: missing.clone(), lost, candidates: index.collectable(), now })
    }
}
