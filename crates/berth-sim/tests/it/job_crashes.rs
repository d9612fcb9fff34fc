//! Jobs whose controller is killed after any write, and whose calls are lost, end as without that. How many pods there are, and that each counts once, is
//! checked after every change of the store.

use berth_api::Subresource;
use berth_controllers::Propagation;
use berth_node::Latencies;
use berth_sim::{
    Options, Simulation,
    crashes::{self, End},
    network::{Crash, Faults},
};
use berth_store::virtual_time::Order;
use berth_workloads::resources::{JOBS, PODS};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

/// Longer than anything here that waits for no back-off.
const SOON: Duration = Duration::from_secs(5);
/// Longer than the delay after three failures.
const QUIET: Duration = Duration::from_secs(90);
/// How many orders of events a scenario is run in while calls are lost.
const SEEDS: u64 = 3;

/// What happens in one scenario.
struct Scenario {
    name: &'static str,
    /// The spec of the Job `sum`, whose pods run until the script ends them.
    spec: Value,
    script: fn(&mut Simulation),
}

/// Its pods take longer to stop than to be released, whatever is lost. A stopped container exits with 0, so a pod that ends first would count as a success.
fn job(spec: &Value) -> Value {
    let annotations = json!({"sim.berth.dev/completes-after": "never", "sim.berth.dev/terminates-after": "45s"});
    let pod = json!({"restartPolicy": "Never", "terminationGracePeriodSeconds": 60, "containers": [{"name": "main", "image": "main:1"}]});
    let mut full = json!({"template": {"metadata": {"annotations": annotations}, "spec": pod}});
    full.as_object_mut().expect("a map").extend(spec.as_object().expect("a map").clone());
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sum"}, "spec": full})
}

/// Kills the controller after each of its writes, then loses calls and answers.
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
    sim.create(&job(&scenario.spec));
    sim.run_for(QUIET);
    (scenario.script)(&mut sim);
    sim.set_faults(Faults::NONE);
    sim.run_for(QUIET);
    End { writes: sim.controller_writes(), state: state(&sim), times: BTreeMap::new() }
}

/// What must not depend on crashes: all but names, uids, versions and times.
fn state(sim: &Simulation) -> String {
    let job = sim.object("jobs", "sum");
    let status = &job["status"];
    let mut text = if job.is_null() { "no Job".to_owned() } else { String::new() };
    for field in ["active", "terminating", "ready", "succeeded", "failed", "completedIndexes", "failedIndexes", "uncountedTerminatedPods"] {
        write!(text, "{field}={} ", status[field]).expect("memory");
    }
    for condition in status["conditions"].as_array().into_iter().flatten() {
        write!(text, "\n{} {} {} {}", condition["type"], condition["status"], condition["reason"], message(condition)).expect("memory");
    }
    let pod = |pod: &Value| {
        let metadata = &pod["metadata"];
        let annotation = |name: &str| metadata["annotations"][format!("batch.kubernetes.io/{name}")].clone();
        let owned = metadata["ownerReferences"].is_array();
        let numbers = ["job-completion-index", "job-index-failure-count", "job-index-ignored-failure-count"].map(annotation);
        format!("\npod {} owned={owned} {} {numbers:?}", pod["status"]["phase"], metadata["finalizers"])
    };
    let mut pods: Vec<String> = sim.objects("pods").values().map(pod).collect();
    pods.sort();
    text.push_str(&pods.concat());
    text
}

/// The message of a condition, without the name of a pod in it.
fn message(condition: &Value) -> String {
    let text = condition["message"].as_str().unwrap_or_default();
    text.split(' ').filter(|word| !word.contains("default/sum")).collect::<Vec<_>>().join(" ")
}

/// The pods that run, by index and creation.
fn active(sim: &Simulation) -> Vec<(Option<u32>, String)> {
    let is_active = |pod: &Value| {
        let phase = pod["status"]["phase"].as_str().unwrap_or_default();
        pod["metadata"]["deletionTimestamp"].is_null() && !["Succeeded", "Failed"].contains(&phase)
    };
    let index = |pod: &Value| pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"].as_str()?.parse().ok();
    let mut pods: Vec<_> =
        sim.objects("pods").into_iter().filter(|(_, pod)| is_active(pod)).map(|(name, pod)| (index(&pod), name)).collect();
    pods.sort();
    pods
}

