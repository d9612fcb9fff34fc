//! Plans of single states, as they are shown.

use super::*;
use crate::{plan::Plan, view::View};
use berth_identity::Revision;
use serde_json::{Value, json};

fn at(time: &str) -> Timestamp {
    format!("2026-11-29T{time}Z").parse().unwrap_or_else(|error| panic!("{time}: {error}"))
}

/// A CronJob `c`, created at 10:00:30, which is due each full minute.
fn cron_job(spec: &Value, status: &Value) -> Arc<CronJobView> {
    let template =
        json!({"metadata": {"labels": {"a": "b"}, "annotations": {"x": "y"}}, "spec": {"template": {"spec": {"containers": []}}}});
    let mut full = json!({
        "schedule": "* * * * *", "concurrencyPolicy": "Allow", "suspend": false, "jobTemplate": template,
        "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1,
    });
    full.as_object_mut().expect("an object").extend(spec.as_object().expect("an object").clone());
    let metadata = json!({"name": "c", "namespace": "ns", "uid": "u", "creationTimestamp": at("10:00:30")});
    let json = json!({"metadata": metadata, "spec": full, "status": status});
    Arc::new(CronJobView::decode(json.to_string().as_bytes(), Revision(7)).expect("a CronJob"))
}

fn name_at(time: &str) -> String {
    new_job::job_name("c", at(time))
}

/// A Job in words: the time that it is scheduled for (`10:02`) or a name, then `succeeded@10:03:05`, `failed@10:03:05`, `deleted`.
fn job(text: &str) -> Arc<JobView> {
    let mut words = text.split_whitespace();
    let first = words.next().expect("a name or a time");
    let time = first.contains(':').then(|| format!("{first}:00"));
    let name = time.as_deref().map_or_else(|| first.to_owned(), name_at);
    let mut json = json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("uid-{first}"),
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": "u", "controller": true}],
        },
        "spec": {"template": {}}, "status": {"startTime": at(time.as_deref().unwrap_or("10:00:00"))},
    });
    if let Some(time) = &time {
        json["metadata"]["annotations"] = json!({"batch.kubernetes.io/cronjob-scheduled-timestamp": at(time)});
    }
    for word in words {
        match word.split_once('@').unwrap_or((word, "")) {
            ("succeeded", time) => {
                json["status"]["conditions"] = json!([{"type": "Complete", "status": "True"}]);
                json["status"]["completionTime"] = json!(at(time));
            }
            ("failed", _) => json["status"]["conditions"] = json!([{"type": "Failed", "status": "True"}]),
            ("deleted", _) => json["metadata"]["deletionTimestamp"] = json!(at("10:00:00")),
            (other, _) => panic!("{other}"),
        }
    }
    Arc::new(JobView::decode(json.to_string().as_bytes(), Revision(5)).expect("a Job"))
}

/// A status that lists these Jobs, and with the last time.
fn status(last: &str, active: &[&str]) -> Value {
    let reference = |first: &&str| {
        let name = if first.contains(':') { name_at(&format!("{first}:00")) } else { (*first).to_owned() };
        json!({"apiVersion": "batch/v1", "kind": "Job", "namespace": "ns", "name": name, "uid": format!("uid-{first}"), "resourceVersion": "5"})
    };
    let mut status = json!({});
    if !last.is_empty() {
        status["lastScheduleTime"] = json!(at(last));
    }
    if !active.is_empty() {
        status["active"] = active.iter().map(reference).collect();
    }
    status
}

struct Case {
    spec: Value,
    status: Value,
    jobs: &'static str,
    now: &'static str,
}

impl Case {
    fn state(&self) -> CronJobState {
        let jobs = self.jobs.split(',').map(str::trim).filter(|text| !text.is_empty()).map(job).collect();
        CronJobState { cron_job: cron_job(&self.spec, &self.status), jobs, is_name_taken: false, now: at(self.now) }
    }

