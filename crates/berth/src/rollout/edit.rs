//! `berth rollout pause`, `resume` and `restart`: one small patch each.

use super::{
    cluster::Connection,
    error::Error,
    options::Change,
    report,
    target::{Found, Kind},
};
use berth_api::annotations::RESTARTED_AT;
use berth_workloads::view::APPS_V1;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Holds a Deployment's changes back.
pub(super) async fn pause(change: &Change, connection: &Connection, workload: &Found) -> Result<(), Error> {
    send(change, connection, workload, pause_patch(workload)?, "paused").await
}

/// Lets them go.
pub(super) async fn resume(change: &Change, connection: &Connection, workload: &Found) -> Result<(), Error> {
    send(change, connection, workload, resume_patch(workload)?, "resumed").await
}

/// Changes an annotation of the template, so that every pod is replaced.
pub(super) async fn restart(change: &Change, connection: &Connection, workload: &Found) -> Result<(), Error> {
    send(change, connection, workload, restart_patch(workload, Timestamp::now())?, "restarted").await
}

async fn send(change: &Change, connection: &Connection, workload: &Found, mut patch: Value, done: &str) -> Result<(), Error> {
    // Another object of the same name is none of this command's business.
    patch["metadata"] = json!({"uid": object(workload)?["metadata"]["uid"]});
    let kind = workload.kind;
    let changed = connection.merge_patch(APPS_V1, kind.plural(), &workload.name, patch).await?;
    report::changed(change.output, workload, changed, done)
}

fn pause_patch(workload: &Found) -> Result<Value, Error> {
    match is_paused(workload, "pausing is not supported")? {
        true => Err(workload.fault("is already paused")),
        false => Ok(json!({"spec": {"paused": true}})),
    }
}

fn resume_patch(workload: &Found) -> Result<Value, Error> {
    match is_paused(workload, "resuming is not supported")? {
        true => Ok(json!({"spec": {"paused": null}})),
        false => Err(workload.fault("is not paused")),
    }
}

fn restart_patch(workload: &Found, now: Timestamp) -> Result<Value, Error> {
    let object = object(workload)?;
    if object["spec"]["paused"] == true {
        return Err(workload.fault("can't restart paused deployment (run rollout resume first)"));
    }
    let at = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let annotations = object.pointer("/spec/template/metadata/annotations");
    if annotations.is_some_and(|annotations| annotations[RESTARTED_AT] == at.as_str()) {
        let message = "if restart has already been triggered within the past second, please wait before attempting to trigger another";
        return Err(workload.fault(message));
    }
    Ok(json!({"spec": {"template": {"metadata": {"annotations": {RESTARTED_AT: at}}}}}))
}

/// Whether it is paused; only Deployments can be.
fn is_paused(workload: &Found, unsupported: &str) -> Result<bool, Error> {
    match workload.kind {
        Kind::StatefulSet => Err(workload.fault(unsupported)),
        Kind::Deployment => Ok(object(workload)?["spec"]["paused"] == true),
    }
}

fn object(workload: &Found) -> Result<Value, Error> {
    workload.decode(|json| serde_json::from_slice(json))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(kind: Kind, spec: &Value) -> Found {
        Found { kind, name: "web".to_owned(), json: json!({"metadata": {"name": "web", "uid": "u"}, "spec": spec}).to_string() }
    }

    fn check(patch: Result<Value, Error>, expected: Result<Value, &str>) {
        assert_eq!(patch.map_err(|error| error.to_string()), expected.map_err(str::to_owned));
    }

    #[test]
    fn only_what_runs_is_paused_and_only_what_is_paused_is_resumed() {
        let (running, paused) = (json!({}), json!({"paused": true}));
        check(pause_patch(&found(Kind::Deployment, &running)), Ok(json!({"spec": {"paused": true}})));
        check(pause_patch(&found(Kind::Deployment, &paused)), Err("deployments.apps \"web\" is already paused"));
        check(resume_patch(&found(Kind::Deployment, &paused)), Ok(json!({"spec": {"paused": null}})));
        check(resume_patch(&found(Kind::Deployment, &running)), Err("deployments.apps \"web\" is not paused"));
        check(pause_patch(&found(Kind::StatefulSet, &running)), Err("statefulsets.apps \"web\" pausing is not supported"));
    }

    #[test]
    fn a_restart_is_a_new_time_in_the_template() {
        let now = "2026-01-02T03:04:05.6Z".parse().expect("a time");
        let annotations = |at: &str| json!({"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": at}}}});
        let patch = json!({"spec": annotations("2026-01-02T03:04:05Z")});
        check(restart_patch(&found(Kind::Deployment, &json!({})), now), Ok(patch.clone()));
        check(restart_patch(&found(Kind::Deployment, &annotations("2026-01-02T03:04:04Z")), now), Ok(patch));
        let again = restart_patch(&found(Kind::Deployment, &annotations("2026-01-02T03:04:05Z")), now).expect_err("within a second");
        assert!(again.to_string().contains("within the past second"), "{again}");
        let paused = restart_patch(&found(Kind::Deployment, &json!({"paused": true})), now);
        check(paused, Err("deployments.apps \"web\" can't restart paused deployment (run rollout resume first)"));
    }
}
