//! Lives by restart policy, exit code and role, as texts: `ended, code=0 | runs, restarts=1`.

use super::{Habit, Life, LifeState, Lives, Outcome};
use crate::kubelet::{
    Latencies, MissingImages,
    behavior::Behavior,
    references::Faults,
    stage::{PodStage, begin, due, step},
    status::{StatusInputs, status},
    view::KubeletPod,
};
use berth_identity::Revision;
use berth_workloads::view::View;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::{fmt, time::Duration};

impl fmt::Display for Lives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lives: Vec<String> = self.0.iter().map(shown).collect();
        f.write_str(&lives.join(" | "))
    }
}

fn shown(life: &Life) -> String {
    let state = match life.state {
        LifeState::Waiting => "waits",
        LifeState::Running { ready: true, .. } => "ready",
        LifeState::Running { ready: false, .. } => "runs",
        LifeState::Ended { restarts_at: Some(_) } => "ended",
        LifeState::Ended { restarts_at: None } => "over",
        LifeState::BackingOff { .. } => "backs off",
    };
    let restarts = if life.restarts == 0 { String::new() } else { format!(", restarts={}", life.restarts) };
    let code = life.last.map_or_else(String::new, |end| format!(", code={}", end.code));
    format!("{state}{restarts}{code}")
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + seconds).expect("in range")
}

/// A pod with these annotations, without their prefix, and this spec. Its containers are `main`, unless the spec names others.
struct Case {
    json: Value,
}

impl Case {
    fn new(policy: &str, annotations: &[(&str, &str)], spec: &Value) -> Self {
        let annotations: serde_json::Map<String, Value> =
            annotations.iter().map(|(key, value)| (format!("sim.berth.dev/{key}"), json!(value))).collect();
        let mut json = json!({
            "metadata": {"name": "p", "namespace": "shop", "uid": "u", "annotations": annotations},
            "spec": {"restartPolicy": policy, "containers": [{"name": "main", "image": "i"}]},
        });
        json["spec"].as_object_mut().expect("a map").extend(spec.as_object().expect("a map").clone());
        Self { json }
    }

    fn pod(&self) -> KubeletPod {
        KubeletPod::decode(self.json.to_string().as_bytes(), Revision(1)).expect("a pod")
    }

    fn behavior(&self) -> Behavior {
        Behavior::of(&self.pod(), Latencies { start: Duration::ZERO, stop: Duration::from_secs(2) }, &MissingImages::default())
    }

    fn text(&self, stage: &PodStage) -> String {
        let (pod, behavior) = (self.pod(), self.behavior());
        let PodStage::Active(lives) = stage else { return format!("{stage:?}") };
        match lives.outcome(Habit { pod: &pod, behavior: &behavior }) {
            Some(Outcome::Succeeded) => format!("{lives} => Succeeded"),
            Some(Outcome::Failed) => format!("{lives} => Failed"),
            None => lives.to_string(),
        }
    }

    /// All that is due at `now`.
    fn advance(&self, mut stage: PodStage, now: Timestamp) -> PodStage {
        while let Some(next) = step(&stage, &self.pod(), &self.behavior(), now) {
            stage = next;
        }
        stage
    }

    /// The stages from `first` on, each with its time: at most `max`.
    fn follow(&self, first: PodStage, from: Timestamp, max: usize) -> Vec<(Timestamp, PodStage)> {
        let mut stages = vec![(from, self.advance(first, from))];
        while stages.len() < max {
            let (_, last) = stages.last().expect("there is one");
            let Some(next) = due(last) else { break };
            let stage = self.advance(last.clone(), next);
            stages.push((next, stage));
        }
        stages
    }

    fn life(&self, max: usize) -> Vec<(Timestamp, PodStage)> {
        self.follow(begin(&self.pod(), &self.behavior(), at(0)), at(0), max)
    }

    /// The pod with the status that reports this stage.
    fn reported(&self, stage: &PodStage, now: Timestamp) -> Self {
        let (pod, behavior, faults) = (self.pod(), self.behavior(), Faults::new());
        let missing = MissingImages::default();
        let inputs = StatusInputs {
            behavior: &behavior,
            host_ip: "10.1.0.1".to_owned(),
            pod_ip: Some("10.64.0.1"),
            missing: &missing,
            faults: &faults,
        };
        let written = pod.written_status().expect("a status");
        let part = status(&pod, &written, stage, &inputs, now).expect("it has a status");
        let mut json = self.json.clone();
        json["status"] = part.to_patch()["status"].clone();
        Self { json }
    }

