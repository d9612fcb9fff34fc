//! One look of a controller that decides by a plan: settle what is unknown, wait for own writes, plan, carry out.

use crate::{
    cache::{ObjectKey, View, Warm},
    cluster::ResourceName,
    executor::{Carried, Executor},
    lock,
    own_writes::{Gone, OwnWrites, Shown},
    resource_quota::QuotaCache,
    waits::Waits,
    worker::{Looked, Queue, Reconcile},
};
use berth_store::env::Clock;
use berth_workloads::{
    Plan,
    plan::{EventRecord, Wait},
    resource_quota::gains_room,
};
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

/// How soon a plan may ask to look again: one that asks for a time that has passed must not keep a worker busy for ever.
const SOONEST: SignedDuration = SignedDuration::from_millis(1);

/// What one controller decides, from its caches.
pub trait Planner: Send + Sync + 'static {
    /// The plan for `key`; `None` if its object is not there. `last_error` is why pods or objects could not be made or deleted last time.
    fn plan(&self, key: &ObjectKey, last_error: Option<&str>, now: Timestamp) -> Option<Plan>;

    /// A look is put off because the cache of `resource` does not show this controller's own writes yet.
    fn put_off(&self, _resource: ResourceName) {}

    /// What tells people that the object of `key` has begun to wait, if it is worth telling.
    fn wait_event(&self, _key: &ObjectKey, _wait: &Wait) -> Option<EventRecord> {
        None
    }
}

/// Looks at the keys of one controller.
pub struct PlanLoop<P> {
    planner: P,
    executor: Executor,
    clock: Arc<dyn Clock>,
    queue: Queue<ObjectKey>,
    caches: Caches,
    own: Arc<Mutex<OwnWrites<ObjectKey>>>,
    errors: Mutex<BTreeMap<ObjectKey, String>>,
    /// How often a quota has gained room.
    room: AtomicU64,
    waits: Mutex<Waits>,
}

/// The caches that a plan is made from.
#[derive(Clone)]
struct Caches(Vec<Arc<dyn Warm>>);

impl<P: Planner> PlanLoop<P> {
    /// A loop over `queue`. Own writes to the resources of `caches` are awaited there. To be called before the caches start.
    #[must_use]
    pub fn new(
        planner: P,
        executor: Executor,
        clock: Arc<dyn Clock>,
        queue: Queue<ObjectKey>,
        caches: Vec<Arc<dyn Warm>>,
        waits: Waits,
    ) -> Arc<Self> {
        let own = Arc::new(Mutex::new(OwnWrites::default()));
        for cache in &caches {
            let (own, queue, resource) = (Arc::clone(&own), queue.clone(), cache.resource());
            cache.on_revision(Box::new(move |revision| wake(&own, &queue, resource, revision)));
        }
        Arc::new(Self {
            planner,
            executor,
            clock,
            queue,
            caches: Caches(caches),
            own,
            errors: Mutex::default(),
            room: AtomicU64::new(0),
            waits: Mutex::new(waits),
        })
    }

    /// From now on keys that a quota refused are looked at as soon as a quota of their namespace gains room, without waiting for their
    /// back-off (kubernetes#98656). To be called before `quotas` starts.
    pub fn retry_when_room(self: &Arc<Self>, quotas: &QuotaCache) {
        let looks = Arc::clone(self);
        quotas.on_change(move |delta| {
            if gains_room(delta.old.as_deref(), delta.new.as_deref()) {
                looks.room.fetch_add(1, Ordering::SeqCst);
                delta.sides().take(1).for_each(|quota| looks.wake_refused(quota.namespace()));
            }
        });
    }

    fn wake_refused(&self, namespace: &str) {
        let errors = lock(&self.errors);
        let here = errors.range(ObjectKey::new(namespace, "")..).take_while(|(key, _)| &*key.namespace == namespace);
        here.filter(|(_, error)| is_quota_refusal(error)).for_each(|(key, _)| self.queue.add(key.clone()));
    }

