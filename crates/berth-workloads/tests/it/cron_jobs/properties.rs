//! What holds for every CronJob, in any order of events: clients, lagging caches, a clock that jumps, and a controller that dies after any write.

use super::model::{CronJobModel, is_own};
use berth_workloads::cron_job::end_of;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};

#[derive(Clone, Debug)]
enum Step {
    /// The controller dies after so many writes; whether its cache lags.
    Reconcile(usize, bool),
    /// The caches show everything, and then nothing new.
    Sync,
    /// The API server rejects Jobs from now on, or no longer.
    Full(bool),
    End(usize, &'static str),
    Delete(usize),
    Hold(usize, bool),
    Release(usize),
    ByHand,
    /// The clock can be set back, too.
    Milliseconds(i64),
    Edit(Value),
}

fn schedule() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["* * * * *", "*/5 * * * *", "0 * * * *", "30 1,2 * * *", "0 0 13 * FRI", "* 3 1 * *", "@every 90s", "@daily"])
}

fn zone() -> impl Strategy<Value = Value> {
    prop_oneof![Just(json!(null)), Just(json!("America/New_York")), Just(json!("America/Sao_Paulo")), Just(json!("Asia/Kathmandu"))]
}

fn policy() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["Allow", "Forbid", "Replace"])
}

fn deadline() -> impl Strategy<Value = Value> {
    prop_oneof![Just(json!(null)), Just(json!(0)), Just(json!(7)), Just(json!(100)), Just(json!(5000))]
}

fn edit() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => any::<bool>().prop_map(|suspend| json!({"suspend": suspend})),
        1 => schedule().prop_map(|schedule| json!({"schedule": schedule})),
        1 => policy().prop_map(|policy| json!({"concurrencyPolicy": policy})),
        1 => deadline().prop_map(|deadline| json!({"startingDeadlineSeconds": deadline})),
        1 => (0..3, 0..3).prop_map(|(good, bad)| json!({"successfulJobsHistoryLimit": good, "failedJobsHistoryLimit": bad})),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let job = || 0_usize..6;
    prop_oneof![
        10 => (prop_oneof![3 => Just(usize::MAX), 2 => 0_usize..4], any::<bool>()).prop_map(|(limit, lags)| Step::Reconcile(limit, lags)),
        2 => Just(Step::Sync),
        1 => any::<bool>().prop_map(Step::Full),
        5 => (job(), prop_oneof![Just("Complete"), Just("Failed")]).prop_map(|(job, end)| Step::End(job, end)),
        2 => job().prop_map(Step::Delete),
        1 => (job(), any::<bool>()).prop_map(|(job, is_held)| Step::Hold(job, is_held)),
        1 => job().prop_map(Step::Release),
        1 => Just(Step::ByHand),
        8 => prop_oneof![6 => 0_i64..70_000, 2 => Just(4_000_000), 1 => Just(400_000_000), 1 => -200_000_i64..0].prop_map(Step::Milliseconds),
        2 => edit().prop_map(Step::Edit),
    ]
}

fn take(model: &mut CronJobModel, step: &Step) {
    let pick = |model: &CronJobModel, index: usize| {
        let names: Vec<_> = model.jobs.keys().cloned().collect();
        names.get(index % names.len().max(1)).cloned()
    };
    // A Job that disappears before its time is noted starts again.
    let noted = |model: &CronJobModel, index: usize| pick(model, index).filter(|name| model.is_noted(name));
    match step {
        Step::Reconcile(limit, lags) => model.reconcile(*limit, *lags),
        Step::Sync => model.sync(),
        Step::Full(is_full) => model.is_full = *is_full,
        Step::End(index, condition) => pick(model, *index).iter().for_each(|name| model.end(name, condition)),
        Step::Delete(index) => noted(model, *index).iter().for_each(|name| model.delete(name)),
        Step::Hold(index, is_held) => noted(model, *index).iter().for_each(|name| model.hold(name, *is_held)),
        Step::Release(index) => noted(model, *index).iter().for_each(|name| model.release(name)),
        Step::ByHand => model.create_by_hand(),
        Step::Milliseconds(milliseconds) => model.now += SignedDuration::from_millis(*milliseconds),
        Step::Edit(spec) => model.edit(&json!({"spec": spec})),
    }
}

