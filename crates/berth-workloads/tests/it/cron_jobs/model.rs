//! A model cluster with one CronJob: objects as JSON, and no time but what a test sets. Each write is checked against what must hold at every moment.

use crate::cluster_model::{Stored, merge, read_back};
use berth_api::cron::Schedule;
use berth_identity::Revision;
use berth_workloads::{
    Action, Plan,
    cron_job::{self, CronJobState, end_of, scheduled_at},
    resources::{CRON_JOBS, JOBS},
    view::{Concurrency, CronJobView, JobView},
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// One CronJob `c` and the Jobs of its namespace.
#[derive(Clone, Debug)]
pub(crate) struct CronJobModel {
    pub(crate) cron_job: Stored,
    pub(crate) jobs: BTreeMap<String, Stored>,
    pub(crate) now: Timestamp,
    /// Whether the API server rejects new Jobs.
    pub(crate) is_full: bool,
    /// The times of all Jobs that the controller ever created.
    pub(crate) started: BTreeSet<Timestamp>,
    /// What the controller's caches show.
    cache: Option<Cache>,
    writes: u64,
}

#[derive(Clone, Debug)]
struct Cache {
    cron_job: Arc<CronJobView>,
    jobs: Vec<Arc<JobView>>,
}

/// How a reconcile ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Executed {
    All,
    /// An action failed, and the stages after it did not start.
    Failed,
    /// The controller died.
    Died,
}

impl CronJobModel {
    /// A cluster with a CronJob of this spec, which was created now.
    pub(crate) fn new(spec: &Value, now: Timestamp) -> Self {
        let template = json!({"spec": {"template": {"spec": {"containers": []}}}});
        let mut full = json!({
            "schedule": "* * * * *", "concurrencyPolicy": "Allow", "suspend": false, "jobTemplate": template,
            "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1,
        });
        merge(&mut full, spec);
        let metadata = json!({"name": "c", "namespace": "ns", "uid": "uid-c", "generation": 1, "creationTimestamp": now});
        let json = json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": full, "status": {}});
        Self {
            cron_job: Stored::new(json, Revision(1)),
            jobs: BTreeMap::new(),
            now,
            is_full: false,
            started: BTreeSet::new(),
            cache: None,
            writes: 1,
        }
    }

    pub(crate) fn view(&self) -> Arc<CronJobView> {
        self.cron_job.view()
    }

    pub(crate) fn job_views(&self) -> Vec<Arc<JobView>> {
        self.jobs.values().map(Stored::view).collect()
    }

    /// Jobs that the controller created and controls, and that have not ended.
    pub(crate) fn running(&self) -> Vec<Arc<JobView>> {
        let runs = |job: &Arc<JobView>| is_own(job) && end_of(job).is_none() && scheduled_at("c", job).is_some();
        self.job_views().into_iter().filter(runs).collect()
    }

    pub(crate) fn schedule(&self) -> Schedule {
        self.view().choices.schedule.clone().expect("schedules of these tests are valid")
    }

    pub(crate) fn last(&self) -> Option<Timestamp> {
        self.view().status.last_schedule_time.as_ref().map(|time| time.0)
    }

    /// The plan of what the caches show now.
    pub(crate) fn plan(&self) -> Plan {
        self.plan_of(&self.fresh())
    }

    fn fresh(&self) -> Cache {
        Cache { cron_job: self.view(), jobs: self.job_views() }
    }

    fn plan_of(&self, cache: &Cache) -> Plan {
        let Cache { cron_job, jobs } = cache.clone();
        let own = jobs.iter().filter(|job| is_own(job)).cloned().collect();
        let state = CronJobState::new(cron_job, own, self.now, |name| jobs.iter().any(|job| job.meta.name == name));
        let plan = cron_job::plan(&state);
        let mut read = read_back(state);
        assert_eq!(cron_job::plan(&read), plan, "a state that is written and read back");
        read.jobs.reverse();
        assert_eq!(cron_job::plan(&read), plan, "Jobs in another order");
        read_back(plan)
    }

