//! The simulation of a forecast: a store, the API rules, the controllers, the scheduler and the nodes, wired as `berth up` wires them, in virtual time.

mod replayed_writes;

use crate::{
    analyses::Analyses,
    controller_log::{ControllerLog, DiscardEvents},
    difference::{creatable, difference},
    error::PlanError,
    snapshot::Controllers,
    version::Changed,
};
use berth_api::{FeatureGates, Object};
use berth_controllers::{
    Cluster,
    autoscaler::PodUsage,
    events::Recorder,
    executor::PlanObserver,
    guard::SecondWriters,
    manager::{ControllerManager, Enabled},
    metrics::Metrics,
};
use berth_identity::{GroupResource, GroupVersionKind};
use berth_local::{LocalCluster, definitions, service_allocation::Among};
use berth_node::{ForeignNodes, Nodes, Scheduler};
use berth_registry::{
    Actor, ApiError, Body, Collection, Current, GetOptions, ManifestFields, Patch, Registry, ResourceTable, Reviewer, Target, WriteOptions,
    resource::built_in,
};
use berth_sim::{
    network::{Faults, Network, SimCluster, Writes},
    rng::{Purpose, SeededRng},
    store::SimStore,
};
use berth_store::{
    Entry, Event, MemoryStore, RangeRequest, Revision, Store, Watch, WatchItem,
    env::{Clock, Env, Rng, Spawner, Timestamp},
    virtual_time::{Order, Process, Step, VirtualTime},
};
use futures::{FutureExt, StreamExt};
use serde_json::Value;
use std::{
    borrow::Borrow,
    collections::VecDeque,
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

/// How much history the store keeps. All watchers are nearly up to date.
const HISTORY_BYTES: usize = 16 << 20;
/// The size of recent writes that are kept decoded, measured in stored bytes: some twenty thousand pods.
const REMEMBERED_BYTES: usize = 64 << 20;
/// The delay after a change until watchers of other resources get a bookmark: short, as with the embedded store.
const PROGRESS_AFTER: Duration = Duration::from_millis(10);
/// How often a write of the forecast itself yields to other tasks at most, if it waits for nothing.
const POLLS_MAX: usize = 64;
/// The timeout of a write of the forecast itself.
const CALL_MAX: Duration = Duration::from_secs(60);
/// The maximum number of writes of a simulation, which repeated creations of pods would otherwise never reach. It takes almost an hour.
const WRITES_MAX: u64 = 20_000_000;
/// How long provisioning takes.
const PROVISION_LATENCY: Duration = Duration::from_secs(5);
/// The controllers that run. Nodes do not fail meanwhile, and neither garbage collection nor Services affect a rollout.
const CONTROLLERS: &str =
    "daemonset,deployment,disruption,job,persistentvolume-binder,replicaset,replicationcontroller,resourcequota,statefulset";
/// The controller of autoscalers, which runs only if the usage of their pods is known.
const AUTOSCALERS: &str = "horizontalpodautoscaling";
/// The field manager of the change.
const MANAGER: &str = "berth-plan";

/// A simulated cluster that starts from a snapshot.
pub(crate) struct Simulation {
    time: VirtualTime,
    store: Arc<SimStore>,
    registry: Registry,
    /// The same without reviewers.
    unreviewed: Registry,
    api: Arc<dyn Cluster>,
    rng: Arc<dyn Rng>,
    seed: u64,
    user: Process,
    parts: Process,
    changes: Watch,
    /// Whether the store has changed since `changes` was last read to its end.
    has_changed: Arc<Flag>,
    /// The number of writes.
    writes: u64,
    /// The maximum number of writes.
    pub(crate) writes_max: u64,
    /// Changes that no caller has received yet.
    undelivered: VecDeque<Arc<Event>>,
    progress_due: Option<Timestamp>,
    log: Arc<ControllerLog>,
    metrics: Arc<Metrics>,
    /// The result of analyses.
    pub(crate) analyses: Analyses,
    /// The kind of the controllers. Parts of objects that they do not support are left out.
    pub(crate) controllers: Controllers,
    /// The API server from which it was created.
    pub(crate) server: Server,
    /// The gates of the controllers.
    pub(crate) gates: FeatureGates,
    /// The usage of pods. `None`: no autoscaler runs.
    pub(crate) usage: Option<Arc<dyn PodUsage>>,
}

/// The API server of a simulation.
#[derive(Clone, Default)]
pub(crate) struct Server {
    pub(crate) gates: FeatureGates,
    /// The first reviewers of its writes.
    pub(crate) first: Option<Arc<dyn Reviewers>>,
    /// The last reviewers of its writes.
    pub(crate) reviewers: Vec<Arc<dyn Reviewer>>,
}

/// Makes reviewers that read the cluster.
pub(crate) trait Reviewers: Send + Sync {
    /// The reviewers of writes. `registry` is the API without them.
    fn reviewers(&self, registry: &Registry) -> Vec<Arc<dyn Reviewer>>;
}

/// Is set when its waker is woken.
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The identity of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) kind: GroupVersionKind,
    /// Empty if its kind is cluster-scoped.
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Simulation {
    /// An empty cluster at `begins`.
    pub(crate) fn new(seed: u64, begins: Timestamp, server: &Server) -> Self {
        let time = VirtualTime::new(Order::Random, Arc::new(SeededRng::new(seed, Purpose::Order)), begins);
        let rng: Arc<dyn Rng> = Arc::new(SeededRng::new(seed, Purpose::Names));
        let table = Arc::new(ResourceTable::default());
        let store = Arc::new(SimStore(MemoryStore::new_quiet(Arc::clone(&table), HISTORY_BYTES)));
        let changes = store.watch("/registry/", Revision(0)).expect("nothing is compacted yet");
        let clock: Arc<dyn Clock> = Arc::new(time.clone());
        let registry =
            Registry::new(Arc::<SimStore>::clone(&store), table, Arc::clone(&clock), Arc::clone(&rng), Arc::new(server.gates.clone()));
        let unreviewed = registry.remembering(REMEMBERED_BYTES);
        let first = server.first.iter().flat_map(|first| first.reviewers(&unreviewed));
        let registry = unreviewed.clone().with_reviewers(first.chain(server.reviewers.iter().cloned()).collect());
        let (user, parts) = (time.process(), time.process());
        let env = Env { clock: Arc::clone(&clock), rng: Arc::clone(&rng), spawner: Arc::new(user.clone()) };
        let api: Arc<dyn Cluster> = Arc::new(LocalCluster::new(registry.clone(), env));
        let metrics = Arc::new(Metrics::new(&prometheus::Registry::new()).expect("the registry is empty"));
        let log = Arc::new(ControllerLog::new(clock));
        Self {
            time,
            store,
            registry,
            unreviewed,
            api,
            rng,
            seed,
            user,
            parts,
            changes,
            has_changed: Arc::new(Flag(AtomicBool::new(true))),
            writes: 0,
            writes_max: WRITES_MAX,
            undelivered: VecDeque::new(),
            progress_due: None,
            log,
            metrics,
            analyses: Analyses::default(),
            controllers: Controllers::Berth,
            server: server.clone(),
            gates: FeatureGates::default(),
            usage: None,
        }
    }

    /// Puts objects into the store without changes.
    ///
    /// # Errors
    /// An object cannot be decoded.
    pub(crate) fn restore(&mut self, objects: impl IntoIterator<Item: Borrow<Value>>) -> Result<(), PlanError> {
        for object in objects {
            let object = &*self.controllers.supported_part(object.borrow());
            let restored = {
                let mut restored = pin!(self.registry.restore(object));
                // The store yields to other tasks, but waits for nothing.
                (0..POLLS_MAX).find_map(|_| restored.as_mut().now_or_never())
            };
            restored.ok_or_else(|| PlanError::Fault("the store waits for something".to_owned()))?.map_err(|source| {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                PlanError::Snapshot { kind: text(&object["kind"]), name: text(&object["metadata"]["name"]), source }
            })?;
            // One by one, so that each change is processed before the store's history drops it.
            self.hear()?;
        }
        Ok(())
    }

    /// The decoded object of an entry's value, if it was written recently.
    pub(crate) fn written_lately(&self, entry: &Entry) -> Option<Arc<dyn Object>> {
        self.registry.written_lately(entry)
    }

    /// Starts controllers, scheduler and nodes.
    pub(crate) fn start(&self, nodes: ForeignNodes) {
        self.start_these(nodes, CONTROLLERS);
    }

    fn start_these(&self, nodes: ForeignNodes, enabled: &str) {
        let spawner: Arc<dyn Spawner> = Arc::new(self.parts.clone());
        let clock: Arc<dyn Clock> = Arc::new(self.time.clone());
        let network = Network::new(self.seed, Arc::clone(&clock), Arc::clone(&spawner), Faults::NONE);
        let env = Env { clock, rng: Arc::clone(&self.rng), spawner };
        let inner = SimCluster::new(Arc::clone(&self.api), network, Writes::default());
        let cluster: Arc<dyn Cluster> = Arc::new(DiscardEvents { inner, log: Arc::clone(&self.log) });
        let metrics = Arc::clone(&self.metrics);
        let events = Recorder::new(Arc::clone(&cluster), env.clone(), Arc::clone(&metrics), "default-scheduler");
        let enabled = if self.usage.is_some() { format!("{enabled},{AUTOSCALERS}") } else { enabled.to_owned() };
        Scheduler::start(&cluster, &env, &events, &metrics);
        Nodes::take_on(&cluster, &env, &events.of("kubelet"), &metrics, nodes);
        ControllerManager {
            cluster,
            env,
            gates: Arc::new(self.gates.clone()),
            metrics,
            enabled: Enabled::parse(&enabled).expect("all are known"),
            provision_latency: PROVISION_LATENCY,
            load_balancer_range: "198.51.100.0/24".parse().expect("a range"),
            providers: Arc::new(self.analyses),
            signer: None,
            follower: Some(Arc::<ControllerLog>::clone(&self.log) as Arc<dyn PlanObserver>),
            usage: self.usage.clone(),
            second_writers: SecondWriters::Ignore,
        }
        .start();
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.time.now()
    }

    pub(crate) fn log(&self) -> Arc<ControllerLog> {
        Arc::clone(&self.log)
    }

    /// Runs one task, not beyond `until`. `changed` receives each change of the store. Returns whether anything is left to do before then.
    ///
    /// # Errors
    /// A fault in berth, and [`PlanError::TooLong`].
    pub(crate) fn step(&mut self, until: Timestamp, mut changed: impl FnMut(&str, Changed)) -> Result<bool, PlanError> {
        let first = self.progress_due.map_or(until, |at| at.min(until));
        let mut step = self.time.step(first);
        if self.progress_due.is_some_and(|at| at <= self.time.now()) {
            self.progress_due = None;
            self.store.0.report_progress();
            step = Step::Ran;
        }
        self.hear()?;
        if self.writes_max < self.writes {
            return Err(PlanError::TooLong { writes: self.writes_max });
        }
        for event in self.undelivered.drain(..) {
            // A key that is not a built-in object's belongs to a custom object, or to a name or address reservation.
            if let Some(resource) = built_in().by_key(event.entry.key.as_str()) {
                let object = self.registry.written_lately(&event.entry);
                changed(resource.plural(), Changed { event, object });
            }
        }
        Ok(step != Step::Quiet)
    }

    /// Processes the changes of the store before its history drops them.
    fn hear(&mut self) -> Result<(), PlanError> {
        if !self.has_changed.0.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let waker = Waker::from(Arc::clone(&self.has_changed));
        while let Poll::Ready(Some(item)) = self.changes.poll_next_unpin(&mut Context::from_waker(&waker)) {
            match item {
                Ok(WatchItem::Events(events)) => {
                    self.progress_due.get_or_insert(self.time.now() + PROGRESS_AFTER);
                    self.writes += events.len() as u64;
                    self.undelivered.extend(events.iter().cloned());
                }
                Ok(WatchItem::Progress(_)) => (),
                Err(error) => return Err(PlanError::Fault(format!("the store's changes cannot be followed: {error}"))),
            }
        }
        Ok(())
    }

    /// A server survives a panic in a reconcile, but a forecast is wrong then.
    ///
    /// # Errors
    /// A reconcile panicked.
    pub(crate) fn check_panics(&self) -> Result<(), PlanError> {
        if self.metrics.has_panics() { Err(PlanError::Fault("a reconcile panicked".to_owned())) } else { Ok(()) }
    }

    /// The present object. `Null` if it does not exist.
    pub(crate) fn get(&mut self, subject: &Subject) -> Result<Value, PlanError> {
        let target = self.target(subject)?;
        let registry = self.registry.clone();
        match self.block_on(async move { registry.get(&target, &GetOptions::default()).await })? {
            Ok(Current::Stored(entry)) => serde_json::from_slice(&entry.value).map_err(|error| PlanError::Fault(error.to_string())),
            Ok(Current::Made(value)) => Ok(value),
            Err(ApiError::NotFound { .. }) => Ok(Value::Null),
            Err(source) => Err(subject.refused(source)),
        }
    }

    /// All objects of a resource.
    pub(crate) fn all(&self, resource: &GroupResource) -> Vec<Arc<Entry>> {
        let resources = self.registry.resources();
        let Some(resource) = resources.by_name(resource) else { return Vec::new() };
        let range = self.store.0.range(RangeRequest::all(resource.prefix())).now_or_never();
        range.and_then(Result::ok).map(|range| range.entries).unwrap_or_default()
    }

    /// The same as JSON.
    pub(crate) fn objects(&self, resource: &GroupResource) -> Vec<Value> {
        self.all(resource).iter().filter_map(|entry| serde_json::from_slice(&entry.value).ok()).collect()
    }

    /// Applies a manifest, as `kubectl apply` does.
    ///
    /// # Errors
    /// The errors of the API server.
    pub(crate) fn apply(&mut self, manifest: &Value, namespace: &str) -> Result<(), PlanError> {
        self.configure(self.registry.clone(), manifest, namespace, options())
    }

    /// The same without reviewers, for an object that they have reviewed.
    ///
    /// # Errors
    /// The errors of the API server.
    pub(crate) fn apply_unreviewed(&mut self, manifest: &Value, namespace: &str) -> Result<(), PlanError> {
        self.configure(self.unreviewed.clone(), manifest, namespace, options())
    }

    /// Checks a manifest as an apply does, and stores nothing.
    ///
    /// # Errors
    /// The errors of the API server.
    pub(crate) fn check(&mut self, manifest: &Value, namespace: &str) -> Result<(), PlanError> {
        self.configure(self.registry.clone(), manifest, namespace, WriteOptions { dry_run: vec!["All".to_owned()], ..options() })
    }

    fn configure(&mut self, registry: Registry, manifest: &Value, namespace: &str, options: WriteOptions) -> Result<(), PlanError> {
        let subject = Subject::of(manifest, namespace);
        let target = self.target(&subject)?;
        let manifest = self.controllers.supported_part(manifest).into_owned();
        let written =
            self.block_on(async move { registry.configure(&Actor::System, &target, &manifest, ManifestFields::All, &options).await })?;
        written.map(drop).map_err(|source| subject.refused(source))
    }

    /// Begins to serve the kinds of definitions.
    ///
    /// # Errors
    /// A fault in berth.
    pub(crate) fn follow_definitions(&mut self) -> Result<(), PlanError> {
        let clock: Arc<dyn Clock> = Arc::new(self.time.clone());
        let env = Env { clock, rng: Arc::clone(&self.rng), spawner: Arc::new(self.user.clone()) };
        let registry = self.unreviewed.clone();
        let started = self.block_on(async move { definitions::start(&registry, Among::Alone, &env).await })?;
        started.map_err(|error| PlanError::Fault(error.to_string()))
    }

    /// Waits until the kinds of all definitions are served.
    ///
    /// # Errors
    /// A fault in berth.
    pub(crate) fn definitions_served(&mut self) -> Result<(), PlanError> {
        let registry = self.unreviewed.clone();
        let served = self.block_on(async move { registry.definitions_served().await })?;
        served.map_err(|error| PlanError::Fault(error.to_string()))
    }

    /// Whether a kind is served.
    pub(crate) fn serves(&self, kind: &GroupVersionKind) -> bool {
        self.registry.resources().by_kind(kind).is_some()
    }

    /// Changes an object by a JSON merge patch.
    ///
    /// # Errors
    /// The errors of the API server.
    pub(crate) fn patch(&mut self, subject: &Subject, patch: Value) -> Result<(), PlanError> {
        self.patch_in(self.registry.clone(), subject, &patch)
    }

    /// The same without reviewers, for an object that they have reviewed.
    ///
    /// # Errors
    /// The errors of the API server.
    pub(crate) fn patch_unreviewed(&mut self, subject: &Subject, patch: &Value) -> Result<(), PlanError> {
        self.patch_in(self.unreviewed.clone(), subject, patch)
    }

    fn patch_in(&mut self, registry: Registry, subject: &Subject, patch: &Value) -> Result<(), PlanError> {
        let target = self.target(subject)?;
        let patch = self.controllers.supported_part(patch).into_owned();
        let written = self.block_on(async move { registry.patch(&Actor::System, &target, Patch::MergeValue(patch), &options()).await })?;
        written.map(drop).map_err(|source| subject.refused(source))
    }

    /// Makes an object equal to a server's dry-run result, which the server has reviewed.
    ///
    /// # Errors
    /// The errors of reading and writing it.
    pub(crate) fn take(&mut self, answer: &Value) -> Result<(), PlanError> {
        let subject = Subject::of(answer, "");
        let before = self.get(&subject)?;
        if before.is_null() {
            self.make_namespace(&subject.namespace)?;
            return self.apply_unreviewed(&creatable(answer), &subject.namespace);
        }
        difference(&before, answer).map_or(Ok(()), |patch| self.patch_unreviewed(&subject, &patch))
    }

    /// Creates a namespace and its required objects if it does not exist.
    pub(crate) fn make_namespace(&mut self, name: &str) -> Result<(), PlanError> {
        let resources = self.registry.resources();
        let resource = Arc::clone(resources.by_kind(&GroupVersionKind::from_static("", "v1", "Namespace")).expect("it is built in"));
        let body = Body::Json(serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).to_string().into());
        // It is not part of the change, so that no policy reviews it.
        let registry = self.unreviewed.clone();
        let at = Collection { resource, namespace: None };
        match self.block_on(async move { registry.create(&Actor::System, &at, body, &options()).await })? {
            Ok(_) | Err(ApiError::AlreadyExists { .. }) => Ok(()),
            Err(source) => Err(PlanError::Refused { what: format!("namespace {name}"), source }),
        }
    }

    fn target(&self, subject: &Subject) -> Result<Target, PlanError> {
        let resources = self.registry.resources();
        let resource = resources.by_kind(&subject.kind).cloned();
        let resource = resource
            .ok_or_else(|| PlanError::Change(format!("berth serves no kind {} of {}", subject.kind.kind, subject.kind.group_version())))?;
        let namespace = Some(&subject.namespace).filter(|_| resource.scope == berth_api::Scope::Namespaced).cloned();
        Ok(Target { resource, namespace, name: subject.name.clone(), subresource: None })
    }

    /// Runs the simulation until the future resolves. Changes meanwhile are kept for the next step.
    fn block_on<T: Send + 'static>(&mut self, future: impl Future<Output = T> + Send + 'static) -> Result<T, PlanError> {
        let answer = Arc::new(Mutex::new(None));
        let sink = Arc::clone(&answer);
        let put = move |value| *sink.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        self.user.spawn("plan", future.map(put).boxed());
        let until = self.time.now() + CALL_MAX;
        loop {
            if let Some(value) = answer.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return Ok(value);
            }
            if self.time.step(until) == Step::Quiet {
                return Err(PlanError::Fault("a write of its own does not end".to_owned()));
            }
            self.hear()?;
        }
    }
}

impl Subject {
    /// The object of a manifest, in `namespace` if the manifest contains none.
    pub(crate) fn of(manifest: &Value, namespace: &str) -> Self {
        let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let named = Some(text("/metadata/namespace")).filter(|named| !named.is_empty());
        let namespace = named.unwrap_or_else(|| namespace.to_owned());
        let kind = GroupVersionKind::as_written(&text("/apiVersion"), &text("/kind"));
        Self { kind, namespace, name: text("/metadata/name") }
    }

    fn refused(&self, source: ApiError) -> PlanError {
        PlanError::Refused { what: format!("{} {}", self.kind.kind, self.name), source }
    }
}

impl Drop for Simulation {
    /// Tasks own the time that owns them. Without this, the memory of a simulation would never be freed.
    fn drop(&mut self) {
        [&self.user, &self.parts].into_iter().for_each(Process::kill);
    }
}

fn options() -> WriteOptions {
    WriteOptions { field_manager: MANAGER.to_owned(), ..WriteOptions::default() }
}
