//! What is measured. Every figure has an odd number of runs. A run has a server of its own, unless the figure states what else is repeated.

use crate::{
    batch, custom, etcd,
    figures::{Figure, Runs, Table, seconds},
    loads::{
        CONFIG_MAPS, DEPLOYMENTS, LISTED, create, deployment, get, load, new_image, node, rollout, wait_until_all_done, wait_until_bound,
        wait_until_done, with_nodes,
    },
    server::{Parts, Server, Target},
    stateful_sets,
};
use futures::{FutureExt, future::LocalBoxFuture};
use std::time::{Duration, Instant};

/// Something to measure.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) systems: Systems,
    pub(crate) run: fn(&Target) -> LocalBoxFuture<'_, Vec<Figure>>,
}

/// Who can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Systems {
    /// Only berth: a Kubernetes has no nodes here that would run pods, and its start includes a script's.
    Berth,
    Both,
    /// Both, each over an etcd, which comes with a Kubernetes.
    BothOnEtcd,
}

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario { name: "start", systems: Systems::Berth, run: |target| start(target).boxed_local() },
    Scenario { name: "memory", systems: Systems::Both, run: |target| idle(target).boxed_local() },
    Scenario { name: "objects", systems: Systems::Both, run: |target| objects(target).boxed_local() },
    Scenario { name: "custom-objects", systems: Systems::Both, run: |target| custom::creates(target).boxed_local() },
    Scenario { name: "custom-definitions", systems: Systems::Berth, run: |target| custom::definitions(target).boxed_local() },
    Scenario { name: "lists", systems: Systems::Both, run: |target| lists(target).boxed_local() },
    Scenario { name: "rollout-1000", systems: Systems::Berth, run: |target| rollout(target, 1000, 5, Table::Readme).boxed_local() },
    Scenario { name: "rollout-100", systems: Systems::Berth, run: |target| rollout(target, 100, 7, Table::Detail).boxed_local() },
    Scenario { name: "rollout-5000", systems: Systems::Berth, run: |target| rollout(target, 5000, 3, Table::Readme).boxed_local() },
    Scenario { name: "rollout-10000", systems: Systems::Berth, run: |target| rollout(target, 10_000, 3, Table::Readme).boxed_local() },
    Scenario { name: "fleet", systems: Systems::Berth, run: |target| fleet(target).boxed_local() },
    Scenario { name: "crowd", systems: Systems::Berth, run: |target| crowd(target).boxed_local() },
    Scenario { name: "idle-10000", systems: Systems::Berth, run: |target| idle_with_pods(target, 10_000).boxed_local() },
    Scenario {
        name: "sets-ordered",
        systems: Systems::Berth,
        run: |target| stateful_sets::one(target, 100, "OrderedReady", 5).boxed_local(),
    },
    Scenario { name: "sets-parallel", systems: Systems::Berth, run: |target| stateful_sets::one(target, 500, "Parallel", 5).boxed_local() },
    Scenario { name: "sets-quarters", systems: Systems::Berth, run: |target| stateful_sets::by_quarters(target, 500, 5).boxed_local() },
    Scenario { name: "schedule-10000", systems: Systems::Berth, run: |target| schedule(target, 10_000, 10_000).boxed_local() },
    Scenario { name: "etcd", systems: Systems::BothOnEtcd, run: |target| etcd::etcd(target).boxed_local() },
    Scenario { name: "jobs", systems: Systems::Both, run: |target| batch::jobs(target, 1000, 3).boxed_local() },
    Scenario { name: "job-10000", systems: Systems::Both, run: |target| batch::large_job(target, 10_000, 500, 3).boxed_local() },
    Scenario { name: "daemonset-1000", systems: Systems::Both, run: |target| batch::daemon_set(target, 1000, 3).boxed_local() },
    Scenario { name: "sets-many", systems: Systems::Berth, run: |target| stateful_sets::many(target, 10, 5000).boxed_local() },
];

