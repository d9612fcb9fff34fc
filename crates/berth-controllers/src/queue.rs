//! A work queue as plain data: waiting, running and delayed keys. [`crate::worker`] has the loop that sleeps.

use crate::metrics::{QueueMetrics, RunningAges};
use jiff::Timestamp;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

/// The backoff after the first failure of a key.
pub const BACK_OFF_FIRST: Duration = Duration::from_millis(5);
/// The maximum backoff: short enough that users do not wait for a cause that is gone.
pub const BACK_OFF_MAX: Duration = Duration::from_secs(5);

/// How long a new object's key has priority: the time that a small workload needs to become available.
pub const NEW_FOR: Duration = Duration::from_secs(2);

/// A queue of keys to reconcile. Each key waits at most once, and is never handed out while it is being processed. Keys are never dropped.
///
/// A user who creates one small object does not wait for thousands of objects that other clients change. For [`NEW_FOR`], a new object's
/// key is in a separate line. While keys wait in both lines, the lines take turns, so that neither can starve. A key waits at most twice as
/// long as with one line.
pub struct WorkQueue<K> {
    /// Waiting keys that are ready, oldest first in each line.
    ready: Lines<K>,
    /// Keys of new objects, with the end of their priority, and the same by time.
    new_until: BTreeMap<K, Timestamp>,
    aging: VecDeque<(Timestamp, K)>,
    /// Since when each key waits. This includes keys that were added again while being processed.
    waiting: BTreeMap<K, Timestamp>,
    processing: BTreeMap<K, Timestamp>,
    /// The same entries twice: by time, and by key.
    due: BTreeSet<(Timestamp, K)>,
    due_at: BTreeMap<K, Timestamp>,
    failures: BTreeMap<K, u32>,
    metrics: Option<QueueMetrics>,
}

/// Two lines that take turns.
struct Lines<K> {
    new: VecDeque<K>,
    other: VecDeque<K>,
    /// The line to serve next, if keys wait in both.
    next: Line,
}

#[derive(Clone, Copy)]
enum Line {
    New,
    Other,
}

impl<K> Lines<K> {
    fn len(&self) -> usize {
        self.new.len() + self.other.len()
    }

    fn push(&mut self, line: Line, key: K) {
        match line {
            Line::New => self.new.push_back(key),
            Line::Other => self.other.push_back(key),
        }
    }

    fn pop(&mut self) -> Option<K> {
        let first = match self.next {
            Line::New => self.new.pop_front(),
            Line::Other => self.other.pop_front(),
        };
        self.next = match self.next {
            Line::New => Line::Other,
            Line::Other => Line::New,
        };
        first.or_else(|| self.new.pop_front()).or_else(|| self.other.pop_front())
    }
}

impl<K: Ord + Clone> WorkQueue<K> {
    /// An empty queue.
    #[must_use]
    pub fn new(metrics: Option<QueueMetrics>) -> Self {
        Self {
            ready: Lines { new: VecDeque::new(), other: VecDeque::new(), next: Line::New },
            new_until: BTreeMap::new(),
            aging: VecDeque::new(),
            waiting: BTreeMap::new(),
            processing: BTreeMap::new(),
            due: BTreeSet::new(),
            due_at: BTreeMap::new(),
            failures: BTreeMap::new(),
            metrics,
        }
    }

    /// Hands out `key` as soon as it is not being processed. Does nothing if it waits already.
    pub fn add(&mut self, key: K, now: Timestamp) {
        if self.waiting.contains_key(&key) {
            return;
        }
        self.waiting.insert(key.clone(), now);
        if !self.processing.contains_key(&key) {
            self.ready.push(self.line_of(&key, now), key);
        }
        if let Some(metrics) = &self.metrics {
            metrics.adds.inc();
            metrics.depth.set(depth(&self.waiting));
        }
    }

    /// As [`WorkQueue::add`], and `key` counts as a new object's for [`NEW_FOR`].
    pub fn add_new(&mut self, key: K, now: Timestamp) {
        let until = now.saturating_add(NEW_FOR).expect("a duration of seconds is in range");
        self.new_until.insert(key.clone(), until);
        self.aging.push_back((until, key.clone()));
        self.add(key, now);
    }

    /// As [`WorkQueue::add`], at `at`. Of several times for one key, the earliest counts.
    pub fn add_after(&mut self, key: K, at: Timestamp, now: Timestamp) {
        if let Some(metrics) = &self.metrics {
            metrics.retries.inc();
        }
        if at <= now {
            return self.add(key, now);
        }
        match self.due_at.get(&key) {
            Some(earlier) if *earlier <= at => return,
            Some(later) => drop(self.due.remove(&(*later, key.clone()))),
            None => (),
        }
        self.due_at.insert(key.clone(), at);
        self.due.insert((at, key));
    }

