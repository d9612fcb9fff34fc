//! `berth up`: wires the parts and tells what it does.

use crate::{
    apply::{self, Applied},
    cli::{StoreKind, Up},
    data_dir::DataDir,
    env, logging,
    manifests::{self, Document},
    progress::{self, Version, Workload},
};
use berth_api::FeatureGates;
use berth_apiserver::{
    Access, Config, Kubeconfig, Limits, Pki, PkiOptions, Readiness, Server,
    audit::{self, AuditLog},
    auth::{Anonymous, parse_token_file},
};
use berth_controllers::{
    Cluster, event_ttl,
    events::Recorder,
    local::LocalCluster,
    manager::{ControllerManager, Enabled},
    metrics::Metrics,
};
use berth_node::{Latencies, MissingImages, NodeShape, Nodes, Scheduler};
use berth_registry::{Collection, Registry, WatchEvent, WatchOptions, header_of, resource};
use berth_store::{EmbeddedStore, MemoryStore, Store, env::Env};
use berth_workloads::view::{AppsGroup, DeploymentView, StatefulSetView};
use futures::{FutureExt, Stream, StreamExt, stream};
use std::{
    error::Error,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Starts everything, applies the manifests, runs until it is told to stop.
pub(crate) fn run(options: Up) -> Outcome<()> {
    let started = Instant::now();
    logging::start(options.log_format, options.verbose);
    // Read before anything starts: a broken manifest leaves no trace.
    let documents = manifests::read(&options.filename)?;
    let settings = Settings::new(&options)?;
    let data_dir = DataDir::open(options.data_dir.clone(), options.store)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(options, settings, data_dir.path(), &documents, started))
}

/// What was said on the command line and needs checking before anything starts.
struct Settings {
    api_gates: Arc<FeatureGates>,
    controller_gates: Arc<FeatureGates>,
    controllers: Enabled,
    access: Access,
}

impl Settings {
    fn new(options: &Up) -> Outcome<Self> {
        let gates = |own: &str| FeatureGates::parse(&format!("{},{own}", options.feature_gates)).map(Arc::new);
        let (api_gates, controller_gates) = (gates(&options.apiserver_feature_gates)?, gates(&options.controller_feature_gates)?);
        api_gates.warnings().iter().for_each(|warning| tracing::warn!("API server: {warning}"));
        controller_gates.warnings().iter().for_each(|warning| tracing::warn!("controllers: {warning}"));
        let controllers = Enabled::parse(&options.controllers)?;
        Ok(Self { api_gates, controller_gates, controllers, access: access(options)? })
    }
}

/// Who else is known, and whether an audit log is written.
fn access(options: &Up) -> Outcome<Access> {
    let read = |path: &Path| std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()));
    let tokens = match &options.token_auth_file {
        Some(path) => parse_token_file(&read(path)?).map_err(|error| format!("{}: {error}", path.display()))?,
        None => Vec::new(),
    };
    let audit = match (&options.audit_policy_file, &options.audit_log_path) {
        (Some(policy), Some(log)) => {
            let parsed = audit::Policy::parse(&read(policy)?).map_err(|error| format!("{}: {error}", policy.display()))?;
            Some(AuditLog::open(parsed, log)?)
        }
        _ => None,
    };
    let anonymous = if options.anonymous_auth { Anonymous::Allowed } else { Anonymous::Refused };
    Ok(Access { tokens, anonymous, audit })
}

/// How much the API server takes at a time.
fn limits(options: &Up) -> Limits {
    Limits {
        requests_inflight: options.max_requests_inflight,
        mutating_requests_inflight: options.max_mutating_requests_inflight,
        request_timeout: options.request_timeout,
        ..Limits::default()
    }
}

