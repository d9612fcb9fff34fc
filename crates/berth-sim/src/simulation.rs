//! The control plane, wired as `berth up` wires it.

mod kept;
mod leaders;
mod user;

use crate::{
    check::{Changed, Checker, Presence, Violation},
    lock,
    machine::SimMachine,
    network::{Crash, Faults, Leaderships, Network, Removed, SimCluster, Writes},
    providers::DrawnProviders,
    rng::{Purpose, SeededRng},
    seeds::{self, SEED_VARIABLE},
    store::SimStore,
};
use berth_api::{FeatureGates, fencing::FencingToken};
use berth_controllers::{
    Cluster,
    events::Recorder,
    guard::SecondWriters,
    manager::{ControllerManager, Enabled},
    metrics::Metrics,
};
use berth_env::steady_time::SteadyTime;
use berth_identity::Revision;
use berth_local::LocalCluster;
use berth_node::{Latencies, NodeShape, Nodes, Scheduler};
use berth_registry::{Registry, ResourceTable};
use berth_store::{
    Event, EventKind, RangeRequest, Store,
    env::{Clock, Env, Rng, Spawner, Timestamp},
    etcd::SETTLED_WITHIN,
    files::disk::Disk,
    virtual_time::{Order, Process, Step, VirtualTime},
};
use bytes::Bytes;
use futures::FutureExt;
use jiff::SignedDuration;
use kept::{Backend, Changes, Kept, here, in_etcd, store_on};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

/// Where time begins: 2026-01-01 00:00 UTC.
const BEGINNING_SECONDS: i64 = 1_767_225_600;
/// How long after a change watchers of other resources hear how far the store has come: soon, as from the embedded store, not each time.
const PROGRESS_AFTER: Duration = Duration::from_millis(10);
/// For facts that are reported with a delay, such as conditions.
const SETTLING: Duration = Duration::from_secs(20);
/// How long nothing may change where nothing is left to do.
const RESTING: Duration = Duration::from_secs(40);
/// More steps than anything needs before time passes, so that work without end is seen to have none.
const STEPS_AT_ONCE_MAX: u64 = 10_000_000;
/// More lines than the log of anything that comes to rest has: the longest storms have some thousands. One without end fails within seconds, and some ten
/// megabytes.
const LINES_MAX: usize = 100_000;
/// How many lines of the log a failure shows, unless [`LINES_VARIABLE`] is set.
const SHOWN_LINES: usize = 50;
/// How long it takes to make a volume.
const PROVISION_LATENCY: Duration = Duration::from_secs(5);
/// How many lines of the log a failure is to show.
const LINES_VARIABLE: &str = "BERTH_SIM_LOG_LINES";
/// How long a call of the test may take.
const CALL_MAX: Duration = Duration::from_secs(60);

/// How a simulation is built.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Which of the tasks that could run is run.
    pub order: Order,
    /// What goes wrong between the processes and the API.
    pub faults: Faults,
    /// How many nodes there are.
    pub nodes: u32,
    /// How long pods take to start and to stop.
    pub latencies: Latencies,
    /// Whether there are two managers of controllers, of which one leads.
    pub standby: bool,
}

impl Default for Options {
    fn default() -> Self {
        let latencies = Latencies { start: Duration::from_secs(20), stop: Duration::from_secs(30) };
        Self { order: Order::Random, faults: Faults::NONE, nodes: 3, latencies, standby: false }
    }
}

/// A process of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// All controllers.
    Controllers,
    /// The same once more, where there are [two](Options::standby).
    Standby,
    /// The scheduler.
    Scheduler,
    /// All nodes.
    Nodes,
}

/// The positions of the feature gates, which may differ between the two.
#[derive(Clone, Debug, Default)]
pub struct Gates {
    /// The API server's.
    pub api: Arc<FeatureGates>,
    /// The controllers'.
    pub controllers: Arc<FeatureGates>,
}

