//! The causes of one workload: its pods, and the pods that it could not create.

use super::{
    About, Cause, Causes, Kind,
    pods::{Case, Finding, findings, of_claims},
    refusal,
};
use crate::{
    hash::same_template,
    ordinals::{member_ordinal, ordinals},
    view::{
        CronJobView, DaemonSetView, DeploymentStrategy, DeploymentView, EventView, JobView, PodPhase, PodReplacementPolicy, PodView,
        ReplicaSetView, StatefulSetView,
    },
};
use berth_api::{FeatureGates, Gate};
use berth_identity::Uid;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::DeploymentCondition;
use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

/// The start of the message of the event about a ControllerRevision that could not be created.
pub(crate) const REVISION_NOT_CREATED: &str = "Create ControllerRevision ";
/// How long a controller may take until it has observed an object.
const OBSERVED_WITHIN: SignedDuration = SignedDuration::from_secs(10);

/// The facts about a Deployment. If the caller cannot read a kind, its list is empty and fewer causes are found.
pub struct DeploymentFacts<'a> {
    /// The Deployment.
    pub deployment: &'a DeploymentView,
    /// ReplicaSets of its namespace. Those of other Deployments are ignored.
    pub sets: &'a [Arc<ReplicaSetView>],
    /// Pods of its namespace. Those of other workloads are ignored.
    pub pods: &'a [Arc<PodView>],
    /// Warnings of its namespace. Those about other objects are ignored.
    pub events: &'a [Arc<EventView>],
    /// The feature gates of the cluster's controllers.
    pub gates: &'a FeatureGates,
    /// Since when it is known that the controller has not observed the newest spec. `None` if it has, or if that is unknown.
    pub unobserved_since: Option<Timestamp>,
    /// The time of the observation.
    pub now: Timestamp,
}

/// The facts about a StatefulSet. If the caller cannot read a kind, its list is empty and fewer causes are found.
pub struct StatefulSetFacts<'a> {
    /// The set.
    pub set: &'a StatefulSetView,
    /// Pods of its namespace. Those of other workloads are ignored.
    pub pods: &'a [Arc<PodView>],
    /// Warnings of its namespace. Those about other objects are ignored.
    pub events: &'a [Arc<EventView>],
    /// Since when it is known that the controller has not observed the newest spec. `None` if it has, or if that is unknown.
    pub unobserved_since: Option<Timestamp>,
    /// The time of the observation.
    pub now: Timestamp,
}

/// What is known of a DaemonSet. Where something cannot be read, its list is empty: less is found then.
pub struct DaemonSetFacts<'a> {
    /// The set.
    pub set: &'a DaemonSetView,
    /// Pods of its namespace. Those of other owners have no effect.
    pub pods: &'a [Arc<PodView>],
    /// Warnings of its namespace. Those about other objects have no effect.
    pub events: &'a [Arc<EventView>],
    /// Since when it is known that the controller has not observed the newest spec. `None` if it has, or if that is unknown.
    pub unobserved_since: Option<Timestamp>,
    /// The time of this reading.
    pub now: Timestamp,
}

/// The facts about a Job. If the caller cannot read a kind, its list is empty and fewer causes are found.
pub struct JobFacts<'a> {
    /// The Job.
    pub job: &'a JobView,
    /// Pods of its namespace; those of other owners have no effect.
    pub pods: &'a [Arc<PodView>],
    /// Warnings of its namespace; those about other objects have no effect.
    pub events: &'a [Arc<EventView>],
    /// Since when it is known that the controller has not observed the Job. `None` if it has, or if that is unknown.
    pub unobserved_since: Option<Timestamp>,
    /// The time of this reading.
    pub now: Timestamp,
}

/// The facts about a single CronJob.
pub struct CronJobFacts<'a> {
    /// The CronJob.
    pub cron_job: &'a CronJobView,
    /// Since when a Job is due that does not exist.
    pub due_since: Option<Timestamp>,
    /// Warnings of its namespace. Those about other objects are ignored.
    pub events: &'a [Arc<EventView>],
    /// The time of the observation.
    pub now: Timestamp,
}

/// The facts about a single ReplicaSet or ReplicationController. If the caller cannot read a kind, its list is empty and fewer causes are found.
pub struct ReplicaSetFacts<'a> {
    /// The set.
    pub set: &'a ReplicaSetView,
    /// Pods of its namespace. Those of other workloads are ignored.
    pub pods: &'a [Arc<PodView>],
    /// Warnings of its namespace. Those about other objects are ignored.
    pub events: &'a [Arc<EventView>],
    /// Since when it is known that the controller has not observed the newest spec. `None` if it has, or if that is unknown.
    pub unobserved_since: Option<Timestamp>,
    /// The time of the observation.
    pub now: Timestamp,
}

