//! What must hold after every change of the store.

mod cron_job;
mod deployment;
mod job;
mod replica_set;
mod rest;
mod stateful_set;

use crate::facts::{Deployment, Metadata, Pod, ReplicaSet, StatefulSet};
use berth_api::FeatureGates;
use berth_store::env::Timestamp;
use jiff::SignedDuration;
use serde::{Deserialize, de::DeserializeOwned};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt::{self, Display, Formatter},
    sync::Arc,
};

type Uid = String;

/// For how long after a loss the controller may still act on what was before: the longest stall of a watch, and the way there and back.
const STALENESS_MAX: SignedDuration = SignedDuration::from_secs(10);

/// A limit that was passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation(pub String);

/// The cluster as the store shows it, followed change by change.
///
/// Limits depend on what a controller may not have seen yet: a Deployment that shrinks from 100 to 50 pods may still get pods for a
/// moment. Its bounds therefore widen at once and tighten when every controller involved has reported the newest generation and what there is
/// lies within the new bounds. While the size stays the same, that is: exactly `replicas + maxSurge` and `replicas - maxUnavailable`.
///
/// A pod that is lost without its controller ends the promise to keep pods available until the next complete rollout: earlier decisions are still
/// executed. So does a pod that is deleted by its deletion cost instead of one that has just become ready.
///
/// `maxSurge` bounds the ReplicaSets' sizes. Under every policy it also bounds the pods without a `deletionTimestamp`, also in the stored status: a pod
/// that its ReplicaSet deletes frees its capacity when the `deletionTimestamp` is set, not before.
#[derive(Default)]
pub struct Checker {
    /// By the uid of the set that controls them.
    pods: BTreeMap<Uid, BTreeMap<Uid, Pod>>,
    sets: BTreeMap<Uid, ReplicaSet>,
    deployments: BTreeMap<Uid, Deployment>,
    stateful_sets: BTreeMap<Uid, stateful_set::Tracked>,
    jobs: BTreeMap<Uid, job::TrackedJob>,
    cron_jobs: BTreeMap<Uid, cron_job::TrackedCronJob>,
    /// PersistentVolumeClaims, by name.
    claims: BTreeMap<String, Metadata>,
    /// Pods that their node has stopped and let go of.
    let_go: BTreeSet<Uid>,
    /// Also of sets that are gone.
    deployment_of_set: BTreeMap<Uid, Uid>,
    deployment_bounds: BTreeMap<Uid, deployment::Bounds>,
    /// The most pods that each set may have.
    set_bounds: BTreeMap<Uid, i64>,
    /// The size that each set had before, while its controller has shown in no way that it knows of the smaller one.
    unseen: BTreeMap<Uid, i64>,
    /// The deletion rank of each existing pod, and since when it has this rank.
    ranks: BTreeMap<Uid, (replica_set::DeletionRank, Timestamp)>,
    /// Of each set, the pods that must go now: another of it has gone that should have stayed longer.
    overdue: BTreeMap<Uid, Vec<replica_set::Overdue>>,
    /// When a set last came to need more pods than its controller may have known of.
    disturbed: BTreeMap<Uid, Timestamp>,
    /// The number of checked changes.
    checked: u64,
    /// Pods, and ReplicaSets, that were deleted by another client than their controller.
    deleted_by_others: BTreeSet<Uid>,
    /// Pods whose creation was on its way when their set was deleted, or that may not have been seen by then: no limit applies to them.
    strays: BTreeSet<Uid>,
    /// Of each workload, the templates that it was rolled back from by itself, and the record of the last time.
    rolled_back: BTreeMap<Uid, (BTreeSet<String>, String)>,
    /// When pods were asked to go, or went without: those of late.
    stopped_staying: VecDeque<Timestamp>,
    /// The controllers' gates: without them no policy is honored.
    gates: Arc<FeatureGates>,
    /// How much longer than usual what was decided may take until it is done.
    late_by: SignedDuration,
}

/// One change of the store.
#[derive(Clone, Copy, Debug)]
pub struct Changed<'a> {
    /// Its kind.
    pub kind: &'a str,
    /// The new object, or the last one.
    pub json: &'a [u8],
    /// Whether it is there now.
    pub presence: Presence,
}

/// Whether an object is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It was made or changed.
    There,
    /// It was there before.
    Gone,
}

/// The content of an Event.
#[derive(Deserialize)]
struct EventFacts {
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
}

impl Display for EventFacts {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.message)
    }
}

/// Whose an object is.
#[derive(Deserialize)]
struct Owned {
    metadata: Metadata,
}

/// The kinds whose changes must keep to limits.
const CHECKED: [&str; 7] = ["CronJob", "Deployment", "Job", "PersistentVolumeClaim", "Pod", "ReplicaSet", "StatefulSet"];

