//! A recording of a simulation, replayed. Without changes it has the same result, whatever the replay's seed. With another policy it has
//! that policy's result.

use crate::common::scenario::{deployment, stateful_set};
use berth_node::Latencies;
use berth_plan::{
    Column, Ending, PlanError, Policy, Recorded, Replay, ReplayOptions, UnfitAutoscaler, WorkloadColumn, replay, replay_charts, replay_text,
};
use berth_sim::{Options, Simulation};
use berth_store::env::Timestamp;
use berth_trace::{Ended, Frames, Header, KINDS, Measured, Naming, Reader, Recorder};
use serde_json::{Value, json};
use std::time::Duration;

/// The maximum difference of times. The latencies of two runs are drawn from different seeds, and a rollout of a minute has dozens of them.
const TOLERANCE: Duration = Duration::from_millis(200);
const LATENCIES: Latencies = Latencies { start: Duration::from_millis(3000), stop: Duration::from_millis(7550) };

/// A simulation that is recorded.
struct Watched {
    simulation: Simulation,
    recorder: Recorder,
    lines: Vec<String>,
    is_listed: bool,
}

impl Watched {
    fn new(seed: u64, naming: Naming) -> Self {
        let simulation = Simulation::new(seed, Options { latencies: LATENCIES, ..Options::default() });
        let recorder = Recorder::new(naming, &[7; 32], beginning());
        Self { simulation, recorder, lines: Vec::new(), is_listed: false }
    }

    /// Records the present objects and the deleted ones.
    fn record(&mut self) {
        let now = beginning() + self.simulation.elapsed();
        let mut all = Vec::new();
        for kind in KINDS {
            self.recorder.list_begins(kind);
            all.extend(self.simulation.objects(kind.plural).into_values().map(|object| (kind, object)));
        }
        // In the order of a watch.
        all.sort_by_key(|(_, object)| object["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse::<u64>().ok()));
        all.iter().for_each(|(kind, object)| self.recorder.put(kind, object, now));
        KINDS.iter().for_each(|kind| self.recorder.list_ends(kind, now));
        if !self.is_listed {
            self.is_listed = true;
            self.recorder.listed(now);
        }
        self.lines.extend(self.recorder.take_lines());
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.simulation.elapsed() + time;
        while self.simulation.elapsed() < end {
            let told = self.simulation.log().len();
            let left = end - self.simulation.elapsed();
            self.simulation.run_until_seen("a change", left, |simulation| told < simulation.log().len() || end <= simulation.elapsed());
            self.record();
        }
    }

    fn file(mut self) -> Vec<u8> {
        let header = Header {
            at: beginning(),
            controllers: "berth".to_owned(),
            because: "they write the workloads".to_owned(),
            is_hashed: false,
            namespace: None,
            missing: Vec::new(),
        };
        let mut frames = Frames::new(Vec::new(), 0);
        frames.line(&header.line()).expect("in memory");
        self.lines.iter().for_each(|line| frames.line(line).expect("in memory"));
        let last = self.recorder.ended(Ended::Stopped, beginning() + self.simulation.elapsed());
        frames.finish(&last).expect("in memory")
    }
}

fn beginning() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().expect("a time")
}

fn replayed(file: &[u8], policy: Option<Policy>, seed: u64) -> Replay {
    let recorded = Recorded::read(Reader::begin(file).expect("a recording")).expect("it can be replayed");
    replay(recorded, ReplayOptions { policy, seed, ..ReplayOptions::default() }, |_| ()).expect("it is replayed")
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}})
}

/// A converged rollout, a new template, a scaling, and a template that another one replaces.
fn busy_day(naming: Naming) -> Vec<u8> {
    let mut watched = Watched::new(1, naming);
    let rolling = json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1}}});
    watched.simulation.create(&deployment(6, &rolling));
    watched.simulation.run_for(Duration::from_secs(10));
    watched.record();
    watched.run_for(Duration::from_secs(1));
    watched.simulation.patch_deployment("web", image("main:2"));
    watched.run_for(Duration::from_secs(40));
    watched.simulation.patch_deployment("web", json!({"spec": {"replicas": 9}}));
    watched.run_for(Duration::from_secs(12));
    watched.simulation.patch_deployment("web", image("main:3"));
    watched.run_for(Duration::from_secs(4));
    watched.simulation.patch_deployment("web", image("main:4"));
    watched.run_for(Duration::from_secs(60));
    watched.file()
}

fn only(column: &Column) -> &WorkloadColumn {
    assert_eq!(column.workloads.len(), 1, "{:?}", column.workloads);
    &column.workloads[0]
}

fn near(one: Duration, other: Duration, what: &str) {
    assert!(one.abs_diff(other) <= TOLERANCE, "{what}: {one:?} and {other:?}");
}

