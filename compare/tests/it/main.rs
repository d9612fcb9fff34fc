//! Tests of `compare` from outside: `cargo test -p compare --test it`.

use berth_testing::{Tool, skip, upstream_folder};
use std::{path::Path, process::Command};

/// Runs a short comparison with the `berth` that was built beside it.
fn compare(arguments: &[&str]) {
    let scripts = upstream_folder();
    if !scripts.join("start").exists() {
        return skip(Tool::Upstream, &format!("BERTH_UPSTREAM names no folder with one, and {} is none", scripts.display()));
    }
    let compare = env!("CARGO_BIN_EXE_compare");
    let berth = Path::new(compare).with_file_name("berth");
    assert!(berth.exists(), "cargo build --package berth makes {}", berth.display());
    let run = Command::new(compare).args(arguments).env("BERTH_BINARY", berth).env_remove("BERTH_REAL").output().expect("it was built");
    let [printed, complained] = [run.stdout, run.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(run.status.success(), "{}\n{printed}\n{complained}", run.status);
}

#[test]
fn berth_answers_random_requests_of_each_kind_as_the_real_kubernetes() {
    compare(&["--seeds", "0..120"]);
}

#[test]
fn workloads_come_to_the_same_rest_as_with_the_real_controllers() {
    compare(&["--end-states", "--seeds", "0..6", "--at-once", "6"]);
}
