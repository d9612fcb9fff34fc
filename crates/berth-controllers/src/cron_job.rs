//! The CronJob controller: which changes wake which CronJob, and what its plan is made from. A CronJob is also woken when its next time is due.

use crate::{
    cache::{AnyCache, Cache, Delta},
    job::JobCache,
    metrics::Metrics,
    owners::OwnerIndex,
    plan_loop::Planner,
    worker::Queue,
};
use berth_identity::ObjectKey;
use berth_workloads::{
    Plan,
    cron_job::{self, CronJobState, end_of, scheduled_at},
    plan::{EventRecord, Wait},
    view::{CronJobView, JobView, View, is_cron_job},
};
use jiff::Timestamp;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// All CronJobs.
pub type CronJobCache = Cache<CronJobView, OwnerIndex<CronJobView>>;

/// Plans CronJobs.
#[derive(Clone)]
pub struct CronJobPlanner {
    cron_jobs: Arc<CronJobCache>,
    jobs: Arc<JobCache>,
    metrics: Arc<Metrics>,
    /// Whether the caches have synced. Jobs that are seen later are new.
    has_synced: Arc<AtomicBool>,
}

impl CronJobPlanner {
    /// A planner over these caches.
    #[must_use]
    pub fn new(cron_jobs: Arc<CronJobCache>, jobs: Arc<JobCache>, metrics: Arc<Metrics>) -> Self {
        Self { cron_jobs, jobs, metrics, has_synced: Arc::default() }
    }

    /// Has changes of CronJobs and their Jobs put keys into `queue`. To be called before the caches start.
    pub fn wake(&self, queue: &Queue<ObjectKey>) {
        let woken = queue.clone();
        self.cron_jobs.on_change(move |delta| delta.sides().take(1).for_each(|cron_job| woken.add(cron_job.key())));
        let (planner, woken) = (self.clone(), queue.clone());
        self.jobs.on_change(move |delta| {
            planner.wake_for_job(&woken, delta);
            planner.observe_skew(delta);
        });
    }

    /// Resolves when the caches have synced.
    pub async fn synced(&self) {
        self.cron_jobs.synced().await;
        self.jobs.synced().await;
        self.has_synced.store(true, Ordering::SeqCst);
    }

    /// Wakes the CronJob that controls the Job or did. A Job that is deleted frees its name, also if it had another controller.
    fn wake_for_job(&self, queue: &Queue<ObjectKey>, delta: &Delta<JobView>) {
        if !matters(delta) {
            return;
        }
        for job in delta.sides() {
            let owner = job.meta.controller().filter(|owner| is_cron_job(owner));
            owner.into_iter().for_each(|owner| queue.add(ObjectKey::new(&job.meta.namespace, &owner.name)));
        }
        let freed = delta.old.as_ref().filter(|_| delta.new.is_none());
        let named = freed.and_then(|job| Some(ObjectKey::new(&job.meta.namespace, named_after(&job.meta.name)?)));
        named.into_iter().filter(|key| self.cron_jobs.get(key).is_some()).for_each(|key| queue.add(key));
    }

    /// Measures how late a new Job was created.
    fn observe_skew(&self, delta: &Delta<JobView>) {
        let (None, Some(job)) = (&delta.old, &delta.new) else { return };
        let owner = job.meta.controller().filter(|owner| is_cron_job(owner) && self.has_synced.load(Ordering::SeqCst));
        let at = owner.and_then(|owner| scheduled_at(&owner.name, job));
        if let (Some(at), Some(created)) = (at, job.meta.created) {
            self.metrics.job_creation_skew.observe(created.duration_since(at).as_secs_f64());
        }
    }

    fn observe(&self, cron_job: Arc<CronJobView>, now: Timestamp) -> CronJobState {
        let jobs = self.jobs.read();
        let own = jobs.index().controlled_by(&cron_job.meta.uid).cloned().collect();
        let namespace = cron_job.meta.namespace.clone();
        CronJobState::new(cron_job, own, now, |name| jobs.get(&ObjectKey::new(&namespace, name)).is_some())
    }
}

/// The CronJob that a Job of this name can be of: the part before the number.
fn named_after(job: &str) -> Option<&str> {
    let (name, number) = job.rsplit_once('-')?;
    number.bytes().all(|byte| byte.is_ascii_digit()).then_some(name)
}

/// Whether a Job's change can make a difference to a plan: the counts of its pods do not.
fn matters(delta: &Delta<JobView>) -> bool {
    let (Some(old), Some(new)) = (&delta.old, &delta.new) else { return true };
    essence(old) != essence(new)
}

/// What plans read of a Job that can change.
fn essence(job: &JobView) -> impl PartialEq + '_ {
    let (meta, status) = (&job.meta, &job.status);
    (end_of(job).is_some(), &status.completion_time, &status.start_time, &meta.deleted, &meta.owners, &job.annotations)
}

impl Planner for CronJobPlanner {
    fn plan(&self, key: &ObjectKey, _last_error: Option<&str>, now: Timestamp) -> Option<Plan> {
        Some(cron_job::plan(&self.observe(self.cron_jobs.get(key)?, now)))
    }

    fn wait_event(&self, key: &ObjectKey, wait: &Wait) -> Option<EventRecord> {
        cron_job::wait_event(&*self.cron_jobs.get(key)?, wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_identity::Revision;
    use serde_json::{Value, json};

    fn job(name: &str, status: &Value) -> Arc<JobView> {
        let json = json!({"metadata": {"name": name, "namespace": "ns"}, "spec": {"template": {}}, "status": status});
        Arc::new(JobView::decode(json.to_string().as_bytes(), Revision(1)).expect("a Job"))
    }

    /// The status of a Job changes with each of its pods, and a CronJob can have thousands of them.
    #[test]
    fn progress_of_a_job_makes_no_plan() {
        let matters = |old: Value, new: Value| matters(&Delta { old: Some(job("c-1", &old)), new: Some(job("c-1", &new)) });
        let started = json!({"startTime": "2026-11-29T10:00:00Z", "active": 1});
        assert!(matters(json!({}), started.clone()));
        assert!(!matters(started.clone(), json!({"startTime": "2026-11-29T10:00:00Z", "active": 3, "ready": 2, "failed": 1})));
        let interim = json!({"startTime": "2026-11-29T10:00:00Z", "conditions": [{"type": "SuccessCriteriaMet", "status": "True"}]});
        assert!(!matters(started.clone(), interim));
        assert!(matters(started, json!({"startTime": "2026-11-29T10:00:00Z", "conditions": [{"type": "Failed", "status": "True"}]})));
    }

    #[test]
    fn a_job_is_named_after_its_cron_job() {
        assert_eq!(["c-1", "a-b-29932443", "c-x", "c", "c-1x"].map(named_after), [Some("c"), Some("a-b"), None, None, None]);
    }
}