async fn serve(options: Up, mut settings: Settings, data_dir: &Path, documents: &[Document], started: Instant) -> Outcome<()> {
    let env = env::real(tokio::runtime::Handle::current());
    let Opened { store, close } = open_store(&options, data_dir)?;
    let pki = Pki::load_or_create(
        &PkiOptions { folder: &data_dir.join("pki"), bind: options.bind_address, extra_names: &[], now: env.clock.now() },
        env.rng.as_ref(),
    )?;
    let mut registry = Registry::new(Arc::clone(&store), Arc::clone(&env.clock), Arc::clone(&env.rng), Arc::clone(&settings.api_gates));
    if settings.controllers.contains("root-ca-cert-publisher") {
        registry = registry.with_root_ca(&pki.ca_certificate);
    }
    registry.bootstrap().await?;
    registry.bootstrap_policy().await?;

    let metrics = prometheus::Registry::new();
    let readiness = Readiness::default();
    let config = Config {
        bind: SocketAddr::new(options.bind_address, options.secure_port),
        registry: registry.clone(),
        pki: pki.clone(),
        access: std::mem::take(&mut settings.access),
        limits: limits(&options),
        gates: Arc::clone(&settings.api_gates),
        controller_gates: Arc::clone(&settings.controller_gates),
        metrics: metrics.clone(),
        readiness: readiness.clone(),
        rng: Arc::clone(&env.rng),
    };
    let server = Server::bind(config).await.map_err(|error| format!("{error} (--secure-port, --bind-address)"))?;
    let address = server.local_addr();
    let kubeconfig = write_kubeconfig(&options, data_dir, &pki, address)?;

    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(server.serve(stopped.map(drop)));
    start_controllers(&options, &settings, &registry, &env, &metrics)?;
    readiness.set_ready();
    announce(&options, data_dir, &kubeconfig, address, started);

    let signal = wait_for_signal();
    let mut signal = std::pin::pin!(signal);
    let rolled_out = {
        let rollout = roll_out(&registry, documents);
        tokio::select! {
            result = rollout => result,
            () = &mut signal => Ok(()),
        }
    };
    let told_to_stop = rolled_out.is_ok() && signal.as_mut().now_or_never().is_some();
    if rolled_out.is_ok() && !told_to_stop {
        progress::line("Running. Ctrl-C stops it; the same command goes on from here.");
        signal.await;
    }
    readiness.set_stopping();
    let _ = stop.send(());
    serving.await?;
    close();
    rolled_out
}

/// A store, and how to finish what it has begun.
struct Opened {
    store: Arc<dyn Store>,
    close: Box<dyn FnOnce()>,
}

fn open_store(options: &Up, data_dir: &Path) -> Outcome<Opened> {
    match options.store {
        StoreKind::Memory => Ok(Opened { store: Arc::new(MemoryStore::new(header_of(), options.history_bytes)), close: Box::new(|| ()) }),
        StoreKind::Embedded => {
            let store = Arc::new(EmbeddedStore::open(&data_dir.join("store"), header_of(), options.history_bytes)?);
            Ok(Opened { store: Arc::<EmbeddedStore>::clone(&store), close: Box::new(move || store.close()) })
        }
    }
}

fn write_kubeconfig(options: &Up, data_dir: &Path, pki: &Pki, address: SocketAddr) -> Outcome<PathBuf> {
    let path = options.kubeconfig_file.clone().unwrap_or_else(|| data_dir.join("kubeconfig"));
    let reachable = if address.ip().is_unspecified() { SocketAddr::new([127, 0, 0, 1].into(), address.port()) } else { address };
    let kubeconfig = Kubeconfig {
        name: "berth",
        server: &format!("https://{reachable}"),
        ca_certificate: &pki.ca_certificate,
        client_certificate: &pki.admin.certificate,
        client_key: &pki.admin.key,
    };
    kubeconfig.write(&path).map_err(|error| format!("cannot write the kubeconfig {}: {error}", path.display()))?;
    Ok(path)
}

fn start_controllers(options: &Up, settings: &Settings, registry: &Registry, env: &Env, metrics: &prometheus::Registry) -> Outcome<()> {
    let local = LocalCluster::new(registry.clone(), env.clone());
    let cluster: Arc<dyn Cluster> = Arc::new(local.clone());
    let metrics = Arc::new(Metrics::new(metrics)?);
    let manager = ControllerManager {
        cluster: Arc::clone(&cluster),
        env: env.clone(),
        gates: Arc::clone(&settings.controller_gates),
        metrics: Arc::clone(&metrics),
        enabled: settings.controllers.clone(),
        groups: vec![AppsGroup::Apps],
        provision_latency: options.volume_provision_latency,
    };
    manager.start();
    event_ttl::start(registry.clone(), env);
    let events = Recorder::new(Arc::clone(&cluster), env.clone(), Arc::clone(&metrics), "default-scheduler");
    if settings.controllers.contains("scheduler") {
        let cluster: Arc<dyn Cluster> = Arc::new(local.clone().named("berth-scheduler"));
        Scheduler::start(&cluster, env, &events, &metrics);
    }
    if settings.controllers.contains("node") {
        let shape = node_shape(options);
        let latencies = Latencies { start: options.pod_start_latency, stop: options.pod_stop_latency };
        let cluster: Arc<dyn Cluster> = Arc::new(local.named("berth-node"));
        Nodes::start(&cluster, env, &events, &metrics, (options.nodes, shape, latencies));
    }
    Ok(())
}

