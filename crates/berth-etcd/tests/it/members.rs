//! Two stores over an etcd of three members, during failures. The clients' observations must be linearizable
//! (`berth-linear`). So no acknowledged write is lost, no watch misses, duplicates or reorders an event, and revisions
//! never decrease.
//!
//! `BERTH_FAULTS_MINUTES` is the duration: `cargo xtask faults --minutes N`. A history that is not linearizable is kept
//! in `target/linear/`.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    reason = "writers, watchers and etcds that fail at the same time"
)]

use crate::etcd::{
    self,
    cluster::{Cluster, Machines},
    env, eventually,
    front::Front,
    gateway,
    network::{self, Cable, Network},
};
use berth_linear::{
    Checked, Deleted, Effort, Event, Item, Listed, Moment, Object, Operation, Outcome, Preconditions, Prefix, Reason, Request,
    ResourceVersion, Value, WatchEvent,
};
use berth_store::{
    Entry, EventKind, Expected, Header, Health, Key, Layout, OutOfSpace, Purpose, RangeRequest, ReadError, Revision, Store, WatchItem,
    Write, WriteError,
    etcd::{Etcd as _, EtcdError, EtcdStore, Watched},
};
use futures::StreamExt;
use futures_executor::block_on;
use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

const PODS: &str = "/registry/pods/";
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
/// The keys that the first client of each store may delete.
const OWN: [&[&str]; 2] = [&["a", "b"], &["c", "d"]];
/// The key that ends the watches.
const END: &str = "end";
/// The number of acknowledged writes per store before and after a fault.
const WRITES: usize = 60;
/// The pause between two requests of a client, so that a history is short enough for a fast check.
const PAUSE: Duration = Duration::from_millis(2);

struct Pods;

impl Layout for Pods {
    fn resource_prefix<'t>(&self, text: &'t str) -> Option<&'t str> {
        text.starts_with(PODS).then(|| &text[..PODS.len()])
    }

    fn header(&self, _: &Key, _: &[u8]) -> Header {
        Header::default()
    }
}

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    MemberKilled,
    LeaderHangs,
    MemberReplaced,
    MajorityLost,
    AllHang,
    /// No traffic passes between one of the stores and all members, without an error.
    StoreCutOff,
    CompactedUnderASlowWatcher,
    NoSpace,
    /// The same as [`Fault::StoreCutOff`], by a cut in the network.
    CableOut,
    /// The leader and the other members are partitioned. Clients reach all of them.
    LeaderAlone,
}

const FAULTS: [Fault; 8] = [
    Fault::MemberKilled,
    Fault::LeaderHangs,
    Fault::AllHang,
    Fault::MemberReplaced,
    Fault::MajorityLost,
    Fault::StoreCutOff,
    Fault::CompactedUnderASlowWatcher,
    Fault::NoSpace,
];

/// The faults of members on separate machines.
const FAULTS_OF_CABLES: [Fault; 2] = [Fault::CableOut, Fault::LeaderAlone];
/// The switch between the members. The next ones are those of the two stores.
const PEERS: usize = 0;

/// The observations of all clients in a round, with one clock.
struct Recorder {
    started: Instant,
    /// The key prefix of this round, which is unused before.
    prefix: String,
    operations: Mutex<Vec<Operation>>,
    /// The number of acknowledged writes by store.
    written: [AtomicUsize; 2],
    is_over: AtomicBool,
    /// Whether watches read slowly.
    is_slow: AtomicBool,
}

impl Recorder {
    /// Returns the time in microseconds.
    fn now(&self) -> Moment {
        Moment(u64::try_from(self.started.elapsed().as_micros()).expect("not that long"))
    }

    fn record(&self, client: &str, invoked: Moment, request: Request) {
        let returned = self.now();
        let operation = Operation { client: client.to_owned(), invoked, returned, request };
        self.operations.lock().expect("nothing panics under it").push(operation);
    }

    fn key(&self, name: &str) -> Key {
        Key::new(&format!("{}{name}", self.prefix))
    }

