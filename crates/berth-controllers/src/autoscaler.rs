//! The controller of HorizontalPodAutoscalers: when they are reconciled, and the input of their plans.
//!
//! Pods and targets are only read if an autoscaler exists. Until the first one is created, their caches are not started.

use crate::{
    by_labels::ByLabels,
    cache::{AnyCache, Cache},
    cluster::{Cluster, ClusterError},
    guard::Guard,
    lock,
    metrics::Metrics,
    plan_loop::Planner,
    scales::{CustomScale, Scales},
    worker::Queue,
};
use berth_api::{FeatureGates, Gate};
use berth_env::Spawner;
use berth_identity::{GroupResource, Name, ObjectKey};
use berth_workloads::{
    Plan,
    autoscaler::{
        self, AutoscalerState, AutoscalerView, Described, MeasuredPodView, Memory, PodSample, SELECTED_BY_MAX, ScaledView, Target,
        TargetKind, described_resource, is_ambiguous,
    },
    plan::{EventRecord, Wait},
    resources::{AUTOSCALERS, DEPLOYMENTS, INGRESSES, PODS, REPLICA_SETS, REPLICATION_CONTROLLERS, SERVICES, STATEFUL_SETS},
    selector::Labels,
    view::View,
};
use event_listener::Event;
use futures::{FutureExt, future::BoxFuture};
use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::ObjectMetricSource;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

/// The resources of targets.
const TARGETS: [GroupResource; 4] = [DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, REPLICATION_CONTROLLERS];
/// The other resources that metrics can describe.
const DESCRIBED: [GroupResource; 2] = [SERVICES, INGRESSES];

/// All autoscalers.
pub type AutoscalerCache = Cache<AutoscalerView>;
/// The objects of a resource that can be a target, or that a metric can describe.
pub type ScaledCache = Cache<ScaledView>;

/// The usage of pods, where it is not that of simulated pods.
pub trait PodUsage: Send + Sync {
    /// Replaces the usage of `pods`, which the target selects.
    fn measure(&self, resource: &GroupResource, target: &ObjectKey, pods: &mut [PodSample], now: Timestamp);
}

/// Plans the sizes of targets.
#[derive(Clone)]
pub struct AutoscalerPlanner {
    autoscalers: Arc<AutoscalerCache>,
    /// Notified when autoscalers change.
    made: Arc<Event>,
    pods: Arc<Cache<MeasuredPodView, ByLabels<MeasuredPodView>>>,
    targets: [Arc<ScaledCache>; 4],
    described: [Arc<ScaledCache>; 2],
    scales: Scales,
    /// The targets whose kinds clients defined, between the read and the plan.
    custom: Arc<Mutex<BTreeMap<ObjectKey, CustomScale>>>,
    gates: Arc<FeatureGates>,
    usage: Option<Arc<dyn PodUsage>>,
    /// The memory of each autoscaler that exists.
    memories: Arc<Mutex<BTreeMap<ObjectKey, Memory>>>,
}

impl AutoscalerPlanner {
    /// A planner over its own caches, which reads the scales of custom targets from the cluster. Without `usage`, pods are simulated and use what
    /// their annotations set.
    #[must_use]
    pub fn new(cluster: Arc<dyn Cluster>, gates: Arc<FeatureGates>, usage: Option<Arc<dyn PodUsage>>) -> Self {
        let of = |resource| Arc::new(ScaledCache::new(resource));
        Self {
            autoscalers: Arc::new(AutoscalerCache::new(AUTOSCALERS)),
            made: Arc::default(),
            pods: Arc::new(Cache::new(PODS)),
            targets: TARGETS.map(of),
            described: DESCRIBED.map(of),
            scales: Scales::of(cluster),
            custom: Arc::default(),
            gates,
            usage,
            memories: Arc::default(),
        }
    }

    /// Adds the keys of changed autoscalers to `queue`. Changes of pods and targets wait for the next interval. Call it before the caches
    /// start.
    pub fn wake(&self, queue: &Queue<ObjectKey>) {
        let (made, queue) = (Arc::clone(&self.made), queue.clone());
        self.autoscalers.on_change(move |delta| {
            delta.sides().take(1).for_each(|autoscaler| queue.add(autoscaler.key()));
            made.notify(usize::MAX);
        });
    }

