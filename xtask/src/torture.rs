//! Torture by hand: what is done to berth to see whether it stands firm. `bench/tests/it/torture.rs` does it shortly.

use crate::run::{Outcome, command, program, root};
use std::{
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

/// What to do, and for how long.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// For how long servers are killed, their power is lost, their folders damaged, and so on.
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// What is drawn for that: the seed that another run has printed. Another one each time if absent.
    #[arg(long)]
    seed: Option<u64>,
    /// Only that: not how much others feel of the attacks.
    #[arg(long, conflicts_with = "attacks")]
    faults: bool,
    /// Only the attacks.
    #[arg(long)]
    attacks: bool,
    /// How long others are measured during each attack.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// How many objects there are meanwhile.
    #[arg(long, default_value_t = 100_000)]
    objects: usize,
    /// Only these attacks: those of bench/src/torture/attacks. Otherwise each, and all of them at once.
    #[arg(long, value_delimiter = ',')]
    attack: Vec<String>,
    /// Without optimisation: to see that it works, not what it costs.
    #[arg(long)]
    debug: bool,
}

/// Builds, then tortures, then measures what others feel of attacks.
pub(crate) fn run(options: &Options) -> Outcome {
    let profile: &[&str] = if options.debug { &[] } else { &["--release"] };
    program("cargo", &[&["build", "--package", "berth", "--package", "bench"], profile].concat())?;
    let faults = if options.attacks { Ok(()) } else { faults(options) };
    let attacks = if options.faults { Ok(()) } else { attacks(options) };
    faults.and(attacks)
}

fn faults(options: &Options) -> Outcome {
    // Any number will do; it is printed.
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
