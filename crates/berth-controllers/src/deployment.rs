//! The Deployment controller: the changes that enqueue Deployments, and the input of their plans.

use crate::{
    analysis::Analyst,
    cache::{AnyCache, Cache, Delta, Known},
    creations::Creations,
    lock,
    owners::OwnerIndex,
    plan_loop::{PlanInputs, Planner},
    pods::PodIndex,
    replica_set::{PodCache, ReplicaSetCache},
    worker::Queue,
};
use berth_api::FeatureGates;
use berth_identity::{ObjectKey, Revision, Uid};
use berth_workloads::{
    Plan,
    analysis::Asked,
    counts::{LeftBehind, former_deployment, is_left_behind},
    deployment::{self, DeploymentState, Found},
    plan::{EventRecord, Wait},
    view::{DeploymentStrategy, DeploymentView, PodReplacementPolicy, PodView, ReplicaSetView, View},
};
use jiff::Timestamp;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

/// The content of the cache of ReplicaSets.
pub type Sets = Known<ReplicaSetView, OwnerIndex<ReplicaSetView>>;
/// All Deployments of one group.
pub type DeploymentCache = Cache<DeploymentView>;

/// For Deployments whose sets with pods were deleted: the revision that the cache of pods must reach to contain all pods that are left
/// behind.
#[derive(Default)]
pub struct Losses(Mutex<BTreeMap<ObjectKey, Lost>>);

/// The deleted sets of one Deployment.
#[derive(Default)]
struct Lost {
    /// The revision of the last deletion.
    revision: Revision,
    /// The sets. Some of their pods may still be in creation.
    sets: BTreeSet<Uid>,
}

impl Losses {
    /// Records that the cache of sets reported at `revision` the deletion of this set of `deployment`.
    fn note(&self, deployment: ObjectKey, set: Uid, revision: Revision) {
        let mut all = lock(&self.0);
        let lost = all.entry(deployment).or_default();
        lost.revision = revision.max(lost.revision);
        lost.sets.insert(set);
    }

    fn is_awaited(&self, deployment: &ObjectKey, pods: Revision, creations: &Creations) -> bool {
        lock(&self.0).get(deployment).is_some_and(|lost| !lost.is_shown(pods, creations))
    }

    /// Records that the cache of pods has reached `revision`. Returns the Deployments that waited for that.
    fn advance(&self, revision: Revision, creations: &Creations) -> Vec<ObjectKey> {
        lock(&self.0).extract_if(.., |_, lost| lost.is_shown(revision, creations)).map(|(key, _)| key).collect()
    }

    /// The Deployments whose set this was.
    fn of_set(&self, set: &Uid) -> Vec<ObjectKey> {
        lock(&self.0).iter().filter(|(_, lost)| lost.sets.contains(set)).map(|(key, _)| key.clone()).collect()
    }
}

impl Lost {
    fn is_shown(&self, pods: Revision, creations: &Creations) -> bool {
        self.revision <= pods && self.sets.iter().all(|set| creations.are_shown(set, pods))
    }
}

/// Plans Deployments.
pub struct DeploymentPlanner {
    /// The Deployments.
    pub deployments: Arc<DeploymentCache>,
    /// Their ReplicaSets.
    pub sets: Arc<ReplicaSetCache>,
    /// The pods of those.
    pub pods: Arc<PodCache>,
    /// The controllers' gates.
    pub gates: Arc<FeatureGates>,
    /// The deleted sets.
    pub losses: Arc<Losses>,
    /// Pod creations in progress.
    pub creations: Arc<Creations>,
    /// Sends the questions of plans.
    pub analyst: Analyst,
}

