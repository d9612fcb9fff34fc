//! Charts in the cells of a terminal. They are legible without color: each state has its own letter, and the newest
//! revision has other letters than older ones.

use crate::{
    Chart, MarkKind,
    prepared::{Frame, Lane, Prepared, Stack},
    scale::{count_ticks, moment_text, place, time_text, time_ticks},
    text::{one_line, width},
};
use berth_workloads::pod_state::PodState;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    time::Duration,
};

/// The minimum width that a chart needs.
const COLUMNS_MIN: usize = 40;
/// The maximum width. More columns show no more detail.
const COLUMNS_MAX: usize = 400;
/// The maximum height of the bands, in rows.
const ROWS_MAX: u64 = 12;
/// The maximum height below lanes, which show more detail.
const ROWS_BELOW_LANES_MAX: u64 = 6;
/// The minimum room for row names: `terminating`.
const LEFT: usize = 11;
/// The maximum room for pod names.
const NAME_MAX: usize = 28;
/// Names of lines.
const BOUND: &str = "bound ";
const WANTED: &str = "wanted ";
/// Eighths of a cell.
const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A line of a terminal.
pub type Line = Vec<Span>;

/// A piece of a line with one ink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Safe to print: it has no control characters.
    pub text: String,
    /// How it is drawn.
    pub ink: Ink,
}

/// The color and weight of a text, on terminals with color.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    /// Ordinary text.
    Plain,
    /// Important text.
    Strong,
    /// Supporting text.
    Faint,
    /// The bound, or a failure.
    Alarm,
    /// The color of a revision. 0 is the newest.
    Pods {
        /// The index of one of six colors.
        hue: usize,
        /// Paler: part of the forecast.
        is_planned: bool,
    },
}

/// Draws the charts, one below the other over the same axes, in this many columns.
#[must_use]
pub fn lines(charts: &[Chart], columns: usize) -> Vec<Line> {
    let frame = Frame::of(charts);
    let columns = columns.clamp(COLUMNS_MIN, COLUMNS_MAX);
    let prepared: Vec<Prepared> = charts.iter().map(|chart| Prepared::new(chart, frame, columns as u64)).collect();
    let names = prepared.iter().flat_map(|prepared| &prepared.lanes).map(|lane| width(&one_line(&lane.name, NAME_MAX)));
    let numbers = prepared.iter().flat_map(|prepared| [(BOUND, prepared.bound.last()), (WANTED, prepared.wanted.last())]);
    let numbers = numbers.filter_map(|(name, level)| Some(format!("{name}{}", level?.1).len()));
    let left = names.chain(numbers).max().unwrap_or(0).min(columns / 3).max(LEFT);
    let mut drawing = Drawing { lines: Vec::new(), frame, columns, left, plot: columns - left - 2 };
    for (chart, prepared) in charts.iter().zip(&prepared) {
        drawing.panel(chart, prepared);
    }
    drawing.lines
}

/// Returns the lines as plain text.
#[must_use]
pub fn plain(lines: &[Line]) -> String {
    drawn(lines, |_| String::new())
}

/// Returns the lines with ECMA-48 colors (from the palette of 256).
#[must_use]
pub fn ansi(lines: &[Line]) -> String {
    drawn(lines, |ink| match ink {
        Ink::Plain => String::new(),
        Ink::Strong => "1".to_owned(),
        Ink::Faint => "2".to_owned(),
        Ink::Alarm => "1;31".to_owned(),
        Ink::Pods { hue, is_planned } => format!("{}38;5;{}", if is_planned { "2;" } else { "" }, terminal_color(hue)),
    })
}

/// Returns the palette index (of 256) for a revision's pods. 0 is the newest. Color-blind readers can distinguish the
/// colors too.
#[must_use]
pub fn terminal_color(hue: usize) -> u8 {
    [33, 214, 36, 175, 166, 117][hue % 6]
}

fn drawn(lines: &[Line], code: impl Fn(Ink) -> String) -> String {
    let mut out = String::new();
    for line in lines {
        for Span { text, ink } in line {
            match code(*ink) {
                code if code.is_empty() => out.push_str(text),
                code => write!(out, "\u{1b}[{code}m{text}\u{1b}[0m").expect("writing to a String does not fail"),
            }
        }
        out.truncate(out.trim_end_matches(' ').len());
        out.push('\n');
    }
    out
}

/// Returns the letter of a state, for the newest revision or for older ones.
fn letter(state: PodState, is_newest: bool) -> char {
    match (state, is_newest) {
        (PodState::Available, true) => '█',
        (PodState::Ready, true) => '▓',
        (PodState::Starting, true) => '▒',
        (PodState::Pending, true) => '░',
        (PodState::Failed, true) => '!',
        (PodState::Terminating, true) => 'X',
        (PodState::Available, false) => 'o',
        (PodState::Ready, false) => '=',
        (PodState::Starting, false) => ':',
        (PodState::Pending, false) => '.',
        (PodState::Failed, false) => '?',
        (PodState::Terminating, false) => 'x',
    }
}

struct Drawing {
    lines: Vec<Line>,
    frame: Frame,
    columns: usize,
    left: usize,
    plot: usize,
}