    /// As [`WorkQueue::add_after`], later with every call until [`WorkQueue::forget`]: 5 ms, doubling to 5 s.
    pub fn add_rate_limited(&mut self, key: K, now: Timestamp) {
        self.add_rate_limited_after(key, Duration::ZERO, now);
    }

    /// As [`WorkQueue::add_rate_limited`], but not before `at_least` has passed.
    pub fn add_rate_limited_after(&mut self, key: K, at_least: Duration, now: Timestamp) {
        let failures = self.failures.entry(key.clone()).or_default();
        let factor = 1u32.checked_shl(*failures).unwrap_or(u32::MAX);
        *failures = failures.saturating_add(1);
        let delay = BACK_OFF_FIRST.saturating_mul(factor).min(BACK_OFF_MAX).max(at_least);
        let at = now.saturating_add(delay).expect("a duration of seconds is in range");
        self.add_after(key, at, now);
    }

    /// Resets the failures of `key`, so that its next backoff is the first again.
    pub fn forget(&mut self, key: &K) {
        self.failures.remove(key);
    }

    /// Removes and returns the oldest ready key of the line whose turn it is. It is being processed until [`WorkQueue::done`].
    pub fn pop(&mut self, now: Timestamp) -> Option<K> {
        self.forget_aged(now);
        self.release_due(now);
        let key = self.ready.pop()?;
        let since = self.waiting.remove(&key).unwrap_or(now);
        self.processing.insert(key.clone(), now);
        if let Some(metrics) = &self.metrics {
            metrics.depth.set(depth(&self.waiting));
            metrics.queue_duration.observe(age(since, now).as_secs_f64());
        }
        Some(key)
    }

    /// Ends the processing of `key`. If it was added meanwhile, it is ready now.
    pub fn done(&mut self, key: &K, now: Timestamp) {
        let Some(since) = self.processing.remove(key) else { return };
        if self.waiting.contains_key(key) {
            self.ready.push(self.line_of(key, now), key.clone());
        }
        if let Some(metrics) = &self.metrics {
            metrics.work_duration.observe(age(since, now).as_secs_f64());
        }
    }

    /// When the next delayed key is due. A ready key needs no wake-up, because [`WorkQueue::pop`] returns it.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| *at)
    }

    /// How many keys [`WorkQueue::pop`] would return without any time passing.
    #[must_use]
    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    /// How many keys wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no key waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The ages of the keys being processed.
    #[must_use]
    pub fn running(&self, now: Timestamp) -> RunningAges {
        let ages = self.processing.values().map(|since| age(*since, now));
        ages.fold(RunningAges::default(), |all, age| RunningAges { sum: all.sum + age, longest: all.longest.max(age) })
    }

    fn line_of(&self, key: &K, now: Timestamp) -> Line {
        if self.new_until.get(key).is_some_and(|until| now < *until) { Line::New } else { Line::Other }
    }

    /// Ends the priority of keys that are no longer new.
    fn forget_aged(&mut self, now: Timestamp) {
        while self.aging.front().is_some_and(|(until, _)| *until <= now) {
            let Some((until, key)) = self.aging.pop_front() else { return };
            // A later object of the same name is new for longer.
            if self.new_until.get(&key) == Some(&until) {
                self.new_until.remove(&key);
            }
        }
    }

    fn release_due(&mut self, now: Timestamp) {
        while self.due.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, key)) = self.due.pop_first() else { return };
            self.due_at.remove(&key);
            self.add(key, now);
        }
    }
}

fn age(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}