/// The facts about a single pod.
pub struct PodFacts<'a> {
    /// The pod.
    pub pod: &'a PodView,
    /// Warnings of its namespace. Those about other objects are ignored.
    pub events: &'a [Arc<EventView>],
    /// The time of the observation.
    pub now: Timestamp,
}

/// Pods that were not created.
struct Refusal<'a> {
    about: About,
    missing: i64,
    message: &'a str,
}

/// Why a Deployment's rollout is blocked, apart from its controller's own decisions.
///
/// Pods and refusals count of the newest template's set; of the others, where that one wants no pods (before it is made, or paused). Pods that
/// are being deleted count where pods that replace them wait for them.
#[must_use]
pub fn of_deployment(facts: &DeploymentFacts<'_>) -> Causes {
    let deployment = facts.deployment;
    let own: Vec<_> = facts.sets.iter().filter(|set| set.meta.is_controlled_by(&deployment.meta.uid)).collect();
    let wants_pods = |set: &&Arc<ReplicaSetView>| set.replicas > 0;
    let newest = own.iter().copied().filter(|set| same_template(&set.template, &deployment.spec.template)).find(wants_pods);
    let asked: Vec<_> = newest.map_or_else(|| own.iter().copied().filter(wants_pods).collect(), |set| vec![set]);
    let is_of = |pod: &PodView, sets: &[&Arc<ReplicaSetView>]| sets.iter().any(|set| pod.meta.is_controlled_by(&set.meta.uid));
    let waits = waits_for_terminating(deployment, facts.gates);
    let counts = |pod: &&Arc<PodView>| match pod.meta.deleted {
        None => is_of(pod, &asked),
        Some(_) => waits && pod.is_terminating() && is_of(pod, &own),
    };
    let mut found = Collected::new(facts.events, facts.now);
    facts.pods.iter().filter(counts).for_each(|pod| found.take_pod(pod));
    for set in &asked {
        if let Some(refusal) = refusal(set) {
            let refusal = found.latest(refusal, &set.meta.uid);
            found.take_refusal(&refusal);
        }
    }
    let not_created = not_created(facts, &own);
    // The controller has read the new spec and tries. Until the set exists, the status is about the spec before.
    let unobserved_since = facts.unobserved_since.filter(|_| not_created.is_none());
    let refusal = not_created.or_else(|| refusal_of_sets(deployment, &own));
    refusal.into_iter().for_each(|refusal| found.take_refusal(&refusal));
    found.take_unobserved("Deployment", &deployment.meta.name, unobserved_since);
    found.into_causes()
}

/// Why a StatefulSet's rollout is blocked, apart from its controller's own decisions.
///
/// All wanted pods count, whatever their revision, because each can block the others. Terminating pods count too, because they keep their
/// names.
#[must_use]
pub fn of_stateful_set(facts: &StatefulSetFacts<'_>) -> Causes {
    let StatefulSetFacts { set, pods, events, .. } = facts;
    let wanted = ordinals(set);
    let is_wanted = |pod: &&Arc<PodView>| member_ordinal(&set.meta.name, &pod.meta.name).is_some_and(|ordinal| wanted.contains(ordinal));
    let own: Vec<_> = pods.iter().filter(|pod| pod.meta.is_controlled_by(&set.meta.uid)).collect();
    let mut found = Collected::new(events, facts.now);
    own.iter().copied().filter(|pod| pod.meta.deleted.is_some() || is_wanted(pod)).for_each(|pod| found.take_pod(pod));
    let there = i64::try_from(own.iter().copied().filter(is_wanted).count()).unwrap_or(i64::MAX);
    // The event outlives its cause. A pod created since then, or a status of the newest spec, shows that the cause is gone.
    let last_made = own.iter().filter_map(|pod| pod.meta.created).max();
    let is_failure = |event: &&Arc<EventView>| {
        let is_over = is_of_revision(event) && facts.unobserved_since.is_none_or(|since| event.last < Some(since));
        event.about_uid == set.meta.uid && event.reason == "FailedCreate" && event.last >= last_made && !is_over
    };
    let failure = events.iter().filter(is_failure).max_by_key(|event| event.last);
    let is_without_revision = failure.is_some_and(is_of_revision);
    if let Some(event) = failure {
        let message = event.message.split_once(" failed error: ").map_or(&*event.message, |(_, error)| error);
        // The plan waits for the deletion of the claim. No component rejects anything.
        let waits_for_claim = message.starts_with("pvc ") && message.ends_with(" is being deleted");
        let missing = match (waits_for_claim, is_without_revision) {
            (true, _) => 0,
            // The existing pods have the template before.
            (false, true) => wanted.replicas,
            (false, false) => wanted.replicas - there,
        };
        found.take_refusal(&Refusal { about: about("StatefulSet", &set.meta.name), missing, message });
    }
    // The controller has read the new spec and tries.
    found.take_unobserved("StatefulSet", &set.meta.name, facts.unobserved_since.filter(|_| !is_without_revision));
    found.into_causes()
}