    /// Waits until each store has acknowledged this many more writes.
    fn more(&self) {
        [0, 1].map(|store| self.enough(store)).into_iter().for_each(|(store, enough)| self.until(store, enough));
    }

    /// Waits for this store.
    fn more_of(&self, store: usize) {
        let (store, enough) = self.enough(store);
        self.until(store, enough);
    }

    fn enough(&self, store: usize) -> (usize, usize) {
        (store, self.written[store].load(Ordering::Relaxed) + WRITES)
    }

    fn until(&self, store: usize, enough: usize) {
        eventually("writes go on", || enough <= self.written[store].load(Ordering::Relaxed));
    }
}

/// Random numbers from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("it fits") % end
    }
}

/// A client that sends one request after the other.
struct Asker {
    name: String,
    place: usize,
    /// The keys that it may delete. Each belongs to one client: an unanswered deletion is reported as done if any
    /// client has deleted the key (decision 23), so two clients might report the deletion of one version.
    own: &'static [&'static str],
    store: Arc<EtcdStore>,
    recorder: Arc<Recorder>,
    dice: Dice,
    count: usize,
    /// The last observed revision of each key.
    seen: BTreeMap<&'static str, Revision>,
}

impl Asker {
    fn run(mut self) {
        while !self.recorder.is_over.load(Ordering::Relaxed) {
            let name = NAMES[self.dice.below(NAMES.len())];
            match self.dice.below(16) {
                0..4 => self.get(name),
                4..14 => self.write(name),
                _ => self.list(),
            }
            thread::sleep(PAUSE);
        }
    }

    fn get(&mut self, name: &'static str) {
        let invoked = self.recorder.now();
        let key = self.recorder.key(name);
        let outcome = match block_on(self.store.get(&key)) {
            Ok(Some(entry)) => {
                self.seen.insert(name, entry.mod_revision);
                Outcome::Ok(object(&entry))
            }
            Ok(None) => {
                self.seen.remove(name);
                Outcome::Refused(Reason::NotFound)
            }
            Err(error) => Outcome::Refused(unread(&error)),
        };
        let request = Request::Get { key: named(&key), freshness: berth_linear::Freshness::MostRecent, outcome };
        self.recorder.record(&self.name, invoked, request);
    }

    fn list(&self) {
        let (invoked, prefix) = (self.recorder.now(), self.recorder.prefix.clone());
        let outcome = match block_on(self.store.range(RangeRequest::all(prefix.clone()))) {
            Ok(range) => {
                let items = range.entries.iter().map(|entry| item(entry)).collect();
                Outcome::Ok(Listed { resource_version: version(range.revision), items })
            }
            Err(error) => Outcome::Refused(unread(&error)),
        };
        let request = Request::List { prefix: Prefix(prefix), freshness: berth_linear::Freshness::MostRecent, outcome };
        self.recorder.record(&self.name, invoked, request);
    }

    /// Creates an unknown key, and changes or deletes a known one.
    fn write(&mut self, name: &'static str) {
        self.count += 1;
        let key = self.recorder.key(name);
        let text = format!("{}: {}", self.name, self.count);
        let expected = self.seen.remove(name);
        let is_deletion = expected.is_some() && self.own.contains(&name) && self.dice.below(2) == 0;
        let write = match expected {
            Some(revision) if is_deletion => Write::delete(key.clone(), revision),
            Some(revision) => Write::put(key.clone(), text.clone().into(), Expected::At(revision), Purpose::Growth),
            None => Write::put(key.clone(), text.clone().into(), Expected::Absent, Purpose::Growth),
        };
        let invoked = self.recorder.now();
        let written = block_on(self.store.write(write));
        if let Ok(entry) = &written {
            self.recorder.written[self.place].fetch_add(1, Ordering::Relaxed);
            if !is_deletion {
                self.seen.insert(name, entry.mod_revision);
            }
        }
        let (key, value) = (named(&key), Value(text));
        let preconditions = Preconditions { resource_version: expected.map(version), uid: None };
        let request = match expected {
            Some(_) if is_deletion => {
                let gone = |entry: &Entry| Deleted { uid: None, resource_version: Some(version(entry.mod_revision)) };
                Request::Delete { key, preconditions, outcome: outcome(written, gone, Reason::Conflict) }
            }
            Some(_) => Request::Update { key, value, preconditions, outcome: outcome(written, object, Reason::Conflict) },
            None => Request::Create { key, value, outcome: outcome(written, object, Reason::AlreadyExists) },
        };
        self.recorder.record(&self.name, invoked, request);
    }
}

