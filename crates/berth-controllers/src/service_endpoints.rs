//! The controllers of EndpointSlices, Endpoints and load balancer addresses: the changes that enqueue Services, and the input of their
//! plans.
//!
//! Pods are only watched once a Service selects some. Without such a Service they cost nothing here.

use crate::{
    by_labels::ByLabels,
    cache::{AnyCache, Cache, Delta, Index},
    cluster::Cluster,
    lock,
    metrics::Metrics,
    plan_loop::Planner,
    worker::Queue,
};
use berth_api::ip::Cidr;
use berth_env::{Clock, Spawner};
use berth_identity::{Name, ObjectKey};
use berth_workloads::{
    Plan,
    endpoints::{
        addresses,
        slices::{self, CONTROLLER, MANAGED_BY, SERVICE_NAME},
        view::{EndpointPodView, EndpointsView, ServiceView, SliceView, ZoneView},
    },
    load_balancer,
    resources::{ENDPOINTS, NODES, PODS, SERVICES, SLICES},
    view::View,
};
use event_listener::Event;
use jiff::{SignedDuration, Timestamp};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::{Arc, Mutex},
};

/// How long a change of a pod waits for others: a rollout changes many at once, and each write of a slice contains all its endpoints.
const BATCH: SignedDuration = SignedDuration::from_millis(50);

/// All Services.
pub type ServiceCache = Cache<ServiceView>;
/// All slices.
pub type SliceCache = Cache<SliceView, SliceIndex>;
/// All Endpoints.
pub type EndpointsCache = Cache<EndpointsView>;

/// The slices that the controller manages, by Service.
#[derive(Default)]
pub struct SliceIndex(BTreeMap<ObjectKey, BTreeMap<Name, Arc<SliceView>>>);

impl SliceIndex {
    fn of(&self, service: &ObjectKey) -> impl Iterator<Item = &Arc<SliceView>> {
        self.0.get(service).into_iter().flat_map(BTreeMap::values)
    }
}

/// The Service of a slice. `None` if another component manages the slice.
fn service_of(slice: &SliceView) -> Option<ObjectKey> {
    let labels = slice.slice.metadata.labels.as_ref()?;
    let is_ours = labels.get(MANAGED_BY).is_some_and(|by| by == CONTROLLER);
    labels.get(SERVICE_NAME).filter(|_| is_ours).map(|name| ObjectKey::new(&slice.id.key.namespace, name))
}

impl Index<SliceView> for SliceIndex {
    fn change(&mut self, old: Option<&Arc<SliceView>>, new: Option<&Arc<SliceView>>) {
        let before = old.and_then(|old| Some((service_of(old)?, old)));
        if let Some((service, old)) = &before
            && let Some(slices) = self.0.get_mut(service)
        {
            slices.remove(&old.id.key.name);
            if slices.is_empty() {
                self.0.remove(service);
            }
        }
        if let Some((service, new)) = new.and_then(|new| Some((service_of(new)?, new))) {
            self.0.entry(service).or_default().insert(new.id.key.name.clone(), Arc::clone(new));
        }
    }
}

/// The input of both controllers. Cheap to clone.
#[derive(Clone)]
pub struct Sources {
    services: Arc<ServiceCache>,
    pods: Arc<Cache<EndpointPodView, ByLabels<EndpointPodView>>>,
    nodes: Arc<Cache<ZoneView>>,
    selecting: Arc<Event>,
    clock: Arc<dyn Clock>,
}

