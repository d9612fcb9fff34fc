//! The JavaScript client against a real `berth up`; `cargo xtask test` installs it.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common;
use berth_testing::Tool;
use std::{path::Path, process::Command};

#[test]
fn the_javascript_client_goes_its_journey() {
    let Some(node) = common::tool(Tool::JavaScriptClient, "javascript/node_modules/.bin/node") else { return };
    let berth = common::up(&["--store", "memory", "--nodes", "2", "--pod-start-latency", "10ms", "--pod-stop-latency", "10ms"]);
    // Node searches packages in the script's folder.
    let journey = node.ancestors().nth(3).unwrap().join("journey.mjs");
    std::fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/javascript/journey.mjs"), &journey).unwrap();
    let output = Command::new(node).arg(journey).arg(berth.kubeconfig()).output().unwrap();
    assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
}