/// A control plane in virtual time.
pub struct Simulation {
    seed: u64,
    options: Options,
    time: VirtualTime,
    /// What time the parts think it is.
    clock: Arc<dyn Clock>,
    machine: SimMachine,
    names: Arc<SeededRng>,
    network: Network,
    /// The controllers', over all their lives.
    writes: Writes,
    /// What the nodes let go of, before the store shows it.
    let_go: Removed,
    gates: Gates,
    kept: Kept,
    /// Where the store is durable, if it is.
    disk: Option<Disk>,
    /// Since time has passed.
    steps_at_once: u64,
    /// When watchers of quiet resources hear of the store's progress, if there was any.
    report_progress_at: Option<Timestamp>,
    registry: Registry,
    api: Arc<dyn Cluster>,
    /// The server that the parts speak to.
    api_of_parts: LocalCluster,
    /// What managers of controllers do that lead.
    leaderships: Leaderships,
    /// Those that lead no longer, and end.
    ended: Arc<Mutex<Vec<Part>>>,
    /// The leaders so far, from the lease, and since when.
    fencing_tokens: BTreeMap<Revision, FencingToken>,
    /// How many processes were started.
    started: u64,
    user: Process,
    parts: BTreeMap<Part, Process>,
    /// What the newest process of each part counts.
    metrics: BTreeMap<Part, Arc<Metrics>>,
    changes: Changes,
    checker: Checker,
    log: Vec<String>,
    /// The newest version of each object that is there, by plural and name.
    objects: BTreeMap<(String, String), Bytes>,
}

impl Simulation {
    /// A simulation in which every part runs.
    #[must_use]
    pub fn new(seed: u64, options: Options) -> Self {
        let begun = beginning(seed, options);
        Self::by(Arc::new(begun.0.clone()), begun, Backend::Memory, seed, options)
    }

    /// The same, in which the store is in an etcd that a second server shares: the user's. It fails that of the parts now and then.
    #[must_use]
    pub fn in_etcd(seed: u64, options: Options) -> Self {
        let begun = beginning(seed, options);
        Self::by(Arc::new(begun.0.clone()), begun, Backend::Etcd, seed, options)
    }

    /// The same, in which the store is durable and [power can be lost](Self::lose_power).
    #[must_use]
    pub fn on_disk(seed: u64, options: Options) -> Self {
        let begun = beginning(seed, options);
        Self::by(Arc::new(begun.0.clone()), begun, Backend::Disk(Disk::default()), seed, options)
    }

    /// The same, whose parts have the time of a machine, as in production: its [clock can be set](Self::set_clock).
    #[must_use]
    pub fn on_a_machine(seed: u64, options: Options) -> Self {
        let (time, machine) = beginning(seed, options);
        let clock = SteadyTime::new(machine.clone());
        let sim = Self::by(Arc::new(clock.clone()), (time, machine), Backend::Memory, seed, options);
        sim.user.spawn("clock", clock.follow(|_| ()).boxed());
        sim
    }

    fn by(clock: Arc<dyn Clock>, (time, machine): (VirtualTime, SimMachine), backend: Backend, seed: u64, options: Options) -> Self {
        let names = Arc::new(SeededRng::new(seed, Purpose::Names));
        let table = Arc::new(ResourceTable::default());
        let gates = Gates::default();
        let rng: Arc<dyn Rng> = Arc::<SeededRng>::clone(&names);
        let user = time.process();
        let env = Env { clock: Arc::clone(&clock), rng, spawner: Arc::new(user.clone()) };
        let (kept, changes, disk) = match backend {
            Backend::Memory => here(None, &table),
            Backend::Disk(disk) => here(Some(disk), &table),
            Backend::Etcd => in_etcd(seed, &time, &user, &table, &env),
        };
        let (registry, api) = server(kept.of_user(), &table, &env, &gates);
        let api: Arc<dyn Cluster> = Arc::new(api);
        let (_, api_of_parts) = server(kept.of_parts(), &table, &env, &gates);
        let mut sim = Self {
            seed,
            options,
            network: Network::new(seed, Arc::new(time.clone()), Arc::new(user.clone()), options.faults),
            clock,
            machine,
            api,
            api_of_parts,
            leaderships: Leaderships::default(),
            ended: Arc::default(),
            fencing_tokens: BTreeMap::new(),
            started: 0,
            writes: Writes::default(),
            let_go: Removed::default(),
            time,
            names,
            gates,
            kept,
            disk,
            steps_at_once: 0,
            report_progress_at: None,
            registry,
            user,
            parts: BTreeMap::new(),
            metrics: BTreeMap::new(),
            changes,
            checker: Checker::default(),
            log: Vec::new(),
            objects: BTreeMap::new(),
        };
        if matches!(sim.kept, Kept::Etcd { .. }) {
            sim.checker.set_late_by(SETTLED_WITHIN);
        }
        let registry = sim.registry.clone();
        sim.block_on(async move { registry.bootstrap().await }).expect("the store is empty");
        sim.parts().into_iter().for_each(|part| sim.start(part));
        sim
    }