    fn plan(&self) -> Plan {
        plan(&self.state())
    }

    /// The plan's lines, with names of Jobs as their times. Then the events, and the time of the next reconcile.
    fn check(&self, expected: &[&str], events: &[&str], next: &str) {
        let plan = self.plan();
        let mut text = plan.to_string();
        for minute in 0..90 {
            let time = format!("{:02}:{:02}", 10 + minute / 60, minute % 60);
            text = text.replace(&name_at(&format!("{time}:00")), &time);
        }
        assert_eq!(text.lines().collect::<Vec<_>>(), expected, "{} {} {}", self.spec, self.status, self.now);
        let reasons: Vec<_> = plan.events.iter().map(|event| &*event.reason).collect();
        assert_eq!(reasons, events, "{} {} {}", self.spec, self.status, self.now);
        let next = Some(next).filter(|next| !next.is_empty()).map(at);
        assert_eq!(plan.requeue_at, next, "{} {} {}", self.spec, self.status, self.now);
    }
}

const CREATE: [&str; 2] =
    ["1. create Job ns/10:03: it is due at 2026-11-29T10:03:00Z", "2. patch status of CronJob ns/c: it is due at 2026-11-29T10:03:00Z"];

fn case(spec: Value, status: Value, jobs: &'static str, now: &'static str) -> Case {
    Case { spec, status, jobs, now }
}

#[test]
fn a_job_is_created_when_its_time_is_due() {
    case(json!({}), json!({}), "", "10:00:59.9").check(&[], &[], "10:01:00");
    case(json!({}), status("10:02:00", &[]), "", "10:03:00").check(&CREATE, &[], "10:04:00");
    case(json!({}), status("10:03:00", &[]), "", "10:03:59").check(&[], &[], "10:04:00");
    // The clock was set back.
    case(json!({}), status("10:30:00", &[]), "", "10:03:59").check(&[], &[], "10:31:00");
}

#[test]
fn a_new_job_has_the_template_the_time_and_the_owner() {
    let plan = case(json!({"timeZone": "America/New_York"}), status("10:02:00", &[]), "", "10:03:00.2").plan();
    let created = plan.stages[0].actions.iter().find_map(|action| match action {
        crate::Action::Create { object, .. } => Some(object.as_object().to_value()),
        _ => None,
    });
    let owner =
        json!({"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": "u", "controller": true, "blockOwnerDeletion": true});
    let annotations = json!({"x": "y", "batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-11-29T05:03:00-05:00"});
    let metadata = json!({
        "name": name_at("10:03:00"), "namespace": "ns", "labels": {"a": "b"}, "annotations": annotations, "ownerReferences": [owner],
    });
    let wanted = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": {"spec": {"containers": []}}}});
    assert_eq!(created, Some(wanted));
    assert_eq!(name_at("10:03:00"), "c-29932443");
}

#[test]
fn of_missed_times_the_last_one_starts() {
    case(json!({}), status("10:00:00", &[]), "", "10:03:30").check(&CREATE, &[], "10:04:00");
    // A hundred are not many.
    let reasons = |now| {
        let plan = case(json!({}), status("09:44:30", &[]), "", now).plan();
        plan.events.iter().map(|event| event.reason.to_string()).collect::<Vec<_>>()
    };
    assert_eq!((reasons("11:24:59"), reasons("11:25:00")), (vec![], vec!["TooManyMissedTimes".to_owned()]));
    // Only times within the deadline count.
    let deadline = json!({"startingDeadlineSeconds": 600});
    case(deadline, status("01:00:00", &[]), "", "10:03:30").check(&CREATE, &[], "10:04:00");
}

