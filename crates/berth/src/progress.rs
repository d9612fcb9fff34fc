//! Showing rollouts while they run: a live line each on a terminal, plain lines otherwise.

use crate::rollout::{
    state::{self, Rollout},
    stateful_set,
};
use berth_workloads::view::{DeploymentView, StatefulSetView};
use futures::{Stream, StreamExt};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::{
    borrow::Cow,
    collections::BTreeMap,
    io::{IsTerminal, Write},
    time::{Duration, Instant},
};

/// Plain lines of one workload are at least so far apart, but for the first and the last: a thousand pods are no thousand lines.
const PLAIN_INTERVAL: Duration = Duration::from_secs(1);

/// Prints one line, for people and for programs that read along.
pub(crate) fn line(text: &str) {
    let mut out = std::io::stdout().lock();
    // Nobody reads any more: the server runs on.
    let _ = writeln!(out, "{}", printable(text)).and_then(|()| out.flush());
}

/// Prints one line beside the output: for people, not for programs that read along.
pub(crate) fn warn(text: &str) {
    // Nobody reads it: what was asked for is done all the same.
    let _ = writeln!(std::io::stderr(), "{}", printable(text));
}

/// The text as a terminal may get it: what came from objects must not move the cursor, change colours or hide what stands beside it.
///
/// Line ends and tabs stay. Other control characters, and those that turn the direction of writing, are shown by their code.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let is_harmful = |char: char| {
        (char.is_control() && !matches!(char, '\n' | '\t'))
            || matches!(char, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for char in text.chars() {
        if is_harmful(char) { shown.extend(char.escape_unicode()) } else { shown.push(char) }
    }
    Cow::Owned(shown)
}

/// A workload that is rolled out: `deployment.apps`, its namespace, its name.
pub(crate) type Workload = (&'static str, String, String);

/// What Deployments are called here.
pub(crate) const DEPLOYMENT: &str = "deployment.apps";
/// What StatefulSets are called here.
pub(crate) const STATEFUL_SET: &str = "statefulset.apps";

/// One version of a workload, as far as progress is concerned.
pub(crate) struct Version {
    workload: Workload,
    wanted: i32,
    available: i32,
    /// Pods of the newest template that are available, or about that many.
    settled: i32,
    state: State,
}

/// How far a workload is.
#[derive(PartialEq, Eq)]
enum State {
    /// What is left to do.
    Waiting(String),
    Done,
    Failed(String),
}

impl Version {
    pub(crate) fn of_deployment(deployment: &DeploymentView) -> Self {
        let status = &deployment.status;
        let state = match state::of(deployment, status.terminating_replicas.unwrap_or_default()) {
            Rollout::Waiting(pending) => State::Waiting(pending.to_string()),
            Rollout::Done => State::Done,
            Rollout::Failed(message) => State::Failed(message),
        };
        Self {
            workload: (DEPLOYMENT, deployment.meta.namespace.clone(), deployment.meta.name.clone()),
            wanted: deployment.spec.replicas.unwrap_or(1),
            available: status.available_replicas,
            settled: status.available_replicas.min(status.updated_replicas),
            state,
        }
    }

    pub(crate) fn of_stateful_set(set: &StatefulSetView) -> Self {
        Self {
            workload: (STATEFUL_SET, set.meta.namespace.clone(), set.meta.name.clone()),
            wanted: set.spec.replicas.unwrap_or(1),
            available: set.status.available_replicas,
            settled: set.status.available_replicas.min(set.status.updated_replicas),
            state: stateful_set::pending(set).map_or(State::Done, State::Waiting),
        }
    }
}

/// Shows `workloads` until each is rolled out or has failed. `versions` are versions of any workloads, from the present ones on.
pub(crate) async fn show(workloads: &[Workload], versions: impl Stream<Item = Version>) {
    let mut screen = Screen::new(workloads);
    let mut open: BTreeMap<Workload, Option<State>> = workloads.iter().map(|workload| (workload.clone(), None)).collect();
    let mut versions = std::pin::pin!(versions);
    while !open.is_empty() {
        let Some(version) = versions.next().await else { return };
        let Some(before) = open.get_mut(&version.workload) else { continue };
        if before.as_ref() == Some(&version.state) {
            continue;
        }
        screen.show(&version);
        match version.state {
            State::Waiting(_) => *before = Some(version.state),
            State::Done | State::Failed(_) => drop(open.remove(&version.workload)),
        }
    }
}

/// Where progress is shown.
enum Screen {
    Live { bars: BTreeMap<Workload, ProgressBar>, _all: MultiProgress },
    Plain { printed: BTreeMap<Workload, Instant> },
}

impl Screen {
    fn new(workloads: &[Workload]) -> Self {
        if !std::io::stdout().is_terminal() {
            return Self::Plain { printed: BTreeMap::new() };
        }
        let all = MultiProgress::new();
        let style = ProgressStyle::with_template("  {prefix:32} {bar:24} {msg}").expect("the template is a constant");
        let bars = workloads.iter().map(|workload| {
            let bar = all.add(ProgressBar::new(1).with_style(style.clone()).with_prefix(format!("{}/{}", workload.1, workload.2)));
            (workload.clone(), bar)
        });
        Self::Live { bars: bars.collect(), _all: all }
    }

    fn show(&mut self, version: &Version) {
        let (text, last) = match &version.state {
            State::Waiting(pending) => (pending.clone(), false),
            State::Done => (format!("rolled out, {} pods available", version.available), true),
            State::Failed(message) => (format!("failed: {message}"), true),
        };
        match self {
            Self::Live { bars, .. } => {
                let Some(bar) = bars.get(&version.workload) else { return };
                bar.set_length(u64::try_from(version.wanted).unwrap_or(0).max(1));
                bar.set_position(u64::try_from(version.settled).unwrap_or(0));
                let text = printable(&text).into_owned();
                if last { bar.finish_with_message(text) } else { bar.set_message(text) }
            }
            Self::Plain { printed } => {
                let now = Instant::now();
                let due = printed.get(&version.workload).is_none_or(|at| now.duration_since(*at) >= PLAIN_INTERVAL);
                if last || due {
                    printed.insert(version.workload.clone(), now);
                    let (kind, namespace, name) = &version.workload;
                    line(&format!("{kind}/{name} in {namespace}: {text}"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_objects_say_cannot_steer_the_terminal() {
        for (text, shown) in [
            ("deployment.apps/web: 3 of 5\n\tpods é", "deployment.apps/web: 3 of 5\n\tpods é"),
            ("\u{1b}[2J\u{1b}]0;title\u{7}", "\\u{1b}[2J\\u{1b}]0;title\\u{7}"),
            ("failed\rrolled out", "failed\\u{d}rolled out"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("a\u{202e}b", "a\\u{202e}b"),
        ] {
            assert_eq!(printable(text), shown);
        }
    }
}
