//! `berth up`: connects the parts and prints the progress.

mod leading;
mod signing;
mod store;

use self::{
    leading::{Leading, lead},
    store::{Opened, open_store},
};
use crate::{
    cli::Up,
    controllers::Analyses,
    credentials,
    dashboard::own::{self, OwnPage, PageOptions, PageUser},
    data_dir::{DataDir, StoreKind},
    env::{self, Faults},
    etcd,
    foreign::Untouched,
    kubeconfig_file::{self, KubeconfigFile},
    logging,
    manifests::{self, Depth, Document},
    memory,
    nodes::Taint,
    progress::{Output, chain},
    rollouts::{Rollouts, Verdict},
    signals::{Signal, Signals},
    threads::{self, Threads},
};
use berth_api::FeatureGates;
use berth_apiserver::{
    Access, CheckError, Config, Failure, Found, Limits, Readiness, Server, Storage,
    audit::{self, AuditLog},
    auth::{Anonymous, parse_token_file},
    pki::{Pair, Verifier},
};
use berth_controllers::{
    Cluster,
    certificates::CertificateSigner,
    election::{Gate, Leader},
    events::Recorder,
    guard::SecondWriters,
    lags::Lags,
    manager::{ControllerManager, Enabled},
    metrics::Metrics,
};
use berth_identity::GroupResource;
use berth_local::{
    LocalCluster, api_services, definitions,
    service_allocation::{self, Among, Presence},
};
use berth_node::Scheduler;
use berth_policies::Policies;
use berth_registry::{Pressure, Registry, ResourceTable, ServerAddress};
use berth_store::env::Env;
use berth_webhooks::Webhooks;
use futures::{
    FutureExt,
    future::{OptionFuture, ready, try_join3},
};
use jiff::SignedDuration;
use std::{
    error::Error,
    net::{IpAddr, SocketAddr},
    path::Path,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{sync::oneshot, task::JoinHandle};

/// A cache that lags behind the store for longer is stale: it applies changes within milliseconds, and a new list of all pods within
/// seconds.
const LAG_MAX: Duration = Duration::from_secs(10);

type Outcome<T> = Result<T, Box<dyn Error>>;

/// A reconcile that takes longer hangs. The longest ones delete or change all objects of an owner or a namespace, a few hundred objects a
/// second on a slow disk.
const RECONCILE_MAX: Duration = Duration::from_mins(5);

/// Starts everything, applies the manifests, and runs until a signal, or with `--wait` until they are rolled out.
pub(crate) fn run(options: &Up, page: Option<&PageOptions>) -> Outcome<ExitCode> {
    let started = Instant::now();
    logging::start(options.log_format, options.verbose);
    let runtime = threads::builder().build()?;
    // Before anything starts, because an invalid manifest must leave no trace. Before berth handles signals, because a user who waits for
    // standard input can interrupt it as in any other program.
    let documents = runtime.block_on(manifests::read(&options.filename, Depth::of(options.recursive)))?;
    let settings = Settings { page: page.and_then(PageUser::of), ..Settings::new(options)? };
    runtime.block_on(serve(options, settings, &documents, started))
}

async fn serve(options: &Up, settings: Settings, documents: &[Document], started: Instant) -> Outcome<ExitCode> {
    let signals = Signals::take()?;
    let data_dir = DataDir::open(options.data_dir.clone(), options.store)?.locked()?;
    let plane = tokio::select! {
        plane = Plane::start(options, settings, data_dir.path(), started) => plane?,
        // The backend of the store may be slow to answer.
        signal = signals.beyond(0) => return Ok(if options.wait { signal.exit_code() } else { ExitCode::SUCCESS }),
    };
    until_the_end(options, plane, data_dir.path(), documents, &signals).await
}

/// Runs until all work is done, a signal arrives, or a part panics. Then shuts everything down in order.
async fn until_the_end(options: &Up, plane: Plane, data_dir: &Path, documents: &[Document], signals: &Signals) -> Outcome<ExitCode> {
    let ended = tokio::select! {
        fault = plane.fault() => Err(fault),
        ended = live(options, &plane, data_dir, documents) => ended,
        signal = signals.beyond(0) => Ok(if options.wait { signal.exit_code() } else { ExitCode::SUCCESS }),
    };
    let hurried = plane.stop(signals).await;
    match hurried {
        Some(signal) if ended.is_ok() => Ok(signal.exit_code()),
        _ => ended,
    }
}

/// The work between start and end. It ends by itself with `--wait`, or if the server rejects a manifest.
async fn live(options: &Up, plane: &Plane, data_dir: &Path, documents: &[Document]) -> Outcome<ExitCode> {
    plane.synced().await;
    plane.announce(options, data_dir);
    let link = plane.page.as_ref().map(OwnPage::announce);
    let mut rollouts = Rollouts::apply(&plane.registry, &plane.controller_gates, documents, options.skip_unserved, Output::Stdout).await?;
    // The page has something to show now.
    plane.page.iter().zip(&link).for_each(|(page, link)| page.open_if_asked(link));
    match rollouts.settle(options.steady, options.timeout()).await {
        Verdict::Failed(why) if options.wait => return Err(why.into()),
        Verdict::RolledOut if options.wait => return Ok(ExitCode::SUCCESS),
        Verdict::Failed(why) => Output::Stdout.line(&why),
        Verdict::RolledOut => (),
    }
    let end = match options.store {
        StoreKind::Embedded | StoreKind::Etcd => "Ctrl-C stops it. The same command continues from here",
        StoreKind::Memory => "Ctrl-C stops it and deletes all objects",
    };
    Output::Stdout.line(&format!("Running. {end}."));
    match rollouts.follow().await {}
}

/// The options that need checks before anything starts.
pub(crate) struct Settings {
    api_gates: Arc<FeatureGates>,
    controller_gates: Arc<FeatureGates>,
    controllers: Enabled,
    analyses: Analyses,
    access: Access,
    etcd: Option<etcd::Places>,
    /// `None`: berth serves no page.
    page: Option<PageUser>,
}

impl Settings {
    pub(crate) fn new(options: &Up) -> Outcome<Self> {
        if let Some(path) = &options.kubeconfig_file {
            KubeconfigFile::check(path)?;
        }
        options.credentials.check()?;
        let gates = |own: &str| FeatureGates::parse(&format!("{},{own}", options.feature_gates)).map(Arc::new);
        let (api_gates, controller_gates) = (gates(&options.apiserver_feature_gates)?, gates(&options.controller_feature_gates)?);
        api_gates.warnings().iter().for_each(|warning| tracing::warn!("API server: {warning}"));
        controller_gates.warnings().iter().for_each(|warning| tracing::warn!("controllers: {warning}"));
        let controllers = Enabled::parse(options.control.controllers.as_deref().unwrap_or("*"))?;
        let analyses = options.control.providers()?;
        let etcd = match options.store {
            StoreKind::Etcd => Some(options.etcd.connection.read()?),
            StoreKind::Embedded | StoreKind::Memory => options.etcd.check_unused().map(|()| None)?,
        };
        Ok(Self { api_gates, controller_gates, controllers, analyses, access: access(options)?, etcd, page: None })
    }
}

/// Additional users, and the settings of the audit log.
fn access(options: &Up) -> Outcome<Access> {
    let read = |path: &Path| std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()));
    let tokens = match &options.token_auth_file {
        Some(path) => parse_token_file(&read(path)?).map_err(|error| format!("{}: {error}", path.display()))?,
        None => Vec::new(),
    };
    let audit = match (&options.audit_policy_file, &options.audit_log_path) {
        (Some(policy), Some(log)) => {
            let parsed = audit::Policy::parse(&read(policy)?).map_err(|error| format!("{}: {error}", policy.display()))?;
            Some(AuditLog::open(parsed, log, rotation(options))?)
        }
        _ => None,
    };
    let anonymous = if options.anonymous_auth { Anonymous::Allowed } else { Anonymous::Refused };
    Ok(Access { tokens, anonymous, audit })
}

