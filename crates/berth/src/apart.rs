//! `berth controller-manager`, `berth scheduler`, `berth node`: components of a control plane as separate processes, which connect to an
//! API server over HTTPS.

mod delegate;
mod health;
pub(crate) mod options;
mod process;
mod vendor;

use crate::{
    env::{self, Faults},
    logging,
    progress::{Output, chain, warn},
    signals::Signals,
    threads::{self, Threads},
};
use berth_api::FeatureGates;
use berth_apiserver::register_gates;
use berth_controllers::{
    Cluster, ClusterError,
    election::{Candidacy, End, Leader, Timing},
    events::Recorder,
    guard::SecondWriters,
    manager::{self, Enabled, WORKLOAD_CONTROLLERS},
    metrics::Metrics,
};
use berth_identity::ObjectKey;
use berth_remote::{ConnectError, Connection, RemoteCluster, Vendor};
use berth_store::env::Env;
use futures::future::pending;
use health::Health;
use jiff::SignedDuration;
use options::{ControllerManager, Node, PartOptions, Scheduler};
use std::{
    error::Error,
    process::ExitCode,
    sync::{Arc, atomic::Ordering},
};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The delay before another attempt to connect to an unreachable server.
const RETRY: SignedDuration = SignedDuration::from_secs(1);

/// One of the parts.
#[derive(Clone, Copy)]
struct Part {
    name: &'static str,
    /// The default port of the health endpoint, as upstream's.
    port: u16,
    /// Whether its metrics show workloads, on a cluster whose API server does not.
    shows_workloads: bool,
}

/// Starts a part, as soon as it may act.
type Begin<'a> = Box<dyn FnOnce(Site) + 'a>;

/// The inputs of a part.
struct Site {
    cluster: Arc<dyn Cluster>,
    env: Env,
    metrics: Arc<Metrics>,
}

/// Runs the controllers.
pub(crate) fn controller_manager(options: &ControllerManager) -> Outcome<ExitCode> {
    let named = options.control.controllers.as_deref();
    Enabled::parse(named.unwrap_or_default())?;
    let gates = Arc::new(FeatureGates::parse(&options.feature_gates)?);
    let analyses = options.control.providers()?;
    let (shown, followed) = (Arc::clone(&gates), analyses.clone());
    let prepare = |vendor: &Vendor| {
        let enabled = Enabled::parse(vendor::controllers(named, vendor))?;
        if named.is_none() && *vendor != Vendor::Berth {
            let text =
                format!("the API server is not berth's ({}): only {WORKLOAD_CONTROLLERS} run (--controllers)", vendor::version(vendor));
            Output::Stdout.line(&text);
        }
        let begin = |Site { cluster, env, metrics }| {
            gates.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
            let (provision_latency, load_balancer_range) = (options.control.volume_provision_latency, options.control.load_balancer_range);
            manager::ControllerManager {
                cluster,
                env,
                gates,
                metrics,
                enabled,
                provision_latency,
                load_balancer_range,
                providers: analyses.providers(),
                signer: None,
                follower: None,
                usage: None,
                second_writers: SecondWriters::Stop,
            }
            .start();
        };
        Outcome::<Begin<'_>>::Ok(Box::new(begin))
    };
    let part = Part { name: "berth-controller-manager", port: 10257, shows_workloads: true };
    let aside = |health: &Health, env: &Env| {
        // A standby knows the state of the cluster when it becomes the leader.
        followed.follow(env);
        Ok(register_gates(&health.metrics, &shown)?)
    };
    run(&options.part, part, aside, prepare)
}

/// Runs the scheduler.
pub(crate) fn scheduler(options: &Scheduler) -> Outcome<ExitCode> {
    let begin = |Site { cluster, env, metrics }| {
        let events = Recorder::new(Arc::clone(&cluster), env.clone(), Arc::clone(&metrics), "default-scheduler");
        berth_node::Scheduler::start(&cluster, &env, &events, &metrics);
    };
    run(&options.part, Part { name: "berth-scheduler", port: 10259, shows_workloads: false }, |_, _| Ok(()), |_| Ok(Box::new(begin)))
}

/// Runs simulated nodes.
pub(crate) fn node(options: &Node) -> Outcome<ExitCode> {
    let prepare = |vendor: &Vendor| {
        let taint = vendor::taint(options, vendor)?;
        let begin = move |Site { cluster, env, metrics }| {
            let events = Recorder::new(Arc::clone(&cluster), env.clone(), Arc::clone(&metrics), "kubelet");
            options.nodes.start(&cluster, &env, &events, &metrics, taint);
        };
        Outcome::<Begin<'_>>::Ok(Box::new(begin))
    };
    run(&options.part, Part { name: "berth-node", port: 10250, shows_workloads: false }, |_, _| Ok(()), prepare)
}

