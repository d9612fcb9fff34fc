//! Workers: take a key, look, put it back if it failed.

use crate::{
    cluster::ClusterError,
    lock,
    metrics::{Metrics, RunningAges, RunningWork},
    panics::{Panicked, caught},
    queue::WorkQueue,
};
use berth_store::env::{Clock, Env};
use event_listener::Event;
use futures::future::{BoxFuture, select};
use jiff::Timestamp;
use prometheus::IntCounter;
use std::{
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
    wake: Event,
    panics: IntCounter,
}

/// What a look at one key came to.
#[derive(Debug)]
pub enum Looked {
    /// Nothing more to do until something changes.
    Finished,
    /// As `Finished`, but look again at this time in any case.
    Again(Timestamp),
    /// Look again after a back-off.
    Failed,
    /// As `Failed`, but not before this has passed: the server asked for it.
    NotBefore(Duration),
    /// As `Failed`, by a fault in the program.
    Panicked(Panicked),
}

impl Looked {
    /// What a look comes to that ends with this error.
    #[must_use]
    pub fn failed(error: &ClusterError) -> Self {
        error.retry_after().map_or(Self::Failed, Self::NotBefore)
    }
}

/// What a controller does with one key. It looks at the state, never at what woke it.
pub trait Reconcile<K>: Send + Sync + 'static {
    /// One look.
    fn look<'a>(&'a self, key: &'a K) -> BoxFuture<'a, Looked>;
}

impl<K: Ord + Clone + Send + Sync + 'static> Queue<K> {
    /// An empty queue, counted in `metrics` under `name`.
    #[must_use]
    pub fn new(name: &str, clock: Arc<dyn Clock>, metrics: &Metrics) -> Self {
        let queue = WorkQueue::new(Some(metrics.queue(name)));
        let shared = Arc::new(Shared { clock, queue: Mutex::new(queue), wake: Event::new(), panics: metrics.panics_of(name) });
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

    /// The next key; it is this caller's until [`Queue::finish`].
    pub async fn next(&self) -> K {
        loop {
            let changed = self.shared.wake.listen();
            let wakeup = {
                let mut queue = lock(&self.shared.queue);
                match queue.pop(self.shared.clock.now()) {
                    Some(key) => return key,
                    None => queue.next_wakeup(),
                }
            };
            match wakeup {
                Some(at) => drop(select(changed, self.shared.clock.sleep_until(at)).await),
                None => changed.await,
            }
        }
    }

    /// Gives a key back that [`Queue::next`] gave out.
    pub fn finish(&self, key: &K, looked: &Looked) {
        let now = self.shared.clock.now();
        self.change(|queue| {
            match looked {
                Looked::Failed | Looked::Panicked(_) => queue.add_rate_limited(key.clone(), now),
                Looked::NotBefore(after) => queue.add_rate_limited_after(key.clone(), *after, now),
                Looked::Again(at) => {
                    queue.forget(key);
                    queue.add_after(key.clone(), *at, now);
                }
                Looked::Finished => queue.forget(key),
            }
            queue.done(key, now);
        });
    }

    /// Wakes a worker if the change gave it something to do or an earlier time to wait for.
    fn change(&self, change: impl FnOnce(&mut WorkQueue<K>)) {
        let mut queue = lock(&self.shared.queue);
        let wakeup = queue.next_wakeup();
        change(&mut queue);
        if queue.has_ready() || queue.next_wakeup() != wakeup {
            self.shared.wake.notify_additional(1);
        }
    }
}

impl<K: Ord + Clone + Debug + Send + Sync + 'static> Queue<K> {
    /// Starts `workers` tasks that look at keys for ever.
    pub fn start(&self, env: &Env, name: &'static str, workers: usize, reconcile: &Arc<impl Reconcile<K>>) {
        for _ in 0..workers {
            env.spawner.spawn(name, Box::pin(work(self.clone(), name, Arc::clone(reconcile))));
        }
    }
}

async fn work<K: Ord + Clone + Debug + Send + Sync + 'static>(queue: Queue<K>, name: &'static str, reconcile: Arc<impl Reconcile<K>>) {
    loop {
        let key = queue.next().await;
        let looked = caught(async { reconcile.look(&key).await }).await.unwrap_or_else(Looked::Panicked);
        if let Looked::Panicked(Panicked(text)) = &looked {
            queue.shared.panics.inc();
            tracing::error!(controller = name, ?key, panic = ?text, "a look panicked; looking again after a back-off");
        }
        queue.finish(&key, &looked);
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
    use crate::testing::World;
    use jiff::SignedDuration;
    use std::collections::BTreeMap;

    /// Panics in the first looks at `bad`; notes when it looked at what.
    struct Looks {
        panics: usize,
        clock: Arc<dyn Clock>,
        seen: Mutex<BTreeMap<&'static str, Vec<Timestamp>>>,
    }

    impl Reconcile<&'static str> for Looks {
        fn look<'a>(&'a self, key: &'a &'static str) -> BoxFuture<'a, Looked> {
            let mut seen = lock(&self.seen);
            let times = seen.entry(key).or_default();
            times.push(self.clock.now());
            assert!(*key != "bad" || self.panics < times.len(), "nobody saw this coming");
            Box::pin(async { Looked::Finished })
        }
    }

    #[test]
    fn a_look_that_panics_is_counted_and_made_again_later_and_keeps_nobody_up() {
        let world = World::default();
        let (env, registry) = (world.env(), prometheus::Registry::new());
        let metrics = Metrics::new(&registry).expect("an empty registry");
        let queue = Queue::new("test", Arc::clone(&env.clock), &metrics);
        let looks = Arc::new(Looks { panics: 40, clock: Arc::clone(&env.clock), seen: Mutex::default() });
        // More panics than there are workers.
        queue.start(&env, "test", 2, &looks);
        queue.add("bad");
        let second = SignedDuration::from_secs(1);
        for _ in 0..300 {
            queue.add("good");
            world.run_for(second);
        }
        let seen = lock(&looks.seen);
        assert_eq!((seen["good"].len(), seen["bad"].len()), (300, 41));
        let pauses: Vec<_> = seen["bad"].windows(2).map(|times| times[1].duration_since(times[0])).collect();
        assert_eq!(pauses[..3], [5, 10, 20].map(SignedDuration::from_millis));
        assert_eq!(pauses[20], 5 * second);
        assert_eq!((metrics.has_panics(), metrics.panics_of("test").get()), (true, 40));
        assert_eq!(queue.shared.ages(), RunningAges::default(), "nothing is being processed any more");
    }
}
