//! CronJobs: which Jobs their controller creates, counts and deletes. Time is virtual, so a test of hours takes moments.

use super::{Running, faulty::Faulty, key};
use berth_api::Subresource;
use berth_controllers::cluster::{Cluster, DeleteParams};
use berth_identity::ObjectKey;
use berth_workloads::{
    plan::Propagation,
    resources::{CRON_JOBS, EVENTS, JOBS, NAMESPACES, QUOTAS},
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::sync::Arc;

/// No node is there, and no controller of Jobs: a test ends the Jobs.
const CONTROLLERS: &str = "cronjob,garbagecollector,resourcequota";

fn cron_job(spec: Value) -> Value {
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "main", "image": "main"}]});
    let template = json!({"metadata": {"labels": {"app": "backup"}}, "spec": {"template": {"spec": pod}}});
    let mut full = json!({"schedule": "* * * * *", "jobTemplate": template});
    full.as_object_mut().expect("an object").extend(spec.as_object().expect("an object").clone());
    json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "backup"}, "spec": full})
}

fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn names(objects: &[Value]) -> Vec<String> {
    objects.iter().map(|object| text(object, "/name").to_owned()).collect()
}

impl Running {
    fn with_cron_job(spec: Value) -> Self {
        let running = Self::start(CONTROLLERS);
        running.create(Some("default"), &cron_job(spec));
        running
    }

    fn clock_now(&self) -> Timestamp {
        self.test_env.env().clock.now()
    }

    fn seconds(&self, seconds: i64) {
        self.test_env.run_for(SignedDuration::from_secs(seconds));
    }

    /// Half a second of the next minute is over.
    fn next_minute(&self) {
        let left = 60_500 - self.clock_now().as_millisecond().rem_euclid(60_000);
        self.test_env.run_for(SignedDuration::from_millis(left));
    }

    /// The name of the Job of the present minute, or of one before it.
    fn name(&self, minutes_ago: i64) -> String {
        format!("backup-{}", self.clock_now().as_second() / 60 - minutes_ago)
    }

    fn jobs(&self) -> Vec<String> {
        names(&self.list(JOBS).iter().map(|job| job["metadata"].clone()).collect::<Vec<_>>())
    }

    fn cron_job_status(&self) -> Value {
        self.list(CRON_JOBS).into_iter().next().unwrap_or_default()["status"].clone()
    }

    fn listed(&self) -> Vec<String> {
        names(self.cron_job_status()["active"].as_array().map_or(&[], Vec::as_slice))
    }

    /// The Job ends with this condition.
    fn end_job(&self, job: &str, condition: &str) {
        let at = self.clock_now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let conditions = ["SuccessCriteriaMet", "FailureTarget"];
        let interim = if condition == "Complete" { conditions[0] } else { conditions[1] };
        let condition = |type_: &str| json!({"type": type_, "status": "True", "lastTransitionTime": at});
        let mut status = json!({"startTime": at, "uncountedTerminatedPods": {}, "conditions": [condition(interim)]});
        self.patch_job_status(job, &status);
        let last = if interim == conditions[0] { "Complete" } else { "Failed" };
        status["conditions"] = json!([condition(interim), condition(last)]);
        if last == "Complete" {
            status["completionTime"] = json!(at);
            status["succeeded"] = json!(1);
        }
        self.patch_job_status(job, &status);
        self.seconds(1);
    }

    fn patch_job_status(&self, job: &str, status: &Value) {
        let (cluster, key, patch) = (Arc::clone(&self.cluster), key(JOBS, job), json!({"status": status}));
        self.test_env.block_on(async move { cluster.patch(JOBS, &key, Some(Subresource::Status), patch).await }).expect("a valid status");
    }

    /// Events as `reason: message`, without repetitions.
    fn cron_job_events(&self) -> Vec<String> {
        let mut events: Vec<String> = self.events().into_iter().map(|(reason, message)| format!("{reason}: {message}")).collect();
        events.sort();
        events.dedup();
        events
    }

    /// How often an event was recorded.
    fn count_events(&self, reason: &str) -> u64 {
        self.list(EVENTS).iter().filter(|event| event["reason"] == reason).filter_map(|event| event["count"].as_u64()).sum()
    }
}

