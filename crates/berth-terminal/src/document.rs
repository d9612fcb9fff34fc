//! The part of the screen between heading and foot: the list, or one workload from its chart to its revisions.

use crate::{
    shown::{Sheet, What},
    state::WatchState,
    table::{Cell, Column, lines, wrapped},
};
use berth_chart::{Ink, Line, Span};
use berth_follow::{
    board::{Card, Rank},
    text::counted,
};
use berth_workloads::workload::WorkloadId;
use std::sync::Arc;

/// The minimum width of a legible chart.
const PICTURE_FROM: usize = 40;

const POD: [Column; 7] = [
    Column { title: "Pod", most: 34, from: 0 },
    Column { title: "State", most: 14, from: 0 },
    Column { title: "Revision", most: 8, from: 60 },
    Column { title: "Node", most: 24, from: 100 },
    Column { title: "Age", most: 6, from: 60 },
    Column { title: "Restarts", most: 8, from: 80 },
    Column { title: "Waits for", most: 400, from: 40 },
];
const EVENT: [Column; 4] = [
    Column { title: "Ago", most: 6, from: 0 },
    Column { title: "Kind", most: 8, from: 60 },
    Column { title: "About", most: 34, from: 80 },
    Column { title: "What", most: 400, from: 0 },
];
const REVISION: [Column; 4] = [
    Column { title: "Revision", most: 8, from: 0 },
    Column { title: "Pods", most: 6, from: 0 },
    Column { title: "Age", most: 6, from: 0 },
    Column { title: "Images", most: 400, from: 0 },
];
const WORKLOAD: [Column; 5] = [
    Column { title: "Workload", most: 36, from: 0 },
    Column { title: "State", most: 9, from: 0 },
    Column { title: "Available", most: 14, from: 40 },
    Column { title: "Kind and namespace", most: 40, from: 90 },
    Column { title: "Why", most: 400, from: 60 },
];

/// Lines, and the indexes at which parts begin.
#[derive(Debug, Default)]
pub(crate) struct Document {
    pub(crate) lines: Vec<Line>,
    pub(crate) parts: Vec<usize>,
}

impl Document {
    fn part(&mut self, title: &str) {
        if !self.lines.is_empty() {
            self.lines.push(Line::new());
        }
        self.parts.push(self.lines.len());
        if !title.is_empty() {
            self.text(title, Ink::Strong);
        }
    }

    fn text(&mut self, text: &str, ink: Ink) {
        self.lines.push(vec![Span { text: text.to_owned(), ink }]);
    }

    fn wrapped(&mut self, text: &str, room: usize, ink: Ink) {
        wrapped(text, room).iter().for_each(|line| self.text(line, ink));
    }
}

/// Lays out a state in this many columns.
pub(crate) fn document(state: &WatchState, room: usize) -> Document {
    match state.shown().map(|shown| &shown.what) {
        Some(What::Workload(sheet)) => of_sheet(sheet, room),
        Some(What::List(all)) => Document { lines: of_list(all, state.chosen(), room), parts: vec![0] },
        Some(What::Missing) | None => Document::default(),
    }
}