/// The containers of a pod end with this code.
fn end(sim: &mut Simulation, pod: &str, code: i32, conditions: &Value) {
    let at = sim.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let terminated = json!({"exitCode": code, "startedAt": at, "finishedAt": at, "reason": "Ended"});
    let container =
        json!({"name": "main", "image": "main:1", "imageID": "", "restartCount": 0, "ready": false, "state": {"terminated": terminated}});
    let phase = if code == 0 { "Succeeded" } else { "Failed" };
    let status = json!({"phase": phase, "conditions": conditions, "containerStatuses": [container]});
    sim.patch_part(PODS, pod, Subresource::Status, json!({"status": status}));
}

/// Ends the first `count` active pods, and lets what follows happen.
fn end_some(sim: &mut Simulation, count: usize, code: i32) {
    let pods = active(sim);
    assert!(count <= pods.len(), "{count} of {} pods", pods.len());
    pods.iter().take(count).for_each(|(_, pod)| end(sim, pod, code, &json!([])));
    sim.run_for(QUIET);
}

/// Ends the pod of an index.
fn end_index(sim: &mut Simulation, index: u32, code: i32) {
    let pods = active(sim);
    let (_, pod) = pods.iter().find(|(of, _)| *of == Some(index)).unwrap_or_else(|| panic!("no pod of index {index}: {pods:?}"));
    end(sim, pod, code, &json!([]));
    sim.run_for(QUIET);
}

#[test]
fn a_job_of_five_pods() {
    check(&Scenario {
        name: "a_job_of_five_pods",
        spec: json!({"completions": 5, "parallelism": 2}),
        script: |sim| {
            end_some(sim, 2, 0);
            end_some(sim, 1, 1);
            end_some(sim, 2, 0);
            end_some(sim, 1, 0);
        },
    });
}

#[test]
fn a_work_queue() {
    check(&Scenario {
        name: "a_work_queue",
        spec: json!({"parallelism": 3}),
        script: |sim| {
            end_some(sim, 1, 0);
            assert_eq!(active(sim).len(), 2, "a success is the end of new pods");
            end_some(sim, 2, 0);
        },
    });
}

#[test]
fn an_indexed_job() {
    check(&Scenario {
        name: "an_indexed_job",
        spec: json!({"completions": 4, "parallelism": 3, "completionMode": "Indexed"}),
        script: |sim| {
            end_index(sim, 1, 0);
            end_index(sim, 0, 1);
            end_index(sim, 3, 0);
            end_index(sim, 0, 0);
            end_index(sim, 2, 0);
        },
    });
}

#[test]
fn a_job_that_reaches_its_backoff_limit() {
    check(&Scenario {
        name: "a_job_that_reaches_its_backoff_limit",
        spec: json!({"completions": 3, "parallelism": 2, "backoffLimit": 1}),
        script: |sim| {
            end_some(sim, 1, 1);
            end_some(sim, 1, 1);
        },
    });
}

#[test]
fn an_indexed_job_with_a_limit_for_each_index() {
    check(&Scenario {
        name: "an_indexed_job_with_a_limit_for_each_index",
        spec: json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1}),
        script: |sim| {
            end_index(sim, 0, 1);
            end_index(sim, 1, 1);
            end_index(sim, 1, 1);
            end_index(sim, 0, 0);
            end_index(sim, 2, 0);
        },
    });
}

#[test]
fn a_policy_about_failures() {
    let ignored = json!({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]});
    let fatal = json!({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}});
    check(&Scenario {
        name: "a_policy_about_failures",
        spec: json!({"completions": 3, "parallelism": 2, "podFailurePolicy": {"rules": [fatal, ignored]}}),
        script: |sim| {
            let disrupted = json!([{"type": "DisruptionTarget", "status": "True"}]);
            let (_, pod) = active(sim).remove(0);
            end(sim, &pod, 1, &disrupted);
            sim.run_for(QUIET);
            end_some(sim, 1, 1);
            end_some(sim, 1, 42);
        },
    });
}

/// The policy stops the pod of index 3, which does not count.
#[test]
fn a_policy_about_successes() {
    check(&Scenario {
        name: "a_policy_about_successes",
        spec: json!({
            "completions": 4, "parallelism": 4, "completionMode": "Indexed", "successPolicy": {"rules": [{"succeededIndexes": "1-2"}]},
        }),
        script: |sim| {
            end_index(sim, 0, 0);
            end_index(sim, 2, 0);
            end_index(sim, 1, 0);
        },
    });
}

