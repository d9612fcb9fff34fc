//! `cargo xtask`: what developers and CI run. `cargo xtask help` lists the commands.

mod bench;
mod check;
mod circles;
mod clients;
mod compare;
mod decisions;
mod deny;
mod etcd_protos;
mod faults;
mod forecasts;
mod fuzz;
mod kinds;
mod linear;
mod nightly;
mod pictures;
mod run;
mod simulate;
mod skipped;
mod test;
mod tidy;
mod tools;
mod torture;
mod typed_errors;
mod vectors;
mod words;
mod workspace;

use clap::{Parser, Subcommand};
use std::{path::PathBuf, process::ExitCode};

/// Automation of the berth repository.
#[derive(Parser)]
#[command(name = "cargo xtask", after_help = "Example: cargo xtask test")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Installs what the tests need, then runs every test.
    #[command(after_help = "Example: cargo xtask test")]
    Test,
    /// Checks the format and the lints of a crate and runs its tests. A change in a pure crate takes less than a minute.
    #[command(after_help = "Example: cargo xtask check workloads")]
    Check(check::Options),
    /// Checks the tree: layers, bans, file sizes, dead files, unused dependencies, links, words, decision records.
    #[command(after_help = "Example: cargo xtask tidy")]
    Tidy,
    /// Checks names, comments and documents for the words of the deny list xtask/words.txt, and prints the replacement of each.
    #[command(after_help = "Example: cargo xtask words\n         cargo xtask words --list whoever\n         cargo xtask words --lower")]
    Words(words::Options),
    /// Checks licenses, sources and duplicate versions of dependencies, and advisories if they can be downloaded.
    #[command(after_help = "Example: cargo xtask deny")]
    Deny,
    /// Generates the messages of etcd's API from crates/berth-etcd/proto.
    #[cfg(feature = "protos")]
    #[command(after_help = "Example: cargo run -p xtask --features protos -- etcd-protos")]
    EtcdProtos,
    /// Compares the test vectors in testdata/ with those of another folder.
    #[command(after_help = "Example: cargo xtask vectors ../shared/vectors")]
    Vectors {
        /// The folder to compare with.
        shared: PathBuf,
    },
    /// Checks whether one order of all operations explains a recorded history of clients.
    #[command(after_help = "Example: cargo xtask linear target/linear/killed-4711.jsonl")]
    Linear(linear::Options),
    /// Fuzzes with libFuzzer, from the seeds in fuzz/corpus and what earlier runs found (target/fuzz/corpus).
    #[command(after_help = "Example: cargo xtask fuzz json_body --seconds 300")]
    Fuzz(fuzz::Options),
    /// Runs the long tests in turn, in steps of minutes: simulation, torture, fuzzing, mutants, repeated tests and more. Continues an
    /// interrupted run. Writes target/nightly/summary.md.
    #[command(
        after_help = "Example: cargo xtask nightly --hours 8\n         cargo xtask nightly --only mutants,fuzz --hours 2\n         cargo xtask nightly --list"
    )]
    Nightly(nightly::Options),
    /// Rolls workloads out in the simulation under all kinds of faults, and checks every write against the limits.
    #[command(after_help = "Example: cargo xtask simulate --seeds 0..100000")]
    Simulate(simulate::Options),
    /// Measures berth on this machine and prints a table and JSON. It has no pass or fail.
    #[command(after_help = "Example: cargo xtask bench --only start,memory")]
    Bench(bench::Options),
    /// Redraws the pictures of the tests and of the documents, from data and from the simulation.
    #[command(after_help = "Example: cargo xtask pictures && git diff --stat")]
    Pictures,
    /// Injects faults while clients remember every acknowledged write: kills servers, cuts their power, damages their folders, fills their
    /// disks. Then attacks a server as one user and measures the effect on others. Fails if a write is lost, or if the effect is too large.
    #[command(after_help = "Example: cargo xtask torture --minutes 60\n         cargo xtask torture --attacks --attack apply,containers")]
    Torture(torture::Options),
    /// Kills, stops and replaces members of a three-member etcd, fills it and compacts it, while two stores write. Fails if no order
    /// explains what clients saw. Requires etcd 3.6 in the folder that BERTH_UPSTREAM names.
    #[command(after_help = "Example: BERTH_UPSTREAM=../shared/upstream cargo xtask faults --minutes 30")]
    Faults(faults::Options),
    /// Sends the same random requests to berth and to a real Kubernetes and compares the answers. With --end-states, rolls the same
    /// workloads out and compares them at rest. Requires a real Kubernetes in the folder that BERTH_UPSTREAM names.
    #[command(
        after_help = "Example: BERTH_UPSTREAM=../shared/upstream cargo xtask compare --seeds 0..5000\n         cargo xtask compare --end-states --seeds 0..1000 --at-once 16\n         cargo xtask compare --seeds 17..18 --trace"
    )]
    Compare(compare::Options),
    /// Compares forecasts of `berth plan` for random changes with the result in a real `berth up`.
    #[command(after_help = "Example: cargo xtask forecasts --seeds 0..1000")]
    Forecasts(forecasts::Options),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Test => test::run(),
        Command::Check(options) => check::run(&options),
        Command::Tidy => tidy::run(),
        Command::Words(options) => words::run(&options),
        Command::Deny => deny::run(),
        #[cfg(feature = "protos")]
        Command::EtcdProtos => etcd_protos::run(),
        Command::Vectors { shared } => vectors::compare(&shared),
        Command::Linear(options) => linear::run(&options),
        Command::Fuzz(options) => fuzz::run(&options),
        Command::Nightly(options) => nightly::run(&options),
        Command::Simulate(options) => simulate::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Pictures => pictures::run(),
        Command::Torture(options) => torture::run(&options),
        Command::Faults(options) => faults::run(&options),
        Command::Compare(options) => compare::run(&options),
        Command::Forecasts(options) => forecasts::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            run::print(&format!("xtask: {error}"));
            ExitCode::FAILURE
        }
    }
}
