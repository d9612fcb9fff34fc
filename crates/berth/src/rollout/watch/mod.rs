//! `berth rollout watch`: shows workloads in a terminal until the user quits. `berth-terminal` has the screens and the confirmations.
//! Without a terminal, it acts as `berth rollout status`.

mod screen;

use super::{
    cluster::Connection,
    error::Error,
    features,
    forecaster::PlanForecaster,
    options::{Status, Target, Watch},
    status,
    target::Selection,
};
use crate::{
    cluster_options::ClusterOptions,
    env::{self, Faults},
    progress::Output,
    threads::Threads,
};
use berth_controllers::Cluster;
use berth_follow::cluster_cache::ClusterCache;
use berth_identity::RolloutRevision;
use berth_remote::RemoteCluster;
use berth_store::env::Env;
use berth_terminal::{Ask, Colors, Effect, Ending, Event, Location, Shown, WatchState, step};
use berth_workloads::workload::WorkloadId;
use screen::{Input, Screen};
use std::{process::ExitCode, sync::Arc, time::Duration};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    time::MissedTickBehavior,
};

/// How often it is redrawn without an event, for ages and the end of the chart.
const TICK: Duration = Duration::from_secs(1);

type Outcome = Result<ExitCode, Box<dyn std::error::Error>>;

/// Whether there is a terminal that supports drawing.
pub(super) fn has_terminal() -> bool {
    Output::Stdout.is_terminal() && std::env::var_os("TERM").is_none_or(|name| name != "dumb")
}

/// Prints the progress of rollouts in lines, as `berth rollout status` does, until each is complete.
///
/// # Errors
/// Those of `berth rollout status`.
pub(super) async fn plain(options: &Watch, cluster: &ClusterOptions) -> Result<(), Error> {
    let connection = Connection::open(cluster).await?;
    let found = if options.resources.is_empty() {
        Selection::everything(&connection, cluster).await?
    } else {
        let target = Target { resources: options.resources.clone(), ..Target::default() };
        Selection::read(&target, cluster).await?.find(&connection, cluster).await?
    };
    let status = Status { target: Target::default(), watch: true, timeout: Duration::ZERO, revision: RolloutRevision::UNSET, output: None };
    let mut faults = Vec::new();
    for (connection, workload) in &found {
        faults.extend(status::run(&status, connection, workload).await.err());
    }
    Error::of_all(faults)
}

/// Shows workloads until the user quits or a signal arrives.
pub(super) fn run(options: &Watch, cluster: &ClusterOptions) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let threads = Threads::start("watch", 0)?;
        let faults = Faults::new();
        let env = env::real(threads.handle(), faults.clone());
        // In each case, the terminal is restored before anything is printed.
        let ended = tokio::select! {
            fault = faults.first() => Err(fault.into()),
            ended = show(options, cluster, env) => ended,
        };
        threads.end().await;
        ended
    })
}

/// The selection on the command line: the first screen, and the filter of the list.
fn beginning(options: &Watch, namespace: &str) -> Result<(Location, String), Error> {
    if options.resources.is_empty() {
        return Ok((Location::List, String::new()));
    }
    match Selection::parse(&Target { resources: options.resources.clone(), ..Target::default() })? {
        Selection::Named(names) => match names.as_slice() {
            [(kind, name)] => Ok((Location::Workload(WorkloadId::new(*kind, namespace, name.as_str())), String::new())),
            _ => Err(Error::Usage("write one TYPE/NAME, or none to list all workloads".to_owned())),
        },
        Selection::All(kind, _) => Ok((Location::List, kind.singular().to_owned())),
        Selection::Manifests(_) => Ok((Location::List, String::new())),
    }
}

async fn show(options: &Watch, cluster: &ClusterOptions, env: Env) -> Outcome {
    let remote = RemoteCluster::connect(&cluster.remote(), env.clone()).await?.named("berth-rollout");
    let namespace = cluster.namespace.clone().unwrap_or_else(|| remote.namespace().to_owned());
    let (place, search) = beginning(options, &namespace)?;
    if let Location::Workload(id) = &place {
        if cluster.all_namespaces {
            return Err(Error::Usage("a resource cannot be retrieved by name across all namespaces".to_owned()).into());
        }
        // Printed on the normal screen, where the user can still read it.
        if remote.get(id.kind.resource(), &id.key()).await?.is_none() {
            let resource = id.kind.resource();
            return Err(format!("{}.{} {:?} not found in namespace {namespace}", resource.plural, resource.group, &*id.name).into());
        }
    }
    let server = remote.server().trim_end_matches('/').to_owned();
    let (followed, title) = match cluster.all_namespaces {
        true => (remote.clone(), format!("{server}, all namespaces")),
        false => (remote.clone().in_namespace(namespace.as_str().into()), format!("{server}, namespace {namespace} (-A: all)")),
    };
    let (gates, unheeded) = features::of_cluster(cluster).await.unwrap_or_default();
    let cluster_cache = ClusterCache::new(Arc::new(followed), env, gates, unheeded);
    cluster_cache.ask(PlanForecaster::shared(cluster.remote()));
    cluster_cache.begin_workloads();
    let state = WatchState::new(title, place, search);
    Shell { cluster_cache, remote, state, screen: Screen::enter()?, colors: colors() }.run().await
}

