//! All workloads, the most urgent first.

use super::{Page, shown, turns};
use crate::{
    address::path,
    board::{Card, Rank, attention, in_need, summary},
    cluster_cache::ClusterCache,
    text::counted,
};
use berth_workloads::workload::WorkloadId;
use maud::{Markup, html};
use std::{collections::BTreeSet, sync::Arc};

/// The number of workloads per page.
const ROWS: usize = 100;

/// The filter of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    /// The namespace. Empty: all namespaces.
    pub(crate) namespace: String,
    /// A text that the name, an image or the message must contain.
    pub(crate) search: String,
    /// The page number, from 1.
    pub(crate) page: usize,
}

impl Filter {
    fn takes(&self, id: &WorkloadId, card: &Card) -> bool {
        (self.namespace.is_empty() || *id.namespace == *self.namespace) && card.matches(id, &self.search)
    }
}

pub(super) fn parts(cluster_cache: &ClusterCache, filter: &Filter) -> Vec<(&'static str, Markup)> {
    let board = cluster_cache.board();
    let (taken, others): (Vec<_>, Vec<_>) = board.by_attention().into_iter().partition(|(id, card)| filter.takes(id, card));
    let others_in_need = in_need(others.iter().map(|(_, card)| &***card));
    vec![("headline", headline(&taken, others_in_need, filter, cluster_cache.is_filled())), ("workloads", rows(&taken, filter))]
}

fn headline(taken: &[(&WorkloadId, &Arc<Card>)], others_in_need: usize, filter: &Filter, is_filled: bool) -> Markup {
    let cards = taken.iter().map(|(_, card)| &***card);
    let in_need = in_need(cards.clone());
    let is_all = filter.namespace.is_empty() && filter.search.is_empty();
    let attention = match is_all || !taken.is_empty() {
        true => attention(cards.clone()),
        false => "No workload matches".to_owned(),
    };
    let title = if in_need == 0 { "Workloads · berth".to_owned() } else { format!("{in_need} need attention · berth") };
    html! {
        h1 data-title=(title) { (attention) @if !is_all && in_need == 0 && !taken.is_empty() { " here" } }
        p .lead {
            @if taken.is_empty() && is_filled {
                @if is_all { "There are no Deployments, StatefulSets or DaemonSets." } @else { "No workload " (sought(filter)) "." }
            } @else { (summary(cards)) "." }
        }
        @if 0 < others_in_need {
            p .lead { a href="/" { (counted(others_in_need, "other workload needs attention", "other workloads need attention")) } "." }
        }
        @if let Some((id, card)) = taken.iter().find(|(_, card)| card.rank != Rank::Complete) {
            p .lead { (sentence(id, card)) }
        }
    }
}

/// Describes the filter.
fn sought(filter: &Filter) -> String {
    let matches = (!filter.search.is_empty()).then(|| format!("matches ‘{}’", shown(&filter.search)));
    let place = (!filter.namespace.is_empty()).then(|| format!("is in {}", shown(&filter.namespace)));
    [matches, place].into_iter().flatten().collect::<Vec<_>>().join(" and ")
}

/// Renders the status message with the wait reason, in one sentence.
fn sentence(id: &WorkloadId, card: &Card) -> Markup {
    html! {
        a href=(path(id)) { (shown(&id.name)) } ": " (shown(&card.sentence()))
    }
}

fn rows(taken: &[(&WorkloadId, &Arc<Card>)], filter: &Filter) -> Markup {
    let pages = taken.len().div_ceil(ROWS).max(1);
    let page = filter.page.min(pages);
    let here = taken.iter().skip((page - 1) * ROWS).take(ROWS);
    html! {
        h2 .quiet { "Workloads, most urgent first" }
        ul .cards { @for (id, card) in here { (row(id, card)) } }
        (turns(page, pages, |page| Page::Workloads(Filter { page, ..filter.clone() }).address()))
    }
}

fn row(id: &WorkloadId, card: &Card) -> Markup {
    let replicas = &card.replicas;
    html! {
        li {
            span { a href=(path(id)) { (shown(&id.name)) } br; span .quiet { (id.kind.name()) " in " (shown(&id.namespace)) } }
            span { span class=(format!("badge {}", card.rank.class())) { (card.rank.words()) } }
            span { (replicas.available) " of " (replicas.wanted) " available"
                @if let Some(terminating) = replicas.terminating.filter(|terminating| 0 < *terminating) { ", " (terminating) " terminating" }
            }
            p .why {
                @if card.rank == Rank::Complete { span .quiet { (shown(&card.images.join(", "))) } }
                @else { (shown(card.why().unwrap_or(&card.message))) }
            }
        }
    }
}

/// Renders the search form.
pub(super) fn form(cluster_cache: &ClusterCache, filter: &Filter) -> Markup {
    let namespaces: BTreeSet<String> = cluster_cache.board().by_attention().iter().map(|(id, _)| id.namespace.to_string()).collect();
    html! {
        form .filter method="get" action="/" role="search" {
            div {
                label for="search" { "Search (/)" }
                input #search type="search" name="q" value=(shown(&filter.search)) placeholder="name, image, state";
            }
            div {
                label for="namespace" { "Namespace" }
                select #namespace name="namespace" {
                    option value="" selected[filter.namespace.is_empty()] { "all" }
                    @for namespace in &namespaces {
                        option value=(shown(namespace)) selected[filter.namespace == *namespace] { (shown(namespace)) }
                    }
                }
            }
            button type="submit" { "Show" }
        }
    }
}
