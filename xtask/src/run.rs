//! Running programs and saying what is done.

use cargo_metadata::Message;
use serde::Serialize;
use std::{
    fs,
    io::{BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
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

/// A program that cargo has built, or found built.
pub(crate) struct Built {
    /// The `Cargo.toml` of its crate.
    pub(crate) manifest: PathBuf,
    /// `simulate`: of which target it was made.
    pub(crate) target: String,
    /// Whether it runs tests.
    pub(crate) is_test: bool,
    pub(crate) executable: PathBuf,
    /// When; a program built at another time is another one.
    pub(crate) built_nanos: u128,
}

/// Runs cargo in the root; gives the programs that it tells of.
pub(crate) fn build(arguments: &[&str]) -> Result<Vec<Built>, String> {
    let mut cargo = Command::new("cargo")
        .args(arguments)
        .arg("--message-format=json-render-diagnostics")
        .current_dir(root())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cargo: {error}"))?;
    let messages = BufReader::new(cargo.stdout.take().expect("it is piped"));
    let mut programs = Vec::new();
    for message in Message::parse_stream(messages) {
        let Message::CompilerArtifact(artifact) = message.map_err(|error| format!("cargo's messages: {error}"))? else { continue };
        let Some(executable) = artifact.executable else { continue };
        let built = fs::metadata(&executable).and_then(|file| file.modified()).map_err(|error| format!("{executable}: {error}"))?;
        programs.push(Built {
            manifest: artifact.manifest_path.into(),
            target: artifact.target.name,
            is_test: artifact.profile.test,
            executable: executable.into(),
            built_nanos: built.duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_nanos()),
        });
    }
    let status = cargo.wait().map_err(|error| format!("cargo: {error}"))?;
    if status.success() { Ok(programs) } else { Err(format!("cargo {} ended with {status}", arguments.join(" "))) }
}

/// Adds a line to a file of what is done, which a broken-off run goes on from.
pub(crate) fn append(kept: &Path, done: &impl Serialize) -> Outcome {
    let line = serde_json::to_string(done).map_err(|error| error.to_string())?;
    let write = || writeln!(fs::OpenOptions::new().create(true).append(true).open(kept)?, "{line}");
    write().map_err(|error| format!("{}: {error}", kept.display()))
}

/// Whether a program can be started.
pub(crate) fn exists(name: &str) -> bool {
    Command::new(name).arg("--version").output().is_ok()
}
