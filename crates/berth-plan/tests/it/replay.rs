//! A recording of a simulation, replayed. Without changes it has the same result, whatever the replay's seed. With another policy it has
//! that policy's result.

use crate::common::scenario::{deployment, stateful_set};
use berth_node::Latencies;
use berth_plan::{Column, Ending, Policy, Recorded, Replay, ReplayOptions, WorkloadColumn, replay, replay_charts, replay_text};
use berth_sim::{Options, Simulation};
use berth_store::env::Timestamp;
use berth_trace::{Ended, Frames, Header, KINDS, Naming, Reader, Recorder};
use serde_json::{Value, json};
use std::time::Duration;

/// The maximum difference of times.
const TOLERANCE: Duration = Duration::from_millis(100);
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
    replay(recorded, ReplayOptions { policy, seed }, |_| ()).expect("it is replayed")
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
