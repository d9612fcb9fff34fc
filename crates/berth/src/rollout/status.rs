//! `berth rollout status`: how far a rollout is and what it waits for, line by line, until it is complete.

use super::{
    cluster::{Connection, gvk},
    error::Error,
    history::selector_text,
    options::{Status, StatusOutput},
    report,
    state::{self, Rollout},
    target::{Found, Kind},
    waits::{self, Observed},
};
use crate::progress::{line, warn};
use berth_workloads::{
    Wait,
    deployment::annotations,
    view::{DeploymentView, PodView, ReplicaSetView},
};
use futures::{StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::{
    api::DynamicObject,
    runtime::watcher::{self, Event},
};
use serde::Serialize;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// How many changes that are there at once are taken in before the next look.
const BATCH_MAX: usize = 1024;

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
    /// Of Deployments: the number of the rollout.
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<i64>,
    #[serde(flatten)]
    standing: Standing,
    waits: Vec<Waiting>,
}

/// How far it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Standing {
    state: Stage,
    /// kubectl's sentence.
    message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Stage {
    Waiting,
    Complete,
    Failed,
}

/// One reason why a rollout does not go on.
#[derive(Debug, Serialize)]
struct Waiting {
    /// As in the metrics' labels.
    reason: &'static str,
    message: String,
}

/// What one watch has shown.
struct Mirror<V> {
    shown: BTreeMap<String, Arc<V>>,
    /// The list that is being read, until it is whole.
    filling: BTreeMap<String, Arc<V>>,
    /// Whether a list was whole once, or cannot be had.
    is_settled: bool,
}

impl<V> Default for Mirror<V> {
    fn default() -> Self {
        Self { shown: BTreeMap::new(), filling: BTreeMap::new(), is_settled: false }
    }
}

impl<V> Mirror<V> {
    fn take(&mut self, event: Event<DynamicObject>, decode: impl Fn(&[u8]) -> serde_json::Result<V>) -> Result<(), Error> {
        match event {
            Event::Init => self.filling.clear(),
            Event::InitApply(object) => drop(self.filling.insert(uid(&object), read(&object, decode)?)),
            Event::InitDone => {
                self.shown = std::mem::take(&mut self.filling);
                self.is_settled = true;
            }
            Event::Apply(object) => drop(self.shown.insert(uid(&object), read(&object, decode)?)),
            Event::Delete(object) => drop(self.shown.remove(&uid(&object))),
        }
        Ok(())
    }

    fn all(&self) -> Vec<Arc<V>> {
        self.shown.values().cloned().collect()
    }
}

fn uid(object: &DynamicObject) -> String {
    object.metadata.uid.clone().unwrap_or_default()
}

fn read<V>(object: &DynamicObject, decode: impl Fn(&[u8]) -> serde_json::Result<V>) -> Result<Arc<V>, Error> {
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let decoded = serde_json::to_vec(object).and_then(|json| decode(&json)).map(Arc::new);
    decoded.map_err(|source| Error::Decode { what: format!("object {name}"), source })
}

/// Whose change is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Workload,
    Sets,
    Pods,
}

/// A change of one of the watches, or why there is none; the watch then tries again.
type Seen = (Of, watcher::Result<Event<DynamicObject>>);

/// All that a report is made from.
#[derive(Default)]
struct World {
    workload: Mirror<Found>,
    sets: Mirror<ReplicaSetView>,
    pods: Mirror<PodView>,
    /// The last one that was printed: the same is not said twice.
    warning: String,
}