/// The period that one column shows.
struct Column<'a> {
    is_planned: bool,
    /// The end of the period.
    until: u64,
    /// The stack with the most pods within the period.
    stack: &'a Stack,
    /// The fewest available pods within the period.
    fewest: u64,
    /// The most terminating pods within the period.
    terminating: u64,
}

impl Drawing {
    fn panel(&mut self, chart: &Chart, prepared: &Prepared) {
        if !self.lines.is_empty() {
            self.lines.push(Vec::new());
        }
        self.text(&chart.title, Ink::Strong);
        if !chart.note.is_empty() {
            self.text(&chart.note, Ink::Plain);
        }
        let columns = self.time(prepared);
        for lane in &prepared.lanes {
            self.lane(lane, prepared, &columns);
        }
        if !prepared.lanes.is_empty() {
            self.lines.push(Vec::new());
        }
        self.bands(prepared, &columns, if prepared.lanes.is_empty() { ROWS_MAX } else { ROWS_BELOW_LANES_MAX });
        self.axis();
        self.amounts("available", columns.iter().map(|column| column.fewest));
        if columns.iter().any(|column| 0 < column.terminating) {
            self.amounts("terminating", columns.iter().map(|column| column.terminating));
        }
        self.marks(prepared);
        self.legend(prepared);
    }

    fn text(&mut self, text: &str, ink: Ink) {
        self.lines.push(vec![Span { text: one_line(text, self.columns), ink }]);
    }

    /// Draws a row with a name.
    fn row(&mut self, name: &str, ink: Ink, edge: char, cells: impl IntoIterator<Item = (char, Ink)>) {
        let name = one_line(name, self.left);
        let label = format!("{}{name}", " ".repeat(self.left.saturating_sub(width(&name))));
        let mut line = vec![Span { text: label, ink }, Span { text: format!(" {edge}"), ink: Ink::Faint }];
        for (char, ink) in cells {
            match line.last_mut().filter(|last| last.ink == ink) {
                Some(last) => last.text.push(char),
                None => line.push(Span { text: char.to_string(), ink }),
            }
        }
        self.lines.push(line);
    }

