//! The pictures of the tests and of the documents, drawn anew.

use crate::{
    run::{Outcome, command, say},
    tools,
};
use std::process::Command;

/// Tests compare pictures with those that are kept (`berth_testing::kept`), and write them where this variable says so.
const VARIABLE: &str = "BERTH_PICTURES";

/// The tests that draw, as cargo is told.
const TESTS: [&[&str]; 4] = [
    &["--package", "berth-chart", "--test", "it", "kept::"],
    &["--package", "berth-plan", "--test", "it", "picture::"],
    &["--package", "berth-terminal", "--lib"],
    // A screenshot: another each time it is taken. Where no browser can be had, the one that is kept stays, and the test says so.
    &["--package", "berth", "--test", "it", "dashboard::the_picture_of_the_page", "--", "--nocapture"],
];

/// Draws all.
pub(crate) fn run() -> Outcome {
    tools::browser();
    for tests in TESTS {
        command(Command::new("cargo").arg("test").args(tests).env(VARIABLE, "write"))?;
    }
    say(
        "Look at what `git diff --stat` names before you commit it: testdata of berth-chart and berth-terminal, docs/pictures, of which page.png is another each time.",
    );
    Ok(())
}
