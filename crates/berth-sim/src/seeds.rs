//! Which seeds a test runs.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Replays one seed instead of those that a test would run.
pub const SEED_VARIABLE: &str = "BERTH_SIM_SEED";

/// Runs so many seeds instead of those that a test would run (`5000`), or those from one up to another (`5000..10000`).
pub const SEEDS_VARIABLE: &str = "BERTH_SIM_SEEDS";

/// `usual`, or those that [`SEED_VARIABLE`] or [`SEEDS_VARIABLE`] names.
///
/// # Panics
/// If a variable is set to what it should not be.
#[must_use]
pub fn seeds(usual: std::ops::Range<u64>) -> Vec<u64> {
    let number =
        |text: &str| text.parse::<u64>().unwrap_or_else(|_| panic!("{text:?} in {SEED_VARIABLE} or {SEEDS_VARIABLE} is not a number"));
    if let Some(text) = variable(SEED_VARIABLE) {
        return vec![number(&text)];
    }
    match variable(SEEDS_VARIABLE) {
        Some(text) => match text.split_once("..") {
            Some((from, to)) => (number(from)..number(to)).collect(),
            None => (0..number(&text)).collect(),
        },
        None => usual.collect(),
    }
}

/// The value that a user has set to replay a test.
#[expect(clippy::disallowed_methods, reason = "chooses what a test runs, not what happens in it")]
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Runs `test` with each of [`seeds`], also after one has failed.
///
/// # Panics
/// If any failed, with their seeds.
pub fn run(usual: std::ops::Range<u64>, test: impl Fn(u64)) {
    let fails = |seed: &u64| catch_unwind(AssertUnwindSafe(|| test(*seed))).is_err();
    let failed: Vec<u64> = seeds(usual).into_iter().filter(fails).collect();
    assert!(failed.is_empty(), "failed with the seeds {failed:?}; replay one with {SEED_VARIABLE}={}", failed[0]);
}