    fn phase(&self) -> &Value {
        &self.json["status"]["phase"]
    }
}

/// The first stages of a pod, as `seconds: lives`. Also: a node that restarts at any of them, and knows only the status, continues as this one would.
fn check(policy: &str, annotations: &[(&str, &str)], spec: &Value, expected: &[&str]) {
    let case = Case::new(policy, annotations, spec);
    let stages = case.life(expected.len());
    let found: Vec<String> =
        stages.iter().map(|(time, stage)| format!("{}: {}", time.duration_since(at(0)).as_secs_f64(), case.text(stage))).collect();
    assert_eq!(found, expected, "{policy} {annotations:?} {spec}");

    let mut known = Case { json: case.json.clone() };
    for (index, (time, stage)) in stages.iter().enumerate() {
        known = known.reported(stage, *time);
        if matches!(known.phase().as_str(), Some("Succeeded" | "Failed")) {
            assert_eq!(due(stage), None, "nothing follows {}", found[index]);
            continue;
        }
        let again = known.follow(begin(&known.pod(), &known.behavior(), *time), *time, stages.len() - index);
        let texts = |stages: &[(Timestamp, PodStage)]| stages.iter().map(|(_, stage)| case.text(stage)).collect::<Vec<_>>();
        let (again, expected) = (texts(&again), texts(&stages[index..]));
        // A status has whole seconds, so an end can seem to have been reported for long enough.
        let skipped = usize::from(again[0] != expected[0] && expected[0].contains("ended"));
        assert!(again.starts_with(&expected[skipped..]), "after a restart at {}: {again:?}, not {expected:?}", found[index]);
    }
}

#[test]
fn a_container_ends_by_its_restart_policy_and_exit_code() {
    let none = json!({});
    check("Always", &[], &none, &["0: ready"]);
    check("Never", &[], &none, &["0: ready", "1: over, code=0 => Succeeded"]);
    check("OnFailure", &[], &none, &["0: ready", "1: over, code=0 => Succeeded"]);
    check("Never", &[("exit-code", "3")], &none, &["0: ready", "1: over, code=3 => Failed"]);
    check("Never", &[("completes-after", "5s")], &none, &["0: ready", "5: over, code=0 => Succeeded"]);
    check("Never", &[("completes-after", "never")], &none, &["0: ready"]);
    check("Never", &[("fails", "CrashLoopBackOff")], &none, &["0: ready", "1: over, code=1 => Failed"]);
    let fails = [
        "0: ready",
        "1: ended, code=3",
        "1.5: ready, restarts=1, code=3",
        "2.5: ended, restarts=1, code=3",
        "3: backs off, restarts=1, code=3",
        "12.5: ready, restarts=2, code=3",
        "13.5: ended, restarts=2, code=3",
        "14: backs off, restarts=2, code=3",
        "33.5: ready, restarts=3, code=3",
    ];
    check("OnFailure", &[("exit-code", "3")], &none, &fails);
    check("Always", &[("exit-code", "3")], &none, &fails);
    let completes = [
        "0: ready",
        "2: ended, code=0",
        "2.5: ready, restarts=1, code=0",
        "4.5: ended, restarts=1, code=0",
        "5: backs off, restarts=1, code=0",
    ];
    check("Always", &[("completes-after", "2s")], &none, &completes);
}

#[test]
fn the_first_runs_fail_and_then_one_does_not() {
    let first = [
        "0: ready",
        "1: ended, code=1",
        "1.5: ready, restarts=1, code=1",
        "2.5: ended, restarts=1, code=1",
        "3: backs off, restarts=1, code=1",
        "12.5: ready, restarts=2, code=1",
    ];
    let (annotations, none) = ([("fails-first", "2")], json!({}));
    check("Always", &annotations, &none, &first);
    check("OnFailure", &annotations, &none, &[&first[..], &["13.5: over, restarts=2, code=0 => Succeeded"]].concat());
    check("Never", &annotations, &none, &["0: ready", "1: over, code=1 => Failed"]);
    let with_code = ["0: ready", "4: ended, code=7", "4.5: ready, restarts=1, code=7", "8.5: over, restarts=1, code=0 => Succeeded"];
    check("OnFailure", &[("fails-first", "1"), ("exit-code", "7"), ("completes-after", "4s")], &none, &with_code);
}

