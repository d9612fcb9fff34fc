//! Showing rollouts while they run: a live line each on a terminal, plain lines otherwise.

use crate::rollout::state::{self, Rollout};
use berth_workloads::view::DeploymentView;
use futures::{Stream, StreamExt};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::{
    collections::BTreeMap,
    io::{IsTerminal, Write},
    time::{Duration, Instant},
};

/// Plain lines of one Deployment are at least so far apart, but for the first and the last: a thousand pods are no thousand lines.
const PLAIN_INTERVAL: Duration = Duration::from_secs(1);

/// Prints one line, for people and for programs that read along.
pub(crate) fn line(text: &str) {
    let mut out = std::io::stdout().lock();
    // Nobody reads any more: the server runs on.
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Prints one line beside the output: for people, not for programs that read along.
pub(crate) fn warn(text: &str) {
    // Nobody reads it: what was asked for is done all the same.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Shows the Deployments of `names` (namespace, name) until each is rolled out or has failed. `versions` are versions of any Deployments, from the
/// present ones on.
pub(crate) async fn show(names: &[(String, String)], versions: impl Stream<Item = DeploymentView>) {
    let mut screen = Screen::new(names);
    let mut open: BTreeMap<(String, String), Option<Rollout>> = names.iter().map(|name| (name.clone(), None)).collect();
    let mut versions = std::pin::pin!(versions);
    while !open.is_empty() {
        let Some(deployment) = versions.next().await else { return };
        let name = (deployment.meta.namespace.clone(), deployment.meta.name.clone());
        let Some(before) = open.get_mut(&name) else { continue };
        let state = state::of(&deployment, deployment.status.terminating_replicas.unwrap_or_default());
        if before.as_ref() == Some(&state) {
            continue;
        }
        screen.show(&name, &deployment, &state);
        match state {
            Rollout::Waiting(_) => *before = Some(state),
            Rollout::Done | Rollout::Failed(_) => drop(open.remove(&name)),
        }
    }
}

/// Where progress is shown.
enum Screen {
    Live { bars: BTreeMap<(String, String), ProgressBar>, _all: MultiProgress },
    Plain { printed: BTreeMap<(String, String), Instant> },
}

impl Screen {
    fn new(names: &[(String, String)]) -> Self {
        if !std::io::stdout().is_terminal() {
            return Self::Plain { printed: BTreeMap::new() };
        }
        let all = MultiProgress::new();
        let style = ProgressStyle::with_template("  {prefix:32} {bar:24} {msg}").expect("the template is a constant");
        let bars = names.iter().map(|name| {
            let bar = all.add(ProgressBar::new(1).with_style(style.clone()).with_prefix(format!("{}/{}", name.0, name.1)));
            (name.clone(), bar)
        });
        Self::Live { bars: bars.collect(), _all: all }
    }

    fn show(&mut self, name: &(String, String), deployment: &DeploymentView, state: &Rollout) {
        let (text, last) = match state {
            Rollout::Waiting(pending) => (pending.to_string(), false),
            Rollout::Done => (format!("rolled out, {} pods available", deployment.status.available_replicas), true),
            Rollout::Failed(message) => (format!("failed: {message}"), true),
        };
        match self {
            Self::Live { bars, .. } => {
                let Some(bar) = bars.get(name) else { return };
                bar.set_length(u64::try_from(deployment.spec.replicas.unwrap_or(1)).unwrap_or(0).max(1));
                bar.set_position(u64::try_from(deployment.status.available_replicas.min(deployment.status.updated_replicas)).unwrap_or(0));
                if last { bar.finish_with_message(text) } else { bar.set_message(text) }
            }
            Self::Plain { printed } => {
                let now = Instant::now();
                let due = printed.get(name).is_none_or(|at| now.duration_since(*at) >= PLAIN_INTERVAL);
                if last || due {
                    printed.insert(name.clone(), now);
                    line(&format!("deployment.apps/{} in {}: {text}", name.1, name.0));
                }
            }
        }
    }
}
