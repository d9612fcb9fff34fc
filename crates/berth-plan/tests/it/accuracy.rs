//! Forecasts are accurate: a forecast from a snapshot of a simulation equals the course of that simulation, which has another seed.

use crate::common::scenario::{Hold, NAME, Pace, Scenario, template};
use berth_node::Latencies;
use berth_plan::{Change, Controllers, Edit, Forecast, Outcome, Snapshot, StepKind, Suppositions, TroubleKind, forecast};
use berth_sim::{
    Options, Simulation,
    rng::{Purpose, SeededRng},
    seeds,
};
use berth_store::env::{Rng as _, Timestamp};
use berth_workloads::{
    plan::SOON,
    resources::DAEMON_SETS,
    workload::{WorkloadId, WorkloadKind},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

/// Longer than any rollout here takes.
const LONGEST: Duration = Duration::from_secs(7200);
/// The maximum difference of times.
const TOLERANCE: Duration = Duration::from_millis(100);
/// How many other interleavings are tried if the outcome is a tie. A few suffice for most, but a full quota has many.
const ORDERS: u64 = 200;
/// How much later than its last pod's change a set's status contains it.
const RECORDED_AFTER: Duration = Duration::from_millis(SOON.as_millis() as u64 + 10);
/// The resources of a snapshot.
const PLURALS: [&str; 12] = [
    "controllerrevisions",
    "daemonsets",
    "deployments",
    "limitranges",
    "namespaces",
    "nodes",
    "persistentvolumeclaims",
    "pods",
    "priorityclasses",
    "replicasets",
    "resourcequotas",
    "statefulsets",
];

fn is_complete(scenario: &Scenario, simulation: &Simulation) -> bool {
    match scenario.kind {
        WorkloadKind::Deployment => simulation.seen().is_rolled_out(NAME),
        WorkloadKind::StatefulSet => set_is_complete(simulation),
        WorkloadKind::DaemonSet => daemon_set_is_complete(simulation),
    }
}

fn is_tied(scenario: &Scenario, forecast: &Forecast) -> bool {
    scenario.is_tied(forecast.troubles.iter().any(|trouble| trouble.kind == TroubleKind::Quota))
}

fn snapshot(simulation: &Simulation) -> Snapshot {
    let objects = PLURALS.iter().flat_map(|plural| simulation.objects(plural).into_values()).collect();
    let beginning: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
    Snapshot { objects, at: beginning + simulation.elapsed(), ..Snapshot::default() }
}

/// The course of a forecast, in the same form as a simulation's log.
fn course_of(forecast: &Forecast, sizes_before: &BTreeMap<String, i64>) -> Happened {
    let workload = &forecast.workloads[0];
    let mut sizes: BTreeMap<String, Vec<(Duration, i64)>> = BTreeMap::new();
    let mut victims = Vec::new();
    for step in &workload.steps {
        match &step.kind {
            StepKind::CreateSet { set, replicas } => sizes.entry(set.clone()).or_default().push((step.at, *replicas)),
            StepKind::Resize { set, to, .. } => sizes.entry(set.clone()).or_default().push((step.at, *to)),
            StepKind::DeletePods { pods, .. } => {
                victims.extend(pods.iter().map(|victim| (step.at, victim.pod.clone())));
            }
            StepKind::DeleteSet { .. } | StepKind::CreatePods { .. } => (),
        }
    }
    Happened {
        // A simulation's log also contains a set's size when something else has changed.
        sizes: sizes.iter().map(|(name, changes)| (name.clone(), merged(changes, sizes_before.get(name).copied()))).collect(),
        victims: bursts(victims),
        most_pods: usize::try_from(workload.pods.value).expect("small"),
        fewest_available: usize::try_from(workload.available.value).expect("small"),
    }
}

fn make_true(simulation: &mut Simulation, scenario: &Scenario) {
    match scenario.kind {
        WorkloadKind::Deployment => simulation.patch_deployment(NAME, scenario.patch()),
        WorkloadKind::StatefulSet => simulation.patch_stateful_set(NAME, scenario.patch()),
        WorkloadKind::DaemonSet => simulation.patch(DAEMON_SETS, NAME, scenario.patch()),
    }
}

fn set_is_complete(simulation: &Simulation) -> bool {
    let set = simulation.object("statefulsets", NAME);
    let (spec, status) = (&set["spec"], &set["status"]);
    let number = |value: &Value| value.as_i64().unwrap_or(0);
    let wanted = number(&spec["replicas"]);
    number(&status["observedGeneration"]) == number(&set["metadata"]["generation"])
        && ["replicas", "readyReplicas", "availableReplicas", "updatedReplicas"].iter().all(|member| number(&status[*member]) == wanted)
        && (spec["updateStrategy"]["type"] != "RollingUpdate" || status["currentRevision"] == status["updateRevision"])
}

fn daemon_set_is_complete(simulation: &Simulation) -> bool {
    let set = simulation.object("daemonsets", NAME);
    let (generation, status) = (&set["metadata"]["generation"], &set["status"]);
    let counts = ["currentNumberScheduled", "updatedNumberScheduled", "numberAvailable"];
    status["observedGeneration"] == *generation && counts.iter().all(|member| status[*member] == status["desiredNumberScheduled"])
}

/// The course of a change in the simulation.
struct Truth {
    /// When it was complete, and when the last pod was deleted. `None` if it was not complete.
    ends: Option<(Duration, Duration)>,
    happened: Happened,
    sizes_before: BTreeMap<String, i64>,
}

impl Truth {
    /// The difference from the forecast, if there is one.
    fn difference(&self, forecast: &Forecast) -> Option<String> {
        let expected = course_of(forecast, &self.sizes_before);
        let apart = |forecast: Duration, was: Duration| was.abs_diff(forecast) > TOLERANCE;
        match (&forecast.workloads[0].outcome, self.ends) {
            (Outcome::Complete { after, settled_after }, Some((complete, settled))) => {
                if apart(*after, complete) {
                    return Some(format!("complete after {complete:?}, not {after:?}"));
                }
                if apart(*settled_after, settled) {
                    return Some(format!("settled after {settled:?}, not {settled_after:?}"));
                }
            }
            (Outcome::Held { .. } | Outcome::Stuck { .. }, None) => (),
            (outcome, ends) => return Some(format!("{ends:?}, not {outcome:?}")),
        }
        for (name, sizes) in &expected.sizes {
            let actual = self.happened.sizes.get(name).cloned().unwrap_or_default();
            let mut actual = [self.sizes_before.get(name).copied().into_iter().collect::<Vec<_>>(), actual].concat();
            actual.dedup();
            if actual != *sizes {
                return Some(format!("sizes of {name}: {actual:?}, not {sizes:?}"));
            }
        }
        let extremes = |happened: &Happened| (happened.most_pods, happened.fewest_available);
        if extremes(&self.happened) != extremes(&expected) {
            return Some(format!("the most and the fewest: {:?}, not {:?}", extremes(&self.happened), extremes(&expected)));
        }
        let counts = |happened: &Happened| happened.victims.iter().map(Vec::len).collect::<Vec<_>>();
        (counts(&self.happened) != counts(&expected))
            .then(|| format!("how many go when: {:?}, not {:?}", counts(&self.happened), counts(&expected)))
    }
}

/// Makes the change in the simulation, and follows it up to the end of the forecast.
fn happens(simulation: &mut Simulation, scenario: &Scenario, outcome: &Outcome, context: &str) -> Option<(Duration, Duration)> {
    let began = simulation.elapsed();
    let is_complete = |simulation: &Simulation| is_complete(scenario, simulation);
    make_true(simulation, scenario);
    match outcome {
        Outcome::Complete { .. } => {
            simulation.run_until_seen("the forecast rollout", LONGEST, is_complete);
            let complete = simulation.elapsed() - began;
            simulation.run_until("the end", LONGEST, |seen| seen.live_pods().len() == seen.pod_count());
            Some((complete, simulation.elapsed() - began))
        }
        Outcome::Held { settled_after, .. } => {
            simulation.run_for(*settled_after + TOLERANCE);
            let settled = simulation.log().len();
            simulation.run_for(RECORDED_AFTER);
            let expected = simulation.log().len();
            simulation.run_for(Duration::from_secs(3000));
            let goes_on = |from: usize, plural: &str| simulation.log()[from..].iter().any(|line| line.contains(plural));
            assert!(
                !goes_on(settled, " pods ") && !goes_on(expected, " replicasets "),
                "it goes on: {:#?}\n{context}",
                &simulation.log()[settled..]
            );
            assert!(!is_complete(simulation), "complete, although it is held\n{context}");
            None
        }
        Outcome::Stuck { why, .. } => {
            simulation.run_for(Duration::from_secs(3000));
            assert!(!is_complete(simulation), "complete, although {why:?}\n{context}");
            None
        }
    }
}

fn check(seed: u64) {
    check_scenario(seed, 3, &Scenario::draw(&SeededRng::new(seed, Purpose::Script), Pace::Virtual));
}

fn check_daemon_set(seed: u64) {
    let rng = SeededRng::new(seed, Purpose::Script);
    let nodes = u32::try_from(2 + rng.below(8)).expect("few");
    check_scenario(seed, nodes, &Scenario::of_daemon_set(&rng));
}

fn check_scenario(seed: u64, nodes: u32, scenario: &Scenario) {
    let Scenario { kind, manifest, times, edits, quota, idle, hold } = scenario;
    let latencies = Latencies { start: times.start, stop: times.stop };
    // Not the seed of an interleaving: with the same seed, a forecast would give new pods the uids of old ones.
    let mut simulation = Simulation::new(!seed, Options { latencies, nodes, ..Options::default() });
    if let Some(pods) = quota {
        simulation.create(
            &json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": pods.to_string()}}}),
        );
    }
    simulation.create(manifest);
    simulation.run_until_seen("the first rollout", LONGEST, |simulation| is_complete(scenario, simulation));
    match hold {
        Hold::Paused => simulation.patch_deployment(NAME, json!({"spec": {"paused": true}})),
        Hold::PausedInTheMiddle => {
            simulation.patch_deployment(NAME, json!({"spec": {"template": template("main:between")}}));
            simulation.run_for(times.middle);
            simulation.patch_deployment(NAME, json!({"spec": {"paused": true}}));
        }
        Hold::Nothing | Hold::OnDelete => (),
    }
    simulation.run_for(Duration::from_secs(2) + *idle);
    let (snapshot, before, from) = (snapshot(&simulation), simulation.objects("pods"), simulation.log().len());
    let sizes_before: BTreeMap<String, i64> =
        simulation.objects("replicasets").iter().map(|(name, set)| (name.clone(), set["spec"]["replicas"].as_i64().unwrap_or(0))).collect();
    let edit = Edit { workload: WorkloadId::new(*kind, "default", NAME), edits: edits.clone() };
    let change = Change { edits: vec![edit], ..Change::default() };
    // The pods' times are fixed, so that seeds differ only in the interleaving.
    let forecast_by = |order: u64| {
        let suppositions = Suppositions {
            controllers: Some(Controllers::Berth),
            start: Some(latencies.start),
            stop: Some(latencies.stop),
            seed: order,
            ..Suppositions::default()
        };
        forecast(&snapshot, &change, &suppositions).unwrap_or_else(|error| panic!("seed {seed}: {error}"))
    };
    let forecast = forecast_by(0);
    let steps = serde_json::to_string_pretty(&forecast.workloads[0].steps).expect("string keys");
    let context = format!("seed {seed}: {manifest}\n{edits:?} {times:?} {quota:?} {hold:?}\n{steps}\n{:?}", forecast.troubles);
    let ends = happens(&mut simulation, scenario, &forecast.workloads[0].outcome, &context);
    let truth = Truth { ends, happened: happened(&simulation, from, &before), sizes_before };
    let Some(difference) = truth.difference(&forecast) else { return };
    assert!(is_tied(scenario, &forecast), "{difference}\n{context}");
    let others: Vec<String> = (1..=ORDERS).map_while(|order| truth.difference(&forecast_by(order))).collect();
    assert!(others.len() < usize::try_from(ORDERS).expect("few"), "in no order: {difference}\n{others:#?}\n{context}");
}

#[test]
fn a_forecast_is_what_happens() {
    seeds::run(0..15, check);
}

#[test]
fn a_forecast_of_a_daemon_set_is_what_happens() {
    seeds::run(0..12, check_daemon_set);
}

/// The course of a simulation, from its log.
#[derive(Debug, Default, PartialEq)]
struct Happened {
    /// By ReplicaSet: its size at the end of each burst of changes.
    sizes: BTreeMap<String, Vec<i64>>,
    /// The deleted pods of each burst, sorted. If the rule is random, other pods may be deleted, also new ones.
    victims: Vec<Vec<String>>,
    most_pods: usize,
    fewest_available: usize,
}

/// Changes with smaller gaps are one burst.
const BURST: Duration = Duration::from_millis(400);

/// The last size of each burst, without repetitions.
fn merged(changes: &[(Duration, i64)], first: Option<i64>) -> Vec<i64> {
    let mut sizes: Vec<i64> = first.into_iter().collect();
    for (index, (at, size)) in changes.iter().enumerate() {
        let is_last = changes.get(index + 1).is_none_or(|(next, _)| *next > *at + BURST);
        if is_last && sizes.last() != Some(size) {
            sizes.push(*size);
        }
    }
    sizes
}

/// Sets of names, one set for each burst.
fn bursts(mut names: Vec<(Duration, String)>) -> Vec<Vec<String>> {
    names.sort();
    let mut bursts: Vec<(Duration, Vec<String>)> = Vec::new();
    for (at, name) in names {
        match bursts.last_mut().filter(|(last, _)| at <= *last + BURST) {
            Some((last, burst)) => {
                *last = at;
                burst.push(name);
            }
            None => bursts.push((at, vec![name])),
        }
    }
    let sorted = |(_, mut burst): (Duration, Vec<String>)| {
        burst.sort();
        burst
    };
    bursts.into_iter().map(sorted).collect()
}

/// Reads a simulation's log from the line `from`. `before` contains the pods before the change.
fn happened(simulation: &Simulation, from: usize, before: &BTreeMap<String, Value>) -> Happened {
    let ready =
        |pod: &Value| pod["status"]["conditions"].as_array().into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True");
    let mut pods: BTreeMap<String, (bool, bool)> =
        before.iter().map(|(name, pod)| (name.clone(), (pod["metadata"]["deletionTimestamp"].is_string(), ready(pod)))).collect();
    let mut sets: BTreeMap<String, Vec<(Duration, i64)>> = BTreeMap::new();
    let mut victims = Vec::new();
    let available = |pods: &BTreeMap<String, (bool, bool)>| pods.values().filter(|(going, ready)| !going && *ready).count();
    let (mut most, mut fewest) = (pods.len(), available(&pods));
    for line in &simulation.log()[from..] {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = Duration::from_secs_f64(words[0].parse().expect("seconds"));
        // The log has no verb for a change.
        let (gone, rest) = match words.get(2) {
            Some(&"-") => (true, &words[3..]),
            Some(&"+") => (false, &words[3..]),
            _ => (false, words.get(2..).unwrap_or_default()),
        };
        match rest {
            ["pods", name, ..] if gone => drop(pods.remove(*name)),
            ["pods", name, state @ ..] => {
                let going = state.contains(&"terminating");
                let known = pods.insert((*name).to_owned(), (going, state.contains(&"ready")));
                if going && known.is_some_and(|(was_going, _)| !was_going) {
                    victims.push((at, (*name).to_owned()));
                }
            }
            ["replicasets", name, words @ ..] if !gone => {
                let size = words.iter().find_map(|word| word.strip_prefix("size=")).expect("a size").parse().expect("a number");
                sets.entry((*name).to_owned()).or_default().push((at, size));
            }
            _ => (),
        }
        most = most.max(pods.len());
        fewest = fewest.min(available(&pods));
    }
    let sizes = sets.iter().map(|(name, changes)| (name.clone(), merged(changes, None))).collect();
    Happened { sizes, victims: bursts(victims), most_pods: most, fewest_available: fewest }
}
