//! `berth rollout undo`: restores a Deployment's template and annotations from its ReplicaSet of an earlier revision, or the template of a
//! StatefulSet or a DaemonSet from an earlier ControllerRevision.

use super::{
    cluster::{Connection, Keep},
    error::Error,
    history::{self, Set, unknown_revision},
    options::{DryRun, Undo},
    report,
    revisions::{self, Kept, Owner},
    target::Found,
};
use crate::progress::{line, warn};
use berth_identity::RolloutRevision;
use berth_workloads::{
    deployment::{
        annotations::{self, BeforeScale, LAST_APPLIED},
        rollback::{NotFound, find_revision},
    },
    hash::same_template,
    view::DeploymentView,
    workload::WorkloadKind,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Rolls back, or returns why it cannot.
pub(super) async fn run(options: &Undo, connection: &Connection, workload: &Found) -> Result<(), Error> {
    if options.dry_run == DryRun::Unchanged {
        warn("Warning: --dry-run is deprecated and can be replaced with --dry-run=client.");
    }
    match workload.kind {
        WorkloadKind::Deployment => of_deployment(options, connection, workload).await,
        WorkloadKind::StatefulSet | WorkloadKind::DaemonSet => to_controller_revision(options, connection, workload).await,
    }
}

async fn of_deployment(options: &Undo, connection: &Connection, workload: &Found) -> Result<(), Error> {
    let deployment = history::deployment(workload)?;
    let sets = history::sets(connection, workload, &deployment).await?;
    let set = choose(workload, &deployment, &sets, options.to_revision)?;
    let revision = annotations::revision(&set.view.annotations).unwrap_or_default();
    if same_template(&set.view.template, &deployment.spec.template) {
        skipped(workload, revision);
        return Ok(());
    }
    let patch = patch(&deployment, set)?;
    write(options, connection, workload, &deployment.annotations, patch, &set.template()?).await
}

async fn to_controller_revision(options: &Undo, connection: &Connection, workload: &Found) -> Result<(), Error> {
    let owner = Owner::of(workload)?;
    let kept = revisions::list(connection, workload, &owner).await?;
    let chosen = choose_kept(workload, &kept, options.to_revision)?;
    if chosen.is_of(&owner) {
        skipped(workload, chosen.number());
        return Ok(());
    }
    let template = chosen.template();
    let patch = json!([
        {"op": "test", "path": "/metadata/uid", "value": owner.meta.uid},
        {"op": "replace", "path": "/spec/template", "value": template},
    ]);
    write(options, connection, workload, &owner.annotations, patch, &template).await
}

fn skipped(workload: &Found, revision: RolloutRevision) {
    line(&format!("{} skipped rollback (current template already matches revision {revision})", workload.title()));
}

async fn write(
    options: &Undo,
    connection: &Connection,
    workload: &Found,
    annotations: &BTreeMap<String, String>,
    patch: Value,
    template: &Value,
) -> Result<(), Error> {
    if annotations.contains_key(LAST_APPLIED) {
        warn(&format!(
            "Warning: resource {}/{} was previously managed with 'kubectl apply'. Rolling back will not update the {LAST_APPLIED} annotation, \
             so the next apply of its manifest reverts this rollback. Update the manifest.",
            workload.kind.resource().plural,
            workload.name
        ));
    }
    let kind = workload.kind;
    let send = async |keep| connection.json_patch(&kind.gvr(), &workload.name, patch.clone(), keep).await;
    let (object, done) = match options.dry_run {
        DryRun::None => (send(Keep::Yes).await?, "rolled back".to_owned()),
        DryRun::Server => (send(Keep::DryRun).await?, "rolled back (server dry run)".to_owned()),
        DryRun::Client | DryRun::Unchanged => {
            (replaced(workload, &patch)?, format!("rolled back (dry run)\nPod Template:\n{}", report::yaml(template)?))
        }
    };
    report::changed(options.output, workload, object, &done)
}

/// The workload with the patch's changes.
fn replaced(workload: &Found, patch: &Value) -> Result<Value, Error> {
    let mut object: Value = workload.decode(|json| serde_json::from_slice(json))?;
    for operation in patch.as_array().into_iter().flatten().filter(|operation| operation["op"] == "replace") {
        if let Some(place) = operation["path"].as_str().and_then(|path| object.pointer_mut(path)) {
            *place = operation["value"].clone();
        }
    }
    Ok(object)
}

/// The ReplicaSet to roll back to.
fn choose<'a>(workload: &Found, deployment: &DeploymentView, sets: &'a [Set], revision: RolloutRevision) -> Result<&'a Set, Error> {
    if revision < RolloutRevision::UNSET {
        return Err(unknown_revision(workload, revision));
    }
    let views: Vec<_> = sets.iter().map(|set| &set.view).collect();
    let found = find_revision(&views, revision).map_err(|missing| match missing {
        NotFound::History => Error::Rollout(format!("no rollout history found for deployment \"{}\"", workload.name)),
        NotFound::Revision => unknown_revision(workload, revision),
    })?;
    if deployment.spec.paused {
        let message = "you cannot rollback a paused deployment; resume it first with 'kubectl rollout resume' and try again";
        return Err(Error::Rollout(message.to_owned()));
    }
    Ok(sets.iter().find(|set| std::ptr::eq(&raw const set.view, found)).expect("it is one of them"))
}

