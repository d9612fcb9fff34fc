//! CronJobs whose controller is killed after any write, and whose calls are lost, end as without that. That no time has two Jobs, and that Jobs run at
//! the same time only where the policy allows it, is checked after every change of the store.

use berth_controllers::Propagation;
use berth_node::Latencies;
use berth_sim::{
    Options, Simulation,
    crashes::{self, End},
    network::{Crash, Faults},
};
use berth_store::virtual_time::Order;
use berth_workloads::resources::{CRON_JOBS, JOBS};
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

/// Longer than anything here that waits for no time.
const QUIET: Duration = Duration::from_secs(40);
/// How many orders of events a scenario is run in while calls are lost.
const SEEDS: u64 = 3;

/// What happens in one scenario. Time begins with a full minute.
struct Scenario {
    name: &'static str,
    /// The spec of the CronJob `c`, which is due each minute.
    spec: Value,
    /// How long its Jobs run (`never`: until they are deleted), and how they exit.
    runs: (&'static str, &'static str),
    script: fn(&mut Simulation),
}

fn cron_job(spec: &Value, (duration, code): (&str, &str)) -> Value {
    let annotations = json!({"sim.berth.dev/completes-after": duration, "sim.berth.dev/exit-code": code});
    let pod = json!({"restartPolicy": "Never", "terminationGracePeriodSeconds": 2, "containers": [{"name": "main", "image": "main:1"}]});
    let job = json!({"backoffLimit": 0, "template": {"metadata": {"annotations": annotations}, "spec": pod}});
    let mut full = json!({"schedule": "* * * * *", "jobTemplate": {"spec": job}});
    full.as_object_mut().expect("a map").extend(spec.as_object().expect("a map").clone());
    json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}, "spec": full})
}

/// Kills the controllers after each of their writes, then loses calls and answers.
fn check(scenario: &Scenario) {
    crashes::check(scenario.name, |crash| run(scenario, simulation(1, Order::Fifo), crash));
    let wanted = run(scenario, simulation(1, Order::Fifo), Crash::Never).state;
    for seed in 0..SEEDS {
        let mut sim = simulation(seed, Order::Random);
        sim.set_faults(Faults { lost_calls_per_mille: 100, lost_answers_per_mille: 100, ..Faults::HOSTILE });
        let found = run(scenario, sim, if seed % 2 == 0 { Crash::Never } else { Crash::AfterEach });
        assert_eq!(found.state, wanted, "{}, seed {seed}", scenario.name);
    }
}

fn simulation(seed: u64, order: Order) -> Simulation {
    let latencies = Latencies { start: Duration::ZERO, stop: Duration::from_secs(1) };
    Simulation::new(seed, Options { order, latencies, nodes: 1, ..Options::default() })
}

fn run(scenario: &Scenario, mut sim: Simulation, crash: Crash) -> End {
    sim.crash_controllers(crash);
    sim.create(&cron_job(&scenario.spec, scenario.runs));
    (scenario.script)(&mut sim);
    sim.set_faults(Faults::NONE);
    sim.run_for(QUIET);
    End { writes: sim.controller_writes(), state: state(&sim), times: BTreeMap::new() }
}

/// What must not depend on crashes: all but uids, versions and times of what happened.
fn state(sim: &Simulation) -> String {
    let status = &sim.object("cronjobs", "c")["status"];
    let active: Vec<_> = status["active"].as_array().into_iter().flatten().map(|job| &job["name"]).collect();
    let mut text = format!("{active:?} last={} succeeded={}", status["lastScheduleTime"], status["lastSuccessfulTime"].is_string());
    for (name, job) in sim.objects("jobs") {
        let conditions: Vec<_> = job["status"]["conditions"].as_array().into_iter().flatten().map(|condition| &condition["type"]).collect();
        let metadata = &job["metadata"];
        write!(text, "\n{name} {conditions:?} {} {}", metadata["annotations"], metadata["ownerReferences"][0]["name"]).expect("memory");
    }
    text
}

/// Lets time pass until this second of a minute, counted from the begin.
fn until(sim: &mut Simulation, minute: u64, second: u64) {
    let at = Duration::from_secs(60 * minute + second);
    sim.run_for(at.checked_sub(sim.elapsed()).expect("it is not over"));
}

fn names(sim: &Simulation) -> Vec<String> {
    sim.objects("jobs").into_keys().collect()
}

fn suspend(sim: &mut Simulation, suspend: bool) {
    sim.patch(CRON_JOBS, "c", json!({"spec": {"suspend": suspend}}));
}

#[test]
fn a_job_at_each_minute() {
    check(&Scenario {
        name: "a_job_at_each_minute",
        spec: json!({"successfulJobsHistoryLimit": 2}),
        runs: ("15s", "0"),
        script: |sim| {
            until(sim, 3, 50);
            assert_eq!(names(sim).len(), 2, "{:?}", names(sim));
            suspend(sim, true);
        },
    });
}

