//! Draws a state as a screen: a heading with the state and the wait reason, a part of the document, and the keys.

use crate::{
    document::{document, ink},
    shown::{Location, What},
    state::{Dialog, WatchState, keys},
    table::wrapped,
};
use berth_chart::{Ink, Line, Span, one_line, width};
use berth_follow::{
    act::{Question, Verb},
    board::{Rank, attention, summary},
};
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::{Color, Modifier, Style},
};
use std::ops::Range;

/// The maximum number of lines of a difference.
const LINES_MAX: usize = 500;
/// The minimum width for a question. Below it the user could read neither the question nor its keys.
const ASKED_FROM: usize = 16;

/// Whether the screen has colors. It is as legible without them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colors {
    /// 256 colors.
    On,
    /// No colors, only bold and faint.
    Off,
}

/// Draws the state and fills the whole buffer.
pub fn draw(state: &WatchState, colors: Colors, buffer: &mut Buffer) {
    let area = buffer.area;
    buffer.reset();
    for (row, line) in (area.y..area.bottom()).zip(screen(state, area)) {
        let mut column = area.x;
        for Span { text, ink } in line {
            let room = usize::from(area.right().saturating_sub(column));
            column = buffer.set_stringn(column, row, text, room, style(ink, colors)).0;
        }
    }
}

fn style(ink: Ink, colors: Colors) -> Style {
    let has_colors = colors == Colors::On;
    match ink {
        Ink::Plain => Style::new(),
        Ink::Strong => Style::new().add_modifier(Modifier::BOLD),
        Ink::Faint => Style::new().add_modifier(Modifier::DIM),
        Ink::Alarm if has_colors => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
        Ink::Alarm => Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
        Ink::Pods { hue, is_planned } => {
            let style = if has_colors { Style::new().fg(Color::Indexed(berth_chart::terminal_color(hue))) } else { Style::new() };
            if is_planned { style.add_modifier(Modifier::DIM) } else { style }
        }
    }
}

/// Returns one line per row.
pub(crate) fn screen(state: &WatchState, area: Rect) -> Vec<Line> {
    let (columns, rows) = (usize::from(area.width), usize::from(area.height));
    let mut lines = heading(state, columns, rows);
    let foot = foot(state, columns);
    let room = rows.saturating_sub(lines.len() + 1);
    let body: Vec<Line> = match state.dialog() {
        Some(dialog) => asked(dialog, columns).lines.into_iter().skip(state.dialog_scroll()).take(body_rows(state)).collect(),
        None => document(state, columns).lines.into_iter().skip(state.scroll()).take(room).collect(),
    };
    lines.extend(body);
    let has_foot = 1 < rows;
    lines.resize(if has_foot { rows - 1 } else { rows }, Line::new());
    lines.extend(has_foot.then_some(foot));
    lines
}

/// Returns the number of rows for the document or the dialog.
pub(crate) fn body_rows(state: &WatchState) -> usize {
    let (columns, rows) = state.size();
    if state.dialog().is_some() && columns < ASKED_FROM {
        return 0;
    }
    rows.saturating_sub(heading(state, columns, rows).len() + 1)
}

fn line(text: &str, columns: usize, ink: Ink) -> Line {
    vec![Span { text: one_line(text, columns), ink }]
}