/// The ControllerRevision to roll back to. `kept` is sorted by number.
fn choose_kept<'a>(workload: &Found, kept: &'a [Kept], revision: RolloutRevision) -> Result<&'a Kept, Error> {
    match (revision, kept) {
        (RolloutRevision::UNSET, [.., before, _]) => Ok(before),
        (RolloutRevision::UNSET, _) => Err(Error::Rollout("no last revision to roll back to".to_owned())),
        _ => kept.iter().find(|kept| kept.number() == revision).ok_or_else(|| unknown_revision(workload, revision)),
    }
}

/// The patch that kubectl sends, with the uid as a precondition.
fn patch(deployment: &DeploymentView, set: &Set) -> Result<Value, Error> {
    let annotations = annotations::after_rollback(&deployment.annotations, &set.view.annotations, BeforeScale::Managed);
    Ok(json!([
        {"op": "test", "path": "/metadata/uid", "value": deployment.meta.uid},
        {"op": "replace", "path": "/spec/template", "value": set.template()?},
        {"op": "replace", "path": "/metadata/annotations", "value": annotations},
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_identity::Revision;
    use berth_workloads::view::View;

    fn deployment(annotations: &Value, spec: &Value) -> DeploymentView {
        let object = json!({"metadata": {"name": "web", "uid": "d", "annotations": annotations}, "spec": spec});
        DeploymentView::decode(object.to_string().as_bytes(), Revision(0)).expect("a Deployment")
    }

    fn set(revision: &str, annotations: &Value) -> Set {
        let mut annotations = annotations.clone();
        annotations["deployment.kubernetes.io/revision"] = json!(revision);
        let template = json!({"metadata": {"labels": {"app": "web", "pod-template-hash": "x"}}});
        Set::decode(json!({"metadata": {"name": "web-x", "annotations": annotations}, "spec": {"template": template}}).to_string())
            .expect("a ReplicaSet")
    }

    /// The value of an annotation after the rollback, depending on its value before.
    fn check(key: &str, of_deployment: Option<&str>, of_set: Option<&str>, expected: Option<&str>) {
        let annotations = |value: Option<&str>| value.map_or(json!({}), |value| json!({key: value}));
        let patch = patch(&deployment(&annotations(of_deployment), &json!({})), &set("1", &annotations(of_set))).expect("a patch");
        assert_eq!(patch[2]["value"].get(key).and_then(Value::as_str), expected, "{key}: {of_deployment:?} {of_set:?}");
    }

    #[test]
    fn annotations_are_the_sets_but_for_those_that_are_the_deployments_own() {
        check("note", Some("new"), Some("old"), Some("old"));
        check("note", Some("new"), None, None);
        check("note", None, Some("old"), Some("old"));
        for key in [
            "kubectl.kubernetes.io/last-applied-configuration",
            "deployment.kubernetes.io/revision-history",
            "deployment.kubernetes.io/desired-replicas",
            "deployment.kubernetes.io/max-replicas",
            "deprecated.deployment.rollback.to",
        ] {
            check(key, Some("own"), Some("other"), Some("own"));
            check(key, None, Some("other"), None);
        }
        let before_scale = "deployment.kubernetes.io/replicaset-replicas-before-scale";
        check(before_scale, Some("8"), None, None);
        check(before_scale, None, Some("7"), None);
        check(before_scale, Some("8"), Some("7"), None);
    }

    #[test]
    fn the_patch_is_kubectls_guarded_by_the_uid() {
        let written = patch(&deployment(&json!({"deployment.kubernetes.io/revision": "2"}), &json!({})), &set("1", &json!({"a": "b"})));
        assert_eq!(
            written.expect("a patch"),
            json!([
                {"op": "test", "path": "/metadata/uid", "value": "d"},
                {"op": "replace", "path": "/spec/template", "value": {"metadata": {"labels": {"app": "web"}}}},
                {"op": "replace", "path": "/metadata/annotations", "value": {"a": "b", "deployment.kubernetes.io/revision": "2"}},
            ])
        );
    }

    #[test]
    fn the_revision_is_found_or_the_reason_given_in_kubectls_words() {
        let workload = Found { kind: WorkloadKind::Deployment, name: "web".to_owned(), json: String::new() };
        let sets = ["3", "10", "9"].map(|revision| set(revision, &json!({})));
        let choose = |sets: &[Set], revision, spec: &Value| {
            let chosen = choose(&workload, &deployment(&json!({}), spec), sets, revision).map_err(|error| error.to_string())?;
            Ok::<_, String>(annotations::revision(&chosen.view.annotations).expect("it has one"))
        };
        let (running, paused) = (json!({}), json!({"paused": true}));
        assert_eq!(choose(&sets, RolloutRevision(0), &running), Ok(RolloutRevision(9)));
        assert_eq!(choose(&sets, RolloutRevision(3), &running), Ok(RolloutRevision(3)));
        let unknown = "unable to find specified revision 4 in history; `berth rollout history deployment.apps/web` lists them";
        assert_eq!(choose(&sets, RolloutRevision(4), &running), Err(unknown.to_owned()));
        assert_eq!(choose(&sets, RolloutRevision(-1), &running), Err(unknown.replace('4', "-1")));
        assert_eq!(choose(&sets[..1], RolloutRevision(0), &running), Err("no rollout history found for deployment \"web\"".to_owned()));
        let text = "you cannot rollback a paused deployment; resume it first with 'kubectl rollout resume' and try again";
        assert_eq!(choose(&sets, RolloutRevision(3), &paused), Err(text.to_owned()));
    }

    #[test]
    fn a_stateful_set_goes_back_to_the_revision_before_or_the_one_that_is_named() {
        let workload = Found { kind: WorkloadKind::StatefulSet, name: "db".to_owned(), json: String::new() };
        let kept = [2, 3, 7].map(|number| {
            let revision = json!({"metadata": {}, "revision": number, "data": {"spec": {"template": {"$patch": "replace", "spec": {}}}}});
            Kept(serde_json::from_value(revision).expect("a revision"))
        });
        let choose = |kept: &[Kept], revision| choose_kept(&workload, kept, revision).map(Kept::number).map_err(|error| error.to_string());
        assert_eq!(
            [choose(&kept, RolloutRevision(0)), choose(&kept, RolloutRevision(2))],
            [Ok(RolloutRevision(3)), Ok(RolloutRevision(2))]
        );
        assert_eq!(choose(&kept[..1], RolloutRevision(0)), Err("no last revision to roll back to".to_owned()));
        let unknown = "unable to find specified revision 4 in history; `berth rollout history statefulset.apps/db` lists them";
        assert_eq!(choose(&kept, RolloutRevision(4)), Err(unknown.to_owned()));
        assert_eq!(kept[0].template(), json!({"spec": {}}), "the mark of the patch is no part of it");
    }
}
