//! The pictures of the tests and of the documents, drawn anew.

use crate::run::{Outcome, command, say};
use std::process::Command;

/// Tests compare pictures with those that are kept (`berth_testing::kept`), and write them where this variable says so.
const VARIABLE: &str = "BERTH_PICTURES";

/// The tests that draw, as cargo is told.
const TESTS: [&[&str]; 2] = [
    &["--package", "berth-chart", "--package", "berth-plan", "--test", "kept", "--test", "picture"],
    &["--package", "berth-terminal", "--lib"],
];

/// Draws all.
pub(crate) fn run() -> Outcome {
    for tests in TESTS {
        command(Command::new("cargo").arg("test").args(tests).env(VARIABLE, "write"))?;
    }
    say("Look at what `git diff --stat` names before you commit it: testdata of berth-chart and berth-terminal, docs/pictures.");
    Ok(())
}
