//! Pods as rows of a table.

use super::{ago, counted, shown, turns};
use crate::{
    address::{path, plain},
    rows::{Row, counts, sort, waits_for},
    world::World,
};
use jiff::Timestamp;
use maud::{Markup, html};

/// How many pods a page has.
const ROWS: usize = 50;

/// How many there are of which kind, and a page of them: those first that have something to tell.
pub(super) fn table(world: &World, mut rows: Vec<Row>, page: usize, now: Timestamp, address: impl Fn(usize) -> String) -> Markup {
    let counts: Vec<String> = counts(&rows).into_iter().map(|(count, words)| counted(count, words, words)).collect();
    let total = counted(rows.len(), "pod", "pods");
    let pages = rows.len().div_ceil(ROWS).max(1);
    let page = page.min(pages);
    sort(&mut rows);
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
    html! {
        tr {
            td .name { (shown(&pod.meta.name)) }
            td { (row.words()) }
            @if has_owners {
                td { @if let Some(owner) = &row.owner { a href=(path(owner)) { (shown(&format!("{} in {}", owner.title(), owner.namespace))) } } @else { "–" } }
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
