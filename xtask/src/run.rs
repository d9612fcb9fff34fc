//! Runs programs and prints what is done.

use serde::Serialize;
use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

/// The error of a task: a sentence for the user at the terminal.
pub(crate) type Outcome = Result<(), String>;

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository").to_path_buf()
}

/// Prints one line.
pub(crate) fn print(line: &str) {
    // A closed pipe is no reason to fail a test run.
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Runs a program in the root until it ends.
pub(crate) fn program(name: &str, arguments: &[&str]) -> Outcome {
    command(Command::new(name).args(arguments))
}

/// Runs a prepared command in the root until it ends.
pub(crate) fn command(command: &mut Command) -> Outcome {
    let shown = format!("{command:?}").replace('"', "");
    print(&format!("$ {shown}"));
    let status = command.current_dir(root()).status().map_err(|error| format!("{shown}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{shown} ended with {status}")) }
}

/// The output of a program that runs in the root.
pub(crate) fn output(name: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(name).args(arguments).current_dir(root()).output().map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("{name} {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr)))
    }
}

/// Appends a line to the file of completed work, from which an interrupted run continues.
pub(crate) fn append(kept: &Path, done: &impl Serialize) -> Outcome {
    let line = serde_json::to_string(done).map_err(|error| error.to_string())?;
    let write = || writeln!(fs::OpenOptions::new().create(true).append(true).open(kept)?, "{line}");
    write().map_err(|error| format!("{}: {error}", kept.display()))
}

/// Whether a program can be started.
pub(crate) fn exists(name: &str) -> bool {
    Command::new(name).arg("--version").output().is_ok()
}