/// Lists and watches everything, and lists again after falling behind, until the end.
fn watch(name: &str, store: &EtcdStore, recorder: &Recorder) {
    let mut is_over = false;
    while !is_over {
        let Ok(range) = block_on(store.range(RangeRequest::all(recorder.prefix.clone()))) else {
            thread::sleep(PAUSE);
            continue;
        };
        is_over = range.entries.iter().any(|entry| entry.name() == END);
        let (invoked, mut events) = (recorder.now(), Vec::new());
        let Ok(mut watch) = store.watch(&recorder.prefix, range.revision) else { continue };
        while !is_over {
            let Some(Ok(item)) = block_on(watch.next()) else { break };
            let seen = recorder.now();
            match item {
                WatchItem::Events(changes) => {
                    is_over = changes.iter().any(|change| change.entry.name() == END);
                    events.extend(changes.iter().map(|change| WatchEvent { seen, event: event(change) }));
                }
                WatchItem::Progress(revision) => events.push(WatchEvent { seen, event: Event::Bookmark(version(revision)) }),
            }
            while recorder.is_slow.load(Ordering::Relaxed) {
                thread::sleep(PAUSE);
            }
        }
        let request = Request::Watch { prefix: Prefix(recorder.prefix.clone()), from: version(range.revision), events };
        recorder.record(name, invoked, request);
    }
}

fn named(key: &Key) -> berth_linear::Key {
    berth_linear::Key(key.as_str().to_owned())
}

fn version(revision: Revision) -> ResourceVersion {
    ResourceVersion(revision.0)
}

fn object(entry: &Entry) -> Object {
    let value = Value(String::from_utf8_lossy(&entry.value).into_owned());
    Object { value, resource_version: version(entry.mod_revision), uid: None }
}

fn item(entry: &Entry) -> Item {
    Item { key: named(&entry.key), object: object(entry) }
}

fn event(change: &berth_store::Event) -> Event {
    let item = item(&change.entry);
    match (change.kind, &change.previous) {
        (EventKind::Deleted, _) => Event::Deleted(item),
        (EventKind::Put, None) => Event::Added(item),
        (EventKind::Put, Some(_)) => Event::Modified(item),
    }
}

/// Returns the outcome as the registry reports it. `taken` is the reason of a write that found another version.
fn outcome<T>(written: Result<Arc<Entry>, WriteError>, told: impl FnOnce(&Entry) -> T, taken: Reason) -> Outcome<T> {
    match written {
        Ok(entry) => Outcome::Ok(told(&entry)),
        Err(WriteError::Unknown { .. }) => Outcome::Unknown,
        Err(WriteError::Conflict { found: Revision(0), .. }) => Outcome::Refused(Reason::NotFound),
        Err(WriteError::Conflict { .. }) => Outcome::Refused(taken),
        Err(WriteError::Unavailable { .. } | WriteError::QuotaExceeded { .. }) => Outcome::Refused(Reason::Other),
        Err(error) => panic!("{error}"),
    }
}

fn unread(error: &ReadError) -> Reason {
    match error {
        ReadError::Unavailable(_) => Reason::Other,
        error => panic!("{error}"),
    }
}

/// The connection between a store and the members.
trait Way {
    /// Stops all traffic in both directions.
    fn cut(&self);
    fn restore(&self);
}

