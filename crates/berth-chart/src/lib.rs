//! A rollout over time as a picture: what was, and what is to come in paler ink.
//!
//! Pods are bands by revision (a colour each) and state (a pattern each), stacked: what serves below, what goes on top, so that the upper edge is all that there is.
//! Where they are few each has a lane of its own above. Lines show the wanted number, the bound, those that are available and those that terminate.
//!
//! Pure, and knows no kinds: [`Chart`] is the data, [`svg()`] and [`html()`] draw it for browsers and documents, [`lines()`] for terminals. The same data gives the same
//! bytes, everywhere: all arithmetic is in integers. Texts may come from anybody: they are cut, what a terminal or a reader could be misled by is shown by
//! its code, and markup is escaped. Axes and scales are thirty lines (`scale.rs`); plotting crates bring fonts, floats and drawing of their own.

mod html;
mod prepared;
mod scale;
mod svg;
mod terminal;
mod text;

pub use html::html;
pub use scale::time_text;
pub use svg::{STYLE, fragment, svg};
pub use terminal::{Ink, Line, Span, ansi, lines, plain, terminal_colour};
pub use text::{one_line, printable, width};

use berth_workloads::pod_state::{PodCounts, PodState};
use std::time::Duration;

/// One workload's rollout. Times are counted from where the axis begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chart {
    /// What it is of.
    pub title: String,
    /// How it went, or will go, in a sentence.
    pub note: String,
    /// Where the axis ends. What is later is not drawn.
    pub end: Duration,
    /// Where what was ends and what is to come begins, which is drawn paler; `None`: all is of one kind.
    pub now: Option<Duration>,
    /// The names of the revisions, oldest first.
    pub revisions: Vec<String>,
    /// How many pods there are from when on, in order of time.
    pub samples: Vec<Sample>,
    /// The pods, if each is known.
    pub pods: Vec<Pod>,
    /// How many pods are wanted from when on, in order of time.
    pub wanted: Vec<Level>,
    /// How many there may be from when on, in order of time; nothing: there is no bound.
    pub bound: Vec<Level>,
    /// What happened.
    pub marks: Vec<Mark>,
}

/// How many pods there are from then on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// From when on.
    pub at: Duration,
    /// Of each revision, in their order; those that are left out have none.
    pub counts: Vec<PodCounts>,
}

/// A pod's life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// The place of its revision among the chart's.
    pub revision: usize,
    /// Its states from when on, in order of time; `None`: it is gone.
    pub states: Vec<(Duration, Option<PodState>)>,
}

/// A number of pods from then on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// From when on.
    pub at: Duration,
    /// How many.
    pub pods: u32,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// When.
    pub at: Duration,
    /// What kind of thing.
    pub kind: MarkKind,
    /// What it was, in a sentence.
    pub text: String,
}

/// A kind of thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkKind {
    /// Somebody changed the workload: another image, another size, undone.
    Change,
    /// Something went wrong.
    Trouble,
    /// It is complete.
    Done,
}