#[test]
fn a_long_run_ends_the_back_off() {
    let hours = [
        "0: ready",
        "3600: ended, code=0",
        "3600.5: ready, restarts=1, code=0",
        "7200.5: ended, restarts=1, code=0",
        "7201: ready, restarts=2, code=0",
    ];
    check("Always", &[("completes-after", "1h")], &json!({}), &hours);
}

#[test]
fn a_pod_ends_with_the_last_of_its_containers() {
    let two = json!({"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]});
    let late = [("completes-after.b", "5s")];
    check("Never", &late, &two, &["0: ready | ready", "1: over, code=0 | ready", "5: over, code=0 | over, code=0 => Succeeded"]);
    let bad = [("completes-after.b", "5s"), ("exit-code.a", "4")];
    check("Never", &bad, &two, &["0: ready | ready", "1: over, code=4 | ready", "5: over, code=4 | over, code=0 => Failed"]);
    let restarted = ["0: ready | ready", "1: over, code=0 | ended, code=1", "1.5: over, code=0 | ready, restarts=1, code=1"];
    let restarted = [&restarted[..], &["2.5: over, code=0 | over, restarts=1, code=0 => Succeeded"]].concat();
    check("OnFailure", &[("fails-first.b", "1")], &two, &restarted);
}

#[test]
fn a_container_can_have_its_own_restart_policy() {
    let own = |policy: &str, rules: Value| json!({"containers": [{"name": "main", "image": "i", "restartPolicy": policy, "restartPolicyRules": rules}]});
    let none = json!([]);
    check("Always", &[("exit-code", "3")], &own("Never", none.clone()), &["0: ready", "1: over, code=3 => Failed"]);
    check("Always", &[], &own("OnFailure", none.clone()), &["0: ready", "1: over, code=0 => Succeeded"]);
    check("Never", &[], &own("Always", none), &["0: ready"]);
    let rule = |operator: &str, code: i32| json!([{"action": "Restart", "exitCodes": {"operator": operator, "values": [code]}}]);
    let restarts = ["0: ready", "1: ended, code=42", "1.5: ready, restarts=1, code=42", "2.5: over, restarts=1, code=0 => Succeeded"];
    let annotations = [("fails-first", "1"), ("exit-code", "42")];
    check("Never", &annotations, &own("Never", rule("In", 42)), &restarts);
    check("Never", &annotations, &own("Never", rule("NotIn", 42)), &["0: ready", "1: over, code=42 => Failed"]);
}

#[test]
fn init_containers_run_in_order_and_each_must_succeed() {
    let init = json!({"initContainers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]});
    check("Always", &[], &init, &["0: over, code=0 | over, code=0 | ready"]);
    let timed = [("completes-after.a", "2s"), ("completes-after.b", "3s")];
    let order = ["0: ready | waits | waits", "2: over, code=0 | ready | waits", "5: over, code=0 | over, code=0 | ready"];
    check("Always", &timed, &init, &order);
    check("Never", &[("exit-code.a", "2")], &init, &["0: ready | waits | waits", "1: over, code=2 | waits | waits => Failed"]);
    let fails = [
        "0: ready | waits | waits",
        "1: ended, code=2 | waits | waits",
        "1.5: ready, restarts=1, code=2 | waits | waits",
        "2.5: ended, restarts=1, code=2 | waits | waits",
        "3: backs off, restarts=1, code=2 | waits | waits",
    ];
    check("Always", &[("exit-code.a", "2")], &init, &fails);
    check("OnFailure", &[("exit-code.a", "2")], &init, &fails);
    let recovers = [
        "0: over, code=0 | ready | waits",
        "1: over, code=0 | ended, code=1 | waits",
        "1.5: over, code=0 | over, restarts=1, code=0 | ready",
    ];
    check(
        "Always",
        &[("fails-first.b", "1"), ("completes-after.b", "1s")],
        &init,
        &[&recovers[..2], &["1.5: over, code=0 | ready, restarts=1, code=1 | waits"]].concat(),
    );
    check("Always", &[("fails-first.b", "1")], &init, &recovers);
}

#[test]
fn sidecars_start_in_order_stay_and_are_stopped_last() {
    let spec = json!({"initContainers": [{"name": "proxy", "image": "i", "restartPolicy": "Always"}, {"name": "once", "image": "i"}]});
    let completes = [("completes-after.once", "2s"), ("completes-after", "3s")];
    let life = [
        "0: ready | ready | waits",
        "2: ready | over, code=0 | ready",
        "5: ready | over, code=0 | over, code=0",
        "7: over, code=0 | over, code=0 | over, code=0 => Succeeded",
    ];
    check("Never", &completes, &spec, &life);
    let crashes = [
        "0: ready | over, code=0 | ready",
        "1: ended, code=1 | over, code=0 | ready",
        "1.5: ready, restarts=1, code=1 | over, code=0 | ready",
    ];
    check("Never", &[("fails-first.proxy", "1"), ("completes-after", "never")], &spec, &crashes);
    let init_fails = ["0: ready | ready | waits", "1: ready | over, code=5 | waits", "3: over, code=0 | over, code=5 | waits => Failed"];
    check("Never", &[("exit-code.once", "5")], &spec, &init_fails);
    let backs_off = [
        "0: ready | over, code=0 | ready",
        "1: ended, code=1 | over, code=0 | ready",
        "1.5: ready, restarts=1, code=1 | over, code=0 | ready",
        "2.5: ended, restarts=1, code=1 | over, code=0 | ready",
        "3: backs off, restarts=1, code=1 | over, code=0 | ready",
        "4: over, restarts=1, code=1 | over, code=0 | over, code=0 => Succeeded",
    ];
    check("Never", &[("fails-first.proxy", "9"), ("completes-after", "4s")], &spec, &backs_off);
}

#[test]
fn the_status_of_each_stage_is_a_kubelets() {
    let state = |case: &Case, list: &str| {
        let statuses = case.json["status"][list].as_array().cloned().unwrap_or_default();
        let text = |status: &Value| {
            let state = status["state"].as_object().expect("a state").iter().next().expect("one of three");
            let reason = state.1["reason"].as_str().map_or_else(String::new, |reason| format!(" {reason}"));
            let last = status["lastState"]["terminated"]["reason"].as_str().map_or_else(String::new, |reason| format!(" after {reason}"));
            format!("{}{reason}{last} ready={}", state.0, status["ready"])
        };
        statuses.iter().map(text).collect::<Vec<_>>().join(", ")
    };
    let condition = |case: &Case, type_: &str| {
        let conditions = case.json["status"]["conditions"].as_array().cloned().expect("conditions");
        let found = conditions.into_iter().find(|condition| condition["type"] == type_).expect("it has one");
        format!("{} {}", found["status"].as_str().expect("a text"), found["reason"].as_str().unwrap_or_default()).trim().to_owned()
    };
    let check = |policy: &str, annotations: &[(&str, &str)], spec: &Value, expected: &[[&str; 4]]| {
        let mut case = Case::new(policy, annotations, spec);
        let stages = case.life(expected.len());
        for ((time, stage), expected) in stages.iter().zip(expected) {
            case = case.reported(stage, *time);
            let found = [
                case.phase().as_str().expect("a text").to_owned(),
                [state(&case, "initContainerStatuses"), state(&case, "containerStatuses")].join("; ").trim_start_matches("; ").to_owned(),
                condition(&case, "Ready"),
                condition(&case, "Initialized"),
            ];
            assert_eq!(found.each_ref().map(String::as_str), *expected, "{policy} {annotations:?} at {time}");
            assert_eq!(condition(&case, "ContainersReady"), condition(&case, "Ready"));
        }
    };
    check(
        "Never",
        &[],
        &json!({}),
        &[
            ["Running", "running ready=true", "True", "True"],
            ["Succeeded", "terminated Completed ready=false", "False PodCompleted", "True PodCompleted"],
        ],
    );
    check(
        "Never",
        &[("exit-code", "3")],
        &json!({}),
        &[["Running", "running ready=true", "True", "True"], ["Failed", "terminated Error ready=false", "False PodFailed", "True"]],
    );
    check(
        "OnFailure",
        &[("exit-code", "3")],
        &json!({}),
        &[
            ["Running", "running ready=true", "True", "True"],
            ["Running", "terminated Error ready=false", "False ContainersNotReady", "True"],
            ["Running", "running after Error ready=true", "True", "True"],
            ["Running", "terminated Error after Error ready=false", "False ContainersNotReady", "True"],
            ["Running", "waiting CrashLoopBackOff after Error ready=false", "False ContainersNotReady", "True"],
        ],
    );
    let init = json!({"initContainers": [{"name": "a", "image": "i"}, {"name": "proxy", "image": "i", "restartPolicy": "Always"}]});
    check(
        "Never",
        &[("completes-after.a", "1s")],
        &init,
        &[
            [
                "Pending",
                "running ready=false, waiting PodInitializing ready=false; waiting PodInitializing ready=false",
                "False ContainersNotReady",
                "False ContainersNotInitialized",
            ],
            ["Running", "terminated Completed ready=true, running ready=true; running ready=true", "True", "True"],
            [
                "Running",
                "terminated Completed ready=true, running ready=true; terminated Completed ready=false",
                "False ContainersNotReady",
                "True",
            ],
            [
                "Succeeded",
                "terminated Completed ready=true, terminated Completed ready=false; terminated Completed ready=false",
                "False PodCompleted",
                "True PodCompleted",
            ],
        ],
    );
    check(
        "Never",
        &[("exit-code.a", "2")],
        &init,
        &[
            [
                "Pending",
                "running ready=false, waiting PodInitializing ready=false; waiting PodInitializing ready=false",
                "False ContainersNotReady",
                "False ContainersNotInitialized",
            ],
            [
                "Failed",
                "terminated Error ready=false, waiting PodInitializing ready=false; waiting PodInitializing ready=false",
                "False PodFailed",
                "False ContainersNotInitialized",
            ],
        ],
    );
}

#[test]
fn times_within_a_range_differ_between_pods_and_are_the_same_after_a_restart() {
    let case = |uid: &str| {
        let mut case = Case::new("Never", &[("completes-after", "20s±10s")], &json!({}));
        case.json["metadata"]["uid"] = json!(uid);
        case
    };
    let end = |case: &Case| case.life(2)[1].0.duration_since(at(0)).as_secs_f64();
    let ends: Vec<f64> = (0..20).map(|pod| end(&case(&format!("pod-{pod}")))).collect();
    assert!(ends.iter().all(|end| (10.0..=30.0).contains(end)), "{ends:?}");
    assert!(ends.iter().any(|end| *end < 15.0) && ends.iter().any(|end| 25.0 < *end), "{ends:?}");
    assert!((end(&case("pod-0")) - ends[0]).abs() < 1e-9);
}

#[test]
fn a_pod_that_is_stopped_has_the_exit_codes_of_its_signals() {
    use super::Stop;
    let stopped = |annotations: &[(&str, &str)], policy: &str, after: i64, stop: Stop| {
        let case = Case::new(policy, annotations, &json!({}));
        let stage = case.advance(begin(&case.pod(), &case.behavior(), at(0)), at(0));
        let PodStage::Active(lives) = stage else { panic!("it runs: {stage:?}") };
        lives.stopped(at(after), stop).to_string()
    };
    assert_eq!(stopped(&[], "Always", 9, Stop::Gracefully), "over, code=0", "it ran to be stopped");
    assert_eq!(stopped(&[], "Always", 9, Stop::ByForce), "over, code=137");
    let completes = [("completes-after", "5s")];
    assert_eq!(stopped(&completes, "Never", 4, Stop::Gracefully), "over, code=143", "its work was not done");
    assert_eq!(stopped(&completes, "Never", 4, Stop::ByForce), "over, code=137");
    assert_eq!(stopped(&completes, "Never", 9, Stop::ByForce), "over, code=0", "it had ended before");
    assert_eq!(stopped(&[("completes-after", "5s"), ("exit-code", "3")], "Never", 9, Stop::Gracefully), "over, code=3");
}
