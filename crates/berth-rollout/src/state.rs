//! How far a rollout is, read from the Deployment alone.

use berth_api::apps::DeploymentStatus;
use berth_workloads::view::{DeploymentView, PodReplacementPolicy};
use std::fmt;

/// The state of a Deployment's rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rollout {
    /// Under way.
    Waiting(Pending),
    /// Every pod has the newest template and is available, and none is left over.
    Done,
    /// Its progress deadline has passed, and it continues. The message of its condition.
    Failed(String),
}

/// What a rollout has not got to yet; `Display` gives kubectl's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pending {
    /// Its controller has not seen the newest spec.
    Observed,
    /// Pods of the new template are missing.
    Updated {
        /// There are.
        updated: i32,
        /// There should be.
        wanted: i32,
    },
    /// Pods of older templates are still wanted.
    OldGone {
        /// How many.
        old: i32,
    },
    /// New pods are not available.
    Available {
        /// Those that are.
        available: i32,
        /// Those of the new template.
        updated: i32,
    },
    /// A step of a progressive rollout waits, independent of the counts.
    Step,
    /// TerminationComplete: replaced pods are on their way out.
    Terminated {
        /// How many.
        terminating: i32,
    },
}

impl fmt::Display for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Observed => f.write_str("spec update to be observed"),
            Self::Updated { updated, wanted } => write!(f, "{updated} out of {wanted} new replicas have been updated"),
            Self::OldGone { old } => write!(f, "{old} old replicas are pending termination"),
            Self::Available { available, updated } => write!(f, "{available} of {updated} updated replicas are available"),
            Self::Step => f.write_str("a step is not over"),
            Self::Terminated { terminating } => write!(f, "{terminating} replaced replicas are still terminating"),
        }
    }
}

impl Pending {
    /// The sentence that `kubectl rollout status` prints.
    #[must_use]
    pub fn sentence(&self, name: &str) -> String {
        match self {
            Self::Observed => format!("Waiting for deployment {self}..."),
            _ => format!("Waiting for deployment \"{name}\" rollout to finish: {self}..."),
        }
    }
}

/// Reads the rollout's state from spec and status, in the order in which kubectl judges, and terminating pods where the policy counts them:
/// `terminating` is how many there are.
#[must_use]
pub fn of(deployment: &DeploymentView, terminating: i32) -> Rollout {
    let status = &deployment.status;
    let exceeded = status.conditions.iter().flatten().find(|c| c.reason.as_deref() == Some("ProgressDeadlineExceeded"));
    if status.observed_generation < deployment.meta.generation {
        Rollout::Waiting(Pending::Observed)
    } else if let Some(condition) = exceeded {
        Rollout::Failed(condition.message.clone().unwrap_or_default())
    } else {
        counts(deployment, terminating).map_or(Rollout::Done, Rollout::Waiting)
    }
}

fn counts(deployment: &DeploymentView, terminating: i32) -> Option<Pending> {
    let DeploymentStatus { replicas, updated_replicas: updated, available_replicas: available, .. } = deployment.status;
    let wanted = deployment.spec.replicas.unwrap_or(1);
    let counts_terminating =
        deployment.choices.policy == Ok(PodReplacementPolicy::TerminationComplete) && !was_complete(&deployment.status);
    if updated < wanted {
        Some(Pending::Updated { updated, wanted })
    } else if replicas > updated {
        Some(Pending::OldGone { old: replicas - updated })
    } else if available < updated {
        Some(Pending::Available { available, updated })
    } else if has_reason(&deployment.status, "StepWaiting") {
        Some(Pending::Step)
    } else if counts_terminating && terminating > 0 {
        Some(Pending::Terminated { terminating })
    } else {
        None
    }
}

/// Pods that terminate after the rollout was complete, by scaling down or by hand, do not make it incomplete again.
fn was_complete(status: &DeploymentStatus) -> bool {
    has_reason(status, "NewReplicaSetAvailable")
}

fn has_reason(status: &DeploymentStatus, reason: &str) -> bool {
    status.conditions.iter().flatten().any(|condition| condition.reason.as_deref() == Some(reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_identity::Revision;
    use berth_workloads::view::View;
    use serde_json::{Value, json};

    fn state(spec: &Value, status: &Value) -> Rollout {
        let object = json!({"metadata": {"name": "web", "generation": 2}, "spec": spec, "status": status});
        let deployment = DeploymentView::decode(object.to_string().as_bytes(), Revision(0)).expect("a Deployment");
        of(&deployment, deployment.status.terminating_replicas.unwrap_or_default())
    }

    fn check(spec: &Value, status: &Value, sentence: &str) {
        match state(spec, status) {
            Rollout::Waiting(pending) => assert_eq!(pending.sentence("web"), sentence),
            other => panic!("{other:?} is not {sentence}"),
        }
    }

    #[test]
    fn every_stage_of_a_rollout_is_reported_in_kubectls_words() {
        let three = json!({"replicas": 3});
        let finish = |rest: &str| format!("Waiting for deployment \"web\" rollout to finish: {rest}...");
        let status = |replicas: i32, updated: i32, available: i32| json!({"observedGeneration": 2, "replicas": replicas, "updatedReplicas": updated, "availableReplicas": available, "terminatingReplicas": 1});
        check(&three, &json!({"observedGeneration": 1}), "Waiting for deployment spec update to be observed...");
        check(&three, &status(3, 1, 3), &finish("1 out of 3 new replicas have been updated"));
        check(&three, &status(4, 3, 3), &finish("1 old replicas are pending termination"));
        check(&three, &status(3, 3, 2), &finish("2 of 3 updated replicas are available"));
        assert_eq!(state(&three, &status(3, 3, 3)), Rollout::Done);
    }

    #[test]
    fn termination_complete_waits_for_the_last_pod() {
        let mut status =
            json!({"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1, "terminatingReplicas": 2});
        let spec = json!({"replicas": 1, "podReplacementPolicy": "TerminationComplete"});
        let sentence = "Waiting for deployment \"web\" rollout to finish: 2 replaced replicas are still terminating...";
        check(&spec, &status, sentence);
        status["conditions"] = json!([{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}]);
        assert_eq!(state(&spec, &status), Rollout::Done, "scaled down later");
    }

    #[test]
    fn a_missed_deadline_is_a_failure() {
        let condition = json!({"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "timed out"});
        let state = state(&json!({}), &json!({"observedGeneration": 2, "conditions": [condition]}));
        assert_eq!(state, Rollout::Failed("timed out".to_owned()));
    }
}
