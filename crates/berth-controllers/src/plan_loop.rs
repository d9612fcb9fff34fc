//! One reconcile of a controller with a planner: settle unknown writes, wait for own writes, plan, execute.

use crate::{
    cache::{AnyCache, Cache},
    cluster::ClusterError,
    creations::Creations,
    executor::{Execution, Executor, Owners},
    guard::Guard,
    lock,
    own_writes::{OwnWrites, Shown},
    waits::Waits,
    worker::{Queue, Reconcile, ReconcileResult},
};
use berth_api::FeatureGates;
use berth_env::Clock;
use berth_identity::{GroupResource, ObjectKey, ObjectRef, Revision};
use berth_workloads::{
    Plan,
    plan::{Action, Due, EventRecord, SOON, Wait},
    resource_quota::{QuotaView, gains_room},
    second_writer::SecondWriter,
};
use futures::future::{BoxFuture, ready};
use jiff::{SignedDuration, Timestamp};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

/// The minimum delay of a requeue: a plan that requests a time in the past must not keep a worker busy indefinitely.
const SOONEST: SignedDuration = SignedDuration::from_millis(1);

/// Deferred status writes wait one more interval per this many queued keys, so an overloaded controller writes less.
const CROWD: usize = 32;
/// The maximum number of intervals.
const PATIENCE: i32 = 10;

/// The input of a state besides objects.
#[derive(Clone, Copy)]
pub struct PlanInputs<'a> {
    /// Why pods or objects could not be created or deleted last time.
    pub last_error: Option<&'a str>,
    /// The controllers' feature gates.
    pub gates: &'a FeatureGates,
    /// The time of this reconcile.
    pub now: Timestamp,
}

/// The decisions of one controller, from its caches.
pub trait Planner: Send + Sync + 'static {
    /// Reads what a plan for `key` requires and no cache has.
    ///
    /// # Errors
    /// The cluster does not answer. The key is requeued.
    fn prepare<'a>(&'a self, _key: &'a ObjectKey) -> BoxFuture<'a, Result<(), ClusterError>> {
        Box::pin(ready(Ok(())))
    }

    /// The plan for `key`. `None` if its object does not exist. `last_error` is why pods or objects could not be created or deleted last
    /// time.
    fn plan(&self, key: &ObjectKey, last_error: Option<&str>, now: Timestamp) -> Option<Plan>;

    /// Called when a reconcile is deferred because the cache of `resource` does not contain this controller's own writes yet.
    fn deferred(&self, _resource: GroupResource) {}

    /// The counter of pod creations in progress, if other controllers wait for them.
    fn creations(&self) -> Option<&Arc<Creations>> {
        None
    }

    /// The event that the object of `key` has begun to wait, if it is worth one.
    fn wait_event(&self, _key: &ObjectKey, _wait: &Wait) -> Option<EventRecord> {
        None
    }
}

/// Reconciles the keys of one controller.
pub struct PlanLoop<P> {
    planner: P,
    executor: Executor,
    clock: Arc<dyn Clock>,
    queue: Queue<ObjectKey>,
    caches: Caches,
    own: Arc<Mutex<OwnWrites<ObjectKey>>>,
    errors: Mutex<BTreeMap<ObjectKey, ClusterError>>,
    /// How often a quota has gained room.
    room: AtomicU64,
    waits: Mutex<Waits>,
    /// Until when the deferred writes of each key wait.
    later: Mutex<BTreeMap<ObjectKey, Timestamp>>,
    /// Detects other controllers that write the same objects.
    guard: Guard,
}

/// The caches that plans read.
#[derive(Clone)]
struct Caches(Vec<Arc<dyn AnyCache>>);

impl<P: Planner> PlanLoop<P> {
    /// A loop over `queue`, which waits for its own writes to the resources of `caches`. Call it before the caches start.
    #[must_use]
    pub fn new(
        planner: P,
        executor: Executor,
        clock: Arc<dyn Clock>,
        queue: Queue<ObjectKey>,
        caches: Vec<Arc<dyn AnyCache>>,
        waits: Waits,
        guard: Guard,
    ) -> Arc<Self> {
        let own = Arc::new(Mutex::new(OwnWrites::default()));
        for cache in &caches {
            let (own, queue, resource) = (Arc::clone(&own), queue.clone(), cache.resource());
            cache.on_revision(Box::new(move |revision| wake(&own, &queue, &resource, revision)));
        }
        let caches = Caches(caches);
        let creations = planner.creations().cloned().unwrap_or_default();
        let executor = executor.minding(Arc::new(caches.clone()), creations);
        Arc::new(Self {
            planner,
            executor,
            clock,
            queue,
            caches,
            own,
            errors: Mutex::default(),
            room: AtomicU64::new(0),
            waits: Mutex::new(waits),
            later: Mutex::default(),
            guard,
        })
    }