    /// Reconciles. The controller dies after `limit` writes, if there are as many. A lagging cache shows what it showed when the controller wrote last.
    pub(crate) fn reconcile(&mut self, limit: usize, is_lagging: bool) {
        let cache = self.cache.take().filter(|_| is_lagging).unwrap_or_else(|| self.fresh());
        let plan = self.plan_of(&cache);
        let writes = self.writes;
        if self.execute(plan, limit, &cache.cron_job) == Executed::All && writes == self.writes {
            self.cache = Some(cache);
        }
    }

    /// The caches show everything until the controller reconciles again.
    pub(crate) fn sync(&mut self) {
        self.cache = Some(self.fresh());
    }

    fn execute(&mut self, plan: Plan, limit: usize, planned: &CronJobView) -> Executed {
        let mut left = limit;
        for stage in plan.stages {
            let mut executed = Executed::All;
            for action in stage.actions {
                if left == 0 {
                    return Executed::Died;
                }
                left -= 1;
                if self.act(action, planned) == Executed::Failed {
                    executed = Executed::Failed;
                }
            }
            if executed == Executed::Failed {
                return executed;
            }
        }
        Executed::All
    }

    fn act(&mut self, action: Action, planned: &CronJobView) -> Executed {
        match action {
            Action::Patch { target, patch, .. } => {
                assert_eq!(target.resource, CRON_JOBS);
                if target.resource_version != Some(self.cron_job.revision) {
                    return Executed::Failed;
                }
                let before = self.last();
                self.edit(&patch);
                assert!(before <= self.last(), "the last time decreases: {}", self.short());
            }
            Action::Create { object, .. } => {
                let json = object.as_object().to_value();
                let name = json["metadata"]["name"].as_str().expect("a name").to_owned();
                if self.is_full || self.jobs.contains_key(&name) {
                    return Executed::Failed;
                }
                self.add_job(&name, json);
                self.check_creation(&name, planned);
            }
            Action::Delete { target, .. } => {
                assert_eq!((&target.resource, &target.resource_version), (&JOBS, &None));
                self.check_deletion(&target.key.name, planned);
                self.delete(&target.key.name);
            }
            other => panic!("not for CronJobs: {other:?}"),
        }
        Executed::All
    }

    /// Changes the CronJob, as a client or as the controller.
    pub(crate) fn edit(&mut self, patch: &Value) {
        self.writes += 1;
        merge(&mut self.cron_job.json, patch);
        self.cron_job.revision = Revision(self.writes);
    }

    fn add_job(&mut self, name: &str, mut json: Value) {
        self.writes += 1;
        merge(&mut json["metadata"], &json!({"uid": format!("uid-{name}-{}", self.writes), "creationTimestamp": whole(self.now)}));
        json["status"] = json!({"startTime": whole(self.now)});
        self.jobs.insert(name.to_owned(), Stored::new(json, Revision(self.writes)));
    }

    /// A client creates a Job with the CronJob as its controller.
    pub(crate) fn create_by_hand(&mut self) {
        let owner = json!([{"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": "uid-c", "controller": true}]);
        let name = format!("by-hand-{}", self.writes);
        self.add_job(&name, json!({"metadata": {"name": name, "namespace": "ns", "ownerReferences": owner}, "spec": {"template": {}}}));
    }

    fn edit_job(&mut self, name: &str, patch: &Value) {
        self.writes += 1;
        let job = self.jobs.get_mut(name).expect("a Job of this name");
        merge(&mut job.json, patch);
        job.revision = Revision(self.writes);
    }

    pub(crate) fn end(&mut self, name: &str, condition: &str) {
        if end_of(&self.jobs[name].view()).is_none() {
            let conditions = json!([{"type": condition, "status": "True"}]);
            let completion = if condition == "Complete" { json!(whole(self.now)) } else { json!(null) };
            self.edit_job(name, &json!({"status": {"conditions": conditions, "completionTime": completion}}));
        }
    }

    /// A client removes the owner of a Job.
    pub(crate) fn release(&mut self, name: &str) {
        self.edit_job(name, &json!({"metadata": {"ownerReferences": null}}));
    }