fn of_sheet(sheet: &Sheet, room: usize) -> Document {
    let mut document = Document::default();
    let card = &sheet.card;
    if PICTURE_FROM <= room {
        document.parts.push(0);
        // The first line is the title, which the heading already shows.
        document.lines = berth_chart::lines(std::slice::from_ref(&sheet.chart), room).split_off(1);
    }
    let counts: Vec<String> = sheet.counts.iter().map(|(count, words)| counted(*count, words, words)).collect();
    document.part("Pods");
    document.wrapped(&[counted(sheet.pods_count, "pod", "pods"), counts.join(", ")].join(": "), room, Ink::Plain);
    let pods: Vec<Vec<Cell>> = sheet
        .pods
        .iter()
        .map(|pod| {
            let ink = if pod.is_in_trouble { Ink::Alarm } else { Ink::Plain };
            let plain = |text: &String| (text.clone(), Ink::Plain);
            let mut cells = vec![plain(&pod.name), (pod.state.to_owned(), ink)];
            cells.extend([&pod.revision, &pod.node, &pod.age, &pod.restarts, &pod.waits_for].map(plain));
            cells
        })
        .collect();
    if !pods.is_empty() {
        document.lines.extend(lines(&POD, &pods, room, true));
    }
    if sheet.pods.len() < sheet.pods_count {
        document.text(&format!("and {}", counted(sheet.pods_count - sheet.pods.len(), "more", "more")), Ink::Faint);
    }
    trouble(&mut document, card, room);
    if !sheet.events.is_empty() {
        document.part("Events");
        let event = |event: &crate::shown::EventLine| {
            let (kind, ink) = if event.is_warning { ("warning", Ink::Alarm) } else { ("normal", Ink::Plain) };
            vec![
                (event.age.clone(), Ink::Plain),
                (kind.to_owned(), ink),
                (event.about.clone(), Ink::Plain),
                (event.text.clone(), Ink::Plain),
            ]
        };
        document.lines.extend(lines(&EVENT, &sheet.events.iter().map(event).collect::<Vec<_>>(), room, true));
    }
    if !sheet.revisions.is_empty() {
        document.part("Revisions");
        let revision =
            |of: &crate::shown::RevisionLine| [&of.number, &of.pods, &of.age, &of.images].map(|text| (text.clone(), Ink::Plain)).to_vec();
        document.lines.extend(lines(&REVISION, &sheet.revisions.iter().map(revision).collect::<Vec<_>>(), room, true));
    }
    document
}

/// Lists further causes, the next step, and what the user can do.
fn trouble(document: &mut Document, card: &Card, room: usize) {
    if card.rank == Rank::Complete {
        return;
    }
    if let Some(next) = card.next {
        document.part("What happens next");
        document.wrapped(&format!("{next}."), room, Ink::Plain);
    }
    let rest = card.obstacles.get(1..).unwrap_or_default();
    if !rest.is_empty() {
        document.part("Also");
        rest.iter().for_each(|text| document.wrapped(text, room, Ink::Plain));
    }
    if !card.to_do.is_empty() {
        document.part("What you can do");
        for to_do in &card.to_do {
            document.wrapped(to_do.text, room, Ink::Plain);
            document.wrapped(&to_do.command, room, Ink::Faint);
        }
    }
}

fn of_list(all: &[(WorkloadId, Arc<Card>)], chosen: Option<&WorkloadId>, room: usize) -> Vec<Line> {
    let row = |(id, card): &(WorkloadId, Arc<Card>)| {
        let is_chosen = chosen == Some(id);
        let own = if is_chosen { Ink::Strong } else { Ink::Plain };
        let why = card.why().unwrap_or(if card.rank == Rank::Complete { "" } else { card.what() });
        let why = if why.is_empty() { card.images.join(", ") } else { why.to_owned() };
        vec![
            (format!("{} {}", if is_chosen { '›' } else { ' ' }, id.name), own),
            (card.rank.words().to_owned(), ink(card.rank)),
            (format!("{} of {}", card.replicas.available, card.replicas.wanted), own),
            (format!("{} in {}", id.kind.name(), id.namespace), own),
            (why, if card.rank == Rank::Complete { Ink::Faint } else { own }),
        ]
    };
    lines(&WORKLOAD, &all.iter().map(row).collect::<Vec<_>>(), room, false)
}

pub(crate) fn ink(rank: Rank) -> Ink {
    match rank {
        Rank::Failed | Rank::Stuck => Ink::Alarm,
        Rank::RolledBack | Rank::Held => Ink::Strong,
        Rank::UnderWay => Ink::Plain,
        Rank::Complete => Ink::Faint,
    }
}
