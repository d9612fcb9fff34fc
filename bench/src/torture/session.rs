//! One life of a server as its clients share it: where it is, what they have recorded so far, and when they are to stop.

use super::{
    memory::{Fault, What},
    tally::Tally,
};
use crate::client::{Connection, Endpoint};
use berth_linear::{
    Deleted, Item, Key, Listed, Moment, Object, Operation, Outcome, Preconditions, Prefix, Reason, Request, ResourceVersion, Uid, Value,
};
use serde::Deserialize;
use serde_json::json;
use std::{
    cell::{Cell, RefCell},
    io,
    time::{Duration, Instant},
};
use tokio::{sync::Notify, time::timeout};

/// How long anything may take before it counts as a fault: far beyond what it takes on a slow machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// Where clients write.
pub(crate) const NAMESPACE: &str = "torture";
/// The prefix of the names of objects that signal watchers to stop.
pub(crate) const LAST: &str = "last-";
const COLLECTION: &str = "/api/v1/namespaces/torture/configmaps";

/// What all clients of one store did and saw, over the lives of its servers, since nothing was last on its way.
#[derive(Default)]
pub(crate) struct Record {
    clock: Cell<u64>,
    operations: RefCell<Vec<Operation>>,
    /// The highest version that any client received.
    highest: Cell<u64>,
}

impl Record {
    pub(crate) fn now(&self) -> Moment {
        self.clock.update(|now| now + 1);
        Moment(self.clock.get())
    }

    pub(crate) fn add(&self, client: &str, invoked: Moment, request: Request) {
        let operation = Operation { client: client.to_owned(), invoked, returned: self.now(), request };
        self.operations.borrow_mut().push(operation);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.operations.borrow().is_empty()
    }

    /// Everything recorded; what follows begins with these objects.
    pub(crate) fn take(&self, objects: &Listed) -> Vec<Operation> {
        let recorded = self.operations.take();
        let invoked = self.now();
        for Item { key, object } in &objects.items {
            let (key, value, outcome) = (key.clone(), object.value.clone(), Outcome::Ok(object.clone()));
            self.add("before", invoked, Request::Create { key, value, outcome });
        }
        self.add("before", self.now(), list(objects));
        recorded
    }

    /// Records a returned version, which must be later than all that were returned before `invoked`.
    fn given(&self, version: ResourceVersion, before: u64) -> Option<Fault> {
        self.highest.set(self.highest.get().max(version.0));
        (version.0 <= before).then(|| Fault::new(What::Version, format!("version {version} was given out when {before} was known")))
    }
}

fn list(listed: &Listed) -> Request {
    Request::List { prefix: Prefix(String::new()), freshness: Default::default(), outcome: Outcome::Ok(listed.clone()) }
}

/// What a client wants of an object.
#[derive(Clone, Debug)]
pub(crate) enum Wish {
    Create(Value),
    /// Of the version.
    Update(ResourceVersion, Value),
    Delete(ResourceVersion),
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Written(Object),
    Deleted,
    /// Nothing was done, as the object is not as it was to be.
    Otherwise,
    /// Nothing was done, as the server takes no writes, or none of this user for now.
    Refused,
    /// The outcome is unknown.
    Unknown,
}

/// A life.
pub(crate) struct Session<'r> {
    /// Of the administrator, then of other users.
    endpoints: Vec<Endpoint>,
    pub(crate) record: &'r Record,
    pub(crate) tally: &'r RefCell<Tally>,
    pub(crate) acknowledged: Cell<u64>,
    pub(crate) refused: Cell<u64>,
    pub(crate) unknown: Cell<u64>,
    /// Clients that write.
    pub(crate) writing: Cell<usize>,
    /// Whether they are to go on.
    pub(crate) goes_on: Cell<bool>,
    /// Whether the server is being killed: its remaining answers prove nothing.
    pub(crate) is_over: Cell<bool>,
    /// Clients that watch.
    pub(crate) watching: Cell<usize>,
    /// With which object they are to stop.
    last: RefCell<Option<Key>>,
    changed: Notify,
}