impl DeploymentPlanner {
    /// Adds the keys of Deployments to `queue` when Deployments, sets or pods change. Call it before the caches start.
    pub fn wake(&self, queue: &Queue<ObjectKey>) {
        let changed = queue.clone();
        self.deployments.on_change(move |delta| match (&delta.old, &delta.new) {
            (None, Some(created)) => changed.add_new(created.key()),
            _ => delta.sides().take(1).for_each(|deployment| changed.add(deployment.key())),
        });
        let (deployments, woken) = (Arc::clone(&self.deployments), queue.clone());
        self.sets.on_change(move |delta| wake_for_set(&deployments, &woken, delta));
        let (losses, creations) = (Arc::clone(&self.losses), Arc::clone(&self.creations));
        self.sets.on_removed(move |lost, revision| {
            let has_pods = lost.replicas.max(lost.status.replicas) > 0 || creations.has(&lost.meta.uid);
            if let Some(owner) = lost.meta.controller().filter(|_| has_pods) {
                losses.note(ObjectKey::new(&lost.meta.namespace, &owner.name), lost.meta.uid.clone(), revision);
            }
        });
        let (losses, creations, woken) = (Arc::clone(&self.losses), Arc::clone(&self.creations), queue.clone());
        self.pods.on_revision(Box::new(move |revision| losses.advance(revision, &creations).into_iter().for_each(|key| woken.add(key))));
        let (losses, woken) = (Arc::clone(&self.losses), queue.clone());
        self.creations.on_end(move |set| losses.of_set(set).into_iter().for_each(|key| woken.add(key)));
        let (deployments, sets, woken) = (Arc::clone(&self.deployments), Arc::clone(&self.sets), queue.clone());
        self.pods.on_change(move |delta| wake_for_pod(&deployments, &sets, &woken, delta));
    }
}

/// Builds the state for a Deployment's plan. Only this function does, for the controller and for the commands that show its plans.
///
/// `sets` and `pods` contain at least all of the namespace. Objects that the Deployment neither controls nor selects matter too: their
/// names are taken, and they own pods that are not left behind. `asked` is the present state of an analysis.
#[must_use]
pub fn observe(
    deployment: &Arc<DeploymentView>,
    sets: &Sets,
    pods: &mut PodIndex,
    inputs: PlanInputs<'_>,
    asked: Option<Asked>,
) -> DeploymentState {
    let PlanInputs { last_error, gates, now } = inputs;
    let namespace = &deployment.meta.namespace;
    let selector = deployment.selector.as_ref().filter(|selector| !selector.is_empty());
    let orphans = sets.index().orphans(namespace, selector);
    let own: Vec<_> = sets.index().controlled_by(&deployment.meta.uid).chain(orphans).cloned().collect();
    let to_come = to_come(deployment, sets, pods, now);
    let is_left_behind = |uid: &str| is_left_behind(&deployment.meta, sets.index().by_uid(uid).map(|set| &**set));
    let mut state = DeploymentState {
        deployment: Arc::clone(deployment),
        pods: own.iter().map(|set| (set.meta.uid.clone(), pods.of_set(set, now))).collect(),
        sets: own,
        left_behind: LeftBehind { to_come, ..pods.left_behind(deployment, is_left_behind) },
        found: Found::default(),
        last_error: last_error.map(str::to_owned),
        asked,
        gates: gates.clone(),
        now,
    };
    let wanted = deployment::wanted(&state);
    state.found = Found {
        is_name_taken: wanted.set_name.is_some_and(|name| sets.get(&ObjectKey::new(namespace, name)).is_some()),
        all_ready_since: wanted.all_ready_since.and_then(|set| pods.all_ready_since(&set)),
        unready_on: wanted.unready_on.map(|set| pods.unready_on(&set)).unwrap_or_default(),
    };
    state
}

/// How many pods sets of a former Deployment of this name still have to create. Their controller continues until the garbage collector has
/// deleted the sets.
fn to_come(deployment: &DeploymentView, sets: &Sets, pods: &mut PodIndex, now: Timestamp) -> u32 {
    let former = sets.index().of_namesakes(&deployment.key(), &deployment.meta.uid);
    let works = |set: &&Arc<ReplicaSetView>| set.meta.deleted.is_none() && is_left_behind(&deployment.meta, Some(&***set));
    let selected = former.filter(works).filter(|set| selects(deployment, &set.meta.labels));
    selected.map(|set| u32::try_from(set.replicas).unwrap_or(0).saturating_sub(pods.counts(set, now).0.active)).sum()
}

