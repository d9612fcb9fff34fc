//! An etcd by itself, and berth over one: what is left of etcd's speed on the way through an API server.

use crate::{
    etcd_server::Etcd,
    figures::{Figure, Runs, Table, seconds},
    loads::{CONNECTIONS, LISTED, create, get, load, rollout},
    server::{Parts, Server, Target},
};
use berth_etcd::{Client, Options};
use berth_store::{
    Expected, Key, Revision,
    etcd::{Etcd as _, Outcome, Put},
};
use futures::{StreamExt, stream};
use std::{collections::BTreeMap, path::Path, sync::Arc, time::Instant};

/// How many creates are a run.
const CREATES: usize = 10_000;
/// How many runs of creates there are.
const RUNS: usize = 5;

/// Guarded puts into an etcd without anything between, then an API server over another one, then three of berth's.
pub(crate) async fn etcd(target: &Target) -> Vec<Figure> {
    let mut figures = Vec::new();
    if let Target::BerthOnEtcd { programs, .. } = target {
        figures.extend(alone(programs).await);
    }
    let mut server = Server::start(target, Parts::StoreOnly).await;
    // The first ones warm up, and are what the gets read.
    load(&server, 0..LISTED, create).await;
    figures.extend(objects(&server, "over etcd", LISTED, Table::Readme).await);
    if let Target::BerthOnEtcd { .. } = target {
        server.add_one().await;
        server.add_one().await;
        let first = LISTED + RUNS * CREATES;
        figures.extend(objects(&server, "over etcd, three servers", first, Table::Detail).await);
    }
    drop(server);
    figures.extend(rollout(target, 1000, 5, Table::Readme).await);
    figures
}

/// Transactions that create a key of 1 KiB if it is absent, with a client that watches all of them.
async fn alone(programs: &Path) -> Vec<Figure> {
    const PUTS: usize = 20_000;
    let etcd = Etcd::start(programs);
    let options =
        Options { endpoints: vec![etcd.endpoint.clone()], tls: None, user: None, insecure: false, prefix: "/registry".to_owned() };
    let client = Client::open(&options).await.unwrap();
    let mut watch = client.watch("/registry/", Revision(1)).items;
    tokio::spawn(async move { while watch.next().await.is_some() {} });
    let mut runs = Runs::default();
    for run in 0..5 {
        let started = Instant::now();
        let puts = stream::iter(run * PUTS..(run + 1) * PUTS).map(|number| {
            let key = Key::new(&format!("/registry/configmaps/default/c{number:06}"));
            let put = Put { key, expected: Some(Expected::Absent), value: Some("x".repeat(1024).into()), lease: None };
            client.txn(Arc::new([put]))
        });
        let outcomes = puts.buffer_unordered(CONNECTIONS);
        outcomes.for_each(async |outcome| assert!(matches!(outcome.unwrap(), Outcome::Done(_)))).await;
        runs.add(
            "etcd alone: guarded puts of 1 KiB, 64 in flight, one watcher",
            "1/s",
            Table::Detail,
            PUTS as f64 / seconds(started.elapsed()),
        );
    }
    runs.figures()
}

/// Creates and gets as of the embedded store, and how many of etcd's reads the gets of berth took. `first` is the number of the first that is
/// not there yet.
async fn objects(server: &Server, what: &str, first: usize, table: Table) -> Vec<Figure> {
    const GETS: usize = 50_000;
    let mut runs = Runs::default();
    for run in 0..RUNS {
        let from = first + run * CREATES;
        let before = server.cpu_seconds_of_each();
        let rate = load(server, from..from + CREATES, create).await;
        runs.add(&format!("creates of 1 KiB config maps {what}, HTTPS, 64 connections"), "1/s", table, rate);
        let mut spent = BTreeMap::<String, f64>::new();
        for ((name, before), (_, after)) in before.into_iter().zip(server.cpu_seconds_of_each()) {
            *spent.entry(name).or_default() += after - before;
        }
        for (name, seconds) in spent {
            runs.add(&format!("  {what}: processor time a create, {name}"), "ms", Table::Detail, seconds * 1000.0 / CREATES as f64);
        }
    }
    for _ in 0..5 {
        let before = server.etcd().map(Etcd::ranges);
        let rate = load(server, 0..GETS, get).await;
        runs.add(&format!("gets {what}, likewise"), "1/s", table, rate);
        if let (Some(etcd), Some(before)) = (server.etcd(), before) {
            runs.add(&format!("  {what}: reads of etcd a get"), "", Table::Detail, (etcd.ranges() - before) / GETS as f64);
        }
    }
    runs.figures()
}
