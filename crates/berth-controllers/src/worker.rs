//! Workers: take a key, reconcile it, and requeue it after a failure.

use crate::{
    cluster::ClusterError,
    lock,
    metrics::{Metrics, RunningAges, RunningWork},
    panics::{Panicked, caught},
    queue::WorkQueue,
};
use berth_env::{Clock, Env};
use event_listener::Event;
use futures::future::{BoxFuture, select};
use jiff::Timestamp;
use prometheus::IntCounter;
use std::{
    collections::BTreeSet,
    fmt::Debug,
    sync::{Arc, Mutex},
    time::Duration,
};

/// A [`WorkQueue`] that several tasks share. Cheap to clone.
pub struct Queue<K> {
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    clock: Arc<dyn Clock>,
    queue: Mutex<WorkQueue<K>>,
    /// The times that idle workers wait for. Usually one worker waits for the next time.
    watched: Mutex<BTreeSet<Timestamp>>,
    wake: Event,
    panics: IntCounter,
}

/// The result of one reconcile.
#[derive(Debug)]
pub enum ReconcileResult {
    /// Nothing more to do until a change.
    Done,
    /// As `Done`, but requeue at this time in any case.
    RequeueAt(Timestamp),
    /// Requeue after a backoff.
    Backoff,
    /// As `Backoff`, but not before this time has passed, as the server requested.
    RetryAfter(Duration),
    /// As `Backoff`, because of a fault in the program.
    Panicked(Panicked),
}

impl ReconcileResult {
    /// The result of a reconcile that ends with this error.
    #[must_use]
    pub fn failed(error: &ClusterError) -> Self {
        error.retry_after().map_or(Self::Backoff, Self::RetryAfter)
    }
}

/// Reconciles one key. It reads the state, never the event that enqueued the key.
pub trait Reconcile<K>: Send + Sync + 'static {
    /// Reconciles once.
    fn reconcile<'a>(&'a self, key: &'a K) -> BoxFuture<'a, ReconcileResult>;
}

impl<K: Ord + Clone + Send + Sync + 'static> Queue<K> {
    /// An empty queue, with metrics under `name`.
    #[must_use]
    pub fn new(name: &str, clock: Arc<dyn Clock>, metrics: &Metrics) -> Self {
        let queue = WorkQueue::new(Some(metrics.queue(name)));
        let shared = Arc::new(Shared {
            clock,
            queue: Mutex::new(queue),
            watched: Mutex::default(),
            wake: Event::new(),
            panics: metrics.panics_of(name),
        });
        let running: Arc<dyn RunningWork> = Arc::<Shared<K>>::clone(&shared);
        metrics.follow(name, Arc::downgrade(&running));
        Self { shared }
    }

    /// [`WorkQueue::add`].
    pub fn add(&self, key: K) {
        let now = self.shared.clock.now();
        self.change(|queue| queue.add(key, now));
    }

    /// [`WorkQueue::add_new`].
    pub fn add_new(&self, key: K) {
        let now = self.shared.clock.now();
        self.change(|queue| queue.add_new(key, now));
    }

    /// [`WorkQueue::add_after`].
    pub fn add_after(&self, key: K, at: Timestamp) {
        let now = self.shared.clock.now();
        self.change(|queue| queue.add_after(key, at, now));
    }

    /// [`WorkQueue::add_rate_limited`].
    pub fn add_rate_limited(&self, key: K) {
        let now = self.shared.clock.now();
        self.change(|queue| queue.add_rate_limited(key, now));
    }

    /// How many keys wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        lock(&self.shared.queue).len()
    }

    /// The next key. It belongs to this caller until [`Queue::finish`].
    ///
    /// Of all workers that only wait for a time, one waits for the rest. Otherwise each delayed key would wake every idle worker.
    pub async fn next(&self) -> K {
        let mut watch: Option<TimeWatch<'_, K>> = None;
        loop {
            let changed = self.shared.wake.listen();
            let wakeup = {
                let mut queue = lock(&self.shared.queue);
                let ready = queue.ready();
                let popped = queue.pop(self.shared.clock.now());
                let was_watching = watch.take().is_some();
                match popped {
                    Some(key) => {
                        // Each due key needs a worker, and the next time needs a worker that waits for it.
                        let others = queue.ready().saturating_sub(ready) + usize::from(was_watching && queue.next_wakeup().is_some());
                        self.shared.wake.notify_additional(others);
                        return key;
                    }
                    None => queue.next_wakeup(),
                }
            };
            watch = wakeup.and_then(|at| self.shared.watch(at));
            match &watch {
                Some(TimeWatch { at, .. }) => drop(select(changed, self.shared.clock.sleep_until(*at)).await),
                None => changed.await,
            }
        }
    }

    /// Returns a key from [`Queue::next`] to the queue.
    pub fn finish(&self, key: &K, result: &ReconcileResult) {
        let now = self.shared.clock.now();
        self.change(|queue| {
            match result {
                ReconcileResult::Backoff | ReconcileResult::Panicked(_) => queue.add_rate_limited(key.clone(), now),
                ReconcileResult::RetryAfter(after) => queue.add_rate_limited_after(key.clone(), *after, now),
                ReconcileResult::RequeueAt(at) => {
                    queue.forget(key);
                    queue.add_after(key.clone(), *at, now);
                }
                ReconcileResult::Done => queue.forget(key),
            }
            queue.done(key, now);
        });
    }

    /// Wakes a worker if the change adds work or an earlier time.
    fn change(&self, change: impl FnOnce(&mut WorkQueue<K>)) {
        let mut queue = lock(&self.shared.queue);
        let (ready, wakeup) = (queue.ready(), queue.next_wakeup());
        change(&mut queue);
        let is_sooner = queue.next_wakeup().is_some_and(|at| wakeup.is_none_or(|before| at < before));
        if ready < queue.ready() || is_sooner {
            self.shared.wake.notify_additional(1);
        }
    }
}