/// How much of the audit log berth keeps.
fn rotation(options: &Up) -> audit::Rotation {
    audit::Rotation {
        bytes_max: u64::from(options.audit_log_maxsize) << 20,
        age_max: SignedDuration::from_hours(24 * i64::from(options.audit_log_maxage)),
        backups_max: options.audit_log_maxbackup as usize,
    }
}

/// The maximum number of open files and connections. Raises the limit as far as the system allows.
fn open_files_max() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let current = if raised.is_ok() { limit.maximum } else { limit.current };
    current.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX))
}

/// The limits of the API server.
fn limits(options: &Up) -> Limits {
    let limits = Limits::default();
    Limits {
        // The other half is for the store, and for connections that are closing.
        connections: limits.connections.min(open_files_max() / 2),
        requests_inflight: options.max_requests_inflight,
        mutating_requests_inflight: options.max_mutating_requests_inflight,
        request_timeout: options.request_timeout,
        ..limits
    }
}

/// A running control plane.
pub(crate) struct Plane {
    pub(crate) registry: Registry,
    /// The metrics of the controllers.
    controllers: Arc<Metrics>,
    are_synced: Arc<AtomicBool>,
    pub(crate) controller_gates: Arc<FeatureGates>,
    /// The administrator's kubeconfig. `None`: other programs write it.
    pub(crate) kubeconfig: Option<KubeconfigFile>,
    address: SocketAddr,
    /// The endpoint of the Service `kubernetes`.
    advertised: Option<IpAddr>,
    started: Instant,
    faults: Faults,
    readiness: Readiness,
    presence: Presence,
    /// `None`: no write of this process can arrive after its end.
    leading: Option<Leading>,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
    close: Box<dyn FnOnce()>,
    page: Option<OwnPage>,
    /// The threads of the controllers and of users' requests. The caller's runtime answers all other requests.
    threads: [Threads; 2],
}

