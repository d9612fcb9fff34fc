//! One workload: its chart, pods, revisions, conditions and events.

use super::{Page, ago, counted, pods, question, shown};
use crate::{
    act::Verb,
    board::{Card, Rank},
    cluster_cache::ClusterCache,
    facts::{Condition, Facts, Revision},
    views::NoteView,
};
use berth_identity::RolloutRevision;
use berth_rollout::status::RolloutStage;
use berth_workloads::{view::Meta, workload::WorkloadId};
use jiff::Timestamp;
use maud::{Markup, PreEscaped, html};

/// The maximum number of events. The newest are shown.
const EVENTS_MAX: usize = 25;
const REVISIONS_MAX: usize = 20;

/// Returns the page title if the workload exists. It contains the state, so that browser tabs show it.
pub(super) fn title(cluster_cache: &ClusterCache, id: &WorkloadId) -> Option<String> {
    cluster_cache.board().card(id).map(|card| called(id, &card))
}

fn called(id: &WorkloadId, card: &Card) -> String {
    format!("{}: {}", shown(&id.name), card.rank.words())
}

pub(super) fn parts(cluster_cache: &ClusterCache, id: &WorkloadId, page: usize, now: Timestamp) -> Option<Vec<(&'static str, Markup)>> {
    let (card, chart) = {
        let board = cluster_cache.board();
        let card = board.card(id)?;
        let is_under_way = card.stage == RolloutStage::Waiting;
        let chart = board.past(id)?.chart(format!("{} in {}", id.title(), id.namespace), card.message.clone(), now, is_under_way);
        (card, chart)
    };
    let Facts { pods, revisions, conditions, about, manner, ineffective_setting, meta } = cluster_cache.facts(id, now)?;
    let address = |pods| Page::Workload { id: id.clone(), pods }.address();
    Some(vec![
        ("headline", headline(id, &card)),
        ("state", state(&card, (&manner, ineffective_setting.as_deref()), &meta, now)),
        ("actions", actions(id, &card, &revisions)),
        ("picture", picture(&chart)),
        ("events-new", trouble(&card)),
        ("pods", pods::table(cluster_cache, pods, page, now, address)),
        ("revisions", revisions_part(cluster_cache, id, &revisions, card.revision, now)),
        ("conditions", conditions_part(&conditions, now)),
        ("events", events(cluster_cache, &about, now)),
    ])
}

fn headline(id: &WorkloadId, card: &Card) -> Markup {
    html! {
        hgroup {
            h1 data-title=(format!("{} · berth", called(id, card))) { (shown(&id.name)) }
            p .lead { span class=(format!("badge {}", card.rank.class())) { (card.rank.words()) } " " (shown(&card.sentence())) }
        }
    }
}

fn state(card: &Card, (manner, ineffective_setting): (&str, Option<&str>), meta: &Meta, now: Timestamp) -> Markup {
    let replicas = &card.replicas;
    html! {
        p .quiet {
            (replicas.available) " of " (replicas.wanted) " available, " (replicas.updated) " of the newest template"
            @if let Some(terminating) = replicas.terminating { ", " (terminating) " terminating" }
            ". Namespace " (shown(&meta.namespace)) ". " (shown(manner)) ". Created " (ago(meta.created, now)) " ago."
        }
        @if let Some(ineffective_setting) = ineffective_setting { p .note { "Note: " (shown(ineffective_setting)) "." } }
        @if let Some(rollback) = card.rollback.as_ref().filter(|_| card.rank != Rank::RolledBack) { p .note { (shown(rollback)) } }
    }
}

/// Renders the actions, each of which requires a confirmation.
fn actions(id: &WorkloadId, card: &Card, revisions: &[Revision]) -> Markup {
    let earlier = revisions.len() > 1;
    html! {
        nav aria-label="Actions" {
            ul .actions {
                @for verb in Verb::of(id.kind, card).into_iter().filter(|verb| *verb != Verb::Undo || earlier) {
                    li { a href=(question::address(id, verb)) { (verb.label()) "…" } }
                }
            }
        }
    }
}

fn picture(chart: &berth_chart::Chart) -> Markup {
    html! {
        figure {
            div .scroll.picture role="region" tabindex="0" aria-label="Pods over time" {
                (PreEscaped(berth_chart::fragment(std::slice::from_ref(chart))))
            }
        }
    }
}

/// Renders further obstacles, the next step, and what the user can do.
fn trouble(card: &Card) -> Markup {
    let rest = card.obstacles.get(1..).unwrap_or_default();
    html! {
        @if card.rank != Rank::Complete {
            @if let Some(next) = card.next { p { b { "What happens next: " } (next) "." } }
            @if !rest.is_empty() {
                p { "Also:" }
                ul .plain { @for text in rest { li { (shown(text)) } } }
            }
            @if !card.to_do.is_empty() {
                h2 { "What you can do" }
                ul .plain {
                    @for to_do in &card.to_do { li { (to_do.text) pre tabindex="0" { (berth_chart::printable(&to_do.command)) } } }
                }
            }
        }
    }
}

