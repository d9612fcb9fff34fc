//! The behavior of each pod on its simulated node: its times are those of its workload's pods, and pods of the snapshot continue from their
//! state.

use crate::{
    pod_timings::{Timings, annotated, workloads_by_pod_name},
    snapshot::{SUPPOSED_NODE, Snapshot, entries, termination_requested_at, uid},
    times::since,
};
use berth_api::{annotations::SIM_TERMINATES_AFTER, simulation::Failure};
use berth_node::{
    ForeignNodes, Latencies, MissingImages,
    kubelet::{Behavior, KnownObjects, KubeletPod},
};
use berth_store::env::Timestamp;
use berth_workloads::workload::WorkloadId;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// How long a pod may take to become ready in addition to the time of others. After that it never does.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longer than any grace period, which therefore determines the end of the pod.
const INDEFINITELY: Duration = Duration::from_secs(10 * 365 * 86_400);

/// What is known about pods.
pub(crate) struct PodBehaviors {
    pub(crate) timings: BTreeMap<WorkloadId, Timings>,
    /// The timings of all other pods.
    pub(crate) others: Timings,
    /// With 0, all pods take the typical time.
    pub(crate) seed: u64,
    /// Whether the existing ConfigMaps and Secrets are known. Then nodes detect missing ones.
    pub(crate) knows_references: bool,
}

/// One pod of the snapshot.
#[derive(Clone, Copy, Default)]
struct Known {
    /// When its deletion ends, if it is terminating.
    gone_at: Option<Timestamp>,
    fails: Option<Failure>,
}

impl PodBehaviors {
    /// The nodes of the snapshot. Their pods continue at `begins`, and `objects` contains the known ConfigMaps and Secrets.
    pub(crate) fn nodes(self, snapshot: &Snapshot, begins: Timestamp, objects: KnownObjects) -> ForeignNodes {
        let pods = || snapshot.of_kinds(&["Pod"]);
        let known: BTreeMap<String, Known> = pods().filter_map(|pod| Some((uid(pod)?.to_owned(), self.known(pod, snapshot.at)))).collect();
        let images: BTreeSet<String> = pods().flat_map(missing_images).collect();
        let missing_images = MissingImages::matching(images.into_iter().collect());
        let named = snapshot.of_kinds(&["Node"]).filter_map(|node| node["metadata"]["name"].as_str());
        let on = pods().filter_map(|pod| pod["spec"]["nodeName"].as_str());
        let names: BTreeSet<String> = named.chain(on).chain([SUPPOSED_NODE]).map(str::to_owned).collect();
        let missing = missing_images.clone();
        let failing = self.failing_owners(snapshot);
        let habits = move |pod: &KubeletPod| {
            let known = known.get(&*pod.uid).copied();
            // The duration of another cluster's pods is unknown, so the pod keeps running.
            let mut behavior = Behavior { completes: false, ..Behavior::of(pod, self.latencies(pod), &missing) };
            if let Some(gone_at) = known.and_then(|known| known.gone_at) {
                behavior.terminates_after = since(begins, gone_at);
            }
            let as_others = || pod.name.rsplit_once('-').and_then(|(owner, _)| failing.get(&(pod.namespace.to_string(), owner.to_owned())));
            behavior.fails = behavior.fails.or_else(|| match known {
                Some(known) => known.fails,
                None => as_others().copied(),
            });
            behavior
        };
        ForeignNodes { names: names.into_iter().collect(), missing_images, habits: Box::new(habits), objects }
    }

    fn timings(&self, namespace: &str, pod: &str) -> &Timings {
        workloads_by_pod_name(namespace, pod).iter().find_map(|key| self.timings.get(key)).unwrap_or(&self.others)
    }

    fn latencies(&self, pod: &KubeletPod) -> Latencies {
        let Timings { start, stop } = self.timings(&pod.namespace, &pod.name);
        let draw = |what: u64| (self.seed > 0).then(|| mixed(&pod.uid, self.seed.wrapping_mul(2).wrapping_add(what)));
        Latencies { start: start.drawn(draw(0)), stop: stop.drawn(draw(1)) }
    }