impl<'r> Session<'r> {
    pub(crate) fn new(endpoints: Vec<Endpoint>, record: &'r Record, tally: &'r RefCell<Tally>) -> Self {
        Self {
            endpoints,
            record,
            tally,
            acknowledged: Cell::new(0),
            refused: Cell::new(0),
            unknown: Cell::new(0),
            writing: Cell::new(0),
            goes_on: Cell::new(true),
            is_over: Cell::new(false),
            watching: Cell::new(0),
            last: RefCell::default(),
            changed: Notify::new(),
        }
    }

    /// As whom a client asks: some as the administrator, the rest as users.
    pub(crate) fn endpoint(&self, client: usize) -> &Endpoint {
        &self.endpoints[client % self.endpoints.len()]
    }

    pub(crate) fn administrator(&self) -> &Endpoint {
        &self.endpoints[0]
    }

    /// Adds what its clients did to the tally.
    pub(crate) fn count(&self) {
        let mut tally = self.tally.borrow_mut();
        tally.acknowledged += self.acknowledged.get();
        tally.refused += self.refused.get();
        tally.unknown += self.unknown.get();
    }

    pub(crate) fn fault(&self, fault: Fault) {
        self.tally.borrow_mut().fault(fault);
        self.changed.notify_waiters();
    }

    /// One client of those has stopped.
    pub(crate) fn end(&self, of: &Cell<usize>) {
        of.update(|clients| clients - 1);
        self.changed.notify_waiters();
    }

    pub(crate) fn is_last(&self, key: &Key) -> bool {
        self.last.borrow().as_ref() == Some(key)
    }

    /// Waits until that holds. A fault if it does not come true.
    pub(crate) async fn until(&self, of: What, what: &str, holds: impl Fn(&Self) -> bool) {
        let waiting = async {
            while !holds(self) {
                self.changed.notified().await;
            }
        };
        if timeout(PATIENCE, waiting).await.is_err() {
            self.fault(Fault::new(of, format!("not within {} s: {what}", PATIENCE.as_secs())));
        }
    }

    /// Waits for so many more writes to be acknowledged; until all clients have stopped if they do before.
    pub(crate) async fn more(&self, writes: u64) {
        let wanted = self.acknowledged.get() + writes;
        let holds = |session: &Self| wanted <= session.acknowledged.get() || session.writing.get() == 0;
        self.until(What::Start, "more writes are acknowledged", holds).await;
    }

    /// Has all clients stop: those that write when they have their answers, those that watch when they have been shown everything.
    pub(crate) async fn quiet(&self) {
        self.goes_on.set(false);
        self.until(What::Answer, "all writes are answered", |session| session.writing.get() == 0).await;
        if let Err(error) = self.write_last().await {
            self.fault(Fault::new(What::Start, format!("a last object could not be written: {error}")));
        }
        self.until(What::Watch, "all watchers are shown the last object", |session| session.watching.get() == 0).await;
    }

    /// Writes the object with which watchers stop.
    pub(crate) async fn write_last(&self) -> io::Result<()> {
        let mut connection = Connection::try_open(self.administrator()).await?;
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            let key = Key(format!("{LAST}{}", self.record.now().0));
            *self.last.borrow_mut() = Some(key.clone());
            let value = Value(key.0.clone());
            if let Answer::Written(_) = self.write("conductor", &mut connection, &key, &Wish::Create(value), 0).await? {
                return Ok(());
            }
            // A server that goes on by itself is given the time to.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Err(io::Error::other("it takes no writes"))
    }