/// Returns the heading. It takes at most half of the screen and keeps its first lines.
fn heading(state: &WatchState, columns: usize, rows: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut sentence = |text: &str, ink: Ink, most: usize| {
        let wrapped = wrapped(text, columns);
        let is_cut = most < wrapped.len();
        let mut shown: Vec<String> = wrapped.into_iter().take(most.max(1)).collect();
        if let Some(last) = shown.last_mut().filter(|_| is_cut) {
            *last = one_line(&format!("{last} …"), columns.max(1));
        }
        lines.extend(shown.into_iter().map(|text| vec![Span { text, ink }]));
    };
    let shown = state.shown();
    match (state.place(), shown.map(|shown| &shown.what)) {
        (Location::Workload(id), Some(What::Workload(sheet))) => {
            let card = &sheet.card;
            let replicas = &card.replicas;
            sentence(&format!("{} in {} – {}", id.title(), id.namespace, card.rank.words()), Ink::Strong, 1);
            sentence(&card.sentence(), ink(card.rank), (rows / 4).clamp(1, 4));
            let terminating = replicas.terminating.map(|pods| format!(", {pods} terminating")).unwrap_or_default();
            let (available, wanted, updated) = (replicas.available, replicas.wanted, replicas.updated);
            let counts = format!("{available} of {wanted} available, {updated} of the newest template{terminating}. {}.", sheet.manner);
            if 8 <= rows {
                sentence(&counts, Ink::Faint, 1);
            }
            if let Some(ineffective_setting) = &sheet.ineffective_setting {
                sentence(&format!("Note: {ineffective_setting}."), Ink::Strong, 2);
            }
            if let Some(rollback) = card.rollback.as_ref().filter(|_| card.rank != Rank::RolledBack) {
                sentence(rollback, Ink::Strong, 2);
            }
        }
        (Location::Workload(id), what) => {
            sentence(&format!("{} in {}", id.title(), id.namespace), Ink::Strong, 1);
            match what {
                Some(What::Missing) if shown.is_some_and(|shown| shown.is_filled) => sentence("There is no such workload.", Ink::Alarm, 1),
                _ => sentence("Reading the cluster…", Ink::Faint, 1),
            }
        }
        (Location::List, Some(What::List(all))) => {
            let cards = all.iter().map(|(_, card)| &**card);
            let is_filled = shown.is_some_and(|shown| shown.is_filled);
            if !is_filled {
                sentence("Reading the cluster…", Ink::Faint, 1);
            } else if all.is_empty() {
                let is_all = state.search().0.is_empty();
                let text = if is_all { "There are no Deployments, StatefulSets or DaemonSets." } else { "No workload matches." };
                sentence(text, Ink::Strong, 1);
            } else {
                sentence(&format!("{} – {}", attention(cards.clone()), summary(cards)), Ink::Strong, 2);
                if let Some((id, card)) = all.first().filter(|(_, card)| card.why().is_some() && 10 <= rows) {
                    sentence(&format!("{}: {}", id.name, card.sentence()), ink(card.rank), 2);
                }
            }
            if 8 <= rows {
                sentence(state.title(), Ink::Faint, 1);
            }
        }
        (Location::List, _) => sentence("Reading the cluster…", Ink::Faint, 1),
    }
    if let Some(lost) = shown.and_then(|shown| shown.lost.as_ref()) {
        let text = format!("No connection: this is the last known state. Reconnecting. ({lost})");
        sentence(&text, Ink::Alarm, 2);
    }
    if let Some(first) = shown.and_then(|shown| shown.unreadable.first()) {
        sentence(&format!("You may not read all of the cluster, so this is incomplete: {first}"), Ink::Strong, 2);
    }
    // A dialog needs the room more.
    let is_asked = state.dialog().is_some();
    lines.truncate(if is_asked && rows < 16 { 1 } else { (rows / 2).max(1) });
    if 10 <= rows {
        lines.push(Line::new());
    }
    lines
}

/// Returns the last action, the search text, or the keys.
fn foot(state: &WatchState, columns: usize) -> Line {
    let (search, is_searching) = state.search();
    if let Some(dialog) = state.dialog() {
        return line(&dialog_keys(state, dialog), columns, Ink::Faint);
    }
    if is_searching {
        return line(&format!("/{search}▏  Enter keeps it, Esc ends it"), columns, Ink::Strong);
    }
    if let Some(last_result) = state.last_result() {
        return line(last_result, columns, Ink::Strong);
    }
    let mut keys_shown: Vec<String> = Vec::new();
    let leave = if state.is_first() { "q leave" } else { "Esc back" };
    keys_shown.extend(["? help", leave].map(str::to_owned));
    if let Some((id, card)) = state.subject() {
        keys_shown.extend(keys(id.kind, &card).into_iter().map(|(key, verb)| format!("{key} {}", verb.label().to_lowercase())));
    }
    match state.place() {
        Location::List if search.is_empty() => keys_shown.extend(["Enter open", "/ search"].map(str::to_owned)),
        Location::List => keys_shown.extend(["Enter open".to_owned(), format!("/{search} (Esc: all)")]),
        Location::Workload(_) => keys_shown.extend(["↑↓ scroll", "Tab next part", "w all workloads"].map(str::to_owned)),
    }
    line(&keys_shown.join("  "), columns, Ink::Faint)
}

fn dialog_keys(state: &WatchState, dialog: &Dialog) -> String {
    let left = state.left_to_read();
    match dialog {
        _ if state.is_too_small() => "Too small: make the window larger, or Esc".to_owned(),
        Dialog::Help | Dialog::Refused(..) if 0 < left => format!("↓ {left} more  Esc back"),
        Dialog::Help | Dialog::Refused(..) => "any key: back".to_owned(),
        Dialog::Waiting(_) => "Esc back".to_owned(),
        Dialog::Replicas { .. } => "Enter: preview  Esc: cancel".to_owned(),
        Dialog::Image { .. } => "↑↓ container  Enter: preview  Ctrl-U clear  Esc: cancel".to_owned(),
        // The user cannot confirm a question before its last line was on the screen.
        Dialog::Question(..) if 0 < left => format!("↓ {left} more  n: cancel"),
        Dialog::Question(ask, _) => format!("y: {}  n: cancel", ask.verb.label()),
    }
}