#[test]
fn a_job_is_created_at_each_time_and_its_end_is_counted() {
    let running = Running::with_cron_job(json!({"timeZone": "Asia/Kathmandu"}));
    running.seconds(1);
    assert_eq!(running.jobs(), [""; 0]);
    running.next_minute();
    let first = running.name(0);
    assert_eq!((running.jobs(), running.listed()), (vec![first.clone()], vec![first.clone()]));
    let job = running.list(JOBS).remove(0);
    let owner = &job["metadata"]["ownerReferences"][0];
    assert_eq!((text(owner, "/kind"), text(owner, "/name"), &owner["controller"]), ("CronJob", "backup", &json!(true)));
    assert_eq!((text(&job, "/metadata/labels/app"), text(&job, "/spec/template/spec/restartPolicy")), ("backup", "Never"));
    // The defaults of a Job, as if a client had created it.
    assert_eq!((&job["spec"]["backoffLimit"], &job["spec"]["completionMode"]), (&json!(6), &json!("NonIndexed")));
    let annotation = text(&job, "/metadata/annotations/batch.kubernetes.io~1cronjob-scheduled-timestamp");
    let last = text(&running.cron_job_status(), "/lastScheduleTime").to_owned();
    assert!(annotation.ends_with(":00+05:45"), "{annotation}");
    assert_eq!(annotation.parse::<Timestamp>().ok(), last.parse().ok());
    running.next_minute();
    assert_eq!(running.listed(), [first.clone(), running.name(0)]);
    running.end_job(&first, "Complete");
    assert_eq!(running.listed(), [running.name(0)]);
    assert!(running.cron_job_status()["lastSuccessfulTime"].is_string());
    let events = [
        format!("SawCompletedJob: Saw completed job: {first}, condition: Complete"),
        format!("SuccessfulCreate: Created job {first}"),
        format!("SuccessfulCreate: Created job {}", running.name(0)),
    ];
    assert_eq!(running.cron_job_events(), events);
}

#[test]
fn forbid_starts_the_missed_time_when_the_job_before_it_has_ended() {
    let running = Running::with_cron_job(json!({"concurrencyPolicy": "Forbid"}));
    running.next_minute();
    let first = running.name(0);
    running.next_minute();
    running.next_minute();
    assert_eq!((running.jobs(), running.count_events("JobAlreadyActive")), (vec![first.clone()], 2));
    running.end_job(&first, "Failed");
    assert_eq!((running.jobs(), running.listed()), (vec![first, running.name(0)], vec![running.name(0)]));
    running.next_minute();
    assert_eq!(running.jobs().len(), 2);
}

#[test]
fn replace_deletes_the_job_that_runs() {
    let running = Running::with_cron_job(json!({"concurrencyPolicy": "Replace"}));
    running.next_minute();
    running.next_minute();
    assert_eq!((running.jobs(), running.listed()), (vec![running.name(0)], vec![running.name(0)]));
    let deleted = format!("SuccessfulDelete: Deleted job {}", running.name(1));
    assert!(running.cron_job_events().contains(&deleted) && running.count_events("MissingJob") == 0, "{:?}", running.cron_job_events());
}

#[test]
fn a_resumed_cron_job_starts_its_last_missed_time_within_the_deadline() {
    for (deadline, starts, reason) in
        [(json!(null), true, "TooManyMissedTimes"), (json!(600), true, "SuccessfulCreate"), (json!(5), false, "MissSchedule")]
    {
        let running = Running::with_cron_job(json!({"suspend": true, "startingDeadlineSeconds": deadline}));
        running.seconds(3 * 3600);
        running.next_minute();
        running.seconds(20);
        assert_eq!(running.jobs(), [""; 0]);
        running.patch(CRON_JOBS, "backup", json!({"spec": {"suspend": false}}));
        running.seconds(1);
        let wanted = if starts { vec![running.name(0)] } else { vec![] };
        assert_eq!((running.jobs(), running.count_events(reason)), (wanted, 1), "{deadline}");
        running.next_minute();
        assert!(running.jobs().contains(&running.name(0)), "{deadline}");
    }
}

