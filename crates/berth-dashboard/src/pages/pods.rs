//! Pods as rows of a table.

use super::{ago, counted, shown, turns};
use crate::{id::plain, readings::state_of, world::World};
use berth_chart::State;
use berth_workloads::{cause, view::PodView};
use jiff::Timestamp;
use maud::{Markup, html};
use std::{cmp::Reverse, sync::Arc};

/// How many pods a page has.
const ROWS: usize = 50;

/// A pod, and what is known of it from elsewhere.
pub(super) struct Row {
    pub(super) pod: Arc<PodView>,
    pub(super) state: State,
    /// Of a workload's pods their revision.
    pub(super) revision: Option<i64>,
    /// Of a node's pods whose they are: address and title.
    pub(super) owner: Option<(String, String)>,
}

impl Row {
    pub(super) fn new(pod: Arc<PodView>, min_ready_seconds: i32, now: Timestamp) -> Self {
        Self { state: state_of(&pod, min_ready_seconds, now), pod, revision: None, owner: None }
    }
}

/// In words, most telling first.
const STATES: [(State, &str); 6] = [
    (State::Failed, "in trouble"),
    (State::Pending, "without a node"),
    (State::Starting, "starting"),
    (State::Terminating, "terminating"),
    (State::Ready, "ready"),
    (State::Available, "available"),
];

fn rank(state: State) -> usize {
    STATES.iter().position(|(of, _)| *of == state).unwrap_or(STATES.len())
}

/// How many there are of which kind, and a page of them: those first that have something to tell.
pub(super) fn table(world: &World, mut rows: Vec<Row>, page: usize, now: Timestamp, address: impl Fn(usize) -> String) -> Markup {
    let count = |state: State| rows.iter().filter(|row| row.state == state).count();
    let counts: Vec<String> =
        STATES.iter().rev().filter(|(state, _)| 0 < count(*state)).map(|(state, words)| counted(count(*state), words, words)).collect();
    let total = counted(rows.len(), "pod", "pods");
    let pages = rows.len().div_ceil(ROWS).max(1);
    let page = page.min(pages);
    rows.sort_by_cached_key(|row| (rank(row.state), Reverse(row.revision), row.pod.meta.name.clone()));
    let has_owners = rows.iter().any(|row| row.owner.is_some());
    let here = rows.iter().skip((page - 1) * ROWS).take(ROWS);
    html! {
        h2 #pods-title { "Pods" }
        p { (total) @if !counts.is_empty() { ": " (counts.join(", ")) } "." }
        @if !rows.is_empty() {
            div .scroll role="region" tabindex="0" aria-labelledby="pods-title" {
                table {
                    thead { tr {
                        th scope="col" { "Pod" } th scope="col" { "State" }
                        @if has_owners { th scope="col" { "Of" } } @else { th scope="col" { "Revision" } th scope="col" { "Node" } }
                        th scope="col" { "Age" } th .number scope="col" { "Restarts" } th scope="col" { "Waits for" }
                    } }
                    tbody { @for row in here { (line(world, row, has_owners, now)) } }
                }
            }
            (turns(page, pages, address))
        }
    }
}

fn line(world: &World, row: &Row, has_owners: bool, now: Timestamp) -> Markup {
    let pod = &row.pod;
    let words = STATES[rank(row.state)].1;
    html! {
        tr {
            td .name { (shown(&pod.meta.name)) }
            td { (words) }
            @if has_owners {
                td { @if let Some((address, title)) = &row.owner { a href=(address) { (shown(title)) } } @else { "–" } }
            } @else {
                td { @if let Some(revision) = row.revision { "#" (revision) } @else { "–" } }
                td { @if pod.node_name.is_empty() { "–" } @else { a href=(format!("/nodes/{}", plain(&pod.node_name))) { (shown(&pod.node_name)) } } }
            }
            td { (ago(pod.meta.created, now)) }
            td .number { (pod.restarts) }
            td .text { (waits_for(world, pod, now)) }
        }
    }
}

/// What keeps it from being ready, or from being gone.
fn waits_for(world: &World, pod: &PodView, now: Timestamp) -> String {
    if let Some(until) = pod.meta.deleted {
        let left = until.duration_since(now).as_secs();
        let held = pod.symptoms.iter().flat_map(|symptoms| &symptoms.finalizers).next();
        return match (held, left) {
            (Some(finalizer), ..1) => shown(&format!("the finalizer {finalizer}")),
            (None, ..1) => "its node to tell that it has ended".to_owned(),
            (_, left) => format!("its containers to end; {left}s of its grace left"),
        };
    }
    let name = &*pod.meta.name;
    if let Some(cause) = cause::of_pod(pod) {
        let text = cause.to_string();
        return shown(text.strip_prefix(name).map_or(text.as_str(), str::trim_start));
    }
    if pod.ready {
        return "–".to_owned();
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
