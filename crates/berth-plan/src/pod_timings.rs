//! How long a workload's pods take to start and to stop, as far as the snapshot shows.

use crate::{
    snapshot::{Snapshot, entries, termination_requested_at},
    times::{seconds, since},
};
use berth_api::{
    annotations::{SIM_READY_AFTER, SIM_TERMINATES_AFTER},
    simulation::{Spread, spread},
};
use berth_store::env::Timestamp;
use berth_workloads::workload::{WorkloadId, WorkloadKind};
use serde::Serialize;
use serde_json::Value;
use std::{collections::BTreeMap, time::Duration};

/// The assumed start time of a pod if nothing is known.
const START: Duration = Duration::from_secs(10);
/// The grace period of a pod that specifies none.
const GRACE_SECONDS: u64 = 30;

/// A duration, from samples.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Timing {
    /// The median.
    #[serde(rename = "typicalSeconds", serialize_with = "seconds")]
    pub typical: Duration,
    /// The minimum.
    #[serde(rename = "fastestSeconds", serialize_with = "seconds")]
    pub fastest: Duration,
    /// The maximum.
    #[serde(rename = "slowestSeconds", serialize_with = "seconds")]
    pub slowest: Duration,
    /// The number of samples.
    pub samples: usize,
    /// The source of the samples.
    pub source: Source,
    #[serde(skip)]
    all: Vec<Duration>,
}

/// The source of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Source {
    /// The state of the workload's pods.
    Pods,
    /// Events of its pods.
    Events,
    /// The user.
    Given,
    /// Annotations `sim.berth.dev/…` of the workload's template, which have precedence.
    Annotations,
    /// No source: pods take their whole grace period.
    GracePeriod,
    /// No source.
    Supposed,
}

impl Timing {
    pub(crate) fn given(time: Duration) -> Self {
        Self::one(time, Source::Given)
    }

    fn one(time: Duration, source: Source) -> Self {
        Self { typical: time, fastest: time, slowest: time, samples: 0, source, all: Vec::new() }
    }

    fn of(mut all: Vec<Duration>, source: Source) -> Option<Self> {
        all.sort();
        let (fastest, slowest) = (*all.first()?, *all.last()?);
        Some(Self { typical: all[(all.len() - 1) / 2], fastest, slowest, samples: all.len(), source, all })
    }

    /// The time of one sample, which `draw` selects. The typical time for `None`.
    pub(crate) fn drawn(&self, draw: Option<u64>) -> Duration {
        let Some((draw, count)) = draw.zip(u64::try_from(self.all.len()).ok().filter(|count| *count > 0)) else { return self.typical };
        usize::try_from(draw % count).map_or(self.typical, |index| self.all[index])
    }
}

/// The start and stop times of one workload's pods.
#[derive(Clone, Debug)]
pub(crate) struct Timings {
    pub(crate) start: Timing,
    pub(crate) stop: Timing,
}

/// The samples of each workload in the snapshot.
#[derive(Debug, Default)]
pub(crate) struct LearnedTimings {
    starts: BTreeMap<WorkloadId, Vec<Duration>>,
    stops: BTreeMap<WorkloadId, Vec<Duration>>,
    /// From events.
    event_starts: BTreeMap<WorkloadId, Vec<Duration>>,
    event_stops: BTreeMap<WorkloadId, Vec<Duration>>,
    graces: BTreeMap<WorkloadId, u64>,
    /// From annotations of templates: to start, to stop.
    annotated: BTreeMap<WorkloadId, (Option<Duration>, Option<Duration>)>,
}

