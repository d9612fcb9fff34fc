//! The Job controller: which changes wake which Job, and what its plan is made from.
//!
//! Pods are followed only where there is a Job, or a pod of one: until then, they cost nothing. The queue has a second sort of key, a namespace
//! without a name: the pods there that have the finalizer of Jobs and no controller.

mod pods;

pub use pods::{JobPodCache, JobPodIndex};

use crate::{
    cache::{AnyCache, Cache, Delta, Known},
    cluster::Cluster,
    metrics::Metrics,
    owners::OwnerIndex,
    plan_loop::Planner,
    replica_set::PodCache,
    worker::Queue,
};
use berth_env::Spawner;
use berth_identity::{GroupResource, ObjectKey, ObjectRef, Uid};
use berth_workloads::{
    Plan,
    job::{self, JobState},
    plan::{EventRecord, Wait},
    resources::{JOBS, PODS},
    view::{JobPodView, JobView, PodView, View, is_job},
};
use event_listener::Event;
use jiff::Timestamp;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// All Jobs.
pub type JobCache = Cache<JobView, OwnerIndex<JobView>>;

/// Plans Jobs.
#[derive(Clone)]
pub struct JobPlanner {
    jobs: Arc<JobCache>,
    pods: Arc<JobPodCache>,
    metrics: Arc<Metrics>,
    first: Arc<First>,
}

/// Whether a Job, or a pod of one, was ever seen.
#[derive(Default)]
struct First {
    was_seen: AtomicBool,
    seen: Event,
}

impl First {
    fn see(&self) {
        if !self.was_seen.swap(true, Ordering::SeqCst) {
            self.seen.notify(usize::MAX);
        }
    }

    async fn seen(&self) {
        loop {
            let seen = self.seen.listen();
            if self.was_seen.load(Ordering::SeqCst) {
                return;
            }
            seen.await;
        }
    }
}

impl JobPlanner {
    /// A planner over this cache of Jobs, and a cache of their pods.
    #[must_use]
    pub fn new(jobs: Arc<JobCache>, metrics: Arc<Metrics>) -> Self {
        Self { jobs, pods: Arc::new(JobPodCache::new(PODS)), metrics, first: Arc::default() }
    }

    /// The Jobs.
    #[must_use]
    pub fn jobs(&self) -> &Arc<JobCache> {
        &self.jobs
    }

    /// Their pods.
    #[must_use]
    pub fn pods(&self) -> &Arc<JobPodCache> {
        &self.pods
    }

    /// What plans are made from.
    #[must_use]
    pub fn caches(&self) -> Vec<Arc<dyn AnyCache>> {
        vec![Arc::<JobCache>::clone(&self.jobs), Arc::<JobPodCache>::clone(&self.pods)]
    }

    /// Has changes of Jobs and pods put keys into `queue`. `all_pods` is where the first pod of a Job is seen. To be called before the caches start.
    pub fn wake(&self, queue: &Queue<ObjectKey>, all_pods: &PodCache) {
        let first = Arc::clone(&self.first);
        all_pods.on_change(move |delta| delta.new.iter().filter(|pod| is_of_job(pod)).for_each(|_| first.see()));
        let (first, pods, woken) = (Arc::clone(&self.first), Arc::clone(&self.pods), queue.clone());
        self.jobs.on_change(move |delta| {
            first.see();
            wake_for_job(&pods, &woken, delta);
        });
        let (jobs, woken) = (Arc::clone(&self.jobs), queue.clone());
        self.pods.on_change(move |delta| wake_for_pod(&jobs, &woken, delta));
    }

    /// Starts the cache of pods when there is a Job, or a pod of one; resolves when all that its plan is made from is known.
    pub async fn synced(&self, cluster: &dyn Cluster, spawner: &dyn Spawner, metrics: &Arc<Metrics>) {
        self.jobs.synced().await;
        self.first.seen().await;
        self.pods.start_of(pods::of_jobs(cluster.watch(PODS)), spawner, metrics);
        self.pods.synced().await;
    }

    /// The plan for pods without a controller, which have the finalizer.
    fn plan_abandoned(&self, namespace: &str) -> Plan {
        let (jobs, pods) = (self.jobs.read(), self.pods.read());
        job::plan_abandoned(jobs.in_namespace(namespace).map(|job| &**job), pods.index().abandoned(namespace).map(|pod| &**pod))
    }

    /// The plan for pods of a Job that no longer exists: another one can have its name. `None`: there are none.
    fn plan_orphans(&self, key: &ObjectKey, uid: &Uid) -> Option<Plan> {
        let mut pods = self.pods.read();
        let gone = ObjectRef { resource: JOBS, key: key.clone(), uid: uid.clone(), resource_version: None };
        let plan = job::plan_orphans(gone, pods.index().open(uid).map(|pod| &**pod));
        pods.index_mut().forget(key, uid);
        (!plan.is_idle()).then_some(plan)
    }
}

/// Whether a pod is one of a Job, or was until its owner was removed.
fn is_of_job(pod: &PodView) -> bool {
    pod.meta.controller().map_or_else(|| pod.meta.labels.get(JOB_NAME).is_some(), is_job)
}

