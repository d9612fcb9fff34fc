//! The current state and the recent past of all workloads. Pure: the caller passes in each reading.

use crate::{
    past::{Past, Present},
    text::counted,
};
use berth_chart::MarkKind;
use berth_identity::RolloutRevision;
use berth_rollout::status::{Replicas, RolloutStage};
use berth_workloads::{
    cause::ToDo,
    workload::{WorkloadId, WorkloadKind},
};
use jiff::Timestamp;
use std::{collections::BTreeMap, sync::Arc};

/// How urgently a workload needs attention, most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// The rollout exceeded its progress deadline.
    Failed,
    /// An obstacle blocks the rollout.
    Stuck,
    /// The newest template failed, and the controller rolled back to an earlier one.
    RolledBack,
    /// The rollout waits for a user.
    Held,
    /// The rollout proceeds without a user.
    UnderWay,
    /// The rollout is complete.
    Complete,
}

impl Rank {
    /// All ranks, most urgent first.
    pub const ALL: [Self; 6] = [Self::Failed, Self::Stuck, Self::RolledBack, Self::Held, Self::UnderWay, Self::Complete];

    /// Returns the rank in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Stuck => "stuck",
            Self::RolledBack => "rolled back",
            Self::Held => "held",
            Self::UnderWay => "under way",
            Self::Complete => "complete",
        }
    }

    /// Returns the rank's class for a style sheet.
    #[must_use]
    pub fn class(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Stuck => "stuck",
            Self::RolledBack => "rolled-back",
            Self::Held => "held",
            Self::UnderWay => "under-way",
            Self::Complete => "complete",
        }
    }
}

/// The current state of one workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// How urgently it needs attention.
    pub rank: Rank,
    /// The stage of its rollout.
    pub stage: RolloutStage,
    /// kubectl's status message.
    pub message: String,
    /// The numbers of its pods.
    pub replicas: Replicas,
    /// The obstacles, most important first.
    pub obstacles: Vec<String>,
    /// What the rollout waits for, if there is no obstacle.
    pub on_the_way: Option<String>,
    /// What the controller does next.
    pub next: Option<&'static str>,
    /// What a user can do.
    pub to_do: Vec<ToDo>,
    /// The number of the newest revision.
    pub revision: Option<RolloutRevision>,
    /// The images of its template.
    pub images: Vec<String>,
    /// Whether the workload is paused.
    pub is_paused: bool,
    /// Whether a step waits for a promotion.
    pub waits_at_step: bool,
    /// The message of an automatic rollback.
    pub rollback: Option<String>,
    /// The time at which the card changes without a change of the cluster.
    pub requeue_at: Option<Timestamp>,
}

impl Card {
    /// Returns the status message without its full stop.
    #[must_use]
    pub fn what(&self) -> &str {
        self.message.trim_end_matches(['.'])
    }

    /// Returns why the rollout is incomplete or differs from the request, in the same form. `None` if it is complete or
    /// the reason is unknown.
    #[must_use]
    pub fn why(&self) -> Option<&str> {
        let first = match self.rank {
            Rank::Complete => None,
            Rank::RolledBack => self.rollback.as_ref(),
            Rank::Failed | Rank::Stuck | Rank::Held | Rank::UnderWay => self.obstacles.first().or(self.on_the_way.as_ref()),
        };
        first.map(|text| text.trim_end_matches('.'))
    }

    /// Returns the status message with the wait reason, in one sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self.why() {
            Some(why) => format!("{} – {why}.", self.what()),
            None => format!("{}.", self.what()),
        }
    }

    /// Whether its name, namespace, kind, image or message contains the text.
    #[must_use]
    pub fn matches(&self, id: &WorkloadId, text: &str) -> bool {
        let text = text.trim().to_lowercase();
        let has = |of: &str| of.to_lowercase().contains(&text);
        text.is_empty()
            || [&*id.name, &*id.namespace, id.kind.singular(), self.rank.words()].into_iter().any(has)
            || self.images.iter().chain(&self.obstacles).any(|of| has(of))
    }
}

/// Returns the number of workloads that need attention.
#[must_use]
pub fn in_need<'c>(cards: impl IntoIterator<Item = &'c Card>) -> usize {
    cards.into_iter().filter(|card| card.rank < Rank::UnderWay).count()
}