/// The scenario of this name.
pub(crate) fn parse(name: &str) -> Result<&'static Scenario, String> {
    let names = || SCENARIOS.iter().map(|scenario| scenario.name).collect::<Vec<_>>().join(", ");
    SCENARIOS.iter().find(|scenario| scenario.name == name).ok_or_else(|| format!("there is no such scenario; there are {}", names()))
}

/// From the start of the process to `/readyz` ok, on an empty folder, certificates made.
async fn start(target: &Target) -> Vec<Figure> {
    let mut runs = Runs::default();
    for _ in 0..9 {
        let server = Server::start(target, Parts::Controllers(&[])).await;
        runs.add("start to `/readyz` ok, empty data folder", "ms", Table::Readme, seconds(server.ready_after) * 1000.0);
    }
    runs.figures()
}

/// Resident memory and processor time of a control plane with nothing to do.
async fn idle(target: &Target) -> Vec<Figure> {
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(Server::start(target, Parts::Controllers(&[])).await);
    }
    let mut runs = Runs::default();
    for (processor, memory) in at_rest(&servers, Duration::from_secs(5)).await {
        runs.add("resident memory, idle", "MiB", Table::Readme, memory);
        runs.add("processor, idle", "% of a core", Table::Detail, processor);
    }
    runs.figures()
}

/// Processor time in per cent of a core and resident memory in MiB of each server, once `settling` is over. They rest side by side.
async fn at_rest(servers: &[Server], settling: Duration) -> Vec<(f64, f64)> {
    const WATCHED: Duration = Duration::from_secs(20);
    tokio::time::sleep(settling).await;
    let before: Vec<f64> = servers.iter().map(Server::cpu_seconds).collect();
    tokio::time::sleep(WATCHED).await;
    let spent = |(server, before): (&Server, f64)| ((server.cpu_seconds() - before) / seconds(WATCHED) * 100.0, server.resident_mib());
    servers.iter().zip(before).map(spent).collect()
}

/// Creates and gets of 1 KiB config maps, durable, over HTTPS. A run is a part of all requests to one server.
async fn objects(target: &Target) -> Vec<Figure> {
    const CREATES: usize = 25_000;
    const GETS: usize = 50_000;
    let server = Server::start(target, Parts::StoreOnly).await;
    // The first ones warm up, and are what the gets read.
    load(&server, 0..LISTED, create).await;
    let mut runs = Runs::default();
    for run in 0..5 {
        let from = LISTED + run * CREATES;
        let rate = load(&server, from..from + CREATES, create).await;
        runs.add("durable creates of 1 KiB config maps over HTTPS, 64 connections", "1/s", Table::Readme, rate);
    }
    for _ in 0..5 {
        runs.add("gets, likewise", "1/s", Table::Readme, load(&server, 0..GETS, get).await);
    }
    runs.figures()
}

/// Lists of 1 KiB config maps. A run is one list.
async fn lists(target: &Target) -> Vec<Figure> {
    let server = Server::start(target, Parts::StoreOnly).await;
    load(&server, 0..LISTED, create).await;
    let mut connection = server.connect().await;
    let mut runs = Runs::default();
    for _ in 0..15 {
        let started = Instant::now();
        assert_eq!(connection.request("GET", CONFIG_MAPS, "").await, 200);
        assert!(connection.body.len() > LISTED * 1000);
        runs.add("list of 5,000 config maps of 1 KiB", "ms", Table::Readme, seconds(started.elapsed()) * 1000.0);
    }
    runs.figures()
}

