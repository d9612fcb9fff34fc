//! Requests and the required contents of their responses, sent to berth without controllers.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common;
use std::{path::Path, process::Command};

#[test]
fn recorded_requests_get_the_recorded_answers() {
    replay("wire");
}

/// One case for each part of the contract that clients rely on, written from the specification instead of a recording.
#[test]
fn requests_of_every_kind_get_the_answers_that_clients_rely_on() {
    replay("wire-more");
}

fn replay(cases: &str) {
    let berth = common::up(&["--store", "memory", "--controllers=-*", "--nodes", "0"]);
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    let pki = berth.data_dir.join("pki");
    let output = Command::new("python3")
        .arg(testdata.join("wire/run.py"))
        .arg("--cases")
        .arg(testdata.join(cases))
        .args(["--server", &server(&berth)])
        .arg("--cacert")
        .arg(pki.join("ca.pem"))
        .arg("--cert")
        .arg(pki.join("admin.pem"))
        .arg("--key")
        .arg(pki.join("admin.pem"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
}

fn server(berth: &common::Berth) -> String {
    let kubeconfig = std::fs::read_to_string(berth.kubeconfig()).unwrap();
    let line = kubeconfig.lines().find_map(|line| line.trim().strip_prefix("server:")).unwrap();
    line.trim().trim_matches('"').to_owned()
}
