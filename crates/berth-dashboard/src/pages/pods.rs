//! Pods as rows of a table.

use super::{ago, counted, shown, turns};
use crate::{
    address::{path, plain},
    cluster_cache::ClusterCache,
    rows::{NOTHING, Row, counts, sort, waits_for},
};
use berth_chart::one_line;
use berth_identity::Uid;
use jiff::Timestamp;
use maud::{Markup, html};

/// The number of pods per page.
const ROWS: usize = 50;
/// Longer texts are truncated in a row.
const BEGINNING_COLUMNS: usize = 90;

/// Renders the counts by state, and one page of pods. Pods with a problem come first.
pub(super) fn table(
    cluster_cache: &ClusterCache,
    mut rows: Vec<Row>,
    page: usize,
    now: Timestamp,
    address: impl Fn(usize) -> String,
) -> Markup {
    let counts: Vec<String> = counts(&rows).into_iter().map(|(count, words)| counted(count, words, words)).collect();
    let total = counted(rows.len(), "pod", "pods");
    let pages = rows.len().div_ceil(ROWS).max(1);
    let page = page.min(pages);
    sort(&mut rows);
    let has_owners = rows.iter().any(|row| row.owner.is_some());
    let titles: &[&str] = if has_owners {
        &["Pod", "State", "Of", "Age", "Restarts", "Waits for"]
    } else {
        &["Pod", "State", "Revision", "Node", "Age", "Restarts", "Waits for"]
    };
    let here = rows.iter().skip((page - 1) * ROWS).take(ROWS);
    html! {
        h2 #pods-title { "Pods" }
        p { (total) @if !counts.is_empty() { ": " (counts.join(", ")) } "." }
        @if !rows.is_empty() {
            div .scroll role="region" tabindex="0" aria-labelledby="pods-title" {
                // A narrow screen shows rows as cards. The roles keep the table structure for screen readers.
                table .rows role="table" {
                    thead role="rowgroup" { tr role="row" {
                        @for title in titles {
                            th scope="col" role="columnheader" class=[(*title == "Restarts").then_some("number")] { (title) }
                        }
                    } }
                    tbody role="rowgroup" { @for row in here { (line(cluster_cache, row, has_owners, now)) } }
                }
            }
            (turns(page, pages, address))
        }
    }
}

fn line(cluster_cache: &ClusterCache, row: &Row, has_owners: bool, now: Timestamp) -> Markup {
    let pod = &row.pod;
    html! {
        tr role="row" {
            td .name role="cell" { (shown(&pod.meta.name)) }
            td .state role="cell" { (row.words()) }
            @if has_owners {
                td .meta role="cell" { @if let Some(owner) = &row.owner { a href=(path(owner)) { (shown(&format!("{} in {}", owner.title(), owner.namespace))) } } @else { "–" } }
            } @else {
                td .meta role="cell" { @if let Some(revision) = row.revision { "#" (revision) } @else { "–" } }
                td .meta.node role="cell" { @if pod.node_name.is_empty() { "–" } @else { a href=(format!("/nodes/{}", plain(&pod.node_name))) { (shown(&pod.node_name)) } } }
            }
            td .meta role="cell" data-before="age " { (ago(pod.meta.created, now)) }
            td .meta.number role="cell" data-after=(if pod.restarts == 1 { " restart" } else { " restarts" }) { (pod.restarts) }
            (waits(&pod.meta.uid, &waits_for(cluster_cache, pod, now)))
        }
    }
}

/// Renders the start of a long text, and the whole text on request, so that rows stay short.
fn waits(uid: &Uid, text: &str) -> Markup {
    let beginning = one_line(text, BEGINNING_COLUMNS);
    html! {
        @if text == NOTHING { td .text.none role="cell" { (text) } }
        @else if beginning == text { td .text role="cell" { (text) } }
        @else { td .text role="cell" { details id=(format!("waits-{uid}")) { summary { (beginning) } (text) } } }
    }
}
