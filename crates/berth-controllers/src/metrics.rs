//! Metrics of work queues and controllers, with upstream's names, labels and buckets.

use berth_identity::{GroupResource, Revision};
use futures::future::{BoxFuture, join_all};
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    core::{Collector, Desc},
    exponential_buckets,
    proto::MetricFamily,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

/// Labels of the gauges of StatefulSets.
pub const STATEFUL_SET_LABELS: [&str; 3] = ["statefulset_namespace", "statefulset_name", "pod_management_policy"];

/// All metrics of the controllers of one process. Cheap enough for each test to have its own.
pub struct Metrics {
    depth: IntGaugeVec,
    adds: IntCounterVec,
    queue_duration: HistogramVec,
    work_duration: HistogramVec,
    running: RunningGauges,
    retries: IntCounterVec,
    /// `cronjob_controller_job_creation_skew_duration_seconds`.
    pub job_creation_skew: Histogram,
    /// `replicaset_controller_sorting_deletion_age_ratio`.
    pub sorting_deletion_age_ratio: Histogram,
    /// `replicaset_controller_stale_sync_skips_total`, by group and resource.
    pub replica_set_stale_sync_skips: IntCounterVec,
    /// `job_controller_stale_sync_skips_total`, by group and resource.
    pub job_stale_sync_skips: IntCounterVec,
    /// `statefulset_controller_statefulset_unavailable_replicas`, by [`STATEFUL_SET_LABELS`].
    pub stateful_set_unavailable: IntGaugeVec,
    /// `statefulset_controller_statefulset_max_unavailable`, by [`STATEFUL_SET_LABELS`].
    pub stateful_set_max_unavailable: IntGaugeVec,
    /// `garbagecollector_controller_resources_sync_error_total`: objects that a cache could not decode.
    pub resources_sync_errors: IntCounter,
    /// `berth_events_dropped_total`: events dropped because there were too many.
    pub events_dropped: IntCounter,
    /// `berth_waits`: objects that wait, by controller and reason.
    pub waits: IntGaugeVec,
    /// `controller_runtime_reconcile_panics_total`, by controller.
    panics: IntCounterVec,
    /// For health checks.
    caches: Mutex<Vec<Weak<dyn Filling>>>,
}

/// The gauges of running work. They are updated by each scrape, so that they cost nothing otherwise.
#[derive(Clone)]
struct RunningGauges {
    unfinished: GaugeVec,
    longest: GaugeVec,
    followed: Arc<Mutex<Vec<Running>>>,
}

struct Running {
    name: Box<str>,
    work: Weak<dyn RunningWork>,
    unfinished: Gauge,
    longest: Gauge,
}

/// The series of one work queue.
pub struct QueueMetrics {
    pub(crate) depth: IntGauge,
    pub(crate) adds: IntCounter,
    pub(crate) queue_duration: Histogram,
    pub(crate) work_duration: Histogram,
    pub(crate) retries: IntCounter,
}

/// Ages of the keys that are being processed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunningAges {
    /// The sum of all ages.
    pub sum: Duration,
    /// The oldest age.
    pub longest: Duration,
}

/// The keys that a queue's workers process.
pub trait RunningWork: Send + Sync {
    /// The present ages of the keys being processed.
    fn ages(&self) -> RunningAges;
}

/// How far a cache has been filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// It has not synced yet.
    NotYet,
    /// It is complete up to this revision.
    To(Revision),
    /// It has ended, and is complete for good.
    ForGood,
}

/// A cache that is or was being filled.
pub trait Filling: Send + Sync {
    /// The resource of the cache.
    fn resource(&self) -> GroupResource;
    /// How far it has been filled.
    fn filled(&self) -> Filled;
    /// Resolves when it has synced.
    fn synced(&self) -> BoxFuture<'_, ()>;
}