    /// Reconciles keys that a quota rejected as soon as a quota of their namespace gains room, without waiting for their backoff
    /// (kubernetes#98656). Call it before `quotas` starts.
    pub fn retry_when_room(self: &Arc<Self>, quotas: &Cache<QuotaView>) {
        let plan_loop = Arc::clone(self);
        quotas.on_change(move |delta| {
            if gains_room(delta.old.as_deref(), delta.new.as_deref()) {
                plan_loop.room.fetch_add(1, Ordering::SeqCst);
                delta.sides().take(1).for_each(|quota| plan_loop.wake_refused(&quota.id.key.namespace));
            }
        });
    }

    fn wake_refused(&self, namespace: &str) {
        let errors = lock(&self.errors);
        let here = errors.range(ObjectKey::new(namespace, "")..).take_while(|(key, _)| key.namespace == *namespace);
        here.filter(|(_, error)| exceeds_quota(error)).for_each(|(key, _)| self.queue.add(key.clone()));
    }

    /// Makes `key` wait for these writes. If the caches contain them already, it is requeued at once.
    fn record(&self, key: &ObjectKey, carried: &mut Execution) {
        lock(&self.own).record(key, std::mem::take(&mut carried.writes));
        self.wake();
    }

    /// Makes `key` wait until the caches contain all its possible writes, as after a restart of the controller.
    async fn await_all(&self, key: &ObjectKey) -> Result<(), ClusterError> {
        let mut newest = BTreeMap::new();
        for cache in &self.caches.0 {
            newest.insert(cache.resource(), self.executor.newest(cache.resource()).await?);
        }
        lock(&self.own).await_all(key, newest);
        self.wake();
        Ok(())
    }

    fn wake(&self) {
        for cache in &self.caches.0 {
            wake(&self.own, &self.queue, &cache.resource(), cache.revision());
        }
    }

    /// Does nothing for `key`, which another controller writes, and reports it once.
    fn yield_to(&self, key: &ObjectKey, second: SecondWriter) -> ReconcileResult {
        let waits = [Wait::SecondWriter(second)];
        let begun = lock(&self.waits).take_in(key, &waits);
        for wait in begun {
            tracing::error!(%key, "{wait}");
            self.planner.wait_event(key, wait).iter().for_each(|event| self.executor.record(event));
        }
        self.executor.report_plan(key, &Plan { waits: waits.to_vec(), ..Plan::default() }, Due::All);
        ReconcileResult::Done
    }

    async fn reconcile_key(&self, key: &ObjectKey) -> ReconcileResult {
        if let Some(second) = self.guard.stopped(key) {
            return self.yield_to(key, second);
        }
        let is_in_doubt = lock(&self.own).is_in_doubt(key);
        if is_in_doubt && let Err(error) = self.await_all(key).await {
            return ReconcileResult::failed(&error);
        }
        let unsettled = lock(&self.own).take_unsettled(key);
        if !unsettled.is_empty() {
            let mut carried = self.executor.settle(unsettled).await;
            self.record(key, &mut carried);
            if let Some(error) = &carried.error {
                return error.reconcile_result();
            }
        }
        if let Some(resource) = lock(&self.own).blocked(key, &self.caches) {
            self.planner.deferred(resource);
            return ReconcileResult::Done;
        }
        if let Err(error) = self.planner.prepare(key).await {
            tracing::debug!(%key, %error, "the input of a plan could not be read; requeued");
            return ReconcileResult::failed(&error);
        }
        let room = self.room.load(Ordering::SeqCst);
        let now = self.clock.now();
        let last_error = lock(&self.errors).get(key).map(ToString::to_string);
        let Some(plan) = self.planner.plan(key, last_error.as_deref(), now) else {
            self.forget(key);
            return ReconcileResult::Done;
        };
        plan.waits.iter().for_each(|wait| tracing::debug!(%key, "{wait}"));
        let begun = lock(&self.waits).take_in(key, &plan.waits);
        let wait_events: Vec<_> = begun.into_iter().filter_map(|wait| self.planner.wait_event(key, wait)).collect();
        let (due, later) = self.due(key, &plan, now);
        let requeue_at = [plan.requeue_at, later].into_iter().flatten().min();
        self.executor.report_plan(key, &plan, due);
        plan.events.iter().chain(&wait_events).for_each(|event| self.executor.record(event));
        let mut carried = self.executor.execute_due(key, plan, due).await;
        self.record(key, &mut carried);
        let result = self.after(key, &carried, last_error.is_some(), requeue_at.map(|at| at.max(now + SOONEST)));
        // Room gained during the execution did not enqueue the key, because the rejection was not recorded yet.
        let missed_room = carried.reportable.as_ref().is_some_and(exceeds_quota) && room != self.room.load(Ordering::SeqCst);
        if missed_room { ReconcileResult::RequeueAt(self.clock.now()) } else { result }
    }

