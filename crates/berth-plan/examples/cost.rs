//! Measures the cost of a forecast: `cost PODS [RUNS]`, or `cost FILE [RUNS]` with the output of `kubectl get … -o json` for Deployment
//! `web`. With `PODS`, it creates a Deployment of this size in a simulation and takes a snapshot as of a live cluster. It forecasts a new
//! image, and prints the wall-clock and CPU time of each run.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, clippy::print_stdout, reason = "the one part that meets the machine")]

use berth_node::Latencies;
use berth_plan::{Change, Edit, Edits, Outcome, Snapshot, Suppositions, forecast};
use berth_sim::{Options, Simulation};
use berth_workloads::workload::{WorkloadId, WorkloadKind};
use serde_json::json;
use std::{
    fs,
    process::ExitCode,
    time::{Duration, Instant},
};

/// The program's own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The resources of a snapshot.
const PLURALS: [&str; 6] = ["deployments", "namespaces", "nodes", "pods", "priorityclasses", "replicasets"];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(what) = arguments.first() else {
        println!("cost PODS|FILE [RUNS]");
        return ExitCode::FAILURE;
    };
    let snapshot = what.parse().map_or_else(|_| read(what), brought_about);
    println!("{} objects", snapshot.objects.len());
    let runs = arguments.get(1).and_then(|runs| runs.parse().ok()).unwrap_or(1);
    let runs: Vec<(Duration, Duration)> = (0..runs).map(|_| run(&snapshot)).collect();
    let (clock, processor): (Vec<_>, Vec<_>) = runs.into_iter().unzip();
    print_times("clock", clock);
    print_times("processor", processor);
    ExitCode::SUCCESS
}

fn read(path: &str) -> Snapshot {
    Snapshot::of_documents([serde_json::from_slice(&fs::read(path).expect("a file")).expect("JSON")])
}

fn print_times(what: &str, mut took: Vec<Duration>) {
    took.sort_unstable();
    println!("{what}: median {:.2?} of {} runs; {took:.2?}", took[took.len() / 2], took.len());
}

/// A snapshot of a cluster that has rolled out a Deployment of this size.
fn brought_about(pods: usize) -> Snapshot {
    let latencies = Latencies { start: Duration::from_secs(5), stop: Duration::from_secs(20) };
    let nodes = u32::try_from(pods.div_ceil(100)).unwrap_or(u32::MAX).max(3);
    let mut simulation = Simulation::new(1, Options { latencies, nodes, ..Options::default() });
    simulation.create(&json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": pods, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "main:1", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}]},
            },
        },
    }));
    simulation.run_until_rolled_out("web", Duration::from_secs(7200));
    let objects = PLURALS.iter().flat_map(|plural| simulation.objects(plural).into_values()).collect();
    let beginning: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
    Snapshot { objects, at: beginning + simulation.elapsed(), ..Snapshot::default() }
}

fn run(snapshot: &Snapshot) -> (Duration, Duration) {
    let edits = Edits { images: vec![("main".to_owned(), "main:2".to_owned())], ..Edits::default() };
    let edit = Edit { workload: WorkloadId::new(WorkloadKind::Deployment, "default", "web"), edits };
    let change = Change { edits: vec![edit], ..Change::default() };
    let supposed = Suppositions { start: Some(Duration::from_secs(5)), stop: Some(Duration::from_secs(20)), ..Suppositions::default() };
    let (begun, ran) = (Instant::now(), on_processor());
    let found = forecast(snapshot, &change, &supposed).expect("a forecast");
    let took = (begun.elapsed(), on_processor().saturating_sub(ran));
    assert!(matches!(found.workloads[0].outcome, Outcome::Complete { .. }), "{:?}", found.troubles);
    took
}

/// The CPU time of this thread.
fn on_processor() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or_default())
}