/// Summarizes what needs attention: `2 workloads need attention`.
#[must_use]
pub fn attention<'c>(cards: impl IntoIterator<Item = &'c Card> + Clone) -> String {
    let under_way = cards.clone().into_iter().filter(|card| card.rank == Rank::UnderWay).count();
    match (in_need(cards), under_way) {
        (0, 0) => "Nothing needs attention".to_owned(),
        (0, _) => counted(under_way, "rollout is under way", "rollouts are under way"),
        (in_need, _) => counted(in_need, "workload needs attention", "workloads need attention"),
    }
}

/// Returns the number of workloads by rank: `3 workloads: 1 stuck, 2 complete`.
#[must_use]
pub fn summary<'c>(cards: impl IntoIterator<Item = &'c Card> + Clone) -> String {
    let count = |rank: Rank| cards.clone().into_iter().filter(|card| card.rank == rank).count();
    let counts: Vec<String> =
        Rank::ALL.into_iter().filter(|rank| 0 < count(*rank)).map(|rank| format!("{} {}", count(rank), rank.words())).collect();
    let all = counted(cards.clone().into_iter().count(), "workload", "workloads");
    if counts.is_empty() { all } else { format!("{all}: {}", counts.join(", ")) }
}

/// One reading of a workload.
pub struct Reading {
    /// Its current state.
    pub card: Card,
    /// Its pods.
    pub present: Present,
}

/// All workloads.
#[derive(Debug, Default)]
pub struct Board {
    entries: BTreeMap<WorkloadId, Entry>,
}

#[derive(Debug)]
struct Entry {
    card: Arc<Card>,
    past: Past,
}

impl Board {
    /// Adds a reading. Returns whether anything is new.
    pub fn put(&mut self, id: WorkloadId, reading: Reading, now: Timestamp) -> bool {
        let Reading { card, present } = reading;
        let Some(entry) = self.entries.get_mut(&id) else {
            let mut past = Past::default();
            past.note(&present, now);
            self.entries.insert(id, Entry { card: Arc::new(card), past });
            return true;
        };
        for (kind, text) in happened(id.kind, &entry.card, &card) {
            entry.past.mark(now, kind, text);
        }
        entry.past.note(&present, now);
        let is_new = *entry.card != card || card.stage != RolloutStage::Complete;
        entry.card = Arc::new(card);
        is_new
    }

    /// Removes a deleted workload. Returns whether the board had it.
    pub fn remove(&mut self, id: &WorkloadId) -> bool {
        self.entries.remove(id).is_some()
    }

    /// Returns the workloads whose card changes by now because of the time alone.
    #[must_use]
    pub fn due(&self, now: Timestamp) -> Vec<WorkloadId> {
        let is_due = |entry: &Entry| entry.card.requeue_at.is_some_and(|at| at <= now);
        self.entries.iter().filter(|(_, entry)| is_due(entry)).map(|(id, _)| id.clone()).collect()
    }

    /// Returns the current state of a workload.
    #[must_use]
    pub fn card(&self, id: &WorkloadId) -> Option<Arc<Card>> {
        self.entries.get(id).map(|entry| Arc::clone(&entry.card))
    }

    /// Returns the recent past of a workload.
    #[must_use]
    pub fn past(&self, id: &WorkloadId) -> Option<&Past> {
        self.entries.get(id).map(|entry| &entry.past)
    }

    /// Returns all workloads, most urgent first.
    #[must_use]
    pub fn by_attention(&self) -> Vec<(&WorkloadId, &Arc<Card>)> {
        let mut all: Vec<_> = self.entries.iter().map(|(id, entry)| (id, &entry.card)).collect();
        all.sort_by_key(|(_, card)| card.rank);
        all
    }
}

