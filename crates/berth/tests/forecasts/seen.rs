//! The watched changes of each namespace's workload, with their times.

use futures::StreamExt;
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject},
    core::GroupVersionKind,
    runtime::watcher,
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// The watched kinds, in all namespaces.
const KINDS: [(&str, &str, &str); 4] =
    [("", "v1", "Pod"), ("apps", "v1", "ReplicaSet"), ("apps", "v1", "Deployment"), ("apps", "v1", "StatefulSet")];

/// A watched change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// `None`: the pod is deleted.
    Pod(String, Option<Pod>),
    /// The number of replicas in a ReplicaSet's spec.
    Set(String, i64),
    /// The generation of the completed rollout. `None`: the rollout is not complete.
    Workload(Option<i64>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pod {
    pub(crate) is_going: bool,
    pub(crate) is_ready: bool,
}

/// The current state, and all changes until now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) pods: BTreeMap<String, Pod>,
    pub(crate) sets: BTreeMap<String, i64>,
    /// The generation of the completed rollout.
    pub(crate) rolled_out: Option<i64>,
    pub(crate) lines: Vec<(Instant, Line)>,
}

impl Seen {
    pub(crate) fn take_in(&mut self, at: Instant, line: Line) {
        match &line {
            Line::Pod(name, Some(pod)) => drop(self.pods.insert(name.clone(), *pod)),
            Line::Pod(name, None) => drop(self.pods.remove(name)),
            Line::Set(name, size) => drop(self.sets.insert(name.clone(), *size)),
            Line::Workload(rolled_out) => self.rolled_out = *rolled_out,
        }
        self.lines.push((at, line));
    }

    pub(crate) fn has_going(&self) -> bool {
        self.pods.values().any(|pod| pod.is_going)
    }

    pub(crate) fn available(&self) -> usize {
        self.pods.values().filter(|pod| pod.is_ready && !pod.is_going).count()
    }

    /// Whether all pods are ready, none terminates, and there are as many as the ReplicaSets want or the quota allows. A StatefulSet
    /// requires only one pod: no workload is to have none.
    pub(crate) fn is_at_rest(&self, quota: Option<u64>) -> bool {
        let (pods, wanted) = (self.pods.len() as u64, self.sets.values().sum::<i64>());
        self.available() == self.pods.len() && quota.unwrap_or(u64::MAX).min(wanted.unsigned_abs()).max(1) <= pods
    }
}

/// The state of all namespaces.
#[derive(Clone, Default)]
pub(crate) struct Watched(Arc<Mutex<BTreeMap<String, Space>>>);

#[derive(Default)]
struct Space {
    seen: Seen,
    changed: watch::Sender<()>,
}

impl Watched {
    /// Starts the watches.
    pub(crate) fn start(client: &Client) -> Self {
        let watched = Self::default();
        for (group, version, kind) in KINDS {
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
            let all = Api::<DynamicObject>::all_with(client.clone(), &resource);
            let own = watched.clone();
            tokio::spawn(async move {
                let mut events = watcher(all, watcher::Config::default()).boxed();
                let mut lists = 0;
                while let Some(event) = events.next().await {
                    let at = Instant::now();
                    match event.unwrap_or_else(|error| panic!("the watch of {kind}: {error}")) {
                        watcher::Event::Init => lists += 1,
                        watcher::Event::InitApply(object) | watcher::Event::Apply(object) => own.take_in(at, kind, &object, true),
                        watcher::Event::Delete(object) => own.take_in(at, kind, &object, false),
                        watcher::Event::InitDone => (),
                    }
                    assert_eq!(lists, 1, "the watch of {kind} began anew: what happened meanwhile is not known");
                }
            });
        }
        watched
    }

    fn take_in(&self, at: Instant, kind: &str, object: &DynamicObject, is_there: bool) {
        let Some(line) = line(kind, object, is_there) else { return };
        let mut spaces = self.0.lock().unwrap();
        let space = spaces.entry(object.namespace().unwrap_or_default()).or_default();
        space.seen.take_in(at, line);
        space.changed.send_replace(());
    }

    /// The state and the changes of a namespace.
    pub(crate) fn seen(&self, namespace: &str) -> Seen {
        self.0.lock().unwrap().get(namespace).map(|space| space.seen.clone()).unwrap_or_default()
    }

    /// Waits until the condition holds. Returns whether it does.
    pub(crate) async fn until(&self, namespace: &str, longest: Duration, is_so: impl Fn(&Seen) -> bool) -> bool {
        let mut changed = self.0.lock().unwrap().entry(namespace.to_owned()).or_default().changed.subscribe();
        let wait = async {
            while !self.0.lock().unwrap().get(namespace).is_some_and(|space| is_so(&space.seen)) {
                changed.changed().await.unwrap();
            }
        };
        tokio::time::timeout(longest, wait).await.is_ok()
    }

    /// Removes an unneeded namespace.
    pub(crate) fn forget(&self, namespace: &str) {
        self.0.lock().unwrap().remove(namespace);
    }
}

fn line(kind: &str, object: &DynamicObject, is_there: bool) -> Option<Line> {
    let (name, data) = (object.name_any(), &object.data);
    Some(match (kind, is_there) {
        ("Pod", true) => {
            let conditions = data["status"]["conditions"].as_array().into_iter().flatten();
            let is_ready = conditions.into_iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
            Line::Pod(name, Some(Pod { is_going: object.metadata.deletion_timestamp.is_some(), is_ready }))
        }
        ("Pod", false) => Line::Pod(name, None),
        ("ReplicaSet", true) => Line::Set(name, number(&data["spec"]["replicas"])),
        ("Deployment" | "StatefulSet", true) => {
            Line::Workload(object.metadata.generation.filter(|generation| is_rolled_out(kind, data, *generation)))
        }
        _ => return None,
    })
}

/// Uses the conditions of `kubectl rollout status`, and requires the desired values of all counts.
fn is_rolled_out(kind: &str, object: &Value, generation: i64) -> bool {
    let (spec, status) = (&object["spec"], &object["status"]);
    let wanted = number(&spec["replicas"]);
    let are = |members: &[&str]| members.iter().all(|member| number(&status[*member]) == wanted);
    let is_over = match kind {
        "Deployment" => spec["podReplacementPolicy"] != "TerminationComplete" || number(&status["terminatingReplicas"]) == 0,
        _ => spec["updateStrategy"]["type"] != "RollingUpdate" || status["currentRevision"] == status["updateRevision"],
    };
    number(&status["observedGeneration"]) == generation
        && are(&["replicas", "readyReplicas", "availableReplicas", "updatedReplicas"])
        && is_over
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}
