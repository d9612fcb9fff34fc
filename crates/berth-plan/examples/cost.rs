//! What a forecast costs: `cost PODS [RUNS]`. Makes a Deployment of so many pods, gives it another image, and prints how long each run took and the median.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, clippy::print_stdout, reason = "the one part that meets the machine")]

use berth_plan::{Change, Edit, Edits, Outcome, Snapshot, Suppositions, WorkloadKind, forecast};
use serde_json::json;
use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

/// The program's own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let Some(pods) = numbers.first().copied() else {
        println!("cost PODS [RUNS]");
        return ExitCode::FAILURE;
    };
    let mut took: Vec<Duration> = (0..numbers.get(1).copied().unwrap_or(1)).map(|_| run(pods)).collect();
    println!("{took:.0?}");
    took.sort_unstable();
    println!("{pods} pods: median {:.0?} of {} runs", took[took.len() / 2], took.len());
    ExitCode::SUCCESS
}

fn run(pods: usize) -> Duration {
    let web = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": pods, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "main:1", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}]},
            },
        },
    });
    let snapshot = Snapshot::of_documents(vec![web]);
    let edits = Edits { images: vec![("main".to_owned(), "main:2".to_owned())], ..Edits::default() };
    let edit = Edit { kind: WorkloadKind::Deployment, namespace: "default".to_owned(), name: "web".to_owned(), edits };
    let change = Change { edits: vec![edit], ..Change::default() };
    let supposed = Suppositions { start: Some(Duration::from_secs(5)), stop: Some(Duration::from_secs(20)), ..Suppositions::default() };
    let begun = Instant::now();
    let foretold = forecast(&snapshot, &change, &supposed).expect("a forecast");
    let took = begun.elapsed();
    assert!(matches!(foretold.workloads[0].outcome, Outcome::Complete { .. }), "{:?}", foretold.troubles);
    took
}
