//! The pod garbage collector: looks for pods that nobody will finish, now and then.

use crate::{cache::Warm, executor::Executor, metadata::MetaCache, replica_set::PodCache};
use berth_store::env::Clock;
use berth_workloads::{
    Plan,
    pod_gc::{self, State, missing_nodes},
};
use jiff::{SignedDuration, Timestamp};
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
}

impl PodCollector {
    /// Looks every 20 s, for ever, once the caches are complete.
    pub async fn run(self) {
        self.pods.warm().await;
        self.nodes.warm().await;
        let mut missing = BTreeMap::new();
        loop {
            let carried = self.executor.carry_out("all pods", self.plan(&mut missing, self.clock.now())).await;
            if let Some(error) = carried.error {
                tracing::debug!(%error, "a pod could not be removed; trying again later");
            }
            self.clock.sleep_until(self.clock.now() + INTERVAL).await;
        }
    }

    /// Costs a walk over all pods. `missing` is brought up to date.
    fn plan(&self, missing: &mut BTreeMap<String, Timestamp>, now: Timestamp) -> Plan {
        let (pods, nodes) = (self.pods.read(), self.nodes.read());
        let state = State {
            pods: pods.iter().map(|pod| &**pod).collect(),
            nodes: nodes.iter().map(|node| &*node.name).collect(),
            missing_since: missing,
            now,
        };
        let (plan, now_missing) = (pod_gc::plan(&state), missing_nodes(&state));
        *missing = now_missing;
        plan
    }
}
