//! How far a rollout is, in kubectl's words, and what it waits for.

use super::{
    error::Error,
    state::{self, Rollout},
    target::Found,
    waits::Observed,
};
use berth_workloads::{Wait, deployment::annotations, view::DeploymentView};
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetStatus};
use serde::Serialize;

/// One look at a workload.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Look {
    /// Of Deployments: the number of the rollout.
    pub(super) revision: Option<i64>,
    pub(super) standing: Standing,
    pub(super) replicas: Replicas,
    pub(super) waits: Vec<Wait>,
}

/// `observed` is what its sets and pods say besides.
pub(super) fn of_deployment(deployment: &DeploymentView, observed: Observed) -> Look {
    let terminating = deployment.status.terminating_replicas.unwrap_or(observed.terminating);
    let name = &deployment.meta.name;
    let (state, message) = match state::of(deployment, terminating) {
        Rollout::Waiting(pending) => (Stage::Waiting, pending.sentence(name)),
        Rollout::Done => (Stage::Complete, format!("deployment \"{name}\" successfully rolled out")),
        Rollout::Failed(_) => (Stage::Failed, format!("deployment \"{name}\" exceeded its progress deadline")),
    };
    let waits = if state == Stage::Complete { Vec::new() } else { observed.waits };
    let status = &deployment.status;
    let replicas = Replicas {
        wanted: deployment.spec.replicas.unwrap_or(1),
        total: status.replicas,
        updated: status.updated_replicas,
        available: status.available_replicas,
        terminating: Some(terminating),
    };
    Look { revision: annotations::revision(&deployment.annotations), standing: Standing { state, message }, replicas, waits }
}

/// What kubectl says of a StatefulSet.
///
/// # Errors
/// Its pods are not replaced by rolling updates.
pub(super) fn of_stateful_set(set: StatefulSet, subject: &Found) -> Result<Look, Error> {
    let (generation, spec, status) = (set.metadata.generation.unwrap_or_default(), set.spec, set.status.unwrap_or_default());
    let strategy = spec.update_strategy.unwrap_or_default();
    if strategy.type_.as_deref().unwrap_or("RollingUpdate") != "RollingUpdate" {
        return Err(
            subject.fault("rollout status is only available for RollingUpdate strategy type; `kubectl get pods --watch` shows its pods")
        );
    }
    let partition = strategy.rolling_update.map(|rolling| rolling.partition.unwrap_or(0));
    let wanted = spec.replicas.unwrap_or(1);
    let replicas = Replicas {
        wanted,
        total: status.replicas,
        updated: status.updated_replicas.unwrap_or(0),
        available: status.available_replicas.unwrap_or(0),
        terminating: None,
    };
    let standing = stateful_set(wanted, partition, generation, status);
    Ok(Look { revision: None, standing, replicas, waits: Vec::new() })
}

fn stateful_set(wanted: i32, partition: Option<i32>, generation: i64, status: StatefulSetStatus) -> Standing {
    let (observed, ready) = (status.observed_generation.unwrap_or_default(), status.ready_replicas.unwrap_or(0));
    let updated = status.updated_replicas.unwrap_or(0);
    let waiting = |message: String| Standing { state: Stage::Waiting, message };
    let complete = |message: String| Standing { state: Stage::Complete, message };
    let (current, update) = (status.current_revision.unwrap_or_default(), status.update_revision.unwrap_or_default());
    match partition {
        _ if observed == 0 || observed < generation => waiting("Waiting for statefulset spec update to be observed...".to_owned()),
        _ if ready < wanted => waiting(format!("Waiting for {} pods to be ready...", wanted - ready)),
        Some(partition) if updated < wanted - partition => {
            let due = wanted - partition;
            waiting(format!("Waiting for partitioned roll out to finish: {updated} out of {due} new pods have been updated..."))
        }
        Some(_) => complete(format!("partitioned roll out complete: {updated} new pods have been updated...")),
        None if update != current => {
            waiting(format!("waiting for statefulset rolling update to complete {updated} pods at revision {update}..."))
        }
        None => {
            let pods = status.current_replicas.unwrap_or(0);
            complete(format!("statefulset rolling update complete {pods} pods at revision {current}..."))
        }
    }
}

/// How far it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Standing {
    pub(super) state: Stage,
    /// kubectl's sentence.
    pub(super) message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Stage {
    /// Under way.
    Waiting,
    /// Nothing is left to do.
    Complete,
    /// Its progress deadline is over.
    Failed,
}

/// Pods, by the workload's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Replicas {
    /// `spec.replicas`.
    pub(super) wanted: i32,
    pub(super) total: i32,
    /// Of the newest template.
    pub(super) updated: i32,
    pub(super) available: i32,
    /// Being deleted and still there; not known of StatefulSets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) terminating: Option<i32>,
}

#[cfg(test)]
mod tests {
    use super::super::target::Kind;
    use super::*;
    use berth_workloads::view::AppsGroup;
    use serde_json::{Value, json};

    /// Looks at a StatefulSet of three pods and generation 2.
    fn check(strategy: &Value, status: &Value, expected: Result<(Stage, &str), &str>) {
        let object = json!({
            "metadata": {"name": "db", "generation": 2},
            "spec": {"replicas": 3, "selector": {}, "serviceName": "db", "template": {}, "updateStrategy": strategy},
            "status": status,
        });
        let subject = Found { kind: Kind::StatefulSet(AppsGroup::Apps), name: "db".to_owned(), json: String::new() };
        let look = of_stateful_set(serde_json::from_value(object).expect("a StatefulSet"), &subject);
        match (look.map(|look| look.standing).map_err(|error| error.to_string()), expected) {
            (Ok(standing), Ok((state, message))) => assert_eq!((standing.state, standing.message.as_str()), (state, message)),
            (Err(error), Err(says)) => assert!(error.contains(says), "{error}"),
            (found, expected) => panic!("{found:?} is not {expected:?}"),
        }
    }

    #[test]
    fn a_stateful_set_is_told_in_kubectls_words() {
        use Stage::{Complete, Waiting};
        let rolling = json!({"type": "RollingUpdate"});
        let partitioned = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}});
        let status = |ready: i32, updated: i32, update: &str| {
            json!({
                "observedGeneration": 2, "replicas": 3, "readyReplicas": ready, "updatedReplicas": updated, "currentReplicas": 3,
                "currentRevision": "db-1", "updateRevision": update,
            })
        };
        let early = json!({"observedGeneration": 1, "replicas": 3});
        check(&rolling, &early, Ok((Waiting, "Waiting for statefulset spec update to be observed...")));
        check(&rolling, &status(1, 3, "db-1"), Ok((Waiting, "Waiting for 2 pods to be ready...")));
        let text = "waiting for statefulset rolling update to complete 1 pods at revision db-2...";
        check(&rolling, &status(3, 1, "db-2"), Ok((Waiting, text)));
        check(&rolling, &status(3, 3, "db-1"), Ok((Complete, "statefulset rolling update complete 3 pods at revision db-1...")));
        let text = "Waiting for partitioned roll out to finish: 1 out of 2 new pods have been updated...";
        check(&partitioned, &status(3, 1, "db-2"), Ok((Waiting, text)));
        check(&partitioned, &status(3, 2, "db-2"), Ok((Complete, "partitioned roll out complete: 2 new pods have been updated...")));
        check(&json!({"type": "OnDelete"}), &early, Err("rollout status is only available for RollingUpdate strategy type"));
    }
}
