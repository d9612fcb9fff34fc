//! Licences, sources, duplicate versions and advisories of dependencies, by cargo-deny.

use crate::run::{Outcome, command, exists, is_ci, root, say};
use std::{path::PathBuf, process::Command};

/// Where advisories are published.
const ADVISORIES: &str = "https://github.com/RustSec/advisory-db";

/// Everything that can be known without the internet.
const OFFLINE: &[&str] = &["bans", "licenses", "sources"];

/// Checks all that can be checked. Runs cargo-deny if the machine has it, else builds it once under `target/tools`.
pub(crate) fn run() -> Outcome {
    check(OFFLINE)?;
    match fetchable() {
        Ok(()) => check(&["advisories"]),
        Err(reason) => {
            say(&format!("advisories are not checked, {ADVISORIES} cannot be fetched: {reason}"));
            Ok(())
        }
    }
}

/// The part of the tests: advisories only in CI, where a minute matters less than what is found.
pub(crate) fn with_tests() -> Outcome {
    if is_ci() { run() } else { check(OFFLINE) }
}

fn check(what: &[&str]) -> Outcome {
    let program = program()?;
    for manifest in ["Cargo.toml", "fuzz/Cargo.toml"] {
        let options = ["--all-features", "--config", "deny.toml", "check"];
        command(Command::new(&program).args(["--manifest-path", manifest]).args(options).args(what))?;
    }
    Ok(())
}

/// Whether the database of advisories is in reach; an answer that is slow to come is none.
fn fetchable() -> Outcome {
    let mut git = Command::new("git");
    git.args(["-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=20", "ls-remote", "--exit-code", ADVISORIES, "HEAD"]);
    let output = git.env("GIT_TERMINAL_PROMPT", "0").output().map_err(|error| format!("git: {error}"))?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()) }
}

fn program() -> Result<PathBuf, String> {
    if exists("cargo-deny") {
        return Ok("cargo-deny".into());
    }
    let tools = root().join("target/tools");
    let program = tools.join("bin/cargo-deny");
    if !program.exists() {
        say("cargo-deny is not here: building it under target/tools, once");
        // Unoptimised: it builds in a third of the time and runs for seconds only.
        let build = ["install", "cargo-deny", "--quiet", "--locked", "--debug", "--no-default-features", "--root"];
        command(Command::new("cargo").args(build).arg(&tools))?;
    }
    Ok(program)
}