impl Way for Vec<Front> {
    fn cut(&self) {
        self.iter().for_each(Front::cut);
    }

    fn restore(&self) {
        self.iter().for_each(Front::restore);
    }
}

/// The cables of all members to a switch.
struct Cables(usize);

impl Way for Cables {
    fn cut(&self) {
        (0..3).for_each(|member| Network::set(member, self.0, Cable::Out));
    }

    fn restore(&self) {
        (0..3).for_each(|member| Network::set(member, self.0, Cable::In));
    }
}

impl Machines for Network {
    fn address(&self, member: usize) -> String {
        Network::address(member, PEERS)
    }

    fn run(&self, member: usize, program: &Path) -> Command {
        let mut command = self.command(member);
        command.arg(program);
        command
    }
}

/// A cluster, two stores over it, and the completed rounds.
struct Deployment {
    cluster: Cluster,
    stores: [Arc<EtcdStore>; 2],
    /// Two further stores, and their connections to the members. A killed member refuses connections, but a client
    /// behind a proxy does not learn of that.
    by_ways: [Arc<EtcdStore>; 2],
    ways: [Box<dyn Way>; 2],
    rounds: usize,
    dice: Dice,
}

impl Deployment {
    fn new(seed: u64) -> Self {
        let cluster = Cluster::start("");
        let way = |endpoint: &String| {
            let (_, port) = endpoint.rsplit_once(':').expect("an address has a port");
            cluster.runtime.block_on(Front::before(vec![port.parse().expect("a number")]))
        };
        let ways = [0, 1].map(|_| cluster.endpoints().iter().map(way).collect::<Vec<_>>());
        let stores = [0, 1].map(|_| store_over(&cluster, cluster.endpoints()));
        let by_way = |ways: &Vec<Front>| store_over(&cluster, ways.iter().map(|way| format!("http://127.0.0.1:{}", way.port)).collect());
        let by_ways = ways.each_ref().map(by_way);
        Self { stores, by_ways, ways: ways.map(|ways| Box::new(ways) as Box<dyn Way>), cluster, rounds: 0, dice: Dice(seed) }
    }

    /// Creates one with a machine per member, and with separate cables for each store.
    fn of_machines(seed: u64) -> Self {
        let cluster = Cluster::on(Network::new(3, 3));
        let switches = [PEERS + 1, PEERS + 2];
        let stores = switches.map(|switch| {
            let endpoints = cluster.endpoints().into_iter().enumerate();
            let by_switch =
                |(member, endpoint): (usize, String)| endpoint.replace(&Network::address(member, PEERS), &Network::address(member, switch));
            store_over(&cluster, endpoints.map(by_switch).collect())
        });
        let ways = switches.map(|switch| Box::new(Cables(switch)) as Box<dyn Way>);
        Self { by_ways: stores.clone(), stores, ways, cluster, rounds: 0, dice: Dice(seed) }
    }

    /// Causes the fault while clients read and write, and checks their observations.
    fn round(&mut self, fault: Fault) {
        if fault == Fault::StoreCutOff {
            std::mem::swap(&mut self.stores, &mut self.by_ways);
        }
        self.round_of_stores(fault);
        if fault == Fault::StoreCutOff {
            std::mem::swap(&mut self.stores, &mut self.by_ways);
        }
    }

