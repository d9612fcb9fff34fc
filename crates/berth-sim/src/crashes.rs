//! Which crashes a scenario goes through, and that none of them makes a difference.

use crate::{network::Crash, seeds::variable};
use berth_api::annotations::RECORDS;
use berth_store::env::Timestamp;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// Runs only this crash of a scenario: the number of a write, or `each`.
pub const CRASH_VARIABLE: &str = "BERTH_SIM_CRASH";

/// How a run of a scenario ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// What must not depend on crashes.
    pub state: String,
    /// Times that are kept, by what they are of. A crash delays what happens, and brings nothing forward.
    pub times: BTreeMap<String, Timestamp>,
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
        assert!(is_delayed(&wanted.times, &found.times), "{scenario}, {crash:?}: {:?}, not {:?}\n{replay}", found.times, wanted.times);
    }
}

/// Whether all times are there, and none is earlier than the original one. Times have whole seconds, and a restarted controller does at once what it
/// would otherwise have delayed by some milliseconds: one second earlier may be the same.
fn is_delayed(wanted: &BTreeMap<String, Timestamp>, found: &BTreeMap<String, Timestamp>) -> bool {
    wanted.keys().eq(found.keys()) && wanted.iter().all(|(of, at)| at.duration_since(found[of]).as_secs() <= 1)
}

/// Takes the times out of what is recorded of rollouts and changes in an object's annotations, and what names a pod.
///
/// # Panics
/// If a record is none, or a rollout ended before it began.
pub fn take_times(object: &str, annotations: &mut Value, times: &mut BTreeMap<String, Timestamp>) {
    let Some(annotations) = annotations.as_object_mut() else { return };
    for key in RECORDS {
        let Some(text) = annotations.get(key).and_then(Value::as_str) else { continue };
        let mut record: Value = serde_json::from_str(text).expect("a record is JSON");
        let mut last = None;
        for place in ["/by/at", "/at", "/began", "/ended/at"] {
            let Some(found) = record.pointer_mut(place).map(Value::take).filter(Value::is_string) else { continue };
            let at: Timestamp = serde_json::from_value(found).expect("a time");
            assert!(last <= Some(at), "{object}: {text}");
            last = Some(at);
            times.insert(format!("{object} {key}{place}"), at);
        }
        drop(record.pointer_mut("/ended/message").map(Value::take));
        annotations[key] = record;
    }
}

fn crashes(writes: u64) -> Vec<Crash> {
    match variable(CRASH_VARIABLE) {
        Some(text) if text == "each" => vec![Crash::AfterEach],
        Some(text) => vec![Crash::After(text.parse().expect("the number of a write, or each"))],
        None => (1..=writes).map(Crash::After).chain([Crash::AfterEach]).collect(),
    }
}