    /// Writes, and records it.
    ///
    /// # Errors
    /// The connection is cut. The outcome of the write is unknown, and recorded as such.
    pub(crate) async fn write(
        &self,
        client: &str,
        connection: &mut Connection,
        key: &Key,
        wish: &Wish,
        bytes: usize,
    ) -> io::Result<Answer> {
        let (path, name) = (format!("{COLLECTION}/{key}"), &key.0);
        let pad = "x".repeat(bytes);
        let (method, path, body) = match wish {
            Wish::Create(value) => ("POST", COLLECTION, json!({"metadata": {"name": name}, "data": {"value": value, "pad": pad}})),
            Wish::Update(version, value) => {
                let metadata = json!({"name": name, "resourceVersion": version.to_string()});
                ("PUT", &*path, json!({"metadata": metadata, "data": {"value": value, "pad": pad}}))
            }
            Wish::Delete(version) => (
                "DELETE",
                &*path,
                json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"resourceVersion": version.to_string()}}),
            ),
        };
        let (before, invoked) = (self.record.highest.get(), self.record.now());
        let status = self.ask(connection, method, path, &body.to_string()).await;
        let answer = match &status {
            Ok(status) => self.answer(wish, *status, &connection.body, before),
            Err(_) => Answer::Unknown,
        };
        let reason = match status {
            Ok(404) => Reason::NotFound,
            Ok(409) if matches!(wish, Wish::Create(_)) => Reason::AlreadyExists,
            Ok(409) => Reason::Conflict,
            _ => Reason::Other,
        };
        self.record.add(client, invoked, request(key, wish, &answer, reason));
        let count = match answer {
            Answer::Written(_) | Answer::Deleted => &self.acknowledged,
            Answer::Refused => &self.refused,
            Answer::Unknown => &self.unknown,
            Answer::Otherwise => return status.map(|_| answer),
        };
        count.update(|count| count + 1);
        self.changed.notify_waiters();
        status.map(|_| answer)
    }

    fn answer(&self, wish: &Wish, status: u16, body: &[u8], before: u64) -> Answer {
        let wrong = |why: &str| {
            let text = format!("{wish:?} was answered {status}{why}: {}", String::from_utf8_lossy(body));
            self.fault(Fault::new(What::Answer, text));
            Answer::Unknown
        };
        match (status, wish) {
            (200, Wish::Delete(_)) => Answer::Deleted,
            (200, Wish::Update(_, value)) | (201, Wish::Create(value)) => match serde_json::from_slice::<ConfigMap>(body).map(Item::from) {
                Ok(Item { object, .. }) if object.value == *value => {
                    if let Some(fault) = self.record.given(object.resource_version, before) {
                        self.fault(fault);
                    }
                    Answer::Written(object)
                }
                _ => wrong(" with something else"),
            },
            (404, Wish::Update(..) | Wish::Delete(_)) | (409, _) => Answer::Otherwise,
            (429 | 503 | 507, _) => Answer::Refused,
            (504, _) => Answer::Unknown,
            // A server inside this process dies in pieces.
            _ if self.is_over.get() => Answer::Unknown,
            _ => wrong(""),
        }
    }

    /// Reads an object, and records it. `None` where no answer shows it.
    ///
    /// # Errors
    /// The connection is cut.
    pub(crate) async fn read(&self, client: &str, connection: &mut Connection, key: &Key) -> io::Result<Option<Option<Object>>> {
        let invoked = self.record.now();
        let found = match self.ask(connection, "GET", &format!("{COLLECTION}/{key}"), "").await? {
            200 => serde_json::from_slice::<ConfigMap>(&connection.body).ok().map(|object| Some(Item::from(object).object)),
            404 => Some(None),
            429 | 503 => return Ok(None),
            _ if self.is_over.get() => return Ok(None),
            _ => None,
        };
        let Some(object) = &found else {
            self.fault(Fault::new(What::Answer, format!("a read of {key}: {}", String::from_utf8_lossy(&connection.body))));
            return Ok(None);
        };
        let outcome = object.clone().map_or(Outcome::Refused(Reason::NotFound), Outcome::Ok);
        self.record.add(client, invoked, Request::Get { key: key.clone(), freshness: Default::default(), outcome });
        Ok(found)
    }

    /// Reads all objects, and records it.
    ///
    /// # Errors
    /// The connection is cut, or there is no such answer.
    pub(crate) async fn list(&self, client: &str, connection: &mut Connection) -> io::Result<Listed> {
        let (before, invoked) = (self.record.highest.get(), self.record.now());
        match self.ask(connection, "GET", COLLECTION, "").await? {
            200 => (),
            status => return Err(io::Error::other(format!("a list was answered {status}"))),
        }
        let listed = Listed::from(serde_json::from_slice::<ConfigMapList>(&connection.body)?);
        if listed.resource_version.0 < before {
            let text = format!("a list is of version {} when {before} was known", listed.resource_version);
            self.fault(Fault::new(What::Version, text));
        }
        self.record.add(client, invoked, list(&listed));
        Ok(listed)
    }

    /// Begins a watch behind a version; gives its status.
    ///
    /// # Errors
    /// The connection is cut.
    pub(crate) async fn watch(&self, connection: &mut Connection, behind: ResourceVersion) -> io::Result<u16> {
        connection.watch(&format!("{COLLECTION}?watch=true&allowWatchBookmarks=true&resourceVersion={behind}")).await
    }

    async fn ask(&self, connection: &mut Connection, method: &str, path: &str, body: &str) -> io::Result<u16> {
        let asked = timeout(PATIENCE, connection.try_request_as(method, path, "application/json", body)).await;
        asked.unwrap_or_else(|_| {
            self.fault(Fault::new(What::Answer, format!("{method} {path} had no answer within {} s", PATIENCE.as_secs())));
            Err(io::ErrorKind::TimedOut.into())
        })
    }
}

