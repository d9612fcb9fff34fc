//! The pieces of a nightly run: the tasks that developers also run themselves, in steps of minutes.

use crate::{
    check, fuzz, tools,
    workspace::{Package, packages},
};
use std::path::PathBuf;

/// More seeds than a test run has time for.
const SIMULATIONS: &str = "env BERTH_SIM_SEEDS=40 cargo test --release --package berth-sim --test it";
/// Ten times the requests of the test. It exceeds nextest's time limit.
const OPENAPI: &str = "env BERTH_OPENAPI_EXAMPLES=20 cargo test --package berth --test it openapi::";
/// Exit codes of cargo-mutants after all mutants of a shard.
const MUTANTS_MISSED: i32 = 2;
const MUTANTS_TIMED_OUT: i32 = 3;

/// A part of the run: a row of steps.
#[derive(Default)]
pub(super) struct Piece {
    pub(super) name: &'static str,
    /// What one step does.
    pub(super) about: &'static str,
    pub(super) steps: Steps,
    /// The last line of a step's output that contains this text has the result.
    pub(super) figure: &'static str,
    /// Accepted exit codes of a completed step, besides 0.
    pub(super) accepted: &'static [i32],
    /// Installs the subcommand of cargo that the steps run.
    pub(super) tool: Option<fn() -> Result<PathBuf, String>>,
}

/// Commands. No argument of them contains a space.
pub(super) enum Steps {
    /// The command of the n-th step. There is always a next one.
    Endless(fn(u64) -> String),
    /// The commands of one round. The first one follows the last one.
    Round(Vec<String>),
}

impl Default for Steps {
    fn default() -> Self {
        Self::Round(Vec::new())
    }
}

impl Piece {
    /// The command of a step.
    pub(super) fn command(&self, number: u64) -> String {
        match &self.steps {
            Steps::Endless(command) => command(number),
            Steps::Round(commands) => commands[self.index(number)].clone(),
        }
    }

    /// Whether a step ends a round.
    pub(super) fn is_last(&self, number: u64) -> bool {
        matches!(&self.steps, Steps::Round(commands) if self.index(number) + 1 == commands.len())
    }

    /// `3 of 15`, `3`.
    pub(super) fn place(&self, number: u64) -> String {
        match &self.steps {
            Steps::Endless(_) => (number + 1).to_string(),
            Steps::Round(commands) => format!("{} of {}", self.index(number) + 1, commands.len()),
        }
    }

    fn index(&self, number: u64) -> usize {
        let Steps::Round(commands) = &self.steps else { return 0 };
        usize::try_from(number).unwrap_or_default() % commands.len()
    }
}

/// All pieces, in the order of a run.
pub(super) fn pieces() -> Result<Vec<Piece>, String> {
    let endless = |name, about, figure, command| Piece { name, about, figure, steps: Steps::Endless(command), ..Piece::default() };
    let round = |name, about, figure, commands| Piece { name, about, figure, steps: Steps::Round(commands), ..Piece::default() };
    let once = |name, about, figure, command: &str| round(name, about, figure, vec![command.to_owned()]);
    let fuzz = fuzz::targets()?.iter().map(|target| format!("cargo xtask fuzz {target}")).collect();
    Ok(vec![
        endless("simulate", "rolls workloads out in the simulation, a thousand seeds a step", "writes checked", |number| {
            format!("cargo xtask simulate --seeds {}..{}", number * 1000, (number + 1) * 1000)
        }),
        endless("forecasts", "compares forecasts with a real `berth up`, a hundred seeds a step", "as forecast", |number| {
            format!("cargo xtask forecasts --seeds {}..{}", number * 100, (number + 1) * 100)
        }),
        endless("compare", "compares answers with a real Kubernetes, five thousand seeds a step", "cases,", |number| {
            format!("cargo xtask compare --seeds {}..{}", number * 5000, (number + 1) * 5000)
        }),
        // Seeds are of six kinds in turn.
        endless(
            "end-states",
            "compares workloads and autoscalers at rest with a real Kubernetes, 100 of each kind a step",
            "cases,",
            |number| format!("cargo xtask compare --end-states --seeds {}..{} --at-once 16", number * 600, (number + 1) * 600),
        ),
        endless("torture", "kills servers, damages folders and fills disks", "writes acknowledged", |number| {
            format!("cargo xtask torture --faults --minutes 10 --seed {number}")
        }),
        once("attacks", "measures what other users feel while one user attacks", "all of them at once", "cargo xtask torture --attacks"),
        endless("faults", "kills, stops and replaces members of an etcd", "rounds in", |_| "cargo xtask faults --minutes 10".to_owned()),
        once("worlds", "runs the simulation's tests with forty seeds each, optimized", "test result", SIMULATIONS),
        once("openapi", "sends the server what its OpenAPI documents allow", "test result", OPENAPI),
        round("fuzz", "fuzzes one target after another", "DONE", fuzz),
        Piece {
            accepted: &[MUTANTS_MISSED, MUTANTS_TIMED_OUT],
            tool: Some(|| tools::built("cargo-mutants", &["--version", "27.1.0"])),
            ..round("mutants", "tries a shard of the mutants of one crate", "mutants tested", mutants())
        },
        Piece { tool: Some(|| tools::cargo_tool("cargo-nextest")), ..endless("soak", "runs every test again and again", "Summary", soak) },
        round("alone", "checks one crate after another, with its own features only", "Finished", alone()?),
        once("bench", "measures this machine", "1,000-pod rolling update", "cargo xtask bench"),
    ])
}

/// A round of shards of some minutes each.
fn mutants() -> Vec<String> {
    let shards = |package: &'static str, shards: u32| {
        (0..shards).map(move |shard| {
            let out = format!("target/nightly/mutants/{package}-{shard}");
            format!("cargo mutants --package {package} --all-features --shard {shard}/{shards} --no-shuffle --output {out}")
        })
    };
    shards("berth-workloads", 40)
        .chain(shards("berth-store", 24))
        .chain(shards("berth-env", 1))
        .chain(shards("berth-registry", 8))
        .collect()
}

/// Runs every test. Every second time, more tests run at once than the machine has cores: slow tests must still pass.
fn soak(number: u64) -> String {
    let run = "cargo nextest run --workspace --no-fail-fast";
    if number.is_multiple_of(2) { run.to_owned() } else { format!("{run} --test-threads 8") }
}

/// Each crate with its own features only: with the default ones, then with all.
fn alone() -> Result<Vec<String>, String> {
    let command = |name: &str, features| format!("cargo check --all-targets --package {name}{features}");
    let packages = packages()?.into_iter().filter(|package| package.name != check::FEATURES);
    let commands = packages.flat_map(|Package { name, features, .. }| {
        [Some(command(&name, "")), (!features.is_empty()).then(|| command(&name, " --all-features"))]
    });
    Ok(commands.flatten().collect())
}
