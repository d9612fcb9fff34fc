//! Faults of etcd's members, which developers inject. `crates/berth-etcd/tests/it/members.rs` injects each once, briefly.

use crate::run::{Outcome, command};
use std::process::Command;

/// For how long.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many minutes to inject random faults, one after the other.
    #[arg(long, default_value_t = 10)]
    minutes: u64,
}

/// Fails at the first history that no order explains.
pub(crate) fn run(options: &Options) -> Outcome {
    let mut test = Command::new("cargo");
    test.args(["test", "--package", "berth-etcd", "--test", "it", "members::whatever_happens", "--", "--nocapture"]);
    command(test.env("BERTH_FAULTS_MINUTES", options.minutes.to_string()))
}
