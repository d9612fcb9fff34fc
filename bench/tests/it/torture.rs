//! Each kind of torture twice, shortly. `cargo xtask torture` does it for long.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{path::Path, process::Command};

#[test]
fn nothing_that_was_acknowledged_is_lost_doubled_or_shown_wrongly_whatever_fails() {
    let bench = env!("CARGO_BIN_EXE_bench");
    // Built with it where all tests are: a crate's test can name its own programs only.
    let berth = Path::new(bench).with_file_name("berth");
    assert!(berth.exists(), "cargo build --package berth makes {}", berth.display());
    let run = Command::new(bench).args(["--cycles", "18", "--seed", "1"]).env("BERTH_BINARY", berth).output().unwrap();
    let [printed, complained] = [run.stdout, run.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(run.status.success(), "{}\n{printed}\n{complained}", run.status);
}
