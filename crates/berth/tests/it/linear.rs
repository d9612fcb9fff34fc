//! Checks that the histories of several clients of one server, which `kill -9` restarts, are linearizable (`berth-linear`).
//!
//! A history that is not linearizable remains in `target/linear/`. `cargo xtask linear FILE` checks it again.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common;
use berth_linear::{
    Checked, Deleted, Effort, Event, Fault, Freshness, Item, Key, Listed, Moment, Object, Operation, Outcome, Preconditions, Prefix,
    Reason, Request, ResourceVersion, Uid, Value, WatchEvent, check,
};
use futures::{StreamExt, future::join_all};
use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Api, Client, Error,
    api::{DeleteParams, GetParams, ListParams, PostParams, WatchParams},
    core::WatchEvent as Line,
};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
    time::Instant,
};
use tempfile::TempDir;
use tokio::{sync::watch, time::timeout};

const QUIET: &[&str] = &["--controllers=-*", "--nodes", "0"];
const CLIENTS: usize = 8;
const WATCHERS: usize = 2;
/// The minimum number of operations per round.
const OPERATIONS: usize = 1000;
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
/// The name of the object that ends the watches.
const END: &str = "end";
const PREFIX: &str = "configmaps/default/";
/// The field with the written value.
const FIELD: &str = "value";

/// The operations of all clients, and a common clock.
struct Recorder {
    started: Instant,
    operations: Mutex<Vec<Operation>>,
    count: watch::Sender<usize>,
}

impl Recorder {
    fn new() -> Arc<Self> {
        Arc::new(Self { started: Instant::now(), operations: Mutex::default(), count: watch::Sender::new(0) })
    }

    /// Microseconds.
    fn now(&self) -> Moment {
        Moment(u64::try_from(self.started.elapsed().as_micros()).unwrap())
    }

    fn record(&self, client: &str, invoked: Moment, request: Request) {
        let returned = self.now();
        self.operations.lock().unwrap().push(Operation { client: client.to_owned(), invoked, returned, request });
        self.count.send_modify(|count| *count += 1);
    }

    /// Waits until `operations` more operations are complete.
    async fn more(&self, operations: usize) {
        let mut count = self.count.subscribe();
        let enough = *count.borrow() + operations;
        timeout(common::PATIENCE, count.wait_for(|count| enough <= *count)).await.expect("in time").unwrap();
    }

    fn taken(&self) -> Vec<Operation> {
        self.operations.lock().unwrap().clone()
    }
}

/// A client that sends one request after the other.
struct Asker {
    name: String,
    api: Api<ConfigMap>,
    recorder: Arc<Recorder>,
    rng: ChaCha8Rng,
    written: usize,
    /// The last seen version of each object.
    seen: BTreeMap<&'static str, Object>,
    /// Makes its reads stale.
    stale: Option<Stale>,
}

/// Simulates a server with a stale cache for one client.
struct Stale {
    /// The first version of each object that the client saw, and sees again.
    before: BTreeMap<&'static str, Object>,
    /// Whether a read of the most recent version has returned an older one.
    shown: watch::Sender<bool>,
}

/// Whether a server answered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Server {
    Answers,
    IsGone,
}

impl Asker {
    fn new(name: String, api: &Api<ConfigMap>, recorder: &Arc<Recorder>, seed: u64) -> Self {
        Self {
            name,
            api: api.clone(),
            recorder: Arc::clone(recorder),
            rng: ChaCha8Rng::seed_from_u64(seed),
            written: 0,
            seen: BTreeMap::new(),
            stale: None,
        }
    }

    /// Sends requests until no server answers, or until it is stopped.
    async fn run(mut self, stop: watch::Receiver<bool>) {
        while !*stop.borrow() && self.step().await == Server::Answers {}
    }