impl LearnedTimings {
    /// `coming` contains the manifests of the change: their pods start, and those of the snapshot stop.
    pub(crate) fn from(snapshot: &Snapshot, coming: &[Value]) -> Self {
        let mut learned = Self::default();
        for pod in snapshot.of_kinds(&["Pod"]) {
            let Some(key) = workload_of(pod) else { continue };
            learned.graces.insert(key.clone(), grace(&pod["spec"]));
            if let Some(took) = start_of(pod) {
                learned.starts.entry(key.clone()).or_default().push(took);
            }
            if let Some(took) = stop_of(pod) {
                learned.stops.entry(key).or_default().push(took);
            }
        }
        for workload in snapshot.of_kinds(&["Deployment", "StatefulSet", "DaemonSet"]) {
            if let Some(key) = id_of(workload) {
                let template = &workload["spec"]["template"];
                learned.graces.insert(key.clone(), grace(&template["spec"]));
                learned.annotated.insert(key, (annotated(template, SIM_READY_AFTER), annotated(template, SIM_TERMINATES_AFTER)));
            }
        }
        for manifest in coming.iter().filter(|manifest| manifest["kind"].as_str().and_then(WorkloadKind::named).is_some()) {
            if let Some(key) = id_of(manifest) {
                let template = &manifest["spec"]["template"];
                learned.graces.entry(key.clone()).or_insert_with(|| grace(&template["spec"]));
                let stop = || annotated(template, SIM_TERMINATES_AFTER);
                let known = learned.annotated.entry(key).or_insert_with(|| (None, stop()));
                known.0 = annotated(template, SIM_READY_AFTER).or(known.0);
            }
        }
        learned.take_events(snapshot);
        learned
    }

    /// Takes samples from events about pods that may be deleted: from scheduling to the start of containers, and from the deletion to its
    /// end.
    fn take_events(&mut self, snapshot: &Snapshot) {
        let events: Vec<OfPod<'_>> = snapshot.of_kinds(&["Event"]).filter_map(OfPod::read).collect();
        self.take_starts(&events);
        self.take_stops(&events, snapshot);
    }

    fn take_starts(&mut self, events: &[OfPod<'_>]) {
        let scheduled: BTreeMap<(&str, &str), Timestamp> =
            named(events, "Scheduled").map(|event| ((event.namespace, event.name), event.at)).collect();
        for event in named(events, "Started") {
            let Some(from) = scheduled.get(&(event.namespace, event.name)) else { continue };
            for key in workloads_by_pod_name(event.namespace, event.name) {
                self.event_starts.entry(key).or_default().push(since(*from, event.at));
            }
        }
    }

    fn take_stops(&mut self, events: &[OfPod<'_>], snapshot: &Snapshot) {
        let pods: Vec<Living<'_>> = snapshot.of_kinds(&["Pod"]).filter_map(Living::read).collect();
        let living: Vec<Living<'_>> = pods.iter().copied().chain(named(events, "Scheduled").map(OfPod::living)).collect();
        for (uid, event) in killed(events).into_iter().filter(|(uid, _)| pods.iter().all(|pod| pod.uid != *uid)) {
            // A pod of the same name is created after its deletion. All other pods are known to be deleted by now.
            let successors = living.iter().filter(|pod| pod.uid != uid && (pod.namespace, pod.name) == (event.namespace, event.name));
            let gone_by = successors.map(|pod| pod.since).filter(|since| event.at <= *since).min().unwrap_or(snapshot.at);
            for key in workloads_by_pod_name(event.namespace, event.name) {
                let (took, grace) = (since(event.at, gone_by), self.graces.get(&key).copied().unwrap_or(GRACE_SECONDS));
                // A longer time is no evidence.
                if took <= Duration::from_secs(grace) {
                    self.event_stops.entry(key).or_default().push(took);
                }
            }
        }
    }

    /// The times of a workload without any samples.
    pub(crate) fn of_any(&self, start: Option<Duration>, stop: Option<Duration>) -> Timings {
        self.of(&WorkloadId::new(WorkloadKind::Deployment, "", ""), start, stop)
    }

    /// The times of a workload: from annotations, the user or samples.
    pub(crate) fn of(&self, key: &WorkloadId, start: Option<Duration>, stop: Option<Duration>) -> Timings {
        let samples = |of: &BTreeMap<WorkloadId, Vec<Duration>>, source| Timing::of(of.get(key).cloned().unwrap_or_default(), source);
        let learned_start = || samples(&self.starts, Source::Pods).or_else(|| samples(&self.event_starts, Source::Events));
        let grace = || Duration::from_secs(self.graces.get(key).copied().unwrap_or(GRACE_SECONDS));
        let (ready_after, terminates_after) = self.annotated.get(key).copied().unwrap_or_default();
        let said = |time: Duration| Timing::one(time, Source::Annotations);
        Timings {
            start: ready_after
                .map(said)
                .or_else(|| start.map(Timing::given))
                .or_else(learned_start)
                .unwrap_or_else(|| Timing::one(START, Source::Supposed)),
            stop: terminates_after
                .map(|time| said(time.min(grace())))
                .or_else(|| stop.map(Timing::given))
                .or_else(|| samples(&self.stops, Source::Pods))
                .or_else(|| samples(&self.event_stops, Source::Events))
                .unwrap_or_else(|| Timing::one(grace(), Source::GracePeriod)),
        }
    }
}

fn named<'e, 'a>(events: &'e [OfPod<'a>], reason: &'static str) -> impl Iterator<Item = &'e OfPod<'a>> {
    events.iter().filter(move |event| event.reason == reason)
}

/// The first event of each pod about its deletion. The event about a restart of a container has another message.
fn killed<'e, 'a>(events: &'e [OfPod<'a>]) -> BTreeMap<&'a str, &'e OfPod<'a>> {
    let mut killed: BTreeMap<&str, &OfPod<'_>> = BTreeMap::new();
    for event in named(events, "Killing").filter(|event| event.message.starts_with("Stopping container ")) {
        let first = killed.entry(event.uid).or_insert(event);
        if event.at < first.at {
            *first = event;
        }
    }
    killed
}

