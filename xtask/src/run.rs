//! Running programs and saying what is done.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

/// What a task fails with: a sentence for the person at the terminal.
pub(crate) type Outcome = Result<(), String>;

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository").to_path_buf()
}

/// Prints one line.
pub(crate) fn say(line: &str) {
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
    say(&format!("$ {shown}"));
    let status = command.current_dir(root()).status().map_err(|error| format!("{shown}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{shown} ended with {status}")) }
}

/// What a program prints, run in the root.
pub(crate) fn output(name: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(name).args(arguments).current_dir(root()).output().map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("{name} {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr)))
    }
}

/// Whether this is a run for all, as `CI` says where one goes on: what is missing then is missed by somebody.
pub(crate) fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| !["", "0", "false"].contains(&value.as_str()))
}

/// Whether a program can be started.
pub(crate) fn exists(name: &str) -> bool {
    Command::new(name).arg("--version").output().is_ok()
}