    async fn step(&mut self) -> Server {
        let name = NAMES[self.below(NAMES.len())];
        match self.below(16) {
            0..5 => self.get(name).await,
            5..8 => self.create(name).await,
            8..12 => self.update(name).await,
            12..14 => self.delete(name).await,
            _ => self.list().await,
        }
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.rng.next_u64() % u64::try_from(end).unwrap()).unwrap()
    }

    fn value(&mut self) -> Value {
        self.written += 1;
        Value(format!("{}: {}", self.name, self.written))
    }

    fn saw(&mut self, name: &'static str, outcome: &Outcome<Object>) {
        if let Outcome::Ok(object) = outcome {
            self.seen.insert(name, object.clone());
        }
    }

    fn done<T>(&self, invoked: Moment, outcome: &Outcome<T>, request: Request) -> Server {
        self.recorder.record(&self.name, invoked, request);
        match outcome {
            Outcome::Unknown => Server::IsGone,
            Outcome::Ok(_) | Outcome::Refused(_) => Server::Answers,
        }
    }

    async fn get(&mut self, name: &'static str) -> Server {
        let (freshness, resource_version) = match self.below(8) {
            0 => (Freshness::Any, Some("0".to_owned())),
            1 => match self.seen.get(name).map(|object| object.resource_version) {
                Some(version) => (Freshness::NotOlderThan(version), Some(version.to_string())),
                None => (Freshness::MostRecent, None),
            },
            _ => (Freshness::MostRecent, None),
        };
        let invoked = self.recorder.now();
        let answer = self.api.get_with(name, &GetParams { resource_version }).await;
        let mut outcome = outcome(answer, |found| object(&found));
        if let Some(stale) = &mut self.stale {
            outcome = stale.instead_of(name, outcome, self.seen.get(name), freshness);
        }
        self.saw(name, &outcome);
        self.done(invoked, &outcome.clone(), Request::Get { key: key(name), freshness, outcome })
    }

    async fn create(&mut self, name: &'static str) -> Server {
        let value = self.value();
        let invoked = self.recorder.now();
        let answer = self.api.create(&PostParams::default(), &config_map(name, &value, None)).await;
        let outcome = outcome(answer, |made| object(&made));
        self.saw(name, &outcome);
        self.done(invoked, &outcome.clone(), Request::Create { key: key(name), value, outcome })
    }

    async fn update(&mut self, name: &'static str) -> Server {
        let value = self.value();
        let resource_version = if self.below(4) == 0 { None } else { self.seen.get(name).map(|object| object.resource_version) };
        let invoked = self.recorder.now();
        let answer = self.api.replace(name, &PostParams::default(), &config_map(name, &value, resource_version)).await;
        let outcome = outcome(answer, |made| object(&made));
        self.saw(name, &outcome);
        let preconditions = Preconditions { resource_version, uid: None };
        self.done(invoked, &outcome.clone(), Request::Update { key: key(name), value, preconditions, outcome })
    }

    async fn delete(&mut self, name: &'static str) -> Server {
        let known = self.seen.get(name).filter(|_| self.written.is_multiple_of(2)).cloned();
        let preconditions = Preconditions {
            resource_version: known.as_ref().map(|object| object.resource_version).filter(|_| self.written.is_multiple_of(4)),
            uid: known.and_then(|object| object.uid),
        };
        let asked = kube::api::Preconditions {
            resource_version: preconditions.resource_version.map(|version| version.to_string()),
            uid: preconditions.uid.clone().map(|uid| uid.0),
        };
        let invoked = self.recorder.now();
        let answer = self.api.delete(name, &DeleteParams { preconditions: Some(asked), ..DeleteParams::default() }).await;
        let outcome = outcome(answer, |gone| {
            let uid = gone.either(|object| object.metadata.uid, |status| status.details.map(|details| details.uid));
            Deleted { uid: uid.filter(|uid| !uid.is_empty()).map(Uid), resource_version: None }
        });
        self.done(invoked, &outcome.clone(), Request::Delete { key: key(name), preconditions, outcome })
    }

    /// Lists all objects at once or in pages of two, with the most recent version or any version.
    async fn list(&mut self) -> Server {
        let (mut asked, freshness) = match self.below(4) {
            0 => (ListParams::default().match_any(), Freshness::Any),
            1 => (ListParams::default().limit(2), Freshness::MostRecent),
            _ => (ListParams::default(), Freshness::MostRecent),
        };
        let invoked = self.recorder.now();
        let mut items = Vec::new();
        let outcome = loop {
            match outcome(self.api.list(&asked).await, |page| page) {
                Outcome::Ok(page) => {
                    items.extend(page.items.iter().filter_map(item));
                    match page.metadata.continue_.filter(|token| !token.is_empty()) {
                        Some(token) => asked = ListParams::default().limit(2).continue_token(&token),
                        None => break Outcome::Ok(Listed { resource_version: version(page.metadata.resource_version.as_deref()), items }),
                    }
                }
                Outcome::Refused(reason) => break Outcome::Refused(reason),
                Outcome::Unknown => break Outcome::Unknown,
            }
        };
        self.done(invoked, &outcome.clone(), Request::List { prefix: Prefix(PREFIX.to_owned()), freshness, outcome })
    }
}

