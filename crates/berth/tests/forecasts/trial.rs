//! One scenario on a real cluster: the forecast of `berth plan` for its change, the change, and the result.

use crate::{
    common::{Berth, PATIENCE, up},
    compare::{Forecast, Happened, Late, TOLERANCE},
    scenario::{Hold, NAME, Pace, Scenario, template},
    seen::{Seen, Watched},
};
use berth_plan::{Change, Controllers, Edit, KINDS, Snapshot, SnapshotScope, Suppositions, forecast};
use berth_sim::rng::{Purpose, SeededRng};
use berth_workloads::workload::{WorkloadId, WorkloadKind};
use jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};
use std::{
    path::PathBuf,
    sync::Mutex,
    time::{Duration, Instant},
};
use tokio::process::Command;

/// The number of alternative orders of simultaneous events to try after a tie: for concurrent scenarios, and for a single one, which delays
/// no other.
const ORDERS: (u64, u64) = (16, 200);
/// The number of nodes for each scenario.
const NODES: usize = 2;
/// How long the test waits after the forecast end.
const LATEST: Duration = Duration::from_secs(20);
/// How long a workload must be stable before a plan: longer than the longest delay of a controller.
const RESTS: Duration = Duration::from_millis(500);
/// How long no event may happen after a change without the desired result: longer than any pod takes to start or to stop.
const QUIET: Duration = Duration::from_secs(6);

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// The result of a scenario.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    pub(crate) seed: u64,
    pub(crate) ended: Ended,
    /// The delays of the events against the forecast, in milliseconds.
    pub(crate) late: Vec<Late>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    AsForecast,
    /// As forecast for the time of the change. Some time after the plan, other pods have equal ages.
    AtItsTime,
    /// As forecast with another order of simultaneous events.
    Tied {
        order: u64,
    },
    Differed {
        why: String,
    },
}

/// A control plane with room for several concurrent scenarios.
pub(crate) struct Cluster {
    berth: Berth,
    client: Client,
    watched: Watched,
    /// Unused zones of nodes, and the number of scenarios.
    free: Mutex<(Vec<usize>, usize)>,
    /// The number of alternative orders to try.
    orders: u64,
}

impl Cluster {
    pub(crate) async fn up(at_once: usize) -> Self {
        let nodes = (NODES * at_once).to_string();
        let berth = up(&["--store", "memory", "--no-dashboard", "--nodes", &nodes]);
        let client = berth.kube_client().await;
        let watched = Watched::start(&client);
        let orders = if at_once == 1 { ORDERS.1 } else { ORDERS.0 };
        Self { berth, client, watched, free: Mutex::new(((0..at_once).collect(), 0)), orders }
    }

    /// Runs a scenario. Callers run at most as many at a time as there are places.
    pub(crate) async fn run(&self, seed: u64) -> Ran {
        let (place, number) = {
            let mut free = self.free.lock().unwrap();
            free.1 += 1;
            (free.0.pop().expect("a place"), free.1)
        };
        let scenario = Scenario::draw(&SeededRng::new(seed, Purpose::Script), Pace::Real);
        let trial = Trial { cluster: self, namespace: format!("seed-{seed}-{number}"), place, scenario };
        let ran = trial.run().await;
        let (ended, late) = ran.unwrap_or_else(|error| (Ended::Differed { why: format!("it could not be tried: {error}") }, Vec::new()));
        trial.clear_away().await;
        self.free.lock().unwrap().0.push(place);
        Ran { seed, ended, late }
    }

    async fn send(&self, method: &str, path: &str, content: &str, body: &Value) -> Result<Value, Failed> {
        let request =
            http::Request::builder().method(method).uri(path).header("content-type", content).body(body.to_string().into_bytes())?;
        self.client.request(request).await.map_err(|error| format!("{method} {path}: {error}").into())
    }

    async fn get(&self, path: &str) -> Result<Value, Failed> {
        Ok(self.client.request(http::Request::get(path).body(Vec::new())?).await?)
    }
}

struct Trial<'a> {
    cluster: &'a Cluster,
    namespace: String,
    place: usize,
    scenario: Scenario,
}

