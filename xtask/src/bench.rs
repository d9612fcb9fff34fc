//! Measurements by hand. They decide no test.

use crate::run::{Outcome, command};
use std::process::Command;

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only these scenarios: start, memory, objects, rollout-1000, rollout-5000, engine.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

/// Builds with optimisation, then runs the server's scenarios; with `--only engine` the comparison of storage engines instead.
pub(crate) fn run(options: &Options) -> Outcome {
    if options.only.iter().any(|name| name == "engine") {
        return command(Command::new("cargo").args(["bench", "--package", "berth-store", "--features", "embedded", "--bench", "engine"]));
    }
    command(Command::new("cargo").args(["bench", "--package", "berth", "--bench", "server", "--"]).args(&options.only))
}
