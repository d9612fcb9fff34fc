//! `berth rollout pause`, `resume`, `restart` and `promote`: each sends one small patch.

use super::{cluster::Connection, error::Error, history, options::Change, report, target::Found};
use berth_rollout::verbs;
use berth_workloads::{
    view::{DeploymentView, ReplicaSetView},
    workload::WorkloadKind,
};
use jiff::Timestamp;
use serde_json::Value;

/// Pauses a Deployment.
pub(super) async fn pause(change: &Change, connection: &Connection, workload: &Found) -> Result<(), Error> {
    send(change, connection, workload, pause_patch(workload)?, "paused").await
}

/// Resumes a Deployment.
pub(super) async fn resume(change: &Change, connection: &Connection, workload: &Found) -> Result<(), Error> {
    send(change, connection, workload, resume_patch(workload)?, "resumed").await
}

/// Changes an annotation of the template, so that every pod is replaced.
pub(super) async fn restart(change: &Change, connection: &Connection, workload: &Found) -> Result<(), Error> {
    send(change, connection, workload, restart_patch(workload, Timestamp::now())?, "restarted").await
}

/// Ends the pause of a step. The patch names the rollout and the step, so that it does not affect other ones.
pub(super) async fn promote(change: &Change, connection: &Connection, workload: &Found) -> Result<(), Error> {
    if workload.kind != WorkloadKind::Deployment {
        return Err(workload.fault("has no steps: promoting is not supported"));
    }
    let deployment = history::deployment(workload)?;
    let sets = history::sets(connection, workload, &deployment).await?;
    let views: Vec<_> = sets.iter().map(|set| &set.view).collect();
    send(change, connection, workload, promote_patch(workload, &deployment, &views)?, "promoted").await
}

fn promote_patch(workload: &Found, deployment: &DeploymentView, sets: &[&ReplicaSetView]) -> Result<Value, Error> {
    verbs::promote(deployment, sets).map_err(|why| workload.fault(why))
}

async fn send(change: &Change, connection: &Connection, workload: &Found, mut patch: Value, done: &str) -> Result<(), Error> {
    // The uid protects another object with the same name.
    patch["metadata"]["uid"] = object(workload)?["metadata"]["uid"].take();
    let kind = workload.kind;
    let changed = connection.merge_patch(&kind.gvr(), &workload.name, patch).await?;
    report::changed(change.output, workload, changed, done)
}

fn pause_patch(workload: &Found) -> Result<Value, Error> {
    only_deployments(workload, "pausing is not supported")?;
    verbs::pause(&object(workload)?).map_err(|why| workload.fault(why))
}

fn resume_patch(workload: &Found) -> Result<Value, Error> {
    only_deployments(workload, "resuming is not supported")?;
    verbs::resume(&object(workload)?).map_err(|why| workload.fault(why))
}

fn restart_patch(workload: &Found, now: Timestamp) -> Result<Value, Error> {
    verbs::restart(&object(workload)?, now).map_err(|why| workload.fault(why))
}

fn only_deployments(workload: &Found, otherwise: &str) -> Result<(), Error> {
    match workload.kind {
        WorkloadKind::StatefulSet | WorkloadKind::DaemonSet => Err(workload.fault(otherwise)),
        WorkloadKind::Deployment => Ok(()),
    }
}

