//! Showing rollouts while they run: a live line each on a terminal, plain lines otherwise.

use crate::rollout::{self, Rollout};
use berth_api::apps::Deployment;
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

/// Shows the Deployments of `names` (namespace, name) until each is rolled out or has failed. `versions` are versions of any Deployments, from the
/// present ones on.
pub(crate) async fn show(names: &[(String, String)], versions: impl Stream<Item = Deployment>) {
    let mut screen = Screen::new(names);
    let mut open: BTreeMap<(String, String), Rollout> = names.iter().map(|name| (name.clone(), Rollout::Waiting(String::new()))).collect();
    let mut versions = std::pin::pin!(versions);
    while !open.is_empty() {
        let Some(deployment) = versions.next().await else { return };
        let name = (deployment.metadata.namespace.clone().unwrap_or_default(), deployment.metadata.name.clone().unwrap_or_default());
        let Some(before) = open.get_mut(&name) else { continue };
        let state = rollout::state(&deployment);
        if *before == state {
            continue;
        }
        screen.show(&name, &deployment, &state);
        match state {
            Rollout::Waiting(_) => *before = state,
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

    fn show(&mut self, name: &(String, String), deployment: &Deployment, state: &Rollout) {
        let (text, last) = match state {
            Rollout::Waiting(text) => (text.clone(), false),
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