#[test]
fn a_time_starts_within_its_deadline_or_not_at_all() {
    let deadline = |seconds: i64| json!({"startingDeadlineSeconds": seconds});
    case(deadline(30), status("10:00:00", &[]), "", "10:03:29").check(&CREATE, &[], "10:04:00");
    case(deadline(30), status("10:00:00", &[]), "", "10:03:31").check(&[], &["MissSchedule"], "10:04:00");
    let event = case(deadline(10), status("10:00:00", &[]), "", "10:03:31").plan().events.remove(0);
    assert_eq!(event.message, "Missed scheduled time to start a job: Sun, 29 Nov 2026 10:03:00 +0000");
    // An interval counts from the last time, whatever the deadline is. Upstream never starts it.
    let every = json!({"schedule": "@every 3m", "startingDeadlineSeconds": 20});
    case(every, status("10:00:00", &[]), "", "10:03:01").check(&CREATE, &[], "10:06:00");
}

#[test]
fn jobs_run_at_the_same_time_where_the_policy_allows_it() {
    let policy = |policy: &str| json!({"concurrencyPolicy": policy});
    let active = || status("10:02:00", &["10:02"]);
    case(policy("Allow"), active(), "10:02", "10:03:00").check(&CREATE, &[], "10:04:00");
    let forbidden = "waiting for Job 10:02 to end before the next one is created (concurrencyPolicy: Forbid)";
    case(policy("Forbid"), active(), "10:02", "10:03:00").check(&[forbidden], &["JobAlreadyActive"], "10:04:00");
    case(policy("Forbid"), active(), "10:02 deleted", "10:03:00").check(&[forbidden], &["JobAlreadyActive"], "10:04:00");
    case(policy("Forbid"), status("10:02:00", &[]), "10:02 failed", "10:03:00").check(&CREATE, &[], "10:04:00");
    // A Job of a client does not count.
    case(policy("Forbid"), status("10:02:00", &[]), "by-hand", "10:03:00").check(&CREATE, &["UnexpectedJob"], "10:04:00");
    let replaced = [
        "1. delete Job ns/10:02, dependents Background: the Job of 2026-11-29T10:03:00Z replaces it",
        "2. create Job ns/10:03: it is due at 2026-11-29T10:03:00Z",
        "3. patch status of CronJob ns/c: it is due at 2026-11-29T10:03:00Z",
    ];
    case(policy("Replace"), active(), "10:02, by-hand", "10:03:00").check(&replaced, &["UnexpectedJob"], "10:04:00");
    // A Job that is being deleted stays listed, and is not deleted again.
    let two = status("10:02:00", &["10:01", "10:02"]);
    let plan = case(policy("Replace"), two, "10:01 deleted, 10:02", "10:03:00").plan();
    let crate::Action::Patch { patch, .. } = &plan.stages[2].actions[0] else { panic!("{plan}") };
    assert_eq!(patch["status"], status("10:03:00", &["10:01"]));
}

#[test]
fn a_time_has_one_job_whatever_is_written_of_it() {
    // The controller died after it had created the Job.
    let status_first = ["1. patch status of CronJob ns/c: its Jobs have changed"];
    let crashed = case(json!({"concurrencyPolicy": "Forbid"}), status("10:02:00", &[]), "10:03", "10:03:05");
    crashed.check(&status_first, &[], "");
    let plan = crashed.plan();
    let crate::Action::Patch { patch, .. } = &plan.stages[0].actions[0] else { panic!("{plan}") };
    assert_eq!(patch["status"], status("10:03:00", &["10:03"]));
    // The same, and the Job has ended.
    case(json!({}), status("10:02:00", &[]), "10:03 failed", "10:03:30").check(&status_first, &[], "");
    // Times of one minute share a name.
    let every = || json!({"schedule": "@every 20s"});
    case(every(), status("10:03:00", &["10:03"]), "10:03", "10:03:20").check(&status_first, &[], "10:03:40");
    // The object of a client has the name.
    let free = case(json!({}), status("10:02:00", &[]), "", "10:03:05").state();
    let with = |name: String| {
        let CronJobState { cron_job, jobs, now, .. } = free.clone();
        CronJobState::new(cron_job, jobs, now, |wanted| *wanted == *name)
    };
    let (taken, other) = (with(name_at("10:03:00")), with(name_at("10:02:00")));
    assert_eq!((other.due_since(), other.is_name_taken), (Some(at("10:03:00")), false));
    assert_eq!((taken.due_since(), taken.is_name_taken), (None, true));
    assert_eq!(case(json!({}), status("10:00:00", &[]), "", "10:03:05").state().due_since(), Some(at("10:01:00")), "the first missed one");
    let plan = super::plan(&taken);
    assert!(plan.is_idle() && plan.waits.len() == 1 && plan.requeue_at == Some(at("10:04:00")), "{plan}");
    assert_eq!(plan.events[0].message, format!("Error creating job: jobs.batch \"{}\" already exists", name_at("10:03:00")));
}

