//! A model cluster with one Job: objects as JSON, and no time but what a test sets. Each write is checked against what must hold at every moment.

use crate::cluster_model::{Patience, Stored, merge, read_back};
use berth_identity::{ObjectRef, Revision};
use berth_workloads::{
    Action, Plan,
    job::{self, JobState, backoff::FailureStreak, counted_end, failure_policy::verdict, indexes::Indexes},
    plan::Outcome,
    resources::{JOBS, PODS},
    view::{CompletionMode, JobPodView, JobView, PodPhase, PodReplacement},
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// One Job `sum` and its pods.
#[derive(Clone, Debug)]
pub(crate) struct JobModel {
    pub(crate) job: Stored,
    pub(crate) pods: BTreeMap<String, Stored>,
    pub(crate) now: Timestamp,
    /// Reasons and messages.
    pub(crate) events: Vec<(String, String)>,
    /// With deferred writes.
    pub(crate) patience: Patience,
    /// Whether the API server rejects new pods.
    pub(crate) is_full: bool,
    /// Whether the Job was deleted.
    pub(crate) is_job_gone: bool,
    past: FailureStreak,
    /// What the controller's caches show.
    cache: Option<Cache>,
    counted: Counted,
    writes: u64,
}

#[derive(Clone, Debug)]
struct Cache {
    job: Arc<JobView>,
    pods: Vec<Arc<JobPodView>>,
    past: FailureStreak,
}

/// Uids that a status has ever listed, and the highest counts that it had.
#[derive(Clone, Debug, Default)]
struct Counted {
    succeeded: BTreeSet<String>,
    failed: BTreeSet<String>,
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

impl JobModel {
    /// A cluster with a Job of this spec.
    pub(crate) fn new(spec: &Value) -> Self {
        let labels = json!({"batch.kubernetes.io/controller-uid": "uid-sum", "batch.kubernetes.io/job-name": "sum"});
        let container = json!({"name": "main", "image": "sum"});
        let mut full = json!({
            "parallelism": 1, "completionMode": "NonIndexed", "suspend": false, "podReplacementPolicy": "TerminatingOrFailed",
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "uid-sum"}},
            "template": {"metadata": {"labels": labels}, "spec": {"restartPolicy": "Never", "containers": [container]}},
        });
        merge(&mut full, spec);
        let metadata = json!({"name": "sum", "namespace": "ns", "uid": "uid-sum", "generation": 1});
        let json = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": full});
        Self {
            job: Stored::new(json, Revision(1)),
            pods: BTreeMap::new(),
            now: Timestamp::from_second(1_000_000).expect("a time"),
            events: Vec::new(),
            patience: Patience::default(),
            is_full: false,
            is_job_gone: false,
            past: FailureStreak::default(),
            cache: None,
            counted: Counted::default(),
            writes: 1,
        }
    }

    pub(crate) fn view(&self) -> Arc<JobView> {
        self.job.view()
    }

    pub(crate) fn pod_views(&self) -> Vec<Arc<JobPodView>> {
        self.pods.values().map(Stored::view).collect()
    }

    /// The plan of what the caches show now.
    pub(crate) fn plan(&self) -> Plan {
        self.plan_of(&self.fresh())
    }

    fn fresh(&self) -> Cache {
        let is_kept = |pod: &Arc<JobPodView>| pod.is_tracked() || !pod.pod.phase.is_finished() || pod.pod.meta.controller().is_none();
        Cache { job: self.view(), pods: self.pod_views().into_iter().filter(is_kept).collect(), past: self.past.clone() }
    }

    fn plan_of(&self, cache: &Cache) -> Plan {
        let Cache { job, pods, past } = cache.clone();
        let state = JobState { job, pods, past, now: self.now };
        let plan = job::plan(&state);
        let mut read = read_back(state);
        assert_eq!(job::plan(&read), plan, "a state that is written and read back");
        read.pods.reverse();
        assert_eq!(job::plan(&read), plan, "pods in another order");
        read_back(plan)
    }

    /// Reconciles. The controller dies after `limit` writes, if there are as many. A lagging cache shows what it showed when the controller wrote last.
    pub(crate) fn reconcile(&mut self, limit: usize, is_lagging: bool) {
        let cache = self.cache.take().filter(|_| is_lagging).unwrap_or_else(|| self.fresh());
        let plan = self.plan_of(&cache);
        let writes = self.writes;
        let executed = self.execute(plan, limit, &cache.job);
        match executed {
            // After its own writes, a controller waits until the caches show them.
            Executed::All | Executed::Failed if writes == self.writes && executed == Executed::All => self.cache = Some(cache),
            Executed::All | Executed::Failed => self.cache = None,
            Executed::Died => self.restart(),
        }
    }

    /// The caches show everything until the controller reconciles again.
    pub(crate) fn sync(&mut self) {
        self.cache = Some(self.fresh());
    }

    /// Another controller takes over. It knows what a list shows.
    fn restart(&mut self) {
        self.cache = None;
        self.past = FailureStreak::default();
        let replacement = self.view().choices.replacement;
        for pod in self.pod_views() {
            counted_end(None, Some(&pod), replacement).into_iter().for_each(|end| self.past.take_in(end));
        }
    }

    fn execute(&mut self, plan: Plan, limit: usize, planned: &JobView) -> Executed {
        self.events.extend(plan.events.iter().map(|event| (event.reason.to_string(), event.message.clone())));
        let mut left = limit;
        let mut all: Vec<Vec<Action>> = plan.stages.into_iter().map(|stage| stage.actions).collect();
        let mut flat: Vec<Action> = all.iter().flatten().cloned().collect();
        self.patience.leave_out(&mut flat);
        all.iter_mut().for_each(|stage| stage.retain(|action| flat.contains(action)));
        for stage in all {
            let mut executed = Executed::All;
            for action in stage {
                match self.act(action, &mut left, planned) {
                    Executed::All => (),
                    Executed::Failed => executed = Executed::Failed,
                    Executed::Died => return Executed::Died,
                }
            }
            if executed == Executed::Failed {
                return executed;
            }
        }
        Executed::All
    }

    fn act(&mut self, action: Action, left: &mut usize, planned: &JobView) -> Executed {
        let mut may_write = || {
            let may = 0 < *left;
            *left = left.saturating_sub(1);
            may
        };
        match action {
            Action::ConfirmAlive { .. } => return if self.is_job_gone { Executed::Failed } else { Executed::All },
            Action::ConfirmGone { .. } => return if self.is_job_gone { Executed::All } else { Executed::Failed },
            Action::Patch { target, patch, events, .. } => {
                if !may_write() {
                    return Executed::Died;
                }
                return self.patch(&target, &patch, &events);
            }
            Action::Delete { target, .. } => {
                if !may_write() {
                    return Executed::Died;
                }
                if target.resource_version != Some(self.job.revision) {
                    return Executed::Failed;
                }
                self.is_job_gone = true;
            }
            Action::CreatePods { template, count, .. } => {
                for _ in 0..count {
                    if !may_write() {
                        return Executed::Died;
                    }
                    if self.is_full {
                        return Executed::Failed;
                    }
                    self.create_pod(&template, planned);
                }
            }
            Action::DeletePods { victims, .. } => {
                for pod in victims.iter().flat_map(|victims| &victims.pods) {
                    if !may_write() {
                        return Executed::Died;
                    }
                    self.delete(&pod.key.name);
                }
            }
            other => panic!("not for Jobs: {other:?}"),
        }
        Executed::All
    }

    fn patch(&mut self, target: &ObjectRef, patch: &Value, events: &Outcome) -> Executed {
        let stored = match &target.resource {
            job if *job == JOBS => Some(&self.job),
            pod if *pod == PODS => self.pods.get(&*target.key.name),
            other => panic!("not for Jobs: {other:?}"),
        };
        let Some(stored) = stored.filter(|stored| target.resource_version == Some(stored.revision)) else { return Executed::Failed };
        let before = stored.clone();
        if target.resource == JOBS {
            self.edit(patch);
            self.check_status(&before, &self.job.clone());
        } else {
            self.edit_pod(&target.key.name.clone(), patch);
            let is_released = before.view::<JobPodView>().is_tracked() && !self.is_tracked(&target.key.name);
            if is_released {
                self.check_release(&before.view());
            }
            self.remove_if_ended(&target.key.name);
        }
        self.events.extend(events.success.iter().map(|event| (event.reason.to_string(), event.message.clone())));
        Executed::All
    }

    fn is_tracked(&self, name: &str) -> bool {
        self.pods.get(name).is_some_and(|pod| pod.view::<JobPodView>().is_tracked())
    }

    /// Changes the Job, as a client or as the controller.
    pub(crate) fn edit(&mut self, patch: &Value) {
        self.writes += 1;
        merge(&mut self.job.json, patch);
        self.job.revision = Revision(self.writes);
    }

    /// Changes a pod.
    pub(crate) fn edit_pod(&mut self, name: &str, patch: &Value) {
        let old = self.pods[name].view();
        self.writes += 1;
        let pod = self.pods.get_mut(name).expect("a pod of this name");
        merge(&mut pod.json, patch);
        pod.revision = Revision(self.writes);
        let new = pod.view();
        self.take_in(&old, Some(&new));
    }

    fn take_in(&mut self, old: &JobPodView, new: Option<&JobPodView>) {
        let end = counted_end(Some(old), new, self.view().choices.replacement);
        end.into_iter().for_each(|end| self.past.take_in(end));
    }

    fn create_pod(&mut self, template: &Pod, planned: &JobView) {
        self.writes += 1;
        let name = format!("{}{:05}", template.metadata.generate_name.as_deref().expect("a prefix"), self.writes);
        let mut json = serde_json::to_value(template).expect("JSON");
        merge(&mut json["metadata"], &json!({"name": name, "uid": format!("uid-{name}"), "creationTimestamp": self.now.to_string()}));
        json["status"] = json!({"phase": "Pending"});
        self.pods.insert(name.clone(), Stored::new(json, Revision(self.writes)));
        self.check_creation(&self.pods[&name].view(), planned);
    }

    /// Deletes a pod, as a client or as the controller. It disappears when it has ended and has no finalizer.
    pub(crate) fn delete(&mut self, name: &str) {
        if self.pods.get(name).is_some_and(|pod| pod.json["metadata"]["deletionTimestamp"].is_null()) {
            let until = self.now + SignedDuration::from_secs(30);
            self.edit_pod(name, &json!({"metadata": {"deletionTimestamp": until.to_string(), "deletionGracePeriodSeconds": 30}}));
        }
        self.remove_if_ended(name);
    }

    fn remove_if_ended(&mut self, name: &str) {
        let Some(pod) = self.pods.get(name).map(Stored::view::<JobPodView>) else { return };
        if pod.pod.meta.deleted.is_some() && pod.pod.phase.is_finished() && pod.finalizers.is_empty() {
            self.remove(name);
        }
    }

    /// A pod disappears: by force, or because it has ended.
    fn remove(&mut self, name: &str) {
        let pod = self.pods.remove(name).expect("a pod of this name").view();
        self.writes += 1;
        self.take_in(&pod, None);
    }

    /// The pod's node is lost: it disappears without an end, unless a finalizer keeps it.
    pub(crate) fn force_delete(&mut self, name: &str) {
        self.delete(name);
        if self.pods.get(name).is_some_and(|pod| pod.view::<JobPodView>().finalizers.is_empty()) {
            self.remove(name);
        }
    }

    /// The pod is bound, runs and is ready.
    pub(crate) fn start(&mut self, name: &str) {
        let ready = json!([{"type": "Ready", "status": "True", "lastTransitionTime": self.now.to_string()}]);
        self.report(name, json!({"phase": "Running", "conditions": ready}));
        if self.pods.contains_key(name) {
            self.edit_pod(name, &json!({"spec": {"nodeName": "n1"}}));
        }
    }

    /// The pod's containers end with this code: 0 is a success.
    pub(crate) fn end(&mut self, name: &str, code: i32, is_disrupted: bool) {
        let terminated = json!({"exitCode": code, "finishedAt": self.now.to_string()});
        let status = json!([{"name": "main", "restartCount": 0, "state": {"terminated": terminated}}]);
        let disrupted = json!([{"type": "DisruptionTarget", "status": "True"}]);
        let conditions = if is_disrupted { disrupted } else { json!([]) };
        let phase = if code == 0 { "Succeeded" } else { "Failed" };
        self.report(name, json!({"phase": phase, "conditions": conditions, "containerStatuses": status}));
        self.remove_if_ended(name);
    }

    /// A node reports on a pod that has not ended.
    fn report(&mut self, name: &str, status: Value) {
        if self.pods.get(name).is_some_and(|pod| !pod.view::<JobPodView>().pod.phase.is_finished()) {
            self.edit_pod(name, &json!({"status": status}));
        }
    }

    /// Names of pods in this state.
    pub(crate) fn names(&self, is_meant: impl Fn(&JobPodView) -> bool) -> Vec<String> {
        self.pods.iter().filter(|(_, pod)| is_meant(&pod.view::<JobPodView>())).map(|(name, _)| name.clone()).collect()
    }

    pub(crate) fn active(&self) -> Vec<String> {
        self.names(|pod| is_own(pod) && pod.pod.is_active())
    }

    pub(crate) fn terminating(&self) -> Vec<String> {
        self.names(|pod| is_own(pod) && pod.pod.is_terminating())
    }

    /// The status of a condition; empty if there is none.
    pub(crate) fn condition(&self, type_: &str) -> String {
        condition(&self.job.json["status"], type_)
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.condition("Complete") == "True" || self.condition("Failed") == "True"
    }

    /// Reconciles until no write is left, also of deferred ones.
    pub(crate) fn rest(&mut self) {
        for _ in 0..60 {
            self.cache = None;
            if self.plan().is_idle() {
                return;
            }
            self.reconcile(usize::MAX, false);
        }
        panic!("no rest: {}\n{}", self.plan(), self.short());
    }

    /// Lets nodes and time continue until the Job is finished or suspended: each pod ends with this code.
    pub(crate) fn run_to_end(&mut self, code: i32) {
        for _ in 0..200 {
            self.rest();
            let (active, terminating) = (self.active(), self.terminating());
            if self.is_job_gone
                || active.is_empty() && terminating.is_empty() && (self.is_finished() || self.condition("Suspended") == "True")
            {
                return;
            }
            terminating.iter().for_each(|name| self.end(name, 137, false));
            active.iter().for_each(|name| self.end(name, code, false));
            if active.is_empty() && terminating.is_empty() {
                self.now = self.plan().requeue_at.unwrap_or_else(|| panic!("nothing happens: {}", self.short())).max(self.now);
            }
        }
        panic!("no end: {}", self.short());
    }

    /// For messages of failures.
    pub(crate) fn short(&self) -> String {
        let pods = self.pod_views().into_iter().map(|pod| {
            let meta = &pod.pod.meta;
            format!(
                "{} {:?} deleted={} tracked={} index={:?}",
                meta.name,
                pod.pod.phase,
                meta.deleted.is_some(),
                pod.is_tracked(),
                pod.index
            )
        });
        format!("{} {}\n{}", self.job.json["spec"], self.job.json["status"], pods.collect::<Vec<_>>().join("\n"))
    }

    // What must hold.

    /// `planned`: the Job as the plan saw it.
    fn check_creation(&self, new: &JobPodView, planned: &JobView) {
        let (active, terminating) = (self.active().len(), self.terminating().len());
        let waits = planned.choices.replacement == PodReplacement::Failed;
        let occupied = active + if waits { terminating } else { 0 };
        let parallelism = usize::try_from(planned.spec.parallelism.unwrap_or(1)).expect("not negative");
        assert!(occupied <= parallelism, "{occupied} pods, parallelism {parallelism}: {}", self.short());
        let is_ended = |type_| condition(&self.job.json["status"], type_) == "True";
        let ended = ["Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"].into_iter().find(|type_| is_ended(type_));
        assert_eq!(ended, None, "a new pod of a Job that ends: {}", self.short());
        assert_ne!(planned.spec.suspend, Some(true), "a new pod of a suspended Job");
        assert!(new.is_tracked() && is_own(new), "{new:?}");
        if planned.choices.mode == Ok(CompletionMode::Indexed) {
            self.check_index(new, waits);
        } else if let Some(completions) = planned.spec.completions {
            let uncounted = self.names(|pod| {
                pod.is_tracked() && pod.pod.phase == PodPhase::Succeeded && !self.counted.succeeded.contains(pod.uid().as_str())
            });
            let all = active + uncounted.len() + self.counted.succeeded.len();
            assert!(all <= usize::try_from(completions).expect("not negative"), "more pods than completions: {}", self.short());
        }
    }

    fn check_index(&self, new: &JobPodView, waits: bool) {
        let index = new.index.expect("an index");
        let completed = self.indexes("completedIndexes");
        assert!(!completed.contains(index), "index {index} again after its success: {}", self.short());
        assert!(!self.indexes("failedIndexes").contains(index), "index {index} again after its failure: {}", self.short());
        let others = self.names(|pod| {
            let is_other = is_own(pod) && pod.index == Some(index) && pod.uid() != new.uid();
            let holds =
                pod.pod.is_active() || waits && pod.pod.is_terminating() || pod.is_tracked() && pod.pod.phase == PodPhase::Succeeded;
            is_other && holds
        });
        assert_eq!(others, [""; 0], "index {index} has two pods: {}", self.short());
        assert_eq!(self.pods[&*new.pod.meta.name].json["spec"]["hostname"], format!("sum-{index}"));
    }

    fn indexes(&self, field: &str) -> Indexes {
        Indexes::parse(self.job.json["status"][field].as_str().unwrap_or_default(), u32::MAX)
    }

    /// Every pod that loses the finalizer is in the status, unless it does not count.
    fn check_release(&self, pod: &JobPodView) {
        let uid = pod.uid().as_str();
        let is_listed = self.counted.succeeded.contains(uid) || self.counted.failed.contains(uid);
        let is_completed =
            pod.pod.phase == PodPhase::Succeeded && pod.index.is_some_and(|index| self.indexes("completedIndexes").contains(index));
        let is_ignored = !verdict(self.view().spec.pod_failure_policy.as_ref(), pod).is_counted();
        let does_not_count = !is_own(pod) || !pod.pod.phase.is_finished() || is_ignored || self.is_finished();
        assert!(is_listed || is_completed || does_not_count, "{} is lost: {}", pod.pod.meta.name, self.short());
        let is_job_deleted = !self.job.json["metadata"]["deletionTimestamp"].is_null();
        let is_waiting = is_own(pod)
            && !is_job_deleted
            && self.view().choices.replacement == PodReplacement::Failed
            && pod.pod.is_terminating()
            && !is_listed;
        let is_success = self.condition("SuccessCriteriaMet") == "True";
        assert!(!is_waiting || is_success || self.is_finished(), "{} has not ended: {}", pod.pod.meta.name, self.short());
    }

    /// Each uid is listed once, each listed uid becomes one count, and no count decreases.
    fn check_status(&mut self, old: &Stored, new: &Stored) {
        let (old, new) = (&old.json["status"], &new.json["status"]);
        let listed = |status: &Value, field: &str| -> BTreeSet<String> {
            let list = status["uncountedTerminatedPods"][field].as_array().cloned().unwrap_or_default();
            let uids: BTreeSet<_> = list.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            assert_eq!(uids.len(), list.len(), "listed twice: {list:?}");
            uids
        };
        let number = |status: &Value, field: &str| usize::try_from(status[field].as_u64().unwrap_or(0)).expect("few");
        for (field, ever) in [("succeeded", &mut self.counted.succeeded), ("failed", &mut self.counted.failed)] {
            let (before, after) = (listed(old, field), listed(new, field));
            for uid in after.difference(&before) {
                assert!(ever.insert(uid.clone()), "{uid} is counted twice: {new}");
            }
            assert!(number(old, field) <= number(new, field), "{field} decreases: {old} {new}");
            let is_by_index = field == "succeeded" && self.job.json["spec"]["completionMode"] == "Indexed";
            if !is_by_index {
                assert_eq!(number(new, field) + after.len(), ever.len(), "{field}: {new}");
            }
        }
        assert!(self.counted.succeeded.is_disjoint(&self.counted.failed), "both succeeded and failed: {new}");
        for field in ["completedIndexes", "failedIndexes"] {
            let read = |status: &Value| Indexes::parse(status[field].as_str().unwrap_or_default(), u32::MAX);
            assert_eq!(read(old).union(&read(new)), read(new), "{field}: {old} {new}");
        }
        assert_eq!(self.indexes("completedIndexes").overlap(&self.indexes("failedIndexes")), 0, "{new}");
        if self.is_finished() {
            self.check_end(new);
        }
    }

    /// A Job is finished when all its pods have ended and are counted.
    fn check_end(&self, status: &Value) {
        let interim = if self.condition("Complete") == "True" { "SuccessCriteriaMet" } else { "FailureTarget" };
        assert_eq!(self.condition(interim), "True", "{status}");
        assert!(self.condition("Complete") != self.condition("Failed"), "{status}");
        assert_eq!(status["uncountedTerminatedPods"], json!({}), "{status}");
        let open = self.names(|pod| is_own(pod) && (pod.is_tracked() || !pod.pod.phase.is_finished()));
        // A lagging cache may not show yet that a pod has been bound or has started. It shows each pod, and that it has ended.
        assert_eq!(open, [""; 0], "not ended or not counted: {}", self.short());
    }
}

/// Whether the Job controls the pod.
pub(crate) fn is_own(pod: &JobPodView) -> bool {
    pod.pod.meta.is_controlled_by(&"uid-sum".into())
}

fn condition(status: &Value, type_: &str) -> String {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let found: Vec<_> = conditions.filter(|condition| condition["type"] == type_).collect();
    assert!(found.len() <= 1, "{type_} twice: {status}");
    found.first().and_then(|condition| condition["status"].as_str()).unwrap_or_default().to_owned()
}