/// A dialog that replaces the document until the user answers it.
pub(crate) struct Asked {
    pub(crate) lines: Vec<Line>,
    /// The lines with the input field.
    pub(crate) typed: Option<Range<usize>>,
}

pub(crate) fn asked(dialog: &Dialog, columns: usize) -> Asked {
    let mut lines = Vec::new();
    let mut say = |text: &str, ink: Ink| {
        lines.extend(wrapped(text, columns).into_iter().map(|text| vec![Span { text, ink }]));
        lines.len()
    };
    let mut typed_in = None;
    match dialog {
        Dialog::Help => lines = help(columns),
        Dialog::Waiting(ask) => {
            say(&format!("{} {} in {}…", ask.verb.label(), ask.id.title(), ask.id.namespace), Ink::Strong);
        }
        Dialog::Replicas { ask, now, typed } => {
            let from = say(&format!("{} {} in {}", ask.verb.label(), ask.id.title(), ask.id.namespace), Ink::Strong);
            typed_in = Some(from..say(&format!("How many pods, now {now}: {typed}▏"), Ink::Plain));
        }
        Dialog::Image { ask, containers, chosen, typed } => {
            let mut from = say(&format!("{} {} in {}", ask.verb.label(), ask.id.title(), ask.id.namespace), Ink::Strong);
            for (place, (name, image)) in containers.iter().enumerate() {
                if place == *chosen {
                    say(&format!("› {name} ({image})"), Ink::Strong);
                    typed_in = Some(from..say(&format!("Image: {typed}▏"), Ink::Plain));
                } else {
                    from = say(&format!("· {name} ({image})"), Ink::Plain);
                }
            }
        }
        Dialog::Question(ask, question) => {
            say(&format!("{} {} in {}?", ask.verb.label(), ask.id.title(), ask.id.namespace), Ink::Strong);
            let Question { sentences, lines: changes, .. } = question;
            for sentence in sentences {
                say(sentence, Ink::Plain);
            }
            if !changes.is_empty() {
                say("In the template:", Ink::Plain);
                for change in changes.iter().take(LINES_MAX) {
                    say(change, Ink::Strong);
                }
            }
            if LINES_MAX < changes.len() {
                say(&format!("and {} lines more", changes.len() - LINES_MAX), Ink::Faint);
            }
        }
        Dialog::Refused(refusal) => {
            say(&format!("Nothing was done: {refusal}."), Ink::Alarm);
        }
    }
    Asked { lines, typed: typed_in }
}

fn help(columns: usize) -> Vec<Line> {
    let verbs = [Verb::Undo, Verb::Pause, Verb::Restart, Verb::Scale, Verb::SetImage, Verb::Promote];
    let what = |verb: Verb| match verb {
        Verb::Undo => "rolls back to the previous revision",
        Verb::Pause | Verb::Resume => "pauses, or resumes, a Deployment",
        Verb::Restart => "replaces every pod",
        Verb::Scale => "changes the number of pods",
        Verb::SetImage => "changes the image",
        Verb::Promote => "ends the wait of a step",
    };
    let key = |verb: Verb| crate::state::VERBS.iter().find(|(_, of)| *of == verb).map_or(' ', |(key, _)| *key);
    let keys = [
        ("↑ ↓", "chooses a workload; scrolls"),
        ("PgUp PgDn", "a screen up or down; Home and End to the ends"),
        ("Enter", "opens the chosen workload"),
        ("/", "searches by name, namespace, kind, image and state"),
        ("Tab", "goes to the next part: picture, pods, events, revisions"),
        ("w", "all workloads"),
        ("Esc", "goes back, or leaves the first screen"),
        ("q Ctrl-C", "leaves"),
        ("Ctrl-Z", "suspends to the shell until fg"),
    ];
    let acts = verbs.into_iter().map(|verb| (key(verb).to_string(), what(verb)));
    let keys = keys.into_iter().map(|(keys, what)| (keys.to_owned(), what));
    let said = |text: &str, ink: Ink| wrapped(text, columns).into_iter().map(|text| vec![Span { text, ink }]).collect::<Vec<_>>();
    let row = |(keys, what): (String, &str)| {
        let text = format!("  {keys:<10} {what}");
        if width(&text) <= columns { vec![line(&text, columns, Ink::Plain)] } else { said(&format!("{keys}: {what}"), Ink::Plain) }
    };
    let keys = said("Keys", Ink::Strong).into_iter().chain(keys.flat_map(row));
    let acts = said("Actions, each with confirmation", Ink::Strong).into_iter().chain(acts.flat_map(row));
    keys.chain(acts).collect()
}
