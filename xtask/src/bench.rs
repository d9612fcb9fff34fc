//! Measurements that developers run. No test depends on them.

use crate::run::{Outcome, command, program, root};
use std::{path::PathBuf, process::Command};

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only these scenarios: start, memory, objects, lists, rollout-{100,1000,5000,10000}, fleet, crowd, idle-10000,
    /// sets-{ordered,parallel,quarters,many}, schedule-10000, etcd, engine.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,

    /// Also measures a Kubernetes in the scenarios that need no nodes (memory, objects, lists), and both over its etcd (etcd, with
    /// simulated nodes). The folder contains the programs `start FOLDER` and `stop FOLDER`, which start and stop it. `start` writes
    /// FOLDER/env, which sets KUBECONFIG, PIDS and UPSTREAM_BIN.
    #[arg(long, value_name = "DIR")]
    upstream: Option<PathBuf>,
}

/// Builds with optimization, then runs the server's scenarios. With `--only engine`, runs the comparison of storage engines instead.
pub(crate) fn run(options: &Options) -> Outcome {
    if options.only.iter().any(|name| name == "engine") {
        return command(Command::new("cargo").args(["bench", "--package", "berth-store", "--features", "embedded", "--bench", "engine"]));
    }
    program("cargo", &["build", "--release"])?;
    let binary = root().join("target/release/berth");
    let mut bench = Command::new("cargo");
    bench.args(["run", "--release", "--package", "bench", "--"]).args(&options.only).env("BERTH_BINARY", binary);
    if let Some(upstream) = &options.upstream {
        let upstream = upstream.canonicalize().map_err(|error| format!("--upstream {}: {error}", upstream.display()))?;
        bench.arg("--upstream").arg(upstream);
    }
    command(&mut bench)
}
