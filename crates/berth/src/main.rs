//! One binary: `berth up` is a whole control plane in one process.

mod apply;
mod cli;
mod data_dir;
mod env;
mod issue;
mod logging;
mod manifests;
mod progress;
mod rollout;
mod up;

use cli::Command;
use std::{error::Error, io::Write, process::ExitCode};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let result = match cli::parse(std::env::args_os()).command {
        Command::Up(options) => up::run(*options),
        Command::Rollout(options) => rollout::run(&options),
        Command::Kubeconfig(options) => issue::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "berth: {}", progress::printable(&chain(error.as_ref())));
            ExitCode::FAILURE
        }
    }
}

/// An error with all its causes, outermost first.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