    /// Deletes a Job, as a client or as the controller. One with a finalizer stays for a while.
    pub(crate) fn delete(&mut self, name: &str) {
        let Some(job) = self.jobs.get(name) else { return };
        if job.json["metadata"]["finalizers"].is_array() {
            self.edit_job(name, &json!({"metadata": {"deletionTimestamp": whole(self.now)}}));
        } else {
            self.writes += 1;
            self.jobs.remove(name);
        }
    }

    /// A finalizer holds a Job, or no longer.
    pub(crate) fn hold(&mut self, name: &str, is_held: bool) {
        let finalizers = if is_held { json!(["example.com/hold"]) } else { json!(null) };
        self.edit_job(name, &json!({"metadata": {"finalizers": finalizers}}));
        let is_terminating = !self.jobs[name].json["metadata"]["deletionTimestamp"].is_null();
        if !is_held && is_terminating {
            self.writes += 1;
            self.jobs.remove(name);
        }
    }

    /// Whether the controller has noted that the Job was started. A Job that disappears before that is started again, as upstream.
    pub(crate) fn is_noted(&self, name: &str) -> bool {
        scheduled_at("c", &self.jobs[name].view()).is_none_or(|at| Some(at) <= self.last())
    }

    /// Reconciles until no write is left.
    pub(crate) fn rest(&mut self) {
        for _ in 0..20 {
            self.cache = None;
            if self.plan().is_idle() {
                return;
            }
            self.reconcile(usize::MAX, false);
        }
        panic!("no rest: {}\n{}", self.plan(), self.short());
    }

    /// For messages of failures.
    pub(crate) fn short(&self) -> String {
        let jobs = self.job_views().into_iter().map(|job| {
            let end = end_of(&job).map(|end| end.type_.clone());
            format!("{} {end:?} own={} deleted={}", job.meta.name, is_own(&job), job.meta.deleted.is_some())
        });
        let (spec, status) = (&self.cron_job.json["spec"], &self.cron_job.json["status"]);
        format!("{} {spec} {status}\n{}", self.now, jobs.collect::<Vec<_>>().join("\n"))
    }

    // What must hold.

    /// `planned`: the CronJob as the plan saw it.
    fn check_creation(&mut self, name: &str, planned: &CronJobView) {
        let job: Arc<JobView> = self.jobs[name].view();
        let at = scheduled_at("c", &job).unwrap_or_else(|| panic!("no time: {job:?}"));
        assert!(self.started.insert(at), "{at} has a second Job: {}", self.short());
        let schedule = planned.choices.schedule.as_ref().expect("a schedule that can be read");
        let previous = at - SignedDuration::from_secs(1);
        let is_interval = planned.spec.schedule.starts_with('@');
        assert!(is_interval || schedule.next(previous) == Some(at), "{at} is no time of {}", planned.spec.schedule);
        assert!(at <= self.now && schedule.next(at).is_none_or(|next| self.now < next), "{at} is not the last time: {}", self.short());
        assert!(planned.spec.suspend != Some(true) && planned.meta.deleted.is_none(), "{}", self.short());
        let deadline = planned.spec.starting_deadline_seconds.map(SignedDuration::from_secs);
        assert!(deadline.is_none_or(|deadline| self.now.duration_since(at) < deadline), "too late: {}", self.short());
        let others = self.running().into_iter().filter(|other| *other.meta.name != *name);
        let others: Vec<_> = match planned.choices.concurrency {
            Concurrency::Allow => Vec::new(),
            Concurrency::Forbid => others.collect(),
            Concurrency::Replace => others.filter(|job| job.meta.deleted.is_none()).collect(),
        };
        assert!(others.is_empty(), "{name} runs beside another one: {}", self.short());
    }

    /// The controller deletes Jobs that have ended, and under `Replace` those that it created.
    fn check_deletion(&self, name: &str, planned: &CronJobView) {
        let Some(job) = self.jobs.get(name).map(Stored::view::<JobView>) else { return };
        let is_replaced = planned.choices.concurrency == Concurrency::Replace && scheduled_at("c", &job).is_some();
        assert!(end_of(&job).is_some() || is_replaced, "{name} is deleted: {}", self.short());
    }
}

/// Whether the CronJob controls the Job.
pub(crate) fn is_own(job: &JobView) -> bool {
    job.meta.is_controlled_by(&"uid-c".into())
}

fn whole(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).expect("in range")
}
