//! What must hold after every change of the store.

use crate::facts::{Deployment, Pod, ReplicaSet};
use berth_api::FeatureGates;
use berth_store::env::Timestamp;
use serde::de::DeserializeOwned;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

type Uid = String;

/// A limit that was passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation(pub String);

/// The cluster as the store shows it, followed change by change.
///
/// Limits depend on what a controller may not have seen yet: a Deployment that shrinks from 100 to 50 pods may still get pods for a
/// moment. Its bounds therefore widen at once and tighten when every controller involved has reported the newest generation and what there is
/// lies within the new bounds. While the size stays the same, that is: exactly `replicas + maxSurge` and `replicas - maxUnavailable`.
///
/// `maxSurge` without TerminationComplete is about the ReplicaSets' sizes, as upstream: pods that a ReplicaSet has been told to delete give
/// their place away at once, not when they are marked.
#[derive(Default)]
pub struct Checker {
    /// By the uid of the set that controls them.
    pods: BTreeMap<Uid, BTreeMap<Uid, Pod>>,
    sets: BTreeMap<Uid, ReplicaSet>,
    deployments: BTreeMap<Uid, Deployment>,
    /// Also of sets that are gone.
    deployment_of_set: BTreeMap<Uid, Uid>,
    deployment_bounds: BTreeMap<Uid, Bounds>,
    /// The most pods that each set may have.
    set_bounds: BTreeMap<Uid, i64>,
    /// Pods that the test deleted itself.
    deleted_by_hand: BTreeSet<Uid>,
    /// The controllers': without theirs no policy is honoured.
    gates: Arc<FeatureGates>,
}

/// What a Deployment is held to, and what it had at the last look.
#[derive(Clone, Copy, Debug, Default)]
struct Bounds {
    /// `spec.replicas`.
    wanted: i64,
    ceiling: i64,
    floor: i64,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    live: i64,
    /// Of those, the ones that their sets have not been told to delete.
    kept: i64,
    terminating: i64,
    available: i64,
    /// The sum of the sets' sizes.
    wanted: i64,
    /// What the sets may come to, or still have, with the pods that leave.
    committed: i64,
    /// Pods that leave or are missing by no controller's doing.
    by_hand: i64,
}

/// One change of the store.
#[derive(Clone, Copy, Debug)]
pub struct Changed<'a> {
    /// The plural of the resource, and its group: `apps/deployments`, `core/pods`.
    pub resource: &'a str,
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

impl Checker {
    /// Takes a change in; gives what was most essential about the object, for the log.
    ///
    /// # Errors
    /// The first limit that the change has passed.
    pub fn take_in(&mut self, changed: &Changed<'_>, now: Timestamp) -> Result<String, Violation> {
        match changed.resource {
            "core/pods" => self.take_in_pod(decode(changed), changed.presence, now),
            "apps/replicasets" => self.take_in_set(decode(changed), changed.presence, now),
            "apps/deployments" => self.take_in_deployment(decode(changed), changed.presence, now),
            _ => Ok(format!("{} bytes", changed.json.len())),
        }
    }

