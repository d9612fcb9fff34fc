//! How long each pod took to start and to stop, and the behavior of a replay's pods that follows.

use crate::{snapshot::entries, times::since};
use berth_api::simulation::Failure;
use berth_node::{
    ForeignNodes, Latencies, MissingImages,
    kubelet::{Behavior, KnownObjects, KubeletPod},
};
use berth_store::env::Timestamp;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// The assumed start time of a pod if no pod of the template started.
const START: Duration = Duration::from_secs(10);
/// Longer than any grace period, which therefore determines the end of the pod.
const INDEFINITELY: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Namespace and template.
type Template = (String, String);
/// Namespace and name.
type PodKey = (String, String);

/// The times of one pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Life {
    /// From binding to readiness.
    start: Option<Duration>,
    /// From deletion to its end.
    stop: Option<Duration>,
    /// It had a node, but was never ready while observed.
    was_unready: bool,
}

/// The pods in a recording.
#[derive(Default)]
pub(crate) struct Watched {
    pods: BTreeMap<PodKey, Seen>,
    /// Templates by ReplicaSet, and by ControllerRevision.
    templates: BTreeMap<(&'static str, String, String), String>,
    lives: Lives,
    next: u64,
}

struct Seen {
    uid: String,
    owner: Option<(&'static str, String)>,
    number: u64,
    /// Whether it existed when the recording began.
    is_first: bool,
    bound: Option<Timestamp>,
    ready: Option<Timestamp>,
    terminating: Option<Timestamp>,
}

/// The times of all pods.
#[derive(Clone, Default)]
pub(crate) struct Lives {
    /// Pods that were created during the recording, in order.
    came: BTreeMap<Template, BTreeMap<u64, Life>>,
    /// Pods that existed at the beginning, by uid.
    first: BTreeMap<String, (Life, Times)>,
    /// All stop times of a template's pods, including those that existed at the beginning.
    stops: BTreeMap<Template, Vec<Duration>>,
}

/// When a pod that existed at the beginning became ready or was deleted, unless it was before.
#[derive(Clone, Copy, Default)]
struct Times {
    ready: Option<Timestamp>,
    gone: Option<Timestamp>,
}

impl Watched {
    /// Records a ReplicaSet or a ControllerRevision with its template.
    pub(crate) fn template(&mut self, kind: &'static str, object: &Value) {
        let pointer = if kind == "ReplicaSet" { "/spec/template" } else { "/data/spec/template" };
        let image = object.pointer(pointer).and_then(|template| template["spec"]["containers"][0]["image"].as_str());
        let (namespace, name) = (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
        image.into_iter().for_each(|image| drop(self.templates.insert((kind, namespace.clone(), name.clone()), image.to_owned())));
    }

    /// Records a pod. `is_first` is true if the recording begins with it.
    pub(crate) fn pod(&mut self, pod: &Value, is_first: bool, now: Timestamp) {
        let meta = &pod["metadata"];
        let (key, uid) = ((text(&meta["namespace"]), text(&meta["name"])), text(&meta["uid"]));
        if self.pods.get(&key).is_some_and(|seen| seen.uid != uid) {
            self.gone(&key.0, &key.1, now);
        }
        self.next += 1;
        let number = self.next;
        let seen = self.pods.entry(key).or_insert_with(|| {
            let owner = entries(&meta["ownerReferences"]).find(|owner| owner["controller"] == true).and_then(|owner| {
                let kind = ["ReplicaSet", "StatefulSet"].into_iter().find(|kind| owner["kind"] == *kind)?;
                // The pod's label contains its set's revision.
                let name = if kind == "StatefulSet" { &meta["labels"]["controller-revision-hash"] } else { &owner["name"] };
                Some((if kind == "StatefulSet" { "ControllerRevision" } else { kind }, text(name)))
            });
            Seen { uid, owner, number, is_first, bound: None, ready: None, terminating: None }
        });
        if pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty()) {
            seen.bound.get_or_insert(now);
        }
        let is_ready = entries(&pod["status"]["conditions"]).any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
        if is_ready && seen.terminating.is_none() {
            seen.ready.get_or_insert(now);
        }
        if meta["deletionTimestamp"].is_string() {
            seen.terminating.get_or_insert(now);
        }
    }

