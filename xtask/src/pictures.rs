//! Redraws the pictures of the tests and of the documents.

use crate::{
    run::{Outcome, command, print},
    tools,
};
use std::process::Command;

/// Tests compare pictures with the kept ones (`berth_testing::kept`), and write them if this variable is set.
const VARIABLE: &str = "BERTH_PICTURES";

/// The tests that draw, as cargo arguments.
const TESTS: [&[&str]; 4] = [
    &["--package", "berth-chart", "--test", "it", "kept::"],
    &["--package", "berth-plan", "--test", "it", "picture::"],
    &["--package", "berth-terminal", "--lib"],
    // A screenshot: it differs each time. Where no browser is available, the kept one stays, and the test reports it.
    &["--package", "berth", "--test", "it", "dashboard::the_picture_of_the_page", "--", "--nocapture"],
];

/// Draws all pictures.
pub(crate) fn run() -> Outcome {
    tools::browser();
    for tests in TESTS {
        command(Command::new("cargo").arg("test").args(tests).env(VARIABLE, "write"))?;
    }
    print(
        "Look at what `git diff --stat` names before you commit it: testdata of berth-chart and berth-terminal, docs/pictures, of which page.png is another each time.",
    );
    Ok(())
}
