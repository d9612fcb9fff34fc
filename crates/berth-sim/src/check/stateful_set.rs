//! The order in which a StatefulSet's pods come and go, and what may run beside what.

use super::{Checker, Presence, Violation, violated};
use crate::facts::{GoesWith, Metadata, Pod, StatefulSet, StatefulSetSpec};
use berth_api::Gate;
use berth_store::env::Timestamp;
use jiff::SignedDuration;

/// The time after a change of the spec within which the controller must set the right owners on every claim: several failed calls with their backoff,
/// with the data of a stalled watch, after it was killed.
const CLAIMS_MAX: SignedDuration = SignedDuration::from_secs(30);

/// A StatefulSet, and what its controller may take it for.
#[derive(Debug)]
pub(super) struct Tracked {
    newest: StatefulSet,
    /// The specs that its controller may act on: those since the one that it was last seen to have observed.
    specs: Vec<StatefulSetSpec>,
    /// When the last of them was stored.
    changed_at: Timestamp,
    /// When pods were last lost by no controller's doing.
    lost_at: Option<Timestamp>,
}

impl Tracked {
    pub(super) fn newest(&self) -> &StatefulSet {
        &self.newest
    }

    /// The spec, where no other can be acted on.
    fn settled(&self) -> Option<&StatefulSetSpec> {
        if let [only] = &self.specs[..] { Some(only) } else { None }
    }
}

/// Whether a claim goes when its pod is scaled away.
fn is_marked(claim: &Metadata) -> bool {
    claim.annotations.get("berth.dev/when-scaled").is_some_and(|text| text == "Delete")
}

fn mark(claim: &Metadata) -> &'static str {
    if is_marked(claim) { "goes when scaled" } else { "" }
}

impl Checker {
    /// Whether no pod of a set was lost of late by no controller's doing.
    fn is_undisturbed(&self, set: &Tracked, now: Timestamp) -> bool {
        set.lost_at.is_none_or(|at| self.is_known(at, now))
    }

    pub(super) fn take_in_stateful_set(&mut self, set: StatefulSet, presence: Presence, now: Timestamp) -> String {
        let (text, uid) = (set.to_string(), set.metadata.uid.clone());
        if presence == Presence::Gone {
            self.stateful_sets.remove(&uid);
            return text;
        }
        let known = self.stateful_sets.remove(&uid);
        let (mut specs, mut changed_at, lost_at) =
            known.map_or((Vec::new(), now, None), |known| (known.specs, known.changed_at, known.lost_at));
        if specs.last().is_some_and(|last| *last != set.spec) {
            changed_at = now;
        }
        if set.status.observed_generation == set.metadata.generation {
            specs.clear();
        }
        if specs.last() != Some(&set.spec) {
            specs.push(set.spec.clone());
        }
        self.stateful_sets.insert(uid, Tracked { newest: set, specs, changed_at, lost_at });
        text
    }

    pub(super) fn take_in_claim(&mut self, claim: Metadata, presence: Presence) -> Result<String, Violation> {
        let (text, name) = (format!("owner={} {}", claim.controller(), mark(&claim)), claim.name.clone());
        let is_live = presence == Presence::There && claim.deletion_timestamp.is_none();
        let before = self.claims.remove(&name);
        let lost = before.filter(|before| !is_live && before.deletion_timestamp.is_none());
        if presence == Presence::There {
            self.claims.insert(name, claim);
        }
        lost.map_or(Ok(()), |lost| self.check_lost_claim(&lost))?;
        Ok(text)
    }

    /// A claim is deleted without a request for it. That is right where all its owners are deleted or terminating, as the garbage collector determines.
    /// It is also right where its ordinal is not desired, the policy is Delete, and there is no pod that could own it.
    fn check_lost_claim(&self, claim: &Metadata) -> Result<(), Violation> {
        let is_kept_by = |owner: &str| {
            let is_set = self.stateful_sets.get(owner).is_some_and(|set| set.newest.metadata.deletion_timestamp.is_none());
            is_set || self.all_pods().any(|pod| pod.metadata.uid == owner)
        };
        let is_collected = claim.owners().next().is_some() && !claim.owners().any(is_kept_by);
        if is_collected || self.stateful_sets.values().any(|set| self.may_delete(set, claim)) {
            return Ok(());
        }
        violated(format!("claim {} is deleted, and neither were its owners nor was its number unwanted", claim.name))
    }

    /// Whether the controller of a set may delete this claim by what it may take the set for.
    fn may_delete(&self, set: &Tracked, claim: &Metadata) -> bool {
        let name = &set.newest.metadata.name;
        let is_unwanted = |spec: &StatefulSetSpec| {
            let ordinal = spec.ordinal_of_claim(name, &claim.name);
            spec.claims_go_when_scaled() && ordinal.is_some_and(|ordinal| !spec.wanted().contains(&ordinal))
        };
        let uses = |pod: &Pod| claim.name.strip_suffix(&*pod.metadata.name).is_some_and(|rest| rest.ends_with('-'));
        is_marked(claim) && set.specs.iter().any(is_unwanted) && !self.all_pods().any(uses)
    }