/// An event about a pod.
struct OfPod<'a> {
    reason: &'a str,
    message: &'a str,
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
    at: Timestamp,
}

/// A pod that existed at some time.
#[derive(Clone, Copy)]
struct Living<'a> {
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
    since: Timestamp,
}

impl<'a> OfPod<'a> {
    fn read(event: &'a Value) -> Option<Self> {
        let object = &event["involvedObject"];
        let at = [&event["lastTimestamp"], &event["eventTime"]].into_iter().find_map(time)?;
        (object["kind"] == "Pod").then_some(())?;
        Some(Self {
            reason: event["reason"].as_str()?,
            message: event["message"].as_str().unwrap_or_default(),
            namespace: object["namespace"].as_str()?,
            name: object["name"].as_str()?,
            uid: object["uid"].as_str().unwrap_or_default(),
            at,
        })
    }

    fn living(&self) -> Living<'a> {
        Living { namespace: self.namespace, name: self.name, uid: self.uid, since: self.at }
    }
}

impl<'a> Living<'a> {
    fn read(pod: &'a Value) -> Option<Self> {
        let meta = &pod["metadata"];
        let since = time(&meta["creationTimestamp"])?;
        Some(Self { namespace: meta["namespace"].as_str()?, name: meta["name"].as_str()?, uid: meta["uid"].as_str()?, since })
    }
}

/// The duration in an annotation of a pod or a template.
pub(crate) fn annotated(pod: &Value, key: &str) -> Option<Duration> {
    let said = pod["metadata"]["annotations"][key].as_str()?;
    spread(&BTreeMap::from([(key.to_owned(), said.to_owned())]), key).map(Spread::middle)
}

fn grace(spec: &Value) -> u64 {
    spec["terminationGracePeriodSeconds"].as_u64().unwrap_or(GRACE_SECONDS)
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// The identity of a workload's manifest.
pub(crate) fn id_of(workload: &Value) -> Option<WorkloadId> {
    let (namespace, name) = (&workload["metadata"]["namespace"], &workload["metadata"]["name"]);
    Some(WorkloadId::new(WorkloadKind::named(workload["kind"].as_str()?)?, namespace.as_str().unwrap_or("default"), name.as_str()?))
}

/// The workload of a pod, derived from its owner's name.
pub(crate) fn workload_of(pod: &Value) -> Option<WorkloadId> {
    let owner = entries(&pod["metadata"]["ownerReferences"]).find(|owner| owner["controller"] == true)?;
    let namespace = pod["metadata"]["namespace"].as_str()?;
    let name = owner["name"].as_str()?;
    match owner["kind"].as_str()? {
        "StatefulSet" => Some(WorkloadId::new(WorkloadKind::StatefulSet, namespace, name)),
        "DaemonSet" => Some(WorkloadId::new(WorkloadKind::DaemonSet, namespace, name)),
        "ReplicaSet" => Some(WorkloadId::new(WorkloadKind::Deployment, namespace, name.rsplit_once('-')?.0)),
        _ => None,
    }
}

/// The workloads that a pod of this name may belong to.
pub(crate) fn workloads_by_pod_name(namespace: &str, pod: &str) -> Vec<WorkloadId> {
    let Some((owner, last)) = pod.rsplit_once('-') else { return Vec::new() };
    let mut keys = Vec::new();
    if last.bytes().all(|byte| byte.is_ascii_digit()) {
        keys.push(WorkloadId::new(WorkloadKind::StatefulSet, namespace, owner));
    }
    if let Some((deployment, _)) = owner.rsplit_once('-') {
        keys.push(WorkloadId::new(WorkloadKind::Deployment, namespace, deployment));
    }
    keys.push(WorkloadId::new(WorkloadKind::DaemonSet, namespace, owner));
    keys
}

fn condition<'a>(pod: &'a Value, name: &str) -> Option<&'a Value> {
    entries(&pod["status"]["conditions"]).find(|condition| condition["type"] == name && condition["status"] == "True")
}