prop_compose! {
    fn setting()(
        schedule in schedule(), zone in zone(), policy in policy(), deadline in deadline(), good in 0..4, bad in 0..3,
        // 2016 to 2026, so that clocks change now and then.
        second in 1_451_606_400_i64..1_798_761_600,
    ) -> (Value, Timestamp) {
        let spec = json!({
            "schedule": schedule, "timeZone": zone, "concurrencyPolicy": policy, "startingDeadlineSeconds": deadline,
            "successfulJobsHistoryLimit": good, "failedJobsHistoryLimit": bad,
        });
        (spec, Timestamp::from_second(second).expect("in range"))
    }
}

fn reached((spec, now): &(Value, Timestamp), steps: &[Step]) -> CronJobModel {
    let mut model = CronJobModel::new(spec, *now);
    steps.iter().for_each(|step| take(&mut model, step));
    model.is_full = false;
    model
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// The model checks each write: above all, no time has two Jobs. In the end the status is true, the limits hold, and no time is left that may start.
    #[test]
    fn every_time_has_one_job_at_most_and_the_status_is_true(setting in setting(), steps in prop::collection::vec(step(), 0..70)) {
        let mut model = reached(&setting, &steps);
        model.rest();
        let view = model.view();
        let mut listed: Vec<_> = view.status.active.iter().flatten().filter_map(|job| job.name.clone()).collect();
        listed.sort();
        let running: Vec<_> = model.running().iter().map(|job| job.meta.name.to_string()).collect();
        prop_assert_eq!(&listed, &running, "{}", model.short());
        for (end, limit) in [("Complete", view.spec.successful_jobs_history_limit), ("Failed", view.spec.failed_jobs_history_limit)] {
            let ended = model.job_views().into_iter().filter(|job| {
                is_own(job) && job.meta.deleted.is_none() && end_of(job).is_some_and(|found| found.type_ == end)
            });
            prop_assert!(i32::try_from(ended.count()).ok() <= limit, "{} Jobs: {}", end, model.short());
        }
        let since = model.last().or(view.meta.created).expect("it was created");
        let due = model.schedule().last(since, model.now);
        let is_held = view.spec.suspend == Some(true) || !listed.is_empty() && view.spec.concurrency_policy.as_deref() == Some("Forbid");
        let deadline = view.spec.starting_deadline_seconds.map(SignedDuration::from_secs);
        let is_late = |at: Timestamp| deadline.is_some_and(|deadline| deadline <= model.now.duration_since(at));
        // A Job that was released keeps its name, which another time of the same minute would have.
        let is_taken = |at: Timestamp| model.jobs.contains_key(&format!("c-{}", at.as_second().div_euclid(60)));
        prop_assert!(is_held || due.is_none_or(|at| is_late(at) || is_taken(at)), "{:?} is not started: {}", due, model.short());
    }

    /// From rest, the controller wakes at the next time, and starts its Job: none is left out, and no reconcile is needed between two times.
    #[test]
    fn the_next_wake_up_is_the_next_time(setting in setting(), steps in prop::collection::vec(step(), 0..40)) {
        let mut model = reached(&setting, &steps);
        model.edit(&json!({"spec": {"suspend": false, "concurrencyPolicy": "Allow", "startingDeadlineSeconds": null}}));
        model.rest();
        for _ in 0..3 {
            let before = model.started.len();
            let next = model.plan().requeue_at.expect("each of the schedules has times");
            prop_assert!(model.now < next, "{}", model.short());
            let since = model.last().or(model.view().meta.created).expect("it was created");
            prop_assert_eq!(model.schedule().last(since.max(model.now), next - SignedDuration::from_secs(1)), None, "{}", model.short());
            model.now = next;
            model.rest();
            prop_assert_eq!((model.started.len(), model.last()), (before + 1, Some(next)), "{}", model.short());
        }
    }

    /// A suspended CronJob creates nothing, and a deleted one neither.
    #[test]
    fn nothing_starts_while_suspended_or_deleted(setting in setting(), steps in prop::collection::vec(step(), 0..40), is_deleted in any::<bool>()) {
        let mut model = reached(&setting, &steps);
        let patch = if is_deleted { json!({"metadata": {"deletionTimestamp": model.now}}) } else { json!({"spec": {"suspend": true}}) };
        model.edit(&patch);
        let before = model.started.len();
        model.now += SignedDuration::from_hours(50);
        model.rest();
        prop_assert_eq!(model.started.len(), before);
    }
}