impl Trial<'_> {
    async fn run(&self) -> Result<(Ended, Vec<Late>), Failed> {
        self.bring_about().await?;
        let plan = self.plan().await?;
        let expected = Forecast::of(&plan["forecast"]);
        let is_tied = self.scenario.is_tied(expected.is_refused_by_quota()) || expected.goes_by_node();
        let snapshot = self.snapshot().await?;
        let (happened, made) = self.make_true(&expected).await?;
        let why = match happened.held_against(&expected) {
            Ok(late) => return Ok((Ended::AsForecast, late)),
            Err(why) => why,
        };
        // A plan for the time of the change needs the pods' ages at that time.
        let snapshot = Snapshot { at: made, ..snapshot };
        for order in 0..=if is_tied { self.cluster.orders } else { 0 } {
            let supposed = Suppositions { controllers: Some(Controllers::Berth), seed: order, ..Suppositions::default() };
            let other = json!(forecast(&snapshot, &self.change(), &supposed)?);
            if let Ok(late) = happened.held_against(&Forecast::of(&other)) {
                return Ok((if order == 0 { Ended::AtItsTime } else { Ended::Tied { order } }, late));
            }
        }
        let in_orders = if is_tied { " (a tie, and in none of the other orders)" } else { "" };
        Ok((
            Ended::Differed {
                why: format!("{why}{in_orders}; {}; forecast {}", self.description(), plan["forecast"]["workloads"][0]["steps"]),
            },
            Vec::new(),
        ))
    }

    fn description(&self) -> String {
        let Scenario { kind, manifest, times, edits, quota, hold, .. } = &self.scenario;
        format!("{kind:?} {} {edits:?} {times:?} quota {quota:?} {hold:?}", manifest["spec"])
    }

    fn collection(&self, group: &str, plural: &str) -> String {
        format!("/{group}/namespaces/{}/{plural}", self.namespace)
    }

    fn plural(&self) -> &'static str {
        match self.scenario.kind {
            WorkloadKind::Deployment => "deployments",
            WorkloadKind::StatefulSet => "statefulsets",
            WorkloadKind::DaemonSet => "daemonsets",
        }
    }

    /// Creates the workload and waits until it is stable.
    async fn bring_about(&self) -> Result<(), Failed> {
        let cluster = self.cluster;
        let create = |path: String, object: Value| async move { cluster.send("POST", &path, "application/json", &object).await };
        create("/api/v1/namespaces".to_owned(), json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}))
            .await?;
        if let Some(pods) = self.scenario.quota {
            let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": pods.to_string()}}});
            create(self.collection("api/v1", "resourcequotas"), quota).await?;
            self.await_quota().await?;
        }
        let made = create(self.collection("apis/apps/v1", self.plural()), self.manifest()).await?;
        self.is_rolled_out(&made).await?;
        match self.scenario.hold {
            Hold::Paused => drop(self.patch(json!({"spec": {"paused": true}})).await?),
            Hold::PausedInTheMiddle => {
                self.patch(json!({"spec": {"template": template("main:between")}})).await?;
                tokio::time::sleep(self.scenario.times.middle).await;
                self.patch(json!({"spec": {"paused": true}})).await?;
            }
            Hold::Nothing | Hold::OnDelete => (),
        }
        self.come_to_rest().await?;
        tokio::time::sleep(self.scenario.idle).await;
        Ok(())
    }

    /// Waits until nothing changes any more, because the times of a pod that starts or stops have a precision of seconds. The workload is
    /// stable if nothing changes for a while: only then is a pause effective, and a pod that has become ready lets the controller delete
    /// others.
    async fn come_to_rest(&self) -> Result<(), Failed> {
        let (watched, began) = (&self.cluster.watched, Instant::now());
        while began.elapsed() < PATIENCE && watched.until(&self.namespace, PATIENCE, |seen| seen.is_at_rest(self.scenario.quota)).await {
            tokio::time::sleep(RESTS).await;
            if watched.seen(&self.namespace).is_at_rest(self.scenario.quota) {
                return Ok(());
            }
        }
        Err("it does not come to rest".into())
    }

    /// The manifest with simulated times, restricted to the scenario's nodes so that other scenarios do not interfere.
    fn manifest(&self) -> Value {
        let (Scenario { manifest, times, .. }, mut names) = (&self.scenario, Vec::new());
        names.extend((0..NODES).map(|node| format!("node-{}", self.place * NODES + node)));
        let mut manifest = manifest.clone();
        manifest["metadata"]["namespace"] = json!(self.namespace);
        let template = &mut manifest["spec"]["template"];
        template["metadata"]["annotations"] = json!({
            "sim.berth.dev/ready-after": format!("{}ms", times.start.as_millis()),
            "sim.berth.dev/terminates-after": format!("{}ms", times.stop.as_millis()),
        });
        let own = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": names});
        template["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [own]}]}}});
        manifest
    }

    /// A quota without a status limits nothing.
    async fn await_quota(&self) -> Result<(), Failed> {
        let began = Instant::now();
        while self.cluster.get(&self.collection("api/v1", "resourcequotas/q")).await?["status"]["used"]["pods"].is_null() {
            if PATIENCE < began.elapsed() {
                return Err("its quota is not counted".into());
            }
        }
        Ok(())
    }

    async fn is_rolled_out(&self, written: &Value) -> Result<(), Failed> {
        let generation = written["metadata"]["generation"].as_i64();
        let is_so = self.cluster.watched.until(&self.namespace, PATIENCE, |seen| seen.rolled_out == generation).await;
        if is_so { Ok(()) } else { Err("it is not rolled out in the beginning".into()) }
    }

    async fn patch(&self, patch: Value) -> Result<Value, Failed> {
        let path = self.collection("apis/apps/v1", &format!("{}/{NAME}", self.plural()));
        self.cluster.send("PATCH", &path, "application/merge-patch+json", &patch).await
    }

    /// Runs the plan as a user does.
    async fn plan(&self) -> Result<Value, Failed> {
        let kubeconfig: PathBuf = self.cluster.berth.kubeconfig();
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        command.args(["plan", "-o", "json", "--namespace", &self.namespace, "--kubeconfig"]).arg(kubeconfig);
        command.arg(format!("{}/{NAME}", self.scenario.kind.name().to_lowercase()));
        for (container, image) in &self.scenario.edits.images {
            command.arg("--image").arg(format!("{container}={image}"));
        }
        if let Some(replicas) = &self.scenario.edits.replicas {
            command.arg("--replicas").arg(replicas.to_string());
        }
        let output = command.output().await?;
        if !output.status.success() {
            return Err(format!("berth plan: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    fn change(&self) -> Change {
        let Scenario { kind, edits, .. } = &self.scenario;
        let edit = Edit { workload: WorkloadId::new(*kind, self.namespace.as_str(), NAME), edits: edits.clone() };
        Change { edits: vec![edit], ..Change::default() }
    }

    /// The input of `berth plan` from the cluster.
    async fn snapshot(&self) -> Result<Snapshot, Failed> {
        let mut objects = Vec::new();
        for kind in KINDS {
            let group =
                if kind.api_version.contains('/') { format!("apis/{}", kind.api_version) } else { format!("api/{}", kind.api_version) };
            let path = match kind.scope {
                SnapshotScope::Namespace => self.collection(&group, kind.plural),
                SnapshotScope::All | SnapshotScope::Cluster => format!("/{group}/{}", kind.plural),
            };
            let mut list = self.cluster.get(&path).await?;
            for object in list["items"].as_array_mut().into_iter().flatten() {
                (object["apiVersion"], object["kind"]) = (json!(kind.api_version), json!(kind.kind));
                objects.push(object.take());
            }
        }
        Ok(Snapshot { objects, at: Timestamp::now(), ..Snapshot::default() })
    }

    /// Makes the change, and watches as long as `expected` expects events. Returns the events and the time of the change.
    async fn make_true(&self, expected: &Forecast<'_>) -> Result<(Happened, Timestamp), Failed> {
        let (watched, namespace) = (&self.cluster.watched, &self.namespace);
        let before = watched.seen(namespace).lines.len();
        let written = self.patch(self.scenario.patch()).await?;
        let (began, made) = (Instant::now(), Timestamp::now());
        let generation = written["metadata"]["generation"].as_i64().ok_or("it has no generation")?;
        match expected.outcome() {
            "complete" => {
                let is_over = |seen: &Seen| seen.rolled_out == Some(generation) && !seen.has_going();
                let latest = began + expected.settled_after() + LATEST;
                // Each resource has a watch of its own, and one may be behind another.
                while watched.until(namespace, latest.saturating_duration_since(Instant::now()), is_over).await {
                    tokio::time::sleep(TOLERANCE).await;
                    if is_over(&watched.seen(namespace)) {
                        break;
                    }
                }
            }
            _ => tokio::time::sleep(expected.settled_after() + TOLERANCE + QUIET).await,
        }
        Ok((Happened::read(&watched.seen(namespace), before, generation, began), made))
    }

    /// Deletes the namespace, so that other scenarios can use its nodes.
    async fn clear_away(&self) {
        let path = format!("/api/v1/namespaces/{}", self.namespace);
        // The remaining objects block nothing except for their pods.
        let _ = self.cluster.send("DELETE", &path, "application/json", &json!({})).await;
        self.cluster.watched.until(&self.namespace, PATIENCE, |seen| seen.pods.is_empty()).await;
        self.cluster.watched.forget(&self.namespace);
    }
}