/// The label with the name of a Job on its pods.
const JOB_NAME: &str = "batch.kubernetes.io/job-name";

/// Wakes the Job, and the pods without a controller that it adopts no longer.
fn wake_for_job(pods: &JobPodCache, queue: &Queue<ObjectKey>, delta: &Delta<JobView>) {
    let Some(job) = delta.sides().next() else { return };
    queue.add(job.key());
    let is_ending = delta.new.as_ref().is_none_or(|job| job.meta.deleted.is_some());
    if is_ending && pods.read().index().abandoned(&job.meta.namespace).next().is_some() {
        queue.add(abandoned_in(&job.meta.namespace));
    }
}

/// The key of the pods of a namespace that have no controller.
fn abandoned_in(namespace: &str) -> ObjectKey {
    ObjectKey::new(namespace, "")
}

/// Wakes the Job that controls the pod or did, and for a pod without a controller every Job that selects it.
fn wake_for_pod(jobs: &JobCache, queue: &Queue<ObjectKey>, delta: &Delta<JobPodView>) {
    if !matters(delta) {
        return;
    }
    for pod in delta.sides() {
        let owner = pod.job().map(|owner| ObjectKey::new(&pod.pod.meta.namespace, &owner.name));
        owner.into_iter().for_each(|job| queue.add(job));
    }
    let Some(orphan) = delta.new.as_ref().filter(|pod| pod.job().is_none()) else { return };
    let namespace = &orphan.pod.meta.namespace;
    // A pod that was released leaves room for the next ones.
    if delta.sides().any(|pod| pod.is_tracked()) {
        queue.add(abandoned_in(namespace));
    }
    let selects = |job: &&Arc<JobView>| {
        job.selector.as_ref().is_some_and(|selector| !selector.is_empty() && selector.matches(&orphan.pod.meta.labels))
    };
    jobs.read().in_namespace(namespace).filter(selects).for_each(|job| queue.add(job.key()));
}

/// Whether a pod's change can make a difference to a plan: a binding does not, nor does a pull of its image.
fn matters(delta: &Delta<JobPodView>) -> bool {
    let (Some(old), Some(new)) = (&delta.old, &delta.new) else { return true };
    essence(old) != essence(new)
}

/// What plans read of a pod that can change.
fn essence(pod: &JobPodView) -> impl PartialEq + '_ {
    let JobPodView { pod: PodView { phase, ready, meta, .. }, finished_at, all_restarts, finalizers, conditions, errors, .. } = pod;
    ((phase, ready, &meta.deleted, &meta.labels, &meta.owners), (finished_at, all_restarts, finalizers, conditions, errors))
}

/// Makes the state that a Job is planned from. Costs the pods that have not ended, or are not counted.
#[must_use]
pub fn observe(job: &Arc<JobView>, pods: &Known<JobPodView, JobPodIndex>, now: Timestamp) -> JobState {
    let (index, meta) = (pods.index(), &job.meta);
    let orphans = index.orphans(&meta.namespace, job.selector.as_ref());
    JobState {
        job: Arc::clone(job),
        pods: index.open(&meta.uid).chain(orphans).cloned().collect(),
        past: index.past(&meta.uid, job.choices.replacement),
        now,
    }
}

impl Planner for JobPlanner {
    fn plan(&self, key: &ObjectKey, _: Option<&str>, now: Timestamp) -> Option<Plan> {
        if key.name.is_empty() {
            return Some(self.plan_abandoned(&key.namespace));
        }
        let job = self.jobs.get(key);
        let uids = self.pods.read().index().uids(key);
        let gone = uids.iter().filter(|uid| job.as_ref().is_none_or(|job| job.meta.uid != **uid));
        let orphans: Vec<Plan> = gone.filter_map(|uid| self.plan_orphans(key, uid)).collect();
        let own = job.map(|job| job::plan(&observe(&job, &self.pods.read(), now)));
        if own.is_none() && orphans.is_empty() {
            return None;
        }
        let mut plan = own.unwrap_or_default();
        // First of all: the Job can have to wait, its predecessor's pods need not.
        plan.stages.splice(0..0, orphans.into_iter().flat_map(|plan| plan.stages));
        Some(plan)
    }

    fn wait_event(&self, key: &ObjectKey, wait: &Wait) -> Option<EventRecord> {
        job::wait_event(&*self.jobs.get(key)?, wait)
    }

    fn deferred(&self, resource: GroupResource) {
        self.metrics.job_stale_sync_skips.with_label_values(&[resource.group, resource.plural]).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus::{Registry, TextEncoder};

    #[test]
    fn deferred_reconciles_of_jobs_do_not_count_as_those_of_replica_sets() {
        let registry = Registry::new();
        let metrics = Arc::new(Metrics::new(&registry).expect("an empty registry"));
        JobPlanner::new(Arc::new(JobCache::new(JOBS)), metrics).deferred(PODS);
        let text = TextEncoder::new().encode_to_string(&registry.gather()).expect("text");
        let counted: Vec<&str> = text.lines().filter(|line| line.contains("_stale_sync_skips_total{")).collect();
        assert_eq!(counted, [r#"job_controller_stale_sync_skips_total{group="",resource="pods"} 1"#]);
    }
}
