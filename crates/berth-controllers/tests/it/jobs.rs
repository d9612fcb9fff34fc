//! Jobs: what their controller does with pods that a test ends, deletes and orphans.

use super::{Running, key};
use berth_api::Subresource;
use berth_controllers::cluster::{Cluster, DeleteParams};
use berth_workloads::{
    plan::Propagation,
    resources::{JOBS, PODS, QUOTAS},
};
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::sync::Arc;

/// No node is there: a test ends the pods.
const CONTROLLERS: &str = "job,garbagecollector,resourcequota";
const TRACKING: &str = "batch.kubernetes.io/job-tracking";

fn job(name: &str, spec: Value) -> Value {
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "main"}]}});
    let mut full = json!({"template": template});
    full.as_object_mut().expect("an object").extend(spec.as_object().expect("an object").clone());
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": full})
}

fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn is_terminating(pod: &Value) -> bool {
    !pod["metadata"]["deletionTimestamp"].is_null()
}

fn is_active(pod: &Value) -> bool {
    !is_terminating(pod) && !["Succeeded", "Failed"].contains(&text(pod, "/status/phase"))
}

impl Running {
    fn with_job(spec: Value) -> Self {
        let running = Self::start(CONTROLLERS);
        running.create(Some("default"), &job("sum", spec));
        running.settle();
        running
    }

    fn job(&self) -> Value {
        self.list(JOBS).into_iter().next().unwrap_or_default()
    }

    /// Names of active pods.
    fn active(&self) -> Vec<String> {
        self.list(PODS).iter().filter(|pod| is_active(pod)).map(|pod| text(pod, "/metadata/name").to_owned()).collect()
    }

    /// The containers of this pod end with this code.
    fn end(&self, pod: &str, code: i32) {
        let phase = if code == 0 { "Succeeded" } else { "Failed" };
        let (cluster, key, now) = (Arc::clone(&self.cluster), key(PODS, pod), self.test_env.env().clock.now());
        let at = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let terminated = json!({"exitCode": code, "finishedAt": at, "startedAt": at});
        let container =
            json!({"name": "main", "image": "main", "imageID": "", "restartCount": 0, "ready": false, "state": {"terminated": terminated}});
        let patch = json!({"status": {"phase": phase, "containerStatuses": [container]}});
        self.test_env.block_on(async move { cluster.patch(PODS, &key, Some(Subresource::Status), patch).await }).expect("it is there");
    }

    /// Ends all active pods.
    fn end_all(&self, code: i32) {
        self.active().iter().for_each(|pod| self.end(pod, code));
        self.settle();
    }