    /// Independent of the pods: each claim of a stable set has the owners that the policy requires. If the policy deletes claims, none is left of an
    /// ordinal that was scaled away.
    pub(super) fn check_claims_at_rest(&self, set: &StatefulSet) -> Result<(), Violation> {
        let StatefulSet { metadata, spec, .. } = set;
        for claim in self.claims.values().filter(|claim| claim.deletion_timestamp.is_none()) {
            let Some(ordinal) = spec.ordinal_of_claim(&metadata.name, &claim.name) else { continue };
            let is_wanted = spec.wanted().contains(&ordinal);
            let owners: Vec<&str> = claim.owners().collect();
            let wanted: Vec<&str> = spec.claims_go_when_deleted().then_some(metadata.uid.as_str()).into_iter().collect();
            if owners != wanted {
                return violated(format!("claim {} has the owners {owners:?} at rest instead of {wanted:?}", claim.name));
            }
            if is_marked(claim) != (spec.claims_go_when_scaled() && is_wanted) {
                return violated(format!("claim {} is at rest, wanted={is_wanted}, {}: {set}", claim.name, mark(claim)));
            }
        }
        Ok(())
    }

    /// Handles the deletion of a pod of a set: the present policy of the set decides whether its claims are deleted with it. A desired claim is never
    /// lost, and an undesired one is deleted if it should be.
    pub(super) fn check_claims(&self, pod: &Pod, now: Timestamp) -> Result<(), Violation> {
        let metadata = &pod.metadata;
        let Some((set, ordinal)) = self.stateful_sets.get(metadata.controller()).zip(pod.ordinal()) else { return Ok(()) };
        // The claims of a terminating set belong to the garbage collector, which may have been requested to orphan them.
        if set.newest.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let is_settled = |since: Timestamp| now.duration_since(since) > CLAIMS_MAX;
        if !is_settled(set.changed_at) || !metadata.creation_timestamp.is_some_and(is_settled) {
            return Ok(());
        }
        let wanted = set.newest.spec.claims_go_with(ordinal);
        // What an adopted pod has besides is no claim of this set's.
        let claims = set.newest.spec.claims_of(&metadata.name).filter_map(|name| self.claims.get(&name));
        for claim in claims.filter(|claim| claim.deletion_timestamp.is_none()) {
            let found = match (claim.is_owned_by(&metadata.uid), claim.is_owned_by(&set.newest.metadata.uid)) {
                (true, _) => GoesWith::Pod,
                (false, true) => GoesWith::Set,
                (false, false) => GoesWith::NoOwner,
            };
            if found != wanted {
                let name = &claim.name;
                return violated(format!("pod {} is gone, and claim {name} goes with {found:?} instead of {wanted:?}", metadata.name));
            }
        }
        Ok(())
    }

    /// Pods of this set were lost by no controller's doing.
    pub(super) fn note_loss(&mut self, set: &str, now: Timestamp) {
        if let Some(set) = self.stateful_sets.get_mut(set) {
            set.lost_at = Some(now);
        }
    }

    /// A member of a set has changed; `pod` is not among the known ones, and its former version neither.
    pub(super) fn check_member(&self, before: Option<&Pod>, pod: &Pod, now: Timestamp) -> Result<(), Violation> {
        let Some(set) = self.stateful_sets.get(pod.metadata.controller()) else { return Ok(()) };
        let Some(ordinal) = pod.ordinal() else { return Ok(()) };
        match before {
            None => self.check_creation(set, pod, ordinal, now),
            Some(before) if before.is_live() && pod.is_terminating() && !self.deleted_by_others.contains(&pod.metadata.uid) => {
                self.check_deletion(set, before, ordinal, now)
            }
            Some(_) => Ok(()),
        }
    }

    fn check_creation(&self, set: &Tracked, pod: &Pod, ordinal: i64, now: Timestamp) -> Result<(), Violation> {
        let name = &pod.metadata.name;
        if let Some(other) = self.members(pod).find(|other| other.ordinal() == Some(ordinal)) {
            return violated(format!("pod {name} is created while {} is there", other.metadata.name));
        }
        if !set.specs.iter().any(|spec| spec.wanted().contains(&ordinal)) {
            return violated(format!("pod {name} is created, and its number is not wanted"));
        }
        let Some(spec) = set.settled() else { return Ok(()) };
        // Only the set's controller sets the owners of a claim, so it knows them.
        for claim in spec.claims_of(name).filter_map(|name| self.claims.get(&name)) {
            for (kind, uid) in [("Pod", &pod.metadata.uid), ("StatefulSet", &set.newest.metadata.uid)] {
                if claim.goes_with_another(kind, uid) {
                    return violated(format!("pod {name} is created, and claim {} goes with the {kind} before it", claim.name));
                }
            }
        }
        let recreates = spec.update_strategy.type_ == "Recreate" && self.gates.enabled(Gate::StatefulSetRecreateStrategy);
        if let Some(other) = self.members(pod).filter(|_| recreates).find(|other| other.revision() != pod.revision()) {
            return violated(format!("pod {name} is created while {} of another revision is there", other.metadata.name));
        }
        let status = &set.newest.status;
        let is_kept = spec.update_from().is_some_and(|from| ordinal < from) && spec.update_strategy.type_ == "RollingUpdate";
        if is_kept && pod.revision() == status.update_revision && status.current_revision != status.update_revision {
            return violated(format!("pod {name} is below the partition and gets the update revision"));
        }
        // For a terminating set, the garbage collector may have been requested to orphan the pods, and that may not be known yet.
        let is_going = set.newest.metadata.deletion_timestamp.is_some();
        if spec.is_ordered() && !is_going && self.is_undisturbed(set, now) {
            return self.check_predecessors(spec, pod, ordinal, now);
        }
        Ok(())
    }