#[test]
fn a_suspended_cron_job_counts_its_jobs_and_creates_none() {
    let suspended = || json!({"suspend": true});
    let wait = "suspended: no Job is created until you resume it";
    case(suspended(), status("10:00:00", &[]), "", "10:03:30").check(&[wait], &[], "");
    let ended = ["1. patch status of CronJob ns/c: its Jobs have changed"];
    case(suspended(), status("10:02:00", &["10:02"]), "10:02 succeeded@10:02:50", "10:03:30").check(&ended, &["SawCompletedJob"], "");
    assert_eq!(case(suspended(), status("10:00:00", &[]), "", "10:03:30").state().due_since(), None);
}

#[test]
fn the_status_lists_jobs_that_run_and_reports_those_that_do_not() {
    let patch = |status: Value, jobs: &'static str| {
        let plan = case(json!({"suspend": true}), status, jobs, "10:03:30").plan();
        let patch = plan.stages.first().map(|stage| match &stage.actions[0] {
            crate::Action::Patch { patch, .. } => patch["status"].clone(),
            other => panic!("{other}"),
        });
        (patch, plan.events.iter().map(|event| event.message.clone()).collect::<Vec<_>>())
    };
    let name = name_at("10:02:00");
    let listed = || status("10:02:00", &["10:02"]);
    assert_eq!(patch(listed(), "10:02"), (None, vec![]));
    assert_eq!(patch(listed(), ""), (Some(json!({"active": null})), vec![format!("Active job went missing: {name}")]));
    let failed = (Some(json!({"active": null})), vec![format!("Saw completed job: {name}, condition: Failed")]);
    assert_eq!(patch(listed(), "10:02 failed"), failed);
    let succeeded = json!({"active": null, "lastSuccessfulTime": at("10:02:50")});
    let message = vec![format!("Saw completed job: {name}, condition: Complete")];
    assert_eq!(patch(listed(), "10:02 succeeded@10:02:50"), (Some(succeeded), message));
    // The last success counts, also that of a Job of a client.
    let (found, events) = patch(listed(), "10:02, a succeeded@10:01:50, b succeeded@10:01:20");
    assert_eq!((found, events), (Some(json!({"lastSuccessfulTime": at("10:01:50")})), vec![]));
    let unexpected = vec!["Saw a job that the controller did not create or forgot: by-hand".to_owned()];
    assert_eq!(patch(listed(), "10:02, by-hand"), (None, unexpected));
    // An annotation alone does not make a Job one of the controller.
    let mut forged = Arc::unwrap_or_clone(job("by-hand"));
    forged.annotations.insert("batch.kubernetes.io/cronjob-scheduled-timestamp".to_owned(), "2099-01-01T00:00:00Z".to_owned());
    assert_eq!(scheduled_at("c", &forged), None);
}

