//! The disruption controller: the changes that enqueue budgets, and the input of their plans.
//!
//! Workloads are only read if a budget exists. Until the first one is created, their caches are not started.

use crate::{
    cache::{AnyCache, Cache, Delta},
    cluster::{Cluster, ClusterError},
    lock,
    metrics::Metrics,
    owners::OwnerIndex,
    plan_loop::Planner,
    replica_set::PodCache,
    scales::{CustomScale, Scales},
    worker::Queue,
};
use berth_env::Spawner;
use berth_identity::{GroupResource, ObjectKey};
use berth_workloads::{
    Plan,
    disruption::{self, DisruptionState, Workload},
    resources::{BUDGETS, DEPLOYMENTS, REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS},
    view::{BudgetView, PodView, ScaleView, View},
};
use event_listener::Event;
use futures::{FutureExt, future::BoxFuture};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

/// Workloads that can own pods.
const WORKLOADS: [GroupResource; 4] = [DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, REPLICATION_CONTROLLERS];

/// All budgets.
pub type BudgetCache = Cache<BudgetView>;
/// The number of replicas of the workloads of one kind.
pub type ScaleCache = Cache<ScaleView, OwnerIndex<ScaleView>>;

/// Plans PodDisruptionBudgets.
#[derive(Clone)]
pub struct DisruptionPlanner {
    budgets: Arc<BudgetCache>,
    /// Notified when budgets change.
    made: Arc<Event>,
    pods: Arc<PodCache>,
    scales: [Arc<ScaleCache>; 4],
    custom: Scales,
    /// The sizes of custom owners by uid, for each budget, between the read and the plan.
    read: Arc<Mutex<BTreeMap<ObjectKey, BTreeMap<String, i32>>>>,
}

impl DisruptionPlanner {
    /// A planner over `pods` and its own caches of workloads, which reads the scales of custom owners from the cluster.
    #[must_use]
    pub fn new(cluster: Arc<dyn Cluster>, pods: Arc<PodCache>) -> Self {
        let scales = WORKLOADS.map(|resource| Arc::new(ScaleCache::new(resource)));
        let (budgets, custom) = (Arc::new(BudgetCache::new(BUDGETS)), Scales::of(cluster));
        Self { budgets, made: Arc::default(), pods, scales, custom, read: Arc::default() }
    }

    /// Adds the keys of budgets to `queue` when budgets, pods or workloads change. Call it before the caches start.
    pub fn wake(&self, queue: &Queue<ObjectKey>) {
        let (made, added) = (Arc::clone(&self.made), queue.clone());
        self.budgets.on_change(move |delta| {
            delta.sides().take(1).for_each(|budget| added.add(budget.key()));
            made.notify(usize::MAX);
        });
        let (budgets, woken) = (Arc::clone(&self.budgets), queue.clone());
        self.pods.on_change(move |delta| wake_for_pod(&budgets, &woken, delta));
        for scales in &self.scales {
            let (budgets, woken) = (Arc::clone(&self.budgets), queue.clone());
            scales.on_change(move |delta| wake_for_scale(&budgets, &woken, delta));
        }
    }

    /// The caches that plans read.
    #[must_use]
    pub fn caches(&self) -> Vec<Arc<dyn AnyCache>> {
        let own = self.scales.iter().map(|scales| -> Arc<dyn AnyCache> { Arc::<ScaleCache>::clone(scales) });
        let (budgets, pods): (Arc<dyn AnyCache>, Arc<dyn AnyCache>) =
            (Arc::<BudgetCache>::clone(&self.budgets), Arc::<PodCache>::clone(&self.pods));
        [budgets, pods].into_iter().chain(own).collect()
    }

    /// Starts the cache of budgets. Resolves when a budget exists and all input of its plan is cached.
    pub async fn synced(&self, cluster: &dyn Cluster, spawner: &dyn Spawner, metrics: &Arc<Metrics>) {
        self.budgets.start(cluster, spawner, metrics);
        self.budgets.synced().await;
        loop {
            let made = self.made.listen();
            if !self.budgets.read().is_empty() {
                break;
            }
            made.await;
        }
        self.scales.iter().for_each(|scales| scales.start(cluster, spawner, metrics));
        for cache in self.caches() {
            cache.synced().await;
        }
    }

    fn scale(&self, uid: &str) -> Option<Arc<ScaleView>> {
        self.scales.iter().find_map(|scales| scales.read().index().by_uid(uid).cloned())
    }