    /// The actions of the plan that are executed now, and until when the others are deferred. A reconcile at that time, or earlier, plans
    /// them again.
    fn due(&self, key: &ObjectKey, plan: &Plan, now: Timestamp) -> (Due, Option<Timestamp>) {
        let mut later = lock(&self.later);
        if !plan.stages.iter().flat_map(|stage| &stage.actions).any(Action::may_wait) {
            later.remove(key);
            return (Due::All, None);
        }
        let until = *later.entry(key.clone()).or_insert_with(|| now + SOON * patience(self.queue.waiting()));
        if until <= now {
            later.remove(key);
            return (Due::All, None);
        }
        (Due::Urgent, Some(until))
    }

    fn after(&self, key: &ObjectKey, carried: &Execution, had_error: bool, requeue_at: Option<Timestamp>) -> ReconcileResult {
        if let Some(error) = &carried.error {
            tracing::debug!(%key, %error, "a plan could not be executed; requeued");
            if let Some(error) = &carried.reportable {
                lock(&self.errors).insert(key.clone(), error.clone());
            }
            return error.reconcile_result();
        }
        if had_error {
            // The status still contains the former error.
            lock(&self.errors).remove(key);
            return ReconcileResult::RequeueAt(self.clock.now());
        }
        requeue_at.map_or(ReconcileResult::Done, ReconcileResult::RequeueAt)
    }

    fn forget(&self, key: &ObjectKey) {
        lock(&self.own).forget(key);
        lock(&self.errors).remove(key);
        lock(&self.waits).forget(key);
        lock(&self.later).remove(key);
    }
}

impl<P: Planner> Reconcile<ObjectKey> for PlanLoop<P> {
    fn reconcile<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, ReconcileResult> {
        Box::pin(self.reconcile_key(key))
    }
}

/// How many times [`SOON`] deferred writes wait with so many queued keys.
fn patience(waiting: usize) -> i32 {
    i32::try_from(1 + waiting / CROWD).map_or(PATIENCE, |times| times.min(PATIENCE))
}

fn exceeds_quota(error: &ClusterError) -> bool {
    matches!(error, ClusterError::ExceedsQuota(_))
}

fn wake(own: &Mutex<OwnWrites<ObjectKey>>, queue: &Queue<ObjectKey>, resource: &GroupResource, revision: Revision) {
    let woken = lock(own).advance(resource, revision);
    woken.into_iter().for_each(|key| queue.add(key));
}

impl Caches {
    fn of(&self, resource: &GroupResource) -> Option<&Arc<dyn AnyCache>> {
        self.0.iter().find(|cache| cache.resource() == *resource)
    }
}

impl Owners for Caches {
    fn have_lost(&self, owner: &ObjectRef) -> bool {
        self.of(&owner.resource).is_some_and(|cache| !cache.shows_alive(&owner.key, &owner.uid))
    }
}

impl Shown for Caches {
    fn revision(&self, resource: &GroupResource) -> Revision {
        // Resources that no plan reads need not be awaited.
        self.of(resource).map_or(Revision(u64::MAX), |cache| cache.revision())
    }

