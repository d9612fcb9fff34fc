//! How fast a real `berth up` is, over HTTPS, on this machine, next to a Kubernetes where one is available: a table for users, the table of
//! docs/benchmarks.md, JSON for programs. Run by hand: `cargo xtask bench`. Also whether it withstands faults ([`torture`]): `cargo xtask torture`.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark stops at the first surprise and prints its results")]

mod access;
mod batch;
mod client;
mod custom;
mod etcd;
mod etcd_server;
mod figures;
mod loads;
mod print;
mod scenarios;
mod server;
mod stateful_sets;
mod torture;

use clap::Parser;
use figures::System;
use print::eprint;
use scenarios::{SCENARIOS, Scenario, Systems};
use server::Target;
use std::{path::PathBuf, process::ExitCode, time::Duration};
use torture::{
    attacks::{self, Attack},
    bars,
    cycles::{self, Length},
};

/// What `cargo xtask bench` passes on.
#[derive(Parser)]
struct Arguments {
    /// Only these scenarios.
    #[arg(value_parser = scenarios::parse)]
    only: Vec<&'static Scenario>,
    /// A folder with the programs `start FOLDER` and `stop FOLDER`, which start and stop a Kubernetes. `start` writes `FOLDER/env`, which
    /// sets KUBECONFIG, PIDS and UPSTREAM_BIN.
    #[arg(long, value_name = "DIR")]
    upstream: Option<PathBuf>,
    /// Injects faults instead, for this many minutes: kills servers, cuts their power, damages their folders and others.
    #[arg(long, value_name = "MINUTES", conflicts_with = "bars")]
    faults: Option<u64>,
    /// Injects faults instead, this many times.
    #[arg(long, value_name = "TIMES", conflicts_with = "faults")]
    cycles: Option<u64>,
    /// The seed of the faults.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Attacks instead, for this many seconds each, and measures the effect on other users.
    #[arg(long, value_name = "SECONDS")]
    bars: Option<u64>,
    /// How many objects exist during the measurements.
    #[arg(long, default_value_t = 100_000)]
    objects: usize,
    /// Only these attacks. With --kubeconfig, the attacks of the attacking process.
    #[arg(long, value_delimiter = ',', value_parser = attacks::parse)]
    attack: Vec<&'static Attack>,
    /// The attacker's kubeconfig.
    #[arg(long, value_name = "FILE", hide = true)]
    kubeconfig: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if let Some(kubeconfig) = &arguments.kubeconfig {
        runtime.block_on(torture::attack(arguments.attack.first().expect("--attack"), kubeconfig));
    }
    let binary = PathBuf::from(std::env::var_os("BERTH_BINARY").expect("cargo xtask bench names the binary"));
    let minutes = arguments.faults.map(|minutes| Length::Time(Duration::from_secs(60 * minutes)));
    if let Some(length) = arguments.cycles.map(Length::Cycles).or(minutes) {
        return exit_code(runtime.block_on(cycles::run(&binary, arguments.seed, length)));
    }
    if let Some(seconds) = arguments.bars {
        let plan = bars::Plan { each: Duration::from_secs(seconds), objects: arguments.objects };
        return exit_code(runtime.block_on(bars::run(&Target::Berth { binary }, &plan, &arguments.attack)));
    }
    let mut figures = Vec::new();
    let wanted = |scenario: &Scenario| arguments.only.is_empty() || arguments.only.iter().any(|only| only.name == scenario.name);
    for scenario in SCENARIOS.iter().filter(|scenario| wanted(scenario)) {
        let binary = binary.clone();
        let upstream = arguments.upstream.clone();
        let targets = match (scenario.systems, upstream) {
            (Systems::Berth, _) | (Systems::Both, None) => vec![Target::Berth { binary }],
            (Systems::Both, Some(folder)) => vec![Target::Berth { binary: binary.clone() }, Target::Upstream { folder, binary }],
            (Systems::BothOnEtcd, Some(programs)) => {
                let folder = programs.clone();
                vec![Target::BerthOnEtcd { binary: binary.clone(), programs }, Target::Upstream { folder, binary }]
            }
            (Systems::BothOnEtcd, None) => {
                eprint(&format!("{}: not measured, --upstream DIR names no etcd", scenario.name));
                continue;
            }
        };
        let before = figures.len();
        for target in targets {
            let system = target.system();
            eprint(&format!("{}{} …", scenario.name, if system == System::Upstream { ", Kubernetes" } else { "" }));
            figures.extend(runtime.block_on((scenario.run)(&target)).into_iter().map(|figure| (system, figure)));
        }
        // At once: the next one may find a surprise.
        println!("{}", figures::table(&figures[before..]));
    }
    println!("{}", figures::markdown(&figures, arguments.upstream.is_some()));
    println!("{}", figures::json(&figures));
    ExitCode::SUCCESS
}

fn exit_code(is_good: bool) -> ExitCode {
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