    fn time<'a>(&self, prepared: &'a Prepared) -> Vec<Column<'a>> {
        let all: Vec<(bool, &Stack)> =
            prepared.parts.iter().flat_map(|part| part.stacks.iter().map(move |stack| (part.is_planned, stack))).collect();
        let begins = |column: usize| place(column as u64, self.plot as u64, self.frame.end);
        let mut columns = Vec::new();
        let mut next = 0;
        for column in 0..self.plot {
            let until = begins(column + 1);
            // The stack that applies at the start of the column, and those that begin within it.
            let is_new = all.get(next).is_some_and(|(_, stack)| stack.at <= begins(column));
            let first = if is_new { next } else { next.saturating_sub(1) };
            next += all[next..].iter().take_while(|(_, stack)| stack.at < until || until == self.frame.end).count();
            next = next.max(1);
            let within = &all[first..next];
            let Some((is_planned, stack)) = within.iter().max_by_key(|(_, stack)| stack.sum(|_| true)).copied() else { continue };
            let of = |state: PodState| within.iter().map(move |(_, stack)| stack.sum(|is| is == state));
            let fewest = of(PodState::Available).min().unwrap_or(0);
            columns.push(Column { is_planned, until, stack, fewest, terminating: of(PodState::Terminating).max().unwrap_or(0) });
        }
        columns
    }

    fn lane(&mut self, lane: &Lane, prepared: &Prepared, columns: &[Column<'_>]) {
        let hue = prepared.hue(lane.revision);
        let mut from = 0;
        let cells: Vec<(char, Ink)> = columns
            .iter()
            .map(|column| {
                // The state that covers most of the column.
                let within = |(begins, ends, state): &(u64, u64, PodState)| {
                    let both = (*ends).min(column.until).saturating_sub((*begins).max(from));
                    (0 < both).then_some((both, *state))
                };
                let state = lane.spans.iter().filter_map(within).max_by_key(|(both, _)| *both);
                from = column.until;
                state.map_or((' ', Ink::Plain), |(_, state)| (letter(state, hue == 0), Ink::Pods { hue, is_planned: column.is_planned }))
            })
            .collect();
        self.row(&lane.name, Ink::Plain, '│', cells);
    }

    fn bands(&mut self, prepared: &Prepared, columns: &[Column<'_>], rows_max: u64) {
        let unit = self.frame.top.div_ceil(rows_max).max(1);
        let rows = self.frame.top.div_ceil(unit);
        let ticks: BTreeMap<u64, u64> = count_ticks(self.frame.top, 4).into_iter().map(|tick| (tick / unit, tick)).collect();
        let level = |levels: &[(u64, u64)], until: u64| levels.iter().rev().find(|(at, _)| *at < until).map(|(_, count)| *count / unit);
        // One row more than the bands have, for a line on top of the highest band.
        for row in (0..=rows).rev() {
            let at_end = |levels: &[(u64, u64)]| levels.last().filter(|(_, count)| *count / unit == row).map(|(_, count)| *count);
            let (name, ink) = match (at_end(&prepared.bound), at_end(&prepared.wanted)) {
                (Some(bound), _) => (format!("{BOUND}{bound}"), Ink::Alarm),
                (None, Some(wanted)) => (format!("{WANTED}{wanted}"), Ink::Plain),
                (None, None) => (ticks.get(&row).map(u64::to_string).unwrap_or_default(), Ink::Faint),
            };
            let cell = |column: &Column<'_>| {
                let mut below = 0;
                for (revision, state, count) in column.stack.bands() {
                    below += count;
                    if row * unit + unit / 2 < below {
                        let hue = prepared.hue(revision);
                        return (letter(state, hue == 0), Ink::Pods { hue, is_planned: column.is_planned });
                    }
                }
                match (level(&prepared.bound, column.until), level(&prepared.wanted, column.until)) {
                    (Some(bound), _) if bound == row => ('▁', Ink::Alarm),
                    (_, Some(wanted)) if wanted == row => ('▁', Ink::Plain),
                    _ => (' ', Ink::Plain),
                }
            };
            let cells: Vec<(char, Ink)> = columns.iter().map(cell).collect();
            self.row(&name, ink, '│', cells);
        }
    }

    fn axis(&mut self) {
        let ticks = time_ticks(self.frame.end, (self.plot as u64 / 9).max(2));
        let (end, plot) = (self.frame.end, self.plot as u64);
        let column = |tick: u64| usize::try_from(place(tick, end, plot)).unwrap_or(0);
        let at: BTreeSet<usize> = ticks.iter().map(|tick| column(*tick)).collect();
        let cells: Vec<(char, Ink)> = (0..self.plot).map(|cell| (if at.contains(&cell) { '┬' } else { '─' }, Ink::Faint)).collect();
        self.row("", Ink::Faint, '└', cells);
        let mut text = " ".repeat(self.left + 2);
        for tick in ticks {
            let begins = self.left + 2 + column(tick);
            let name = time_text(Duration::from_millis(tick));
            if width(&text) <= begins && begins + name.len() <= self.columns {
                text.push_str(&" ".repeat(begins - width(&text)));
                text.push_str(&name);
            }
        }
        self.lines.push(vec![Span { text, ink: Ink::Faint }]);
    }

    /// Draws a number over time, in eighths of one row.
    fn amounts(&mut self, name: &str, amounts: impl Iterator<Item = u64>) {
        let top = self.frame.top;
        let eighth = |amount: u64| EIGHTHS[usize::try_from((amount.min(top) * 8).div_ceil(top)).unwrap_or(8)];
        let cells: Vec<(char, Ink)> = amounts.map(|amount| (eighth(amount), Ink::Plain)).collect();
        self.row(name, Ink::Faint, '│', cells);
    }

    fn marks(&mut self, prepared: &Prepared) {
        if prepared.marks.is_empty() {
            return;
        }
        let mut cells = vec![(' ', Ink::Plain); self.plot];
        for (number, (at, mark)) in ('1'..='9').zip(&prepared.marks) {
            let column = usize::try_from(place(*at, self.frame.end, self.plot as u64 - 1)).unwrap_or(0);
            // The first of those that are at one place is enough to find them all.
            if cells[column].0 == ' ' {
                cells[column] = (number, ink(mark.kind));
            }
        }
        self.row("", Ink::Faint, ' ', cells);
        for (number, (at, mark)) in ('1'..='9').zip(&prepared.marks) {
            let time = moment_text(*at);
            self.text(&format!("  {number}  {time:>6}  {}", mark.text), ink(mark.kind));
        }
        if 0 < prepared.more_marks {
            self.text(&format!("     and {} more", prepared.more_marks), Ink::Plain);
        }
    }

    /// Writes the letters in use, one line per revision.
    fn legend(&mut self, prepared: &Prepared) {
        let stacks = || prepared.parts.iter().flat_map(|part| &part.stacks);
        let in_view = prepared.revisions.iter().enumerate().filter(|(revision, _)| prepared.is_in_view(*revision));
        for (revision, name) in in_view.rev() {
            let states = PodState::ALL
                .into_iter()
                .filter(|state| stacks().any(|stack| stack.counts.get(revision).is_some_and(|counts| 0 < counts.of(*state))));
            let hue = prepared.hue(revision);
            let letters: Vec<String> = states.map(|state| format!("{} {}", letter(state, hue == 0), state.name())).collect();
            let ink = Ink::Pods { hue, is_planned: false };
            let name = one_line(name, NAME_MAX);
            let text = format!("  {name}:  {}", letters.join("  "));
            if self.columns < width(&text) {
                self.text(&format!("  {name}:"), ink);
                self.text(&format!("    {}", letters.join("  ")), ink);
            } else {
                self.text(&text, ink);
            }
        }
    }
}

fn ink(kind: MarkKind) -> Ink {
    match kind {
        MarkKind::Change => Ink::Strong,
        MarkKind::Trouble => Ink::Alarm,
        MarkKind::Done => Ink::Plain,
    }
}