/// What the simulated nodes have.
fn node_shape(options: &Up) -> NodeShape {
    let mut shape = NodeShape::new(&options.node_cpu, &options.node_memory, options.node_pods);
    shape.resources.extend(options.node_resources.iter().cloned());
    shape.labels.extend(options.node_labels.iter().cloned());
    shape.zones.clone_from(&options.zones);
    shape.missing_images = MissingImages::matching(options.image_fails.clone());
    shape
}

fn announce(options: &Up, data_dir: &Path, kubeconfig: &Path, address: SocketAddr, started: Instant) {
    let kept = match options.store {
        StoreKind::Embedded => format!("objects are kept in {}", data_dir.display()),
        StoreKind::Memory => "objects are kept in memory only".to_owned(),
    };
    progress::line(&format!("API server ready at https://{address} after {} ms; {kept}", started.elapsed().as_millis()));
    progress::line(&format!("  export KUBECONFIG={}", kubeconfig.display()));
}

/// Applies the documents in order and shows their workloads until they are rolled out.
async fn roll_out(registry: &Registry, documents: &[Document]) -> Outcome<()> {
    if documents.is_empty() {
        return Ok(());
    }
    let started = Instant::now();
    let mut workloads = Vec::new();
    for document in documents {
        let applied = apply::apply(registry, document).await?;
        progress::line(&applied.to_string());
        applied.warnings.iter().for_each(|warning| progress::line(&format!("  warning: {warning}")));
        workloads.extend(workload(&applied));
    }
    if workloads.is_empty() {
        return Ok(());
    }
    let deployments = versions(registry, "Deployment", |bytes| Some(Version::of_deployment(&DeploymentView::decode(bytes, 0).ok()?)));
    let sets = versions(registry, "StatefulSet", |bytes| Some(Version::of_stateful_set(&StatefulSetView::decode(bytes, 0).ok()?)));
    let (deployments, sets) = (deployments.await?, sets.await?);
    progress::show(&workloads, stream::select(deployments, sets)).await;
    progress::line(&format!("{} rolled out after {:.1} s", count(&workloads), started.elapsed().as_secs_f64()));
    Ok(())
}

fn workload(applied: &Applied) -> Option<Workload> {
    let kind = match applied.resource.kind {
        "Deployment" => progress::DEPLOYMENT,
        "StatefulSet" => progress::STATEFUL_SET,
        _ => return None,
    };
    Some((kind, applied.namespace.clone().unwrap_or_default(), applied.name.clone()))
}

/// `3 Deployments and 1 StatefulSet`
fn count(workloads: &[Workload]) -> String {
    let of = |kind: &str, name: &str| match workloads.iter().filter(|workload| workload.0 == kind).count() {
        0 => None,
        1 => Some(format!("1 {name}")),
        some => Some(format!("{some} {name}s")),
    };
    let texts: Vec<String> =
        [of(progress::DEPLOYMENT, "Deployment"), of(progress::STATEFUL_SET, "StatefulSet")].into_iter().flatten().collect();
    texts.join(" and ")
}

/// Every object of an `apps/v1` kind as it is now, then each new version.
async fn versions(registry: &Registry, kind: &str, read: fn(&[u8]) -> Option<Version>) -> Outcome<impl Stream<Item = Version> + use<>> {
    let resource = resource::by_kind("apps/v1", kind).ok_or("a workload is not in the resource table")?;
    let all = Collection { resource, namespace: None };
    let events = registry.watch(&all, &WatchOptions::default()).await?;
    Ok(events.filter_map(move |event| async move {
        let entry = match event {
            WatchEvent::Added(entry) => entry,
            WatchEvent::Modified(event) => Arc::clone(&event.entry),
            WatchEvent::Deleted { .. } | WatchEvent::Bookmark { .. } | WatchEvent::Expired(_) => return None,
        };
        read(&entry.value)
    }))
}

/// Resolves at SIGINT or SIGTERM.
async fn wait_for_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).expect("a signal handler can be installed");
    tokio::select! {
        _ = tokio::signal::ctrl_c() => (),
        _ = terminate.recv() => (),
    }
}
