//! The Python client against a real `berth up`; `cargo xtask test` installs it.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests; a skipped one prints why")]

mod common;

use std::{path::Path, process::Command};

#[test]
fn the_python_client_goes_its_journey() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let python = root.join("target/tools/python/bin/python");
    if !python.exists() {
        println!("skipped: no Python client under target/tools/python; `cargo xtask test` installs it");
        return;
    }
    let berth = common::up(&["--store", "memory", "--nodes", "2", "--pod-start-latency", "10ms", "--pod-stop-latency", "10ms"]);
    let output = Command::new(python).arg(root.join("tests/python/journey.py")).arg(berth.kubeconfig()).output().unwrap();
    assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
}