/// The sizes of one template, with those within a moment merged.
fn sizes(column: &WorkloadColumn, template: &str) -> Vec<i64> {
    let all = &column.sets[template];
    let is_last = |index: usize| all.get(index + 1).is_none_or(|next| all[index].at + Duration::from_millis(400) < next.at);
    let mut sizes: Vec<i64> = all.iter().enumerate().filter(|(index, _)| is_last(*index)).map(|(_, size)| size.replicas).collect();
    sizes.dedup();
    sizes
}

/// Compares the results of both.
fn check_alike(recorded: &WorkloadColumn, replayed: &WorkloadColumn) {
    let peaks = |column: &WorkloadColumn| {
        let resources: Vec<_> = column.sum.resources.iter().map(|(name, peak)| (name.clone(), peak.value)).collect();
        (column.sum.pods.value, column.sum.terminating.value, column.available.map(|available| available.value), resources)
    };
    assert_eq!(peaks(recorded), peaks(replayed));
    assert!(
        (recorded.sum.pod_minutes - replayed.sum.pod_minutes).abs() < 0.1 + recorded.sum.pod_minutes / 100.0,
        "{recorded:?}\n{replayed:?}"
    );
    assert_eq!(recorded.sets.keys().collect::<Vec<_>>(), replayed.sets.keys().collect::<Vec<_>>());
    for template in recorded.sets.keys() {
        assert_eq!(sizes(recorded, template), sizes(replayed, template), "{recorded:#?}\n{replayed:#?}");
    }
    assert_eq!(recorded.rollouts.len(), replayed.rollouts.len());
    for (one, other) in recorded.rollouts.iter().zip(&replayed.rollouts) {
        assert_eq!(one.is, other.is, "{recorded:#?}\n{replayed:#?}");
        near(one.at, other.at, "a rollout begins");
        assert_eq!(one.complete.is_some(), other.complete.is_some(), "{one:?} {other:?}");
        near(one.complete.unwrap_or_default(), other.complete.unwrap_or_default(), "it is complete");
        near(one.settled.unwrap_or_default(), other.settled.unwrap_or_default(), "the last old pod is gone");
    }
}

#[test]
fn as_it_was_comes_to_what_was_recorded() {
    let file = busy_day(Naming::Plain);
    for seed in [0, 1, 2, 3] {
        let replay = replayed(&file, None, seed);
        let (recorded, again) = (only(&replay.recorded), only(&replay.replayed));
        check_alike(recorded, again);
        let endings: Vec<Ending> = recorded.rollouts.iter().map(|rollout| rollout.is).collect();
        assert_eq!(endings, [Ending::Replacing, Ending::Superseded, Ending::Replacing], "{recorded:#?}");
        assert_eq!((replay.recording.changes, &replay.recording.torn), (4, &None));
        assert_eq!(replay.replayed.notes, [] as [&str; 0]);
    }
}

#[test]
fn hashed_names_replay_alike() {
    let (plain, hashed) = (replayed(&busy_day(Naming::Plain), None, 0), replayed(&busy_day(Naming::Hashed), None, 0));
    check_alike(only(&plain.replayed), only(&hashed.replayed));
    assert_ne!(only(&hashed.replayed).name, "web");
}

#[test]
fn under_termination_complete_there_are_never_more_pods_than_its_bound() {
    let replay = replayed(&busy_day(Naming::Plain), Some(Policy::TerminationComplete), 0);
    let (recorded, under) = (only(&replay.recorded), only(replay.under_policy.as_ref().expect("it was asked for")));
    // maxSurge 2 of 6, later of 9.
    assert!(recorded.sum.pods.value > 11, "as it was, surge and leaving pods were there together: {recorded:#?}");
    assert!(under.sum.pods.value <= 11, "{under:#?}");
    let took = |column: &WorkloadColumn| column.rollouts[0].took().expect("it was complete");
    assert!(took(recorded) + Duration::from_secs(5) < took(under), "it takes longer to wait for pods to leave");
    assert!(under.policy.contains("TerminationComplete"), "{}", under.policy);
    assert!(under.rollouts.iter().all(|rollout| rollout.complete.is_some() || rollout.is == Ending::Superseded), "{under:#?}");
    let text = replay_text(&replay);
    assert!(text.contains("RECORDED") && text.contains("TerminationComplete") && text.contains("pod-minutes"), "{text}");
    assert_eq!(replay_charts(&replay).len(), 3);
}