/// The time from scheduling to readiness of a pod that was never restarted.
fn start_of(pod: &Value) -> Option<Duration> {
    let restarted = entries(&pod["status"]["containerStatuses"]).any(|status| status["restartCount"].as_i64().unwrap_or(0) > 0);
    let ready = condition(pod, "Ready").filter(|_| !restarted)?;
    let placed = condition(pod, "PodScheduled").and_then(|condition| time(&condition["lastTransitionTime"]));
    let from = time(&pod["status"]["startTime"]).or(placed)?;
    Some(since(from, time(&ready["lastTransitionTime"])?))
}

/// The time from deletion to the end of the last container, for a pod that still exists.
fn stop_of(pod: &Value) -> Option<Duration> {
    let requested_at = termination_requested_at(pod)?;
    let ended = entries(&pod["status"]["containerStatuses"]).map(|status| time(&status["state"]["terminated"]["finishedAt"]));
    let last = ended.collect::<Option<Vec<_>>>()?.into_iter().max()?;
    (requested_at <= last).then(|| since(requested_at, last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(name: &str, ready_after: i64) -> Value {
        let at = |second: i64| Timestamp::from_second(1_800_000_000 + second).expect("in range").to_string();
        json!({"kind": "Pod", "metadata": {"name": name, "namespace": "shop", "uid": name,
            "ownerReferences": [{"kind": "ReplicaSet", "name": "web-7d4b9", "controller": true}]},
            "spec": {"terminationGracePeriodSeconds": 45},
            "status": {"startTime": at(0), "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at(ready_after)}]}})
    }

    fn web() -> WorkloadId {
        WorkloadId::new(WorkloadKind::Deployment, "shop", "web")
    }

    #[test]
    fn timings_are_learned_from_pods_and_given_timings_take_precedence() {
        let learned = LearnedTimings::from(&Snapshot::of_documents([pod("a", 3), pod("b", 9), pod("c", 4)]), &[]);
        let Timings { start, stop } = learned.of(&web(), None, None);
        let seconds = [start.typical, start.fastest, start.slowest].map(|time| time.as_secs());
        assert_eq!((seconds, start.samples, start.source), ([4, 3, 9], 3, Source::Pods));
        assert_eq!((stop.typical.as_secs(), stop.source), (45, Source::GracePeriod));
        let said = learned.of(&web(), Some(Duration::from_secs(1)), Some(Duration::ZERO));
        assert_eq!((said.start.typical.as_secs(), said.stop.typical.as_secs(), said.stop.source), (1, 0, Source::Given));
        let draws: Vec<u64> = (0..4).map(|draw| start.drawn(Some(draw)).as_secs()).collect();
        assert_eq!((draws, start.drawn(None).as_secs()), (vec![3, 4, 9, 3], 4));
    }

    #[test]
    fn timings_are_learned_from_events_where_no_pod_has_them() {
        let event = |reason: &str, at: &str| {
            json!({"kind": "Event", "metadata": {"name": reason, "namespace": "shop"}, "reason": reason, "lastTimestamp": at,
                "involvedObject": {"kind": "Pod", "namespace": "shop", "name": "web-7d4b9-x1"}})
        };
        let snapshot = Snapshot::of_documents([event("Scheduled", "2026-03-01T10:00:00Z"), event("Started", "2026-03-01T10:00:06Z")]);
        let start = LearnedTimings::from(&snapshot, &[]).of(&web(), None, None).start;
        assert_eq!((start.typical.as_secs(), start.source), (6, Source::Events));
        assert_eq!(LearnedTimings::default().of(&web(), None, None).start.source, Source::Supposed);
    }

    /// A StatefulSet's pods have the same names again. The other pods are known to be deleted by now.
    #[test]
    fn stop_times_of_deleted_pods_are_learned_from_events() {
        let event = |reason: &str, message: &str, pod: &str, uid: &str, second: i64| {
            let at = Timestamp::from_second(1_800_000_000 + second).expect("in range").to_string();
            json!({"kind": "Event", "reason": reason, "message": message, "lastTimestamp": at,
                "involvedObject": {"kind": "Pod", "namespace": "shop", "name": pod, "uid": uid}})
        };
        let killed = |pod: &str, uid: &str, second: i64| event("Killing", "Stopping container main", pod, uid, second);
        let stop = |kind: WorkloadKind, name: &str, events: Vec<Value>, now: i64| {
            let mut snapshot = Snapshot::of_documents(events);
            snapshot.at = Timestamp::from_second(1_800_000_000 + now).expect("in range");
            let stop = LearnedTimings::from(&snapshot, &[]).of(&WorkloadId::new(kind, "shop", name), None, None).stop;
            (stop.typical.as_secs(), stop.samples, stop.source)
        };
        let replaced = || vec![killed("db-0", "a", 10), event("Scheduled", "", "db-0", "b", 17)];
        assert_eq!(stop(WorkloadKind::StatefulSet, "db", replaced(), 4000), (7, 1, Source::Events));
        let gone = || vec![killed("web-7d4b9-x1", "a", 10)];
        assert_eq!(stop(WorkloadKind::Deployment, "web", gone(), 15), (5, 1, Source::Events));
        assert_eq!(
            stop(WorkloadKind::Deployment, "web", gone(), 4000).2,
            Source::GracePeriod,
            "that it is gone after an hour says nothing"
        );
        let restarted = vec![event("Killing", "Container main failed liveness probe, will be restarted", "db-0", "a", 10)];
        assert_eq!(stop(WorkloadKind::StatefulSet, "db", restarted, 12).2, Source::GracePeriod);
    }

    #[test]
    fn annotations_of_templates_count_more_than_all_else() {
        let deployment = |ready_after: &str, terminates_after: &str| {
            let annotations = json!({"sim.berth.dev/ready-after": ready_after, "sim.berth.dev/terminates-after": terminates_after});
            json!({"kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
                "spec": {"template": {"metadata": {"annotations": annotations}, "spec": {"terminationGracePeriodSeconds": 45}}}})
        };
        let snapshot = Snapshot::of_documents([pod("a", 3), deployment("7s", "20s")]);
        let check = |coming: &[Value], wanted: [u64; 2]| {
            let Timings { start, stop } =
                LearnedTimings::from(&snapshot, coming).of(&web(), Some(Duration::from_secs(1)), Some(Duration::from_secs(1)));
            assert_eq!([start.typical.as_secs(), stop.typical.as_secs()], wanted);
            assert_eq!((start.source, stop.source), (Source::Annotations, Source::Annotations));
        };
        check(&[], [7, 20]);
        check(&[deployment("9s", "2s")], [9, 20]);
        let new = LearnedTimings::from(&Snapshot::default(), &[deployment("9s", "2m")]).of(&web(), None, None);
        assert_eq!([new.start.typical.as_secs(), new.stop.typical.as_secs()], [9, 45], "a grace period ends it");
    }

    #[test]
    fn the_stop_time_is_learned_from_a_pod_that_is_held() {
        let mut held = pod("a", 3);
        held["metadata"]["deletionTimestamp"] = json!("2027-01-15T08:01:00Z");
        held["metadata"]["deletionGracePeriodSeconds"] = json!(30);
        held["status"]["containerStatuses"] = json!([{"state": {"terminated": {"finishedAt": "2027-01-15T08:00:37Z"}}}]);
        let stop = LearnedTimings::from(&Snapshot::of_documents([held]), &[]).of(&web(), None, None).stop;
        assert_eq!((stop.typical.as_secs(), stop.source), (7, Source::Pods));
    }
}