    /// Lets `guard` watch the statuses of autoscalers. Call it before [`Self::wake`], so that the guard forgets a deleted one first.
    pub fn watch(&self, guard: &Guard, queue: &Queue<ObjectKey>) {
        guard.watch_statuses(&self.autoscalers, queue, |autoscaler| autoscaler.foreign.as_deref());
    }

    /// The caches of the resources that plans write.
    #[must_use]
    pub fn written(&self) -> Vec<Arc<dyn AnyCache>> {
        let autoscalers: Arc<dyn AnyCache> = Arc::<AutoscalerCache>::clone(&self.autoscalers);
        let targets = self.targets.iter().map(|targets| -> Arc<dyn AnyCache> { Arc::<ScaledCache>::clone(targets) });
        targets.chain([autoscalers]).collect()
    }

    /// Starts the cache of autoscalers. Resolves when it is complete.
    pub async fn listed(&self, cluster: &dyn Cluster, spawner: &dyn Spawner, metrics: &Arc<Metrics>) {
        self.autoscalers.start(cluster, spawner, metrics);
        self.autoscalers.synced().await;
    }

    /// Resolves when an autoscaler exists and all input of its plan is cached. Call it after [`Self::listed`].
    pub async fn synced(&self, cluster: &dyn Cluster, spawner: &dyn Spawner, metrics: &Arc<Metrics>) {
        loop {
            let made = self.made.listen();
            if !self.autoscalers.read().is_empty() {
                break;
            }
            made.await;
        }
        self.pods.start(cluster, spawner, metrics);
        for cache in self.targets.iter().chain(&self.described) {
            cache.start(cluster, spawner, metrics);
        }
        self.pods.synced().await;
        for cache in self.targets.iter().chain(&self.described) {
            cache.synced().await;
        }
    }

    fn scaled(&self, resource: &GroupResource, namespace: &str, name: &str) -> Option<Arc<ScaledView>> {
        let mut caches = self.targets.iter().chain(&self.described);
        caches.find(|cache| cache.resource() == *resource)?.get(&ObjectKey::new(namespace, name))
    }

    /// The target, and its resource if a client defined its kind.
    fn target(&self, autoscaler: &AutoscalerView) -> (Target, Option<GroupResource>) {
        let reference = &autoscaler.spec.scale_target_ref;
        let target = match TargetKind::of(reference) {
            TargetKind::Scaled(resource) => {
                let target = self.scaled(&resource, &autoscaler.namespace, &reference.name);
                target.map_or(Target::Missing, |target| Target::Found((*target).clone()))
            }
            TargetKind::WithoutScale => Target::WithoutScale,
            TargetKind::Unknown => match lock(&self.custom).remove(&autoscaler.key()) {
                Some(CustomScale::Found(resource, scale)) => return (Target::Found(scale), Some(resource)),
                Some(CustomScale::Missing(resource)) => return (Target::Missing, Some(resource)),
                Some(CustomScale::None(resource)) => return (Target::WithoutScale, Some(resource)),
                Some(CustomScale::UnknownKind) | None => Target::UnknownKind,
            },
        };
        (target, None)
    }

    /// The pods that the target selects.
    fn pods(&self, autoscaler: &AutoscalerView, target: &Target) -> Vec<Arc<MeasuredPodView>> {
        let Target::Found(ScaledView { selector: Some(selector), .. }) = target else { return Vec::new() };
        self.pods.read().index().selected(&autoscaler.namespace, selector).into_iter().cloned().collect()
    }

    /// The first autoscalers of the namespace whose targets select pods with these labels.
    fn selecting(&self, own: &AutoscalerView, is_custom: bool, labels: &BTreeSet<&Labels>) -> Vec<Name> {
        let namespace: &str = &own.namespace;
        let all: Vec<Arc<AutoscalerView>> = self.autoscalers.read().in_namespace(namespace).cloned().collect();
        let selects = |autoscaler: &&Arc<AutoscalerView>| {
            if is_custom && autoscaler.name == own.name {
                return !labels.is_empty();
            }
            let reference = &autoscaler.spec.scale_target_ref;
            let TargetKind::Scaled(resource) = TargetKind::of(reference) else { return false };
            let target = self.scaled(&resource, namespace, &reference.name);
            let selector = target.as_ref().and_then(|target| target.selector.as_ref());
            selector.is_some_and(|selector| labels.iter().any(|labels| selector.matches(labels)))
        };
        all.iter().filter(selects).map(|autoscaler| autoscaler.name.clone()).take(SELECTED_BY_MAX).collect()
    }

