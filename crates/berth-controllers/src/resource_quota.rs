//! The resource quota controller: keeps the `used` amounts of quotas up to date with the existing objects.
//!
//! Objects are only read if a quota exists. Until the first one is created, no cache of objects is started for it.

use crate::{
    cache::{AnyCache, Cache, Delta, Index},
    cluster::Cluster,
    lock,
    metadata::MetaCaches,
    metrics::Metrics,
    plan_loop::Planner,
    worker::Queue,
};
use berth_api::{
    Kind,
    quantity::Quantity,
    quota::{Amounts, Taken, counted_resource, is_in_scope, taken},
};
use berth_env::{Clock, Spawner};
use berth_identity::{GroupResource, Namespace, ObjectKey, Revision, Uid};
use berth_workloads::{
    Plan,
    resource_quota::{self, QuotaView, ResourceQuotaState, is_charged, is_lower},
    resources::{CLAIMS, PODS, SERVICES},
    view::{Identity, View},
};
use event_listener::Event;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Service};
use std::{
    collections::BTreeMap,
    marker::PhantomData,
    sync::{Arc, Mutex},
};

/// All quotas.
pub type QuotaCache = Cache<QuotaView>;
type TakenCache<K> = Cache<TakenView<K>, TakenIndex>;

/// The amounts that one object of kind `K` uses.
struct TakenView<K> {
    key: ObjectKey,
    uid: Uid,
    is_being_deleted: bool,
    taken: Taken,
    kind: PhantomData<fn() -> K>,
}

impl<K: Kind> View for TakenView<K> {
    fn decode(json: &[u8], _: Revision) -> Result<Self, serde_json::Error> {
        let object = K::decode_json(json)?;
        let taken = taken(&GroupResource::from_static(K::GROUP, K::URL_PATH_SEGMENT), &object);
        let meta = object.metadata();
        Ok(Self {
            key: ObjectKey { namespace: meta.namespace.clone().into(), name: meta.name.clone().into() },
            uid: meta.uid.clone().into(),
            is_being_deleted: meta.deletion_timestamp.is_some(),
            taken,
            kind: PhantomData,
        })
    }

    fn identity(&self) -> Identity<'_> {
        let ObjectKey { namespace, name } = &self.key;
        Identity { namespace: Some(namespace), name, uid: &self.uid, is_being_deleted: self.is_being_deleted }
    }
}

/// Running sums of the amounts that the objects of each namespace use, grouped by the traits that scopes distinguish.
#[derive(Default)]
struct TakenIndex(BTreeMap<Namespace, Vec<Group>>);

struct Group {
    /// The number of objects in the group. `sum` contains their total amounts and common traits.
    objects: usize,
    sum: Taken,
}

impl<K: Kind> Index<TakenView<K>> for TakenIndex {
    fn change(&mut self, old: Option<&Arc<TakenView<K>>>, new: Option<&Arc<TakenView<K>>>) {
        if let Some(new) = new {
            self.add(&new.key.namespace, &new.taken);
        }
        if let Some(old) = old {
            self.remove(&old.key.namespace, &old.taken);
        }
    }
}

impl TakenIndex {
    fn add(&mut self, namespace: &Namespace, taken: &Taken) {
        let groups = self.0.entry(namespace.clone()).or_default();
        let Some(group) = groups.iter_mut().find(|group| group.sum.traits == taken.traits) else {
            return groups.push(Group { objects: 1, sum: taken.clone() });
        };
        group.objects += 1;
        add(&mut group.sum.amounts, &taken.amounts);
    }

    fn remove(&mut self, namespace: &Namespace, taken: &Taken) {
        let Some(groups) = self.0.get_mut(namespace) else { return };
        if let Some(group) = groups.iter_mut().find(|group| group.sum.traits == taken.traits) {
            group.objects -= 1;
            for (name, amount) in &taken.amounts {
                group.sum.amounts.entry(name.clone()).and_modify(|sum| *sum = sum.minus(*amount));
            }
        }
        groups.retain(|group| group.objects > 0);
        if groups.is_empty() {
            self.0.remove(namespace);
        }
    }

    /// Adds the amounts in the quota's scope to `sum`.
    fn count(&self, quota: &QuotaView, sum: &mut Amounts) {
        let groups = self.0.get(&quota.id.key.namespace).into_iter().flatten();
        let in_scope = groups.filter(|group| is_in_scope(&quota.quota, group.sum.traits.as_ref()));
        in_scope.for_each(|group| add(sum, &group.sum.amounts));
    }
}

fn add(sum: &mut Amounts, amounts: &Amounts) {
    for (name, amount) in amounts {
        let present = sum.entry(name.clone()).or_insert(Quantity::ZERO);
        *present = present.plus(*amount);
    }
}

/// Objects that quotas measure by more than their number.
struct Measured {
    pods: Arc<TakenCache<Pod>>,
    services: Arc<TakenCache<Service>>,
    claims: Arc<TakenCache<PersistentVolumeClaim>>,
}

/// Plans quotas. Cheap to clone.
#[derive(Clone)]
pub struct QuotaPlanner {
    quotas: Arc<QuotaCache>,
    metadata: Arc<MetaCaches>,
    measured: Arc<Measured>,
    clock: Arc<dyn Clock>,
    times: Arc<Mutex<BTreeMap<ObjectKey, Times>>>,
    changed: Arc<Event>,
}

/// The state of a quota that its object does not contain.
struct Times {
    /// The time of the last known charge.
    charged_at: Timestamp,
    /// Since when the counted use has been lower than `used`. `None` if it is not.
    lower_since: Option<Timestamp>,
}

