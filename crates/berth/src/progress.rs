//! Shows rollouts in progress: a live line each on a terminal, plain lines otherwise.

use crate::logging;
pub(crate) use berth_chart::printable;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{
    collections::BTreeMap,
    error::Error,
    fmt,
    io::{IsTerminal, Write},
    time::{Duration, Instant},
};

/// The minimum interval between plain lines of one workload, except for final ones: a thousand pods must not cause a thousand lines.
const PLAIN_INTERVAL: Duration = Duration::from_secs(1);

/// The output stream for users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// Standard output: no other program uses it.
    Stdout,
    /// Standard error: standard output belongs to another program.
    Stderr,
}

impl Output {
    /// Prints one line.
    pub(crate) fn line(self, text: &str) {
        match self {
            Self::Stdout => line(text),
            Self::Stderr => warn(text),
        }
    }

    /// Whether the output is a terminal.
    pub(crate) fn is_terminal(self) -> bool {
        match self {
            Self::Stdout => std::io::stdout().is_terminal(),
            Self::Stderr => std::io::stderr().is_terminal(),
        }
    }

    fn draw_target(self) -> ProgressDrawTarget {
        match self {
            Self::Stdout => ProgressDrawTarget::stdout(),
            Self::Stderr => ProgressDrawTarget::stderr(),
        }
    }
}

/// Prints one line, for users and for programs that read the output.
pub(crate) fn line(text: &str) {
    let mut out = std::io::stdout().lock();
    // The reader may be gone. The server keeps running.
    let _ = writeln!(out, "{}", logging::line("INFO", &printable(text))).and_then(|()| out.flush());
}

/// Prints text with its own colors. Texts from objects in it must be [`printable`].
pub(crate) fn drawing(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Prints one line beside the output: for users, not for programs that read the output.
pub(crate) fn warn(text: &str) {
    // The reader may be gone. The operation continues.
    let _ = writeln!(std::io::stderr(), "{}", logging::line("WARN", &printable(text)));
}

/// An error with all its causes, outermost first.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// The text on one line, without line breaks: text from objects must not look like a line of berth.
pub(crate) fn one_line(text: &str) -> String {
    let lines = text.split(['\n', '\r', '\t']).map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ")
}

/// A workload in a rollout: `deployment.apps`, its namespace, its name.
pub(crate) type Workload = (&'static str, String, String);

/// The progress of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The remaining work.
    Waiting(String),
    /// Complete, with the number of available pods.
    Done(i32),
    /// The pods of an object without rollouts are available, in this number.
    Available(i32),
    /// A complete Job or pod, with the number of pods that succeeded.
    Complete(i32),
    /// The cause.
    Failed(String),
    /// Deleted before its end.
    Gone,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting(pending) => f.write_str(pending),
            Self::Done(1) => f.write_str("rolled out, 1 pod available"),
            Self::Done(pods) => write!(f, "rolled out, {pods} pods available"),
            Self::Available(1) => f.write_str("1 pod available"),
            Self::Available(pods) => write!(f, "{pods} pods available"),
            Self::Complete(1) => f.write_str("complete, 1 pod succeeded"),
            Self::Complete(pods) => write!(f, "complete, {pods} pods succeeded"),
            Self::Failed(why) => write!(f, "failed: {why}"),
            Self::Gone => f.write_str("deleted"),
        }
    }
}

/// The numbers of a workload's pods by progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pods {
    pub(crate) wanted: i32,
    /// The approximate number of available pods of the newest template.
    pub(crate) settled: i32,
}

/// The place where berth shows progress.
pub(crate) enum Screen {
    /// One line for each workload, which changes.
    Live { bars: BTreeMap<Workload, ProgressBar>, all: MultiProgress },
    /// A new line for each change.
    Plain { output: Output, lines: BTreeMap<Workload, PlainLine> },
}

/// What berth has printed for a workload, and what it prints after the minimum interval.
#[derive(Default)]
pub(crate) struct PlainLine {
    printed: Option<Instant>,
    held_back: Option<String>,
}

impl Screen {
    pub(crate) fn new(output: Output, workloads: &[Workload]) -> Self {
        if !output.is_terminal() {
            return Self::Plain { output, lines: BTreeMap::new() };
        }
        let all = MultiProgress::with_draw_target(output.draw_target());
        // Cuts each line at the terminal's width, because a redraw does not erase a wrapped line.
        let style = ProgressStyle::with_template("  {prefix:32} {bar:24} {wide_msg}").expect("the template is a constant");
        let bars = workloads.iter().map(|workload| {
            let bar = all.add(ProgressBar::new(1).with_style(style.clone()).with_prefix(format!("{}/{}", workload.1, workload.2)));
            (workload.clone(), bar)
        });
        Self::Live { bars: bars.collect(), all }
    }

    /// Shows the progress of a workload. Remaining work may appear with a delay.
    pub(crate) fn show(&mut self, workload: &Workload, pods: Pods, state: &Progress) {
        match self {
            Self::Live { bars, .. } => {
                let Some(bar) = bars.get(workload) else { return };
                bar.set_length(u64::try_from(pods.wanted).unwrap_or(0).max(1));
                bar.set_position(u64::try_from(pods.settled).unwrap_or(0));
                bar.set_message(printable(&state.to_string()).replace(['\n', '\t'], " "));
            }
            Self::Plain { output, lines } => {
                let line = lines.entry(workload.clone()).or_default();
                line.held_back = Some(format!("{}: {state}", title(workload)));
                if !matches!(state, Progress::Waiting(_)) || line.is_due(Instant::now()) {
                    line.print(*output);
                }
            }
        }
    }

    /// Prints the delayed lines whose interval has passed.
    pub(crate) fn catch_up(&mut self) {
        if let Self::Plain { output, lines } = self {
            let now = Instant::now();
            lines.values_mut().filter(|line| line.is_due(now)).for_each(|line| line.print(*output));
        }
    }

    /// Stops showing changes. The last lines remain.
    pub(crate) fn close(self) {
        match self {
            Self::Live { bars, all } => {
                bars.values().for_each(ProgressBar::abandon);
                drop(all);
            }
            Self::Plain { output, mut lines } => lines.values_mut().for_each(|line| line.print(output)),
        }
    }
}

impl PlainLine {
    fn is_due(&self, now: Instant) -> bool {
        self.printed.is_none_or(|at| now.duration_since(at) >= PLAIN_INTERVAL)
    }

    fn print(&mut self, output: Output) {
        if let Some(text) = self.held_back.take() {
            output.line(&text);
            self.printed = Some(Instant::now());
        }
    }
}

/// `deployment.apps/web in shop`
pub(crate) fn title((kind, namespace, name): &Workload) -> String {
    format!("{kind}/{name} in {namespace}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_objects_cannot_control_the_terminal() {
        for (text, shown) in [
            ("deployment.apps/web: 3 of 5\n\tpods é", "deployment.apps/web: 3 of 5\n\tpods é"),
            ("\u{1b}[2J\u{1b}]0;title\u{7}", "\\u{1b}[2J\\u{1b}]0;title\\u{7}"),
            ("failed\rrolled out", "failed\\u{d}rolled out"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("a\u{202e}b\u{61c}", "a\\u{202e}b\\u{61c}"),
            ("a\u{2028}b", "a\\u{2028}b"),
        ] {
            assert_eq!(printable(text), shown);
        }
    }
}