/// A write as it is recorded.
fn request(key: &Key, wish: &Wish, answer: &Answer, reason: Reason) -> Request {
    let key = key.clone();
    let of = |version: &ResourceVersion| Preconditions { resource_version: Some(*version), uid: None };
    let outcome = match answer {
        Answer::Written(object) => Outcome::Ok(object.clone()),
        Answer::Otherwise | Answer::Refused => Outcome::Refused(reason),
        Answer::Unknown | Answer::Deleted => Outcome::Unknown,
    };
    match wish {
        Wish::Create(value) => Request::Create { key, value: value.clone(), outcome },
        Wish::Update(version, value) => Request::Update { key, value: value.clone(), preconditions: of(version), outcome },
        Wish::Delete(version) => {
            let outcome = match answer {
                Answer::Deleted => Outcome::Ok(Deleted::default()),
                Answer::Otherwise | Answer::Refused => Outcome::Refused(reason),
                Answer::Written(_) | Answer::Unknown => Outcome::Unknown,
            };
            Request::Delete { key, preconditions: of(version), outcome }
        }
    }
}

/// What is read of an object.
#[derive(Deserialize)]
pub(crate) struct ConfigMap {
    metadata: Metadata,
    #[serde(default)]
    data: Data,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    uid: String,
    resource_version: String,
}

#[derive(Default, Deserialize)]
struct Data {
    /// Absent in what the server itself makes.
    #[serde(default)]
    value: String,
}

#[derive(Deserialize)]
struct ConfigMapList {
    metadata: ListMetadata,
    items: Vec<ConfigMap>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMetadata {
    resource_version: String,
}

impl From<ConfigMap> for Item {
    fn from(ConfigMap { metadata, data }: ConfigMap) -> Self {
        let object =
            Object { value: Value(data.value), resource_version: version(&metadata.resource_version), uid: Some(Uid(metadata.uid)) };
        Self { key: Key(metadata.name), object }
    }
}

impl From<ConfigMapList> for Listed {
    fn from(list: ConfigMapList) -> Self {
        let resource_version = version(&list.metadata.resource_version);
        Self { resource_version, items: list.items.into_iter().map(Item::from).collect() }
    }
}

/// What is none counts as older than everything.
pub(crate) fn version(text: &str) -> ResourceVersion {
    ResourceVersion(text.parse().unwrap_or(0))
}
