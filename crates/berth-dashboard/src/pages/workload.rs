//! One workload: its picture, its pods, its revisions, its conditions, its events.

use super::{Page, ago, counted, pods, question, shown};
use crate::{
    act::Verb,
    board::{Card, Rank},
    difference,
    id::{Id, Kind},
    readings::images,
    views::NoteView,
    world::World,
};
use berth_api::Gate;
use berth_rollout::look::RolloutStage;
use berth_workloads::{
    deployment::annotations,
    stateful_set::revision_of,
    view::{AutoRollback, DeploymentView, Meta, PodReplacementPolicy, PodView, StatefulSetView},
};
use jiff::Timestamp;
use k8s_openapi::{api::core::v1::PodTemplateSpec, apimachinery::pkg::apis::meta::v1::Time};
use maud::{Markup, PreEscaped, html};
use std::{collections::BTreeMap, sync::Arc};

/// So many events are shown, the newest.
const EVENTS_MAX: usize = 25;
/// So many pods have their events shown.
const TELLING_PODS_MAX: usize = 50;
const REVISIONS_MAX: usize = 20;
/// So many lines of a difference.
const LINES_MAX: usize = 60;
const CHANGE_CAUSE: &str = "kubernetes.io/change-cause";

/// A revision that is kept.
struct Revision {
    number: i64,
    /// The object that keeps it.
    keeper: String,
    created: Option<Timestamp>,
    cause: Option<String>,
    pods: usize,
    template: Option<Arc<PodTemplateSpec>>,
}

/// A condition in Kubernetes' own words.
struct Condition {
    type_: String,
    status: String,
    text: String,
    since: Option<Timestamp>,
}

/// What the parts are made of.
struct Facts {
    meta: Meta,
    pods: Vec<pods::Row>,
    /// Newest first.
    revisions: Vec<Revision>,
    conditions: Vec<Condition>,
    /// Uids of what events may be about.
    about: Vec<String>,
    /// Strategy, policy, in words.
    manner: String,
    /// What it asks for in vain.
    in_vain: Option<String>,
}

/// What its page is called, if it is there: how it stands is seen in the list of open pages.
pub(super) fn title(world: &World, id: &Id) -> Option<String> {
    world.board().card(id).map(|card| called(id, &card))
}

fn called(id: &Id, card: &Card) -> String {
    format!("{}: {}", shown(&id.name), card.rank.words())
}

pub(super) fn parts(world: &World, id: &Id, page: usize, now: Timestamp) -> Option<Vec<(&'static str, Markup)>> {
    let (card, chart) = {
        let board = world.board();
        let card = board.card(id)?;
        let is_under_way = card.stage == RolloutStage::Waiting;
        let chart = board.past(id)?.chart(format!("{} in {}", id.title(), id.namespace), card.message.clone(), now, is_under_way);
        (card, chart)
    };
    let facts = match id.kind {
        Kind::Deployment => of_deployment(world, &*world.deployments.get(&id.key())?, now),
        Kind::StatefulSet => of_stateful_set(world, &*world.stateful_sets.get(&id.key())?, now),
    };
    let Facts { pods, revisions, conditions, about, manner, in_vain, meta } = facts;
    let address = |pods| Page::Workload { id: id.clone(), pods }.address();
    Some(vec![
        ("headline", headline(id, &card)),
        ("state", state(&card, (&manner, in_vain.as_deref()), &meta, now)),
        ("actions", actions(id, &card, &revisions)),
        ("picture", picture(&chart)),
        ("events-new", trouble(&card)),
        ("pods", pods::table(world, pods, page, now, address)),
        ("revisions", revisions_part(id, &revisions, card.revision, now)),
        ("conditions", conditions_part(&conditions, now)),
        ("events", events(world, &about, now)),
    ])
}

fn of_deployment(world: &World, deployment: &DeploymentView, now: Timestamp) -> Facts {
    let sets: Vec<_> = world.sets.read().index().controlled_by(&deployment.meta.uid).cloned().collect();
    let pods = world.pods.read();
    let min_ready = deployment.spec.min_ready_seconds;
    let (mut rows, mut revisions) = (Vec::new(), Vec::new());
    for set in &sets {
        let number = annotations::revision(&set.annotations);
        let own: Vec<Arc<PodView>> = pods.index().controlled_by(&set.meta.uid).cloned().collect();
        revisions.extend(number.map(|number| Revision {
            number,
            keeper: format!("ReplicaSet {}", set.meta.name),
            created: set.meta.created,
            cause: set.annotations.get(CHANGE_CAUSE).cloned(),
            pods: own.len(),
            template: Some(Arc::clone(&set.template)),
        }));
        rows.extend(own.into_iter().map(|pod| pods::Row { revision: number, ..pods::Row::new(pod, min_ready, now) }));
    }
    drop(pods);
    let conditions = deployment.status.conditions.iter().flatten().map(|condition| Condition {
        type_: condition.type_.clone(),
        status: condition.status.clone(),
        text: said(condition.reason.as_deref(), condition.message.as_deref()),
        since: time(condition.last_transition_time.as_ref()),
    });
    let strategy = &deployment.spec.strategy;
    let limits = strategy.rolling_update.as_ref().map(|rolling| {
        let number = |value: Option<&k8s_openapi::apimachinery::pkg::util::intstr::IntOrString>| match value {
            Some(k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::Int(number)) => number.to_string(),
            Some(k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::String(text)) => text.clone(),
            None => "0".to_owned(),
        };
        format!(", at most {} too many and {} missing", number(rolling.max_surge.as_ref()), number(rolling.max_unavailable.as_ref()))
    });
    let policy = deployment.spec.pod_replacement_policy.as_ref().map(|policy| format!(", {policy}"));
    Facts {
        about: about(&deployment.meta, sets.iter().map(|set| &set.meta), &rows),
        meta: deployment.meta.clone(),
        conditions: conditions.collect(),
        in_vain: vain_wishes_of_deployment(world, deployment),
        manner: format!("{}{}{}", strategy.type_, limits.unwrap_or_default(), policy.unwrap_or_default()),
        revisions: newest_first(revisions),
        pods: rows,
    }
}

