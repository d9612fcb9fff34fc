//! A Deployment's status, except the progress of its rollout.

use super::observe::Observed;
use berth_api::{
    Gate,
    apps::{DeploymentStatus, ReplicaSetStatus},
};
use berth_identity::Generation;
use jiff::Timestamp;
use k8s_openapi::{
    api::apps::v1::{DeploymentCondition, ReplicaSetCondition},
    apimachinery::pkg::apis::meta::v1::Time,
};

pub(super) const AVAILABLE: &str = "Available";
pub(super) const PROGRESSING: &str = "Progressing";
pub(super) const REPLICA_FAILURE: &str = "ReplicaFailure";

/// The conditions of a Deployment while a plan decides on them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conditions(Vec<DeploymentCondition>);

/// The new content of a condition.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// CamelCase.
    pub reason: &'static str,
    /// The message for users.
    pub message: String,
}

impl Conditions {
    /// The stored conditions.
    #[must_use]
    pub fn of(status: &DeploymentStatus) -> Self {
        Self(status.conditions.clone().unwrap_or_default())
    }

    /// The condition of a type.
    #[must_use]
    pub fn get(&self, type_: &str) -> Option<&DeploymentCondition> {
        self.0.iter().find(|condition| condition.type_ == type_)
    }

    /// The reason of the condition of a type; empty without one.
    #[must_use]
    pub fn reason(&self, type_: &str) -> &str {
        self.get(type_).and_then(|condition| condition.reason.as_deref()).unwrap_or_default()
    }

    /// Sets a condition. A condition with this status and reason does not change. A condition with this status keeps its transition time.
    pub fn set(&mut self, type_: &str, verdict: Verdict, now: Timestamp) {
        let current = self.get(type_).filter(|condition| condition.status == verdict.status);
        if current.is_some_and(|condition| condition.reason.as_deref() == Some(verdict.reason)) {
            return;
        }
        self.renew(type_, verdict, now);
    }

    /// As [`Conditions::set`], but renews the update time of a condition that is already the same.
    pub fn renew(&mut self, type_: &str, verdict: Verdict, now: Timestamp) {
        let current = self.get(type_).filter(|condition| condition.status == verdict.status);
        let last_transition_time = current.map_or(Some(Time(now)), |condition| condition.last_transition_time.clone());
        self.remove(type_);
        self.0.push(DeploymentCondition {
            type_: type_.to_owned(),
            status: verdict.status.to_owned(),
            reason: Some(verdict.reason.to_owned()),
            message: Some(verdict.message),
            last_update_time: Some(Time(now)),
            last_transition_time,
        });
    }

    /// Removes the condition of a type.
    pub fn remove(&mut self, type_: &str) {
        self.0.retain(|condition| condition.type_ != type_);
    }

    /// Replaces `ReplicaFailure` by a set's.
    fn replace_failure(&mut self, failure: Option<&ReplicaSetCondition>) {
        let Some(failure) = failure else { return self.remove(REPLICA_FAILURE) };
        if self.reason(REPLICA_FAILURE) == failure.reason.as_deref().unwrap_or_default()
            && self.get(REPLICA_FAILURE).is_some_and(|condition| condition.status == failure.status)
        {
            return;
        }
        self.remove(REPLICA_FAILURE);
        self.0.push(DeploymentCondition {
            type_: failure.type_.clone(),
            status: failure.status.clone(),
            reason: failure.reason.clone(),
            message: failure.message.clone(),
            last_update_time: failure.last_transition_time.clone(),
            last_transition_time: failure.last_transition_time.clone(),
        });
    }

    pub(super) fn into_stored(self) -> Option<Vec<DeploymentCondition>> {
        (!self.0.is_empty()).then_some(self.0)
    }
}

/// The status without conditions. `wanted` is the sum of the sets' sizes after this reconcile.
pub(super) fn counts(observed: &Observed<'_>, wanted: i64) -> DeploymentStatus {
    let sum = |count: fn(&ReplicaSetStatus) -> i32| observed.sets.iter().map(|set| count(&set.status)).fold(0, i32::saturating_add);
    let available_replicas = sum(|status| status.available_replicas);
    let unavailable = (wanted - i64::from(available_replicas)).max(0);
    let reports_terminating = observed.state.gates.enabled(Gate::DeploymentReplicaSetTerminatingReplicas);
    DeploymentStatus {
        observed_generation: observed.deployment().meta.generation,
        replicas: sum(|status| status.replicas).saturating_add(number(observed.left_behind().active)),
        updated_replicas: observed.new_set().map_or(0, |set| set.status.replicas),
        ready_replicas: sum(|status| status.ready_replicas),
        available_replicas,
        unavailable_replicas: i32::try_from(unavailable).unwrap_or(i32::MAX),
        terminating_replicas: terminating_sum(observed.sets.iter().map(|set| &set.status))
            .filter(|_| reports_terminating)
            .map(|sum| sum.saturating_add(number(observed.left_behind().terminating))),
        conditions: None,
        collision_count: observed.deployment().status.collision_count,
    }
}