/// As <https://no-color.org> specifies.
fn colors() -> Colors {
    if std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) { Colors::Off } else { Colors::On }
}

struct Shell {
    cluster_cache: Arc<ClusterCache>,
    remote: RemoteCluster,
    state: WatchState,
    screen: Screen,
    colors: Colors,
}

impl Shell {
    async fn run(mut self) -> Outcome {
        let mut stops = signal(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw()))?;
        let (mut interrupt, mut terminate, mut hangup) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
        let mut input = screen::input();
        let (answers, mut answered) = mpsc::unbounded_channel();
        let mut changes = self.cluster_cache.changes();
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (columns, rows) = self.screen.size()?;
        step(&mut self.state, Event::Resized(columns, rows));
        loop {
            let effect = tokio::select! {
                _ = interrupt.recv() => return Ok(ended(Ending::Interrupted)),
                _ = terminate.recv() => return Ok(by_signal(rustix::process::Signal::TERM)),
                _ = hangup.recv() => return Ok(by_signal(rustix::process::Signal::HUP)),
                _ = stops.recv() => Some(Effect::Suspend),
                input = input.recv() => match input {
                    Some(Ok(Input::Key(key))) => {
                        let wanted = self.state.wants();
                        let effect = step(&mut self.state, Event::Key(key));
                        if self.state.wants() != wanted {
                            self.refresh();
                        }
                        effect
                    }
                    Some(Ok(Input::Resized(columns, rows))) => step(&mut self.state, Event::Resized(columns, rows)),
                    Some(Ok(Input::Other)) => continue,
                    Some(Err(error)) => return Err(format!("cannot read the terminal: {error}").into()),
                    None => return Err("the terminal closed its input".into()),
                },
                Some(event) = answered.recv() => step(&mut self.state, event),
                // The cluster_cache lives as long as this.
                _ = changes.changed() => self.refresh(),
                _ = tick.tick() => self.refresh(),
            };
            match effect {
                Some(Effect::End(ending)) => return Ok(ended(ending)),
                Some(Effect::Suspend) => self.screen.suspend()?,
                Some(Effect::Prepare(ask)) => self.ask(ask, answers.clone(), false),
                Some(Effect::Execute(ask)) => self.ask(ask, answers.clone(), true),
                None => (),
            }
            self.screen.draw(&self.state, self.colors)?;
        }
    }

    fn refresh(&mut self) -> Option<Effect> {
        let now = self.cluster_cache.env.clock.now();
        let shown = Shown::read(&self.cluster_cache, &self.state.wants(), self.remote.lost(), now);
        step(&mut self.state, Event::Shown(shown))
    }

    /// Queries the cluster, or executes a confirmed change. The answer arrives as an event.
    fn ask(&self, ask: Ask, answers: mpsc::UnboundedSender<Event>, is_to_be_done: bool) {
        let cluster_cache = Arc::clone(&self.cluster_cache);
        tokio::spawn(async move {
            let event = if is_to_be_done {
                let done = cluster_cache.execute(&ask.id, ask.verb, &ask.fields).await;
                Event::Done(ask, done)
            } else {
                let prepared = cluster_cache.prepare(&ask.id, ask.verb, &ask.fields).await;
                Event::Prepared(ask, prepared)
            };
            // The receiver is gone if the user has quit meanwhile.
            let _ = answers.send(event);
        });
    }
}

fn ended(ending: Ending) -> ExitCode {
    match ending {
        Ending::Left => ExitCode::SUCCESS,
        Ending::Interrupted => by_signal(rustix::process::Signal::INT),
    }
}

/// The exit code that shells use for a process that a signal has ended.
fn by_signal(signal: rustix::process::Signal) -> ExitCode {
    ExitCode::from(128 + u8::try_from(signal.as_raw()).unwrap_or_default())
}