fn of_stateful_set(world: &World, set: &StatefulSetView, now: Timestamp) -> Facts {
    let kept: Vec<_> = world.revisions.read().index().controlled_by(&set.meta.uid).cloned().collect();
    let own: Vec<Arc<PodView>> = world.pods.read().index().controlled_by(&set.meta.uid).cloned().collect();
    let numbers: BTreeMap<&str, i64> = kept.iter().map(|revision| (&*revision.meta.name, revision.number)).collect();
    let row = |pod: Arc<PodView>| {
        let revision = numbers.get(revision_of(&pod)).copied();
        pods::Row { revision, ..pods::Row::new(pod, set.spec.min_ready_seconds, now) }
    };
    let rows: Vec<_> = own.into_iter().map(row).collect();
    let revisions = kept.iter().map(|revision| Revision {
        number: revision.number,
        keeper: format!("ControllerRevision {}", revision.meta.name),
        created: revision.meta.created,
        cause: None,
        pods: rows.iter().filter(|row| row.revision == Some(revision.number)).count(),
        template: revision.template.clone(),
    });
    let conditions = set.status.conditions.iter().flatten().map(|condition| Condition {
        type_: condition.type_.clone(),
        status: condition.status.clone(),
        text: said(condition.reason.as_deref(), condition.message.as_deref()),
        since: time(condition.last_transition_time.as_ref()),
    });
    Facts {
        about: about(&set.meta, [], &rows),
        meta: set.meta.clone(),
        conditions: conditions.collect(),
        in_vain: vain_wishes_of_set(world, set),
        manner: format!("{}, {}", set.spec.update_strategy.type_, set.spec.pod_management_policy),
        revisions: newest_first(revisions.collect()),
        pods: rows,
    }
}

fn vain_wishes_of_deployment(world: &World, deployment: &DeploymentView) -> Option<String> {
    let choices = &deployment.choices;
    let asks_for_policy = !matches!(choices.policy, Ok(PodReplacementPolicy::Unset) | Err(_));
    let asks = asks_for_policy
        || choices.steps.as_ref().is_ok_and(|steps| !steps.is_empty())
        || choices.auto_rollback != Ok(AutoRollback::default());
    let off = asks_for_policy.then_some((Gate::DeploymentPodReplacementPolicy, "podReplacementPolicy"));
    vain_wishes(world, asks, off)
}

fn vain_wishes_of_set(world: &World, set: &StatefulSetView) -> Option<String> {
    let choices = &set.choices;
    let asks_for_recreate = choices.strategy.asks_for_recreate();
    let asks = asks_for_recreate || choices.repairs || choices.auto_rollback != AutoRollback::default();
    vain_wishes(world, asks, asks_for_recreate.then_some((Gate::StatefulSetRecreateStrategy, "Recreate")))
}

/// What is said where `asks` for something of berth's, and for what a gate is for, is not heeded.
fn vain_wishes(world: &World, asks: bool, gated: Option<(Gate, &str)>) -> Option<String> {
    let switched_off = || {
        let (gate, wish) = gated.filter(|(gate, _)| !world.gates.enabled(*gate))?;
        Some(format!("{wish} has no effect: the controllers have the feature {gate} off"))
    };
    world.unheeded.clone().filter(|_| asks).or_else(switched_off)
}

fn newest_first(mut revisions: Vec<Revision>) -> Vec<Revision> {
    revisions.sort_by_key(|revision| std::cmp::Reverse(revision.number));
    revisions
}

fn about<'a>(meta: &'a Meta, parts: impl IntoIterator<Item = &'a Meta>, pods: &'a [pods::Row]) -> Vec<String> {
    // Those that are not available have something to tell.
    let telling = pods.iter().filter(|row| row.state != berth_chart::State::Available).take(TELLING_PODS_MAX).map(|row| &row.pod.meta);
    [meta].into_iter().chain(parts).chain(telling).map(|meta| meta.uid.to_string()).collect()
}

fn said(reason: Option<&str>, message: Option<&str>) -> String {
    [message, reason].into_iter().flatten().find(|text| !text.is_empty()).unwrap_or_default().to_owned()
}