    /// The test is about to delete this pod: what follows from that is no controller's fault.
    pub fn delete_by_hand(&mut self, pod: &str) {
        let uid = self.all_pods().find(|known| known.metadata.name == pod).map(|known| known.metadata.uid.clone());
        self.deleted_by_hand.extend(uid);
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

    /// The names of pods that nobody has asked to go, in order.
    #[must_use]
    pub fn live_pods(&self) -> BTreeSet<&str> {
        self.all_pods().filter(|pod| pod.is_live()).map(|pod| pod.metadata.name.as_str()).collect()
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
        if presence == Presence::There {
            self.check_place(before.as_ref(), &pod)?;
            self.pods.entry(set.clone()).or_default().insert(pod.metadata.uid.clone(), pod);
        }
        if is_new {
            self.check_set(&set)?;
        }
        self.tighten_set(&set);
        if let Some(deployment) = self.deployment_of_set.get(&set).cloned() {
            self.check_deployment(&deployment, now)?;
        }
        Ok(text)
    }

    fn take_in_set(&mut self, set: ReplicaSet, presence: Presence, now: Timestamp) -> Result<String, Violation> {
        let (text, uid, deployment) = (set.to_string(), set.metadata.uid.clone(), set.metadata.controller().to_owned());
        match presence {
            Presence::There => drop(self.sets.insert(uid.clone(), set)),
            Presence::Gone => drop(self.sets.remove(&uid)),
        }
        self.deployment_of_set.insert(uid.clone(), deployment.clone());
        self.tighten_set(&uid);
        self.check_deployment(&deployment, now)?;
        Ok(text)
    }

    fn take_in_deployment(&mut self, deployment: Deployment, presence: Presence, now: Timestamp) -> Result<String, Violation> {
        let (text, uid) = (deployment.to_string(), deployment.metadata.uid.clone());
        match presence {
            Presence::There => drop(self.deployments.insert(uid.clone(), deployment)),
            Presence::Gone => drop((self.deployments.remove(&uid), self.deployment_bounds.remove(&uid))),
        }
        self.check_deployment(&uid, now)?;
        Ok(text)
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

    /// No pod is created beyond what a set asks for.
    fn check_set(&self, uid: &str) -> Result<(), Violation> {
        let (Some(set), Some(bound)) = (self.sets.get(uid), self.set_bounds.get(uid)) else { return Ok(()) };
        let live = self.live_of(uid);
        if live > *bound {
            return violated(format!("ReplicaSet {} has {live} pods that stay, and never wanted more than {bound}", set.metadata.name));
        }
        Ok(())
    }

    fn tighten_set(&mut self, uid: &str) {
        let Some(set) = self.sets.get(uid) else { return };
        let (size, live) = (set.spec.replicas, self.live_of(uid));
        let settled = set.status.observed_generation == set.metadata.generation && live <= size;
        let bound = self.set_bounds.entry(uid.to_owned()).or_default();
        *bound = if settled { size } else { size.max(*bound) };
    }

    fn live_of(&self, set: &str) -> i64 {
        count(self.pods_of(set).filter(|pod| pod.is_live()))
    }

    fn check_deployment(&mut self, uid: &str, now: Timestamp) -> Result<(), Violation> {
        let Some(deployment) = self.deployments.get(uid) else { return Ok(()) };
        let after = self.counts(deployment, now);
        let wanted = deployment.spec.replicas;
        let known = self.deployment_bounds.get(uid).copied();
        let Bounds { wanted: wanted_before, ceiling, floor, counts: before } =
            known.unwrap_or(Bounds { wanted, ceiling: deployment.max(), floor: 0, counts: after });
        // A scale-down in the middle of a rollout shrinks every ReplicaSet in proportion to its size, whatever of it is available
        // (upstream's proportional scaling): it promises nothing until the next complete state.
        let floor = if wanted < wanted_before && !deployment.is_rolled_out() { 0 } else { floor };
        let (ceiling, floor) = (ceiling.max(deployment.max()), floor.min(deployment.min_available()));
        if deployment.metadata.deletion_timestamp.is_none() {
            check_counts(deployment, before, after, (ceiling, floor))?;
            if deployment.waits_for_termination() && self.gates.enabled("DeploymentPodReplacementPolicy") {
                check_leaving(deployment, before, after, ceiling)?;
            }
        }
        let settled = self.is_settled(deployment, after);
        let ceiling = if settled { deployment.max() } else { ceiling };
        // Only a rollout that starts from a complete one promises to keep pods available.
        let floor = if settled && deployment.is_rolled_out() { deployment.min_available() } else { floor };
        self.deployment_bounds.insert(uid.to_owned(), Bounds { wanted, ceiling, floor, counts: after });
        Ok(())
    }

    fn counts(&self, deployment: &Deployment, now: Timestamp) -> Counts {
        let ours = self.deployment_of_set.iter().filter(|(_, owner)| **owner == deployment.metadata.uid);
        let pods: Vec<&Pod> = ours.flat_map(|(set, _)| self.pods_of(set)).collect();
        let count_if = |wanted: &dyn Fn(&Pod) -> bool| count(pods.iter().filter(|pod| wanted(pod)));
        let sets: Vec<&ReplicaSet> = self.sets.values().filter(|set| set.metadata.controller() == deployment.metadata.uid).collect();
        let terminating = count_if(&Pod::is_terminating);
        let most = |set: &&ReplicaSet| set.spec.replicas.max(self.live_of(&set.metadata.uid));
        let surplus = |set: &&ReplicaSet| (self.live_of(&set.metadata.uid) - set.spec.replicas).max(0);
        let live = count_if(&Pod::is_live);
        Counts {
            live,
            kept: live - sets.iter().map(surplus).sum::<i64>(),
            terminating,
            available: count_if(&|pod| pod.is_available(deployment.spec.min_ready_seconds, now)),
            wanted: sets.iter().map(|set| set.spec.replicas).sum(),
            committed: sets.iter().map(most).sum::<i64>() + terminating,
            by_hand: count_if(&|pod| pod.is_terminating() && self.deleted_by_hand.contains(&pod.metadata.uid)),
        }
    }

    /// Everybody involved has seen the newest generations, and the limits of now are kept.
    fn is_settled(&self, deployment: &Deployment, counts: Counts) -> bool {
        let sets = self.sets.values().filter(|set| set.metadata.controller() == deployment.metadata.uid);
        deployment.status.observed_generation == deployment.metadata.generation
            && sets.into_iter().all(|set| set.status.observed_generation == set.metadata.generation)
            && counts.live.max(counts.wanted) <= deployment.max()
            && counts.available >= deployment.min_available()
    }
}

/// What one step may not do.
fn check_counts(deployment: &Deployment, before: Counts, after: Counts, (ceiling, floor): (i64, i64)) -> Result<(), Violation> {
    check_rise(deployment, "the sizes of all ReplicaSets", (before.wanted, after.wanted), ceiling)?;
    if !deployment.is_rolling() {
        return Ok(());
    }
    check_rise(deployment, "pods that stay", (before.kept, after.kept), ceiling)?;
    // Pods that nobody has reported as available may be taken for unhealthy ones, which go first.
    let held = before.available.min(deployment.status.available_replicas) >= floor;
    if after.by_hand == 0 && held && after.available < floor {
        let (name, had, has) = (&deployment.metadata.name, before.available, after.available);
        return violated(format!("Deployment {name}: available pods went from {had} to {has}, at least {floor} must stay"));
    }
    Ok(())
}

/// What one step may not do under TerminationComplete.
fn check_leaving(deployment: &Deployment, before: Counts, after: Counts, ceiling: i64) -> Result<(), Violation> {
    let most = ceiling + after.by_hand;
    let total = |counts: Counts| counts.live + counts.terminating;
    check_rise(deployment, "pods with those that leave", (total(before), total(after)), most)?;
    check_rise(deployment, "what pods may come to with those that leave", (before.committed, after.committed), most)
}

fn check_rise(deployment: &Deployment, what: &str, (had, has): (i64, i64), most: i64) -> Result<(), Violation> {
    if has > had && has > most {
        let name = &deployment.metadata.name;
        return violated(format!("Deployment {name}: {what} went from {had} to {has}, at most {most} are allowed"));
    }
    Ok(())
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