    fn described(&self, autoscaler: &AutoscalerView) -> Vec<Described> {
        let sources = autoscaler.spec.metrics.iter().flatten().filter_map(|metric| metric.object.as_ref());
        let describe = |source: &ObjectMetricSource| {
            let Some(resource) = described_resource(&source.described_object) else { return Described::UnknownKind };
            let object = self.scaled(&resource, &autoscaler.namespace, &source.described_object.name);
            object.map_or(Described::Missing, |object| Described::Found(object.metrics.get(&source.metric.name).copied()))
        };
        sources.map(describe).collect()
    }

    /// The input of the plan of an autoscaler.
    fn observe(&self, autoscaler: &AutoscalerView, memory: Memory, last_error: Option<&str>, now: Timestamp) -> AutoscalerState {
        let (target, custom_resource) = self.target(autoscaler);
        let selected = self.pods(autoscaler, &target);
        let labels = selected.iter().map(|pod| &pod.labels).collect();
        let selected_by = self.selecting(autoscaler, custom_resource.is_some(), &labels);
        // Decoded without the lock, and only for an autoscaler that scales by them.
        let mut pods: Vec<PodSample> =
            if is_ambiguous(&selected_by) { Vec::new() } else { selected.iter().filter_map(|pod| pod.sample(now)).collect() };
        let reference = &autoscaler.spec.scale_target_ref;
        if let (Some(usage), TargetKind::Scaled(resource)) = (&self.usage, TargetKind::of(reference)) {
            usage.measure(&resource, &ObjectKey::new(&*autoscaler.namespace, reference.name.as_str()), &mut pods, now);
        }
        AutoscalerState {
            target,
            pods,
            selected_by,
            custom_resource,
            described: self.described(autoscaler),
            autoscaler: autoscaler.clone(),
            memory,
            tolerance_is_configurable: self.gates.enabled(Gate::HPAConfigurableTolerance),
            last_error: last_error.map(ToOwned::to_owned),
            now,
        }
    }
}

impl Planner for AutoscalerPlanner {
    fn prepare<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<(), ClusterError>> {
        async move {
            let Some(autoscaler) = self.autoscalers.get(key) else { return Ok(()) };
            let reference = &autoscaler.spec.scale_target_ref;
            let group = autoscaler::group_of(reference);
            if TargetKind::of(reference) == TargetKind::Unknown && Scales::is_custom(group) {
                let target = ObjectKey { namespace: key.namespace.clone(), name: reference.name.as_str().into() };
                let scale = self.scales.read((group, &reference.kind), &target).await?;
                lock(&self.custom).insert(key.clone(), scale);
            }
            Ok(())
        }
        .boxed()
    }

    fn plan(&self, key: &ObjectKey, last_error: Option<&str>, now: Timestamp) -> Option<Plan> {
        let Some(autoscaler) = self.autoscalers.get(key) else {
            lock(&self.memories).remove(key);
            lock(&self.custom).remove(key);
            return None;
        };
        let memory = lock(&self.memories).get(key).cloned().unwrap_or_default();
        // Most changes of an autoscaler are its own status. Then its pods are not decoded.
        let idle = memory.idle_until(&autoscaler.uid, now).filter(|_| last_error.is_none());
        if idle.is_some() {
            return Some(Plan { requeue_at: idle, ..Plan::default() });
        }
        let (plan, memory) = autoscaler::plan(&self.observe(&autoscaler, memory, last_error, now));
        lock(&self.memories).insert(key.clone(), memory);
        Some(plan)
    }

    fn wait_event(&self, key: &ObjectKey, wait: &Wait) -> Option<EventRecord> {
        autoscaler::wait_event(&*self.autoscalers.get(key)?, wait)
    }
}
