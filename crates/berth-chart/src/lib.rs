//! A chart of a rollout over time: the past, and the forecast in paler ink.
//!
//! Pods are stacked bands by revision (a color each) and state (a pattern each). Available pods are at the bottom and
//! terminating pods at the top, so the upper edge is the total. Few pods each have a lane of their own above the bands.
//! Lines show the desired count, the bound, the available and the terminating pods.
//!
//! This crate is pure and knows no kinds. [`Chart`] is the data, [`svg()`] and [`html()`] draw it for browsers and
//! documents, [`lines()`] for terminals. The same data gives the same bytes on every machine, because all arithmetic
//! uses integers. Texts are untrusted: the crate truncates them, escapes markup and shows harmful characters by their
//! code. `scale.rs` computes axes and scales in a few lines, because plotting crates add fonts, floats and their own
//! drawing.

mod html;
mod prepared;
mod scale;
mod svg;
mod terminal;
mod text;

pub use html::html;
pub use scale::time_text;
pub use svg::{STYLE, fragment, svg};
pub use terminal::{Ink, Line, Span, ansi, lines, plain, terminal_color};
pub use text::{one_line, printable, width};

use berth_workloads::pod_state::{PodCounts, PodState};
use std::time::Duration;

/// One workload's rollout. Times are relative to the start of the axis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chart {
    /// The workload's title.
    pub title: String,
    /// A sentence about the outcome, actual or forecast.
    pub note: String,
    /// The end of the axis. Later samples are not drawn.
    pub end: Duration,
    /// The time that separates the past from the forecast, which is drawn paler. `None`: the chart has only one of the
    /// two.
    pub now: Option<Duration>,
    /// The names of the revisions, oldest first.
    pub revisions: Vec<String>,
    /// The number of pods from each time on, in order of time.
    pub samples: Vec<Sample>,
    /// The pods, if they are known individually.
    pub pods: Vec<Pod>,
    /// The desired number of pods from each time on, in order of time.
    pub wanted: Vec<Level>,
    /// The maximum number of pods from each time on, in order of time. Empty: there is no bound.
    pub bound: Vec<Level>,
    /// Events to mark.
    pub marks: Vec<Mark>,
}

/// The number of pods from a time on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The start.
    pub at: Duration,
    /// The counts by revision, in the order of revisions. Omitted revisions have no pods.
    pub counts: Vec<PodCounts>,
}

/// The states of one pod over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// The index of its revision in the chart's revisions.
    pub revision: usize,
    /// Its states from each time on, in order of time. `None`: the pod is deleted.
    pub states: Vec<(Duration, Option<PodState>)>,
}

/// A number of pods from a time on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// The start.
    pub at: Duration,
    /// The number of pods.
    pub pods: u32,
}

/// An event in the chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The time of the event.
    pub at: Duration,
    /// The kind of the event.
    pub kind: MarkKind,
    /// A sentence that describes it.
    pub text: String,
}

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkKind {
    /// A user changed the workload: a new image, a new replica count, a rollback.
    Change,
    /// A failure.
    Trouble,
    /// The rollout is complete.
    Done,
}
