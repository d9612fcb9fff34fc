//! A ReplicaSet's status.

use super::ReplicaSetState;
use crate::view::ReplicaKind;
use berth_api::{Gate, apps::ReplicaSetStatus};
use jiff::Timestamp;
use k8s_openapi::{api::apps::v1::ReplicaSetCondition, apimachinery::pkg::apis::meta::v1::Time};

const REPLICA_FAILURE: &str = "ReplicaFailure";

/// The status that follows from the counts of `state`. `error` is what prevents the set from having its pods.
#[must_use]
pub fn status(state: &ReplicaSetState, error: Option<&str>) -> ReplicaSetStatus {
    let counts = &state.counts;
    let reports_terminating =
        state.set.kind == ReplicaKind::ReplicaSet && state.gates.enabled(Gate::DeploymentReplicaSetTerminatingReplicas);
    ReplicaSetStatus {
        replicas: number(counts.active),
        fully_labeled_replicas: number(counts.fully_labeled),
        ready_replicas: number(counts.ready),
        available_replicas: number(counts.available),
        terminating_replicas: reports_terminating.then(|| number(counts.terminating)),
        observed_generation: state.set.meta.generation,
        conditions: conditions(
            state.set.status.conditions.as_deref().unwrap_or_default(),
            error.map(|message| Failure { message, active: counts.active.into(), wanted: state.set.replicas.into() }),
            state.now,
        ),
    }
}

/// Whether another controller waits for the change. A Deployment waits for a different number of available pods or for fewer pods, and must
/// know all terminating pods. More pods alone do not matter to it, because it counts the size of the set. An observed size, or fewer
/// terminating pods, only lets it do more, so these changes can wait for the next ones.
pub(super) fn is_counted_on(stored: &ReplicaSetStatus, new: &ReplicaSetStatus) -> bool {
    let terminating = |status: &ReplicaSetStatus| status.terminating_replicas.unwrap_or(0);
    new.replicas < stored.replicas
        || new.available_replicas != stored.available_replicas
        || terminating(new) > terminating(stored)
        || new.conditions != stored.conditions
}

/// Why a set lacks pods.
#[derive(Clone, Copy, Debug)]
pub struct Failure<'a> {
    /// The error.
    pub message: &'a str,
    /// The number of its active pods.
    pub active: i64,
    /// `spec.replicas`.
    pub wanted: i64,
}

/// The conditions after a reconcile: `ReplicaFailure` is added on the first failure, kept while failures last, and removed otherwise.
#[must_use]
pub fn conditions(stored: &[ReplicaSetCondition], failure: Option<Failure<'_>>, now: Timestamp) -> Option<Vec<ReplicaSetCondition>> {
    let is_failure = |condition: &ReplicaSetCondition| condition.type_ == REPLICA_FAILURE;
    let mut conditions: Vec<_> = stored.iter().filter(|condition| failure.is_some() || !is_failure(condition)).cloned().collect();
    if let Some(failure) = failure
        && !conditions.iter().any(is_failure)
    {
        conditions.push(failure.condition(now));
    }
    (!conditions.is_empty()).then_some(conditions)
}

impl Failure<'_> {
    fn condition(&self, now: Timestamp) -> ReplicaSetCondition {
        let reason = match self.active.cmp(&self.wanted) {
            std::cmp::Ordering::Less => Some("FailedCreate".to_owned()),
            std::cmp::Ordering::Greater => Some("FailedDelete".to_owned()),
            std::cmp::Ordering::Equal => None,
        };
        ReplicaSetCondition {
            type_: REPLICA_FAILURE.to_owned(),
            status: "True".to_owned(),
            reason,
            message: Some(self.message.to_owned()),
            last_transition_time: Some(Time(now)),
        }
    }
}

/// A count in the wire's type. Counts of pods in one namespace are far below 2³¹.
fn number(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_identity::Generation;

    #[test]
    fn what_lets_others_do_more_may_come_later_and_what_binds_them_comes_at_once() {
        let status = |replicas, available_replicas, terminating| ReplicaSetStatus {
            replicas,
            available_replicas,
            terminating_replicas: Some(terminating),
            observed_generation: Generation(replicas.into()),
            ..ReplicaSetStatus::default()
        };
        let stored = status(3, 2, 1);
        let now = [status(2, 2, 1), status(3, 1, 1), status(3, 3, 1), status(3, 2, 2)];
        assert!(now.iter().all(|new| is_counted_on(&stored, new)), "fewer pods, other available ones, more that terminate");
        let soon = [status(4, 2, 1), status(3, 2, 0), ReplicaSetStatus { terminating_replicas: None, ..stored.clone() }];
        assert!(!soon.iter().any(|new| is_counted_on(&stored, new)), "more pods and another size that is seen, fewer that terminate");
    }

    #[test]
    fn conditions_of_others_stay() {
        let of = |type_: &str| ReplicaSetCondition { type_: type_.to_owned(), ..ReplicaSetCondition::default() };
        let types =
            |conditions: Option<Vec<ReplicaSetCondition>>| conditions.map(|all| all.into_iter().map(|one| one.type_).collect::<Vec<_>>());
        let stored = [of("Other"), of(REPLICA_FAILURE)];
        assert_eq!(types(conditions(&stored, None, Timestamp::UNIX_EPOCH)), Some(vec!["Other".to_owned()]));
        let failure = Failure { message: "m", active: 1, wanted: 2 };
        let both = Some(vec!["Other".to_owned(), REPLICA_FAILURE.to_owned()]);
        assert_eq!(types(conditions(&stored[..1], Some(failure), Timestamp::UNIX_EPOCH)), both);
    }
}