    /// The processes that there are to be.
    fn parts(&self) -> Vec<Part> {
        let standby = self.options.standby.then_some(Part::Standby);
        [Part::Controllers, Part::Scheduler, Part::Nodes].into_iter().chain(standby).collect()
    }

    /// Starts a part, from nothing but what is in the store.
    ///
    /// # Panics
    /// If it runs.
    pub fn start(&mut self, part: Part) {
        let process = self.time.process();
        assert!(self.parts.insert(part, process.clone()).is_none(), "{part:?} runs");
        self.note(&format!("{part:?} started"));
        let rng: Arc<dyn Rng> = Arc::<SeededRng>::clone(&self.names);
        let env = Env { clock: Arc::clone(&self.clock), rng, spawner: Arc::new(process) };
        let writes = if part == Part::Controllers { self.writes.clone() } else { Writes::default() };
        let removed = if part == Part::Nodes { Arc::clone(&self.let_go) } else { Removed::default() };
        let cluster = self.way(writes).noting(removed);
        let metrics = Arc::new(Metrics::new(&prometheus::Registry::new()).expect("the registry is empty"));
        self.check_panics();
        self.metrics.insert(part, Arc::clone(&metrics));
        self.started += 1;
        let is_alone_in_etcd = part == Part::Controllers && matches!(self.kept, Kept::Etcd { .. });
        if is_alone_in_etcd || (matches!(part, Part::Controllers | Part::Standby) && self.options.standby) {
            return self.lead(part, cluster, env, metrics);
        }
        let cluster: Arc<dyn Cluster> = Arc::new(cluster);
        let events = |component| Recorder::new(Arc::clone(&cluster), env.clone(), Arc::clone(&metrics), component);
        match part {
            Part::Controllers | Part::Standby => self.controllers(env, metrics)(cluster),
            Part::Scheduler => Scheduler::start(&cluster, &env, &events("default-scheduler"), &metrics),
            Part::Nodes => {
                let shape = NodeShape::new("1000", "4Ti", 1000);
                Nodes::start(&cluster, &env, &events("kubelet"), &metrics, (self.options.nodes, shape, self.options.latencies));
            }
        }
    }

    /// A process's way to the API.
    fn way(&self, writes: Writes) -> SimCluster {
        SimCluster::new(Arc::new(self.api_of_parts.clone()), self.network.clone(), writes)
    }

    /// Starts all controllers over a cluster.
    fn controllers(&self, env: Env, metrics: Arc<Metrics>) -> impl FnOnce(Arc<dyn Cluster>) + Send + use<> {
        let enabled = Enabled::parse("*").expect("all are known");
        let gates = Arc::clone(&self.gates.controllers);
        let load_balancer_range = "198.51.100.0/24".parse().expect("a range");
        // Each process gets new answers.
        let rng = Arc::new(SeededRng::new(self.seed ^ (self.started << 32), Purpose::Analyses));
        let providers = Arc::new(DrawnProviders { rng, clock: Arc::clone(&env.clock) });
        move |cluster| {
            ControllerManager {
                cluster,
                env,
                gates,
                metrics,
                enabled,
                provision_latency: PROVISION_LATENCY,
                load_balancer_range,
                providers,
                signer: None,
                follower: None,
                usage: None,
                second_writers: SecondWriters::Ignore,
            }
            .start();
        }
    }

    /// Stops a part at its present step, as `kill -9` would.
    pub fn kill(&mut self, part: Part) {
        if let Some(process) = self.parts.remove(&part) {
            process.kill();
            self.note(&format!("{part:?} killed"));
        }
    }