impl QuotaPlanner {
    /// A planner over caches that have not started yet.
    #[must_use]
    pub fn new(quotas: Arc<QuotaCache>, metadata: Arc<MetaCaches>, clock: Arc<dyn Clock>) -> Self {
        let measured =
            Measured { pods: Arc::new(Cache::new(PODS)), services: Arc::new(Cache::new(SERVICES)), claims: Arc::new(Cache::new(CLAIMS)) };
        Self { quotas, metadata, measured: Arc::new(measured), clock, times: Arc::default(), changed: Arc::default() }
    }

    /// Adds the keys of quotas to `queue` when quotas or the objects that they count change. Call it before the caches start.
    pub fn wake(&self, queue: &Queue<ObjectKey>) {
        let (planner, added) = (self.clone(), queue.clone());
        self.quotas.on_change(move |delta| planner.quota_changed(delta, &added));
        let (quotas, added) = (Arc::clone(&self.quotas), queue.clone());
        self.metadata.on_kind(move |_, cache| {
            let (quotas, queue) = (Arc::clone(&quotas), added.clone());
            cache.on_change(move |delta| {
                if let (Some(object), None) | (None, Some(object)) = (&delta.old, &delta.new) {
                    wake_namespace(&quotas, &queue, &object.namespace);
                }
            });
        });
        self.wake_for(&self.measured.pods, queue);
        self.wake_for(&self.measured.services, queue);
        self.wake_for(&self.measured.claims, queue);
    }

    fn wake_for<K: Kind>(&self, cache: &TakenCache<K>, queue: &Queue<ObjectKey>) {
        let (quotas, queue) = (Arc::clone(&self.quotas), queue.clone());
        cache.on_change(move |delta| {
            if delta.old.as_ref().map(|old| &old.taken) != delta.new.as_ref().map(|new| &new.taken) {
                delta.sides().take(1).for_each(|object| wake_namespace(&quotas, &queue, &object.key.namespace));
            }
        });
    }

    fn quota_changed(&self, delta: &Delta<QuotaView>, queue: &Queue<ObjectKey>) {
        let Some(quota) = delta.sides().next() else { return };
        match &delta.new {
            Some(new) if is_charged(delta.old.as_deref(), new) => {
                let charged_at = self.clock.now();
                let mut times = lock(&self.times);
                times.entry(new.key()).or_insert(Times { charged_at, lower_since: None }).charged_at = charged_at;
            }
            Some(_) => (),
            None => drop(lock(&self.times).remove(&quota.key())),
        }
        queue.add(quota.key());
        self.changed.notify(usize::MAX);
    }

    /// Resolves when a quota exists and all objects that it counts are cached.
    pub async fn synced(&self, cluster: &Arc<dyn Cluster>, spawner: &Arc<dyn Spawner>, metrics: &Arc<Metrics>) {
        self.quotas.synced().await;
        loop {
            let changed = self.changed.listen();
            if !self.quotas.read().is_empty() {
                break;
            }
            changed.await;
        }
        self.metadata.start(cluster, spawner, metrics);
        self.metadata.synced().await;
        let (Measured { pods, services, claims }, cluster, spawner) = (&*self.measured, &**cluster, &**spawner);
        pods.start(cluster, spawner, metrics);
        services.start(cluster, spawner, metrics);
        claims.start(cluster, spawner, metrics);
        pods.synced().await;
        services.synced().await;
        claims.synced().await;
    }

    /// The present amounts of everything that the quota limits, and the revision up to which they are complete.
    fn count(&self, quota: &QuotaView) -> (Amounts, Revision) {
        let Measured { pods, services, claims } = &*self.measured;
        let wanted = quota.wanted();
        let bounds = |part: &str| wanted.keys().any(|name| name.contains(part));
        // Revisions are read before the objects, so the counted objects may be newer, but never older.
        let mut revision = pods.revision();
        if bounds("services") {
            revision = revision.min(services.revision());
        }
        if bounds("storage") || bounds("persistentvolumeclaims") {
            revision = revision.min(claims.revision());
        }
        let mut sum = Amounts::new();
        pods.read().index().count(quota, &mut sum);
        services.read().index().count(quota, &mut sum);
        claims.read().index().count(quota, &mut sum);
        let others = wanted.keys().filter(|_| is_in_scope(&quota.quota, None));
        for name in others {
            let resource = counted_resource(name).filter(|_| !sum.contains_key(name));
            let Some(cache) = resource.and_then(|resource| self.metadata.of(&resource)) else { continue };
            revision = revision.min(cache.revision());
            let count = i64::try_from(cache.read().index().in_namespace(&quota.id.key.namespace)).unwrap_or(i64::MAX);
            sum.insert(name.clone(), Quantity::from_integer(count));
        }
        (sum, revision)
    }
}

fn wake_namespace(quotas: &QuotaCache, queue: &Queue<ObjectKey>, namespace: &str) {
    quotas.read().in_namespace(namespace).for_each(|quota| queue.add(quota.key()));
}

impl Planner for QuotaPlanner {
    fn plan(&self, key: &ObjectKey, _last_error: Option<&str>, now: Timestamp) -> Option<Plan> {
        let quota = self.quotas.get(key)?;
        let (counted, revision) = self.count(&quota);
        let (charged_at, lower_since) = match lock(&self.times).get_mut(key) {
            Some(times) => {
                times.lower_since = is_lower(&quota, &counted).then(|| times.lower_since.unwrap_or(now));
                (times.charged_at, times.lower_since.unwrap_or(now))
            }
            // The quota is being removed.
            None => (now, now),
        };
        // Caches that are older than the quota may lack the charged objects, so the last charge counts as just made.
        let charged_at = if quota.id.resource_version.is_some_and(|version| revision < version) { now } else { charged_at };
        Some(resource_quota::plan(&ResourceQuotaState { quota: &quota, counted: &counted, charged_at, lower_since, now }))
    }
}