impl Stale {
    /// Returns an object's old version to a client that has already seen a newer one (`last`).
    fn instead_of(&mut self, name: &'static str, outcome: Outcome<Object>, last: Option<&Object>, freshness: Freshness) -> Outcome<Object> {
        let Outcome::Ok(now) = &outcome else { return outcome };
        match (self.before.get(name), last) {
            (Some(old), Some(last)) if old.resource_version < last.resource_version => {
                if freshness == Freshness::MostRecent {
                    self.shown.send_replace(true);
                }
                Outcome::Ok(old.clone())
            }
            _ => {
                self.before.insert(name, now.clone());
                outcome
            }
        }
    }
}

/// A client that watches all objects, across rounds.
#[derive(Clone, Copy)]
struct Watcher {
    number: usize,
    /// The last seen resource version.
    reached: ResourceVersion,
}

impl Watcher {
    /// Continues the watch, until the end or until no server answers.
    async fn run(mut self, api: Api<ConfigMap>, recorder: Arc<Recorder>) -> Self {
        self.watch(&api, &recorder).await;
        self
    }

    async fn watch(&mut self, api: &Api<ConfigMap>, recorder: &Recorder) {
        let (invoked, from) = (recorder.now(), self.reached);
        let mut events = Vec::new();
        match api.watch(&WatchParams::default(), &from.to_string()).await {
            Ok(lines) => {
                let mut lines = lines.boxed();
                while let Some(Ok(line)) = lines.next().await {
                    let seen = recorder.now();
                    let event = match line {
                        Line::Added(object) => item(&object).map(Event::Added),
                        Line::Modified(object) => item(&object).map(Event::Modified),
                        Line::Deleted(object) => item(&object).map(Event::Deleted),
                        Line::Bookmark(bookmark) => Some(Event::Bookmark(version(Some(&bookmark.metadata.resource_version)))),
                        // Later changes remain available, across every restart.
                        Line::Error(status) => panic!("{status:?}"),
                    };
                    let Some(event) = event else { continue };
                    self.reached = match &event {
                        Event::Added(item) | Event::Modified(item) | Event::Deleted(item) => item.object.resource_version,
                        Event::Bookmark(version) => *version,
                    };
                    let is_end = matches!(&event, Event::Added(item) if item.key == key(END));
                    events.push(WatchEvent { seen, event });
                    if is_end {
                        break;
                    }
                }
            }
            Err(Error::Api(status)) if status.code < 500 => panic!("{status:?}"),
            Err(_) => (),
        }
        let request = Request::Watch { prefix: Prefix(PREFIX.to_owned()), from, events };
        recorder.record(&format!("watcher {}", self.number), invoked, request);
    }
}

fn key(name: &str) -> Key {
    Key(format!("{PREFIX}{name}"))
}

fn config_map(name: &str, value: &Value, resource_version: Option<ResourceVersion>) -> ConfigMap {
    let resource_version = resource_version.map(|version| version.to_string());
    let metadata = ObjectMeta { name: Some(name.to_owned()), resource_version, ..ObjectMeta::default() };
    ConfigMap { metadata, data: Some(BTreeMap::from([(FIELD.to_owned(), value.0.clone())])), ..ConfigMap::default() }
}