/// Enqueues the Deployment that controls the set or did, the one with a former controller's name, and for an orphan every one that selects
/// it.
fn wake_for_set(deployments: &DeploymentCache, queue: &Queue<ObjectKey>, delta: &Delta<ReplicaSetView>) {
    delta.sides().filter_map(|set| named_by(deployments, set)).for_each(|deployment| queue.add(deployment.key()));
    if let Some(orphan) = delta.new.as_ref().filter(|set| set.meta.controller().is_none() && !set.meta.labels.is_empty()) {
        let changed = delta.old.as_ref().is_none_or(|old| old.meta.labels != orphan.meta.labels || old.meta.owners != orphan.meta.owners);
        let known = deployments.read();
        let selecting = known.in_namespace(&orphan.meta.namespace).filter(|deployment| changed && selects(deployment, &orphan.meta.labels));
        selecting.for_each(|deployment| queue.add(deployment.key()));
    }
}

/// Enqueues a pod's Deployment if the plan depends on the pod itself, and not only on its set's status.
fn wake_for_pod(deployments: &DeploymentCache, sets: &ReplicaSetCache, queue: &Queue<ObjectKey>, delta: &Delta<PodView>) {
    let Some(matters) = matters(delta) else { return };
    for pod in delta.sides().take(1) {
        let Some(owner) = pod.meta.controller().filter(|owner| owner.kind == "ReplicaSet") else { return };
        let set = sets.read().index().by_uid(&owner.uid).cloned();
        match set {
            Some(set) => match owner_of(deployments, &set) {
                Some(deployment) if matters == Matters::Always || watches_pods(&deployment) => queue.add(deployment.key()),
                Some(_) => (),
                None => wake_for_left_behind(deployments, queue, pod, Some(&set)),
            },
            None => wake_for_left_behind(deployments, queue, pod, None),
        }
    }
}

/// Enqueues the Deployments for which a pod counts although its set no longer belongs to them.
fn wake_for_left_behind(deployments: &DeploymentCache, queue: &Queue<ObjectKey>, pod: &PodView, set: Option<&ReplicaSetView>) {
    let counts = |deployment: &&Arc<DeploymentView>| is_left_behind(&deployment.meta, set) && selects(deployment, &pod.meta.labels);
    match former_deployment(pod) {
        Some(name) => {
            let deployment = deployments.get(&ObjectKey::new(&pod.meta.namespace, name));
            deployment.iter().filter(counts).for_each(|deployment| queue.add(deployment.key()));
        }
        None => {
            let known = deployments.read();
            known.in_namespace(&pod.meta.namespace).filter(counts).for_each(|deployment| queue.add(deployment.key()));
        }
    }
}

/// The Deployments that a pod's change affects.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Matters {
    /// All.
    Always,
    /// Those that wait for the deletion of pods.
    Leaving,
}

fn matters(delta: &Delta<PodView>) -> Option<Matters> {
    match (&delta.old, &delta.new) {
        (Some(old), Some(new)) if !old.troubles().eq(new.troubles()) => Some(Matters::Always),
        (Some(old), Some(new)) => {
            let left = old.meta.deleted != new.meta.deleted || old.phase.is_finished() != new.phase.is_finished();
            left.then_some(Matters::Leaving)
        }
        (None, Some(new)) => new.troubles().next().map(|_| Matters::Always),
        (Some(_), None) => Some(Matters::Leaving),
        (None, None) => None,
    }
}

/// Recreate, or a policy that waits for the deletion of pods.
fn watches_pods(deployment: &DeploymentView) -> bool {
    deployment.choices.strategy == Ok(DeploymentStrategy::Recreate) || deployment.choices.policy != Ok(PodReplacementPolicy::Unset)
}

