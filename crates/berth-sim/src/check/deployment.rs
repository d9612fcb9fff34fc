//! The limits of a Deployment's pods, whatever its ReplicaSets.

use super::{Checker, Uid, Violation, count, violated};
use crate::facts::{Deployment, Metadata, Pod, Recreation, ReplicaSet};
use berth_api::Gate;
use berth_store::env::Timestamp;

/// What a Deployment is held to, and what it had at the last look.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bounds {
    /// `spec.replicas`.
    wanted: i64,
    /// Whether that was another since all was last within the limits.
    is_scaled: bool,
    /// `spec.minReadySeconds`.
    min_ready_seconds: i64,
    ceiling: i64,
    /// The limit for the pods in the stored status, which follows later than the pods themselves.
    ceiling_reported: i64,
    /// The value to which that limit may fall, and since when all reported numbers have been within it: the writer of a status may have read an older
    /// state.
    reported_within: Option<(i64, Timestamp)>,
    /// Under TerminationComplete, of the pods with those that leave; `None` until the controller has seen that policy.
    ceiling_with_leaving: Option<i64>,
    floor: i64,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    live: i64,
    /// Of those, the ones whose set is gone.
    left: i64,
    /// Pods that stay and have no owner any more: a Deployment that selects them reports them too.
    strangers: i64,
    /// Pods that stay, and whose creation was on its way when their set was deleted: no limit applies to them, but statuses report them.
    strays: i64,
    /// The number of pods in the stored status.
    reported: i64,
    /// The number of pods in the stored statuses of the sets.
    reported_by_sets: i64,
    available: i64,
    /// The sum of the sets' sizes.
    wanted: i64,
    /// The size that the sets may reach, or still have, with their terminating pods. A set whose controller has not seen its new size may reach the one
    /// before: it replaces a pod that is lost at that moment. Pods that terminate without their controller do not count: their sets replace them at
    /// once. Where the Deployment's policy counts terminating pods, all count, and a set with them has no more than its size.
    committed: i64,
    /// Whether the Deployment's policy counts terminating pods.
    all_keep_their_place: bool,
}

impl Checker {
    pub(super) fn check_deployment(&mut self, uid: &str, now: Timestamp) -> Result<(), Violation> {
        let Some(deployment) = self.deployments.get(uid) else { return Ok(()) };
        let after = self.counts(deployment, now);
        let (wanted, min_ready_seconds) = (deployment.spec.replicas, deployment.spec.min_ready_seconds);
        // Who looks first may have seen pods of a former Deployment that have gone since.
        let ceiling = deployment.max();
        let ceiling_reported = ceiling.max(after.strangers + self.gone_of_late(now));
        let first = Bounds {
            wanted,
            is_scaled: false,
            min_ready_seconds,
            ceiling,
            ceiling_reported,
            reported_within: None,
            ceiling_with_leaving: None,
            floor: 0,
            counts: after,
        };
        let known = self.deployment_bounds.get(uid).copied().unwrap_or(first);
        // A scale-down in the middle of a rollout shrinks every ReplicaSet in proportion to its size, whatever of it is available
        // (upstream's proportional scaling): it promises nothing until the next complete state. While a rollout is paused, or with another size, less surge is a scale-down too.
        let is_scaled = known.is_scaled || wanted != known.wanted;
        let has_less_surge = (deployment.spec.paused || is_scaled) && deployment.max() < known.ceiling;
        let shrinks = (wanted < known.wanted || has_less_surge) && !deployment.is_rolled_out();
        let floor = if shrinks || min_ready_seconds != known.min_ready_seconds { 0 } else { known.floor };
        let reported = match known.reported_within {
            Some((most, since)) if self.is_known(since, now) => most,
            _ => known.ceiling_reported,
        };
        let mut bounds = Bounds {
            wanted,
            is_scaled,
            min_ready_seconds,
            ceiling: known.ceiling.max(deployment.max()),
            ceiling_reported: reported.max(deployment.max()).max(after.live + after.strangers + after.strays),
            reported_within: None,
            ceiling_with_leaving: known.ceiling_with_leaving.map(|most| most.max(deployment.max())),
            floor: floor.min(deployment.min_available()),
            counts: after,
        };
        if deployment.metadata.deletion_timestamp.is_none() {
            check_counts(deployment, known.counts, after, &bounds)?;
        }
        let counted = self.counts_leaving(deployment);
        if self.is_observed(deployment) {
            bounds.ceiling_with_leaving = counted.then(|| deployment.max());
        }
        if !counted {
            bounds.ceiling_with_leaving = None;
        }
        if self.is_settled(deployment, after) {
            (bounds.ceiling, bounds.is_scaled) = (deployment.max(), false);
            let most = deployment.max();
            if after.reported.max(after.reported_by_sets) <= most && after.strangers == 0 {
                bounds.reported_within = known.reported_within.filter(|(known, _)| *known == most).or(Some((most, now)));
            }
            // Only a rollout that starts from a complete one promises to keep pods available. The status may not show yet that a pod was just lost.
            let is_complete = deployment.is_rolled_out() && wanted <= after.available;
            bounds.floor = if is_complete { deployment.min_available() } else { bounds.floor };
        }
        self.deployment_bounds.insert(uid.to_owned(), bounds);
        Ok(())
    }

