//! How fast a real `berth up` is, over HTTPS, on this machine, beside a Kubernetes where one is at hand: a table for people, the README's table,
//! JSON for programs. Run by hand: `cargo xtask bench`.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark stops at the first surprise and prints its results")]

mod access;
mod client;
mod figures;
mod scenarios;
mod server;
mod stateful_sets;
mod torture;

use clap::Parser;
use figures::System;
use scenarios::{SCENARIOS, Scenario};
use server::Target;
use std::{path::PathBuf, process::ExitCode, time::Duration};
use torture::{
    Plan,
    attacks::{self, Attack},
};

/// What `cargo xtask bench` passes on.
#[derive(Parser)]
struct Arguments {
    /// Only these scenarios.
    #[arg(value_parser = scenarios::parse)]
    only: Vec<&'static Scenario>,
    /// A folder whose programs `start FOLDER` and `stop FOLDER` run a Kubernetes; `start` leaves `FOLDER/env`, which sets KUBECONFIG and PIDS.
    #[arg(long, value_name = "DIR")]
    upstream: Option<PathBuf>,
    /// Attacks instead, so many seconds each, and measures what others feel.
    #[arg(long, value_name = "SECONDS")]
    torture: Option<u64>,
    /// How many objects there are meanwhile.
    #[arg(long, default_value_t = 100_000)]
    objects: usize,
    /// Only these attacks; with --kubeconfig, what a process that attacks does.
    #[arg(long, value_delimiter = ',', value_parser = attacks::parse)]
    attack: Vec<&'static Attack>,
    /// As whom to attack.
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
    let berth = Target::Berth { binary };
    let upstream = arguments.upstream.map(|folder| Target::Upstream { folder });
    if let Some(seconds) = arguments.torture {
        let plan = Plan { each: Duration::from_secs(seconds), objects: arguments.objects };
        let is_met = runtime.block_on(torture::run(&berth, &plan, &arguments.attack));
        return if is_met { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let mut figures = Vec::new();
    let wanted = |scenario: &Scenario| arguments.only.is_empty() || arguments.only.iter().any(|only| only.name == scenario.name);
    for scenario in SCENARIOS.iter().filter(|scenario| wanted(scenario)) {
        eprint(&format!("{} …", scenario.name));
        figures.extend(runtime.block_on((scenario.run)(&berth)).into_iter().map(|figure| (System::Berth, figure)));
        if let Some(upstream) = upstream.as_ref().filter(|_| !scenario.berth_only) {
            eprint(&format!("{}, Kubernetes …", scenario.name));
            figures.extend(runtime.block_on((scenario.run)(upstream)).into_iter().map(|figure| (System::Upstream, figure)));
        }
    }
    println!("{}", figures::table(&figures));
    println!("{}", figures::markdown(&figures, upstream.is_some()));
    println!("{}", figures::json(&figures));
    ExitCode::SUCCESS
}

#[expect(clippy::print_stderr, reason = "progress, apart from the results")]
fn eprint(line: &str) {
    eprintln!("{line}");
}

/// Seconds, as a figure.
pub(crate) fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}
