//! The shared test vectors: every file of the folder that `BERTH_VECTORS` names (default: `testdata/vectors` of the workspace).
//!
//! A file that nothing here reads, or a field that a case here does not have, is a failure: nothing is skipped.

mod deployment;
mod replica_set;
mod scaling;
mod stateful_set;

use berth_identity::Revision;
use berth_workloads::view::{PodView, View};
use serde::{Deserialize, de::DeserializeOwned};
use std::{env, fmt::Debug, fs, path::PathBuf};

/// Checks every case of one file's text; gives a line for each that fails.
type Check = fn(&str) -> Vec<String>;

#[test]
#[expect(clippy::disallowed_methods, reason = "the vectors are files")]
fn every_vector_holds() {
    let folder = env::var_os("BERTH_VECTORS")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/vectors")), PathBuf::from);
    let mut files: Vec<_> = fs::read_dir(&folder)
        .expect("the folder of vectors")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no vectors in {}", folder.display());
    let mut faults = Vec::new();
    for path in &files {
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a file name");
        let text = fs::read_to_string(path).expect("a vector file");
        match check_of(name) {
            Some(check) => faults.extend(check(&text).into_iter().map(|fault| format!("{name}: {fault}"))),
            None => faults.push(format!("{name}: nothing reads this file")),
        }
    }
    assert!(faults.is_empty(), "{} of the vectors fail:\n{}", faults.len(), faults.join("\n"));
}

fn check_of(file: &str) -> Option<Check> {
    let checks = [deployment::CHECKS, replica_set::CHECKS, scaling::CHECKS, stateful_set::CHECKS];
    checks.into_iter().flatten().find(|(name, _)| *name == file).map(|(_, check)| *check)
}

/// A case of type `C`; `name` is common to all.
#[derive(Deserialize)]
struct Named {
    name: String,
}

/// Runs `actual` on each case and compares with what the case expects; `run` gives (expected, actual).
fn check<C: DeserializeOwned, V: PartialEq + Debug>(text: &str, run: impl Fn(C) -> (V, V)) -> Vec<String> {
    let values: Vec<serde_json::Value> = match serde_json::from_str(text) {
        Ok(values) => values,
        Err(error) => return vec![format!("not a list of cases: {error}")],
    };
    let case = |value: serde_json::Value| {
        let name = serde_json::from_value::<Named>(value.clone()).map_or_else(|error| error.to_string(), |named| named.name);
        match serde_json::from_value(value).map(&run) {
            Err(error) => Some(format!("{name}: {error}")),
            Ok((expected, actual)) => (expected != actual).then(|| format!("{name}: expected {expected:?}, got {actual:?}")),
        }
    };
    values.into_iter().filter_map(case).collect()
}

/// A struct of a case: camelCase, no field besides those named.
macro_rules! case {
    ($($name:ident { $($field:ident: $type:ty),* $(,)? })*) => {
        $(#[derive(Clone, Debug, serde::Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        #[allow(dead_code, reason = "name and note are read, so that they may be there")]
        struct $name { $($field: $type),* })*
    };
}
use case;

/// The time of a case that counts in seconds.
fn at(seconds: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_second(seconds).expect("a time of a case")
}

/// A pod's phase, by way of the view's own decoder.
fn pod(phase: &str) -> PodView {
    let json = serde_json::json!({"metadata": {"name": "pod"}, "status": {"phase": phase}});
    PodView::decode(json.to_string().as_bytes(), Revision(1)).expect("a pod")
}