fn version(text: Option<&str>) -> ResourceVersion {
    ResourceVersion(text.unwrap().parse().unwrap())
}

fn object(map: &ConfigMap) -> Object {
    item(map).expect("a client's object has a value").object
}

/// An object of the clients. The server has one of its own beside them.
fn item(map: &ConfigMap) -> Option<Item> {
    let value = Value(map.data.as_ref()?.get(FIELD)?.clone());
    let uid = map.metadata.uid.clone().map(Uid);
    let object = Object { value, resource_version: version(map.metadata.resource_version.as_deref()), uid };
    Some(Item { key: key(map.metadata.name.as_deref().unwrap()), object })
}

/// The outcome of a request. A killed server sends no response, and a 5xx response leaves the outcome open.
fn outcome<T, U>(answer: Result<T, Error>, told: impl FnOnce(T) -> U) -> Outcome<U> {
    match answer {
        Ok(answer) => Outcome::Ok(told(answer)),
        Err(Error::Api(status)) => match (status.code, status.reason.as_str()) {
            (409, "AlreadyExists") => Outcome::Refused(Reason::AlreadyExists),
            (409, _) => Outcome::Refused(Reason::Conflict),
            (404, _) => Outcome::Refused(Reason::NotFound),
            (410, _) => Outcome::Refused(Reason::Gone),
            (code, _) if code < 500 => Outcome::Refused(Reason::Other),
            _ => Outcome::Unknown,
        },
        Err(_) => Outcome::Unknown,
    }
}

async fn config_maps(berth: &common::Berth) -> Api<ConfigMap> {
    let mut config = berth.kube_config().await;
    // A silent retry would be a second request.
    config.default_retry = false;
    Api::default_namespaced(Client::try_from(config).unwrap())
}

