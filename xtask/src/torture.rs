//! Torture tests that developers run: whether berth withstands faults. `bench/tests/it/torture.rs` runs them briefly.

use crate::run::{Outcome, command, program, root};
use std::{
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

/// What to do, and for how long.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many minutes to inject faults: killed servers, power losses, damaged folders and others.
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// The seed of the faults, as an earlier run printed it. Without it, each run has another seed.
    #[arg(long)]
    seed: Option<u64>,
    /// Only injects faults. Does not measure attacks.
    #[arg(long, conflicts_with = "attacks")]
    faults: bool,
    /// Only measures attacks.
    #[arg(long)]
    attacks: bool,
    /// How many seconds to measure other users during each attack.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// How many objects exist during the measurements.
    #[arg(long, default_value_t = 100_000)]
    objects: usize,
    /// Only these attacks of bench/src/torture/attacks. Without it, each attack runs alone, then all run at once.
    #[arg(long, value_delimiter = ',')]
    attack: Vec<String>,
    /// Builds without optimization, to check that it works. The figures mean nothing.
    #[arg(long)]
    debug: bool,
}

/// Builds, then injects faults, then measures the effect of attacks on other users.
pub(crate) fn run(options: &Options) -> Outcome {
    let profile: &[&str] = if options.debug { &[] } else { &["--release"] };
    program("cargo", &[&["build", "--package", "berth", "--package", "bench"], profile].concat())?;
    let faults = if options.attacks { Ok(()) } else { faults(options) };
    let attacks = if options.faults { Ok(()) } else { attacks(options) };
    faults.and(attacks)
}

fn faults(options: &Options) -> Outcome {
    // Any number is suitable. It is printed.
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_secs());
    let seed = options.seed.unwrap_or_else(now);
    command(torture(options).args(["--faults", &options.minutes.to_string(), "--seed", &seed.to_string()]))
}

fn attacks(options: &Options) -> Outcome {
    let mut attacks = torture(options);
    attacks.args(["--bars", &options.seconds.to_string(), "--objects", &options.objects.to_string()]);
    if !options.attack.is_empty() {
        attacks.args(["--attack", &options.attack.join(",")]);
    }
    command(&mut attacks)
}

fn torture(options: &Options) -> Command {
    let programs = root().join("target").join(if options.debug { "debug" } else { "release" });
    let mut torture = Command::new(programs.join("bench"));
    torture.env("BERTH_BINARY", programs.join("berth"));
    torture
}