impl World {
    fn take(&mut self, (of, event): Seen, subject: &Found) -> Result<(), Error> {
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                self.miss(of, &error);
                return Ok(());
            }
        };
        match of {
            Of::Workload => self.workload.take(event, |json| {
                Ok(Found { kind: subject.kind, name: subject.name.clone(), json: String::from_utf8_lossy(json).into_owned() })
            }),
            Of::Sets => self.sets.take(event, |json| ReplicaSetView::decode(json, 0)),
            Of::Pods => self.pods.take(event, |json| PodView::decode(json, 0)),
        }
    }

    /// A rollout can be followed without its sets and pods, for example by somebody who may not read them, but not without itself.
    fn miss(&mut self, of: Of, error: &watcher::Error) {
        match of {
            Of::Workload => (),
            Of::Sets => self.sets.is_settled = true,
            Of::Pods => self.pods.is_settled = true,
        }
        let Some(cause) = cause(error) else { return };
        let warning = match of {
            Of::Workload => format!("Warning: lost sight of the rollout, trying again: {cause}"),
            Of::Sets | Of::Pods => format!("Warning: cannot tell all that is waited for: {cause}"),
        };
        if self.warning != warning {
            warn(&warning);
            self.warning = warning;
        }
    }

    fn is_settled(&self) -> bool {
        self.workload.is_settled && self.sets.is_settled && self.pods.is_settled
    }

    /// How the workload stands now; `None` as long as it could not be read.
    fn look(&self, subject: &Found, now: Timestamp) -> Result<Option<Look>, Error> {
        if !self.is_settled() {
            return Ok(None);
        }
        let Some(current) = self.workload.shown.values().next() else { return Err(subject.fault("has been deleted")) };
        match current.kind {
            Kind::Deployment(_) => {
                let deployment = current.decode(|json| DeploymentView::decode(json, 0))?;
                Ok(Some(look_at_deployment(&deployment, waits::observe(&deployment, &self.sets.all(), &self.pods.all(), now))))
            }
            Kind::StatefulSet(_) => {
                let set: StatefulSet = current.decode(|json| serde_json::from_slice(json))?;
                Ok(Some(Look { revision: None, standing: stateful_set(&set, subject)?, waits: Vec::new() }))
            }
        }
    }
}

/// What a watch failed on; `None` if the server no longer has what was seen last: the list that follows makes up for it.
fn cause(error: &watcher::Error) -> Option<String> {
    use watcher::Error::{InitialListFailed, WatchError, WatchFailed, WatchStartFailed};
    match error {
        WatchError(status) if status.code == 410 => None,
        InitialListFailed(kube::Error::Api(status)) | WatchStartFailed(kube::Error::Api(status)) | WatchError(status) => {
            Some(status.message.clone())
        }
        InitialListFailed(error) | WatchStartFailed(error) | WatchFailed(error) => Some(error.to_string()),
        other => Some(other.to_string()),
    }
}

/// One look at a workload.
#[derive(Debug, PartialEq, Eq)]
struct Look {
    revision: Option<i64>,
    standing: Standing,
    waits: Vec<Wait>,
}

fn look_at_deployment(deployment: &DeploymentView, observed: Observed) -> Look {
    let terminating = deployment.status.terminating_replicas.unwrap_or(observed.terminating);
    let name = &deployment.meta.name;
    let (state, message) = match state::of(deployment, terminating) {
        Rollout::Waiting(pending) => (Stage::Waiting, pending.sentence(name)),
        Rollout::Done => (Stage::Complete, format!("deployment \"{name}\" successfully rolled out")),
        Rollout::Failed(_) => (Stage::Failed, format!("deployment \"{name}\" exceeded its progress deadline")),
    };
    let waits = if state == Stage::Complete { Vec::new() } else { observed.waits };
    Look { revision: annotations::revision(&deployment.annotations), standing: Standing { state, message }, waits }
}