/// Represents an idle worker that waits for this time.
struct TimeWatch<'a, K> {
    shared: &'a Shared<K>,
    at: Timestamp,
}

impl<K> Shared<K> {
    /// A watch for a worker that has to wait for `at`. `None` if another worker already waits for this or an earlier time.
    fn watch(&self, at: Timestamp) -> Option<TimeWatch<'_, K>> {
        let mut watched = lock(&self.watched);
        if watched.first().is_some_and(|first| *first <= at) {
            return None;
        }
        watched.insert(at);
        Some(TimeWatch { shared: self, at })
    }
}

impl<K> Drop for TimeWatch<'_, K> {
    fn drop(&mut self) {
        lock(&self.shared.watched).remove(&self.at);
    }
}

impl<K: Ord + Clone + Debug + Send + Sync + 'static> Queue<K> {
    /// Starts `workers` tasks that reconcile keys indefinitely.
    pub fn start(&self, env: &Env, name: &'static str, workers: usize, reconcile: &Arc<impl Reconcile<K>>) {
        for _ in 0..workers {
            env.spawner.spawn(name, Box::pin(work(self.clone(), name, Arc::clone(reconcile))));
        }
    }
}

async fn work<K: Ord + Clone + Debug + Send + Sync + 'static>(queue: Queue<K>, name: &'static str, reconcile: Arc<impl Reconcile<K>>) {
    loop {
        let key = queue.next().await;
        let result = caught(async { reconcile.reconcile(&key).await }).await.unwrap_or_else(ReconcileResult::Panicked);
        if let ReconcileResult::Panicked(Panicked(text)) = &result {
            queue.shared.panics.inc();
            tracing::error!(controller = name, ?key, panic = ?text, "a reconcile panicked; requeued with backoff");
        }
        queue.finish(&key, &result);
    }
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<K: Ord + Clone + Send + Sync> RunningWork for Shared<K> {
    fn ages(&self) -> RunningAges {
        lock(&self.queue).running(self.clock.now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_env::testing::TestEnv;
    use jiff::SignedDuration;
    use std::{
        collections::BTreeMap,
        sync::atomic::{AtomicUsize, Ordering},
    };

    /// Panics in the first reconciles of `bad`, and records the time of each reconcile.
    struct RecordingReconciler {
        panics: usize,
        clock: Arc<dyn Clock>,
        seen: Mutex<BTreeMap<&'static str, Vec<Timestamp>>>,
    }

    impl Reconcile<&'static str> for RecordingReconciler {
        fn reconcile<'a>(&'a self, key: &'a &'static str) -> BoxFuture<'a, ReconcileResult> {
            let mut seen = lock(&self.seen);
            let times = seen.entry(key).or_default();
            times.push(self.clock.now());
            assert!(*key != "bad" || self.panics < times.len(), "an unexpected fault");
            Box::pin(async { ReconcileResult::Done })
        }
    }

    #[test]
    fn a_reconcile_that_panics_is_counted_and_retried_later_and_delays_no_other_key() {
        let test_env = TestEnv::default();
        let (env, registry) = (test_env.env(), prometheus::Registry::new());
        let metrics = Metrics::new(&registry).expect("an empty registry");
        let queue = Queue::new("test", Arc::clone(&env.clock), &metrics);
        let reconciler = Arc::new(RecordingReconciler { panics: 40, clock: Arc::clone(&env.clock), seen: Mutex::default() });
        // More panics than there are workers.
        queue.start(&env, "test", 2, &reconciler);
        queue.add("bad");
        let second = SignedDuration::from_secs(1);
        for _ in 0..300 {
            queue.add("good");
            test_env.run_for(second);
        }
        let seen = lock(&reconciler.seen);
        assert_eq!((seen["good"].len(), seen["bad"].len()), (300, 41));
        let pauses: Vec<_> = seen["bad"].windows(2).map(|times| times[1].duration_since(times[0])).collect();
        assert_eq!(pauses[..3], [5, 10, 20].map(SignedDuration::from_millis));
        assert_eq!(pauses[20], 5 * second);
        assert_eq!((metrics.has_panics(), metrics.panics_of("test").get()), (true, 40));
        assert_eq!(queue.shared.ages(), RunningAges::default(), "nothing is being processed any more");
    }

    /// A clock that counts its waiters.
    struct Counted(Arc<dyn Clock>, AtomicUsize);

    impl Clock for Counted {
        fn now(&self) -> Timestamp {
            self.0.now()
        }

        fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()> {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0.sleep_until(at)
        }
    }

    /// Takes a second for each reconcile.
    struct Slow(Arc<dyn Clock>, Mutex<Vec<(u32, Timestamp)>>);

    impl Reconcile<u32> for Slow {
        fn reconcile<'a>(&'a self, key: &'a u32) -> BoxFuture<'a, ReconcileResult> {
            lock(&self.1).push((*key, self.0.now()));
            let over = self.0.now() + SignedDuration::from_secs(1);
            Box::pin(async move {
                self.0.sleep_until(over).await;
                ReconcileResult::Done
            })
        }
    }

    #[test]
    fn one_of_many_idle_workers_waits_for_the_time_and_every_key_comes_at_its_own() {
        const KEYS: u32 = 100;
        let test_env = TestEnv::default();
        let env = test_env.env();
        let metrics = Metrics::new(&prometheus::Registry::new()).expect("an empty registry");
        let clock = Arc::new(Counted(Arc::clone(&env.clock), AtomicUsize::new(0)));
        let queue = Queue::new("test", Arc::<Counted>::clone(&clock) as Arc<dyn Clock>, &metrics);
        let reconciler = Arc::new(Slow(Arc::clone(&env.clock), Mutex::default()));
        queue.start(&env, "test", 64, &reconciler);
        let begins = env.clock.now();
        // Ten keys at each time, the latest time first: each becomes the next to wait for, and ten workers are needed at once.
        let due = |key: u32| begins + SignedDuration::from_millis(500 * (1 + i64::from(key / 10)));
        (0..KEYS).rev().for_each(|key| queue.add_after(key, due(key)));
        test_env.run_for(SignedDuration::from_secs(60));
        let mut seen = lock(&reconciler.1).clone();
        seen.sort_unstable();
        assert_eq!(seen, (0..KEYS).map(|key| (key, due(key))).collect::<Vec<_>>());
        // One wait for each worker that takes over, and for its successor. With all 64 workers there would be some 700.
        let waited = clock.1.load(Ordering::Relaxed);
        assert!(waited < 40, "{waited} waits for ten times");
    }
}
