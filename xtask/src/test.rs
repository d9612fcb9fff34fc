//! Every test, and what they need.

use crate::{
    deny,
    run::{Outcome, command, exists, program, root, say},
    vectors,
};
use std::{path::Path, process::Command};

/// Installs what is missing, then checks format, lints, dependencies and vectors, then runs every test.
pub(crate) fn run() -> Outcome {
    python_client()?;
    program("cargo", &["fmt", "--all", "--check"])?;
    program("cargo", &["clippy", "--workspace", "--all-targets", "--quiet", "--", "--deny", "warnings"])?;
    deny::run()?;
    vectors::compare(Path::new("../shared/vectors"))?;
    if !exists("kubectl") {
        say("kubectl is not on this machine: its journeys will say that they are skipped");
    }
    program("cargo", &["test", "--workspace", "--no-fail-fast"])
}

/// The Kubernetes client of PyPI, in a virtual environment of its own.
fn python_client() -> Outcome {
    let folder = root().join("target/tools/python");
    if folder.join("installed").exists() {
        return Ok(());
    }
    command(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    command(Command::new(folder.join("bin/pip")).args(["install", "--quiet", "--disable-pip-version-check", "kubernetes==37.*"]))?;
    std::fs::write(folder.join("installed"), "").map_err(|error| format!("{}: {error}", folder.display()))
}