    /// Pods of this Deployment were lost by no controller's doing.
    pub(super) fn promise_nothing(&mut self, deployment: &str) {
        if let Some(bounds) = self.deployment_bounds.get_mut(deployment) {
            bounds.floor = 0;
        }
    }

    /// This Deployment has adopted a set with all its pods: what there is may be more than it would have made.
    pub(super) fn take_over(&mut self, deployment: &str, now: Timestamp) {
        let Some(counts) = self.deployments.get(deployment).map(|deployment| self.counts(deployment, now)) else { return };
        let Some(bounds) = self.deployment_bounds.get_mut(deployment) else { return };
        let most = bounds.ceiling.max(counts.live).max(counts.wanted);
        let reported = bounds.ceiling_reported.max(counts.live).max(counts.reported_by_sets);
        *bounds = Bounds { ceiling: most, ceiling_reported: reported, ceiling_with_leaving: None, floor: 0, counts, ..*bounds };
    }

    /// Under TerminationComplete no rollout is complete while pods terminate. Pods that terminate later do not revert that.
    pub(super) fn check_completion(&self, deployment: &Deployment) -> Result<(), Violation> {
        let says = |deployment: &Deployment| deployment.status.progress() == "NewReplicaSetAvailable";
        let is_new = says(deployment) && !self.deployments.get(&deployment.metadata.uid).is_some_and(says);
        let going = deployment.status.terminating_replicas.unwrap_or(0);
        if is_new && deployment.is_observed() && self.counts_leaving(deployment) && going > 0 {
            return violated(format!("Deployment {} is said to be complete while {going} pods go", deployment.metadata.name));
        }
        Ok(())
    }

    /// Whether terminating pods count, by the gates that the controllers honor.
    fn counts_leaving(&self, deployment: &Deployment) -> bool {
        deployment.waits_for_termination() && self.gates.enabled(Gate::DeploymentPodReplacementPolicy)
    }

    /// A paused Deployment begins no rollout.
    pub(super) fn check_pause(&self, set: &ReplicaSet) -> Result<(), Violation> {
        let deployment = self.deployments.get(set.metadata.controller()).filter(|known| known.spec.paused && known.is_observed());
        match deployment.filter(|_| !self.sets.contains_key(&set.metadata.uid)) {
            Some(paused) => {
                violated(format!("ReplicaSet {} is made while Deployment {} is paused", set.metadata.name, paused.metadata.name))
            }
            None => Ok(()),
        }
    }

    /// While a Deployment is paused under which pods that leave keep their place, or that has steps, only another size gives a set another one: the room
    /// that pods leave does not finish the rollout.
    pub(super) fn check_paused_sizes(&self, set: &ReplicaSet) -> Result<(), Violation> {
        let Some(deployment) = self.deployments.get(set.metadata.controller()).filter(|known| known.spec.paused && known.is_observed())
        else {
            return Ok(());
        };
        let Some(before) = self.sets.get(&set.metadata.uid).map(|known| known.spec.replicas) else { return Ok(()) };
        let holds = self.counts_leaving(deployment) || deployment.has_steps();
        if !holds || before == set.spec.replicas || deployment.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let own = || self.sets.values().filter(|known| known.metadata.controller() == deployment.metadata.uid);
        let has_active = own().any(|known| known.spec.replicas > 0);
        if own().any(|known| (known.spec.replicas > 0 || !has_active) && known.waits_for_scaling(deployment.spec.replicas)) {
            return Ok(());
        }
        let (name, has) = (&set.metadata.name, set.spec.replicas);
        violated(format!("ReplicaSet {name} goes from {before} to {has} while its Deployment is paused, and has no other size"))
    }