/// Reports the path of a history that is not linearizable.
fn checked(name: &str, history: &[Operation]) -> Checked {
    check(history, Effort::default()).unwrap_or_else(|faults| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/linear");
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join(format!("{name}-{}.jsonl", std::process::id()));
        fs::write(&file, history.iter().map(Operation::to_line).collect::<String>()).unwrap();
        let told: Vec<_> = faults.iter().map(ToString::to_string).collect();
        panic!("{}\nThe history is in {}", told.join("\n"), file.display());
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_clients_see_of_a_server_that_is_killed_can_be_put_in_one_order() {
    const ROUNDS: usize = 10;
    let folder = TempDir::new().unwrap();
    let recorder = Recorder::new();
    let mut watchers: Vec<_> = (0..WATCHERS).map(|number| Watcher { number, reached: ResourceVersion(1) }).collect();
    for round in 0..ROUNDS {
        let berth = common::up_in(folder.path(), QUIET);
        let api = config_maps(&berth).await;
        let (stop, stopped) = watch::channel(false);
        let asking: Vec<_> = askers(round, &api, &recorder).map(|asker| tokio::spawn(asker.run(stopped.clone()))).collect();
        let watching: Vec<_> = watchers.iter().map(|one| tokio::spawn(one.run(api.clone(), Arc::clone(&recorder)))).collect();
        // Different numbers, so that the kill hits different points of a commit.
        recorder.more(OPERATIONS + round * 37).await;
        let is_last = round + 1 == ROUNDS;
        if is_last {
            stop.send_replace(true);
        } else {
            berth.kill();
        }
        join_all(asking).await.into_iter().for_each(Result::unwrap);
        if is_last {
            let invoked = recorder.now();
            let value = Value(END.to_owned());
            let end = outcome(api.create(&PostParams::default(), &config_map(END, &value, None)).await, |made| object(&made));
            recorder.record("last", invoked, Request::Create { key: key(END), value, outcome: end });
        }
        let watched = timeout(common::PATIENCE, join_all(watching)).await.expect("in time");
        watchers = watched.into_iter().map(Result::unwrap).collect();
    }
    let history = recorder.taken();
    let Checked { operations, keys, unknown } = checked("killed", &history);
    assert!(OPERATIONS * ROUNDS <= operations && keys == NAMES.len() + 1, "{operations} operations on {keys} objects");
    assert!(0 < unknown, "no write was under way at any of the kills");
    // Each watcher saw all changes, including those made while it was disconnected.
    let acknowledged = history.iter().filter(|operation| is_acknowledged(&operation.request)).count();
    let seen: usize = history.iter().map(|operation| written(&operation.request)).sum();
    assert!(OPERATIONS < acknowledged && acknowledged * WATCHERS <= seen, "{acknowledged} writes acknowledged, {seen} seen");
}

/// The clients of a round.
fn askers<'a>(round: usize, api: &'a Api<ConfigMap>, recorder: &'a Arc<Recorder>) -> impl Iterator<Item = Asker> + 'a {
    let asker = move |number: usize| {
        let seed = u64::try_from(round * CLIENTS + number).unwrap();
        Asker::new(format!("client {number} of round {round}"), api, recorder, seed)
    };
    (0..CLIENTS).map(asker)
}

fn is_acknowledged(request: &Request) -> bool {
    matches!(request, Request::Create { outcome: Outcome::Ok(_), .. } | Request::Update { outcome: Outcome::Ok(_), .. })
}

/// The number of writes that a watch saw.
fn written(request: &Request) -> usize {
    let Request::Watch { events, .. } = request else { return 0 };
    events.iter().filter(|event| matches!(event.event, Event::Added(_) | Event::Modified(_))).count()
}

/// Shows that the first test would detect it: one client reads old values, as from a server whose cache lags.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_shown_what_was_is_found() {
    let berth = common::up(QUIET);
    let api = config_maps(&berth).await;
    let recorder = Recorder::new();
    let (stop, stopped) = watch::channel(false);
    let mut all: Vec<_> = askers(0, &api, &recorder).collect();
    let (shown, mut is_shown) = watch::channel(false);
    all[0].stale = Some(Stale { before: BTreeMap::new(), shown });
    let asking: Vec<_> = all.into_iter().map(|asker| tokio::spawn(asker.run(stopped.clone()))).collect();
    // Among enough other operations, regardless of how many are this client's.
    recorder.more(600).await;
    timeout(common::PATIENCE, is_shown.wait_for(|shown| *shown)).await.expect("in time").unwrap();
    stop.send_replace(true);
    join_all(asking).await.into_iter().for_each(Result::unwrap);
    for text in anomalies(&recorder.taken()) {
        assert!(text.contains(": a stale read\n") && text.contains("client 0 "), "{text}");
    }
}

/// Shows that the first test would detect it: a server continues from a copy of its folder that was made before the last writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_has_forgotten_what_it_acknowledged_is_found() {
    let (folder, copy) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let recorder = Recorder::new();
    for round in 0..3 {
        let berth = common::up_in(if round == 2 { copy.path() } else { folder.path() }, QUIET);
        let api = config_maps(&berth).await;
        let (_going_on, stopped) = watch::channel(false);
        let asking: Vec<_> = askers(round, &api, &recorder).map(|asker| tokio::spawn(asker.run(stopped.clone()))).collect();
        recorder.more(300).await;
        berth.kill();
        join_all(asking).await.into_iter().for_each(Result::unwrap);
        if round == 0 {
            let copied = Command::new("cp").arg("--recursive").arg(folder.path().join(".")).arg(copy.path()).status().unwrap();
            assert!(copied.success());
        }
    }
    assert!(!anomalies(&recorder.taken()).is_empty());
}

/// The faults of a history that is not linearizable.
fn anomalies(history: &[Operation]) -> Vec<String> {
    let text = |fault: Fault| match fault {
        Fault::Anomaly(text) => text,
        Fault::Malformed(_) | Fault::TooHard { .. } => panic!("{fault}"),
    };
    check(history, Effort::default()).unwrap_err().into_iter().map(text).collect()
}