#[test]
fn stateful_sets_replay_and_workloads_come_and_go() {
    let mut watched = Watched::new(2, Naming::Plain);
    watched.simulation.create(&stateful_set(3, &json!({"podManagementPolicy": "Parallel"})));
    watched.simulation.run_for(Duration::from_secs(10));
    watched.record();
    watched.run_for(Duration::from_secs(1));
    watched.simulation.patch_stateful_set("web", image("main:2"));
    watched.run_for(Duration::from_secs(50));
    watched.simulation.create(&deployment(2, &json!({})));
    watched.run_for(Duration::from_secs(10));
    let replay = replayed(&watched.file(), None, 0);
    assert_eq!(replay.recorded.workloads.len(), 2);
    for (recorded, again) in replay.recorded.workloads.iter().zip(&replay.replayed.workloads) {
        check_alike(recorded, again);
    }
    let deployment = &replay.replayed.workloads[0];
    assert_eq!((deployment.kind, deployment.rollouts[0].is, deployment.available), ("Deployment", Ending::First, None));
}

#[test]
fn a_torn_recording_is_replayed_as_far_as_it_is_whole() {
    let file = busy_day(Naming::Plain);
    // The whole recording is one frame here, so the lines are truncated.
    let mut text = String::new();
    std::io::Read::read_to_string(&mut zstd::Decoder::new(&file[..]).expect("frames"), &mut text).expect("whole");
    let cut = text.char_indices().nth(text.len() * 2 / 3).expect("it is ASCII").0;
    let replay = replayed(&text.as_bytes()[..cut], None, 0);
    assert!(replay.recording.torn.as_ref().is_some_and(|torn| torn.contains("is incomplete")), "{:?}", replay.recording.torn);
    assert!(replay_text(&replay).contains("TORN"));
    assert!(!only(&replay.replayed).rollouts.is_empty());
    let header = &text[..=text.find('\n').expect("lines")];
    let none = Recorded::read(Reader::begin(header.as_bytes()).expect("a header"));
    assert!(none.err().is_some_and(|error| error.to_string().contains("it ends before it contains all objects")));
}

/// A Deployment of two pods that request 100m each. Together they use 100m, then 400m for three minutes, then 100m again. A user adds a pod
/// meanwhile. The usage is recorded, although there is no autoscaler.
fn loaded_day() -> Vec<u8> {
    let mut watched = Watched::new(3, Naming::Plain);
    let mut web = deployment(2, &json!({}));
    web["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "100m", "memory": "64Mi"}});
    watched.simulation.create(&web);
    watched.simulation.run_for(Duration::from_secs(10));
    watched.record();
    for sample in 0..28 {
        let used: i64 = if (4..16).contains(&sample) { 400 } else { 100 };
        let pods: Vec<Value> = watched.simulation.objects("pods").into_values().collect();
        let ready = i64::try_from(pods.len()).expect("few");
        let item = |pod: &Value| {
            let usage = json!({"cpu": format!("{}m", used / ready), "memory": "1Mi"});
            json!({"metadata": {"name": pod["metadata"]["name"], "namespace": "default"}, "containers": [{"name": "main", "usage": usage}]})
        };
        let items: Vec<Value> = pods.iter().map(item).collect();
        watched.recorder.usage(&items, Measured::All, beginning() + watched.simulation.elapsed());
        if sample == 8 {
            watched.simulation.patch_deployment("web", json!({"spec": {"replicas": 3}}));
        }
        watched.run_for(Duration::from_secs(15));
    }
    watched.file()
}

/// An autoscaler for half of the requested cpu.
fn autoscaler(spec: &Value) -> Value {
    let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}});
    let mut all = json!({"minReplicas": 1, "maxReplicas": 12, "metrics": [cpu],
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}}});
    all.as_object_mut().expect("a map").extend(spec.as_object().expect("a map").clone());
    json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "other"}, "spec": all})
}

fn with_autoscalers(file: &[u8], policy: Option<Policy>, autoscalers: Vec<Value>) -> Result<Replay, PlanError> {
    let recorded = Recorded::read(Reader::begin(file).expect("a recording")).expect("it can be replayed");
    replay(recorded, ReplayOptions { policy, autoscalers, seed: 0 }, |_| ())
}