/// Runs a CronJob from one moment to another, without any other event than the time. Returns how many Jobs it created.
fn started(schedule: &str, zone: &str, from: &str, until: &str) -> usize {
    let (from, until): (Timestamp, Timestamp) = (from.parse().expect("a time"), until.parse().expect("a time"));
    let mut model = CronJobModel::new(&json!({"schedule": schedule, "timeZone": zone, "successfulJobsHistoryLimit": 0}), from);
    while let Some(next) = model.plan().requeue_at.filter(|next| *next <= until) {
        model.now = next;
        model.rest();
        model.running().iter().for_each(|job| model.end(&job.meta.name, "Complete"));
        model.rest();
    }
    model.started.len()
}

/// New York has a day of 23 hours in March, and one of 25 in November.
#[test]
fn a_day_has_as_many_times_as_its_clock_shows() {
    let day = |schedule: &str, month: &str, day: u32, before: &str, after: &str| {
        let from = format!("2026-{month}-{day:02}T00:00:00{before}").parse::<Timestamp>().expect("a time") - SignedDuration::from_secs(1);
        let until = format!("2026-{month}-{day:02}T23:59:59{after}");
        started(schedule, "America/New_York", &from.to_string(), &until)
    };
    assert_eq!(["0 * * * *", "30 2 * * *", "*/30 * * * *"].map(|schedule| day(schedule, "03", 8, "-05:00", "-04:00")), [23, 0, 46]);
    assert_eq!(["0 * * * *", "30 1 * * *", "*/30 * * * *"].map(|schedule| day(schedule, "11", 1, "-04:00", "-05:00")), [25, 2, 50]);
    assert_eq!(["0 * * * *", "30 1 * * *", "*/30 * * * *"].map(|schedule| day(schedule, "06", 1, "-04:00", "-04:00")), [24, 1, 48]);
}

/// Each policy, with each deadline, after the controller was away for an hour while a Job ran.
#[test]
fn after_an_absence_each_policy_starts_one_job_at_most() {
    for (policy, deadline, starts, runs) in [
        ("Allow", json!(null), 1, 2),
        ("Allow", json!(20), 0, 1),
        ("Allow", json!(100), 1, 2),
        ("Forbid", json!(null), 0, 1),
        ("Forbid", json!(100), 0, 1),
        ("Replace", json!(null), 1, 1),
        ("Replace", json!(20), 0, 1),
    ] {
        let created = "2026-06-01T10:00:00Z".parse::<Timestamp>().expect("a time");
        let mut model = CronJobModel::new(&json!({"concurrencyPolicy": policy, "startingDeadlineSeconds": deadline}), created);
        model.now += SignedDuration::from_secs(60);
        model.rest();
        assert_eq!(model.started.len(), 1, "{policy} {deadline}");
        model.now += SignedDuration::from_secs(3630);
        model.rest();
        assert_eq!((model.started.len() - 1, model.running().len()), (starts, runs), "{policy} {deadline}");
    }
}