fn object(workload: &Found) -> Result<Value, Error> {
    workload.decode(|json| serde_json::from_slice(json))
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_identity::Revision;
    use berth_workloads::view::View;
    use serde_json::json;

    fn found(kind: WorkloadKind, spec: &Value) -> Found {
        Found { kind, name: "web".to_owned(), json: json!({"metadata": {"name": "web", "uid": "u"}, "spec": spec}).to_string() }
    }

    fn check(patch: Result<Value, Error>, expected: Result<Value, &str>) {
        assert_eq!(patch.map_err(|error| error.to_string()), expected.map_err(str::to_owned));
    }

    #[test]
    fn only_what_runs_is_paused_and_only_what_is_paused_is_resumed() {
        let (running, paused) = (json!({}), json!({"paused": true}));
        check(pause_patch(&found(WorkloadKind::Deployment, &running)), Ok(json!({"spec": {"paused": true}})));
        check(pause_patch(&found(WorkloadKind::Deployment, &paused)), Err("deployments.apps \"web\" is already paused"));
        check(resume_patch(&found(WorkloadKind::Deployment, &paused)), Ok(json!({"spec": {"paused": null}})));
        check(resume_patch(&found(WorkloadKind::Deployment, &running)), Err("deployments.apps \"web\" is not paused"));
        check(pause_patch(&found(WorkloadKind::StatefulSet, &running)), Err("statefulsets.apps \"web\" pausing is not supported"));
        check(pause_patch(&found(WorkloadKind::DaemonSet, &running)), Err("daemonsets.apps \"web\" pausing is not supported"));
        check(resume_patch(&found(WorkloadKind::DaemonSet, &running)), Err("daemonsets.apps \"web\" resuming is not supported"));
    }

    #[test]
    fn a_wait_is_ended_by_its_name_and_nothing_else_is() {
        let template = |image: u32| json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": image.to_string()}]}});
        let decode = |object: &Value| object.to_string().into_bytes();
        let deployment = |steps: Option<&str>| {
            let object = json!({"metadata": {"name": "web", "annotations": {"berth.dev/steps": steps.unwrap_or("100%")}}, "spec": {"template": template(2)}});
            let mut view = DeploymentView::decode(&decode(&object), Revision(0)).expect("a Deployment");
            if steps.is_none() {
                view.choices.steps = Ok(Vec::new());
            }
            view
        };
        let set = |image: u32, annotations: &Value| {
            let object = json!({"metadata": {"name": image.to_string(), "labels": {"pod-template-hash": "5d4"}, "annotations": annotations}, "spec": {"template": template(image)}});
            ReplicaSetView::decode(&decode(&object), Revision(0)).expect("a ReplicaSet")
        };
        let found = found(WorkloadKind::Deployment, &json!({}));
        let patch = |steps: Option<&str>, sets: &[&ReplicaSetView]| promote_patch(&found, &deployment(steps), sets);
        let steps = Some("10%, 5m, 50%, pause, 100%");
        let at = |place: &str| json!({"deployment.kubernetes.io/revision": "7", "berth.dev/step": place});
        let promoted = |name: &str| Ok(json!({"metadata": {"annotations": {"berth.dev/promoted": name}}}));
        check(patch(steps, &[&set(1, &at("7/4@2026-01-01T00:00:00Z")), &set(2, &at("7/2@2026-01-01T00:00:00Z"))]), promoted("7/2/5d4"));
        check(patch(steps, &[&set(2, &at("7/4@2026-01-01T00:00:00Z"))]), promoted("7/4/5d4"));
        let replaced = "deployments.apps \"web\" is at step 1 of 5, which does not wait: its pods are being replaced";
        check(patch(steps, &[&set(2, &at("6/4@2026-01-01T00:00:00Z"))]), Err(replaced));
        let none = "deployments.apps \"web\" is at no step: its newest template is not rolling out";
        check(patch(steps, &[&set(1, &json!({}))]), Err(none));
        check(patch(steps, &[&set(2, &json!({"berth.dev/completed-revision": "7"}))]), Err(none));
        check(patch(None, &[]), Err("deployments.apps \"web\" has no steps: set them in the annotation berth.dev/steps"));
    }

    #[test]
    fn a_restart_is_a_new_time_in_the_template() {
        let now = "2026-01-02T03:04:05.6Z".parse().expect("a time");
        let annotations = |at: &str| json!({"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": at}}}});
        let patch = json!({"spec": annotations("2026-01-02T03:04:05Z")});
        check(restart_patch(&found(WorkloadKind::Deployment, &json!({})), now), Ok(patch.clone()));
        check(restart_patch(&found(WorkloadKind::Deployment, &annotations("2026-01-02T03:04:04Z")), now), Ok(patch));
        let again =
            restart_patch(&found(WorkloadKind::Deployment, &annotations("2026-01-02T03:04:05Z")), now).expect_err("within a second");
        assert!(again.to_string().contains("within the past second"), "{again}");
        let paused = restart_patch(&found(WorkloadKind::Deployment, &json!({"paused": true})), now);
        check(paused, Err("deployments.apps \"web\" can't restart paused deployment (run rollout resume first)"));
    }
}