impl Metrics {
    /// Metrics that `registry` serves.
    ///
    /// # Errors
    /// One of the names is already registered there.
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let name = &["name"];
        // From 10 ns to 10 s, a decade each.
        let decades = exponential_buckets(1e-8, 10.0, 10)?;
        let duration = |metric: &str, help: &str| HistogramOpts::new(metric, help).buckets(decades.clone());
        let age_ratio = HistogramOpts::new(
            "replicaset_controller_sorting_deletion_age_ratio",
            "Age of each ready pod chosen for deletion, divided by the age of the youngest ready pod",
        )
        .buckets(vec![0.25, 0.5, 1.0, 2.0, 4.0, 8.0]);
        let skew = HistogramOpts::new(
            "cronjob_controller_job_creation_skew_duration_seconds",
            "How long after its scheduled time the Job of a CronJob was created",
        )
        .buckets(exponential_buckets(1.0, 2.0, 10)?);
        Ok(Self {
            depth: register(registry, IntGaugeVec::new(Opts::new("workqueue_depth", "Keys waiting to be processed"), name)?)?,
            adds: register(registry, IntCounterVec::new(Opts::new("workqueue_adds_total", "Keys accepted"), name)?)?,
            queue_duration: register(
                registry,
                HistogramVec::new(duration("workqueue_queue_duration_seconds", "How long keys waited before they were taken"), name)?,
            )?,
            work_duration: register(
                registry,
                HistogramVec::new(duration("workqueue_work_duration_seconds", "How long processing a key took"), name)?,
            )?,
            running: register(registry, RunningGauges::new(name)?)?,
            retries: register(registry, IntCounterVec::new(Opts::new("workqueue_retries_total", "Delayed and rate limited adds"), name)?)?,
            job_creation_skew: register(registry, Histogram::with_opts(skew)?)?,
            sorting_deletion_age_ratio: register(registry, Histogram::with_opts(age_ratio)?)?,
            replica_set_stale_sync_skips: register(registry, stale_sync_skips("replicaset_controller")?)?,
            job_stale_sync_skips: register(registry, stale_sync_skips("job_controller")?)?,
            stateful_set_unavailable: register(
                registry,
                IntGaugeVec::new(
                    Opts::new(
                        "statefulset_controller_statefulset_unavailable_replicas",
                        "Wanted pods of a StatefulSet that are missing or not available",
                    ),
                    &STATEFUL_SET_LABELS,
                )?,
            )?,
            stateful_set_max_unavailable: register(
                registry,
                IntGaugeVec::new(
                    Opts::new(
                        "statefulset_controller_statefulset_max_unavailable",
                        "How many pods a rolling update of a StatefulSet may make unavailable",
                    ),
                    &STATEFUL_SET_LABELS,
                )?,
            )?,
            resources_sync_errors: register(
                registry,
                IntCounter::new("garbagecollector_controller_resources_sync_error_total", "Objects that a cache could not read")?,
            )?,
            events_dropped: register(
                registry,
                IntCounter::new("berth_events_dropped_total", "Events not written because there were too many")?,
            )?,
            waits: register(
                registry,
                IntGaugeVec::new(Opts::new("berth_waits", "Objects whose rollout waits on purpose"), &["controller", "reason"])?,
            )?,
            panics: register(
                registry,
                IntCounterVec::new(
                    Opts::new("controller_runtime_reconcile_panics_total", "Reconciles of one object that panicked"),
                    &["controller"],
                )?,
            )?,
            caches: Mutex::default(),
        })
    }

    /// The panics of one controller.
    #[must_use]
    pub fn panics_of(&self, controller: &str) -> IntCounter {
        self.panics.with_label_values(&[controller])
    }

    /// Whether any controller has panicked.
    #[must_use]
    pub fn has_panics(&self) -> bool {
        let families = self.panics.collect();
        families.iter().flat_map(MetricFamily::get_metric).any(|metric| 0.0 < metric.get_counter().get_value())
    }

    /// The series of the queue `name`.
    #[must_use]
    pub fn queue(&self, name: &str) -> QueueMetrics {
        let label = &[name];
        QueueMetrics {
            depth: self.depth.with_label_values(label),
            adds: self.adds.with_label_values(label),
            queue_duration: self.queue_duration.with_label_values(label),
            work_duration: self.work_duration.with_label_values(label),
            retries: self.retries.with_label_values(label),
        }
    }

    /// Adds the running work of the queue `name` to the gauges, until `work` is dropped.
    pub fn follow(&self, name: &str, work: Weak<dyn RunningWork>) {
        let RunningGauges { unfinished, longest, followed } = &self.running;
        let [unfinished, longest] = [unfinished, longest].map(|gauges| gauges.with_label_values(&[name]));
        crate::lock(followed).push(Running { name: name.into(), work, unfinished, longest });
    }

    /// A queue with a key that has been processed for longer than this, and for how long.
    #[must_use]
    pub fn hanging(&self, longer_than: Duration) -> Option<(String, Duration)> {
        let followed = crate::lock(&self.running.followed);
        let longest = |running: &Running| Some((running.name.to_string(), running.work.upgrade()?.ages().longest));
        followed.iter().filter_map(longest).find(|(_, age)| longer_than < *age)
    }

    /// Adds `cache` to those that [`Metrics::unsynced`] and [`Metrics::reached`] report, until it is dropped.
    pub(crate) fn follow_cache(&self, cache: Weak<dyn Filling>) {
        let mut caches = crate::lock(&self.caches);
        caches.retain(|cache| cache.strong_count() > 0);
        caches.push(cache);
    }

    /// The resources of started caches that have not synced yet.
    #[must_use]
    pub fn unsynced(&self) -> Vec<GroupResource> {
        let caches = self.caches();
        caches.iter().filter(|cache| cache.filled() == Filled::NotYet).map(|cache| cache.resource()).collect()
    }

    /// Resolves when every cache started so far has synced.
    pub async fn synced(&self) {
        join_all(self.caches().iter().map(|cache| cache.synced())).await;
    }

    /// The revisions up to which caches are complete. If a resource has several caches, the lowest revision.
    #[must_use]
    pub fn reached(&self) -> BTreeMap<GroupResource, Revision> {
        let mut reached = BTreeMap::new();
        for cache in self.caches() {
            if let Filled::To(revision) = cache.filled() {
                reached.entry(cache.resource()).and_modify(|least: &mut Revision| *least = revision.min(*least)).or_insert(revision);
            }
        }
        reached
    }

    fn caches(&self) -> Vec<Arc<dyn Filling>> {
        crate::lock(&self.caches).iter().filter_map(Weak::upgrade).collect()
    }
}

