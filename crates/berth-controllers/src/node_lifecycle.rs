//! The node lifecycle controller: monitors nodes' heartbeats, taints unhealthy nodes and evicts their pods.
//!
//! Caches show whether an action may be due. Before any action, the node, the lease or the pod is read again, past every cache: a
//! controller that was cut off from the API server must not mistake its own silence for a node's.

use crate::{
    cache::{AnyCache, Cache, Delta},
    cluster::{Cluster, ClusterError},
    executor::Executor,
    lock,
    metrics::Metrics,
    replica_set::PodCache,
    worker::{Queue, Reconcile, ReconcileResult},
};
use berth_env::{Clock, Env};
use berth_identity::{Name, ObjectKey, Uid};
use berth_workloads::{
    Plan,
    node_lifecycle::{
        BoundPodView, LeaseView, NODE_LEASES, NodeView,
        nodes::{self, Watched},
        pods,
    },
    resources::{LEASES, NODES, PODS},
    view::{PodView, View},
};
use futures::future::BoxFuture;
use jiff::Timestamp;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

/// How many nodes, and how many pods, are processed at once.
const WORKERS: usize = 16;

/// Monitors nodes.
pub struct NodeLifecycle {
    shared: Arc<Shared>,
    node_queue: Queue<ObjectKey>,
    pod_queue: Queue<ObjectKey>,
}

/// The data shared by the reconcilers of nodes and of pods.
struct Shared {
    cluster: Arc<dyn Cluster>,
    executor: Executor,
    clock: Arc<dyn Clock>,
    nodes: Arc<Cache<NodeView>>,
    leases: Arc<Cache<LeaseView>>,
    pods: Arc<PodCache>,
    /// By the node's uid.
    watched: Mutex<BTreeMap<Uid, Watched>>,
}

/// Why an object must be reconciled again.
#[derive(Debug, thiserror::Error)]
enum Unread {
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error("an object cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
}

impl NodeLifecycle {
    /// A controller over `pods` and its own caches. Call it before the pods' cache starts.
    #[must_use]
    pub fn new(cluster: Arc<dyn Cluster>, pods: Arc<PodCache>, executor: Executor, env: &Env, metrics: &Metrics) -> Self {
        let shared = Arc::new(Shared {
            cluster,
            executor,
            clock: Arc::clone(&env.clock),
            nodes: Arc::new(Cache::new(NODES)),
            leases: Arc::new(Cache::new(LEASES)),
            pods,
            watched: Mutex::default(),
        });
        let queue = |name: &str| Queue::new(name, Arc::clone(&env.clock), metrics);
        let controller = Self { shared, node_queue: queue("nodelifecycle"), pod_queue: queue("nodelifecycle_pods") };
        controller.wake();
        controller
    }

    fn wake(&self) {
        let (shared, node_queue, pod_queue) = (Arc::clone(&self.shared), self.node_queue.clone(), self.pod_queue.clone());
        self.shared.nodes.on_change(move |delta| shared.take_in_node(delta, &node_queue, &pod_queue));
        let shared = Arc::clone(&self.shared);
        self.shared.leases.on_change(move |delta| shared.take_in_lease(delta));
        let (shared, queue) = (Arc::clone(&self.shared), self.pod_queue.clone());
        self.shared.pods.on_change(move |delta| shared.take_in_pod(delta, &queue));
    }

    /// Starts its caches, and acts after they and the pods' cache have synced.
    pub fn start(self, env: &Env, metrics: &Arc<Metrics>) {
        let Shared { cluster, nodes, leases, .. } = &*self.shared;
        nodes.start(&**cluster, &*env.spawner, metrics);
        leases.start(&**cluster, &*env.spawner, metrics);
        let started = env.clone();
        let begin = async move {
            let shared = self.shared;
            shared.nodes.synced().await;
            shared.leases.synced().await;
            shared.pods.synced().await;
            self.node_queue.start(&started, "nodelifecycle", WORKERS, &Arc::new(NodeReconciler(Arc::clone(&shared))));
            self.pod_queue.start(&started, "nodelifecycle pods", WORKERS, &Arc::new(PodReconciler(shared)));
        };
        env.spawner.spawn("nodelifecycle", Box::pin(begin));
    }
}

impl Shared {
    fn take_in_node(&self, delta: &Delta<NodeView>, node_queue: &Queue<ObjectKey>, pod_queue: &Queue<ObjectKey>) {
        match &delta.new {
            Some(node) => drop(self.watch(node, self.lease_of(&node.name).as_deref())),
            None => delta.old.iter().for_each(|node| drop(lock(&self.watched).remove(&node.uid))),
        }
        // A heartbeat alone does not enqueue the node: the next reconcile is scheduled anyway, and reads it.
        let state = |node: &NodeView| {
            let conditions = node.conditions.iter().map(|condition| (condition.type_.clone(), condition.status.clone()));
            (conditions.collect::<Vec<_>>(), node.taints.clone(), node.unschedulable)
        };
        if delta.old.as_deref().map(state) == delta.new.as_deref().map(state) {
            return;
        }
        if let Some(node) = &delta.new {
            node_queue.add(node.key());
            // The pods of a recovered node are not enqueued. A pod due for eviction is reconciled at that time, and stays.
            if node.is_troubled() {
                self.pods.read().index().on_node(&node.name).for_each(|pod| pod_queue.add(pod.key()));
            }
        }
    }

