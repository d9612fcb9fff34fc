//! What must be true once nothing is left to do: everything is as its spec requires, and every status matches the objects.

use super::{Checker, Violation, count, stateful_set::Tracked, violated};
use crate::facts::{Deployment, Pod, ReplicaSet, StatefulSet};
use berth_api::Gate;
use berth_store::env::Timestamp;

impl Checker {
    /// Checks that every workload has reached its spec, and that its status shows it.
    ///
    /// # Errors
    /// The first violation.
    pub fn check_rest(&self, now: Timestamp) -> Result<(), Violation> {
        self.sets.values().try_for_each(|set| self.check_set_at_rest(set, now))?;
        self.deployments.values().try_for_each(|deployment| self.check_deployment_at_rest(deployment, now))?;
        self.stateful_sets.values().map(Tracked::newest).try_for_each(|set| self.check_stateful_set_at_rest(set, now))
    }

    fn check_set_at_rest(&self, set: &ReplicaSet, now: Timestamp) -> Result<(), Violation> {
        let ReplicaSet { metadata, spec, status } = set;
        let count_if = |wanted: &dyn Fn(&Pod) -> bool| count(self.pods_of(&metadata.uid).filter(|pod| wanted(pod)));
        let live = count_if(&Pod::is_live);
        let whose = format!("ReplicaSet {}", metadata.name);
        if set.is_partially_scaled() {
            return violated(format!("{whose} has not got its due of a scale"));
        }
        compare(
            &whose,
            &[
                ("the generation", status.observed_generation, metadata.generation),
                ("its size", spec.replicas, live),
                ("replicas", status.replicas, live),
                ("readyReplicas", status.ready_replicas, count_if(&|pod| pod.is_available(0, Timestamp::MAX))),
                ("availableReplicas", status.available_replicas, count_if(&|pod| pod.is_available(spec.min_ready_seconds, now))),
                ("terminatingReplicas", self.expected_terminating(status.terminating_replicas), count_if(&Pod::is_terminating)),
            ],
        )
    }

    /// -1 where the number is missing although the gate requires it. 0 where the gate forbids it.
    fn expected_terminating(&self, reported: Option<i64>) -> i64 {
        let should = self.gates.enabled(Gate::DeploymentReplicaSetTerminatingReplicas);
        reported.unwrap_or(if should { -1 } else { 0 })
    }

    fn check_deployment_at_rest(&self, deployment: &Deployment, now: Timestamp) -> Result<(), Violation> {
        let Deployment { metadata, spec, status } = deployment;
        let sets: Vec<&ReplicaSet> = self.sets.values().filter(|set| set.metadata.controller() == metadata.uid).collect();
        let pods = || sets.iter().flat_map(|set| self.pods_of(&set.metadata.uid));
        let count_if = |wanted: &dyn Fn(&Pod) -> bool| count(pods().filter(|pod| wanted(pod)));
        let available = count_if(&|pod| pod.is_available(spec.min_ready_seconds, now));
        let whose = format!("Deployment {}", metadata.name);
        compare(
            &whose,
            &[
                ("the generation", status.observed_generation, metadata.generation),
                ("its size", spec.replicas, count_if(&Pod::is_live)),
                ("replicas", status.replicas, spec.replicas),
                ("updatedReplicas", status.updated_replicas, spec.replicas),
                ("readyReplicas", status.ready_replicas, count_if(&|pod| pod.is_available(0, Timestamp::MAX))),
                ("availableReplicas", status.available_replicas, available),
                ("unavailableReplicas", status.unavailable_replicas, spec.replicas - available),
                ("terminatingReplicas", self.expected_terminating(status.terminating_replicas), count_if(&Pod::is_terminating)),
            ],
        )?;
        if sets.iter().filter(|set| set.spec.replicas > 0).count() > 1 {
            return violated(format!("{whose} is at rest with more than one set that has a size"));
        }
        let old = count(sets.iter()) - 1;
        if old > spec.revision_history_limit {
            return violated(format!("{whose} keeps {old} old sets, and {} are enough", spec.revision_history_limit));
        }
        match status.progress() {
            "NewReplicaSetAvailable" => Ok(()),
            other => violated(format!("{whose} is complete, and says {other:?}")),
        }
    }

    fn check_stateful_set_at_rest(&self, set: &StatefulSet, now: Timestamp) -> Result<(), Violation> {
        let StatefulSet { metadata, spec, status } = set;
        let pods = || self.pods_of(&metadata.uid);
        let count_if = |wanted: &dyn Fn(&Pod) -> bool| count(pods().filter(|pod| wanted(pod)));
        let whose = format!("StatefulSet {}", metadata.name);
        let of = |revision: &str| count_if(&|pod| pod.metadata.deletion_timestamp.is_none() && pod.revision() == revision);
        compare(
            &whose,
            &[
                ("the generation", status.observed_generation, metadata.generation),
                ("its size", spec.replicas, count_if(&Pod::is_live)),
                ("pods that go", 0, count_if(&Pod::is_terminating)),
                ("replicas", status.replicas, count_if(&|pod| !pod.status.phase.is_empty())),
                ("readyReplicas", status.ready_replicas, count_if(&|pod| pod.status.phase == "Running" && pod.is_ready())),
                ("availableReplicas", status.available_replicas, count_if(&|pod| pod.is_available(spec.min_ready_seconds, now))),
                ("currentReplicas", status.current_replicas, of(&status.current_revision)),
                ("updatedReplicas", status.updated_replicas, of(&status.update_revision)),
            ],
        )?;
        if spec.updates_all() && status.updated_replicas < spec.replicas {
            return violated(format!("{whose} is at rest with {} of {} pods updated", status.updated_replicas, spec.replicas));
        }
        if let Some(ordinal) = spec.wanted().find(|ordinal| !pods().any(|pod| pod.ordinal() == Some(*ordinal) && pod.is_live())) {
            return violated(format!("{whose} is at rest without number {ordinal}"));
        }
        self.check_claims_at_rest(set)?;
        let is_kept = |claim: &String| self.claims.get(claim).is_some_and(|claim| claim.deletion_timestamp.is_none());
        match pods().flat_map(|pod| spec.claims_of(&pod.metadata.name)).find(|claim| !is_kept(claim)) {
            Some(claim) => violated(format!("{whose} is at rest without claim {claim}")),
            None => Ok(()),
        }
    }
}

/// Compares reported numbers with the existing ones.
fn compare(whose: &str, counts: &[(&str, i64, i64)]) -> Result<(), Violation> {
    match counts.iter().find(|(_, reported, there)| reported != there) {
        Some((what, reported, there)) => violated(format!("{whose}: {what} is said to be {reported}, and it is {there}")),
        None => Ok(()),
    }
}
