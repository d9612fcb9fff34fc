//! Attacks by hand: what others feel while one user does their worst.

use crate::run::{Outcome, command, program, root};
use std::process::Command;

/// What to do, and for how long.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How long others are measured during each attack.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// How many objects there are meanwhile.
    #[arg(long, default_value_t = 100_000)]
    objects: usize,
    /// Only these: those of bench/src/torture/attacks. Otherwise each, and all of them at once.
    #[arg(long, value_delimiter = ',')]
    attack: Vec<String>,
    /// Without optimisation: to see that it works, not what it costs.
    #[arg(long)]
    debug: bool,
}

/// Builds, then attacks.
pub(crate) fn run(options: &Options) -> Outcome {
    let profile: &[&str] = if options.debug { &[] } else { &["--release"] };
    program("cargo", &[&["build", "--package", "berth"], profile].concat())?;
    let folder = if options.debug { "target/debug/berth" } else { "target/release/berth" };
    let mut torture = Command::new("cargo");
    torture.arg("run").args(profile).args(["--package", "bench", "--", "--torture", &options.seconds.to_string()]);
    torture.args(["--objects", &options.objects.to_string()]).env("BERTH_BINARY", root().join(folder));
    if !options.attack.is_empty() {
        torture.args(["--attack", &options.attack.join(",")]);
    }
    command(&mut torture)
}