/// Whether the event is about the ControllerRevision of a template.
fn is_of_revision(event: &Arc<EventView>) -> bool {
    event.message.starts_with(REVISION_NOT_CREATED)
}

/// Why a DaemonSet does not have an available pod on each of its nodes, as far as that is not its controller's own decision.
#[must_use]
pub fn of_daemon_set(facts: &DaemonSetFacts<'_>) -> Causes {
    let DaemonSetFacts { set, pods, events, .. } = facts;
    let own: Vec<_> = pods.iter().filter(|pod| pod.meta.is_controlled_by(&set.meta.uid)).collect();
    let mut found = Collected::new(events, facts.now);
    own.iter().copied().filter(|pod| pod.meta.deleted.is_none()).for_each(|pod| found.take_pod(pod));
    // The event stays when its cause has ended: a later pod shows that.
    let last_created = own.iter().filter_map(|pod| pod.meta.created).max();
    let is_failure =
        |event: &&Arc<EventView>| event.about_uid == set.meta.uid && event.reason == "FailedCreate" && event.last >= last_created;
    let missing = i64::from(set.status.desired_number_scheduled) - i64::from(set.status.current_number_scheduled);
    if let Some(event) = events.iter().filter(is_failure).max_by_key(|event| event.last).filter(|_| 0 < missing) {
        found.take_refusal(&Refusal { about: about("DaemonSet", &set.meta.name), missing, message: &event.message });
    }
    found.take_unobserved("DaemonSet", &set.meta.name, facts.unobserved_since);
    found.into_causes()
}

/// Why a ReplicaSet or a ReplicationController lacks ready pods, or still has surplus ones.
#[must_use]
pub fn of_replica_set(facts: &ReplicaSetFacts<'_>) -> Causes {
    let ReplicaSetFacts { set, pods, events, .. } = facts;
    let mut found = Collected::new(events, facts.now);
    pods.iter().filter(|pod| pod.meta.is_controlled_by(&set.meta.uid)).for_each(|pod| found.take_pod(pod));
    if let Some(refusal) = refusal(set) {
        let refusal = found.latest(refusal, &set.meta.uid);
        found.take_refusal(&refusal);
    }
    found.take_unobserved(set.kind.name(), &set.meta.name, facts.unobserved_since);
    found.into_causes()
}

/// Why pods of a Job failed, do not run or were not created.
#[must_use]
pub fn of_job(facts: &JobFacts<'_>) -> Causes {
    let JobFacts { job, pods, events, unobserved_since, now } = *facts;
    let own: Vec<_> = pods.iter().filter(|pod| pod.meta.is_controlled_by(&job.meta.uid)).collect();
    let mut found = Collected::new(events, now);
    own.iter().copied().filter(|pod| pod.phase != PodPhase::Succeeded).for_each(|pod| found.take_pod(pod));
    // The event stays when its cause no longer exists: a newer pod shows that.
    let last_made = own.iter().filter_map(|pod| pod.meta.created).max();
    let is_failure = |event: &&Arc<EventView>| event.about_uid == job.meta.uid && event.reason == "FailedCreate" && event.last >= last_made;
    if let Some(event) = events.iter().filter(is_failure).max_by_key(|event| event.last) {
        let active = own.iter().filter(|pod| pod.is_active()).count();
        let missing = i64::from(job.spec.parallelism.unwrap_or(1)) - i64::try_from(active).unwrap_or(i64::MAX);
        let message = event.message.strip_prefix("Error creating: ").unwrap_or(&event.message);
        found.take_refusal(&Refusal { about: about("Job", &job.meta.name), missing, message });
    }
    found.take_unobserved("Job", &job.meta.name, unobserved_since);
    found.into_causes()
}