impl Checker {
    /// Takes a change in; gives what was most essential about the object, for the log.
    ///
    /// # Errors
    /// The first limit that the change has passed.
    pub fn take_in(&mut self, changed: &Changed<'_>, now: Timestamp) -> Result<String, Violation> {
        self.checked += u64::from(CHECKED.contains(&changed.kind));
        match changed.kind {
            "Pod" => self.take_in_pod(decode(changed), changed.presence, now),
            "ReplicaSet" => self.take_in_set(decode(changed), changed.presence, now),
            "Deployment" => self.take_in_deployment(decode(changed), changed.presence, now),
            "StatefulSet" => Ok(self.take_in_stateful_set(decode::<StatefulSet>(changed), changed.presence, now)),
            "Job" => {
                self.check_job_of_cron_job(decode(changed), changed.presence, now)?;
                self.take_in_job(decode(changed), changed.presence, now)
            }
            "CronJob" => self.take_in_cron_job(decode(changed), changed.presence, now),
            "PersistentVolumeClaim" => self.take_in_claim(decode::<Owned>(changed).metadata, changed.presence),
            "Event" => Ok(decode::<EventFacts>(changed).to_string()),
            _ => Ok(format!("{} bytes", changed.json.len())),
        }
    }

    /// The test is about to delete this pod: what follows from that is no controller's fault.
    pub fn delete_by_hand(&mut self, pod: &str) {
        let uid = self.all_pods().find(|known| known.metadata.name == pod && known.is_live()).map(|known| known.metadata.uid.clone());
        self.deleted_by_others.extend(uid);
    }

    /// The test is about to remove this pod at once, whatever still runs.
    pub fn remove_by_hand(&mut self, pod: &str) {
        self.delete_by_hand(pod);
        let uid = self.all_pods().find(|known| known.metadata.name == pod).map(|known| known.metadata.uid.clone());
        self.let_go.extend(uid);
    }

    /// The test is about to delete this ReplicaSet, whatever pods it has.
    pub fn delete_set_by_hand(&mut self, set: &str) {
        let uid = self.sets.values().find(|known| known.metadata.name == set).map(|known| known.metadata.uid.clone());
        self.deleted_by_others.extend(uid);
    }

    /// A node has stopped this pod, and is about to remove it.
    pub fn let_go(&mut self, pod: String) {
        self.let_go.insert(pod);
    }

    /// Every write may be done so much later than it was decided on.
    pub fn set_late_by(&mut self, late_by: SignedDuration) {
        self.late_by = late_by;
    }

    /// Whether every actor now knows a fact that is true since then.
    fn is_known(&self, since: Timestamp, now: Timestamp) -> bool {
        now.duration_since(since) > STALENESS_MAX + self.late_by
    }

    /// From now on the controllers have these gates.
    pub fn set_gates(&mut self, gates: Arc<FeatureGates>) {
        self.gates = gates;
    }

    /// Whether `kubectl rollout status` would call this Deployment rolled out.
    #[must_use]
    pub fn is_rolled_out(&self, deployment: &str) -> bool {
        self.deployments.values().any(|known| known.metadata.name == deployment && known.is_rolled_out())
    }

    /// The names of pods without a `deletionTimestamp`, in order.
    #[must_use]
    pub fn live_pods(&self) -> BTreeSet<&str> {
        self.all_pods().filter(|pod| pod.is_live()).map(|pod| pod.metadata.name.as_str()).collect()
    }

    /// How often the workloads that are there were rolled back by themselves.
    #[must_use]
    pub fn rollbacks(&self) -> usize {
        self.rolled_back.values().map(|(templates, _)| templates.len()).sum()
    }

    /// The number of checked changes.
    #[must_use]
    pub fn checked(&self) -> u64 {
        self.checked
    }

    /// Whether exactly this number of pods run, all of this image, and none is terminating. Pods that have ended do not count.
    #[must_use]
    pub fn run_only(&self, image: &str, pods: usize) -> bool {
        let running = || self.all_pods().filter(|pod| !pod.is_finished());
        running().count() == pods && running().all(|pod| pod.is_live() && pod.image() == image)
    }

    /// Whether exactly these pods exist, in order of their names. All run this image and are ready, and none is terminating.
    #[must_use]
    pub fn are_ready(&self, names: &[String], image: &str) -> bool {
        let there: BTreeSet<&str> = self.all_pods().map(|pod| pod.metadata.name.as_str()).collect();
        there.into_iter().eq(names) && self.all_pods().all(|pod| pod.is_live() && pod.is_ready() && pod.image() == image)
    }