#[test]
fn finished_jobs_beyond_the_limits_are_deleted() {
    let running = Running::with_cron_job(json!({"successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 0}));
    for condition in ["Complete", "Failed", "Complete"] {
        running.next_minute();
        running.end_job(&running.name(0), condition);
    }
    assert_eq!((running.jobs(), running.listed()), (vec![running.name(0)], vec![]));
    assert_eq!(running.count_events("SuccessfulDelete"), 2);
    // A failed Job is deleted at once, so no event reports that the controller saw its end.
    assert_eq!((running.count_events("SawCompletedJob"), running.count_events("MissingJob")), (2, 0));
}

#[test]
fn a_job_that_disappears_is_not_created_again() {
    let running = Running::with_cron_job(json!({"concurrencyPolicy": "Forbid"}));
    running.next_minute();
    running.delete(JOBS, &running.name(0), Some(Propagation::Background));
    running.seconds(5);
    assert_eq!((running.jobs(), running.listed(), running.count_events("MissingJob")), (vec![], vec![], 1));
    running.next_minute();
    assert_eq!(running.jobs(), [running.name(0)]);
    // A Job that the CronJob does not control any more does not count, and is not adopted.
    running.patch(JOBS, &running.name(0), json!({"metadata": {"ownerReferences": null}}));
    running.seconds(1);
    assert_eq!(running.listed(), [""; 0]);
    running.next_minute();
    assert_eq!((running.jobs(), running.listed()), (vec![running.name(1), running.name(0)], vec![running.name(0)]));
    assert!(running.list(JOBS)[0]["metadata"]["ownerReferences"].is_null());
}

/// As `kubectl create job --from=cronjob/backup` does.
#[test]
fn a_job_that_a_client_creates_from_it_is_one_of_its_history_alone() {
    let running = Running::with_cron_job(json!({"concurrencyPolicy": "Forbid", "successfulJobsHistoryLimit": 1}));
    let owner = running.list(CRON_JOBS).remove(0)["metadata"]["uid"].clone();
    let owner = json!({"apiVersion": "batch/v1", "kind": "CronJob", "name": "backup", "uid": owner, "controller": true});
    let metadata = json!({"name": "by-hand", "annotations": {"cronjob.kubernetes.io/instantiate": "manual"}, "ownerReferences": [owner]});
    let spec = cron_job(json!({}))["spec"]["jobTemplate"]["spec"].clone();
    running.create(Some("default"), &json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}));
    running.seconds(1);
    assert_eq!((running.listed(), running.count_events("UnexpectedJob")), (vec![], 1));
    running.next_minute();
    assert_eq!(running.listed(), [running.name(0)]);
    running.end_job("by-hand", "Complete");
    assert!(running.cron_job_status()["lastSuccessfulTime"].is_string());
    running.end_job(&running.name(0), "Complete");
    assert_eq!((running.jobs(), running.count_events("UnexpectedJob")), (vec![running.name(0)], 1));
}

#[test]
fn a_name_that_is_taken_delays_its_time_until_it_is_free() {
    let running = Running::with_cron_job(json!({}));
    let spec = cron_job(json!({}))["spec"]["jobTemplate"]["spec"].clone();
    let taken = running.name(-1);
    running.create(Some("default"), &json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": taken}, "spec": spec}));
    running.next_minute();
    assert_eq!((running.jobs(), running.listed(), running.count_events("FailedCreate")), (vec![taken.clone()], vec![], 1));
    running.seconds(5);
    running.delete(JOBS, &taken, Some(Propagation::Background));
    running.seconds(1);
    assert_eq!((running.jobs(), running.listed()), (vec![taken.clone()], vec![taken.clone()]));
    // It does not delay the next one.
    running.next_minute();
    assert_eq!(running.listed(), [taken, running.name(0)]);
}

#[test]
fn a_quota_delays_a_job_until_it_gains_room() {
    let running = Running::start(CONTROLLERS);
    let hard = |jobs: &str| json!({"hard": {"count/jobs.batch": jobs}});
    running.create(Some("default"), &json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": hard("0")}));
    running.settle();
    running.create(Some("default"), &cron_job(json!({})));
    running.next_minute();
    running.seconds(5);
    let message = format!("FailedCreate: Error creating job: jobs.batch \"{}\" is forbidden: exceeded quota: q", running.name(0));
    assert!(running.cron_job_events().iter().any(|event| event.starts_with(&message)), "{:?}", running.cron_job_events());
    running.patch(QUOTAS, "q", json!({"spec": hard("1")}));
    running.seconds(1);
    assert_eq!(running.listed(), [running.name(0)]);
}

/// The controller does not learn whether its writes were done, or dies after one of them.
#[test]
fn a_time_has_one_job_although_answers_are_lost_and_controllers_restart() {
    let running = Running::start("garbagecollector");
    let faulty = Arc::new(Faulty::of(&running));
    let start = || running.run_controllers_in_a_process(Arc::clone(&faulty) as Arc<dyn Cluster>, "cronjob");
    let process = start();
    running.create(Some("default"), &cron_job(json!({"concurrencyPolicy": "Forbid"})));
    faulty.lose_answers_after(SignedDuration::from_secs(3));
    running.next_minute();
    let first = running.name(0);
    assert_eq!((running.jobs(), running.listed()), (vec![first.clone()], vec![]));
    process.kill();
    faulty.lose_answers_after(SignedDuration::ZERO);
    let _restarted = start();
    assert_eq!((running.jobs(), running.listed()), (vec![first.clone()], vec![first.clone()]));
    faulty.lose_answers_after(SignedDuration::from_secs(3));
    running.end_job(&first, "Complete");
    running.next_minute();
    faulty.lose_answers_after(SignedDuration::ZERO);
    running.seconds(30);
    assert_eq!((running.jobs(), running.listed()), (vec![first, running.name(0)], vec![running.name(0)]));
}

#[test]
fn a_deleted_cron_job_takes_its_jobs_with_it() {
    for propagation in [Propagation::Background, Propagation::Foreground, Propagation::Orphan] {
        let running = Running::with_cron_job(json!({}));
        running.next_minute();
        let job = running.name(0);
        running.patch(JOBS, &job, json!({"metadata": {"finalizers": ["example.com/hold"]}}));
        running.delete(CRON_JOBS, "backup", Some(propagation));
        running.next_minute();
        assert_eq!(running.jobs(), vec![job.clone()], "{propagation:?}");
        assert_eq!(running.list(CRON_JOBS).len(), usize::from(propagation == Propagation::Foreground), "{propagation:?}");
        running.patch(JOBS, &job, json!({"metadata": {"finalizers": null}}));
        running.settle();
        assert_eq!((running.jobs().len(), running.list(CRON_JOBS).len()), (usize::from(propagation == Propagation::Orphan), 0));
    }
}

#[test]
fn a_terminating_namespace_gets_no_more_jobs() {
    let running = Running::start("cronjob,garbagecollector,namespace");
    running.create(None, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}));
    running.create(Some("team"), &cron_job(json!({})));
    running.next_minute();
    let job = running.name(0);
    let (cluster, key) = (Arc::clone(&running.cluster), ObjectKey::new("team", &job));
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    running.test_env.block_on(async move { cluster.patch(JOBS, &key, None, hold).await }).expect("it is there");
    running.delete(NAMESPACES, "team", None);
    running.next_minute();
    running.next_minute();
    assert_eq!((running.jobs(), running.list(CRON_JOBS).len(), running.count_events("FailedCreate")), (vec![job.clone()], 0, 0));
    let (cluster, key) = (Arc::clone(&running.cluster), ObjectKey::new("team", &job));
    running
        .test_env
        .block_on(async move { cluster.patch(JOBS, &key, None, json!({"metadata": {"finalizers": null}})).await })
        .expect("it is there");
    running.settle();
    assert!(running.list(NAMESPACES).iter().all(|namespace| namespace["metadata"]["name"] != "team"));
}

/// A change of the schedule applies at once, also to a time that is over.
#[test]
fn a_changed_schedule_has_its_own_next_time() {
    let running = Running::with_cron_job(json!({"schedule": "0 0 1 1 *"}));
    running.next_minute();
    assert_eq!(running.jobs(), [""; 0]);
    running.patch(CRON_JOBS, "backup", json!({"spec": {"schedule": "*/2 * * * *"}}));
    let wait = if running.clock_now().as_second() / 60 % 2 == 0 { 0 } else { 60 };
    running.seconds(wait + 1);
    assert_eq!(running.jobs(), [running.name(0)]);
    running.next_minute();
    assert_eq!(running.jobs(), [running.name(1)]);
}

#[test]
fn the_time_between_schedule_and_creation_is_measured() {
    let running = Running::with_cron_job(json!({}));
    running.next_minute();
    running.next_minute();
    let metrics = super::lock(&running.metrics);
    let skew = &metrics[0].job_creation_skew;
    assert_eq!((skew.get_sample_count(), skew.get_sample_sum() < 1.0), (2, true));
}

#[test]
fn two_cron_jobs_of_one_name_have_jobs_of_their_own() {
    let running = Running::with_cron_job(json!({}));
    running.next_minute();
    let first = running.name(0);
    running.delete(CRON_JOBS, "backup", Some(Propagation::Orphan));
    running.settle();
    running.create(Some("default"), &cron_job(json!({"concurrencyPolicy": "Forbid"})));
    running.next_minute();
    assert_eq!((running.jobs(), running.listed()), (vec![first, running.name(0)], vec![running.name(0)]));
}

/// Deletes without a grace period, as a client does.
#[test]
fn a_deletion_of_the_last_job_does_not_start_its_time_again_after_a_restart() {
    let running = Running::start("garbagecollector");
    let process = running.run_controllers_in_a_process(Arc::clone(&running.cluster) as Arc<dyn Cluster>, "cronjob");
    running.create(Some("default"), &cron_job(json!({})));
    running.next_minute();
    process.kill();
    let (cluster, key) = (Arc::clone(&running.cluster), key(JOBS, &running.name(0)));
    let params = DeleteParams { propagation: Some(Propagation::Background), ..DeleteParams::default() };
    running.test_env.block_on(async move { cluster.delete(JOBS, &key, params).await }).expect("it is there");
    let _restarted = running.run_controllers_in_a_process(Arc::clone(&running.cluster) as Arc<dyn Cluster>, "cronjob");
    assert_eq!((running.jobs(), running.listed()), (vec![], vec![]));
}
