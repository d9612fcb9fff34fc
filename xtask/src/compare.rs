//! Compares random requests and rollouts with a real Kubernetes, for a range of seeds. `compare/tests/it` runs one case of each kind.

use crate::run::{Outcome, command, program, root};
use std::{path::PathBuf, process::Command};

/// A real controller manager limits its requests, which the comparison must not depend on.
const UNLIMITED: &str = "--kube-api-qps=5000 --kube-api-burst=10000";

/// Which cases to run.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// A range of seeds. Each seed is one object and its changes.
    #[arg(long, default_value = "0..5000", value_name = "FROM..TO")]
    seeds: String,
    /// Compares workloads and autoscalers at rest, after each of a few changes, instead of answers. Seeds are, in turn, of Deployments,
    /// StatefulSets, DaemonSets, Jobs, CronJobs and HorizontalPodAutoscalers.
    #[arg(long)]
    end_states: bool,
    /// Only these kinds.
    #[arg(long, value_name = "KIND,...")]
    only: Option<String>,
    /// A folder with more manifests to start cases from.
    #[arg(long, value_name = "DIR")]
    documents: Option<PathBuf>,
    /// Applies the manifests of a folder instead: each file or folder in it is a set with servers of its own. Prints which objects each
    /// server accepts and which workloads become ready. Repeatable.
    #[arg(long, value_name = "DIR")]
    manifests: Vec<PathBuf>,
    /// How many cases run at once.
    #[arg(long, value_name = "N")]
    at_once: Option<usize>,
    /// Prints every request and both answers.
    #[arg(long)]
    trace: bool,
}

/// Builds, then compares. Fails if anything differs that docs/deviations.md does not list.
pub(crate) fn run(options: &Options) -> Outcome {
    program("cargo", &["build", "--release", "--package", "berth", "--package", "compare"])?;
    let programs = root().join("target/release");
    let mut compare = Command::new(programs.join("compare"));
    compare.env("BERTH_BINARY", programs.join("berth")).env("KCM_EXTRA", UNLIMITED);
    compare.args(["--seeds", &options.seeds]);
    compare.args(options.end_states.then_some("--end-states")).args(options.trace.then_some("--trace"));
    if let Some(kinds) = &options.only {
        compare.args(["--only", kinds]);
    }
    if let Some(folder) = &options.documents {
        compare.arg("--documents").arg(folder);
    }
    for folder in &options.manifests {
        compare.arg("--manifests").arg(folder);
    }
    if let Some(count) = options.at_once {
        compare.args(["--at-once", &count.to_string()]);
    }
    command(&mut compare)
}