fn revisions_part(
    cluster_cache: &ClusterCache,
    id: &WorkloadId,
    revisions: &[Revision],
    newest: Option<RolloutRevision>,
    now: Timestamp,
) -> Markup {
    let current = revisions.iter().find(|revision| Some(revision.number) == newest).or(revisions.first());
    html! {
        h2 #revisions-title { "Revisions" }
        @if revisions.is_empty() { p { "None yet." } }
        @else {
            div .scroll role="region" tabindex="0" aria-labelledby="revisions-title" {
                table {
                    thead { tr {
                        th .number scope="col" { "Revision" } th .number scope="col" { "Pods" } th scope="col" { "Images" }
                        th scope="col" { "Age" } th scope="col" { "Differences from the newest" }
                    } }
                    tbody { @for revision in revisions.iter().take(REVISIONS_MAX) { (revision_line(cluster_cache, id, revision, current, now)) } }
                }
            }
        }
    }
}

fn revision_line(cluster_cache: &ClusterCache, id: &WorkloadId, revision: &Revision, newest: Option<&Revision>, now: Timestamp) -> Markup {
    let is_newest = newest.is_some_and(|newest| newest.number == revision.number);
    let compared = newest.filter(|_| !is_newest).map(|newest| cluster_cache.compared(revision, newest)).unwrap_or_default();
    html! {
        tr {
            td .number { (revision.number) }
            td .number { (revision.pods) }
            td .text {
                (shown(&revision.images().join(", ")))
                @if let Some(cause) = &revision.cause { br; span .quiet { (shown(cause)) } }
            }
            td { (ago(revision.created, now)) }
            td .text {
                @if is_newest { "the newest" }
                @else if compared.count == 0 { "–" }
                @else {
                    details id=(format!("revision-{}", revision.number)) {
                        summary { (counted(compared.count, "difference", "differences")) }
                        pre tabindex="0" { @for line in &compared.lines { (shown(line)) "\n" } }
                        @if compared.lines.len() < compared.count { p .quiet { "and " (compared.count - compared.lines.len()) " more" } }
                        span .quiet { (shown(&revision.keeper)) }
                        p { a href=(format!("{}?to={}", question::address(id, Verb::Undo), revision.number)) { "Roll back to revision " (revision.number) "…" } }
                    }
                }
            }
        }
    }
}

fn conditions_part(conditions: &[Condition], now: Timestamp) -> Markup {
    html! {
        h2 { "Conditions" }
        @if conditions.is_empty() { p { "None." } }
        @else {
            ul .plain {
                @for Condition { type_, status, text, since } in conditions {
                    li {
                        b { (shown(type_)) } ": "
                        @match status.as_str() { "True" => "yes", "False" => "no", _ => "not known" }
                        @if !text.is_empty() { " – " (shown(text.trim_end_matches('.'))) }
                        @if since.is_some() { ", since " (ago(*since, now)) }
                    }
                }
            }
        }
    }
}

fn events(cluster_cache: &ClusterCache, about: &[String], now: Timestamp) -> Markup {
    let notes = cluster_cache.events_about(about);
    let count = notes.len();
    html! {
        h2 #events-title { "Events" }
        @if notes.is_empty() { p { "None." } }
        @else {
            div .scroll role="region" tabindex="0" aria-labelledby="events-title" {
                table .rows role="table" {
                    thead role="rowgroup" { tr role="row" {
                        @for title in ["Ago", "Kind", "About", "What", "Times"] {
                            th scope="col" role="columnheader" class=[(title == "Times").then_some("number")] { (title) }
                        }
                    } }
                    tbody role="rowgroup" { @for note in notes.iter().take(EVENTS_MAX) { (event(note, now)) } }
                }
            }
            @if EVENTS_MAX < count { p .quiet { "and " (count - EVENTS_MAX) " older ones" } }
        }
    }
}

fn event(note: &NoteView, now: Timestamp) -> Markup {
    html! {
        tr role="row" {
            td .meta role="cell" data-after=" ago" { (ago(note.event.last, now)) }
            td .state role="cell" { @if note.is_warning { span .stuck { "warning" } } @else { "normal" } }
            td .name role="cell" { (shown(&note.about)) }
            td .text role="cell" { (shown(&note.event.reason)) ": " (shown(&note.event.message)) }
            td .meta.number role="cell" data-after=(if note.count == 1 { " time" } else { " times" }) { (note.count) }
        }
    }
}
