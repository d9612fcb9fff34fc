//! A store over all lives of its servers, with the clients that use it.

use super::{
    bars::{ATTACKERS, BINDINGS, edits},
    memory::{Fault, What},
    session::{LAST, NAMESPACE, PATIENCE, Record, Session, Wish},
    tally::Tally,
    test_server::{GROUP, Refusal, TestServer},
    watchers::{WATCHERS, Watcher},
    writers::{WRITERS, Writer},
};
use crate::client::{Connection, Endpoint};
use berth_linear::{Effort, Key, Listed, Object, Operation, Request, check};
use futures::{future::join_all, join};
use serde_json::json;
use std::{cell::RefCell, collections::BTreeMap, fs, io};
use tokio::time::timeout;

/// How a life ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Kill,
    /// Of what was not synced, what the seed draws is lost.
    PowerLoss(u64),
}

pub(crate) struct Subject {
    pub(crate) test_server: TestServer,
    writers: Vec<Writer>,
    watchers: Vec<Watcher>,
    record: Record,
    /// All objects, as of when nothing was last on its way.
    pub(crate) objects: BTreeMap<Key, Object>,
}

impl Subject {
    pub(crate) fn new(test_server: TestServer, seed: u64) -> Self {
        Self {
            test_server,
            writers: (0..WRITERS).map(|number| Writer::new(seed, number)).collect(),
            watchers: (0..WATCHERS).map(|number| Watcher::new(seed, number)).collect(),
            record: Record::default(),
            objects: BTreeMap::new(),
        }
    }