/// Runs a part until a signal arrives or a task panics. Shuts down in order, so that the next leader can start at once. `aside` does not
/// wait for the leadership. `prepare` gets the vendor of the API server, and can refuse it.
fn run<'a>(
    options: &PartOptions,
    part: Part,
    aside: impl FnOnce(&Health, &Env) -> Outcome<()>,
    prepare: impl FnOnce(&Vendor) -> Outcome<Begin<'a>>,
) -> Outcome<ExitCode> {
    logging::start(options.log_format, options.verbose);
    let lease = options.leader.lease(part.name)?;
    let health = Health::new()?;
    let runtime = threads::builder().build()?;
    runtime.block_on(async {
        let signals = Signals::take()?;
        let threads = Threads::start(part.name, 1)?;
        let faults = Faults::new();
        let env = env::real(threads.handle(), faults.clone());
        aside(&health, &env)?;
        let connection = Connection::open(&options.remote()).await?;
        health.serve(&options.health, part, connection, &env, &faults).await?;
        tokio::select! {
            fault = faults.first() => {
                health.stops();
                Err(fault.into())
            }
            ended = work(options, lease, part, &health, env, &signals, prepare) => ended,
            // A second signal.
            signal = signals.beyond(1) => Ok(signal.exit_code()),
        }
    })
}

async fn work<'a>(
    options: &PartOptions,
    lease: Option<(ObjectKey, Timing)>,
    part: Part,
    health: &Health,
    env: Env,
    signals: &Signals,
    prepare: impl FnOnce(&Vendor) -> Outcome<Begin<'a>>,
) -> Outcome<ExitCode> {
    let name = part.name;
    let standing = async {
        let (cluster, vendor) = connect(options, &env).await?;
        let begin = prepare(&vendor)?;
        let cluster = cluster.named(name);
        health.found(cluster.contact())?;
        let leader = match lease {
            Some((lease, timing)) => Some(elect(&cluster, &env, health, lease, timing).await),
            None => None,
        };
        if part.shows_workloads && vendor != Vendor::Berth {
            health.shows_workloads_of(cluster.clone());
        }
        Outcome::Ok((cluster, leader, begin))
    };
    let (cluster, leader, begin) = tokio::select! {
        found = standing => found?,
        _ = signals.beyond(0) => return Ok(ExitCode::SUCCESS),
    };
    let cluster = leader.iter().fold(cluster, |cluster, leader| cluster.fenced_by(leader.gate()));
    let server = cluster.server().to_owned();
    let metrics = Arc::new(Metrics::new(&health.metrics)?);
    begin(Site { cluster: Arc::new(cluster), env, metrics: Arc::clone(&metrics) });
    let are_synced = health.works(&metrics);
    let synced = async {
        metrics.synced().await;
        are_synced.store(true, Ordering::Release);
        Output::Stdout.line(&format!("{name} works on {server}. Ctrl-C stops it."));
        pending::<()>().await;
    };
    let told = async {
        // A cache may never become complete, for example without the permission to list. A signal ends the part anyway.
        tokio::select! {
            () = synced => {}
            _ = signals.beyond(0) => {}
        }
        health.stops();
    };
    let Some(mut leader) = leader else {
        told.await;
        return Ok(ExitCode::SUCCESS);
    };
    match leader.keep(told).await {
        End::Stopped => {
            leader.release().await;
            Ok(ExitCode::SUCCESS)
        }
        End::Lost => Err(format!("{name} could not renew its lease in time: another one may be the leader now. Restart it").into()),
    }
}

/// Waits for the leadership.
async fn elect(cluster: &RemoteCluster, env: &Env, health: &Health, lease: ObjectKey, timing: Timing) -> Leader {
    let identity = env::identity(env);
    Output::Stdout.line(&format!("{identity} waits to acquire the lease {lease}"));
    let name = lease.name.to_string();
    health.set_standby(&name);
    let leader =
        Leader::elect(Arc::new(cluster.clone()), env.clone(), Arc::new(env::running_time), Candidacy { lease, identity, timing }).await;
    health.leads(&name, leader.gate());
    leader
}

/// Waits for an unreachable server. A rejection is final, because another attempt would end the same way. Also returns the vendor of the
/// server.
async fn connect(options: &PartOptions, env: &Env) -> Outcome<(RemoteCluster, Vendor)> {
    let mut is_told = false;
    loop {
        let error = match RemoteCluster::connect(&options.remote(), env.clone()).await {
            Ok(cluster) => match cluster.vendor().await {
                Ok(vendor) => return Ok((cluster, vendor)),
                // berth's own answers every client: this one is another's, which does not.
                Err(ClusterError::Refused(_) | ClusterError::NotFound(_)) => return Ok((cluster, Vendor::Foreign(String::new()))),
                Err(error) => error,
            },
            Err(ConnectError::Discover(error)) if !matches!(error, ClusterError::Refused(_)) => error,
            Err(error) => return Err(error.into()),
        };
        if !is_told {
            warn(&format!("berth: waiting for the API server: {}", chain(&error)));
            is_told = true;
        }
        env.clock.sleep_until(env.clock.now() + RETRY).await;
    }
}