    /// Records the end of a pod's deletion.
    pub(crate) fn gone(&mut self, namespace: &str, name: &str, now: Timestamp) {
        if let Some(seen) = self.pods.remove(&(namespace.to_owned(), name.to_owned())) {
            self.take(namespace, seen, Some(now));
        }
    }

    /// Ends the recording.
    pub(crate) fn end(mut self) -> Lives {
        for ((namespace, _), seen) in std::mem::take(&mut self.pods) {
            self.take(&namespace, seen, None);
        }
        self.lives
    }

    fn take(&mut self, namespace: &str, seen: Seen, gone: Option<Timestamp>) {
        let template = seen.owner.and_then(|(kind, name)| self.templates.get(&(kind, namespace.to_owned(), name)).cloned());
        let template = template.map(|template| (namespace.to_owned(), template));
        let stop = seen.terminating.zip(gone).map(|(terminating, gone)| since(terminating, gone));
        let start = seen.bound.zip(seen.ready).map(|(bound, ready)| since(bound, ready));
        let life = Life { start, stop, was_unready: seen.bound.is_some() && seen.ready.is_none() };
        if let (Some(template), Some(stop)) = (&template, stop) {
            self.lives.stops.entry(template.clone()).or_default().push(stop);
        }
        if seen.is_first {
            self.lives.first.insert(seen.uid, (Life { start: None, ..life }, Times { ready: seen.ready, gone }));
        } else if let Some(template) = template {
            self.lives.came.entry(template).or_default().insert(seen.number, life);
        }
    }
}

impl Lives {
    /// The numbers of known start times and stop times.
    pub(crate) fn known(&self) -> (usize, usize) {
        let starts = self.came.values().flat_map(BTreeMap::values).filter(|life| life.start.is_some()).count();
        (starts, self.stops.values().map(Vec::len).sum())
    }

    /// Nodes whose pods take as long as the recorded ones, by template: the first new pod takes as long as the first recorded one, and so
    /// on.
    pub(crate) fn nodes(&self, names: BTreeSet<String>, begins: Timestamp) -> ForeignNodes {
        let lives = self.clone();
        let all_starts = median(lives.came.values().flat_map(BTreeMap::values).filter_map(|life| life.start).collect());
        let all_stops = median(lives.stops.values().flatten().copied().collect());
        let by_template: BTreeMap<Template, Habit> =
            lives.came.iter().map(|(template, lives)| (template.clone(), Habit::of(lives.values().copied().collect()))).collect();
        let stops: BTreeMap<Template, Duration> =
            lives.stops.iter().filter_map(|(template, stops)| Some((template.clone(), median(stops.clone())?))).collect();
        let met: Mutex<Met> = Mutex::default();
        let habits = move |pod: &KubeletPod| {
            let mut met = met.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(behavior) = met.pods.get(&*pod.uid) {
                return *behavior;
            }
            let template = (pod.namespace.to_string(), pod.containers.iter().next().map(|first| first.image.clone()).unwrap_or_default());
            let usual_stop = stops.get(&template).copied().or(all_stops).unwrap_or(INDEFINITELY);
            let behavior = match lives.first.get(&*pod.uid) {
                Some((life, times)) => of_the_beginning(pod, *life, *times, (begins, usual_stop)),
                None => {
                    let place = met.counts.entry(template.clone()).or_default();
                    *place += 1;
                    let (life, habit) =
                        by_template.get(&template).map_or((Life::default(), None), |habit| (habit.life(*place - 1), Some(habit)));
                    let start = life.start.or_else(|| habit.and_then(|habit| habit.start)).or(all_starts).unwrap_or(START);
                    let mut behavior = behavior(pod, start, life.stop.unwrap_or(usual_stop));
                    behavior.fails = habit.filter(|habit| habit.never_ready).map(|_| Failure::NeverReady);
                    behavior
                }
            };
            met.pods.insert(pod.uid.to_string(), behavior);
            behavior
        };
        // A recording contains neither ConfigMaps nor Secrets.
        let objects = KnownObjects::new();
        ForeignNodes { names: names.into_iter().collect(), missing_images: MissingImages::default(), habits: Box::new(habits), objects }
    }
}

/// Pods of the replay whose behavior was requested.
#[derive(Default)]
struct Met {
    pods: BTreeMap<String, Behavior>,
    counts: BTreeMap<Template, usize>,
}

/// The behavior of a template's pods.
struct Habit {
    lives: Vec<Life>,
    start: Option<Duration>,
    /// No pod was ever ready, although some had the time.
    never_ready: bool,
}

impl Habit {
    fn of(lives: Vec<Life>) -> Self {
        let start = median(lives.iter().filter_map(|life| life.start).collect());
        let never_ready = start.is_none() && lives.iter().any(|life| life.was_unready);
        Self { lives, start, never_ready }
    }