    /// One life: checks that everything is there that should be, then has clients write and watch while `conduct` acts on the server, and returns how
    /// it dies.
    ///
    /// # Errors
    /// It does not start.
    pub(crate) async fn live(
        &mut self,
        tally: &RefCell<Tally>,
        name: &str,
        conduct: impl AsyncFnOnce(&Session<'_>, &mut TestServer) -> End,
    ) -> Result<(), Refusal> {
        let endpoints = self.test_server.start().await?;
        self.settle(&endpoints, tally, name).await;
        let Self { test_server, writers, watchers, record, .. } = self;
        let session = Session::new(endpoints, record, tally);
        session.writing.set(writers.len());
        session.watching.set(watchers.len());
        let writing = join_all(writers.iter_mut().map(|writer| writer.run(&session)));
        let watching = join_all(watchers.iter_mut().map(|watcher| watcher.run(&session)));
        let conducting = async {
            let end = conduct(&session, test_server).await;
            session.goes_on.set(false);
            session.is_over.set(true);
            match end {
                End::Kill => test_server.kill(),
                End::PowerLoss(seed) => test_server.in_process().lose_power(seed),
            }
        };
        join!(writing, watching, conducting);
        session.count();
        Ok(())
    }

    /// A life without faults: everything is checked once more.
    ///
    /// # Errors
    /// It does not start.
    pub(crate) async fn finish(&mut self, tally: &RefCell<Tally>) -> Result<(), Refusal> {
        let endpoints = self.test_server.start().await?;
        self.settle(&endpoints, tally, "end").await;
        self.test_server.kill();
        Ok(())
    }

    /// Checks that the objects match what clients received in the life before, and begins a new record with them.
    async fn settle(&mut self, endpoints: &[Endpoint], tally: &RefCell<Tally>, name: &str) {
        let settled = {
            let Self { writers, watchers, record, .. } = self;
            let session = Session::new(endpoints.to_vec(), record, tally);
            let settled = settle(&session, writers, watchers).await;
            session.count();
            settled
        };
        match settled {
            Ok((listed, history)) => {
                self.objects = by_key(&listed);
                let mut tally = tally.borrow_mut();
                in_order(&history, &mut tally, name);
            }
            Err(error) => tally.borrow_mut().fault(Fault::new(What::Start, format!("a new server cannot be asked: {error}"))),
        }
    }
}

async fn settle(session: &Session<'_>, writers: &mut [Writer], watchers: &mut [Watcher]) -> io::Result<(Listed, Vec<Operation>)> {
    let mut connection = Connection::try_open(session.administrator()).await?;
    prepare(&mut connection).await?;
    let is_first = session.record.is_empty();
    let listed = session.list("conductor", &mut connection).await?;
    if is_first {
        // The server has an object of its own in each namespace.
        session.record.take(&listed);
    }
    let found = by_key(&listed);
    for writer in writers {
        let happened = writer.settle(&found, |fault| session.fault(fault));
        session.tally.borrow_mut().happened += happened;
    }
    for (key, object) in found.iter().filter(|(key, _)| key.0.starts_with(LAST)) {
        session.write("conductor", &mut connection, key, &Wish::Delete(object.resource_version), 0).await?;
    }
    session.write_last().await?;
    session.watching.set(watchers.len());
    let catching_up = join_all(watchers.iter_mut().map(|watcher| watcher.run(session)));
    if timeout(PATIENCE, catching_up).await.is_err() {
        session.fault(Fault::new(What::Watch, format!("not all watchers were shown the last object within {} s", PATIENCE.as_secs())));
    }
    let listed = session.list("conductor", &mut connection).await?;
    watchers.iter_mut().for_each(|watcher| watcher.put_down(session));
    let history = session.record.take(&listed);
    watchers.iter_mut().for_each(|watcher| watcher.restart(session));
    Ok((listed, history))
}

/// Makes what clients need, if it is not there: the first server may have been killed before.
async fn prepare(connection: &mut Connection) -> io::Result<()> {
    let victim = json!({"metadata": {"name": "c0"}, "data": {"k": "v"}});
    for (collection, object) in [
        ("/api/v1/namespaces", json!({"metadata": {"name": NAMESPACE}})),
        ("/api/v1/namespaces/default/configmaps", victim),
        (BINDINGS, edits(GROUP)),
        (BINDINGS, edits(ATTACKERS)),
    ] {
        let status = connection.try_request_as("POST", collection, "application/json", &object.to_string()).await?;
        if ![201, 409].contains(&status) {
            return Err(io::Error::other(format!("POST {collection}: {status} {}", String::from_utf8_lossy(&connection.body))));
        }
    }
    Ok(())
}

/// The objects of a list.
pub(crate) fn by_key(listed: &Listed) -> BTreeMap<Key, Object> {
    listed.items.iter().map(|item| (item.key.clone(), item.object.clone())).collect()
}

/// Whether what all clients did and saw fits one order; where not, the history is kept.
fn in_order(history: &[Operation], tally: &mut Tally, name: &str) {
    let is_watch = |operation: &&Operation| matches!(operation.request, Request::Watch { .. });
    let others: Vec<Operation> = history.iter().filter(|operation| !is_watch(operation)).cloned().collect();
    let before = tally.faults();
    judge(&others, What::Order, tally);
    if tally.faults() == before {
        judge(history, What::Watch, tally);
    }
    if before < tally.faults() {
        let file = tally.kept.join(format!("history-{name}.jsonl"));
        let text: String = history.iter().map(Operation::to_line).collect();
        let kept = fs::write(&file, text);
        crate::print::print(&kept.map_or_else(|error| error.to_string(), |()| format!("the history is kept: {}", file.display())));
    }
}

fn judge(history: &[Operation], what: What, tally: &mut Tally) {
    match check(history, Effort::default()) {
        Ok(checked) if what == What::Watch => tally.ordered += checked.operations as u64,
        Ok(_) => (),
        Err(faults) => {
            for fault in faults {
                match fault {
                    // Without the watchers' observations it may have an order. Here it counts whether it has one with them.
                    berth_linear::Fault::TooHard { .. } => tally.too_hard += u64::from(what == What::Watch),
                    fault => tally.fault(Fault::new(what, fault.to_string())),
                }
            }
        }
    }
}