fn owner_of(deployments: &DeploymentCache, set: &ReplicaSetView) -> Option<Arc<DeploymentView>> {
    named_by(deployments, set).filter(|deployment| set.meta.is_controlled_by(&deployment.meta.uid))
}

/// The Deployment with the name of the set's present or former controller.
fn named_by(deployments: &DeploymentCache, set: &ReplicaSetView) -> Option<Arc<DeploymentView>> {
    let owner = set.meta.controller().filter(|owner| owner.kind == "Deployment")?;
    deployments.get(&ObjectKey::new(&set.meta.namespace, &owner.name))
}

fn selects(deployment: &DeploymentView, labels: &berth_workloads::selector::Labels) -> bool {
    deployment.selector.as_ref().is_some_and(|selector| !selector.is_empty() && selector.matches(labels))
}

impl Planner for DeploymentPlanner {
    fn plan(&self, key: &ObjectKey, last_error: Option<&str>, now: Timestamp) -> Option<Plan> {
        let Some(deployment) = self.deployments.get(key) else {
            self.analyst.want(key, None);
            return None;
        };
        let (sets, mut pods) = (self.sets.read(), self.pods.read());
        // After the sets are read: the loss of a set that they lack is recorded.
        if self.losses.is_awaited(key, pods.revision(), &self.creations) {
            return Some(Plan::default());
        }
        let inputs = PlanInputs { last_error, gates: &self.gates, now };
        let asked = self.analyst.asked(key);
        let plan = deployment::plan(&observe(&deployment, &sets, pods.index_mut(), inputs, asked));
        self.analyst.want(key, plan.question.as_ref());
        Some(plan)
    }

    fn wait_event(&self, key: &ObjectKey, wait: &Wait) -> Option<EventRecord> {
        deployment::wait_event(&*self.deployments.get(key)?, wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_workloads::view::{ContainerSymptom, PodPhase, ReasonMessage, Symptoms};

    /// The changes that enqueue a Deployment: a thousand starting pods do not, one failing pod does.
    #[test]
    fn a_pod_that_starts_enqueues_no_deployment_and_one_that_fails_does() {
        let pod = |phase, waiting: &str| {
            let waiting =
                Some(ReasonMessage { reason: waiting.to_owned(), ..ReasonMessage::default() }).filter(|said| !said.reason.is_empty());
            let containers = vec![ContainerSymptom { waiting, ..ContainerSymptom::default() }];
            PodView { phase, symptoms: Some(Box::new(Symptoms { containers, ..Symptoms::default() })), ..PodView::default() }
        };
        let going = |mut pod: PodView| {
            pod.meta.deleted = Some(Timestamp::UNIX_EPOCH);
            pod
        };
        let [new, starts, runs, fails] = [
            (PodPhase::Pending, ""),
            (PodPhase::Pending, "ContainerCreating"),
            (PodPhase::Running, ""),
            (PodPhase::Pending, "ErrImagePull"),
        ]
        .map(|(phase, waiting)| Some(pod(phase, waiting)));
        let check = |old: &Option<PodView>, new: &Option<PodView>, wanted: Option<Matters>| {
            let side = |side: &Option<PodView>| side.clone().map(Arc::new);
            let found = matters(&Delta { old: side(old), new: side(new) });
            assert!(found == wanted, "{old:?} {new:?}");
        };
        check(&None, &new, None);
        check(&new, &starts, None);
        check(&starts, &runs, None);
        check(&starts, &fails, Some(Matters::Always));
        check(&fails, &runs, Some(Matters::Always));
        check(&None, &fails, Some(Matters::Always));
        check(&runs, &runs.clone().map(going), Some(Matters::Leaving));
        check(&runs, &Some(pod(PodPhase::Succeeded, "")), Some(Matters::Leaving));
        check(&runs, &None, Some(Matters::Leaving));
    }
}