    /// From now on `key` waits for what was written. If the caches were faster, it is looked at again at once.
    fn record(&self, key: &ObjectKey, carried: &mut Carried) {
        lock(&self.own).record(key, std::mem::take(&mut carried.writes));
        for cache in &self.caches.0 {
            wake(&self.own, &self.queue, cache.resource(), cache.revision());
        }
    }

    async fn look_at(&self, key: &ObjectKey) -> Looked {
        let unsettled = lock(&self.own).take_unsettled(key);
        if !unsettled.is_empty() {
            let mut carried = self.executor.settle(unsettled).await;
            self.record(key, &mut carried);
            if carried.error.is_some() {
                return Looked::Failed;
            }
        }
        if let Some(resource) = lock(&self.own).blocked(key, &self.caches) {
            self.planner.put_off(resource);
            return Looked::Finished;
        }
        let room = self.room.load(Ordering::SeqCst);
        let now = self.clock.now();
        let last_error = lock(&self.errors).get(key).cloned();
        let Some(mut plan) = self.planner.plan(key, last_error.as_deref(), now) else {
            self.forget(key);
            return Looked::Finished;
        };
        plan.waits.iter().for_each(|wait| tracing::debug!(%key, "{wait}"));
        let begun = lock(&self.waits).take_in(key, &plan.waits);
        plan.events.extend(begun.into_iter().filter_map(|wait| self.planner.wait_event(key, wait)));
        let look_again = plan.look_again;
        let mut carried = self.executor.carry_out(plan).await;
        self.record(key, &mut carried);
        let looked = self.after(key, &carried, last_error.is_some(), look_again.map(|at| at.max(now + SOONEST)));
        // Room that came while the plan was carried out woke nobody: the refusal was not known yet.
        let missed_room = carried.reportable.as_deref().is_some_and(is_quota_refusal) && room != self.room.load(Ordering::SeqCst);
        if missed_room { Looked::Again(self.clock.now()) } else { looked }
    }

    fn after(&self, key: &ObjectKey, carried: &Carried, had_error: bool, look_again: Option<Timestamp>) -> Looked {
        if let Some(error) = &carried.error {
            tracing::debug!(%key, %error, "a plan could not be carried out; looking again");
            if let Some(error) = &carried.reportable {
                lock(&self.errors).insert(key.clone(), error.clone());
            }
            return Looked::Failed;
        }
        if had_error {
            // The status still tells of the error that is no more.
            lock(&self.errors).remove(key);
            return Looked::Again(self.clock.now());
        }
        look_again.map_or(Looked::Finished, Looked::Again)
    }

    fn forget(&self, key: &ObjectKey) {
        lock(&self.own).forget(key);
        lock(&self.errors).remove(key);
        lock(&self.waits).forget(key);
    }
}

impl<P: Planner> Reconcile<ObjectKey> for PlanLoop<P> {
    fn look<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Looked> {
        Box::pin(self.look_at(key))
    }
}

/// Whether a create failed because of a quota: it is full, it demands amounts that the object does not name, or its status is not known yet.
fn is_quota_refusal(error: &str) -> bool {
    error.contains("is forbidden: ") && error.contains(" quota: ")
}

fn wake(own: &Mutex<OwnWrites<ObjectKey>>, queue: &Queue<ObjectKey>, resource: ResourceName, revision: u64) {
    let woken = lock(own).advance(resource, revision);
    woken.into_iter().for_each(|key| queue.add(key));
}

impl Caches {
    fn of(&self, resource: ResourceName) -> Option<&Arc<dyn Warm>> {
        self.0.iter().find(|cache| cache.resource() == resource)
    }
}

impl Shown for Caches {
    fn revision(&self, resource: ResourceName) -> u64 {
        // What no plan is made from need not be awaited.
        self.of(resource).map_or(u64::MAX, |cache| cache.revision())
    }

    fn is_gone(&self, gone: &Gone) -> bool {
        let key = ObjectKey::new(&gone.name.namespace, &gone.name.name);
        self.of(gone.name.resource).is_none_or(|cache| !cache.shows_alive(&key, &gone.uid))
    }
}
