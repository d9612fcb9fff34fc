//! `berth rollout undo`: a Deployment's template and annotations as its ReplicaSet of an earlier revision has them.

use super::{
    cluster::{Connection, Keep},
    error::Error,
    history::{self, Set, unknown_revision},
    options::{DryRun, Undo},
    report,
    target::Found,
};
use crate::progress::{line, warn};
use berth_workloads::{
    deployment::{
        annotations::{self, BeforeScale, LAST_APPLIED},
        hash::same_template,
        rollback::{NotFound, find_revision},
    },
    view::DeploymentView,
};
use serde_json::{Value, json};

/// Goes back, or says why not.
pub(super) async fn run(options: &Undo, connection: &Connection, workload: &Found) -> Result<(), Error> {
    let deployment = history::deployment(workload)?;
    let sets = history::sets(connection, workload, &deployment).await?;
    let set = choose(workload, &deployment, &sets, options.to_revision)?;
    let revision = annotations::revision(&set.view.annotations).unwrap_or(0);
    if same_template(&set.view.template, &deployment.spec.template) {
        line(&format!("{} skipped rollback (current template already matches revision {revision})", workload.title()));
        return Ok(());
    }
    if deployment.annotations.contains_key(LAST_APPLIED) {
        warn(&format!(
            "Warning: resource {}/{} was previously managed with 'kubectl apply'. Rolling back will not update the {LAST_APPLIED} annotation, \
             so the next apply of its manifest undoes this rollback; bring the manifest up to date.",
            workload.kind.plural(),
            workload.name
        ));
    }
    let patch = patch(&deployment, set)?;
    let send = async |keep| connection.json_patch(workload.kind.group().api_version(), "deployments", &workload.name, patch, keep).await;
    let done = match options.dry_run {
        DryRun::None => send(Keep::Yes).await.map(|()| "rolled back".to_owned())?,
        DryRun::Server => send(Keep::DryRun).await.map(|()| "rolled back (server dry run)".to_owned())?,
        DryRun::Client => format!("rolled back (dry run)\nPod Template:\n{}", report::yaml(&set.template()?)?),
    };
    line(&format!("{} {done}", workload.title()));
    Ok(())
}

/// The ReplicaSet to go back to.
fn choose<'a>(workload: &Found, deployment: &DeploymentView, sets: &'a [Set], revision: i64) -> Result<&'a Set, Error> {
    if revision < 0 {
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

/// What kubectl sends, guarded by the uid.
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
    use super::{super::target::Kind, *};
    use berth_workloads::view::AppsGroup;

    fn deployment(annotations: &Value, spec: &Value) -> DeploymentView {
        let object = json!({"metadata": {"name": "web", "uid": "d", "annotations": annotations}, "spec": spec});
        DeploymentView::decode(object.to_string().as_bytes(), 0).expect("a Deployment")
    }

    fn set(revision: &str, annotations: &Value) -> Set {
        let mut annotations = annotations.clone();
        annotations["deployment.kubernetes.io/revision"] = json!(revision);
        let template = json!({"metadata": {"labels": {"app": "web", "pod-template-hash": "x"}}});
        Set::decode(json!({"metadata": {"name": "web-x", "annotations": annotations}, "spec": {"template": template}}).to_string())
            .expect("a ReplicaSet")
    }

    /// Which value an annotation has after the rollback, by where it is before.
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
        let workload = Found { kind: Kind::Deployment(AppsGroup::Apps), name: "web".to_owned(), json: String::new() };
        let sets = ["3", "10", "9"].map(|revision| set(revision, &json!({})));
        let choose = |sets: &[Set], revision, spec: &Value| {
            let chosen = choose(&workload, &deployment(&json!({}), spec), sets, revision).map_err(|error| error.to_string())?;
            Ok::<_, String>(annotations::revision(&chosen.view.annotations).expect("it has one"))
        };
        let (running, paused) = (json!({}), json!({"paused": true}));
        assert_eq!(choose(&sets, 0, &running), Ok(9));
        assert_eq!(choose(&sets, 3, &running), Ok(3));
        let unknown = "unable to find specified revision 4 in history; `berth rollout history deployment.apps/web` lists them";
        assert_eq!(choose(&sets, 4, &running), Err(unknown.to_owned()));
        assert_eq!(choose(&sets, -1, &running), Err(unknown.replace('4', "-1")));
        assert_eq!(choose(&sets[..1], 0, &running), Err("no rollout history found for deployment \"web\"".to_owned()));
        let text = "you cannot rollback a paused deployment; resume it first with 'kubectl rollout resume' and try again";
        assert_eq!(choose(&sets, 3, &paused), Err(text.to_owned()));
    }
}