/// Whether more has changed than growing counts: pods that become ready one after the other need no write each.
pub(super) fn is_news(stored: &DeploymentStatus, new: &DeploymentStatus) -> bool {
    let seen = |status: &DeploymentStatus| (status.observed_generation, status.collision_count);
    let verdicts = |status: &DeploymentStatus| -> Vec<_> {
        let conditions = status.conditions.iter().flatten();
        conditions.map(|condition| (condition.type_.clone(), condition.status.clone(), condition.reason.clone())).collect()
    };
    seen(stored) != seen(new) || verdicts(stored) != verdicts(new) || new.available_replicas < stored.available_replicas
}

/// A count in the wire's type.
fn number(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// The terminating pods of all sets. Unknown if a set that was observed does not report them. A set that was never observed has none.
#[must_use]
pub fn terminating_sum<'a>(sets: impl IntoIterator<Item = &'a ReplicaSetStatus>) -> Option<i32> {
    sets.into_iter().try_fold(0_i32, |sum, status| match (status.terminating_replicas, status.observed_generation) {
        (Some(terminating), _) => Some(sum.saturating_add(terminating)),
        (None, Generation(0)) => Some(sum),
        (None, _) => None,
    })
}

/// Sets the condition `Available`: whether as many pods are available as the strategy guarantees.
pub(super) fn set_available(conditions: &mut Conditions, observed: &Observed<'_>, status: &DeploymentStatus) {
    let size = observed.size;
    let verdict = if i64::from(status.available_replicas) >= size.desired - size.unavailable {
        Verdict { status: "True", reason: "MinimumReplicasAvailable", message: "Deployment has minimum availability.".to_owned() }
    } else {
        Verdict {
            status: "False",
            reason: "MinimumReplicasUnavailable",
            message: "Deployment does not have minimum availability.".to_owned(),
        }
    };
    conditions.set(AVAILABLE, verdict, observed.state.now);
}

/// Copies `ReplicaFailure` from the new set, otherwise from the first set that has it.
pub(super) fn set_replica_failure(conditions: &mut Conditions, observed: &Observed<'_>) {
    let failures = observed.new_set().into_iter().chain(observed.sets.iter().copied());
    let conditions_of = failures.flat_map(|set| set.status.conditions.iter().flatten());
    let failure = conditions_of.into_iter().find(|condition| condition.type_ == REPLICA_FAILURE);
    conditions.replace_failure(failure);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_grow_are_no_news() {
        let condition = |reason: &str, second: i64| DeploymentCondition {
            type_: AVAILABLE.to_owned(),
            status: "True".to_owned(),
            reason: Some(reason.to_owned()),
            last_update_time: Timestamp::from_second(second).ok().map(Time),
            ..DeploymentCondition::default()
        };
        let stored = DeploymentStatus {
            observed_generation: Generation(2),
            collision_count: Some(1),
            replicas: 3,
            available_replicas: 2,
            conditions: Some(vec![condition("a", 1)]),
            ..DeploymentStatus::default()
        };
        let same = || stored.clone();
        let old = [
            same(),
            DeploymentStatus { replicas: 4, available_replicas: 3, ..same() },
            DeploymentStatus { conditions: Some(vec![condition("a", 9)]), ..same() },
        ];
        assert!(!old.iter().any(|new| is_news(&stored, new)));
        let news = [
            DeploymentStatus { observed_generation: Generation(3), ..same() },
            DeploymentStatus { collision_count: Some(2), ..same() },
            DeploymentStatus { available_replicas: 1, ..same() },
            DeploymentStatus { conditions: Some(vec![condition("b", 1)]), ..same() },
            DeploymentStatus { conditions: None, ..same() },
        ];
        assert!(news.iter().all(|new| is_news(&stored, new)));
    }
}