    /// At a step the new set has no more than its share, as long as there is one that was complete and can have the rest.
    pub(super) fn check_share(&self, set: &ReplicaSet) -> Result<(), Violation> {
        let known = self.deployments.get(set.metadata.controller());
        let Some(deployment) = known.filter(|known| known.is_observed() && known.is_rolling()) else { return Ok(()) };
        let before = self.sets.get(&set.metadata.uid).map_or(0, |known| known.spec.replicas);
        let others = || {
            let own = self.sets.values().filter(|known| known.metadata.controller() == deployment.metadata.uid);
            own.filter(|known| known.metadata.uid != set.metadata.uid)
        };
        let is_newest = others().all(|other| other.revision() < set.revision());
        let has_proven = others().any(|other| other.was_complete() && other.metadata.deletion_timestamp.is_none());
        let most = set.step().filter(|_| is_newest && has_proven && !set.was_complete()).and_then(|step| deployment.share_at(step));
        match most.filter(|most| set.spec.replicas > before && set.spec.replicas > *most) {
            Some(most) => {
                let (name, has) = (&set.metadata.name, set.spec.replicas);
                violated(format!("ReplicaSet {name} goes from {before} to {has}, at its step at most {most} are allowed"))
            }
            None => Ok(()),
        }
    }

    /// Where pods that leave keep their place, a set is not cleaned up before its own are gone: with it their number would go.
    pub(super) fn check_cleaned_up(&self, set: &ReplicaSet) -> Result<(), Violation> {
        let Metadata { name, uid, .. } = &set.metadata;
        let deployment = self.deployments.get(set.metadata.controller()).filter(|known| known.metadata.deletion_timestamp.is_none());
        let bounds = deployment.and_then(|deployment| self.deployment_bounds.get(&deployment.metadata.uid));
        let counts_leaving = bounds.is_some_and(|bounds| bounds.ceiling_with_leaving.is_some());
        let going = count(self.pods_of(uid).filter(|pod| pod.is_terminating()));
        if counts_leaving && going > 0 && !self.deleted_by_others.contains(uid) {
            return violated(format!("ReplicaSet {name} is cleaned up while {going} of its pods go"));
        }
        Ok(())
    }

    /// Under Recreate a set gets its first pods when those of the others terminate, or are deleted, as far as any controller can know. A paused
    /// Deployment rolls nothing out: if it has lost its set, it gives its size to the latest remaining one, as upstream does.
    pub(super) fn check_recreation(&self, set: &ReplicaSet, now: Timestamp) -> Result<(), Violation> {
        let before = self.sets.get(&set.metadata.uid).map_or(0, |known| known.spec.replicas);
        let Some(deployment) = self.deployments.get(set.metadata.controller()) else { return Ok(()) };
        let Some(recreation) =
            deployment.recreates().filter(|_| before == 0 && set.spec.replicas > 0 && deployment.is_observed() && !deployment.spec.paused)
        else {
            return Ok(());
        };
        let is_in_the_way = |pod: &&Pod| pod.is_live() || (recreation == Recreation::WhenOldPodsAreGone && pod.is_terminating());
        let others =
            self.deployment_of_set.iter().filter(|(other, owner)| **owner == deployment.metadata.uid && **other != set.metadata.uid);
        let is_seen = |pod: &&Pod| !self.strays.contains(&pod.metadata.uid) || self.is_old(pod, now);
        match others.flat_map(|(other, _)| self.pods_of(other)).filter(is_seen).find(is_in_the_way) {
            Some(pod) => {
                let (set, pod) = (&set.metadata.name, &pod.metadata.name);
                violated(format!("ReplicaSet {set} is to have pods, while pod {pod} of another is there and the strategy is Recreate"))
            }
            None => Ok(()),
        }
    }

    fn counts(&self, deployment: &Deployment, now: Timestamp) -> Counts {
        let ours = self.deployment_of_set.iter().filter(|(_, owner)| **owner == deployment.metadata.uid);
        let bounded = |pod: &&Pod| !self.strays.contains(&pod.metadata.uid);
        let pods: Vec<&Pod> = ours.clone().flat_map(|(set, _)| self.pods_of(set)).filter(bounded).collect();
        let strays = count(ours.clone().flat_map(|(set, _)| self.pods_of(set)).filter(|pod| pod.is_live() && !bounded(pod)));
        let gone = ours.filter(|(set, _)| !self.sets.contains_key(*set));
        let left_with_leaving = count(gone.clone().flat_map(|(set, _)| self.pods_of(set)).filter(bounded).filter(|pod| !pod.is_finished()));
        let left = count(gone.flat_map(|(set, _)| self.pods_of(set)).filter(bounded).filter(|pod| pod.is_live()));
        let count_if = |wanted: &dyn Fn(&Pod) -> bool| count(pods.iter().filter(|pod| wanted(pod)));
        let sets: Vec<&ReplicaSet> = self.sets.values().filter(|set| set.metadata.controller() == deployment.metadata.uid).collect();
        let unseen = |set: &ReplicaSet| self.unseen.get(&set.metadata.uid).copied().unwrap_or(0);
        let most = |set: &ReplicaSet, has: i64| set.spec.replicas.max(has).max(unseen(set));
        Counts {
            live: count_if(&Pod::is_live),
            left,
            strangers: count(self.all_pods().filter(|pod| pod.is_live() && self.is_stranger(pod))),
            strays,
            reported: deployment.status.replicas,
            reported_by_sets: sets.iter().map(|set| set.status.replicas).sum(),
            available: count_if(&|pod| pod.is_available(deployment.spec.min_ready_seconds, now)),
            wanted: sets.iter().map(|set| set.spec.replicas).sum(),
            all_keep_their_place: deployment.waits_for_deleted(),
            committed: if deployment.waits_for_deleted() {
                sets.iter().map(|set| most(set, self.there_of(&set.metadata.uid))).sum::<i64>() + left_with_leaving
            } else {
                sets.iter().map(|set| most(set, self.live_of(&set.metadata.uid))).sum::<i64>()
                    + left
                    + count_if(&|pod| pod.is_terminating() && !self.deleted_by_others.contains(&pod.metadata.uid))
            },
        }
    }