    /// Stops everything at once, as when the power is gone, and starts it again from what the disk has kept: of what was not synced, what the
    /// seed draws.
    ///
    /// # Panics
    /// If the store is not as it was: nothing in it was visible before it was durable.
    pub fn lose_power(&mut self, seed: u64) {
        let contents = |store: &SimStore| {
            let range = store.0.range(RangeRequest::all("")).now_or_never().expect("ready at once").expect("readable");
            let entries = range.entries.iter().map(|entry| (entry.key.to_string(), entry.mod_revision, entry.value.clone()));
            (range.revision, entries.collect::<Vec<_>>())
        };
        let (Kept::Here(store), Some(disk)) = (&self.kept, &self.disk) else { panic!("what is in memory only is lost") };
        let (before, disk) = (contents(store), disk.after_power_loss(seed));
        let store = store_on(Some(&disk), self.registry.table());
        self.note("the power was lost");
        assert!(contents(&store) == before, "seed {seed}: the disk has not kept what was visible");
        self.changes = Changes::Of(store.watch("/registry/", before.0).expect("nothing is compacted yet"));
        (self.kept, self.disk) = (Kept::Here(store), Some(disk));
        self.restart_with(self.gates.clone());
    }

    /// Stops everything, and starts it again over the same store with these gates.
    pub fn restart_with(&mut self, gates: Gates) {
        self.parts().into_iter().for_each(|part| self.kill(part));
        let (clock, rng): (_, Arc<dyn Rng>) = (Arc::clone(&self.clock), Arc::<SeededRng>::clone(&self.names) as _);
        let table = Arc::clone(self.registry.table());
        let env = Env { clock, rng, spawner: Arc::new(self.user.clone()) };
        let api;
        (self.registry, api) = server(self.kept.of_user(), &table, &env, &gates);
        self.api = Arc::new(api);
        (_, self.api_of_parts) = server(self.kept.of_parts(), &table, &env, &gates);
        self.checker.set_gates(Arc::clone(&gates.controllers));
        self.gates = gates;
        self.parts().into_iter().for_each(|part| self.start(part));
    }

    /// From now on the controllers crash as `crash` specifies, and restart at once. Writes are counted from here.
    pub fn crash_controllers(&mut self, crash: Crash) {
        self.writes.restart_count(crash);
    }

    /// How many writes the controllers have made since [`Simulation::crash_controllers`], or since the beginning; events do not count.
    #[must_use]
    pub fn controller_writes(&self) -> u64 {
        self.writes.count()
    }

    /// From now on, `faults` go wrong.
    pub fn set_faults(&mut self, faults: Faults) {
        self.network.set_faults(faults);
    }

    /// From now on the etcd has no faults, if there is one.
    pub fn calm_etcd(&mut self) {
        if let Kept::Etcd { failing, .. } = &self.kept {
            failing.calm();
        }
    }

    /// Sets the machine's clock forward, or back. Only a simulation that is [`Simulation::on_a_machine`] has one.
    pub fn set_clock(&mut self, by: SignedDuration) {
        self.machine.set_clock(by);
        self.note(&format!("clock set by {by}"));
    }

    /// Whether [power can be lost](Self::lose_power).
    #[must_use]
    pub fn is_on_disk(&self) -> bool {
        self.disk.is_some()
    }