impl RunningGauges {
    fn new(label: &[&str]) -> Result<Self, prometheus::Error> {
        let unfinished = Opts::new("workqueue_unfinished_work_seconds", "Sum of the ages of keys being processed");
        let longest = Opts::new("workqueue_longest_running_processor_seconds", "Age of the oldest key being processed");
        Ok(Self { unfinished: GaugeVec::new(unfinished, label)?, longest: GaugeVec::new(longest, label)?, followed: Arc::default() })
    }

    fn refresh(&self) {
        crate::lock(&self.followed).retain(|running| {
            let Some(work) = running.work.upgrade() else { return false };
            let ages = work.ages();
            running.unfinished.set(ages.sum.as_secs_f64());
            running.longest.set(ages.longest.as_secs_f64());
            true
        });
    }
}

impl Collector for RunningGauges {
    fn desc(&self) -> Vec<&Desc> {
        self.unfinished.desc().into_iter().chain(self.longest.desc()).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.refresh();
        self.unfinished.collect().into_iter().chain(self.longest.collect()).collect()
    }
}

fn stale_sync_skips(controller: &str) -> Result<IntCounterVec, prometheus::Error> {
    let options = Opts::new("stale_sync_skips_total", "Reconciles deferred because a cache did not show own writes yet");
    IntCounterVec::new(options.namespace(controller), &["group", "resource"])
}

fn register<C: Collector + Clone + 'static>(registry: &Registry, metric: C) -> Result<C, prometheus::Error> {
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}