/// Why no Job of a CronJob exists that is due: a controller creates it at once, or reports that it cannot.
#[must_use]
pub fn of_cron_job(facts: &CronJobFacts<'_>) -> Causes {
    let CronJobFacts { cron_job, due_since, events, now } = *facts;
    let is_failure = |event: &Arc<EventView>| event.about_uid == cron_job.meta.uid && event.reason == "FailedCreate";
    let mut found = Collected::new(events, now);
    let has_failed = events.iter().any(|event| is_failure(event) && due_since <= event.last);
    found.take_unobserved("CronJob", &cron_job.meta.name, due_since.filter(|_| !has_failed));
    found.into_causes()
}

/// Why a pod is not ready, or not deleted.
#[must_use]
pub fn of_one_pod(facts: &PodFacts<'_>) -> Causes {
    let mut found = Collected::new(facts.events, facts.now);
    found.take_pod(facts.pod);
    found.into_causes()
}

/// Why a ReplicaSet has fewer pods than its spec, from its condition ReplicaFailure.
#[must_use]
pub fn refusal_of(set: &ReplicaSetView) -> Option<Cause> {
    refusal(set).and_then(|refusal| refusal.cause())
}

/// Why `missing` pods of the StatefulSet of this name were not created, from the API server's error.
#[must_use]
pub fn refusal_of_stateful_set(set: &str, missing: usize, message: &str) -> Option<Cause> {
    Refusal { about: about("StatefulSet", set), missing: i64::try_from(missing).unwrap_or(i64::MAX), message }.cause()
}

fn refusal(set: &ReplicaSetView) -> Option<Refusal<'_>> {
    let failure = set.status.conditions.iter().flatten().find(|condition| {
        condition.type_ == "ReplicaFailure" && condition.status == "True" && condition.reason.as_deref() == Some("FailedCreate")
    })?;
    Some(Refusal {
        about: about(set.kind.name(), &set.meta.name),
        missing: i64::from(set.replicas) - i64::from(set.status.replicas),
        message: failure.message.as_deref().unwrap_or_default(),
    })
}

/// The Deployment's condition about a set for its newest template that could not be created. Without a progress deadline, only the event
/// has it. The status counts pods of the template before, so all pods are missing.
fn not_created<'a>(facts: &DeploymentFacts<'a>, sets: &[&Arc<ReplicaSetView>]) -> Option<Refusal<'a>> {
    let deployment = facts.deployment;
    let failure =
        condition_with(deployment, "Progressing", "ReplicaSetCreateError").map(|failure| failure.message.as_deref().unwrap_or_default());
    let recorded = || latest_since(facts.unobserved_since?, facts.events, &deployment.meta.uid, "ReplicaSetCreateError");
    let message = failure.or_else(|| Some(&*recorded()?.message))?;
    let is_there = sets.iter().any(|set| same_template(&set.template, &deployment.spec.template));
    let missing = deployment.spec.replicas.unwrap_or(1).into();
    (!is_there).then(|| Refusal { about: about("Deployment", &deployment.meta.name), missing, message })
}

/// The latest event about an object for this reason, if one was recorded since then.
fn latest_since<'a>(since: Timestamp, events: &'a [Arc<EventView>], uid: &Uid, reason: &str) -> Option<&'a EventView> {
    let fits = |event: &&EventView| event.about_uid == *uid && event.reason == reason && Some(since) <= event.last;
    events.iter().map(|event| &**event).filter(fits).max_by_key(|event| event.last)
}

/// The Deployment's condition about its sets' failures, for callers that cannot read the sets.
fn refusal_of_sets<'a>(deployment: &'a DeploymentView, sets: &[&Arc<ReplicaSetView>]) -> Option<Refusal<'a>> {
    let refused =
        condition_with(deployment, "ReplicaFailure", "FailedCreate").filter(|condition| condition.status == "True" && sets.is_empty())?;
    let missing = deployment.spec.replicas.unwrap_or(1).saturating_sub(deployment.status.updated_replicas);
    let message = refused.message.as_deref().unwrap_or_default();
    Some(Refusal { about: about("Deployment", &deployment.meta.name), missing: missing.into(), message })
}

fn condition_with<'a>(deployment: &'a DeploymentView, type_: &str, reason: &str) -> Option<&'a DeploymentCondition> {
    let mut conditions = deployment.status.conditions.iter().flatten();
    conditions.find(|condition| condition.type_ == type_ && condition.reason.as_deref() == Some(reason))
}