fn depth<K>(waiting: &BTreeMap<K, Timestamp>) -> i64 {
    i64::try_from(waiting.len()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;
    use proptest::prelude::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).expect("in range")
    }

    fn queue() -> WorkQueue<&'static str> {
        WorkQueue::new(None)
    }

    #[test]
    fn a_key_waits_once_however_often_it_is_added() {
        let mut queue = queue();
        queue.add("a", at(0));
        queue.add("b", at(0));
        queue.add("a", at(0));
        assert_eq!([queue.pop(at(1)), queue.pop(at(1)), queue.pop(at(1))], [Some("a"), Some("b"), None]);
    }

    #[test]
    fn a_key_in_processing_is_handed_out_again_only_when_done() {
        let mut queue = queue();
        queue.add("a", at(0));
        assert_eq!(queue.pop(at(0)), Some("a"));
        queue.add("a", at(1));
        assert_eq!(queue.pop(at(1)), None);
        queue.done(&"a", at(2));
        assert_eq!(queue.pop(at(2)), Some("a"));
        queue.done(&"a", at(3));
        assert_eq!(queue.pop(at(3)), None);
    }

    #[test]
    fn the_earliest_of_several_delays_counts() {
        let mut queue = queue();
        queue.add_after("a", at(100), at(0));
        queue.add_after("a", at(50), at(0));
        queue.add_after("a", at(70), at(0));
        assert_eq!((queue.next_wakeup(), queue.pop(at(49))), (Some(at(50)), None));
        assert_eq!((queue.pop(at(50)), queue.next_wakeup()), (Some("a"), None));
    }

    #[test]
    fn backoff_doubles_to_five_seconds_and_restarts_when_forgotten() {
        let mut queue = queue();
        let mut delay = || {
            queue.add_rate_limited("a", at(0));
            let wakeup = queue.next_wakeup().expect("delayed");
            queue.pop(wakeup);
            queue.done(&"a", wakeup);
            wakeup.as_millisecond()
        };
        let delays: Vec<_> = (0..12).map(|_| delay()).collect();
        assert_eq!(delays, [5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5000, 5000]);
        for _ in 0..100 {
            delay();
        }
        queue.forget(&"a");
        queue.add_rate_limited("a", at(0));
        assert_eq!(queue.next_wakeup(), Some(at(5)));
    }

    #[test]
    fn a_new_object_does_not_wait_for_all_others_and_they_not_for_all_new_ones() {
        let mut queue = queue();
        ["a", "b", "c"].into_iter().for_each(|key| queue.add(key, at(0)));
        ["new1", "new2", "new3"].into_iter().for_each(|key| queue.add_new(key, at(0)));
        let order: Vec<_> = std::iter::from_fn(|| queue.pop(at(1))).collect();
        assert_eq!(order, ["new1", "a", "new2", "b", "new3", "c"]);
    }

    #[test]
    fn a_new_object_stays_ahead_for_its_next_reconciles_until_it_is_no_longer_new() {
        let mut queue = queue();
        queue.add_new("new", at(0));
        assert_eq!(queue.pop(at(0)), Some("new"));
        queue.done(&"new", at(0));
        let mut first = |now| {
            ["a", "b", "new"].into_iter().for_each(|key| queue.add(key, at(now)));
            let order: Vec<_> = std::iter::from_fn(|| queue.pop(at(now))).collect();
            order.iter().for_each(|key| queue.done(key, at(now)));
            order.iter().position(|key| *key == "new")
        };
        assert!([first(1), first(1999)].iter().all(|position| *position < Some(2)));
        assert_eq!((first(2000), queue.new_until.len(), queue.aging.len()), (Some(2), 0, 0));
    }

    #[test]
    fn metrics_follow_the_keys() {
        let metrics = Metrics::new(&prometheus::Registry::new()).expect("an empty registry");
        let series = metrics.queue("test");
        let (depth, adds, retries) = (series.depth.clone(), series.adds.clone(), series.retries.clone());
        let (waited, worked) = (series.queue_duration.clone(), series.work_duration.clone());
        let mut queue = WorkQueue::new(Some(series));
        queue.add("a", at(0));
        queue.add("a", at(0));
        queue.add_after("b", at(1000), at(0));
        assert_eq!((depth.get(), adds.get(), retries.get()), (1, 1, 1));
        queue.pop(at(2000));
        queue.pop(at(2000));
        assert_eq!((depth.get(), adds.get(), waited.get_sample_sum()), (0, 2, 2.0));
        assert_eq!(queue.running(at(2500)), RunningAges { sum: Duration::from_secs(1), longest: Duration::from_millis(500) });
        queue.done(&"a", at(3000));
        assert_eq!((worked.get_sample_count(), worked.get_sample_sum()), (1, 1.0));
    }

    proptest! {
        /// Whatever the order of calls, no key is handed out twice at once, and every added key is handed out eventually.
        #[test]
        fn no_key_is_lost_or_handed_out_twice(calls in proptest::collection::vec((0u8..6, 0u8..4), 0..200)) {
            let mut queue = WorkQueue::new(None);
            let (mut hands, mut owed) = (BTreeSet::new(), BTreeSet::new());
            for (time, (call, key)) in calls.into_iter().enumerate() {
                let now = at(i64::try_from(time).expect("small"));
                match call {
                    0 => { queue.add(key, now); owed.insert(key); }
                    1 => { queue.add_after(key, at(300), now); owed.insert(key); }
                    2 => { queue.add_rate_limited(key, now); owed.insert(key); }
                    4 => { queue.add_new(key, now); owed.insert(key); }
                    3 => if let Some(key) = queue.pop(now) { prop_assert!(hands.insert(key)); owed.remove(&key); },
                    _ => { queue.done(&key, now); hands.remove(&key); }
                }
            }
            for key in std::mem::take(&mut hands) { queue.done(&key, at(10_000)); }
            let rest: BTreeSet<u8> = std::iter::from_fn(|| queue.pop(at(10_000))).collect();
            prop_assert!(owed.is_subset(&rest));
        }
    }
}
