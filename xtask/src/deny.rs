//! Licences, sources and duplicate versions of dependencies, by cargo-deny.

use crate::run::{Outcome, command, exists, root, say};
use std::{path::PathBuf, process::Command};

/// Runs cargo-deny if the machine has it, else builds it once under `target/tools`.
pub(crate) fn run() -> Outcome {
    let program = program()?;
    for manifest in ["Cargo.toml", "fuzz/Cargo.toml"] {
        command(Command::new(&program).args(["--manifest-path", manifest]).args(CHECK))?;
    }
    Ok(())
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

// The advisory database is a git repository, which machines without the internet cannot fetch: advisories are checked by hand before a release.
const CHECK: &[&str] = &["--all-features", "--config", "deny.toml", "check", "bans", "licenses", "sources"];
