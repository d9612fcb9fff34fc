//! The Python client against a real `berth up`; `cargo xtask test` installs it.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common;
use berth_testing::Tool;
use std::{path::Path, process::Command};

#[test]
fn the_python_client_goes_its_journey() {
    let Some(python) = common::tool(Tool::PythonClient, "python/bin/python") else { return };
    let berth = common::up(&["--store", "memory", "--nodes", "2", "--pod-start-latency", "10ms", "--pod-stop-latency", "10ms"]);
    let output = Command::new(python)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/python/journey.py"))
        .arg(berth.kubeconfig())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
}
