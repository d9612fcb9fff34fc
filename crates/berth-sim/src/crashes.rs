//! Which crashes a scenario goes through, and that none of them makes a difference.

use crate::{network::Crash, seeds::variable};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs only this crash of a scenario: the number of a write, or `each`.
pub const CRASH_VARIABLE: &str = "BERTH_SIM_CRASH";

/// How a run of a scenario ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// What must not depend on crashes.
    pub state: String,
    /// How many writes the controllers made that could crash.
    pub writes: u64,
}

/// Runs a scenario without a crash, then with one after each of its writes, then with one after every write.
///
/// # Panics
/// If a run fails or ends in another state; with the scenario's name, which is that of the test, and how to replay it.
pub fn check(scenario: &str, run: impl Fn(Crash) -> End) {
    let wanted = run(Crash::Never);
    for crash in crashes(wanted.writes) {
        let how = match crash {
            Crash::After(write) => write.to_string(),
            Crash::Never | Crash::AfterEach => "each".to_owned(),
        };
        let replay = format!("replay: {CRASH_VARIABLE}={how} cargo test -p berth-sim {scenario}");
        let found = catch_unwind(AssertUnwindSafe(|| run(crash))).unwrap_or_else(|_| panic!("{scenario}, {crash:?}\n{replay}"));
        assert_eq!(found.state, wanted.state, "{scenario}, {crash:?} of {} writes\n{replay}", wanted.writes);
    }
}

fn crashes(writes: u64) -> Vec<Crash> {
    match variable(CRASH_VARIABLE) {
        Some(text) if text == "each" => vec![Crash::AfterEach],
        Some(text) => vec![Crash::After(text.parse().expect("the number of a write, or each"))],
        None => (1..=writes).map(Crash::After).chain([Crash::AfterEach]).collect(),
    }
}