/// How many more threads than processors users' requests have, so that a single user cannot occupy all of them.
const USERS_THREADS_MORE: usize = 2;

impl Plane {
    /// Starts everything.
    ///
    /// # Errors
    /// A resource of the machine is not available: a folder, a port, a file.
    pub(crate) async fn start(options: &Up, mut settings: Settings, data_dir: &Path, started: Instant) -> Outcome<Self> {
        let (of_controllers, of_users) = (Threads::start("controllers", 1)?, Threads::start("users", USERS_THREADS_MORE)?);
        let faults = Faults::new();
        let env = env::real(of_controllers.handle(), faults.clone());
        settings.analyses.follow(&env);
        let table = Arc::new(ResourceTable::default());
        let advertised = options.services.advertised(options.bind_address);
        let ranges = options.services.ranges();
        let own_addresses: Vec<String> =
            advertised.into_iter().chain([ranges.cluster_ips.host(0)]).map(|address| address.to_string()).collect();
        let identity = options.credentials.identity(data_dir, options.bind_address, &own_addresses, &env)?;
        // After the keys, because opening the store begins a new log. A start that fails on a damaged key must change nothing.
        let Opened { store, untouched, close } = open_store(options, &settings, data_dir, &identity.authorities, &table, &env).await?;
        let is_untouched = untouched.is_some();
        if is_untouched && options.control.controllers.is_none() {
            settings.controllers = Enabled::parse("-*")?;
        }
        let mut registry =
            Registry::new(Arc::clone(&store), table, Arc::clone(&env.clock), Arc::clone(&env.rng), Arc::clone(&settings.api_gates))
                .with_service_ranges(ranges)
                .with_request_verifier(Arc::new(Verifier));
        registry = registry.with_history_shares(options.history_bytes as u64);
        if let Some(watermark) = options.memory_bytes.or_else(memory::default_watermark).filter(|bytes| 0 < *bytes) {
            let pressure = Pressure::default();
            memory::watch(pressure.clone(), watermark);
            registry = registry.with_pressure(pressure);
        }
        if settings.controllers.contains("root-ca-cert-publisher") {
            registry = registry.with_root_ca(&identity.following.credentials().root_ca);
        }
        let among = if options.store == StoreKind::Etcd { Among::Others } else { Among::Alone };
        match untouched {
            Some(untouched) => {
                registry = registry.with_reviewers(vec![Arc::<Untouched>::clone(&untouched)]);
                definitions::start(&registry, among, &env).await?;
                untouched.log();
            }
            None => {
                // Concurrently, so that their writes share the store's commits. None reads the others' objects.
                let definitions = definitions::start(&registry, among, &env);
                try_join3(registry.bootstrap(), registry.bootstrap_policy(), definitions).await?;
            }
        }
        registry.repair_allocations().await?;

        let metrics = prometheus::Registry::new();
        identity.following.register(&metrics)?;
        // After the first objects, which no policy and no webhook reviews. Policies come first, as upstream.
        let unreviewed = registry.clone();
        let policies = Policies::new(registry.clone());
        policies.register(&metrics)?;
        registry = registry.with_reviewer(Arc::new(policies));
        let webhooks = Webhooks::new(registry.clone(), options.webhooks.read());
        webhooks.register(&metrics)?;
        registry.set_converter(Arc::new(webhooks.clone()));
        registry = registry.with_reviewer(Arc::new(webhooks));
        let readiness = Readiness::default();
        let page = settings.page.take();
        settings.access.tokens.extend(page.iter().map(PageUser::known));
        let config = Config {
            bind: SocketAddr::new(options.bind_address, options.secure_port),
            registry: registry.clone(),
            credentials: identity.following.credentials().clone(),
            storage: if settings.etcd.is_some() { options.etcd.storage() } else { Storage::default() },
            access: std::mem::take(&mut settings.access),
            limits: limits(options),
            gates: Arc::clone(&settings.api_gates),
            controller_gates: Arc::clone(&settings.controller_gates),
            metrics: metrics.clone(),
            readiness: readiness.clone(),
            rng: Arc::clone(&env.rng),
            users: of_users.handle(),
        };
        let server = Server::bind(config).await.map_err(|error| format!("{} (--secure-port, --bind-address)", chain(&error)))?;
        let address = server.local_addr();
        let page = match page {
            Some(user) => {
                let certificate = &identity.following.credentials().serving.certificate;
                let here = reachable_here(address);
                let server = own::Server {
                    address: here,
                    authority: identity.root_ca_file,
                    name: own::other_name(certificate, here.ip()),
                    registry: registry.clone(),
                    gates: Arc::clone(&settings.controller_gates),
                    env: env.clone(),
                    runtime: of_users.handle(),
                };
                Some(OwnPage::start(user, server).await?)
            }
            None => None,
        };
        let kubeconfig = match &identity.admin {
            Some(admin) => Some(write_kubeconfig(options, data_dir, &identity.following.credentials().root_ca, admin, address)?),
            None => None,
        };

        let reachable = ServerAddress { address: advertised, port: address.port() };
        let presence = service_allocation::start(&registry, reachable, among, &env).await;
        if !is_untouched {
            api_services::start(&registry, &env);
            let statuses = berth_policies::keep_statuses(unreviewed, Arc::clone(&env.clock));
            env.spawner.spawn("policy statuses", Box::pin(statuses));
        }

        let replace = credentials::replacing(server.replace(), &identity.following, &registry, &env);
        tokio::spawn(faults.clone().watch("credentials", identity.following.follow(replace)));
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(faults.clone().watch("API server", server.serve(stopped.map(drop))));
        // Writes that a previous run has sent to an etcd may still arrive.
        let is_late_possible = options.store == StoreKind::Etcd && !is_untouched && settings.controllers.any_managed();
        let leader = if is_late_possible { Some(lead(&registry, &env).await?) } else { None };
        let gate = leader.as_ref().map(Leader::gate);
        let signer = signing::signer(identity.signing, &env);
        let (controllers, lags) = start_controllers(options, &settings, &registry, gate, signer, &env, &metrics)?;
        let leading = leader.map(|leader| Leading::start(leader, &faults));
        let are_synced = Arc::<AtomicBool>::default();
        check_controllers(&readiness, &settings.controllers, &controllers, &are_synced, lags);
        readiness.set_ready();
        let controller_gates = settings.controller_gates;
        let threads = [of_controllers, of_users];
        Ok(Self {
            registry,
            controllers,
            are_synced,
            controller_gates,
            kubeconfig,
            address,
            advertised,
            started,
            faults,
            readiness,
            presence,
            leading,
            stop,
            serving,
            close,
            page,
            threads,
        })
    }