    /// The workload of a pod with this controller: a ReplicaSet's Deployment, otherwise the controller itself. `custom` has the sizes of
    /// custom owners.
    fn workload_of(&self, controller: &OwnerReference, custom: &BTreeMap<String, i32>) -> Workload {
        let set = if controller.kind == "ReplicaSet" { self.scale(&controller.uid) } else { None };
        let deployment = set.as_ref().and_then(|set| set.meta.controller()).filter(|owner| owner.kind == "Deployment");
        let uid = deployment.unwrap_or(controller).uid.clone();
        let replicas = self.scale(&uid).map(|scale| scale.replicas).or_else(|| custom.get(&uid).copied());
        Workload { replicas: replicas.map(Into::into), uid }
    }

    /// The owners of a budget's pods whose scales no cache has.
    fn custom_owners(&self, key: &ObjectKey) -> BTreeMap<String, OwnerReference> {
        let Some(budget) = self.budgets.get(key) else { return BTreeMap::new() };
        let known = self.pods.read();
        let selector = budget.selector.as_ref();
        let selected = selector.map(|selector| known.index().selected(&budget.meta.namespace, selector)).unwrap_or_default();
        let pods: Vec<&PodView> = selected.into_iter().map(|pod| &**pod).collect();
        let group = |owner: &OwnerReference| owner.api_version.split_once('/').map_or(String::new(), |(group, _)| group.to_owned());
        let owners = disruption::controllers(&budget, &pods).filter(|owner| Scales::is_custom(&group(owner)));
        owners.map(|owner| (owner.uid.clone(), owner.clone())).collect()
    }

    async fn read_custom(&self, key: &ObjectKey) -> Result<(), ClusterError> {
        let mut sizes = BTreeMap::new();
        for (uid, owner) in self.custom_owners(key) {
            let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
            let at = ObjectKey { namespace: key.namespace.clone(), name: owner.name.as_str().into() };
            if let CustomScale::Found(_, scale) = self.custom.read((group, &owner.kind), &at).await?
                && *scale.uid == *uid
            {
                sizes.insert(uid, scale.replicas);
            }
        }
        match sizes.is_empty() {
            true => lock(&self.read).remove(key),
            false => lock(&self.read).insert(key.clone(), sizes),
        };
        Ok(())
    }
}

/// Enqueues the budgets that select the pod, or did before the change.
fn wake_for_pod(budgets: &BudgetCache, queue: &Queue<ObjectKey>, delta: &Delta<PodView>) {
    if !matters(delta) {
        return;
    }
    let known = budgets.read();
    for pod in delta.sides() {
        let selecting = known.in_namespace(&pod.meta.namespace).filter(|budget| selects(budget, pod));
        selecting.for_each(|budget| queue.add(budget.key()));
    }
}

/// Whether the change affects how the pod counts.
fn matters(delta: &Delta<PodView>) -> bool {
    let counted = |pod: &PodView| (pod.ready, pod.meta.deleted.is_some());
    match (&delta.old, &delta.new) {
        (Some(old), Some(new)) => counted(old) != counted(new) || old.meta.labels != new.meta.labels || old.meta.owners != new.meta.owners,
        _ => true,
    }
}

/// Enqueues all budgets of a namespace in which a workload changes its number of replicas. Only its pods show which budgets select them.
fn wake_for_scale(budgets: &BudgetCache, queue: &Queue<ObjectKey>, delta: &Delta<ScaleView>) {
    let wanted = |side: &Option<Arc<ScaleView>>| side.as_ref().map(|scale| (scale.replicas, scale.meta.owners.clone()));
    if wanted(&delta.old) == wanted(&delta.new) {
        return;
    }
    for scale in delta.sides().take(1) {
        budgets.read().in_namespace(&scale.meta.namespace).for_each(|budget| queue.add(budget.key()));
    }
}

fn selects(budget: &BudgetView, pod: &PodView) -> bool {
    budget.selector.as_ref().is_some_and(|selector| selector.matches(&pod.meta.labels))
}

impl Planner for DisruptionPlanner {
    fn prepare<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<(), ClusterError>> {
        self.read_custom(key).boxed()
    }

    fn plan(&self, key: &ObjectKey, _last_error: Option<&str>, now: Timestamp) -> Option<Plan> {
        let custom = lock(&self.read).remove(key).unwrap_or_default();
        let budget = self.budgets.get(key)?;
        let known = self.pods.read();
        let selector = budget.selector.as_ref();
        let selected = selector.map(|selector| known.index().selected(&budget.meta.namespace, selector)).unwrap_or_default();
        let pods: Vec<&PodView> = selected.into_iter().map(|pod| &**pod).collect();
        let mut workloads = BTreeMap::new();
        for controller in disruption::controllers(&budget, &pods) {
            if !workloads.contains_key(&controller.uid) {
                workloads.insert(controller.uid.clone(), self.workload_of(controller, &custom));
            }
        }
        Some(disruption::plan(&DisruptionState { budget: &budget, pods, workloads, now }))
    }
}
