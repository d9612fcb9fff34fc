//! Compares forecasts of random changes with the course in a real `berth up`, for a range of seeds. `cargo xtask test` compares a few.

use crate::run::{Outcome, command};
use std::process::Command;

/// Which scenarios to run.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// A range of seeds. Each seed is a workload and a change of it.
    #[arg(long, default_value = "0..1000", value_name = "FROM..TO")]
    seeds: String,
    /// How many scenarios run at once, each in a namespace of one server. More scenarios slow the server down.
    #[arg(long, default_value_t = 32)]
    at_once: usize,
}

/// Fails if a scenario differs from its forecast, also when it runs again alone.
pub(crate) fn run(options: &Options) -> Outcome {
    let mut test = Command::new("cargo");
    test.args(["test", "--release", "--package", "berth", "--test", "forecasts", "--", "--nocapture"]);
    command(test.env("BERTH_FORETOLD_SEEDS", &options.seeds).env("BERTH_FORETOLD_AT_ONCE", options.at_once.to_string()))
}