/// Many small Deployments at once: created, then all updated.
async fn fleet(target: &Target) -> Vec<Figure> {
    const COUNT: usize = 500;
    const PODS: f64 = 2000.0;
    let mut runs = Runs::default();
    for _ in 0..3 {
        let (server, mut connection) = with_nodes(target, &[]).await;
        let before = server.spent(&mut connection).await;
        let started = Instant::now();
        load(&server, 0..COUNT, |number| ("POST", DEPLOYMENTS.to_owned(), deployment(&format!("f{number}"), 4).to_string())).await;
        wait_until_all_done(&mut connection, DEPLOYMENTS, COUNT, 4).await;
        let created = seconds(started.elapsed());
        let after_create = server.spent(&mut connection).await;
        let started = Instant::now();
        load(&server, 0..COUNT, |number| ("PATCH", format!("{DEPLOYMENTS}/f{number}"), new_image())).await;
        wait_until_all_done(&mut connection, DEPLOYMENTS, COUNT, 4).await;
        let updated = seconds(started.elapsed());
        let after_update = server.spent(&mut connection).await;
        runs.add("500 Deployments of 4 pods, created at once", "pods/s", Table::Readme, PODS / created);
        runs.add("500 Deployments of 4 pods, updated at once", "pods/s", Table::Readme, PODS / updated);
        after_create.add_to(&mut runs, &before, "500 Deployments created", PODS);
        after_update.add_to(&mut runs, &after_create, "500 Deployments updated", PODS);
    }
    runs.figures()
}

/// How long a new Deployment waits for its first pod while 2,000 others roll. A run is one new Deployment.
async fn crowd(target: &Target) -> Vec<Figure> {
    const COUNT: usize = 2000;
    let (server, mut connection) = with_nodes(target, &[]).await;
    load(&server, 0..COUNT, |number| ("POST", DEPLOYMENTS.to_owned(), deployment(&format!("f{number}"), 2).to_string())).await;
    wait_until_all_done(&mut connection, DEPLOYMENTS, COUNT, 2).await;
    load(&server, 0..COUNT, |number| ("PATCH", format!("{DEPLOYMENTS}/f{number}"), new_image())).await;
    let mut runs = Runs::default();
    for number in 0..5 {
        let name = format!("late{number}");
        let started = Instant::now();
        connection.create(DEPLOYMENTS, &deployment(&name, 1)).await;
        wait_until_done(&mut connection, &format!("{DEPLOYMENTS}/{name}"), 1).await;
        let waited = seconds(started.elapsed()) * 1000.0;
        runs.add("first pod of a new Deployment while 2,000 others roll", "ms", Table::Readme, waited);
    }
    runs.figures()
}

/// The pods of one Deployment from its creation until each is bound, on nodes that are only objects: no kubelet takes part.
async fn schedule(target: &Target, nodes: usize, pods: u32) -> Vec<Figure> {
    let mut runs = Runs::default();
    for _ in 0..3 {
        let server = Server::start(target, Parts::Controllers(&["--nodes", "0", "--controllers", "deployment,replicaset,scheduler"])).await;
        let mut connection = server.connect().await;
        load(&server, 0..nodes, node).await;
        let before = server.spent(&mut connection).await;
        let started = Instant::now();
        connection.create(DEPLOYMENTS, &deployment("bench", pods)).await;
        wait_until_bound(&mut connection, pods).await;
        let took = seconds(started.elapsed());
        runs.add(&format!("pods of one Deployment bound to {nodes} nodes"), "pods/s", Table::Readme, f64::from(pods) / took);
        server.spent(&mut connection).await.add_to(&mut runs, &before, "pods bound", f64::from(pods));
    }
    runs.figures()
}

/// What a control plane costs that has pods and nothing to do.
async fn idle_with_pods(target: &Target, pods: u32) -> Vec<Figure> {
    let mut servers = Vec::new();
    for _ in 0..3 {
        let (server, mut connection) = with_nodes(target, &[]).await;
        connection.create(DEPLOYMENTS, &deployment("bench", pods)).await;
        wait_until_done(&mut connection, &format!("{DEPLOYMENTS}/bench"), pods).await;
        servers.push(server);
    }
    let mut runs = Runs::default();
    // Events are still being written for a while.
    for (processor, memory) in at_rest(&servers, Duration::from_secs(15)).await {
        runs.add(&format!("processor, idle with {pods} pods"), "% of a core", Table::Readme, processor);
        runs.add(&format!("resident memory with {pods} pods"), "MiB", Table::Readme, memory);
    }
    runs.figures()
}
