//! Applies sets of manifests to both servers: which objects each accepts, and which workloads become ready on berth.
//!
//! A set is a file or a folder, such as a rendered chart. Each set gets servers of its own, because sets use the same names. Objects of
//! kinds that berth does not serve are counted and left out.

use crate::{
    documents,
    print::print,
    served::{Answer, Ask, Kind, Pair, Server},
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// How long the workloads of a set have to become ready. Simulated pods start in less than a second, and Helm's Jobs end after one.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// Between two reads of all workloads.
const POLL: Duration = Duration::from_millis(250);
/// Namespaces that each server has.
const SYSTEM_NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// What all sets showed.
#[derive(Default)]
pub(crate) struct Tally {
    sets: usize,
    /// Sets of which berth refuses no object that the real server accepts.
    whole: usize,
    objects: usize,
    /// Objects of kinds that berth does not serve, by kind. Most are custom.
    not_served: BTreeMap<String, usize>,
    accepted_by_theirs: usize,
    accepted_by_ours: usize,
    /// Objects that only the real server accepts.
    refused: usize,
    workloads: usize,
    ready: usize,
}

impl Tally {
    /// Whether berth refused an object that the real server accepts.
    pub(crate) fn has_refusals(&self) -> bool {
        self.refused > 0
    }

    pub(crate) fn text(&self) -> String {
        let kinds: Vec<String> = self.not_served.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        let not_served: usize = self.not_served.values().sum();
        format!(
            "{} sets, {} of them without a refusal that the real server does not give\n\
             {} objects, of them {not_served} of kinds that berth does not serve ({})\n\
             accepted: {} by Kubernetes, {} by berth\n\
             ready on berth: {} of {} workloads",
            self.sets,
            self.whole,
            self.objects,
            kinds.join(", "),
            self.accepted_by_theirs,
            self.accepted_by_ours,
            self.ready,
            self.workloads
        )
    }
}

/// Applies each set of these folders. `None` where there is no real Kubernetes.
pub(crate) async fn run(folders: &[PathBuf]) -> Option<Tally> {
    let mut tally = Tally::default();
    for set in folders.iter().flat_map(|folder| entries(folder)) {
        let pair = Pair::start_for_manifests().await?;
        apply(&pair, &set, &mut tally).await;
    }
    assert!(tally.objects > 0, "the folders contain no manifest");
    Some(tally)
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = all.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

async fn apply(pair: &Pair, set: &Path, tally: &mut Tally) {
    let (ours, theirs) = (pair.kinds().await, pair.kinds_of_theirs().await);
    let of = |kinds: &[Kind], object: &Value| {
        kinds.iter().find(|kind| object["apiVersion"] == *kind.api_version && object["kind"] == *kind.kind).cloned()
    };
    let (mut objects, mut not_served) = (Vec::new(), BTreeMap::<String, usize>::new());
    for object in documents::all(set) {
        match (of(&ours, &object), of(&theirs, &object)) {
            (Some(kind), Some(_)) => objects.push((kind, object)),
            _ => *not_served.entry(text(&object["kind"]).to_owned()).or_default() += 1,
        }
    }
    prepare(pair, &objects).await;
    let (mut accepted, mut refused) = ([0, 0], 0);
    let name = set.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut lines = Vec::new();
    for (kind, object) in &objects {
        let path = format!("{}?fieldValidation=Strict", collection(kind, object));
        let ask = Ask { method: "POST", path, content_type: "application/json", body: object.clone() };
        let answers = pair.ask(&ask, &ask).await;
        let [at_theirs, at_ours] = [0, 1].map(|at| has_accepted(&answers[at]));
        accepted[0] += usize::from(at_theirs);
        accepted[1] += usize::from(at_ours);
        refused += usize::from(at_theirs && !at_ours);
        if at_theirs != at_ours || (!at_ours && answers[0].status != answers[1].status) {
            let says = |at: usize| format!("{} {}", answers[at].status, text(&answers[at].body["message"]));
            lines.push(format!("  {} {}: Kubernetes {}; berth {}", kind.kind, text(&object["metadata"]["name"]), says(0), says(1)));
        }
    }
    let (ready, unready) = wait(&pair.ours, &objects).await;
    lines.extend(unready.iter().map(|workload| format!("  not ready: {workload}")));
    print(&format!(
        "{name}: {} objects, {} of kinds that berth does not serve; accepted: {} by Kubernetes, {} by berth; ready: {ready} of {}",
        objects.len() + not_served.values().sum::<usize>(),
        not_served.values().sum::<usize>(),
        accepted[0],
        accepted[1],
        ready + unready.len()
    ));
    lines.iter().for_each(|line| print(line));
    tally.sets += 1;
    tally.whole += usize::from(refused == 0);
    tally.objects += objects.len() + not_served.values().sum::<usize>();
    not_served.into_iter().for_each(|(kind, count)| *tally.not_served.entry(kind).or_default() += count);
    tally.accepted_by_theirs += accepted[0];
    tally.accepted_by_ours += accepted[1];
    tally.refused += refused;
    tally.ready += ready;
    tally.workloads += ready + unready.len();
}

/// A set contains some objects twice, in variants.
fn has_accepted(answer: &Answer) -> bool {
    answer.is_good() || answer.body["reason"] == "AlreadyExists"
}

/// Creates the namespaces that objects name, and waits for their service accounts.
async fn prepare(pair: &Pair, objects: &[(Kind, Value)]) {
    let named = objects.iter().filter(|(kind, _)| kind.is_namespaced).filter_map(|(_, object)| object["metadata"]["namespace"].as_str());
    let named: BTreeSet<&str> = named.chain(["default"]).collect();
    for server in [&pair.theirs, &pair.ours] {
        for name in named.iter().filter(|name| !SYSTEM_NAMESPACES.contains(name)) {
            server.create("/api/v1/namespaces", json!({"metadata": {"name": name}})).await;
        }
        for name in &named {
            server.until_found(&format!("/api/v1/namespaces/{name}/serviceaccounts/default")).await;
        }
    }
}

fn collection(kind: &Kind, object: &Value) -> String {
    kind.collection_in(object["metadata"]["namespace"].as_str().unwrap_or("default"))
}

/// How many workloads are ready, and which are not, when all are or the time is over.
async fn wait(server: &Server, objects: &[(Kind, Value)]) -> (usize, Vec<String>) {
    let started = Instant::now();
    let paths: BTreeSet<(&str, String)> = objects
        .iter()
        .filter(|(_, object)| object["metadata"]["name"].is_string())
        .map(|(kind, object)| (&*kind.kind, format!("{}/{}", collection(kind, object), text(&object["metadata"]["name"]))))
        .collect();
    loop {
        let (mut ready, mut unready) = (0, Vec::new());
        for (kind, path) in &paths {
            let answer = server.read(path).await;
            // An object that was refused is counted as refused.
            match is_ready(kind, &answer.body).filter(|_| answer.is_good()) {
                Some(true) => ready += 1,
                Some(false) => unready.push(format!("{kind} {path}")),
                None => (),
            }
        }
        if unready.is_empty() || READY_WITHIN < started.elapsed() {
            return (ready, unready);
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Whether a workload has what its spec asks for. `None` for a kind that runs no pods.
fn is_ready(kind: &str, object: &Value) -> Option<bool> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let number = |value: &Value, default: i64| value.as_i64().unwrap_or(default);
    let has =
        |type_: &str| status["conditions"].as_array().is_some_and(|all| all.iter().any(|is| is["type"] == type_ && is["status"] == "True"));
    let is_observed = status["observedGeneration"] == object["metadata"]["generation"];
    match kind {
        "Deployment" | "ReplicaSet" | "ReplicationController" | "StatefulSet" => {
            Some(is_observed && number(&spec["replicas"], 1) <= number(&status["availableReplicas"], 0))
        }
        "DaemonSet" => Some(is_observed && number(&status["desiredNumberScheduled"], 0) <= number(&status["numberAvailable"], 0)),
        "Job" => Some(has("Complete") || spec["suspend"] == true),
        "Pod" => Some(has("Ready") || status["phase"] == "Succeeded"),
        _ => None,
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_is_ready_when_it_has_what_its_spec_asks_for() {
        let set = |replicas: i64, available: i64| json!({"metadata": {"generation": 1}, "spec": {"replicas": replicas}, "status": {"observedGeneration": 1, "availableReplicas": available}});
        assert_eq!(is_ready("Deployment", &set(2, 2)), Some(true));
        assert_eq!(is_ready("StatefulSet", &set(2, 1)), Some(false));
        assert_eq!(is_ready("ReplicaSet", &json!({})), Some(false), "the default is one pod");
        let unobserved = json!({"metadata": {"generation": 1}, "spec": {"replicas": 0}});
        assert_eq!(is_ready("Deployment", &unobserved), Some(false), "no controller has observed it");
        let daemons =
            |observed: i64| json!({"metadata": {"generation": 2}, "status": {"observedGeneration": observed, "desiredNumberScheduled": 0}});
        assert_eq!(is_ready("DaemonSet", &daemons(2)), Some(true));
        assert_eq!(is_ready("DaemonSet", &daemons(1)), Some(false), "no controller has observed it");
        let complete = json!({"status": {"conditions": [{"type": "Complete", "status": "True"}]}});
        assert_eq!([is_ready("Job", &complete), is_ready("Job", &json!({}))], [Some(true), Some(false)]);
        assert_eq!(is_ready("Pod", &json!({"status": {"phase": "Running"}})), Some(false), "it runs and is not ready");
        assert_eq!(is_ready("ConfigMap", &json!({})), None);
    }
}