fn time(time: Option<&Time>) -> Option<Timestamp> {
    time.map(|time| time.0)
}

fn headline(id: &Id, card: &Card) -> Markup {
    html! {
        h1 data-title=(format!("{} · berth", called(id, card))) { (shown(&id.name)) }
        p .lead {
            span class=(format!("badge {}", card.rank.class())) { (card.rank.words()) } " "
            (shown(card.message.trim_end_matches("..."))) "."
        }
        @if let Some(why) = card.why() { p .lead { "Why: " (shown(why)) "." } }
    }
}

fn state(card: &Card, (manner, in_vain): (&str, Option<&str>), meta: &Meta, now: Timestamp) -> Markup {
    let replicas = &card.replicas;
    html! {
        p .quiet {
            (replicas.available) " of " (replicas.wanted) " available, " (replicas.updated) " of the newest template"
            @if let Some(terminating) = replicas.terminating { ", " (terminating) " terminating" }
            ". Namespace " (shown(&meta.namespace)) ". " (shown(manner)) ". Made " (ago(meta.created, now)) " ago."
        }
        @if let Some(in_vain) = in_vain { p .note { "Note: " (shown(in_vain)) "." } }
        @if let Some(rollback) = &card.rollback { p .note { (shown(rollback)) } }
    }
}

/// What can be done: each asks first.
fn actions(id: &Id, card: &Card, revisions: &[Revision]) -> Markup {
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

/// What it hangs on besides, what happens next, and what a person can do.
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

fn revisions_part(id: &Id, revisions: &[Revision], newest: Option<i64>, now: Timestamp) -> Markup {
    let current = revisions.iter().find(|revision| Some(revision.number) == newest).or(revisions.first());
    html! {
        h2 #revisions-title { "Revisions" }
        @if revisions.is_empty() { p { "None yet." } }
        @else {
            div .scroll role="region" tabindex="0" aria-labelledby="revisions-title" {
                table {
                    thead { tr {
                        th .number scope="col" { "Revision" } th .number scope="col" { "Pods" } th scope="col" { "Images" }
                        th scope="col" { "Age" } th scope="col" { "Against the newest" }
                    } }
                    tbody { @for revision in revisions.iter().take(REVISIONS_MAX) { (revision_line(id, revision, current, now)) } }
                }
            }
        }
    }
}

fn revision_line(id: &Id, revision: &Revision, newest: Option<&Revision>, now: Timestamp) -> Markup {
    let is_newest = newest.is_some_and(|newest| newest.number == revision.number);
    let lines = match (&revision.template, newest.and_then(|newest| newest.template.as_ref())) {
        (Some(own), Some(newest)) if !is_newest => {
            let value = |template: &PodTemplateSpec| serde_json::to_value(template).unwrap_or_default();
            difference::lines(&value(own), &value(newest))
        }
        _ => Vec::new(),
    };
    html! {
        tr {
            td .number { (revision.number) }
            td .number { (revision.pods) }
            td .text {
                (shown(&revision.template.as_ref().map(|template| images(template)).unwrap_or_default().join(", ")))
                @if let Some(cause) = &revision.cause { br; span .quiet { (shown(cause)) } }
            }
            td { (ago(revision.created, now)) }
            td .text {
                @if is_newest { "the newest" }
                @else if lines.is_empty() { "–" }
                @else {
                    details id=(format!("revision-{}", revision.number)) {
                        summary { (counted(lines.len(), "difference", "differences")) }
                        pre tabindex="0" { @for line in lines.iter().take(LINES_MAX) { (line) "\n" } }
                        span .quiet { (shown(&revision.keeper)) }
                        p { a href=(format!("{}?to={}", question::address(id, Verb::Undo), revision.number)) { "Go back to revision " (revision.number) "…" } }
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

fn events(world: &World, about: &[String], now: Timestamp) -> Markup {
    let mut notes: Vec<Arc<NoteView>> = {
        let known = world.notes.read();
        about.iter().flat_map(|uid| known.index().about(uid)).cloned().collect()
    };
    notes.sort_by_key(|note| std::cmp::Reverse(note.event.last));
    let count = notes.len();
    html! {
        h2 #events-title { "Events" }
        @if notes.is_empty() { p { "None." } }
        @else {
            div .scroll role="region" tabindex="0" aria-labelledby="events-title" {
                table {
                    thead { tr {
                        th scope="col" { "Ago" } th scope="col" { "Kind" } th scope="col" { "About" } th scope="col" { "What" }
                        th .number scope="col" { "Times" }
                    } }
                    tbody {
                        @for note in notes.iter().take(EVENTS_MAX) {
                            tr {
                                td { (ago(note.event.last, now)) }
                                td { @if note.is_warning { span .stuck { "warning" } } @else { "normal" } }
                                td .name { (shown(&note.about)) }
                                td .text { (shown(&note.event.reason)) ": " (shown(&note.event.message)) }
                                td .number { (note.count) }
                            }
                        }
                    }
                }
            }
            @if EVENTS_MAX < count { p .quiet { "and " (count - EVENTS_MAX) " older ones" } }
        }
    }
}