    /// Resolves when the controllers know the initial objects: `/readyz` succeeds from then on.
    pub(crate) async fn synced(&self) {
        self.controllers.synced().await;
        self.are_synced.store(true, Ordering::Release);
    }

    fn announce(&self, options: &Up, data_dir: &Path) {
        let kept = match options.store {
            StoreKind::Embedded => format!("objects are stored in {}", data_dir.display()),
            StoreKind::Memory => "objects are stored only in memory".to_owned(),
            StoreKind::Etcd => format!("objects are stored in {}", options.etcd.connection.place()),
        };
        let took = self.started.elapsed().as_millis();
        Output::Stdout.line(&format!("API server ready at https://{} after {took} ms; {kept}", self.address));
        match &self.kubeconfig {
            Some(kubeconfig) => Output::Stdout.line(&format!("  export KUBECONFIG={}", kubeconfig.path().display())),
            None => Output::Stdout.line("  clients need certificates of the authorities in --client-ca-file"),
        }
        if self.advertised.is_none() {
            Output::Stdout
                .line("  this machine has only a loopback address: the Service kubernetes has no endpoints (--advertise-address)");
        }
    }

    /// Resolves when a part on which others depend has panicked. The server is not ready from then on, and the process must end.
    pub(crate) async fn fault(&self) -> Box<dyn Error> {
        let fault = self.faults.first().await;
        self.readiness.set_stopping();
        fault.into()
    }