fn waits_for_terminating(deployment: &DeploymentView, gates: &FeatureGates) -> bool {
    let choices = &deployment.choices;
    let complete = gates.enabled(Gate::DeploymentPodReplacementPolicy) && choices.policy == Ok(PodReplacementPolicy::TerminationComplete);
    complete || choices.strategy == Ok(DeploymentStrategy::Recreate)
}

fn about(kind: &'static str, name: &str) -> About {
    About { kind, name: name.to_owned() }
}

impl Refusal<'_> {
    /// Returns `None` if no pod is missing.
    fn cause(&self) -> Option<Cause> {
        let pods = usize::try_from(self.missing).ok().filter(|pods| *pods > 0)?;
        Some(Cause { kind: refusal::kind(self.message), pods, about: self.about.clone(), evidence: self.message.to_owned() })
    }
}

/// The causes found so far, at most one of a kind.
struct Collected<'a> {
    events: BTreeMap<&'a str, Vec<&'a EventView>>,
    of_claims: BTreeMap<&'a str, &'a EventView>,
    now: Timestamp,
    found: BTreeMap<Kind, Cause>,
    requeue_at: Option<Timestamp>,
}

impl<'a> Collected<'a> {
    fn new(events: &'a [Arc<EventView>], now: Timestamp) -> Self {
        let mut by_uid = BTreeMap::<_, Vec<_>>::new();
        events.iter().for_each(|event| by_uid.entry(&*event.about_uid).or_default().push(&**event));
        by_uid.values_mut().for_each(|events| events.sort_by_key(|event| std::cmp::Reverse(event.last)));
        let of_claims = of_claims(events.iter().map(|event| &**event));
        Self { events: by_uid, of_claims, now, found: BTreeMap::new(), requeue_at: None }
    }

    fn take_pod(&mut self, pod: &PodView) {
        let events = self.events.get(&*pod.meta.uid).cloned().unwrap_or_default();
        let case = Case { pod, events: &events, of_claims: &self.of_claims };
        let found: Vec<Finding> = findings(&case).collect();
        for Finding { kind, evidence, counts_from } in found {
            if counts_from <= self.now {
                return self.take(Cause { kind, pods: 1, about: about("Pod", &pod.meta.name), evidence });
            }
            self.expect(counts_from);
        }
    }

    /// Prefers the latest event's text, because a condition keeps the text of the first failure while failures last.
    fn latest<'r>(&self, refusal: Refusal<'r>, uid: &str) -> Refusal<'r>
    where
        'a: 'r,
    {
        let event = self.events.get(uid).and_then(|events| events.iter().find(|event| event.reason == "FailedCreate"));
        // Event recorders put this prefix before the message of an aggregated event.
        let alone = |message: &'a str| message.strip_prefix("(combined from similar events): ").unwrap_or(message);
        let message = event.map(|event| alone(&event.message)).map(|message| message.strip_prefix("Error creating: ").unwrap_or(message));
        let message = message.unwrap_or(refusal.message);
        Refusal { message, ..refusal }
    }

    fn take_refusal(&mut self, refusal: &Refusal<'_>) {
        refusal.cause().into_iter().for_each(|cause| self.take(cause));
    }

    fn take_unobserved(&mut self, kind: &'static str, name: &str, since: Option<Timestamp>) {
        let Some(due) = since.and_then(|since| since.checked_add(OBSERVED_WITHIN).ok()) else { return };
        if due <= self.now {
            self.take(Cause { kind: Kind::NotObserved, pods: 0, about: about(kind, name), evidence: String::new() });
        } else {
            self.expect(due);
        }
    }

    /// Adds a cause to one of the same kind that is already known, and names the pod whose name sorts first.
    fn take(&mut self, cause: Cause) {
        match self.found.entry(cause.kind) {
            Entry::Vacant(vacant) => drop(vacant.insert(cause)),
            Entry::Occupied(mut known) => {
                let pods = known.get().pods + cause.pods;
                if cause.about < known.get().about {
                    known.insert(cause);
                }
                known.get_mut().pods = pods;
            }
        }
    }

    fn expect(&mut self, due: Timestamp) {
        self.requeue_at = self.requeue_at.into_iter().chain([due]).min();
    }

    fn into_causes(self) -> Causes {
        Causes { list: self.found.into_values().collect(), requeue_at: self.requeue_at }
    }
}

#[cfg(test)]
mod tests;
