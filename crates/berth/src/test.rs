//! `berth test`: runs a command, with a control plane for the duration of the command.

use crate::{
    cli::Test,
    data_dir::DataDir,
    logging,
    manifests::{self, Depth, Document},
    progress::Output,
    rollouts::{Rollouts, Verdict},
    signals::{Signal, Signals},
    up::{Plane, Settings},
};
use rustix::process::{Pid, Signal as Forwarded, kill_process};
use std::{
    error::Error,
    io::{self, IsTerminal},
    os::unix::process::ExitStatusExt,
    process::{ExitCode, ExitStatus},
    time::Instant,
};
use tokio::process::{Child, Command};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// A shell's exit codes for a command that cannot be run, and for one that does not exist.
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Starts the control plane, applies the manifests, runs the command and stops everything. Returns the command's exit code.
pub(crate) fn run(options: &Test) -> Outcome<ExitCode> {
    let started = Instant::now();
    logging::start(options.up.log_format, options.up.verbose);
    let runtime = crate::threads::builder().build()?;
    // Before signals are handled: a user who waits for standard input can interrupt it as in any other program.
    let documents = runtime.block_on(manifests::read(&options.up.filename, Depth::of(options.up.recursive)))?;
    let settings = Settings::new(&options.up)?;
    runtime.block_on(serve(options, settings, &documents, started))
}

async fn serve(options: &Test, settings: Settings, documents: &[Document], started: Instant) -> Outcome<ExitCode> {
    let signals = Signals::take()?;
    let data_dir = DataDir::open(options.up.data_dir.clone(), options.up.store)?.locked()?;
    let plane = tokio::select! {
        plane = Plane::start(&options.up, settings, data_dir.path(), started) => plane?,
        signal = signals.beyond(0) => return Ok(signal.exit_code()),
    };
    let ended = tokio::select! {
        fault = plane.fault() => Err(fault),
        ended = rolled_out(options, &plane, documents) => match ended {
            Ok(()) => run_command(options, &plane, &signals).await,
            Err(error) => Err(error),
        },
        signal = signals.beyond(0) => Ok(signal.exit_code()),
    };
    let hurried = plane.stop(&signals).await;
    match hurried {
        Some(signal) if ended.is_ok() => Ok(signal.exit_code()),
        _ => ended,
    }
}

/// Prints progress to standard error, because standard output belongs to the command.
async fn rolled_out(options: &Test, plane: &Plane, documents: &[Document]) -> Outcome<()> {
    plane.synced().await;
    let mut rollouts =
        Rollouts::apply(&plane.registry, &plane.controller_gates, documents, options.up.skip_unserved, Output::Stderr).await?;
    match rollouts.settle(options.up.steady, options.up.timeout()).await {
        Verdict::RolledOut => Ok(()),
        Verdict::Failed(why) => Err(format!("{why}; the command was not run").into()),
    }
}

async fn run_command(options: &Test, plane: &Plane, signals: &Signals) -> Outcome<ExitCode> {
    let (program, arguments) = options.command.split_first().ok_or("there is no command to run; write it after --")?;
    let kubeconfig = plane
        .kubeconfig
        .as_ref()
        .ok_or("the command requires a kubeconfig, which berth does not write with --client-ca-file: omit that option")?;
    let spawned = Command::new(program).args(arguments).env("KUBECONFIG", kubeconfig.path()).kill_on_drop(true).spawn();
    match spawned {
        Ok(child) => Ok(exit_code(wait(child, signals).await?)),
        Err(error) => {
            let code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_RUN };
            Output::Stderr.line(&format!("berth: cannot run {}: {error}", program.display()));
            Ok(ExitCode::from(code))
        }
    }
}

/// Waits for the command's end, and forwards signals to it.
async fn wait(mut child: Child, signals: &Signals) -> io::Result<ExitStatus> {
    let mut passed_on = 0;
    loop {
        tokio::select! {
            status = child.wait() => return status,
            signal = signals.beyond(passed_on) => {
                passed_on = signals.count();
                pass_on(&child, signal);
            }
        }
    }
}

fn pass_on(child: &Child, signal: Signal) {
    let forwarded = match signal {
        // A terminal sends the signal to all of its foreground programs, so the command has already received it.
        Signal::Interrupt if io::stdin().is_terminal() => return,
        Signal::Interrupt => Forwarded::INT,
        Signal::Terminate => Forwarded::TERM,
        Signal::HangUp => Forwarded::HUP,
    };
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    // The command may have ended meanwhile.
    let _ = pid.map(|pid| kill_process(pid, forwarded));
}

/// The exit code that a shell reports: 128 plus the signal's number if a signal ended the command.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| Some(128 + status.signal()?)).and_then(|code| u8::try_from(code).ok());
    code.map_or(ExitCode::FAILURE, ExitCode::from)
}
