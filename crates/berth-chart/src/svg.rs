//! Charts as SVG, one below the other over the same axes. The SVG has no script and no external references. Its colors
//! follow the reader's theme.

use crate::{
    Chart, MarkKind,
    prepared::{Frame, Lane, MARKS_MAX, Part, Prepared, Stack},
    scale::{count_ticks, moment_text, place, time_text, time_ticks},
    text::{escaped, one_line, width},
};
use berth_workloads::pod_state::PodState;
use std::{
    collections::BTreeSet,
    fmt::{self, Display, Formatter, Write},
    time::Duration,
};

/// Lengths are in tenths of a pixel.
const PX: u64 = 10;
const WIDTH: u64 = 960 * PX;
/// Room for the labels of the vertical axis, or the names of pods.
const LEFT: u64 = 64 * PX;
const LEFT_OF_LANES: u64 = 196 * PX;
/// Room for the names of lines.
const RIGHT: u64 = 96 * PX;
const LANE: u64 = 16 * PX;
/// The height of the bands. They are lower below lanes, which show more detail.
const BANDS: u64 = 150 * PX;
const BANDS_BELOW_LANES: u64 = 96 * PX;
/// The height of a line of text.
const LINE: u64 = 17 * PX;
/// A generous width for one column of text, because fonts differ.
const COLUMN: u64 = 7 * PX;
/// The width of a column, within which samples are merged.
const THINNED: u64 = 2 * PX;
const TEXT_COLUMNS: usize = 128;
const NAME_COLUMNS: usize = 26;
/// The length limit of the text for screen readers.
const LABEL_COLUMNS: usize = 600;
/// The color for items that belong to no revision.
const NEUTRAL: usize = 9;