    /// The times of the recorded pod with this number. Further pods start again with the first.
    fn life(&self, number: usize) -> Life {
        self.lives.get(number % self.lives.len().max(1)).copied().unwrap_or_default()
    }
}

fn behavior(pod: &KubeletPod, start: Duration, stop: Duration) -> Behavior {
    Behavior { completes: false, ..Behavior::of(pod, Latencies { start, stop }, &MissingImages::default()) }
}

/// A pod that existed at the beginning continues from its state.
fn of_the_beginning(pod: &KubeletPod, life: Life, times: Times, (begins, usual_stop): (Timestamp, Duration)) -> Behavior {
    let from = pod.status.start_time.unwrap_or(begins);
    let start = times.ready.map_or(Duration::ZERO, |ready| since(from, ready));
    let mut behavior = behavior(pod, start, life.stop.unwrap_or(usual_stop));
    if pod.deletion_deadline.is_some() {
        behavior.terminates_after = times.gone.map_or(INDEFINITELY, |gone| since(begins, gone));
    }
    behavior.fails = life.was_unready.then_some(Failure::NeverReady);
    behavior
}

fn median(mut all: Vec<Duration>) -> Option<Duration> {
    all.sort();
    all.get(all.len().saturating_sub(1) / 2).copied()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(1_800_000_000_000 + millis).expect("in range")
    }

    fn pod(name: &str, node: &str, ready: bool, going: bool) -> Value {
        let mut pod = json!({"metadata": {"namespace": "shop", "name": name, "uid": name,
                "ownerReferences": [{"kind": "ReplicaSet", "name": "web-1", "controller": true}]},
            "spec": {"nodeName": node},
            "status": {"conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]}});
        if going {
            pod["metadata"]["deletionTimestamp"] = json!("2027-01-15T08:00:00Z");
        }
        pod
    }

    fn set() -> Value {
        json!({"metadata": {"namespace": "shop", "name": "web-1"}, "spec": {"template": {"spec": {"containers": [{"image": "t-1"}]}}}})
    }

    #[test]
    fn a_pods_times_are_those_at_which_it_was_seen() {
        let mut watched = Watched::default();
        watched.pod(&pod("a", "", false, false), false, at(0));
        watched.pod(&pod("a", "n", false, false), false, at(100));
        watched.pod(&pod("a", "n", true, false), false, at(2600));
        watched.pod(&pod("a", "n", false, true), false, at(9000));
        // Its set is observed after it, and before its deletion.
        watched.template("ReplicaSet", &set());
        watched.gone("shop", "a", at(12_000));
        watched.pod(&pod("b", "n", false, false), false, at(0));
        let lives = watched.end();
        assert_eq!(lives.known(), (1, 1));
        let of: Vec<Life> = lives.came[&("shop".to_owned(), "t-1".to_owned())].values().copied().collect();
        let whole = Life { start: Some(Duration::from_millis(2500)), stop: Some(Duration::from_secs(3)), was_unready: false };
        assert_eq!(of, [whole, Life { was_unready: true, ..Life::default() }]);
        assert!(!Habit::of(of).never_ready, "one was ready");
        assert!(Habit::of(vec![Life { was_unready: true, ..Life::default() }]).never_ready);
    }
}