    /// Whether this pod's containers run and pass their probes.
    #[must_use]
    pub fn is_ready(&self, pod: &str) -> bool {
        self.all_pods().any(|known| known.metadata.name == pod && known.is_ready() && known.status.phase == "Running")
    }

    /// How many pods are there, whatever their state.
    #[must_use]
    pub fn pod_count(&self) -> usize {
        self.all_pods().count()
    }

    fn all_pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.values().flat_map(BTreeMap::values)
    }

    fn pods_of(&self, set: &str) -> impl Iterator<Item = &Pod> {
        self.pods.get(set).into_iter().flat_map(BTreeMap::values)
    }

    fn take_in_pod(&mut self, pod: Pod, presence: Presence, now: Timestamp) -> Result<String, Violation> {
        let (text, set) = (pod.to_string(), pod.metadata.controller().to_owned());
        let before = self.forget_pod(&pod.metadata.uid);
        let is_new = before.is_none() && presence == Presence::There;
        if is_new && self.deployment_of_set.contains_key(&set) && !self.sets.contains_key(&set) {
            self.strays.insert(pod.metadata.uid.clone());
        }
        if before.as_ref().is_some_and(Pod::is_live) && pod.is_terminating() && pod.is_disrupted() {
            self.deleted_by_others.insert(pod.metadata.uid.clone());
        }
        if before.as_ref().is_some_and(Pod::is_live) && (presence == Presence::Gone || !pod.is_live()) {
            self.stopped_staying.push_back(now);
            while self.stopped_staying.front().is_some_and(|at| self.is_known(*at, now)) {
                self.stopped_staying.pop_front();
            }
        }
        if before.as_ref().is_some_and(Pod::is_live) && pod.is_terminating() && !self.deleted_by_others.contains(&pod.metadata.uid) {
            self.unseen.remove(&set);
        }
        let deployment = self.deployment_of_set.get(&set).cloned();
        let telling = self.deployments_counting(&pod);
        let is_loss = self.is_loss(before.as_ref(), &pod, presence);
        let is_unforeseen = is_loss || self.is_outbid(before.as_ref(), &pod, now);
        if let Some(deployment) = deployment.as_ref().filter(|_| is_unforeseen) {
            self.promise_nothing(deployment);
        }
        if is_loss || pod.is_finished() {
            self.note_loss(&set, now);
            self.note_disturbance(&set, now);
        }
        self.check_victim(before.as_ref(), &pod, now);
        self.note_rank(&pod, presence, now);
        match presence {
            Presence::There => self.check_member(before.as_ref(), &pod, now)?,
            Presence::Gone => {
                self.check_stopped(&pod)?;
                self.check_claims(&pod, now)?;
            }
        }
        if presence == Presence::There {
            self.check_place(before.as_ref(), &pod)?;
            self.pods.entry(set.clone()).or_default().insert(pod.metadata.uid.clone(), pod.clone());
        }
        self.check_pod_of_job(before.as_ref(), &pod, presence, now)?;
        if is_new {
            self.check_set(&set)?;
        }
        self.tighten_set(&set)?;
        telling.iter().try_for_each(|deployment| self.check_deployment(deployment, now))?;
        Ok(text)
    }

    /// Handles the deletion of a ReplicaSet. Where another client has deleted it, its Deployment may not know the newest pods yet, as if they were
    /// created later.
    fn note_strays(&mut self, set: &str, now: Timestamp) {
        if !self.deleted_by_others.contains(set) {
            return;
        }
        let newest: Vec<Uid> = self.pods_of(set).filter(|pod| !self.is_old(pod, now)).map(|pod| pod.metadata.uid.clone()).collect();
        self.strays.extend(newest);
    }

    /// Whether a pod has existed for so long that every controller knows it.
    fn is_old(&self, pod: &Pod, now: Timestamp) -> bool {
        pod.metadata.creation_timestamp.is_some_and(|since| self.is_known(since, now))
    }

    /// Whether a pod is ready no more by no controller's doing.
    fn is_loss(&self, before: Option<&Pod>, pod: &Pod, presence: Presence) -> bool {
        let was_ready = before.is_some_and(|before| before.is_available(0, Timestamp::MAX));
        let by_others = pod.metadata.deletion_timestamp.is_none() || self.deleted_by_others.contains(&pod.metadata.uid);
        was_ready && by_others && (presence == Presence::Gone || !pod.is_available(0, Timestamp::MAX))
    }

    fn take_in_set(&mut self, set: ReplicaSet, presence: Presence, now: Timestamp) -> Result<String, Violation> {
        let (text, uid, deployment) = (set.to_string(), set.metadata.uid.clone(), set.metadata.controller().to_owned());
        let former = self.deployment_of_set.insert(uid.clone(), deployment.clone());
        if presence == Presence::There {
            self.check_pause(&set)?;
            self.check_paused_sizes(&set)?;
            self.check_share(&set)?;
            self.check_recreation(&set, now)?;
        }
        if self.sets.get(&uid).is_some_and(|known| known.spec.replicas < set.spec.replicas) {
            self.note_disturbance(&uid, now);
        }
        let before = self.sets.get(&uid).map_or(0, |known| known.spec.replicas);
        if presence == Presence::Gone || set.status.observed_generation == set.metadata.generation {
            self.unseen.remove(&uid);
        } else if set.spec.replicas < before {
            let most = self.unseen.entry(uid.clone()).or_default();
            *most = before.max(*most);
        }
        match presence {
            Presence::There => drop(self.sets.insert(uid.clone(), set)),
            Presence::Gone => {
                self.check_cleaned_up(&set)?;
                self.sets.remove(&uid);
                self.note_strays(&uid, now);
                if self.live_of(&uid) > 0 {
                    self.promise_nothing(&deployment);
                }
            }
        }
        self.tighten_set(&uid)?;
        if former.is_some_and(|former| former != deployment) {
            self.take_over(&deployment, now);
        }
        self.check_deployment(&deployment, now)?;
        Ok(text)
    }

    fn take_in_deployment(&mut self, deployment: Deployment, presence: Presence, now: Timestamp) -> Result<String, Violation> {
        let (text, uid) = (deployment.to_string(), deployment.metadata.uid.clone());
        self.check_completion(&deployment)?;
        self.check_rollback(&deployment.metadata, presence)?;
        match presence {
            Presence::There => drop(self.deployments.insert(uid.clone(), deployment)),
            Presence::Gone => drop((self.deployments.remove(&uid), self.deployment_bounds.remove(&uid))),
        }
        self.check_deployment(&uid, now)?;
        Ok(text)
    }

    /// No template is rolled back from twice.
    fn check_rollback(&mut self, workload: &Metadata, presence: Presence) -> Result<(), Violation> {
        if presence == Presence::Gone {
            self.rolled_back.remove(&workload.uid);
            return Ok(());
        }
        let Some(record) = workload.annotations.get("berth.dev/rollback") else { return Ok(()) };
        let (templates, last) = self.rolled_back.entry(workload.uid.clone()).or_default();
        if last == record {
            return Ok(());
        }
        last.clone_from(record);
        let listed = workload.annotations.get("berth.dev/rolled-back-templates").map_or("", String::as_str);
        match listed.rsplit(',').next().filter(|template| templates.insert((*template).to_owned())) {
            Some(_) => Ok(()),
            None => violated(format!("{} is rolled back from a template of {listed} once more: {record}", workload.name)),
        }
    }

    fn forget_pod(&mut self, uid: &str) -> Option<Pod> {
        self.pods.values_mut().find_map(|pods| pods.remove(uid))
    }

    /// A pod keeps its node, and has its address for itself.
    fn check_place(&self, before: Option<&Pod>, pod: &Pod) -> Result<(), Violation> {
        let Pod { metadata, spec, status } = pod;
        let node = before.map_or("", |before| &before.spec.node_name);
        if !node.is_empty() && node != spec.node_name {
            return violated(format!("pod {} was bound to {node} and is bound to {:?} now", metadata.name, spec.node_name));
        }
        let had_it = before.is_some_and(|before| before.status.pod_ip == status.pod_ip);
        if pod.is_finished() || status.pod_ip.is_empty() || had_it {
            return Ok(());
        }
        match self.all_pods().find(|other| !other.is_finished() && other.status.pod_ip == status.pod_ip) {
            Some(other) => violated(format!("pods {} and {} both have the address {}", metadata.name, other.metadata.name, status.pod_ip)),
            None => Ok(()),
        }
    }

    /// Only its node may remove a pod whose containers run: otherwise another of its name could be created while they still run.
    fn check_stopped(&self, pod: &Pod) -> Result<(), Violation> {
        let may_run = !pod.spec.node_name.is_empty() && !pod.is_finished();
        if may_run && !self.let_go.contains(&pod.metadata.uid) && !self.deleted_by_others.contains(&pod.metadata.uid) {
            return violated(format!("pod {} is removed while it may still run on {}", pod.metadata.name, pod.spec.node_name));
        }
        Ok(())
    }
}

fn violated<T>(text: String) -> Result<T, Violation> {
    Err(Violation(text))
}

fn count(items: impl Iterator) -> i64 {
    i64::try_from(items.count()).expect("few enough to be in memory")
}

fn decode<T: DeserializeOwned>(changed: &Changed<'_>) -> T {
    serde_json::from_slice(changed.json).expect("the store holds what the API server has checked")
}