impl Sources {
    /// Caches that are empty.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let sources = Self {
            services: Arc::new(ServiceCache::new(SERVICES)),
            pods: Arc::new(Cache::new(PODS)),
            nodes: Arc::new(Cache::new(NODES)),
            selecting: Arc::default(),
            clock,
        };
        let selecting = Arc::clone(&sources.selecting);
        sources.services.on_change(move |delta| {
            if delta.new.as_ref().is_some_and(|service| service.selector.is_some()) {
                selecting.notify(usize::MAX);
            }
        });
        sources
    }

    /// All Services.
    #[must_use]
    pub fn services(&self) -> &Arc<ServiceCache> {
        &self.services
    }

    /// Watches Services, and also pods and nodes once a Service selects pods. Call it after all handlers are registered.
    pub async fn follow(self, cluster: Arc<dyn Cluster>, spawner: Arc<dyn Spawner>, metrics: Arc<Metrics>) {
        self.services.start(&*cluster, &*spawner, &metrics);
        self.services.synced().await;
        loop {
            let selecting = self.selecting.listen();
            if self.services.read().iter().any(|service| service.selector.is_some()) {
                break;
            }
            selecting.await;
        }
        self.pods.start(&*cluster, &*spawner, &metrics);
        self.nodes.start(&*cluster, &*spawner, &metrics);
    }

    /// Adds the keys of affected Services to `queue`.
    fn wake(&self, queue: &Queue<ObjectKey>) {
        let woken = queue.clone();
        self.services.on_change(move |delta| delta.sides().take(1).for_each(|service| woken.add(service.key())));
        let (services, woken, clock) = (Arc::clone(&self.services), queue.clone(), Arc::clone(&self.clock));
        self.pods.on_change(move |delta| wake_for_pod(&services, &woken, clock.now() + BATCH, delta));
        let (services, woken, clock) = (Arc::clone(&self.services), queue.clone(), Arc::clone(&self.clock));
        self.nodes.on_change(move |delta| {
            if delta.old.as_ref().map(|node| &node.zone) != delta.new.as_ref().map(|node| &node.zone) {
                services.read().iter().for_each(|service| woken.add_after(service.key(), clock.now() + BATCH));
            }
        });
    }

    /// Resolves when pods are cached, and enqueues every Service.
    pub async fn wake_when_known(&self, queue: &Queue<ObjectKey>) {
        self.pods.synced().await;
        self.nodes.synced().await;
        self.services.read().iter().for_each(|service| queue.add(service.key()));
    }

    fn is_known(&self) -> bool {
        self.pods.is_synced() && self.nodes.is_synced()
    }

    /// The pods that a Service selects, by name.
    fn pods_of(&self, service: &ServiceView) -> Vec<Arc<EndpointPodView>> {
        let Some(selector) = &service.selector else { return Vec::new() };
        self.pods.read().index().selected(&service.namespace, selector).into_iter().cloned().collect()
    }

    /// The zones of the pods' nodes, by the names of the nodes.
    fn zones(&self, pods: &[Arc<EndpointPodView>]) -> BTreeMap<String, String> {
        let known = self.nodes.read();
        let names: BTreeSet<&str> = pods.iter().map(|pod| &*pod.node_name).collect();
        let zone = |node: &str| known.get(&ObjectKey::cluster_scoped(node)).map(|node| node.zone.clone()).filter(|zone| !zone.is_empty());
        names.into_iter().filter_map(|node| Some((node.to_owned(), zone(node)?))).collect()
    }
}

/// Enqueues the Services that select the pod, or did before the change.
fn wake_for_pod(services: &ServiceCache, queue: &Queue<ObjectKey>, at: Timestamp, delta: &Delta<EndpointPodView>) {
    if delta.old == delta.new {
        return;
    }
    let known = services.read();
    for pod in delta.sides() {
        let selecting = known.in_namespace(&pod.namespace).filter(|service| service.selects(pod));
        selecting.for_each(|service| queue.add_after(service.key(), at));
    }
}

/// Plans the EndpointSlices of a Service. Cheap to clone.
#[derive(Clone)]
pub struct SlicePlanner {
    sources: Sources,
    /// All slices.
    pub slices: Arc<SliceCache>,
}

impl SlicePlanner {
    /// A planner over `sources` and its own cache.
    #[must_use]
    pub fn new(sources: Sources) -> Self {
        Self { sources, slices: Arc::new(SliceCache::new(SLICES)) }
    }

    /// Adds the keys of affected Services to `queue`. Call it before the caches start.
    pub fn wake(&self, queue: &Queue<ObjectKey>) {
        self.sources.wake(queue);
        let woken = queue.clone();
        self.slices.on_change(move |delta| delta.sides().filter_map(|slice| service_of(slice)).for_each(|service| woken.add(service)));
    }
}

impl Planner for SlicePlanner {
    fn plan(&self, key: &ObjectKey, _last_error: Option<&str>, _now: Timestamp) -> Option<Plan> {
        let service = self.sources.services.get(key)?;
        if !self.sources.is_known() {
            return Some(Plan::default());
        }
        let pods = self.sources.pods_of(&service);
        let own: Vec<Arc<SliceView>> = self.slices.read().index().of(key).cloned().collect();
        let slices = own.iter().filter(|slice| is_owned(slice, &service)).map(|slice| &**slice).collect();
        let zones = self.sources.zones(&pods);
        let pods = pods.iter().map(|pod| &**pod).collect();
        Some(slices::plan(&slices::EndpointSliceState { service: &service, pods, slices, zones }))
    }
}