/// Colors that color-blind readers can distinguish (by Okabe and Ito, lighter in the dark theme). The newest revision
/// has the first.
pub const STYLE: &str = "\
.bc text{font:12px system-ui,'DejaVu Sans',sans-serif;fill:#1f2328}
.bc .bg{fill:#fff}.bc .t{font-size:15px;font-weight:600}.bc .n{fill:#59636e}.bc .r{text-anchor:end}.bc .c{text-anchor:middle}
.bc .g{stroke:#d8dee4;fill:none}.bc .a{stroke:#59636e;fill:none}
.bc .k{stroke:#1f2328;stroke-width:1.5;fill:none}.bc .h{stroke:#fff;stroke-width:4;stroke-opacity:.7;fill:none}
.bc .w{stroke-dasharray:7 4}.bc .e{stroke-dasharray:2 2.5}.bc .b{stroke:#b3261e;stroke-width:2.5;fill:none}
.bc .m{stroke:#59636e;stroke-dasharray:2 3;fill:none}.bc .f{fill:#1f2328}.bc .o{fill:#fff;stroke:#1f2328}.bc .x{fill:#b3261e}.bc .i{fill:#fff;font-size:11px;text-anchor:middle}
.bc .j{font-size:11px;text-anchor:middle}.bc .p{opacity:.45}
.bc .c0{color:#0072b2}.bc .c1{color:#e69f00}.bc .c2{color:#009e73}.bc .c3{color:#cc79a7}.bc .c4{color:#d55e00}.bc .c5{color:#56b4e9}.bc .c9{color:#59636e}.bc .cx{color:#b3261e}
@media(prefers-color-scheme:dark){
.bc text{fill:#e6edf3}.bc .bg{fill:#0d1117}.bc .n{fill:#9aa4af}.bc .g{stroke:#2b323b}.bc .a{stroke:#9aa4af}
.bc .k{stroke:#e6edf3}.bc .h{stroke:#0d1117}.bc .b{stroke:#ff7b72}.bc .m{stroke:#9aa4af}.bc .f{fill:#e6edf3}.bc .o{fill:#0d1117;stroke:#e6edf3}.bc .x{fill:#ff7b72}.bc .i{fill:#0d1117}
.bc .c0{color:#4fa3e0}.bc .c1{color:#f0b23c}.bc .c2{color:#2bc49a}.bc .c3{color:#dd92bb}.bc .c4{color:#ff8b4a}.bc .c5{color:#9ad4f7}.bc .c9{color:#9aa4af}.bc .cx{color:#ff7b72}
}
";

/// Returns the charts as one document.
///
/// The document may be a file or part of an HTML page, where its style is one element, as [`html()`](crate::html())
/// permits it.
#[must_use]
pub fn svg(charts: &[Chart]) -> String {
    drawn(charts, &format!("<style>{STYLE}</style>\n"))
}

/// Returns [`svg()`] without its style, for a page whose style sheet contains [`STYLE`] and whose policy permits no
/// other. The ids are the same in each fragment.
#[must_use]
pub fn fragment(charts: &[Chart]) -> String {
    drawn(charts, "")
}

fn drawn(charts: &[Chart], style: &str) -> String {
    let frame = Frame::of(charts);
    let charts: Vec<(&Chart, Prepared)> = charts.iter().map(|chart| (chart, Prepared::new(chart, frame, plot(LEFT) / THINNED))).collect();
    let left = if charts.iter().any(|(_, prepared)| !prepared.lanes.is_empty()) { LEFT_OF_LANES } else { LEFT };
    let mut drawing = Drawing { out: String::new(), y: 8 * PX, left, frame, used: BTreeSet::new() };
    for (chart, prepared) in &charts {
        drawing.panel(chart, prepared).expect(WRITES);
    }
    drawing.legend(&charts).expect(WRITES);
    let label: Vec<String> = charts.iter().map(|(chart, _)| format!("{}: {}", chart.title, chart.note)).collect();
    drawing.document(&label.join(". "), style).expect(WRITES)
}

const WRITES: &str = "writing to a String does not fail";

fn plot(left: u64) -> u64 {
    WIDTH - left - RIGHT
}

/// A length in SVG notation.
struct Px(u64);

impl Display for Px {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 % PX {
            0 => write!(f, "{}", self.0 / PX),
            tenth => write!(f, "{}.{tenth}", self.0 / PX),
        }
    }
}

/// Truncates and escapes an untrusted text.
fn safe(text: &str, columns: usize) -> String {
    escaped(&one_line(text, columns))
}

struct Drawing {
    out: String,
    /// The top of the next element.
    y: u64,
    left: u64,
    frame: Frame,
    /// The patterns in use: color and state.
    used: BTreeSet<(usize, PodState)>,
}

/// The area of the vertical axis.
#[derive(Clone, Copy)]
struct Ground {
    bottom: u64,
    height: u64,
    top: u64,
}

impl Ground {
    fn y(self, count: u64) -> u64 {
        self.bottom - place(count, self.top, self.height)
    }
}

impl Drawing {
    fn x(&self, at: u64) -> u64 {
        self.left + place(at, self.frame.end, plot(self.left))
    }

    fn text(&mut self, class: &str, x: u64, y: u64, text: &str) -> fmt::Result {
        writeln!(self.out, r#"<text class="{class}" x="{}" y="{}">{text}</text>"#, Px(x), Px(y))
    }

    fn panel(&mut self, chart: &Chart, prepared: &Prepared) -> fmt::Result {
        self.y += 18 * PX;
        self.text("t", 12 * PX, self.y, &safe(&chart.title, TEXT_COLUMNS - 16))?;
        if !chart.note.is_empty() {
            self.y += LINE;
            self.text("n", 12 * PX, self.y, &safe(&chart.note, TEXT_COLUMNS))?;
        }
        self.y += 10 * PX;
        let flags = self.y;
        self.y += if prepared.marks.is_empty() && prepared.parts.len() < 2 { 0 } else { 20 * PX };
        let lanes = self.y;
        self.y += LANE * prepared.lanes.len() as u64 + if prepared.lanes.is_empty() { 0 } else { 14 * PX };
        let height = if prepared.lanes.is_empty() { BANDS } else { BANDS_BELOW_LANES };
        let ground = Ground { bottom: self.y + height, height, top: self.frame.top };
        self.y = ground.bottom;
        self.grid(lanes, ground)?;
        for (index, lane) in prepared.lanes.iter().enumerate() {
            self.lane_name(lane, prepared, lanes + LANE * index as u64)?;
        }
        for part in &prepared.parts {
            let class = if part.is_planned { r#" class="p""# } else { "" };
            writeln!(self.out, "<g{class}>")?;
            for (index, lane) in prepared.lanes.iter().enumerate() {
                self.lane(lane, prepared, part, lanes + LANE * index as u64)?;
            }
            self.bands(prepared, part, ground)?;
            self.lines(prepared, part, ground)?;
            self.out.push_str("</g>\n");
        }
        self.line_names(prepared, ground)?;
        if let [past, planned] = &prepared.parts[..] {
            let x = self.x(planned.from);
            writeln!(self.out, r#"<path class="a" d="M{} {}V{}"/>"#, Px(x), Px(flags), Px(ground.bottom))?;
            let (class, x) = if past.until * 2 < self.frame.end { ("n", x + 4 * PX) } else { ("n r", x - 4 * PX) };
            self.text(class, x, flags + 11 * PX, "now")?;
        }
        self.y += 18 * PX;
        self.marks(prepared, flags, ground.bottom)?;
        self.y += 14 * PX;
        Ok(())
    }

    fn grid(&mut self, top: u64, ground: Ground) -> fmt::Result {
        for tick in time_ticks(self.frame.end, 12) {
            let x = self.x(tick);
            writeln!(self.out, r#"<path class="g" d="M{} {}V{}"/>"#, Px(x), Px(top), Px(ground.bottom + 4 * PX))?;
            self.text("n c", x, ground.bottom + 16 * PX, &time_text(Duration::from_millis(tick)))?;
        }
        let most = if ground.height < BANDS { 4 } else { 5 };
        for tick in count_ticks(ground.top, most) {
            let (y, right) = (ground.y(tick), self.left + plot(self.left));
            writeln!(self.out, r#"<path class="{}" d="M{} {}H{}"/>"#, if tick == 0 { "a" } else { "g" }, Px(self.left), Px(y), Px(right))?;
            self.text("n r", self.left - 6 * PX, y + 4 * PX, &tick.to_string())?;
        }
        Ok(())
    }

    fn lane_name(&mut self, lane: &Lane, prepared: &Prepared, y: u64) -> fmt::Result {
        let hue = prepared.hue(lane.revision);
        writeln!(
            self.out,
            r#"<rect class="c{hue}" fill="currentColor" x="{}" y="{}" width="5" height="12"/>"#,
            Px(self.left - 8 * PX),
            Px(y + 2 * PX)
        )?;
        self.text("n r", self.left - 12 * PX, y + 12 * PX, &safe(&lane.name, NAME_COLUMNS))
    }

    fn lane(&mut self, lane: &Lane, prepared: &Prepared, part: &Part, y: u64) -> fmt::Result {
        for (from, until, state) in &lane.spans {
            let (from, until) = (self.x((*from).max(part.from)), self.x((*until).min(part.until)));
            if from < until {
                let size = format!(r#"x="{}" y="{}" width="{}" height="12""#, Px(from), Px(y + 2 * PX), Px(until - from));
                self.filled("rect", &size, prepared.hue(lane.revision), *state)?;
            }
        }
        Ok(())
    }

    /// Writes a shape in a revision's color, with the pattern of a state.
    fn filled(&mut self, shape: &str, what: &str, hue: usize, state: PodState) -> fmt::Result {
        let colour = if state == PodState::Failed { "x".to_owned() } else { hue.to_string() };
        if state == PodState::Available {
            return writeln!(self.out, r#"<{shape} class="c{colour}" fill="currentColor" {what}/>"#);
        }
        self.used.insert((hue, state));
        writeln!(
            self.out,
            r#"<{shape} class="c{colour}" fill="url(#bc{hue}-{})" stroke="currentColor" stroke-width=".7" {what}/>"#,
            state.name()
        )
    }

    fn bands(&mut self, prepared: &Prepared, part: &Part, ground: Ground) -> fmt::Result {
        let stacked: Vec<Vec<(u64, u64)>> = part.stacks.iter().map(edges).collect();
        let Some(first) = part.stacks.first() else { return Ok(()) };
        for (band, (revision, state, _)) in first.bands().enumerate() {
            let edge = |index: usize| stacked[index][band];
            let mut begins = None;
            for index in 0..=stacked.len() {
                let is_there = index < stacked.len() && edge(index).0 < edge(index).1;
                match (begins, is_there) {
                    (None, true) => begins = Some(index),
                    (Some(from), false) => {
                        let path = self.band(part, from..index, &edge, ground)?;
                        self.filled("path", &format!(r#"d="{path}""#), prepared.hue(revision), state)?;
                        begins = None;
                    }
                    (None, false) | (Some(_), true) => (),
                }
            }
        }
        Ok(())
    }

    /// Draws a band along its upper edge, and back along the lower one.
    fn band(
        &self,
        part: &Part,
        of: std::ops::Range<usize>,
        edge: &dyn Fn(usize) -> (u64, u64),
        ground: Ground,
    ) -> Result<String, fmt::Error> {
        let at = |index: usize| part.stacks.get(index).map_or(part.until, |stack| stack.at);
        let mut path = String::new();
        write!(path, "M{} {}", Px(self.x(at(of.start))), Px(ground.y(edge(of.start).1)))?;
        for index in of.start + 1..of.end {
            if edge(index).1 != edge(index - 1).1 {
                write!(path, "H{}V{}", Px(self.x(at(index))), Px(ground.y(edge(index).1)))?;
            }
        }
        write!(path, "H{}V{}", Px(self.x(at(of.end))), Px(ground.y(edge(of.end - 1).0)))?;
        for index in (of.start + 1..of.end).rev() {
            if edge(index).0 != edge(index - 1).0 {
                write!(path, "H{}V{}", Px(self.x(at(index))), Px(ground.y(edge(index - 1).0)))?;
            }
        }
        write!(path, "H{}Z", Px(self.x(at(of.start))))?;
        Ok(path)
    }

    fn lines(&mut self, prepared: &Prepared, part: &Part, ground: Ground) -> fmt::Result {
        let of = |state: PodState| -> Vec<(u64, u64)> { part.stacks.iter().map(|stack| (stack.at, stack.sum(|is| is == state))).collect() };
        let terminating = of(PodState::Terminating);
        if terminating.iter().any(|(_, count)| 0 < *count) {
            self.line("k e", &terminating, part, ground)?;
        }
        self.line("k w", &within(&prepared.wanted, part), part, ground)?;
        self.line("k", &of(PodState::Available), part, ground)?;
        self.line("b", &within(&prepared.bound, part), part, ground)
    }

    fn line(&mut self, class: &str, points: &[(u64, u64)], part: &Part, ground: Ground) -> fmt::Result {
        let Some((first, rest)) = points.split_first() else { return Ok(()) };
        let mut path = String::new();
        write!(path, "M{} {}", Px(self.x(first.0)), Px(ground.y(first.1)))?;
        let mut last = first.1;
        for (at, count) in rest.iter().filter(|(_, count)| std::mem::replace(&mut last, *count) != *count) {
            write!(path, "H{}V{}", Px(self.x(*at)), Px(ground.y(*count)))?;
        }
        write!(path, "H{}", Px(self.x(part.until)))?;
        writeln!(self.out, r#"<path class="h" d="{path}"/><path class="{class}" d="{path}"/>"#)
    }

    /// Writes the names at the ends of lines, so that they do not overlap.
    fn line_names(&mut self, prepared: &Prepared, ground: Ground) -> fmt::Result {
        let x = self.left + plot(self.left) + 6 * PX;
        let mut below = 0;
        for (name, levels) in [("bound", &prepared.bound), ("wanted", &prepared.wanted)] {
            let Some((_, count)) = levels.last() else { continue };
            let y = (ground.y(*count) + 4 * PX).max(below);
            below = y + 13 * PX;
            self.text("n", x, y, &format!("{name} {count}"))?;
        }
        Ok(())
    }

    fn marks(&mut self, prepared: &Prepared, flags: u64, bottom: u64) -> fmt::Result {
        let places: Vec<u64> = prepared.marks.iter().map(|(at, _)| self.x(*at)).collect();
        let mut from = 0;
        while from < places.len() {
            // Overlapping flags are merged.
            let together = places[from..].windows(2).take_while(|pair| pair[1] < pair[0] + 18 * PX).count();
            let (x, until) = (places[from], from + together + 1);
            let number = if together == 0 { (from + 1).to_string() } else { format!("{}–{until}", from + 1) };
            let kinds = || prepared.marks[from..until].iter().map(|(_, mark)| mark.kind);
            let (shape, ink) = if kinds().any(|kind| kind == MarkKind::Trouble) {
                ("x", "i")
            } else if kinds().any(|kind| kind == MarkKind::Change) {
                ("f", "i")
            } else {
                ("o", "j")
            };
            let round = if shape == "x" { 0 } else { 7 };
            let wide = (9 + 7 * number.chars().count() as u64) * PX;
            writeln!(self.out, r#"<path class="m" d="M{} {}V{}"/>"#, Px(x), Px(flags + 15 * PX), Px(bottom))?;
            let begins = x - (wide / 2).min(x);
            writeln!(
                self.out,
                r#"<rect class="{shape}" x="{}" y="{}" width="{}" height="15" rx="{round}"/>"#,
                Px(begins),
                Px(flags),
                Px(wide)
            )?;
            self.text(ink, x, flags + 115, &number)?;
            from = until;
        }
        for (index, (at, mark)) in prepared.marks.iter().enumerate() {
            self.y += LINE;
            let text = format!("{}  {}  {}", index + 1, moment_text(*at), mark.text);
            self.text(if mark.kind == MarkKind::Trouble { "" } else { "n" }, self.left, self.y, &safe(&text, TEXT_COLUMNS - 16))?;
        }
        if 0 < prepared.more_marks {
            self.y += LINE;
            self.text("n", self.left, self.y, &format!("{MARKS_MAX}+  and {} more", prepared.more_marks))?;
        }
        Ok(())
    }

    /// Explains the colors, patterns and lines that the charts use.
    fn legend(&mut self, charts: &[(&Chart, Prepared)]) -> fmt::Result {
        let mut entries: Vec<(Sample, String)> = Vec::new();
        for (_, prepared) in charts {
            let in_view = prepared.revisions.iter().enumerate().filter(|(revision, _)| prepared.is_in_view(*revision));
            for (revision, name) in in_view.rev() {
                let entry = (Sample::Fill(prepared.hue(revision), PodState::Available), safe(name, NAME_COLUMNS));
                if !entries.contains(&entry) {
                    entries.push(entry);
                }
            }
        }
        // A solid fill means available.
        let states: BTreeSet<PodState> = self.used.iter().map(|(_, state)| *state).chain([PodState::Available]).collect();
        entries.extend(states.into_iter().map(|state| (Sample::Fill(NEUTRAL, state), state.name().to_owned())));
        let has = |of: &dyn Fn(&Prepared) -> bool| charts.iter().any(|(_, prepared)| of(prepared));
        let terminates = |prepared: &Prepared| {
            prepared.parts.iter().flat_map(|part| &part.stacks).any(|stack| 0 < stack.sum(|is| is == PodState::Terminating))
        };
        let mut line = |class, name: &str, is_there: bool| entries.extend(is_there.then(|| (Sample::Line(class), name.to_owned())));
        line("b", "bound", has(&|prepared| !prepared.bound.is_empty()));
        line("k w", "wanted", has(&|prepared| !prepared.wanted.is_empty()));
        line("k", "number available", true);
        line("k e", "number terminating", has(&terminates));
        let mut x = 12 * PX;
        self.y += 6 * PX;
        for (sample, name) in entries {
            let wide = 28 * PX + COLUMN * width(&name) as u64 + 10 * PX;
            if WIDTH < x + wide && 12 * PX < x {
                x = 12 * PX;
                self.y += 20 * PX;
            }
            match sample {
                Sample::Fill(hue, state) => {
                    let size = format!(r#"x="{}" y="{}" width="20" height="12""#, Px(x), Px(self.y));
                    self.filled("rect", &size, hue, state)?;
                }
                Sample::Line(class) => writeln!(self.out, r#"<path class="{class}" d="M{} {}h20"/>"#, Px(x), Px(self.y + 6 * PX))?,
            }
            self.text("n", x + 26 * PX, self.y + 10 * PX, &name)?;
            x += wide;
        }
        self.y += 26 * PX;
        Ok(())
    }

    fn document(self, label: &str, style: &str) -> Result<String, fmt::Error> {
        let mut out = String::new();
        let (wide, high) = (Px(WIDTH), Px(self.y));
        let label = safe(label, LABEL_COLUMNS);
        writeln!(
            out,
            r#"<svg xmlns="http://www.w3.org/2000/svg" class="bc" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}" role="img" aria-label="{label}">"#
        )?;
        writeln!(out, "{style}<defs>")?;
        for (hue, state) in &self.used {
            out.push_str(&pattern(*hue, *state));
        }
        writeln!(out, "</defs>\n<rect class=\"bg\" width=\"{wide}\" height=\"{high}\"/>\n{}</svg>", self.out)?;
        Ok(out)
    }
}

/// A line of the legend.
#[derive(PartialEq)]
enum Sample {
    Fill(usize, PodState),
    Line(&'static str),
}

/// Returns the lower and the upper edge of each band.
fn edges(stack: &Stack) -> Vec<(u64, u64)> {
    let mut ground = 0;
    let edge = |(_, _, count): (usize, PodState, u64)| {
        let below = ground;
        ground += count;
        (below, ground)
    };
    stack.bands().map(edge).collect()
}

/// Returns the levels within a part, beginning with the one that applies at its start.
fn within(levels: &[(u64, u64)], part: &Part) -> Vec<(u64, u64)> {
    let first = levels.iter().rev().find(|(at, _)| *at <= part.from).map(|(_, count)| (part.from, *count));
    first.into_iter().chain(levels.iter().copied().filter(|(at, _)| part.from < *at && *at < part.until)).collect()
}

fn pattern(hue: usize, state: PodState) -> String {
    let (paler, ink) = match state {
        PodState::Available => return String::new(),
        PodState::Ready => (".45", r#"<rect width="2" height="6" fill="currentColor"/>"#),
        PodState::Starting => (".2", r#"<path d="M-1 7L7 -1M-1 1L1 -1M5 7L7 5" stroke="currentColor" stroke-width="1.5"/>"#),
        PodState::Pending => (".08", r#"<circle cx="3" cy="3" r="1" fill="currentColor"/>"#),
        PodState::Failed => (".25", r#"<path d="M3 0V6M0 3H6" stroke="currentColor" stroke-width="1.5"/>"#),
        PodState::Terminating => (".1", r#"<path d="M-1 -1L7 7M7 -1L-1 7" stroke="currentColor"/>"#),
    };
    let colour = if state == PodState::Failed { "x".to_owned() } else { hue.to_string() };
    format!(
        "<pattern id=\"bc{hue}-{}\" class=\"c{colour}\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\"><rect width=\"6\" height=\"6\" fill=\"currentColor\" opacity=\"{paler}\"/>{ink}</pattern>\n",
        state.name()
    )
}