    /// Stops everything in order. A signal during the stop ends it at once and is returned. Acknowledged writes survive in both cases.
    pub(crate) async fn stop(mut self, signals: &Signals) -> Option<Signal> {
        let told = signals.count();
        self.readiness.set_stopping();
        let _ = self.stop.send(());
        let page = OptionFuture::from(self.page.map(OwnPage::end));
        let ended = async {
            // Concurrently: clients must find another server at once.
            let leading = OptionFuture::from(self.leading.map(Leading::end));
            let (_, (), _, _) = tokio::join!(&mut self.serving, self.presence.end(), page, leading);
        };
        let hurried = tokio::select! {
            () = ended => None,
            signal = signals.beyond(told) => Some(signal),
        };
        self.serving.abort();
        // Before the store closes, because tasks that are about to write would log errors.
        let [of_controllers, of_users] = self.threads;
        tokio::join!(of_controllers.end(), of_users.end());
        (self.close)();
        hurried
    }
}

fn write_kubeconfig(options: &Up, data_dir: &Path, root_ca: &str, admin: &Pair, address: SocketAddr) -> Outcome<KubeconfigFile> {
    let access = kubeconfig_file::Access {
        server: &format!("https://{}", reachable_here(address)),
        ca_certificate: root_ca,
        client: (&admin.certificate, &admin.key),
    };
    Ok(KubeconfigFile::write(options.kubeconfig_file.as_deref(), data_dir, &access)?)
}

/// An address at which this machine can connect to the listener.
fn reachable_here(address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() { SocketAddr::new([127, 0, 0, 1].into(), address.port()) } else { address }
}