    fn is_gone(&self, gone: &ObjectRef) -> bool {
        self.of(&gone.resource).is_none_or(|cache| !cache.shows_alive(&gone.key, &gone.uid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cluster::Cluster, events::Recorder, executor::ExecutionError, metrics::Metrics, queue::WorkQueue, testing::FakeCluster};
    use berth_env::testing::TestEnv;
    use berth_identity::Uid;
    use berth_workloads::resources::PODS;
    use berth_workloads::{
        Stage,
        plan::{Outcome, Reason, Subresource, Urgency},
    };
    use futures::FutureExt;
    use serde_json::json;
    use std::time::Duration;

    /// Plans a status of this urgency in every reconcile, and another write in the first one.
    struct Statuses(Urgency, Mutex<u32>);

    impl Planner for Statuses {
        fn plan(&self, _: &ObjectKey, _: Option<&str>, _: Timestamp) -> Option<Plan> {
            let mut count = lock(&self.1);
            *count += 1;
            let resource = GroupResource::from_static("apps", "statefulsets");
            let target = ObjectRef { resource, key: ObjectKey::new("ns", "web"), uid: "1".into(), resource_version: None };
            let patch = |subresource: Option<Subresource>, urgency| Action::Patch {
                target: target.clone(),
                subresource,
                patch: json!({"look": *count}),
                urgency,
                reason: Reason::PodsChanged,
                events: Outcome::default(),
            };
            let mut actions = vec![patch(Some(Subresource::Status), self.0)];
            actions.extend((*count == 1).then(|| patch(None, Urgency::Now)));
            Some(Plan { stages: vec![Stage { actions }], ..Plan::default() })
        }
    }

    /// A planner's loop over `queue` and a cluster, without caches.
    fn plan_loop_of<P: Planner>(planner: P, queue: &Queue<ObjectKey>, test_env: &TestEnv, cluster: &Arc<FakeCluster>) -> Arc<PlanLoop<P>> {
        plan_loop_with_caches(Vec::new(), planner, queue, test_env, cluster)
    }

    /// The same, with caches.
    fn plan_loop_with_caches<P: Planner>(
        caches: Vec<Arc<dyn AnyCache>>,
        planner: P,
        queue: &Queue<ObjectKey>,
        test_env: &TestEnv,
        cluster: &Arc<FakeCluster>,
    ) -> Arc<PlanLoop<P>> {
        let metrics = Arc::new(metrics());
        let (env, cluster): (_, Arc<dyn Cluster>) = (test_env.env(), Arc::<FakeCluster>::clone(cluster));
        let events = Recorder::new(Arc::clone(&cluster), test_env.env(), Arc::clone(&metrics), "test");
        let executor = Executor::new(cluster, env.rng, events);
        PlanLoop::new(planner, executor, env.clock, queue.clone(), caches, Waits::new("test", metrics.waits.clone()), Guard::default())
    }

    /// A cache of pods that is complete up to a revision and notifies nothing.
    struct PodsUpTo(AtomicU64);

    impl AnyCache for PodsUpTo {
        fn synced(&self) -> BoxFuture<'_, ()> {
            Box::pin(async {})
        }
        fn is_synced(&self) -> bool {
            true
        }
        fn revision(&self) -> Revision {
            Revision(self.0.load(Ordering::Relaxed))
        }
        fn resource(&self) -> GroupResource {
            PODS
        }
        fn on_revision(&self, _: Box<dyn Fn(Revision) + Send + Sync>) {}
        fn shows_alive(&self, _: &ObjectKey, _: &Uid) -> bool {
            false
        }
    }

    fn metrics() -> Metrics {
        Metrics::new(&prometheus::Registry::new()).expect("an empty registry")
    }

    /// Reconciles once after each of these delays in milliseconds. Returns the writes of each reconcile, and whether it requeues itself.
    fn reconciles(urgency: Urgency, after: &[i64]) -> Vec<(Vec<String>, bool)> {
        let (test_env, cluster) = (TestEnv::default(), FakeCluster::new(|_| Ok(json!({}))));
        let queue = Queue::new("test", test_env.env().clock, &metrics());
        let plan_loop = plan_loop_of(Statuses(urgency, Mutex::default()), &queue, &test_env, &cluster);
        let mut seen = 0;
        let reconcile = |milliseconds: &i64| {
            test_env.run_for(SignedDuration::from_millis(*milliseconds));
            let plan_loop = Arc::clone(&plan_loop);
            let result = test_env.block_on(async move { plan_loop.reconcile_key(&ObjectKey::new("ns", "web")).await });
            let calls = cluster.calls().split_off(seen);
            seen += calls.len();
            let words = calls.iter().map(|call| call.split(' ').nth(2).unwrap_or_default().to_owned()).collect();
            (words, matches!(result, ReconcileResult::RequeueAt(_)))
        };
        after.iter().map(reconcile).collect()
    }

    #[test]
    fn a_busy_server_gets_no_retry_before_its_retry_after() {
        let busy = |retry_after| ClusterError::Busy { message: "too many requests".into(), retry_after };
        let result = |error: ClusterError| ExecutionError::Cluster(error).reconcile_result();
        assert!(
            matches!(result(busy(Some(Duration::from_secs(7)))), ReconcileResult::RetryAfter(after) if after == Duration::from_secs(7))
        );
        assert!(matches!(result(busy(None)), ReconcileResult::Backoff));
        let mut queue = WorkQueue::new(None);
        queue.add_rate_limited_after("a", Duration::from_secs(7), Timestamp::UNIX_EPOCH);
        assert_eq!(queue.next_wakeup(), Some(Timestamp::UNIX_EPOCH + Duration::from_secs(7)));
    }

    /// Plans the creation of a pod.
    struct Pods;

    impl Planner for Pods {
        fn plan(&self, _: &ObjectKey, _: Option<&str>, _: Timestamp) -> Option<Plan> {
            let resource = GroupResource::from_static("apps", "replicasets");
            let owner = ObjectRef { resource, key: ObjectKey::new("ns", "web"), uid: "1".into(), resource_version: None };
            let create =
                Action::CreatePods { template: Box::default(), count: 1, owner, reason: Reason::Replicas { wanted: 1, active: 0 } };
            Some(Plan { stages: vec![Stage { actions: vec![create] }], ..Plan::default() })
        }
    }

    #[test]
    fn after_a_panic_nothing_is_written_before_everything_that_was_is_shown() {
        let (test_env, mut creates) = (TestEnv::default(), 0);
        let cluster = FakeCluster::new(move |call| {
            creates += 1;
            assert!(creates > 1, "an unexpected fault: {call}");
            Ok(json!({}))
        });
        let shown = Arc::new(PodsUpTo(AtomicU64::new(0)));
        let queue = Queue::new("test", test_env.env().clock, &metrics());
        let plan_loop = plan_loop_with_caches(vec![Arc::<PodsUpTo>::clone(&shown)], Pods, &queue, &test_env, &cluster);
        let reconcile = || {
            let plan_loop = Arc::clone(&plan_loop);
            test_env.block_on(async move { plan_loop.reconcile_key(&ObjectKey::new("ns", "web")).await })
        };
        assert!(matches!(reconcile(), ReconcileResult::Panicked(_)));
        // A pod that the cache does not contain may have been created.
        assert!(matches!(reconcile(), ReconcileResult::Done));
        assert_eq!(cluster.calls().len(), 0, "{:?}", cluster.calls());
        shown.0.store(cluster.newest_revision().0, Ordering::Relaxed);
        reconcile();
        assert_eq!(cluster.calls().len(), 1, "{:?}", cluster.calls());
    }

    #[test]
    fn room_in_a_quota_wakes_those_whom_one_refused_whatever_the_words() {
        let in_quota_words = || "pods \"a\" is forbidden: exceeded quota: q".to_owned();
        let by_quota: fn(String) -> ClusterError = ClusterError::ExceedsQuota;
        for (refusal, wakes) in
            [(by_quota("no".to_owned()), true), (by_quota(in_quota_words()), true), (ClusterError::Refused(in_quota_words()), false)]
        {
            let (test_env, answer) = (TestEnv::default(), refusal.clone());
            let cluster = FakeCluster::new(move |_| Err(answer.clone()));
            let queue = Queue::new("test", test_env.env().clock, &metrics());
            let plan_loop = plan_loop_of(Pods, &queue, &test_env, &cluster);
            let reconciled = Arc::clone(&plan_loop);
            test_env.block_on(async move { reconciled.reconcile_key(&ObjectKey::new("ns", "web")).await });
            plan_loop.wake_refused("other");
            assert!(queue.next().now_or_never().is_none(), "{refusal:?}: the quota of another namespace");
            plan_loop.wake_refused("ns");
            assert_eq!(queue.next().now_or_never(), wakes.then(|| ObjectKey::new("ns", "web")), "{refusal:?}");
        }
    }

    #[test]
    fn what_may_wait_waits_longer_where_many_keys_wait() {
        assert_eq!([0, 31, 32, 100, 500, usize::MAX].map(patience), [1, 1, 2, 4, 10, 10]);
    }

    #[test]
    fn what_may_wait_is_written_once_when_it_no_longer_may() {
        let names = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let soon = reconciles(Urgency::Soon, &[0, 20, 20, 20, 20, 40]);
        let wanted = [("web", true), ("", true), ("", true), ("web/status", false), ("", true), ("", true)];
        assert_eq!(soon, wanted.map(|(written, again)| (names(written), again)));
        let now = reconciles(Urgency::Now, &[0, 20]);
        assert_eq!(now, [(names("web/status web"), false), (names("web/status"), false)]);
    }
}