/// The garbage collector handles slices of a former Service of the same name.
fn is_owned(slice: &SliceView, service: &ServiceView) -> bool {
    let metadata = &slice.slice.metadata;
    metadata.deletion_timestamp.is_none() && metadata.owner_references.iter().flatten().any(|owner| owner.uid == service.uid)
}

/// Plans the Endpoints of a Service. Cheap to clone.
#[derive(Clone)]
pub struct EndpointsPlanner {
    sources: Sources,
    /// All Endpoints.
    pub endpoints: Arc<EndpointsCache>,
}

impl EndpointsPlanner {
    /// A planner over `sources` and its own cache.
    #[must_use]
    pub fn new(sources: Sources) -> Self {
        Self { sources, endpoints: Arc::new(EndpointsCache::new(ENDPOINTS)) }
    }

    /// Adds the keys of affected Services to `queue`. Call it before the caches start.
    pub fn wake(&self, queue: &Queue<ObjectKey>) {
        self.sources.wake(queue);
        let woken = queue.clone();
        self.endpoints.on_change(move |delta| delta.sides().take(1).for_each(|endpoints| woken.add(endpoints.key())));
    }
}

impl Planner for EndpointsPlanner {
    fn plan(&self, key: &ObjectKey, _last_error: Option<&str>, _now: Timestamp) -> Option<Plan> {
        let (service, endpoints) = (self.sources.services.get(key), self.endpoints.get(key));
        let pods = match &service {
            None if endpoints.is_none() => return None,
            Some(_) if !self.sources.is_known() => return Some(Plan::default()),
            Some(service) => self.sources.pods_of(service),
            None => Vec::new(),
        };
        let pods = pods.iter().map(|pod| &**pod).collect();
        Some(addresses::plan(&addresses::EndpointsState { service: service.as_deref(), pods, endpoints: endpoints.as_deref() }))
    }
}

/// Plans the addresses of load balancers.
pub struct BalancerPlanner {
    services: Arc<ServiceCache>,
    range: Cidr,
    /// Addresses of Services whose status does not contain them yet.
    given: Arc<Mutex<BTreeMap<ObjectKey, IpAddr>>>,
}

impl BalancerPlanner {
    /// A planner that allocates addresses of `range`.
    #[must_use]
    pub fn new(services: Arc<ServiceCache>, range: Cidr) -> Self {
        Self { services, range, given: Arc::default() }
    }

    /// Adds the keys of changed Services to `queue`. Call it before the cache starts.
    pub fn wake(&self, queue: &Queue<ObjectKey>) {
        let (woken, given, services) = (queue.clone(), Arc::clone(&self.given), Arc::clone(&self.services));
        self.services.on_change(move |delta| {
            let Some(service) = delta.sides().next() else { return };
            if delta.new.as_ref().is_some_and(|service| load_balancer::needs_address(service)) {
                woken.add(service.key());
                return;
            }
            let was_given = lock(&given).remove(&service.key()).is_some();
            let is_shown = delta.new.as_ref().is_some_and(|service| load_balancer::addresses(service).next().is_some());
            if (was_given || delta.old.as_ref().is_some_and(|old| old.is_balancer)) && !is_shown {
                // A Service may wait for the address that is available now.
                let known = services.read();
                known.iter().filter(|service| load_balancer::needs_address(service)).for_each(|service| woken.add(service.key()));
            }
        });
    }

    /// An address that no other Service has or is about to get.
    fn address_for(&self, key: &ObjectKey) -> Option<IpAddr> {
        let known = self.services.read();
        let mut given = lock(&self.given);
        if let Some(address) = given.get(key) {
            return Some(*address);
        }
        let shown = known.iter().flat_map(|service| load_balancer::addresses(service).map(str::to_owned).collect::<Vec<_>>());
        let used: BTreeSet<String> = shown.chain(given.values().map(ToString::to_string)).collect();
        let address = load_balancer::free_address(&self.range, &used)?;
        given.insert(key.clone(), address);
        Some(address)
    }
}

impl Planner for BalancerPlanner {
    fn plan(&self, key: &ObjectKey, _last_error: Option<&str>, _now: Timestamp) -> Option<Plan> {
        let service = self.services.get(key)?;
        let free = if load_balancer::needs_address(&service) { self.address_for(key) } else { None };
        Some(load_balancer::plan(&load_balancer::LoadBalancerState { service: &service, free, range: self.range }))
    }
}
