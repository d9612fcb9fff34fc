//! `berth rollout status`: how far a rollout is and what it waits for, line by line, until it is complete.

use super::{
    cluster::{Connection, gvk},
    error::Error,
    history::selector_text,
    look::{Look, Replicas, Stage, Standing},
    options::{Status, StatusOutput},
    report,
    stateful_set::UnreadyPod,
    target::{Found, Kind},
    waits,
    world::{Of, Seen, World},
};
use crate::progress::line;
use berth_workloads::view::{DeploymentView, StatefulSetView};
use futures::{StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::runtime::watcher;
use serde::Serialize;
use std::time::Duration;

/// How many changes that are there at once are taken in before the next look.
const BATCH_MAX: usize = 1024;

/// How many unready pods are named.
const PODS_MAX: usize = 5;

/// Reports a rollout until it is complete.
///
/// # Errors
/// It has failed, the time is over, or the cluster cannot be asked.
pub(super) async fn run(options: &Status, connection: &Connection, workload: &Found) -> Result<(), Error> {
    let following = follow(options, connection, workload);
    if options.timeout == Duration::ZERO {
        return following.await;
    }
    let over = |_| Err(Error::Rollout(format!("timed out waiting for the condition; {} goes on without being watched", workload.title())));
    tokio::time::timeout(options.timeout, following).await.unwrap_or_else(over)
}

/// Where a rollout stands. Its JSON is stable: fields are only ever added.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    kind: &'static str,
    namespace: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<i64>,
    #[serde(flatten)]
    standing: Standing,
    /// Of a StatefulSet's Recreate.
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<&'a str>,
    replicas: Replicas,
    waits: Vec<Waiting>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    unready_pods: &'a [UnreadyPod],
}

/// One reason why a rollout does not go on.
#[derive(Debug, Serialize)]
struct Waiting {
    /// As in the metrics' labels.
    reason: &'static str,
    message: String,
}

async fn follow(options: &Status, connection: &Connection, workload: &Found) -> Result<(), Error> {
    let mut world = World::new(workload);
    let mut changes = changes(connection, workload)?.ready_chunks(BATCH_MAX);
    let mut printed = None;
    while let Some(batch) = changes.next().await {
        batch.into_iter().try_for_each(|seen| world.take(seen))?;
        let Some(look) = world.look(Timestamp::now())? else { continue };
        check_revision(options, workload, &look)?;
        print(options, connection, workload, printed.as_ref(), &look);
        match look.standing.state {
            Stage::Failed => {
                let undo = format!("`berth rollout undo {}` goes back", workload.title());
                return Err(Error::Rollout(format!("{}; {undo}", look.standing.message)));
            }
            Stage::Complete => return Ok(()),
            Stage::Waiting if !options.watch => return Ok(()),
            Stage::Waiting => printed = Some(look),
        }
    }
    Ok(())
}

/// Watches the workload and what it selects of all that a report is made from.
fn changes(connection: &Connection, workload: &Found) -> Result<stream::BoxStream<'static, Seen>, Error> {
    let named = watcher::Config::default().fields(&format!("metadata.name={}", workload.name));
    let selected = watcher::Config::default().labels(&selector_text(workload, selector(workload)?.as_ref())?);
    let group = workload.kind.group().api_version();
    let watch = |of: &Of| {
        let of = *of;
        let (api_version, kind, plural, config) = match of {
            Of::Workload => (group, workload.kind.name(), workload.kind.plural(), named.clone()),
            Of::Sets => (group, "ReplicaSet", "replicasets", selected.clone()),
            Of::Revisions => ("apps/v1", "ControllerRevision", "controllerrevisions", selected.clone()),
            Of::Claims => ("v1", "PersistentVolumeClaim", "persistentvolumeclaims", selected.clone()),
            Of::Pods => ("v1", "Pod", "pods", selected.clone()),
        };
        connection.watch(&gvk(api_version, kind), plural, config).map(move |event| (of, event)).boxed()
    };
    Ok(stream::select_all(Of::all(workload.kind).iter().map(watch)).boxed())
}

fn selector(workload: &Found) -> Result<Option<LabelSelector>, Error> {
    Ok(match workload.kind {
        Kind::Deployment(_) => workload.decode(|json| DeploymentView::decode(json, 0))?.spec.selector.clone(),
        Kind::StatefulSet(_) => workload.decode(|json| StatefulSetView::decode(json, 0))?.spec.selector.clone(),
    })
}

fn check_revision(options: &Status, workload: &Found, look: &Look) -> Result<(), Error> {
    match look.revision {
        _ if options.revision == 0 => Ok(()),
        Some(running) if running == options.revision => Ok(()),
        Some(running) => {
            let wanted = options.revision;
            Err(Error::Rollout(format!("desired revision ({wanted}) is different from the running revision ({running})")))
        }
        None => Err(workload.fault("has no numbered revision: its controller has not seen it yet, or its revisions cannot be read")),
    }
}

/// Prints what has changed since the look before.
fn print(options: &Status, connection: &Connection, workload: &Found, before: Option<&Look>, look: &Look) {
    let is_new = before.is_none_or(|before| before.standing != look.standing);
    let has_new_waits = before.map_or(!look.waits.is_empty(), |before| !waits::same(&before.waits, &look.waits));
    let has_new_pods = before.map_or(!look.unready_pods.is_empty(), |before| before.unready_pods != look.unready_pods);
    if options.output == Some(StatusOutput::Json) {
        if is_new || has_new_waits || has_new_pods || before.is_some_and(|before| before.replicas != look.replicas) {
            line(&report::json(&report(connection, workload, look)));
        }
        return;
    }
    if is_new && look.standing.state != Stage::Failed {
        line(&look.standing.message);
    }
    if has_new_waits {
        look.waits.iter().for_each(|wait| line(&format!("  {wait}")));
    }
    if has_new_pods {
        look.unready_pods.iter().take(PODS_MAX).for_each(|pod| line(&format!("  {} is not ready: {}", pod.name, pod.reasons.join(", "))));
        if let Some(more) = look.unready_pods.len().checked_sub(PODS_MAX).filter(|more| *more > 0) {
            line(&format!("  {more} more pods are not ready"));
        }
    }
}

fn report<'a>(connection: &'a Connection, workload: &'a Found, look: &'a Look) -> Report<'a> {
    let waits = look.waits.iter().map(|wait| Waiting { reason: wait.metric_label(), message: wait.to_string() });
    Report {
        kind: workload.kind.name(),
        namespace: connection.namespace(),
        name: &workload.name,
        revision: look.revision,
        standing: look.standing.clone(),
        phase: look.phase.as_deref(),
        replicas: look.replicas,
        waits: waits.collect(),
        unready_pods: &look.unready_pods,
    }
}