fn start_controllers(
    options: &Up,
    settings: &Settings,
    registry: &Registry,
    gate: Option<Gate>,
    signer: Option<Arc<dyn CertificateSigner>>,
    env: &Env,
    metrics: &prometheus::Registry,
) -> Outcome<(Arc<Metrics>, Arc<Lags>)> {
    let local = LocalCluster::new(registry.clone(), env.clone());
    let cluster: Arc<dyn Cluster> = Arc::new(local.clone());
    let metrics = Arc::new(Metrics::new(metrics)?);
    let manager = ControllerManager {
        cluster: gate.map_or_else(|| Arc::clone(&cluster), |gate| Arc::new(local.clone().fenced_by(gate))),
        env: env.clone(),
        gates: Arc::clone(&settings.controller_gates),
        metrics: Arc::clone(&metrics),
        enabled: settings.controllers.clone(),
        provision_latency: options.control.volume_provision_latency,
        load_balancer_range: options.control.load_balancer_range,
        providers: settings.analyses.providers(),
        signer,
        follower: None,
        usage: None,
        second_writers: SecondWriters::Ignore,
    };
    manager.start();
    let lags = Arc::new(Lags::new(Arc::clone(&env.clock)));
    env.spawner.spawn("informer lags", Arc::clone(&lags).follow(Arc::clone(&cluster), Arc::clone(&metrics)).boxed());
    let events = Recorder::new(Arc::clone(&cluster), env.clone(), Arc::clone(&metrics), "default-scheduler");
    if settings.controllers.contains("scheduler") {
        let cluster: Arc<dyn Cluster> = Arc::new(local.clone().named("berth-scheduler"));
        Scheduler::start(&cluster, env, &events, &metrics);
    }
    if settings.controllers.contains("node") {
        let cluster: Arc<dyn Cluster> = Arc::new(local.named("berth-node"));
        options.nodes.start(&cluster, env, &events, &metrics, Taint::None);
    }
    Ok((metrics, lags))
}

/// Adds the readiness checks of controllers. Controllers without complete caches do nothing yet or the wrong thing, and one whose reconcile
/// hangs does nothing more.
///
/// Caches that start later, for the first budget or a new kind, hold back only their controllers. The server continues to serve.
fn check_controllers(readiness: &Readiness, enabled: &Enabled, metrics: &Arc<Metrics>, are_synced: &Arc<AtomicBool>, lags: Arc<Lags>) {
    let (caches, looks, are_synced) = (Arc::clone(metrics), Arc::clone(metrics), Arc::clone(are_synced));
    readiness.add("informer-sync", Failure::Unready, move || {
        let is_synced = are_synced.load(Ordering::Acquire);
        ready(if is_synced { keeping_up(&lags.longer_than(LAG_MAX)) } else { Err(unsynced(&caches.unsynced())) })
    });
    let hanging = move |metrics: &Metrics| {
        let why = |(queue, age): (String, Duration)| CheckError(format!("{queue} has reconciled one object for {} s", age.as_secs()));
        ready(metrics.hanging(RECONCILE_MAX).map_or(Ok(()), |hanging| Err(why(hanging))))
    };
    let component = Arc::clone(metrics);
    readiness.add("controllers", Failure::Dead, move || hanging(&looks));
    if enabled.any_managed() {
        readiness.add_component("controller-manager", move || hanging(&component));
    }
    if enabled.contains("scheduler") {
        readiness.add_component("scheduler", || ready(Ok(())));
    }
}

fn unsynced(unsynced: &[GroupResource]) -> CheckError {
    let unsynced: Vec<_> = unsynced.iter().map(|resource| resource.plural.clone()).collect();
    CheckError(format!("informers not synced yet: {}", unsynced.join(", ")))
}

