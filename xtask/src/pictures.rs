//! The pictures of the tests and of the documents, drawn anew.

use crate::run::{Outcome, command, say};
use std::process::Command;

/// Tests that compare pictures with those that are kept, and write them where this variable says so.
const VARIABLE: &str = "BERTH_PICTURES";

/// Draws all.
pub(crate) fn run() -> Outcome {
    let tests = ["test", "--package", "berth-chart", "--package", "berth-plan", "--test", "kept", "--test", "picture"];
    command(Command::new("cargo").args(tests).env(VARIABLE, "write"))?;
    say("Look at what `git diff --stat` names before you commit it: crates/berth-chart/testdata, docs/pictures.");
    Ok(())
}
