//! How far a rollout is, read from the object alone.

use berth_api::apps::{Deployment, DeploymentStatus};

/// Where a Deployment's rollout stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rollout {
    /// Under way; a sentence for people.
    Waiting(String),
    /// Every pod has the newest template and is available, and none is left over.
    Done,
    /// Its progress deadline is over; it goes on trying.
    Failed(String),
}

/// Reads the rollout's state from spec and status, in the order in which kubectl judges, terminating pods included.
pub(crate) fn state(deployment: &Deployment) -> Rollout {
    let (wanted, status) = (deployment.spec.replicas.unwrap_or(1), &deployment.status);
    let generation = deployment.metadata.generation.unwrap_or_default();
    let exceeded = status.conditions.iter().flatten().find(|c| c.reason.as_deref() == Some("ProgressDeadlineExceeded"));
    if status.observed_generation < generation {
        Rollout::Waiting("not observed yet".to_owned())
    } else if let Some(condition) = exceeded {
        Rollout::Failed(condition.message.clone().unwrap_or_default())
    } else {
        counts(deployment, wanted, status)
    }
}

fn counts(deployment: &Deployment, wanted: i32, status: &DeploymentStatus) -> Rollout {
    let old = status.replicas - status.updated_replicas;
    let terminating = status.terminating_replicas.unwrap_or_default();
    let waits_for_terminating = deployment.spec.pod_replacement_policy.as_deref() == Some("TerminationComplete");
    if status.updated_replicas < wanted {
        Rollout::Waiting(format!("{} of {wanted} pods updated, {} available", status.updated_replicas, status.available_replicas))
    } else if old > 0 {
        Rollout::Waiting(format!("{old} old pods to go"))
    } else if status.available_replicas < wanted {
        Rollout::Waiting(format!("{} of {wanted} pods available", status.available_replicas))
    } else if waits_for_terminating && terminating > 0 {
        Rollout::Waiting(format!("{terminating} pods still terminating"))
    } else {
        Rollout::Done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn check(spec: Value, status: Value, expected: &Rollout) {
        let object = json!({"metadata": {"name": "web", "generation": 2}, "spec": spec, "status": status});
        let deployment: Deployment = serde_json::from_value(object).expect("a Deployment");
        assert_eq!(state(&deployment), *expected);
    }

    fn waiting(text: &str) -> Rollout {
        Rollout::Waiting(text.to_owned())
    }

    #[test]
    fn every_stage_of_a_rollout_is_told() {
        let three = json!({"replicas": 3});
        check(three.clone(), json!({"observedGeneration": 1}), &waiting("not observed yet"));
        check(
            three.clone(),
            json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 1, "availableReplicas": 3}),
            &waiting("1 of 3 pods updated, 3 available"),
        );
        check(
            three.clone(),
            json!({"observedGeneration": 2, "replicas": 4, "updatedReplicas": 3, "availableReplicas": 3}),
            &waiting("1 old pods to go"),
        );
        check(
            three.clone(),
            json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 2}),
            &waiting("2 of 3 pods available"),
        );
        check(
            three,
            json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3, "terminatingReplicas": 1}),
            &Rollout::Done,
        );
    }

    #[test]
    fn termination_complete_waits_for_the_last_pod() {
        let spec = json!({"replicas": 1, "podReplacementPolicy": "TerminationComplete"});
        let status =
            json!({"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1, "terminatingReplicas": 2});
        check(spec, status, &waiting("2 pods still terminating"));
    }

    #[test]
    fn a_missed_deadline_is_a_failure() {
        let condition = json!({"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "timed out"});
        check(json!({}), json!({"observedGeneration": 2, "conditions": [condition]}), &Rollout::Failed("timed out".to_owned()));
    }
}