    fn known(&self, pod: &Value, at: Timestamp) -> Known {
        Known { gone_at: self.gone_at(pod, at), fails: self.fails(pod, at) }
    }

    /// A terminating pod that takes longer than others did uses its whole grace period.
    fn gone_at(&self, pod: &Value, at: Timestamp) -> Option<Timestamp> {
        let requested_at = termination_requested_at(pod)?;
        let (namespace, name) = (pod["metadata"]["namespace"].as_str()?, pod["metadata"]["name"].as_str()?);
        let expected = requested_at + annotated(pod, SIM_TERMINATES_AFTER).unwrap_or_else(|| self.timings(namespace, name).stop.typical);
        Some(if at < expected { expected } else { at + INDEFINITELY })
    }

    fn fails(&self, pod: &Value, at: Timestamp) -> Option<Failure> {
        let statuses = || entries(&pod["status"]["containerStatuses"]).chain(entries(&pod["status"]["initContainerStatuses"]));
        let waits = |reason: &str| statuses().any(|status| status["state"]["waiting"]["reason"] == reason);
        if waits("CrashLoopBackOff") {
            return Some(Failure::CrashLoopBackOff);
        }
        let lacks_config = !self.knows_references && waits("CreateContainerConfigError");
        if lacks_config || waits("CreateContainerError") || waits("InvalidImageName") {
            return Some(Failure::Pending);
        }
        let ready = entries(&pod["status"]["conditions"]).any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
        let started: Timestamp = pod["status"]["startTime"].as_str()?.parse().ok()?;
        let (namespace, name) = (pod["metadata"]["namespace"].as_str()?, pod["metadata"]["name"].as_str()?);
        let is_late = self.timings(namespace, name).start.slowest * 3 + PATIENCE < since(started, at);
        let runs = statuses().any(|status| status["state"]["running"].is_object());
        (!ready && is_late && runs && termination_requested_at(pod).is_none()).then_some(Failure::NeverReady)
    }

    /// Owners with a failing pod and without a ready one, and the kind of failure: their new pods will fail alike.
    fn failing_owners(&self, snapshot: &Snapshot) -> BTreeMap<(String, String), Failure> {
        let mut found: BTreeMap<(String, String), Option<Failure>> = BTreeMap::new();
        for pod in snapshot.of_kinds(&["Pod"]) {
            let (Some(namespace), Some(name)) = (pod["metadata"]["namespace"].as_str(), pod["metadata"]["name"].as_str()) else { continue };
            let is_set =
                entries(&pod["metadata"]["ownerReferences"]).any(|owner| owner["kind"] == "ReplicaSet" || owner["kind"] == "DaemonSet");
            let Some((owner, _)) = name.rsplit_once('-').filter(|_| is_set) else { continue };
            let ready =
                entries(&pod["status"]["conditions"]).any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
            let key = (namespace.to_owned(), owner.to_owned());
            if ready {
                found.insert(key, None);
            } else if let Some(failure) = self.fails(pod, snapshot.at) {
                found.entry(key).or_insert(Some(failure));
            }
        }
        found.into_iter().filter_map(|(key, failure)| Some((key, failure?))).collect()
    }
}

fn missing_images(pod: &Value) -> Vec<String> {
    let statuses = entries(&pod["status"]["containerStatuses"]).chain(entries(&pod["status"]["initContainerStatuses"]));
    let names = statuses.filter(|status| {
        let reason = &status["state"]["waiting"]["reason"];
        reason == "ErrImagePull" || reason == "ImagePullBackOff"
    });
    let containers = || entries(&pod["spec"]["containers"]).chain(entries(&pod["spec"]["initContainers"]));
    let image = |status: &Value| containers().find(|container| container["name"] == status["name"])?["image"].as_str().map(str::to_owned);
    names.filter_map(image).collect()
}

/// A hash of the text and the seed. FNV-1a.
fn mixed(text: &str, seed: u64) -> u64 {
    let bytes = text.bytes().chain(seed.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)) >> 7
}
