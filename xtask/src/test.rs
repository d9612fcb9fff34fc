//! Every test, and what they need.

use crate::{
    deny, fuzz,
    run::{Outcome, command, exists, output, program, root, say},
    vectors,
};
use std::{path::Path, process::Command};

/// Installs what is missing, then checks format, lints, dependencies and vectors, then runs every test.
pub(crate) fn run() -> Outcome {
    python_client()?;
    promtool();
    old_kubectl();
    program("cargo", &["fmt", "--all", "--check"])?;
    program("cargo", &["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"])?;
    program("cargo", &["clippy", "--workspace", "--all-targets", "--quiet", "--", "--deny", "warnings"])?;
    deny::run()?;
    vectors::compare(Path::new("../shared/vectors"))?;
    if !exists("kubectl") {
        say("kubectl is not on this machine: its journeys will say that they are skipped");
    }
    program("cargo", &["test", "--workspace", "--no-fail-fast"])?;
    fuzz::short()
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

/// Debian's kubectl 1.20, from before OpenAPI v3 and protobuf bodies, unpacked beside the one of the machine; its test is skipped where not.
fn old_kubectl() {
    let folder = root().join("target/tools/old-kubectl");
    if folder.join("usr/bin/kubectl").exists() {
        return;
    }
    let unpack = "mkdir -p $0 && cd $0 && apt-get download kubernetes-client && dpkg-deb --extract kubernetes-client_1.20.*.deb .";
    if !exists("apt-get") || command(Command::new("sh").args(["-c", unpack]).arg(&folder)).is_err() {
        say("Debian's kubernetes-client cannot be had: the journey of an old kubectl will say that it is skipped");
    }
}

/// Debian's `promtool`, where it can be installed; the test that needs it is skipped where not.
fn promtool() {
    if exists("promtool") {
        return;
    }
    let is_root = output("id", &["--user"]).is_ok_and(|id| id.trim() == "0");
    if is_root && exists("apt-get") {
        let install = ["install", "--yes", "--no-install-recommends", "prometheus"];
        let installed = program("apt-get", &["update"]).and_then(|()| program("apt-get", &install));
        if installed.is_ok() {
            return;
        }
    }
    say("promtool is not on this machine and cannot be installed: the check of metrics will say that it is skipped");
}