    /// The conditions that are true.
    fn conditions(&self) -> Vec<String> {
        let conditions = self.job()["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let is_true = |condition: &&Value| condition["status"] == "True";
        conditions.iter().filter(is_true).map(|condition| text(condition, "/type").to_owned()).collect()
    }

    fn tracked(&self) -> usize {
        let has = |pod: &&Value| pod["metadata"]["finalizers"].as_array().is_some_and(|finalizers| finalizers.contains(&json!(TRACKING)));
        self.list(PODS).iter().filter(has).count()
    }

    fn event_reasons(&self) -> Vec<String> {
        let mut reasons: Vec<String> = self.events().into_iter().map(|(reason, _)| reason).collect();
        reasons.sort();
        reasons
    }

    /// A node removes a pod at once.
    fn force_delete(&self, pod: &str) {
        let (cluster, key) = (Arc::clone(&self.cluster), key(PODS, pod));
        let params = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        self.test_env.block_on(async move { cluster.delete(PODS, &key, params).await }).expect("it is there");
        self.settle();
    }
}

#[test]
fn a_job_runs_its_pods_counts_each_and_completes() {
    let running = Running::with_job(json!({"completions": 3, "parallelism": 2}));
    assert_eq!((running.active().len(), running.tracked()), (2, 2));
    running.end_all(0);
    assert_eq!((running.active().len(), &running.job()["status"]["succeeded"]), (1, &json!(2)));
    running.end_all(0);
    let status = running.job()["status"].clone();
    assert_eq!((&status["succeeded"], &status["ready"], &status["uncountedTerminatedPods"]), (&json!(3), &json!(0), &json!({})));
    assert!(status["completionTime"].is_string() && status["startTime"].is_string(), "{status}");
    assert_eq!((running.conditions(), running.tracked()), (vec!["SuccessCriteriaMet".to_owned(), "Complete".to_owned()], 0));
    assert_eq!(running.event_reasons(), ["Completed", "SuccessfulCreate", "SuccessfulCreate", "SuccessfulCreate"]);
}

#[test]
fn pods_of_an_indexed_job_have_each_index_once() {
    let running = Running::with_job(json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed"}));
    let hostnames = |running: &Running| {
        let mut names: Vec<_> =
            running.list(PODS).iter().filter(|pod| is_active(pod)).map(|pod| text(pod, "/spec/hostname").to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(hostnames(&running), ["sum-0", "sum-1", "sum-2"]);
    let first = running.list(PODS).into_iter().find(|pod| text(pod, "/spec/hostname") == "sum-1").expect("a pod of index 1");
    running.end(text(&first, "/metadata/name"), 0);
    running.settle();
    assert_eq!((hostnames(&running).join(" ").as_str(), &running.job()["status"]["completedIndexes"]), ("sum-0 sum-2", &json!("1")));
    running.end_all(0);
    assert_eq!((&running.job()["status"]["completedIndexes"], running.active().len()), (&json!("0-2"), 0));
}

#[test]
fn failures_delay_pods_until_the_backoff_limit_ends_the_job() {
    let running = Running::with_job(json!({"backoffLimit": 1}));
    running.end(&running.active()[0], 3);
    running.test_env.run_for(SignedDuration::from_secs(5));
    assert_eq!(running.active().len(), 0, "the first failure delays for 10 s");
    running.settle();
    assert_eq!(running.active().len(), 1);
    running.end_all(3);
    assert_eq!(running.conditions(), ["FailureTarget", "Failed"]);
    assert_eq!((&running.job()["status"]["failed"], running.active().len(), running.tracked()), (&json!(2), 0, 0));
    assert!(running.event_reasons().contains(&"BackoffLimitExceeded".to_owned()), "{:?}", running.event_reasons());
}

/// Another process counts the failures of pods that are still there.
#[test]
fn a_restart_does_not_shorten_the_delay() {
    let running = Running::start("garbagecollector");
    let process = running.run_controllers_in_a_process(Arc::clone(&running.cluster) as Arc<dyn Cluster>, "job");
    running.create(Some("default"), &job("sum", json!({"backoffLimit": 6})));
    running.settle();
    for _ in 0..2 {
        running.end(&running.active()[0], 3);
        running.test_env.run_for(SignedDuration::from_secs(21));
    }
    running.end(&running.active()[0], 3);
    running.test_env.run_for(SignedDuration::from_secs(1));
    process.kill();
    let _restarted = running.run_controllers_in_a_process(Arc::clone(&running.cluster) as Arc<dyn Cluster>, "job");
    assert_eq!(running.active().len(), 0, "three failures delay for 40 s");
    running.settle();
    assert_eq!(running.active().len(), 1);
}

#[test]
fn a_suspended_job_has_no_pods_and_resumes() {
    let running = Running::with_job(json!({"parallelism": 2, "completions": 2}));
    running.patch(JOBS, "sum", json!({"spec": {"suspend": true}}));
    running.settle();
    assert_eq!((running.active().len(), running.tracked(), running.conditions()), (0, 0, vec!["Suspended".to_owned()]));
    assert!(running.job()["status"]["startTime"].is_null());
    running.patch(JOBS, "sum", json!({"spec": {"suspend": false}}));
    running.settle();
    assert_eq!((running.active().len(), running.conditions().len()), (2, 0));
    let reasons = running.event_reasons();
    assert!(["Suspended", "Resumed", "SuccessfulDelete"].iter().all(|reason| reasons.contains(&(*reason).to_owned())), "{reasons:?}");
}

#[test]
fn a_finished_job_expires_with_its_pods() {
    let running = Running::with_job(json!({"ttlSecondsAfterFinished": 30}));
    running.end_all(0);
    assert_eq!((running.list(JOBS).len(), running.list(PODS).len()), (1, 1));
    // Its deletion is a foreground deletion: the pods are deleted first.
    running.settle();
    running.settle();
    assert_eq!((running.list(JOBS).len(), running.list(PODS).len()), (0, 0));
}

#[test]
fn pods_of_a_deleted_job_lose_the_finalizer_however_it_is_deleted() {
    for propagation in [Propagation::Background, Propagation::Foreground, Propagation::Orphan] {
        let running = Running::with_job(json!({"parallelism": 2, "completions": 4}));
        running.end(&running.active()[0], 0);
        running.settle();
        running.delete(JOBS, "sum", Some(propagation));
        running.settle();
        let kept = if propagation == Propagation::Orphan { 3 } else { 0 };
        let pods = running.list(PODS).len();
        assert_eq!((running.list(JOBS).len(), running.tracked(), pods), (0, 0, kept), "{propagation:?}");
    }
}

/// The garbage collector can remove the owner of a pod before the Job has removed the finalizer.
#[test]
fn an_orphan_that_no_job_adopts_loses_the_finalizer() {
    let running = Running::with_job(json!({"parallelism": 1}));
    let pod = running.active().remove(0);
    running.patch(PODS, &pod, json!({"metadata": {"ownerReferences": null, "labels": {"batch.kubernetes.io/controller-uid": "other"}}}));
    running.settle();
    assert_eq!((running.tracked(), running.active().len()), (1, 2), "the Job has another pod, and the orphan is free");
    running.force_delete(&pod);
    assert_eq!(running.active().len(), 1);
}

#[test]
fn a_job_adopts_its_pods_back() {
    let running = Running::with_job(json!({"parallelism": 1}));
    let pod = running.active().remove(0);
    running.patch(PODS, &pod, json!({"metadata": {"ownerReferences": null, "finalizers": null}}));
    running.settle();
    assert_eq!((running.active(), running.tracked()), (vec![pod.clone()], 1));
    assert_eq!(running.list(PODS)[0]["metadata"]["ownerReferences"][0]["name"], "sum");
}

/// A Job whose pods terminate under the policy `Failed` replaces them only when they have ended.
#[test]
fn a_deleted_pod_is_replaced_at_the_time_of_the_policy() {
    for (policy, at_once) in [("TerminatingOrFailed", 1), ("Failed", 0)] {
        let running = Running::start(CONTROLLERS);
        let mut job = job("sum", json!({"podReplacementPolicy": policy}));
        // Without a node, a pod without a finalizer is deleted at once.
        job["spec"]["template"]["metadata"] = json!({"finalizers": ["example.com/hold"]});
        running.create(Some("default"), &job);
        running.settle();
        let pod = running.active().remove(0);
        running.delete(PODS, &pod, None);
        running.settle();
        assert_eq!(running.active().len(), at_once, "{policy}");
    }
}

#[test]
fn a_job_of_another_controller_is_left_alone() {
    let running = Running::with_job(json!({"managedBy": "example.com/queue"}));
    assert_eq!((running.list(PODS).len(), running.job()["status"].clone()), (0, json!({})));
}

#[test]
fn a_quota_holds_pods_of_a_job_back_until_it_gains_room() {
    let running = Running::start(CONTROLLERS);
    running.create(Some("default"), &super::quota("1"));
    running.settle();
    running.create(Some("default"), &job("sum", json!({"parallelism": 3, "completions": 3})));
    running.settle();
    assert_eq!(running.active().len(), 1);
    running.patch(QUOTAS, "q", json!({"spec": {"hard": {"pods": "5"}}}));
    running.test_env.run_for(SignedDuration::from_secs(1));
    assert_eq!(running.active().len(), 3);
}

/// Pods that are no pods of Jobs wake no Job, and cost its cache nothing.
#[test]
fn a_pod_of_another_controller_is_no_pod_of_a_job() {
    let running = Running::start("job,deployment,replicaset");
    running.create(Some("default"), &super::deployment("web", 3));
    running.create(Some("default"), &job("sum", json!({"completions": 1})));
    running.settle();
    assert_eq!(running.active().len(), 4);
    running.active().iter().filter(|pod| pod.starts_with("sum-")).for_each(|pod| running.end(pod, 0));
    running.settle();
    assert_eq!((running.active().len(), running.job()["status"]["succeeded"].clone()), (3, json!(1)));
}
