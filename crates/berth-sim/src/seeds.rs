//! Which seeds a test runs.

/// Replays one seed instead of those that a test would run.
pub const SEED_VARIABLE: &str = "BERTH_SIM_SEED";

/// `usual`, or the one that [`SEED_VARIABLE`] names.
///
/// # Panics
/// If the variable is set to what is not a number.
#[must_use]
pub fn seeds(usual: std::ops::Range<u64>) -> Vec<u64> {
    match std::env::var(SEED_VARIABLE) {
        Ok(text) => vec![text.parse().unwrap_or_else(|_| panic!("{SEED_VARIABLE}={text:?} is not a number"))],
        Err(_) => usual.collect(),
    }
}
