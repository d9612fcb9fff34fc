//! Runs every test, with its tools.

use crate::{
    deny, fuzz,
    run::{self, Outcome, command, program, root},
    skipped, tools, vectors,
};
use std::{path::Path, process::Command, thread};

/// Tests mostly wait, so more of them run at once than there are processors. A test that does not wait takes as many slots as a processor
/// has (`.config/nextest.toml`).
const SLOTS_A_PROCESSOR: usize = 4;

/// Checks format, lints, dependencies and vectors while missing tools are installed. Then runs every test and prints which were skipped.
pub(crate) fn run() -> Outcome {
    // Installing waits for the network more than for a processor. Building does not.
    let (built, had) = thread::scope(|scope| {
        let installing = scope.spawn(tools::install);
        (build(), installing.join().expect("an installation does not panic"))
    });
    built?;
    deny::with_tests()?;
    let noted = skipped::begin()?;
    let outcome = tests(&["--workspace", "--lib", "--bins", "--tests"], Some(&noted));
    let told = skipped::report(&had);
    outcome.and(told)
}

/// Builds the test programs, each crate with its lints. Documentation contains no tests (`cargo xtask tidy`).
fn build() -> Outcome {
    program("cargo", &["fmt", "--all", "--check"])?;
    fuzz::is_formatted()?;
    vectors::compare_if_there()?;
    let mut build = Command::new("cargo");
    build.args(["build", "--workspace", "--all-targets", "--quiet", "--locked"]);
    command(with_lints(&mut build)?)
}

/// Lints are part of the build: one compiler run for a crate reports Clippy's findings and generates the code for the tests.
///
/// `cargo clippy` sets the same two variables, for a build without code generation.
fn with_lints(cargo: &mut Command) -> Result<&mut Command, String> {
    let sysroot = run::output("rustc", &["--print", "sysroot"])?;
    let driver = Path::new(sysroot.trim()).join("bin/clippy-driver");
    Ok(cargo.env("RUSTC_WORKSPACE_WRAPPER", driver).env("CLIPPY_ARGS", "--deny__CLIPPY_HACKERY__warnings"))
}

/// Runs the tests of the selected packages by nextest, which gives each test a process and a time limit. Without nextest, the programs run
/// one after the other.
pub(crate) fn tests(selected: &[&str], noted: Option<&Path>) -> Outcome {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let mut tests = match tools::cargo_tool("cargo-nextest") {
        Ok(nextest) => {
            let mut tests = Command::new(nextest);
            tests.args(["nextest", "run", "--locked", "--no-fail-fast", "--cargo-quiet"]).args(selected);
            tests.arg(format!("--test-threads={}", processors * SLOTS_A_PROCESSOR));
            tests
        }
        Err(error) => {
            run::print(&format!("no nextest, so tests run without time limits: {error}"));
            let mut tests = Command::new("cargo");
            tests.args(["test", "--locked", "--no-fail-fast", "--quiet"]).args(selected).arg("--");
            tests.arg(format!("--test-threads={processors}"));
            tests
        }
    };
    tests.envs(noted.map(|noted| (berth_testing::SKIPPED, noted)));
    command(with_lints(tests.current_dir(root()))?)
}
