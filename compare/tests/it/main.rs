//! Tests of `compare` from outside: `cargo test -p compare --test it`.

use berth_testing::{Tool, skip, upstream_folder};
use std::{path::Path, process::Command};

/// One case of each kind. `cargo xtask compare` tells of differences, and fails for them; this holds the tool itself.
#[test]
fn a_short_comparison_with_the_real_kubernetes_runs_to_its_end() {
    let scripts = upstream_folder();
    if !scripts.join("start").exists() {
        return skip(Tool::Upstream, &format!("BERTH_UPSTREAM names no folder with one, and {} is none", scripts.display()));
    }
    let compare = env!("CARGO_BIN_EXE_compare");
    let berth = Path::new(compare).with_file_name("berth");
    assert!(berth.exists(), "cargo build --package berth makes {}", berth.display());
    let run = Command::new(compare)
        .args(["--seeds", "0..33"])
        .env("BERTH_BINARY", berth)
        .env_remove("BERTH_REAL")
        .output()
        .expect("it was built");
    let [printed, complained] = [run.stdout, run.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    let last = printed.lines().last().unwrap_or_default();
    assert!(last.starts_with("seeds 0..33: 33 cases, "), "{}\n{printed}\n{complained}", run.status);
}
