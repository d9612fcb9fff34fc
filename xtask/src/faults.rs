//! What may befall etcd's members, by hand: `crates/berth-etcd/tests/it/members.rs` does each once, shortly.

use crate::run::{Outcome, command};
use std::process::Command;

/// For how long.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many minutes to inject random faults, one after the other.
    #[arg(long, default_value_t = 10)]
    minutes: u64,
}

/// Fails with the first history that cannot be put in order.
pub(crate) fn run(options: &Options) -> Outcome {
    let mut test = Command::new("cargo");
    test.args(["test", "--package", "berth-etcd", "--test", "it", "members::whatever_happens", "--", "--nocapture"]);
    command(test.env("BERTH_FAULTS_MINUTES", options.minutes.to_string()))
}