/// A container that is stopped exits with 0, so its pod counts as a success when it has ended, and is not replaced.
#[test]
fn a_job_that_replaces_failed_pods_only() {
    check(&Scenario {
        name: "a_job_that_replaces_failed_pods_only",
        spec: json!({"completions": 3, "parallelism": 2, "podReplacementPolicy": "Failed"}),
        script: |sim| {
            let (_, pod) = active(sim).remove(0);
            sim.delete_if_there(PODS, &pod);
            sim.run_for(QUIET);
            end_some(sim, 2, 0);
            assert_eq!(active(sim), [], "it is complete");
        },
    });
}

#[test]
fn a_job_that_is_suspended_and_resumed() {
    check(&Scenario {
        name: "a_job_that_is_suspended_and_resumed",
        spec: json!({"completions": 3, "parallelism": 2}),
        script: |sim| {
            end_some(sim, 1, 0);
            sim.patch(JOBS, "sum", json!({"spec": {"suspend": true}}));
            sim.run_for(QUIET);
            assert_eq!(active(sim), [], "it is suspended");
            sim.patch(JOBS, "sum", json!({"spec": {"suspend": false}}));
            sim.run_for(QUIET);
            end_some(sim, 2, 0);
        },
    });
}

#[test]
fn a_job_whose_parallelism_changes() {
    check(&Scenario {
        name: "a_job_whose_parallelism_changes",
        spec: json!({"completions": 6, "parallelism": 4}),
        script: |sim| {
            sim.patch(JOBS, "sum", json!({"spec": {"parallelism": 1}}));
            sim.run_for(QUIET);
            assert_eq!(active(sim).len(), 1);
            end_some(sim, 1, 0);
            sim.patch(JOBS, "sum", json!({"spec": {"parallelism": 5}}));
            sim.run_for(QUIET);
            end_some(sim, 5, 0);
        },
    });
}

#[test]
fn a_job_that_passes_its_deadline() {
    check(&Scenario {
        name: "a_job_that_passes_its_deadline",
        spec: json!({"completions": 3, "parallelism": 2, "activeDeadlineSeconds": 300}),
        script: |sim| {
            end_some(sim, 1, 0);
            sim.run_for(QUIET * 3);
        },
    });
}

#[test]
fn a_job_that_expires() {
    check(&Scenario {
        name: "a_job_that_expires",
        spec: json!({"completions": 2, "parallelism": 2, "ttlSecondsAfterFinished": 20}),
        script: |sim| {
            end_some(sim, 2, 0);
            sim.run_for(QUIET);
        },
    });
}

#[test]
fn a_job_some_of_whose_pods_are_deleted() {
    check(&Scenario {
        name: "a_job_some_of_whose_pods_are_deleted",
        spec: json!({"completions": 3, "parallelism": 2}),
        script: |sim| {
            let (_, pod) = active(sim).remove(0);
            sim.delete_if_there(PODS, &pod);
            sim.run_for(QUIET);
            end_some(sim, 2, 0);
            end_some(sim, 1, 0);
        },
    });
}

/// Deletes the Job while a pod has ended and another one runs.
fn delete_with(name: &'static str, script: fn(&mut Simulation)) {
    check(&Scenario { name, spec: json!({"completions": 4, "parallelism": 2}), script });
}

#[test]
fn a_job_that_is_deleted_with_its_pods() {
    delete_with("a_job_that_is_deleted_with_its_pods", |sim| {
        let (_, pod) = active(sim).remove(0);
        end(sim, &pod, 0, &json!([]));
        sim.delete_with(JOBS, "sum", Propagation::Background);
        sim.run_for(QUIET);
    });
}

#[test]
fn a_job_that_is_deleted_after_its_pods() {
    delete_with("a_job_that_is_deleted_after_its_pods", |sim| {
        let (_, pod) = active(sim).remove(0);
        end(sim, &pod, 0, &json!([]));
        sim.delete_with(JOBS, "sum", Propagation::Foreground);
        sim.run_for(QUIET);
    });
}

#[test]
fn a_job_that_is_deleted_without_its_pods() {
    delete_with("a_job_that_is_deleted_without_its_pods", |sim| {
        sim.delete_with(JOBS, "sum", Propagation::Orphan);
        sim.run_for(QUIET);
        // Nothing keeps them any more.
        let pods: Vec<String> = sim.objects("pods").into_keys().collect();
        assert_eq!(pods.len(), 2);
        pods.iter().for_each(|pod| sim.delete_if_there(PODS, pod));
        sim.run_for(SOON);
    });
}
