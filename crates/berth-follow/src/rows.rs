//! Pods one by one, and what each waits for.

use crate::{id::Id, readings::state_of, text::shown, world::World};
use berth_chart::State;
use berth_workloads::{cause, view::PodView};
use jiff::Timestamp;
use std::{cmp::Reverse, sync::Arc};

/// A pod, and what is known of it from elsewhere.
#[derive(Clone, Debug)]
pub struct Row {
    /// Itself.
    pub pod: Arc<PodView>,
    /// How far it is.
    pub state: State,
    /// Of a workload's pods their revision.
    pub revision: Option<i64>,
    /// Of a node's pods whose they are.
    pub owner: Option<Id>,
}

/// In words, most telling first.
pub const STATES: [(State, &str); 6] = [
    (State::Failed, "in trouble"),
    (State::Pending, "without a node"),
    (State::Starting, "starting"),
    (State::Terminating, "terminating"),
    (State::Ready, "ready"),
    (State::Available, "available"),
];

impl Row {
    /// Nothing is known from elsewhere.
    #[must_use]
    pub fn new(pod: Arc<PodView>, min_ready_seconds: i32, now: Timestamp) -> Self {
        Self { state: state_of(&pod, min_ready_seconds, now), pod, revision: None, owner: None }
    }

    /// Its state in words.
    #[must_use]
    pub fn words(&self) -> &'static str {
        STATES[rank(self.state)].1
    }
}

fn rank(state: State) -> usize {
    STATES.iter().position(|(of, _)| *of == state).unwrap_or(STATES.len() - 1)
}

/// Those first that have something to tell, then those of the newest revision.
pub fn sort(rows: &mut [Row]) {
    rows.sort_by_cached_key(|row| (rank(row.state), Reverse(row.revision), row.pod.meta.name.clone()));
}

/// How many are in which state, and in words which; those first that are as they should be.
#[must_use]
pub fn counts(rows: &[Row]) -> Vec<(usize, &'static str)> {
    let count = |state: State| rows.iter().filter(|row| row.state == state).count();
    STATES.iter().rev().map(|(state, words)| (count(*state), *words)).filter(|(count, _)| 0 < *count).collect()
}

/// Of a pod that waits for nothing.
pub const NOTHING: &str = "–";

/// What keeps it from being ready, or from being gone; [`NOTHING`]: it is as it should be.
#[must_use]
pub fn waits_for(world: &World, pod: &PodView, now: Timestamp) -> String {
    if let Some(until) = pod.meta.deleted {
        let left = until.duration_since(now).as_secs();
        let held = pod.symptoms.iter().flat_map(|symptoms| &symptoms.finalizers).next();
        return match (held, left) {
            (Some(finalizer), ..1) => shown(&format!("the finalizer {finalizer}")),
            (None, ..1) => "its node to report its end".to_owned(),
            (_, left) => format!("its containers to end; {left}s of its grace left"),
        };
    }
    let name = &*pod.meta.name;
    if let Some(cause) = cause::of_pod(pod) {
        let text = cause.to_string();
        return shown(text.strip_prefix(name).map_or(text.as_str(), str::trim_start));
    }
    if pod.ready {
        return NOTHING.to_owned();
    }
    let reasons = pod.waiting_reasons();
    match (pod.node_name.is_empty(), reasons.is_empty()) {
        (true, _) => {
            let notes = world.notes.read();
            let said = notes.index().about(&pod.meta.uid).filter(|note| note.is_warning).max_by_key(|note| note.event.last);
            said.map_or_else(|| "a node".to_owned(), |note| shown(&note.event.message))
        }
        (false, false) => shown(&reasons.join(", ")),
        (false, true) => "its containers to be ready".to_owned(),
    }
}