/// A client can create a Job with the name and the annotation of a time far ahead.
#[test]
fn a_job_that_was_created_before_its_time_does_not_stop_its_cron_job() {
    let first_action = |created: &str| {
        let mut state = case(json!({}), status("10:02:00", &["11:20"]), "11:20", "10:03:00").state();
        Arc::make_mut(&mut state.jobs[0]).meta.created = Some(at(created));
        plan(&state).to_string().lines().next().map(str::to_owned)
    };
    let create = format!("1. create Job ns/{}: it is due at 2026-11-29T10:03:00Z", name_at("10:03:00"));
    assert_eq!(first_action("10:02:30"), Some(create));
    // The controller created it before the clock was set back, or with a clock that is ahead of the API server's.
    let count = "1. patch status of CronJob ns/c: its Jobs have changed".to_owned();
    assert_eq!((first_action("11:20:00"), first_action("11:19:00")), (Some(count.clone()), Some(count)));
}

#[test]
fn finished_jobs_beyond_the_limits_are_deleted_oldest_first() {
    let limits = json!({"successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 0});
    let mut stored = status("10:03:00", &[]);
    stored["lastSuccessfulTime"] = json!(at("10:03:20"));
    let deletions = [
        "1. delete Job ns/10:01, dependents Background: of the Jobs that ended so, 1 are kept",
        "1. delete Job ns/10:02, dependents Background: of the Jobs that ended so, 0 are kept",
    ];
    let jobs = "10:03 succeeded@10:03:20, 10:01 succeeded@10:02:20, 10:02 failed";
    case(limits.clone(), stored.clone(), jobs, "10:03:30").check(&deletions, &[], "10:04:00");
    // Beside the creation of the next one, which a quota may hold back until then.
    let plan = case(limits.clone(), stored.clone(), jobs, "10:04:00").plan();
    assert_eq!(plan.stages.iter().map(|stage| stage.actions.len()).collect::<Vec<_>>(), [3, 1]);
    // One that is being deleted already does not count.
    case(limits.clone(), stored.clone(), "10:03 succeeded@10:03:20, 10:01 succeeded@10:02:20 deleted", "10:03:30").check(
        &[],
        &[],
        "10:04:00",
    );
    // A success counts before its Job is deleted, and no event reports that the controller saw its end.
    let plan =
        case(json!({"successfulJobsHistoryLimit": 0}), status("10:03:00", &["10:03"]), "10:03 succeeded@10:03:20", "10:03:30").plan();
    assert!(plan.events.is_empty() && plan.stages.len() == 2, "{plan}");
}

#[test]
fn a_cron_job_that_is_deleted_or_has_no_times_creates_nothing() {
    let mut deleted = case(json!({}), status("10:00:00", &[]), "", "10:03:30").state();
    Arc::make_mut(&mut deleted.cron_job).meta.deleted = Some(at("10:03:00"));
    assert_eq!(plan(&deleted).to_string(), "CronJob c is being deleted\n");
    let check = |spec: Value, reason: &str, message: &str, next: &str| {
        let case = case(spec, status("10:03:00", &[]), "", "10:03:30");
        case.check(&[], &[reason], next);
        assert_eq!(case.plan().events[0].message, message);
    };
    let never = "invalid schedule: 0 0 31 2 * : time difference between two schedules is less than 1 second";
    check(json!({"schedule": "0 0 31 2 *"}), "InvalidSchedule", never, "");
    let unreadable = "unparseable schedule: \"x\" : expected exactly 5 fields, found 1: [x]";
    check(json!({"schedule": "x"}), "UnparseableSchedule", unreadable, "");
    let unknown = "invalid timeZone: \"Mars\": unknown time zone Mars";
    check(json!({"timeZone": "Mars", "suspend": true}), "UnknownTimeZone", unknown, "");
    let unsupported = "CRON_TZ or TZ used in schedule \"TZ=Asia/Tokyo 0 20 * * *\" is not officially supported, \
                       see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details";
    check(json!({"schedule": "TZ=Asia/Tokyo 0 20 * * *"}), "UnsupportedSchedule", unsupported, "11:00:00");
}