    fn round_of_stores(&mut self, fault: Fault) {
        self.rounds += 1;
        let began = Instant::now();
        let recorder = Arc::new(Recorder {
            started: began,
            prefix: format!("{PODS}{}/", self.rounds),
            operations: Mutex::default(),
            written: Default::default(),
            is_over: AtomicBool::new(false),
            is_slow: AtomicBool::new(false),
        });
        let watchers = self.spawn(&recorder, 1, |name, _, _, store, recorder, _| watch(&name, &store, &recorder));
        let askers = self.spawn(&recorder, 3, |name, place, number, store, recorder, seed| {
            let own = if number == 0 { OWN[place] } else { &[] };
            Asker { name, place, own, store, recorder, dice: Dice(seed), count: 0, seen: BTreeMap::new() }.run();
        });
        recorder.more();
        self.happens(fault, &recorder);
        recorder.more();
        for store in &self.stores {
            eventually("it heals", || store.health() == Health::Ready);
        }
        recorder.is_over.store(true, Ordering::Relaxed);
        askers.into_iter().for_each(|asker| asker.join().expect("it does not panic"));
        let (invoked, key, value) = (recorder.now(), recorder.key(END), Value(END.into()));
        let end = block_on(self.stores[0].put(key.clone(), END.into(), Expected::Absent, Purpose::Growth));
        recorder.record("last", invoked, Request::Create { key: named(&key), value, outcome: outcome(end, object, Reason::AlreadyExists) });
        watchers.into_iter().for_each(|watcher| watcher.join().expect("it does not panic"));
        let history = std::mem::take(&mut *recorder.operations.lock().expect("nothing panics under it"));
        let Checked { operations, keys, unknown } = checked(fault, &history);
        println!("{fault:?}: {operations} operations on {keys} keys, {unknown} of unknown outcome, in {:.1?}", began.elapsed());
    }

    /// Spawns this many threads for each store.
    fn spawn<F>(&mut self, recorder: &Arc<Recorder>, each: usize, run: F) -> Vec<JoinHandle<()>>
    where
        F: Fn(String, usize, usize, Arc<EtcdStore>, Arc<Recorder>, u64) + Copy + Send + 'static,
    {
        let mut threads = Vec::new();
        for (place, store) in self.stores.iter().enumerate() {
            for number in 0..each {
                let (name, store, recorder) = (format!("client {number} of store {place}"), Arc::clone(store), Arc::clone(recorder));
                let seed = self.dice.below(1 << 30) as u64;
                threads.push(thread::spawn(move || run(name, place, number, store, recorder, seed)));
            }
        }
        threads
    }

    fn happens(&mut self, fault: Fault, recorder: &Recorder) {
        let any = self.dice.below(3);
        let stores = self.stores.clone();
        let both = |what: &str, is_so: &dyn Fn(&EtcdStore) -> bool| stores.iter().for_each(|store| eventually(what, || is_so(store)));
        match fault {
            Fault::MemberKilled => {
                self.cluster.kill(any);
                recorder.more();
                self.cluster.start_again(&[any]);
            }
            Fault::LeaderHangs => {
                let leader = self.cluster.leader();
                self.cluster.signal(leader, "STOP");
                recorder.more();
                self.cluster.signal(leader, "CONT");
            }
            Fault::MemberReplaced => self.cluster.replace(any),
            Fault::MajorityLost => {
                let others = [(any + 1) % 3, (any + 2) % 3];
                others.iter().for_each(|index| self.cluster.kill(*index));
                both("it says so", &|store| matches!(store.health(), Health::Refusing { .. }));
                self.cluster.start_again(&others);
            }
            Fault::AllHang => {
                (0..3).for_each(|member| self.cluster.signal(member, "STOP"));
                both("it says so", &|store| matches!(store.health(), Health::Refusing { .. }));
                (0..3).for_each(|member| self.cluster.signal(member, "CONT"));
            }
            Fault::LeaderAlone => {
                let leader = self.cluster.leader();
                Network::set(leader, PEERS, Cable::Out);
                eventually("another leads", || self.cluster.leader() != leader);
                recorder.more();
                Network::set(leader, PEERS, Cable::In);
            }
            Fault::StoreCutOff | Fault::CableOut => {
                let cut = self.dice.below(2);
                self.ways[cut].cut();
                eventually("it says so", || matches!(stores[cut].health(), Health::Refusing { .. }));
                recorder.more_of(1 - cut);
                self.ways[cut].restore();
            }
            Fault::CompactedUnderASlowWatcher => {
                recorder.is_slow.store(true, Ordering::Relaxed);
                recorder.more();
                let newest = block_on(self.stores[0].revision(PODS)).expect("it answers");
                block_on(self.stores[0].compact(PODS, newest)).expect("it is there");
                recorder.more();
                recorder.is_slow.store(false, Ordering::Relaxed);
            }
            Fault::NoSpace => {
                let endpoint = self.cluster.endpoints()[any].clone();
                gateway::raise_no_space(&endpoint);
                let lacks = |store: &EtcdStore| store.usage().and_then(|usage| usage.lacks);
                both("it is known", &|store| lacks(store) == Some(OutOfSpace::Etcd));
                let newest = block_on(self.stores[0].revision(PODS)).expect("it answers");
                gateway::make_room(&endpoint, newest);
                both("it heals", &|store| lacks(store).is_none());
            }
        }
    }
}

