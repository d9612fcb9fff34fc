//! Licenses, sources, duplicate versions and advisories of dependencies, by cargo-deny.

use crate::{
    run::{Outcome, command, print},
    tools,
};
use std::{path::Path, process::Command};

/// Where advisories are published.
const ADVISORIES: &str = "https://github.com/RustSec/advisory-db";

/// The checks that need no internet.
const OFFLINE: &[&str] = &["bans", "licenses", "sources"];

/// Runs all possible checks. Builds cargo-deny once under `target/tools` if no binary is available.
pub(crate) fn run() -> Outcome {
    let program = tools::cargo_tool("cargo-deny").or_else(|_| tools::built("cargo-deny", &["--no-default-features"]))?;
    check(&program, OFFLINE)?;
    match fetchable() {
        Ok(()) => check(&program, &["advisories"]),
        Err(reason) => {
            print(&format!("advisories are not checked, {ADVISORIES} cannot be fetched: {reason}"));
            Ok(())
        }
    }
}

/// The checks that run with the tests: the offline ones, if cargo-deny is already available.
pub(crate) fn with_tests() -> Outcome {
    match tools::cargo_tool("cargo-deny") {
        Ok(program) => check(&program, OFFLINE),
        Err(error) => {
            print(&format!("dependencies are not checked, `cargo xtask deny` does so: {error}"));
            Ok(())
        }
    }
}

fn check(program: &Path, what: &[&str]) -> Outcome {
    for manifest in ["Cargo.toml", "fuzz/Cargo.toml"] {
        let options = ["--all-features", "--locked", "--config", "deny.toml", "check", "--hide-inclusion-graph"];
        command(Command::new(program).args(["--manifest-path", manifest]).args(options).args(what))?;
    }
    Ok(())
}

/// Whether the database of advisories is reachable. A slow answer counts as none.
fn fetchable() -> Outcome {
    let mut git = Command::new("git");
    git.args(["-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=20", "ls-remote", "--exit-code", ADVISORIES, "HEAD"]);
    let output = git.env("GIT_TERMINAL_PROMPT", "0").output().map_err(|error| format!("git: {error}"))?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()) }
}