#[test]
fn jobs_that_fail() {
    check(&Scenario {
        name: "jobs_that_fail",
        spec: json!({"timeZone": "Asia/Kathmandu"}),
        runs: ("5s", "1"),
        script: |sim| {
            until(sim, 2, 50);
            suspend(sim, true);
        },
    });
}

#[test]
fn jobs_that_exclude_each_other() {
    check(&Scenario {
        name: "jobs_that_exclude_each_other",
        spec: json!({"concurrencyPolicy": "Forbid"}),
        runs: ("65s", "0"),
        script: |sim| {
            until(sim, 3, 50);
            suspend(sim, true);
            sim.run_for(QUIET);
        },
    });
}

#[test]
fn jobs_that_replace_each_other() {
    check(&Scenario {
        name: "jobs_that_replace_each_other",
        spec: json!({"concurrencyPolicy": "Replace"}),
        runs: ("never", "0"),
        script: |sim| {
            until(sim, 3, 50);
            assert_eq!(names(sim).len(), 1, "{:?}", names(sim));
            suspend(sim, true);
        },
    });
}

#[test]
fn a_missed_time_that_starts_late() {
    check(&Scenario {
        name: "a_missed_time_that_starts_late",
        spec: json!({"suspend": true, "startingDeadlineSeconds": 100}),
        runs: ("5s", "0"),
        script: |sim| {
            until(sim, 3, 20);
            suspend(sim, false);
            until(sim, 3, 55);
            assert_eq!(names(sim).len(), 1, "{:?}", names(sim));
            suspend(sim, true);
        },
    });
}

#[test]
fn a_missed_time_that_is_too_late() {
    check(&Scenario {
        name: "a_missed_time_that_is_too_late",
        spec: json!({"suspend": true, "startingDeadlineSeconds": 15}),
        runs: ("5s", "0"),
        script: |sim| {
            until(sim, 3, 20);
            suspend(sim, false);
            until(sim, 3, 50);
            assert_eq!(names(sim), [""; 0]);
            suspend(sim, true);
        },
    });
}

#[test]
fn a_job_that_a_client_deletes() {
    check(&Scenario {
        name: "a_job_that_a_client_deletes",
        spec: json!({"concurrencyPolicy": "Forbid"}),
        runs: ("never", "0"),
        script: |sim| {
            until(sim, 1, 40);
            let job = names(sim).remove(0);
            sim.delete_with(JOBS, &job, Propagation::Background);
            until(sim, 2, 50);
            assert_eq!(names(sim).len(), 1, "{:?}", names(sim));
            suspend(sim, true);
        },
    });
}

#[test]
fn a_cron_job_that_is_deleted_after_its_jobs() {
    check(&Scenario {
        name: "a_cron_job_that_is_deleted_after_its_jobs",
        spec: json!({}),
        runs: ("never", "0"),
        script: |sim| {
            until(sim, 2, 30);
            sim.delete_with(CRON_JOBS, "c", Propagation::Foreground);
            until(sim, 4, 20);
            assert_eq!(names(sim), [""; 0]);
        },
    });
}

#[test]
fn a_cron_job_that_is_deleted_without_its_jobs() {
    check(&Scenario {
        name: "a_cron_job_that_is_deleted_without_its_jobs",
        spec: json!({}),
        runs: ("15s", "0"),
        script: |sim| {
            until(sim, 1, 40);
            sim.delete_with(CRON_JOBS, "c", Propagation::Orphan);
            until(sim, 3, 0);
            assert_eq!(names(sim).len(), 1, "{:?}", names(sim));
        },
    });
}

/// Time continues evenly when the machine's clock is set, so no time is left out or has two Jobs.
#[test]
fn each_minute_has_its_job_whichever_way_the_clock_is_set() {
    for by in [SignedDuration::from_mins(5), SignedDuration::from_mins(-5), SignedDuration::from_secs(-30)] {
        let mut sim = Simulation::on_a_machine(1, Options { nodes: 1, ..Options::default() });
        sim.create(&cron_job(&json!({"successfulJobsHistoryLimit": 99}), ("5s", "0")));
        sim.run_for(Duration::from_secs(150));
        sim.set_clock(by);
        sim.run_for(Duration::from_secs(900));
        let minutes: Vec<i64> = names(&sim).iter().filter_map(|name| name.strip_prefix("c-")?.parse().ok()).collect();
        // The last minute may just begin.
        let (first, last) = (minutes[0], (sim.now() - SignedDuration::from_secs(5)).as_second() / 60);
        assert!(10 < minutes.len() && minutes == (first..=last).collect::<Vec<_>>(), "{by}: {minutes:?}, at {last}");
    }
}