    /// The time of the parts.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// How long it has existed.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        let elapsed = self.time.now().duration_since(Timestamp::from_second(BEGINNING_SECONDS).expect("a year of this century"));
        Duration::try_from(elapsed).expect("time does not go back")
    }

    /// The objects, as far as the checks read them.
    #[must_use]
    pub fn seen(&self) -> &Checker {
        &self.checker
    }

    /// The objects of one resource as the store has them, by name.
    #[must_use]
    pub fn objects(&self, plural: &str) -> BTreeMap<String, Value> {
        let of_plural = self.objects.iter().filter(|((of, _), _)| of == plural);
        of_plural.map(|((_, name), json)| (name.clone(), serde_json::from_slice(json).expect("the store holds JSON"))).collect()
    }

    /// One object as the store has it; `Null` if it is not there.
    #[must_use]
    pub fn object(&self, plural: &str, name: &str) -> Value {
        let found = self.objects.get(&(plural.to_owned(), name.to_owned()));
        found.map_or(Value::Null, |json| serde_json::from_slice(json).expect("the store holds JSON"))
    }

    /// One line for each change of the store, and for what was done to the parts.
    #[must_use]
    pub fn log(&self) -> &[String] {
        &self.log
    }

    /// Lets `duration` pass.
    ///
    /// # Panics
    /// If a limit is passed.
    pub fn run_for(&mut self, duration: Duration) {
        self.run(duration, |_| false);
    }

    /// Lets time pass until `condition` holds.
    ///
    /// # Panics
    /// If it does not within `longest`, or if a limit is passed.
    pub fn run_until(&mut self, what: &str, longest: Duration, condition: impl Fn(&Checker) -> bool) {
        if !self.run(longest, |sim| condition(&sim.checker)) {
            self.fail(&format!("after {longest:?}, still not: {what}"));
        }
    }

    /// Lets time pass until a Deployment is rolled out.
    ///
    /// # Panics
    /// If it is not within `longest`, or if a limit is passed.
    pub fn run_until_rolled_out(&mut self, deployment: &str, longest: Duration) {
        self.run_until(&format!("{deployment} is rolled out"), longest, |seen| seen.is_rolled_out(deployment));
    }

    /// The same, for as long as `longest` at most; gives whether it came to hold.
    ///
    /// # Panics
    /// If a limit is passed.
    pub fn try_until(&mut self, longest: Duration, condition: impl Fn(&Checker) -> bool) -> bool {
        self.run(longest, |sim| condition(&sim.checker))
    }

    /// Lets time pass until everything has reached its spec and every status shows it, and checks that it stays so.
    ///
    /// # Panics
    /// If it does not become stable within `longest`, or if a limit is exceeded.
    pub fn come_to_rest(&mut self, longest: Duration) {
        if !self.run(longest, |sim| sim.checker.check_rest(sim.clock.now()).is_ok())
            && let Err(Violation(why)) = self.checker.check_rest(self.clock.now())
        {
            self.fail(&format!("after {longest:?}, still not at rest: {why}"));
        }
        self.run_for(SETTLING);
        let checked = self.checker.checked();
        self.run_for(RESTING);
        if self.checker.checked() != checked {
            self.fail(&format!("{} changes although nothing is left to do", self.checker.checked() - checked));
        }
    }

    /// Lets time pass until `condition` holds for the simulation. It is evaluated after each change.
    ///
    /// # Panics
    /// If it does not within `longest`, or if a limit is exceeded.
    pub fn run_until_seen(&mut self, what: &str, longest: Duration, condition: impl Fn(&Self) -> bool) {
        if !self.run(longest, condition) {
            self.fail(&format!("after {longest:?}, still not: {what}"));
        }
    }

    /// Steps until `condition` holds, which is evaluated after each change. Returns whether it held within `longest`.
    fn run(&mut self, longest: Duration, condition: impl Fn(&Self) -> bool) -> bool {
        let until = self.time.now() + longest;
        let held = loop {
            if condition(self) {
                break true;
            }
            let lines = self.log.len();
            while self.log.len() == lines && self.step(until) != Step::Quiet {}
            if self.log.len() == lines {
                break condition(self);
            }
        };
        self.check_panics();
        held
    }

    /// A process survives a panic in a look; a test does not.
    fn check_panics(&self) {
        if let Some((part, _)) = self.metrics.iter().find(|(_, metrics)| metrics.has_panics()) {
            self.fail(&format!("a look of the part {part:?} panicked"));
        }
    }

    fn block_on<T: Send + 'static>(&mut self, future: impl Future<Output = T> + Send + 'static) -> T {
        let answer = Arc::new(Mutex::new(None));
        let sink = Arc::clone(&answer);
        self.user.spawn("test", future.map(move |value| *lock(&sink) = Some(value)).boxed());
        let until = self.time.now() + CALL_MAX;
        loop {
            if let Some(value) = lock(&answer).take() {
                return value;
            }
            if self.step(until) == Step::Quiet {
                self.fail("a call of the test does not end");
            }
        }
    }

    /// One step of any task, and all its changes of the store.
    fn step(&mut self, until: Timestamp) -> Step {
        let first = self.report_progress_at.map_or(until, |at| at.min(until));
        let mut step = self.time.step(first);
        if self.report_progress_at.is_some_and(|at| at <= self.time.now()) {
            self.report_progress_at = None;
            if let Kept::Here(store) = &self.kept {
                store.0.report_progress();
            }
            step = Step::Ran;
        }
        self.steps_at_once = if step == Step::Ran { self.steps_at_once + 1 } else { 0 };
        if self.steps_at_once > STEPS_AT_ONCE_MAX || self.log.len() > LINES_MAX {
            self.fail("work without end");
        }
        self.observe();
        if self.writes.take_crashed() {
            self.kill(Part::Controllers);
            self.start(Part::Controllers);
        }
        let ended = std::mem::take(&mut *lock(&self.ended));
        for part in ended {
            self.kill(part);
            self.start(part);
        }
        step
    }

    /// Takes in what the last step changed in the store.
    fn observe(&mut self) {
        let let_go = std::mem::take(&mut *lock(&self.let_go));
        let_go.into_iter().for_each(|pod| self.checker.let_go(pod));
        let news = self.changes.news().unwrap_or_else(|error| self.fail(&format!("the store's changes cannot be followed: {error}")));
        for event in news {
            self.take_in(&event);
        }
        self.check_made();
    }

    fn take_in(&mut self, event: &Event) {
        self.report_progress_at.get_or_insert(self.time.now() + PROGRESS_AFTER);
        // What is no object is the claim of a node port.
        let resources = self.registry.resources();
        let Some(resource) = resources.by_key(event.entry.key.as_str()) else { return };
        let (plural, name) = (resource.plural().as_str(), event.entry.name());
        let (presence, verb) = match (event.kind, &event.previous) {
            (EventKind::Deleted, _) => (Presence::Gone, "-"),
            (EventKind::Put, None) => (Presence::There, "+"),
            (EventKind::Put, Some(_)) => (Presence::There, " "),
        };
        self.take_in_lease(plural, event);
        let key = (plural.to_owned(), name.to_owned());
        match presence {
            Presence::There => drop(self.objects.insert(key, event.entry.value.clone())),
            Presence::Gone => drop(self.objects.remove(&key)),
        }
        let changed = Changed { kind: resource.kind(), json: &event.entry.value, presence };
        let checked = self.checker.take_in(&changed, self.clock.now());
        let text = checked.as_ref().map_or("", |text| text);
        self.note(&format!("{} {verb} {plural} {name} {text}", event.entry.mod_revision));
        if let Err(violation) = checked {
            self.fail(&violation.0);
        }
    }

    fn note(&mut self, line: &str) {
        let elapsed = self.elapsed();
        self.log.push(format!("{:>5}.{:09} {line}", elapsed.as_secs(), elapsed.subsec_nanos()));
    }

    /// The complete log except for leases, which nodes renew indefinitely.
    #[must_use]
    pub fn trace(&self) -> Vec<&str> {
        self.log.iter().map(String::as_str).filter(|line| !line.contains(" leases ")).collect()
    }

    /// Fails the test, and prints how to repeat it.
    pub(crate) fn fail(&self, what: &str) -> ! {
        let (seed, elapsed) = (self.seed, self.elapsed());
        let crash = match self.writes.crash() {
            Crash::Never => String::new(),
            crash => format!(", crash {crash:?}"),
        };
        let trace = self.trace();
        let shown = trace[trace.len().saturating_sub(shown_lines())..].join("\n");
        panic!("{shown}\n\nseed {seed}{crash}, after {elapsed:?}: {what}\nreplay: {SEED_VARIABLE}={seed} cargo test -p berth-sim\n");
    }
}

/// A server over a store.
fn server(store: Arc<dyn Store>, table: &Arc<ResourceTable>, env: &Env, gates: &Gates) -> (Registry, LocalCluster) {
    let (clock, rng) = (Arc::clone(&env.clock), Arc::clone(&env.rng));
    let registry = Registry::new(store, Arc::clone(table), clock, rng, Arc::clone(&gates.api));
    (registry.clone(), LocalCluster::new(registry, env.clone()))
}

impl Drop for Simulation {
    /// Tasks and the virtual time hold each other: without this no simulation would ever free its memory.
    fn drop(&mut self) {
        self.parts.values().chain([&self.user]).for_each(Process::kill);
    }
}

/// The virtual time, and the machine, at their beginning.
fn beginning(seed: u64, options: Options) -> (VirtualTime, SimMachine) {
    let beginning = Timestamp::from_second(BEGINNING_SECONDS).expect("a year of this century");
    let time = VirtualTime::new(options.order, Arc::new(SeededRng::new(seed, Purpose::Order)), beginning);
    (time.clone(), SimMachine::new(time))
}

fn shown_lines() -> usize {
    seeds::variable(LINES_VARIABLE).and_then(|text| text.parse().ok()).unwrap_or(SHOWN_LINES)
}