#[test]
fn another_autoscaler_sizes_its_target_by_the_recorded_load() {
    let file = loaded_day();
    let replay = with_autoscalers(&file, None, vec![autoscaler(&json!({}))]).expect("it is replayed");
    assert_eq!(replay.recording.usage_samples, 28);
    let [autoscaled] = &replay.autoscaled[..] else { panic!("{:?}", replay.autoscaled) };
    assert_eq!((&*autoscaled.name, &*autoscaled.autoscaler, &autoscaled.instead_of, autoscaled.samples), ("web", "other", &None, 28));
    assert_eq!(autoscaled.load["cpu"].value, 400);
    let [recorded, replayed, other] = &autoscaled.columns[..] else { panic!("{autoscaled:?}") };
    let sizes = |scaling: &berth_plan::Scaling| scaling.sizes.iter().map(|size| size.replicas).collect::<Vec<_>>();
    // 400m are four times the target of two pods. At first four pods may be added. Later the load of eight pods is at the target.
    assert_eq!((sizes(recorded), sizes(replayed), sizes(other)), (vec![2, 3], vec![2, 3], vec![2, 6, 8, 2]), "{other:?}");
    assert_eq!((recorded.changes, other.changes), (1, 3));
    let (up, down) = (other.sizes[1].at.as_secs(), other.sizes[3].at.as_secs());
    assert!((60..=76).contains(&up) && (240..=256).contains(&down), "a sample and a reconcile after the load: {other:?}");
    // Two or three pods are over their target for as long as the load is.
    near(recorded.over_target, Duration::from_secs(180), "the recorded pods");
    near(replayed.over_target, recorded.over_target, "the replayed pods");
    assert!(other.over_target < Duration::from_secs(100), "{other:?}");
    assert!(recorded.pod_seconds < other.pod_seconds, "{recorded:?} {other:?}");
    let text = replay_text(&replay);
    for wanted in [
        "autoscaler other, of Deployment default/web: 28 samples; cpu at most 400m",
        "another autoscaler",
        "time over target",
        "Assumes that",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert_eq!(replay_charts(&replay).len(), 3);
}

#[test]
fn an_autoscaler_is_replayed_under_a_policy_and_replaces_the_recorded_one() {
    let mut watched = Watched::new(4, Naming::Plain);
    let mut recorded = autoscaler(&json!({"minReplicas": 2, "maxReplicas": 2}));
    (recorded["metadata"]["name"], recorded["metadata"]["namespace"]) = (json!("own"), json!("default"));
    let mut web = deployment(2, &json!({}));
    web["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "100m"}});
    watched.simulation.create(&web);
    watched.simulation.create(&recorded);
    watched.simulation.run_for(Duration::from_secs(10));
    watched.record();
    let pods: Vec<Value> = watched.simulation.objects("pods").into_values().collect();
    let item = |pod: &Value| json!({"metadata": {"name": pod["metadata"]["name"], "namespace": "default"}, "containers": [{"usage": {"cpu": "150m", "memory": "1Mi"}}]});
    watched.recorder.usage(&pods.iter().map(item).collect::<Vec<_>>(), Measured::Autoscaled, beginning() + watched.simulation.elapsed());
    watched.run_for(Duration::from_secs(20));
    watched.simulation.patch_deployment("web", image("main:2"));
    watched.run_for(Duration::from_secs(60));
    let file = watched.file();
    let replay = with_autoscalers(&file, Some(Policy::TerminationComplete), vec![autoscaler(&json!({}))]).expect("it is replayed");
    let under = replay.under_hpa.as_ref().expect("it was asked for");
    assert_eq!(under.name, "another autoscaler, TerminationComplete");
    assert!(only(under).policy.contains("TerminationComplete"), "{under:?}");
    assert_eq!(replay.under_policy.as_ref().map(|column| column.name.as_str()), Some("TerminationComplete"));
    assert_eq!(replay.autoscaled[0].instead_of.as_deref(), Some("own"));
    let last = |column: usize| replay.autoscaled[0].columns[column].sizes.last().map(|size| size.replicas);
    assert_eq!([last(0), last(1), last(2), last(3)], [Some(2), Some(2), Some(2), Some(6)], "300m at 50m per pod: {:#?}", replay.autoscaled);
    assert_eq!(replay.replayed.notes, [] as [&str; 0], "the recorded autoscaler is no change that is repeated");
}

#[test]
fn an_autoscaler_without_recorded_values_is_refused_with_the_reason() {
    let file = loaded_day();
    let refused = |autoscalers: Vec<Value>| match with_autoscalers(&file, None, autoscalers) {
        Err(PlanError::Autoscaler { source, .. }) => source,
        other => panic!("{other:?}"),
    };
    let till = autoscaler(&json!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "till"}}));
    let why = refused(vec![till]).to_string();
    assert!(why.contains("no usage of Deployment default/till, only of Deployment default/web; berth record keeps it"), "{why}");
    let external = json!({"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "3"}}});
    assert_eq!(refused(vec![autoscaler(&json!({"metrics": [external]}))]), UnfitAutoscaler::Metric("External".to_owned()));
    assert_eq!(refused(vec![deployment(1, &json!({}))]), UnfitAutoscaler::Kind);
    assert_eq!(refused(vec![autoscaler(&json!({})), autoscaler(&json!({}))]), UnfitAutoscaler::SameTarget);
    let many = with_autoscalers(&file, None, vec![autoscaler(&json!({"maxReplicas": 2_000_000}))]);
    assert!(matches!(many, Err(PlanError::TooMuch { .. })), "{many:?}");
    let invalid = with_autoscalers(&file, None, vec![autoscaler(&json!({"minReplicas": 20}))]);
    assert!(matches!(invalid, Err(PlanError::Refused { .. })), "{invalid:?}");
}