/// Returns the events between two readings.
fn happened(kind: WorkloadKind, before: &Card, now: &Card) -> Vec<(MarkKind, String)> {
    let mut marks = Vec::new();
    if let Some(revision) = now.revision.filter(|revision| before.revision != Some(*revision)) {
        marks.push((MarkKind::Change, format!("revision {revision}: {}", now.images.join(", "))));
    }
    if before.replicas.wanted != now.replicas.wanted {
        let (had, has) = (before.replicas.wanted, now.replicas.wanted);
        let text = match kind {
            WorkloadKind::Deployment | WorkloadKind::StatefulSet => format!("scaled from {had} to {has}"),
            WorkloadKind::DaemonSet => format!("nodes: {has} instead of {had}"),
        };
        marks.push((MarkKind::Change, text));
    }
    match (before.is_paused, now.is_paused) {
        (false, true) => marks.push((MarkKind::Change, "paused".to_owned())),
        (true, false) => marks.push((MarkKind::Change, "resumed".to_owned())),
        _ => (),
    }
    if before.rollback != now.rollback {
        marks.extend(now.rollback.iter().map(|text| (MarkKind::Trouble, text.clone())));
    }
    match (before.rank, now.rank) {
        (was, is) if was == is => (),
        (_, Rank::Failed) => marks.push((MarkKind::Trouble, "the progress deadline is over".to_owned())),
        (_, Rank::Stuck) => marks.extend(now.obstacles.first().map(|text| (MarkKind::Trouble, text.clone()))),
        (_, Rank::Complete | Rank::RolledBack) => marks.push((MarkKind::Done, "complete".to_owned())),
        _ => (),
    }
    marks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(rank: Rank, revision: RolloutRevision, wanted: i32) -> Card {
        let stage = if rank == Rank::Complete { RolloutStage::Complete } else { RolloutStage::Waiting };
        Card {
            rank,
            stage,
            message: String::new(),
            replicas: Replicas { wanted, total: 0, updated: 0, available: 0, terminating: None },
            obstacles: vec!["web-1 keeps crashing".to_owned()],
            on_the_way: None,
            next: None,
            to_do: Vec::new(),
            revision: Some(revision),
            images: vec![format!("web:{revision}")],
            is_paused: false,
            waits_at_step: false,
            rollback: None,
            requeue_at: None,
        }
    }

    #[test]
    fn what_happened_is_marked_once() {
        let texts = |before: &Card, now: &Card| {
            happened(WorkloadKind::Deployment, before, now).into_iter().map(|(_, text)| text).collect::<Vec<_>>()
        };
        let (before, now) = (card(Rank::Complete, RolloutRevision(1), 3), card(Rank::UnderWay, RolloutRevision(2), 5));
        assert_eq!(texts(&before, &now), ["revision 2: web:2", "scaled from 3 to 5"]);
        assert_eq!(texts(&now, &now), [""; 0]);
        assert_eq!(texts(&now, &card(Rank::Stuck, RolloutRevision(2), 5)), ["web-1 keeps crashing"]);
        assert_eq!(texts(&now, &card(Rank::Complete, RolloutRevision(2), 5)), ["complete"]);
        assert_eq!(texts(&now, &Card { is_paused: true, ..now.clone() }), ["paused"]);
    }

    #[test]
    fn an_automatic_rollback_needs_attention_and_states_why() {
        let why = "Rolled back to revision 1: 2 pods keep crashing.";
        let back = Card {
            rollback: Some(why.to_owned()),
            message: "successfully rolled out".to_owned(),
            ..card(Rank::RolledBack, RolloutRevision(3), 3)
        };
        assert_eq!(back.sentence(), "successfully rolled out – Rolled back to revision 1: 2 pods keep crashing.");
        assert_eq!(attention([&back, &card(Rank::Complete, RolloutRevision(1), 1)]), "1 workload needs attention");
        assert_eq!(summary([&back, &card(Rank::Complete, RolloutRevision(1), 1)]), "2 workloads: 1 rolled back, 1 complete");
    }

    #[test]
    fn those_that_need_attention_come_first() {
        let mut board = Board::default();
        let at = Timestamp::UNIX_EPOCH;
        for (name, rank) in [
            ("a", Rank::Complete),
            ("b", Rank::UnderWay),
            ("c", Rank::Failed),
            ("d", Rank::Stuck),
            ("e", Rank::Held),
            ("f", Rank::RolledBack),
        ] {
            let reading = Reading { card: card(rank, RolloutRevision(1), 1), present: Present::default() };
            assert!(board.put(WorkloadId::new(WorkloadKind::Deployment, "shop", name), reading, at));
        }
        let names: Vec<_> = board.by_attention().into_iter().map(|(id, _)| id.name.to_string()).collect();
        assert_eq!(names, ["c", "d", "f", "e", "b", "a"]);
        let again = Reading { card: card(Rank::Complete, RolloutRevision(1), 1), present: Present::default() };
        assert!(!board.put(WorkloadId::new(WorkloadKind::Deployment, "shop", "a"), again, at), "nothing is new");
        assert!(
            board.remove(&WorkloadId::new(WorkloadKind::Deployment, "shop", "a"))
                && !board.remove(&WorkloadId::new(WorkloadKind::Deployment, "shop", "a"))
        );
    }
}