    fn check_predecessors(&self, spec: &StatefulSetSpec, pod: &Pod, ordinal: i64, now: Timestamp) -> Result<(), Violation> {
        match (spec.wanted().start..ordinal).find(|lower| !self.is_available(spec, pod, *lower, now)) {
            Some(lower) => violated(format!("pod {} is created before number {lower} is available", pod.metadata.name)),
            None => Ok(()),
        }
    }

    fn check_deletion(&self, set: &Tracked, pod: &Pod, ordinal: i64, now: Timestamp) -> Result<(), Violation> {
        let Some(spec) = set.settled() else { return Ok(()) };
        let (name, update) = (&pod.metadata.name, &set.newest.status.update_revision);
        let recreates = spec.update_strategy.type_ == "Recreate" && self.gates.enabled(Gate::StatefulSetRecreateStrategy);
        let is_old = pod.revision() != update;
        if recreates && is_old {
            return Ok(());
        }
        if !spec.wanted().contains(&ordinal) {
            return self.check_condemned(spec, pod, ordinal);
        }
        if !is_old {
            return violated(format!("pod {name} is of the update revision and is deleted"));
        }
        if spec.update_strategy.type_ == "OnDelete" {
            return violated(format!("pod {name} is deleted, and the strategy is OnDelete"));
        }
        if spec.update_from().is_some_and(|from| ordinal < from) {
            return violated(format!("pod {name} is below the partition and is deleted"));
        }
        let is_repair = set.newest.is_repaired() && !pod.is_available(0, now);
        if is_repair || !self.is_undisturbed(set, now) {
            return Ok(());
        }
        self.check_budget(spec, pod, ordinal, now)
    }

    /// Pods that are no longer wanted go one at a time, highest number first, where order is asked for.
    fn check_condemned(&self, spec: &StatefulSetSpec, pod: &Pod, ordinal: i64) -> Result<(), Violation> {
        let is_before = |other: &&Pod| other.ordinal().is_some_and(|higher| higher > ordinal && !spec.wanted().contains(&higher));
        match self.members(pod).filter(|_| spec.is_ordered()).find(is_before) {
            Some(higher) => violated(format!("pod {} is deleted before {}", pod.metadata.name, higher.metadata.name)),
            None => Ok(()),
        }
    }

    /// A rolling update makes no more pods unavailable than it may.
    fn check_budget(&self, spec: &StatefulSetSpec, pod: &Pod, ordinal: i64, now: Timestamp) -> Result<(), Violation> {
        let name = &pod.metadata.name;
        let is_unavailable = |number: &i64| !self.is_available(spec, pod, *number, now);
        if !self.gates.enabled(Gate::MaxUnavailableStatefulSet) {
            return match (ordinal + 1..spec.wanted().end).find(is_unavailable) {
                Some(higher) => violated(format!("pod {name} is deleted for the update before number {higher} is available")),
                None => Ok(()),
            };
        }
        // What is not available already costs nothing where order does not matter (kubernetes#137409).
        if !spec.is_ordered() && !pod.is_available(spec.min_ready_seconds, now) {
            return Ok(());
        }
        let others = spec.wanted().filter(|number| *number != ordinal).filter(is_unavailable).count();
        if i64::try_from(others).is_ok_and(|others| others < spec.max_unavailable()) {
            return Ok(());
        }
        violated(format!("pod {name} is deleted for the update while {others} others are not available"))
    }

    /// The other pods of a pod's set.
    fn members(&self, pod: &Pod) -> impl Iterator<Item = &Pod> {
        self.pods_of(pod.metadata.controller()).filter(|other| other.metadata.uid != pod.metadata.uid)
    }

    fn is_available(&self, spec: &StatefulSetSpec, of: &Pod, ordinal: i64, now: Timestamp) -> bool {
        self.members(of).any(|other| other.ordinal() == Some(ordinal) && other.is_available(spec.min_ready_seconds, now))
    }
}
