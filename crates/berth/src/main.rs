//! One binary: `berth up` is a whole control plane in one process.

mod apart;
mod apply;
mod check;
mod cli;
mod cluster_options;
mod controllers;
mod credentials;
mod dashboard;
mod data_dir;
mod duration;
mod env;
mod etcd;
mod fetch;
mod foreign;
mod issue;
mod kubeconfig_file;
mod logging;
mod manifests;
mod manual;
mod memory;
mod nodes;
mod pki;
mod progress;
mod replacements;
mod rollout;
mod rollouts;
mod services;
mod signals;
mod store;
mod test;
mod threads;
mod trouble;
mod up;
mod variables;
mod version;
mod webhooks;

use cli::{Command, Up};
use std::{error::Error, io::Write, process::ExitCode};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    end(run(cli::parse(std::env::args_os()).command))
}

/// Prints the error, if there is one, and returns the exit code.
fn end(outcome: Result<ExitCode, Box<dyn Error>>) -> ExitCode {
    match outcome {
        Ok(code) => code,
        Err(error) => {
            let text = format!("berth: {}", progress::printable(&progress::chain(error.as_ref())));
            let _ = writeln!(std::io::stderr(), "{}", logging::line("ERROR", &text));
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<ExitCode, Box<dyn Error>> {
    match command {
        Command::Up(options) => return up::run(&options.up, Some(&options.page)),
        Command::Test(options) => return test::run(&options),
        Command::ApiServer(options) => return up::run(&Up::server_alone(*options), None),
        Command::ControllerManager(options) => return apart::controller_manager(&options),
        Command::Scheduler(options) => return apart::scheduler(&options),
        Command::Node(options) => return apart::node(&options),
        Command::Check(options) => return check::run(&options),
        Command::Backup(options) => store::backup(&options)?,
        Command::Restore(options) => store::restore(&options)?,
        Command::Store(options) => store::run(&options.command)?,
        Command::Plan(options) => return rollout::plan::run(&options),
        Command::Record(options) => rollout::record::run(&options)?,
        Command::Replay(options) => rollout::replay::run(&options)?,
        Command::Dashboard(options) => return dashboard::run(&options),
        Command::Explain(options) => rollout::explain::run(&options)?,
        Command::Rollout(options) => return rollout::run(&options),
        Command::Kubeconfig(options) => issue::run(&options)?,
        Command::Pki(options) => pki::run(&options.command)?,
        Command::Version(options) => version::run(&options),
        Command::Completion(options) => manual::complete(&options)?,
        Command::Man(options) => manual::write_man_pages(&options)?,
        Command::CommandsPage => manual::print_page()?,
    }
    Ok(ExitCode::SUCCESS)
}