    /// The Deployments whose status may count a pod: its own. If that is deleted, all Deployments that may select it and have seen it while it stayed.
    pub(super) fn deployments_counting(&self, pod: &Pod) -> Vec<Uid> {
        if self.is_stranger(pod) {
            self.deployments.keys().cloned().collect()
        } else {
            self.deployment_of_set.get(pod.metadata.controller()).cloned().into_iter().collect()
        }
    }

    /// Pods that were deleted so recently that some controller may not know it yet.
    fn gone_of_late(&self, now: Timestamp) -> i64 {
        count(self.stopped_staying.iter().filter(|at| !self.is_known(**at, now)))
    }

    /// Whether a pod's set was of a Deployment that is gone.
    fn is_stranger(&self, pod: &Pod) -> bool {
        let deployment = self.deployment_of_set.get(pod.metadata.controller());
        deployment.is_none_or(|deployment| !self.deployments.contains_key(deployment))
    }

    /// Pods of a set that hold their place.
    fn there_of(&self, set: &str) -> i64 {
        count(self.pods_of(set).filter(|pod| !pod.is_finished()))
    }

    /// Every controller involved has seen the newest generations.
    fn is_observed(&self, deployment: &Deployment) -> bool {
        let mut sets = self.sets.values().filter(|set| set.metadata.controller() == deployment.metadata.uid);
        deployment.is_observed() && sets.all(|set| set.status.observed_generation == set.metadata.generation)
    }

    /// Every controller involved has seen the newest generations, the present limits are kept, and no set was lost whose pods still exist.
    fn is_settled(&self, deployment: &Deployment, counts: Counts) -> bool {
        let within = counts.live.max(counts.wanted) <= deployment.max() && counts.available >= deployment.min_available();
        self.is_observed(deployment) && within && counts.left == 0
    }
}

/// What one step may not do.
fn check_counts(deployment: &Deployment, before: Counts, after: Counts, bounds: &Bounds) -> Result<(), Violation> {
    check_rise(deployment, "the sizes of all ReplicaSets", (before.wanted, after.wanted), bounds.ceiling)?;
    // A change of the policy itself has created no pods.
    if let Some(most) = bounds.ceiling_with_leaving.filter(|_| before.all_keep_their_place == after.all_keep_their_place) {
        let what = "what pods may come to with those that leave";
        check_rise(deployment, what, (before.committed, after.committed), most)?;
    }
    check_rise(deployment, "pods that stay", (before.live, after.live), bounds.ceiling)?;
    check_rise(deployment, "pods that its status tells of", (before.reported, after.reported), bounds.ceiling_reported)?;
    if !deployment.is_rolling() {
        return Ok(());
    }
    // Pods that no status reports as available may be considered unhealthy, and these are deleted first.
    let held = before.available.min(deployment.status.available_replicas) >= bounds.floor;
    if held && after.available < bounds.floor {
        let (name, had, has, least) = (&deployment.metadata.name, before.available, after.available, bounds.floor);
        return violated(format!("Deployment {name}: available pods went from {had} to {has}, at least {least} must stay"));
    }
    Ok(())
}

fn check_rise(deployment: &Deployment, what: &str, (had, has): (i64, i64), most: i64) -> Result<(), Violation> {
    if has > had && has > most {
        let name = &deployment.metadata.name;
        return violated(format!("Deployment {name}: {what} went from {had} to {has}, at most {most} are allowed"));
    }
    Ok(())
}