fn store_over(cluster: &Cluster, endpoints: Vec<String>) -> Arc<EtcdStore> {
    let client = cluster.open(endpoints);
    Arc::new(EtcdStore::new(Arc::new(client.client), Arc::new(Pods), 64 << 20, &env(cluster.runtime.handle())))
}

/// Checks a history. If it is not linearizable, reports where it is kept.
fn checked(fault: Fault, history: &[Operation]) -> Checked {
    berth_linear::check(history, Effort::default()).unwrap_or_else(|faults| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/linear");
        fs::create_dir_all(&folder).expect("it is ours");
        let file = folder.join(format!("{fault:?}-{}.jsonl", std::process::id()));
        fs::write(&file, history.iter().map(Operation::to_line).collect::<String>()).expect("it is ours");
        let told: Vec<_> = faults.iter().map(ToString::to_string).collect();
        panic!("{}\nThe history is in {}", told.join("\n"), file.display());
    })
}

#[test]
fn whatever_happens_to_members_what_clients_see_can_be_put_in_one_order() {
    if !etcd::upstream_is_here() {
        return;
    }
    rounds(Deployment::new(u64::from(std::process::id())), &FAULTS);
}

#[test]
fn whatever_happens_to_cables_what_clients_see_can_be_put_in_one_order() {
    let is_here = etcd::upstream_is_here();
    if is_here && network::is_inside("members::whatever_happens_to_cables_what_clients_see_can_be_put_in_one_order", network::SWITCH) {
        rounds(Deployment::of_machines(u64::from(std::process::id())), &FAULTS_OF_CABLES);
    }
}

/// Runs each fault once, and then random ones for the requested duration.
fn rounds(mut deployment: Deployment, faults: &[Fault]) {
    let minutes = std::env::var("BERTH_FAULTS_MINUTES").ok().and_then(|minutes| minutes.parse().ok());
    let long = minutes.map(|minutes: u64| Duration::from_secs(60 * minutes));
    let began = Instant::now();
    faults.iter().for_each(|fault| deployment.round(*fault));
    while long.is_some_and(|long| began.elapsed() < long) {
        let fault = faults[deployment.dice.below(faults.len())];
        deployment.round(fault);
    }
    println!("{} rounds in {:.0?}", deployment.rounds, began.elapsed());
}

/// Otherwise the member would hang without an error until the others are back.
#[test]
fn a_watch_ends_at_a_member_that_has_lost_the_others() {
    if !etcd::upstream_is_here() {
        return;
    }
    let mut cluster = Cluster::start("");
    let alone = cluster.open(vec![cluster.endpoints()[0].clone()]);
    let mut watching = alone.client.watch(PODS, Revision(1));
    let begun = block_on(watching.items.next()).expect("it begins").expect("it begins");
    assert!(matches!(begun, Watched::Begun), "{begun:?}");
    [1, 2].into_iter().for_each(|index| cluster.kill(index));
    let ended = loop {
        match block_on(watching.items.next()) {
            Some(Ok(_)) => (),
            ended => break ended,
        }
    };
    let says = |error: &EtcdError| error.to_string().contains("no leader");
    assert!(matches!(&ended, Some(Err(error)) if says(error)), "{ended:?}");
}
