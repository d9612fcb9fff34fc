//! Licences, sources and duplicate versions of dependencies, by cargo-deny.

use crate::run::{Outcome, command, exists, root, say};
use std::process::Command;

/// Runs cargo-deny if the machine has it, else builds it once under `target/tools`.
pub(crate) fn run() -> Outcome {
    if exists("cargo-deny") {
        return command(Command::new("cargo-deny").args(CHECK));
    }
    let tools = root().join("target/tools");
    let program = tools.join("bin/cargo-deny");
    if !program.exists() {
        say("cargo-deny is not here: building it under target/tools, once");
        // Unoptimised: it builds in a third of the time and runs for seconds only.
        let build = ["install", "cargo-deny", "--quiet", "--locked", "--debug", "--no-default-features", "--root"];
        command(Command::new("cargo").args(build).arg(&tools))?;
    }
    command(Command::new(program).args(CHECK))
}

// The advisory database is a git repository, which machines without the internet cannot fetch: advisories are checked by hand before a release.
const CHECK: &[&str] = &["--all-features", "check", "bans", "licenses", "sources"];