    fn take_in_lease(&self, delta: &Delta<LeaseView>) {
        let lease = delta.new.as_ref().filter(|lease| lease.namespace == NODE_LEASES);
        if let Some((lease, node)) = lease.and_then(|lease| Some((lease, self.nodes.get(&ObjectKey::new("", &lease.name))?))) {
            self.watch(&node, Some(lease));
        }
    }

    fn take_in_pod(&self, delta: &Delta<PodView>, queue: &Queue<ObjectKey>) {
        let Some(pod) = delta.new.as_ref().filter(|pod| !pod.node_name.is_empty() && pod.meta.deleted.is_none()) else { return };
        if self.nodes.get(&ObjectKey::new("", pod.node_name.as_str())).is_some_and(|node| node.is_troubled()) {
            queue.add(pod.key());
        }
    }

    fn lease_of(&self, node: &Name) -> Option<Arc<LeaseView>> {
        self.leases.get(&ObjectKey::new(NODE_LEASES, node))
    }

    /// Records the present state of a node.
    fn watch(&self, node: &NodeView, lease: Option<&LeaseView>) -> Watched {
        let mut all = lock(&self.watched);
        let watched = Watched::observe(all.get(&node.uid), node, lease, self.clock.now());
        all.insert(node.uid.clone(), watched.clone());
        watched
    }

    fn plan_node(&self, node: &NodeView, lease: Option<&LeaseView>) -> Plan {
        let watched = self.watch(node, lease);
        nodes::plan(&nodes::NodeState { node, watched: &watched, now: self.clock.now() })
    }

    async fn reconcile_node(&self, key: &ObjectKey) -> Result<ReconcileResult, Unread> {
        let Some(cached) = self.nodes.get(key) else { return Ok(ReconcileResult::Done) };
        let plan = self.plan_node(&cached, self.lease_of(&key.name).as_deref());
        if plan.stages.is_empty() {
            return Ok(plan.requeue_at.map_or(ReconcileResult::Done, ReconcileResult::RequeueAt));
        }
        let Some(node) = self.read_node(key).await? else { return Ok(ReconcileResult::Done) };
        let lease =
            self.cluster.get(LEASES, &ObjectKey::new(NODE_LEASES, &key.name)).await?.map(|raw| raw.view::<LeaseView>()).transpose()?;
        let plan = self.plan_node(&node, lease.as_ref());
        Ok(self.execute(key, plan).await)
    }

    async fn reconcile_pod(&self, key: &ObjectKey) -> Result<ReconcileResult, Unread> {
        let Some(raw) = self.cluster.get(PODS, key).await? else { return Ok(ReconcileResult::Done) };
        let pod: BoundPodView = raw.view()?;
        let node_key = ObjectKey::cluster_scoped(&pod.node_name);
        let Some(cached) = self.nodes.get(&node_key) else { return Ok(ReconcileResult::Done) };
        let plan = |node: &NodeView| pods::plan(&pods::NodePodState { pod: &pod, node, now: self.clock.now() });
        let first = plan(&cached);
        if first.stages.is_empty() {
            return Ok(first.requeue_at.map_or(ReconcileResult::Done, ReconcileResult::RequeueAt));
        }
        let Some(node) = self.read_node(&node_key).await? else { return Ok(ReconcileResult::Done) };
        Ok(self.execute(key, plan(&node)).await)
    }

    async fn execute(&self, key: &ObjectKey, plan: Plan) -> ReconcileResult {
        let requeue_at: Option<Timestamp> = plan.requeue_at;
        match self.executor.execute(key, plan).await.error {
            Some(error) => {
                tracing::debug!(%error, "requeued");
                error.reconcile_result()
            }
            None => requeue_at.map_or(ReconcileResult::Done, ReconcileResult::RequeueAt),
        }
    }

    async fn read_node(&self, key: &ObjectKey) -> Result<Option<NodeView>, Unread> {
        let raw = self.cluster.get(NODES, key).await?;
        Ok(raw.map(|raw| raw.view()).transpose()?)
    }
}

struct NodeReconciler(Arc<Shared>);

struct PodReconciler(Arc<Shared>);

impl Reconcile<ObjectKey> for NodeReconciler {
    fn reconcile<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, ReconcileResult> {
        Box::pin(async move { or_failed(key, self.0.reconcile_node(key).await) })
    }
}

impl Reconcile<ObjectKey> for PodReconciler {
    fn reconcile<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, ReconcileResult> {
        Box::pin(async move { or_failed(key, self.0.reconcile_pod(key).await) })
    }
}

fn or_failed(key: &ObjectKey, result: Result<ReconcileResult, Unread>) -> ReconcileResult {
    result.unwrap_or_else(|error| {
        tracing::debug!(%key, %error, "requeued");
        match error {
            Unread::Cluster(error) => ReconcileResult::failed(&error),
            Unread::Unreadable(_) => ReconcileResult::Backoff,
        }
    })
}