fn keeping_up(behind: &[(GroupResource, Duration)]) -> Found {
    let behind: Vec<_> = behind.iter().map(|(resource, age)| format!("{} by {} s", resource.plural, age.as_secs())).collect();
    if behind.is_empty() { Ok(()) } else { Err(CheckError(format!("informers behind: {}", behind.join(", ")))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cli::{self, Command},
        logging::LogFormat,
    };
    use serde_json::Value;
    use std::{env, process};
    use tokio::runtime::Runtime;

    fn options() -> Up {
        let arguments = ["berth", "up", "--store", "memory", "--secure-port", "0"];
        let Command::Up(options) = cli::parse(arguments.map(Into::into)).command else { panic!("that is berth up") };
        options.up
    }

    async fn plane(options: &Up, folder: &Path) -> Plane {
        let settings = Settings::new(options).expect("nothing is wrong with it");
        Plane::start(options, settings, folder, Instant::now()).await.expect("a free port")
    }

    /// A process with a cache that panics.
    fn end_by_a_panic() -> ! {
        logging::start(LogFormat::Json, 0);
        let (options, folder) = (options(), tempfile::tempdir().expect("a folder"));
        let outcome = Runtime::new().expect("threads").block_on(async {
            let signals = Signals::take()?;
            let plane = plane(&options, folder.path()).await;
            tokio::spawn(plane.faults.clone().watch("cache", async { panic!("an unexpected fault") }));
            until_the_end(&options, plane, folder.path(), &[], &signals).await
        });
        process::exit(if crate::end(outcome) == ExitCode::SUCCESS { 0 } else { 1 })
    }

    /// Runs this test's own program again.
    #[test]
    fn a_process_with_a_panicked_part_logs_it_and_ends_with_an_error() {
        const PANICS: &str = "BERTH_TEST_PANICS";
        if env::var_os(PANICS).is_some() {
            end_by_a_panic();
        }
        let name = "up::tests::a_process_with_a_panicked_part_logs_it_and_ends_with_an_error";
        let mut again = process::Command::new(env::current_exe().expect("it has a name"));
        let ended = again.args(["--exact", name, "--nocapture"]).env(PANICS, "1").env_remove("BERTH_LOG").output().expect("it runs");
        let told = String::from_utf8(ended.stderr).expect("text");
        assert_eq!(ended.status.code(), Some(1), "{told}");
        let lines: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).expect("a line of the log")).collect();
        let last = lines.last().and_then(|line| line["fields"]["message"].as_str());
        let end = "berth: the part \"cache\" panicked: an unexpected fault; this is a bug in berth, which exits now";
        assert_eq!(last, Some(end), "{told}");
        let places: Vec<_> = lines.iter().filter_map(|line| line["fields"]["place"].as_str()).collect();
        assert!(matches!(places[..], [place] if place.starts_with(file!())), "{told}");
    }

    #[test]
    fn informers_that_are_behind_are_named() {
        let [pods, nodes] = ["pods", "nodes"].map(|plural| GroupResource::from_static("", plural));
        assert_eq!(unsynced(&[pods.clone(), nodes.clone()]).to_string(), "informers not synced yet: pods, nodes");
        assert_eq!(keeping_up(&[]), Ok(()));
        let behind = [(nodes, Duration::from_secs(11)), (pods, Duration::from_millis(12_700))];
        assert_eq!(keeping_up(&behind), Err(CheckError("informers behind: nodes by 11 s, pods by 12 s".to_owned())));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_part_that_panics_ends_what_relies_on_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let signals = Signals::take().expect("the machine has signals");
        let plane = plane(&options(), folder.path()).await;
        assert!(plane.fault().now_or_never().is_none(), "nothing has happened");
        plane.faults.clone().watch("cache", async { panic!("an unexpected fault") }).await;
        let fault = plane.fault().await.to_string();
        assert_eq!(fault, "the part \"cache\" panicked: an unexpected fault; this is a bug in berth, which exits now");
        assert!(plane.readiness.is_stopping(), "it should be sent no requests");
        assert_eq!(plane.stop(&signals).await, None);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn no_writer_is_left_when_the_store_is_closed() {
        let folder = tempfile::tempdir().expect("a folder");
        let signals = Signals::take().expect("the machine has signals");
        let mut plane = plane(&options(), folder.path()).await;
        let held = Arc::new(());
        for threads in &plane.threads {
            let held = Arc::clone(&held);
            threads.handle().spawn(async move {
                std::future::pending::<()>().await;
                drop(held);
            });
        }
        let left = Arc::downgrade(&held);
        drop(held);
        assert_eq!(left.strong_count(), 2);
        let (tell, told) = std::sync::mpsc::channel();
        let close = plane.close;
        plane.close = Box::new(move || {
            tell.send(left.strong_count()).expect("the receiver waits");
            close();
        });
        assert_eq!(plane.stop(&signals).await, None);
        assert_eq!(told.recv(), Ok(0), "parts that could find it closed and complain");
    }
}
