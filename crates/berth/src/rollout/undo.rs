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