/// What kubectl says of a StatefulSet.
fn stateful_set(set: &StatefulSet, subject: &Found) -> Result<Standing, Error> {
    let spec = set.spec.clone();
    let strategy = spec.update_strategy.unwrap_or_default();
    if strategy.type_.as_deref().unwrap_or("RollingUpdate") != "RollingUpdate" {
        return Err(
            subject.fault("rollout status is only available for RollingUpdate strategy type; `kubectl get pods --watch` shows its pods")
        );
    }
    let status = set.status.clone().unwrap_or_default();
    let (generation, observed) = (set.metadata.generation.unwrap_or_default(), status.observed_generation.unwrap_or_default());
    let (wanted, ready, updated) = (spec.replicas.unwrap_or(1), status.ready_replicas.unwrap_or(0), status.updated_replicas.unwrap_or(0));
    let partition = strategy.rolling_update.map(|rolling| rolling.partition.unwrap_or(0));
    let waiting = |message: String| Standing { state: Stage::Waiting, message };
    let complete = |message: String| Standing { state: Stage::Complete, message };
    let (current, update) = (status.current_revision.unwrap_or_default(), status.update_revision.unwrap_or_default());
    Ok(match partition {
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
    })
}

async fn follow(options: &Status, connection: &Connection, workload: &Found) -> Result<(), Error> {
    let mut world = World::default();
    let mut changes = changes(connection, workload, &mut world)?.ready_chunks(BATCH_MAX);
    let mut printed = None;
    while let Some(batch) = changes.next().await {
        batch.into_iter().try_for_each(|seen| world.take(seen, workload))?;
        let Some(look) = world.look(workload, Timestamp::now())? else { continue };
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

/// Watches the workload and, for a Deployment, the ReplicaSets and pods that it selects.
fn changes(connection: &Connection, workload: &Found, world: &mut World) -> Result<stream::BoxStream<'static, Seen>, Error> {
    let api_version = workload.kind.group().api_version();
    let named = watcher::Config::default().fields(&format!("metadata.name={}", workload.name));
    let itself =
        connection.watch(&gvk(api_version, workload.kind.name()), workload.kind.plural(), named).map(|event| (Of::Workload, event));
    let Kind::Deployment(_) = workload.kind else {
        (world.sets.is_settled, world.pods.is_settled) = (true, true);
        return Ok(itself.boxed());
    };
    let deployment = workload.decode(|json| DeploymentView::decode(json, 0))?;
    let selected = watcher::Config::default().labels(&selector_text(workload, deployment.spec.selector.as_ref())?);
    let sets = connection.watch(&gvk(api_version, "ReplicaSet"), "replicasets", selected.clone()).map(|event| (Of::Sets, event));
    let pods = connection.watch(&gvk("v1", "Pod"), "pods", selected).map(|event| (Of::Pods, event));
    Ok(stream::select(itself, stream::select(sets, pods)).boxed())
}

fn check_revision(options: &Status, workload: &Found, look: &Look) -> Result<(), Error> {
    match look.revision {
        _ if options.revision == 0 => Ok(()),
        Some(running) if running == options.revision => Ok(()),
        Some(running) => {
            let wanted = options.revision;
            Err(Error::Rollout(format!("desired revision ({wanted}) is different from the running revision ({running})")))
        }
        None => Err(workload.fault("has no numbered revision: --revision is for Deployments that their controller has seen")),
    }
}

/// Prints what has changed since the look before.
fn print(options: &Status, connection: &Connection, workload: &Found, before: Option<&Look>, look: &Look) {
    let is_new = before.is_none_or(|before| before.standing != look.standing);
    let has_new_waits = before.map_or(!look.waits.is_empty(), |before| !waits::same(&before.waits, &look.waits));
    if options.output == Some(StatusOutput::Json) {
        if is_new || has_new_waits {
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
}

fn report<'a>(connection: &'a Connection, workload: &'a Found, look: &Look) -> Report<'a> {
    let waits = look.waits.iter().map(|wait| Waiting { reason: wait.metric_label(), message: wait.to_string() });
    Report {
        kind: workload.kind.name(),
        namespace: connection.namespace(),
        name: &workload.name,
        revision: look.revision,
        standing: look.standing.clone(),
        waits: waits.collect(),
    }
}
