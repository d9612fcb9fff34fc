//! Applies manifests and follows their workloads from inside the process.

use crate::{
    apply::{self, Applied, Faults},
    manifests::Document,
    progress::{Output, Pods, Progress, Screen, Workload, title, warn},
    trouble::{self, Trouble},
};
use berth_api::FeatureGates;
use berth_identity::{GroupVersionKind, Revision};
use berth_registry::{Actor, Collection, Registry, WatchEvent, WatchOptions, resource};
use berth_rollout::{
    daemon_set,
    state::{self, Rollout},
    stateful_set,
};
use berth_workloads::{
    plan::Wait,
    resources::{DAEMON_SET, DEPLOYMENT, JOB, POD, REPLICA_SET, REPLICATION_CONTROLLER, STATEFUL_SET},
    view::{DaemonSetView, DeploymentView, JobView, Meta, PodPhase, PodView, ReplicaKind, ReplicaSetView, StatefulSetView, View},
};
use futures::{StreamExt, future::ready, stream, stream::BoxStream};
use std::{
    collections::BTreeMap,
    convert::Infallible,
    error::Error,
    mem,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::{sleep, sleep_until};

/// How output refers to DaemonSets.
const DAEMON_SETS: &str = "daemonset.apps";
/// How output refers to Deployments.
const DEPLOYMENTS: &str = "deployment.apps";
/// How output refers to StatefulSets.
const STATEFUL_SETS: &str = "statefulset.apps";
/// How output refers to ReplicaSets.
const REPLICA_SETS: &str = "replicaset.apps";
/// How output refers to ReplicationControllers.
const CONTROLLERS: &str = "replicationcontroller";
/// How output refers to pods.
const PODS: &str = "pod";
/// How output refers to Jobs.
const JOBS: &str = "job.batch";
/// All of them, with their names, and the words for their success.
const KINDS: [(&str, &str, &str); 7] = [
    (DEPLOYMENTS, "Deployment", ROLLED_OUT),
    (STATEFUL_SETS, "StatefulSet", ROLLED_OUT),
    (DAEMON_SETS, "DaemonSet", ROLLED_OUT),
    (REPLICA_SETS, "ReplicaSet", AVAILABLE),
    (CONTROLLERS, "ReplicationController", AVAILABLE),
    (PODS, "Pod", AVAILABLE),
    (JOBS, "Job", COMPLETE),
];
const ROLLED_OUT: &str = "rolled out";
const AVAILABLE: &str = "available";
const COMPLETE: &str = "complete";
/// How many pending versions are processed before the next check.
const BATCH_MAX: usize = 1024;
/// How often the obstacles of incomplete workloads are checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The same after the result has been reported.
const LATER_CHECK_INTERVAL: Duration = Duration::from_secs(5);

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Decodes an object. `None` if it cannot be decoded.
type Decode = fn(&[u8]) -> Option<Version>;

/// One version of a workload.
#[derive(Clone, Debug)]
pub(crate) enum Version {
    DaemonSet(Arc<DaemonSetView>),
    Deployment(Arc<DeploymentView>),
    StatefulSet(Arc<StatefulSetView>),
    /// A ReplicaSet or a ReplicationController.
    Replicas(Arc<ReplicaSetView>),
    Pod(Arc<PodView>),
    Job(Arc<JobView>),
}

/// A change of a workload.
#[derive(Clone, Debug)]
enum Change {
    Put(Version),
    /// With the last version.
    Deleted(Version),
}

impl Version {
    fn meta(&self) -> (&'static str, &Meta) {
        match self {
            Self::DaemonSet(set) => (DAEMON_SETS, &set.meta),
            Self::Deployment(deployment) => (DEPLOYMENTS, &deployment.meta),
            Self::StatefulSet(set) => (STATEFUL_SETS, &set.meta),
            Self::Replicas(set) => (if set.kind == ReplicaKind::ReplicaSet { REPLICA_SETS } else { CONTROLLERS }, &set.meta),
            Self::Pod(pod) => (PODS, &pod.meta),
            Self::Job(job) => (JOBS, &job.meta),
        }
    }

    fn workload(&self) -> Workload {
        let (kind, meta) = self.meta();
        (kind, meta.namespace.to_string(), meta.name.to_string())
    }

    fn pods(&self) -> Pods {
        match self {
            Self::DaemonSet(set) => {
                let status = &set.status;
                let settled = status.number_available.unwrap_or(0).min(status.updated_number_scheduled.unwrap_or(0));
                Pods { wanted: status.desired_number_scheduled, settled }
            }
            Self::Deployment(deployment) => {
                let status = &deployment.status;
                let settled = status.available_replicas.min(status.updated_replicas);
                Pods { wanted: deployment.spec.replicas.unwrap_or(1), settled }
            }
            Self::StatefulSet(set) => {
                let settled = set.status.available_replicas.min(set.status.updated_replicas);
                Pods { wanted: set.spec.replicas.unwrap_or(1), settled }
            }
            Self::Replicas(set) => Pods { wanted: set.replicas, settled: set.status.available_replicas },
            Self::Pod(pod) => Pods { wanted: 1, settled: i32::from(pod.ready || pod.phase == PodPhase::Succeeded) },
            Self::Job(job) => Pods { wanted: completions(job), settled: job.status.succeeded.unwrap_or(0) },
        }
    }

    /// Its state. An object that is being deleted is not available for long, whatever its status.
    fn state(&self) -> Progress {
        match self.state_of_status() {
            Progress::Done(_) | Progress::Available(_) if self.meta().1.deleted.is_some() => {
                Progress::Waiting("it is being deleted".to_owned())
            }
            state => state,
        }
    }

    fn state_of_status(&self) -> Progress {
        match self {
            Self::DaemonSet(set) => {
                daemon_set::pending(set).map_or(Progress::Done(set.status.number_available.unwrap_or(0)), Progress::Waiting)
            }
            Self::Deployment(deployment) => {
                let status = &deployment.status;
                match state::of(deployment, status.terminating_replicas.unwrap_or_default()) {
                    Rollout::Waiting(pending) => Progress::Waiting(pending.to_string()),
                    Rollout::Done => Progress::Done(status.available_replicas),
                    Rollout::Failed(message) => Progress::Failed(message),
                }
            }
            Self::StatefulSet(set) => stateful_set::pending(set).map_or(Progress::Done(set.status.available_replicas), Progress::Waiting),
            Self::Replicas(set) => of_replicas(set),
            Self::Pod(pod) => of_pod(pod),
            Self::Job(job) => of_job(job),
        }
    }
}

/// The progress of a ReplicaSet or a ReplicationController according to its status.
fn of_replicas(set: &ReplicaSetView) -> Progress {
    let (status, wanted) = (&set.status, set.replicas);
    if status.observed_generation < set.meta.generation {
        return Progress::Waiting("Waiting for its spec to be observed...".to_owned());
    }
    match status.available_replicas {
        available if available < wanted => Progress::Waiting(format!("{available} of {wanted} pods are available")),
        _ if wanted < status.replicas => Progress::Waiting(format!("{} pods are too many", status.replicas - wanted)),
        available => Progress::Available(available),
    }
}

/// The progress of a pod according to its status.
fn of_pod(pod: &PodView) -> Progress {
    match pod.phase {
        PodPhase::Succeeded => Progress::Complete(1),
        PodPhase::Failed => Progress::Failed("the pod has the phase Failed".to_owned()),
        _ if pod.ready => Progress::Available(1),
        _ => Progress::Waiting("the pod is not ready".to_owned()),
    }
}

/// The progress of a Job according to its status.
fn of_job(job: &JobView) -> Progress {
    let condition = |type_| job.status.conditions.iter().flatten().find(|found| found.type_ == type_ && found.status == "True");
    let succeeded = job.status.succeeded.unwrap_or(0);
    if condition("Complete").is_some() {
        return Progress::Complete(succeeded);
    }
    if let Some(failed) = condition("Failed") {
        let text = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        return Progress::Failed(text(&failed.message).or_else(|| text(&failed.reason)).unwrap_or_default());
    }
    let wait = match &job.choices.managed_by {
        Some(controller) => Some(Wait::ManagedBy { controller: controller.clone() }),
        None => (job.spec.suspend == Some(true)).then_some(Wait::JobSuspended),
    };
    Progress::Waiting(wait.map_or_else(|| format!("{succeeded} of {} pods have succeeded", completions(job)), |wait| wait.to_string()))
}

/// The number of pods that must succeed. Without a number in the spec it is one, and the others must end.
fn completions(job: &JobView) -> i32 {
    job.spec.completions.unwrap_or(1)
}

/// The state of a workload.
#[derive(Debug)]
struct Followed {
    /// The last version, also of a deleted object.
    version: Option<Version>,
    is_deleted: bool,
    state: Progress,
    /// Whether it was complete once. Then its progress deadline is over, and only its pods show a failure.
    was_done: bool,
    trouble: Trouble,
}

impl Followed {
    fn new() -> Self {
        let state = Progress::Waiting("not seen yet".to_owned());
        Self { version: None, is_deleted: false, state, was_done: false, trouble: Trouble::default() }
    }

    fn take(&mut self, change: Change) {
        self.is_deleted = matches!(change, Change::Deleted(_));
        let (Change::Put(version) | Change::Deleted(version)) = change;
        self.version = Some(version);
    }

    /// Derives its state from its status and its obstacles.
    fn judge(&mut self) {
        let Some(version) = &self.version else { return };
        let first = self.trouble.causes.first();
        self.state = match version.state() {
            // A Job may be deleted after its end.
            Progress::Waiting(_) | Progress::Done(_) | Progress::Available(_) if self.is_deleted => Progress::Gone,
            Progress::Waiting(_) | Progress::Done(_) | Progress::Available(_) if self.was_done && self.trouble.crashes => {
                Progress::Failed(first.cloned().unwrap_or_default())
            }
            Progress::Done(_) | Progress::Available(_) if self.trouble.crashes => Progress::Waiting(first.cloned().unwrap_or_default()),
            Progress::Waiting(pending) => Progress::Waiting(with_cause(&pending, first)),
            Progress::Failed(message) => Progress::Failed(with_cause(&message, first)),
            other @ (Progress::Done(_) | Progress::Available(_) | Progress::Complete(_) | Progress::Gone) => other,
        };
        self.was_done |= self.is_done();
    }

    fn is_done(&self) -> bool {
        matches!(self.state, Progress::Done(_) | Progress::Available(_) | Progress::Complete(_))
    }

    fn has_ended(&self) -> bool {
        !matches!(self.state, Progress::Waiting(_))
    }
}

fn with_cause(text: &str, cause: Option<&String>) -> String {
    cause.map_or_else(|| text.to_owned(), |cause| format!("{}: {cause}", text.trim_end_matches('.')))
}

/// The applied workloads and their progress.
pub(crate) struct Rollouts {
    registry: Registry,
    gates: Arc<FeatureGates>,
    output: Output,
    started: Instant,
    order: Vec<Workload>,
    followed: BTreeMap<Workload, Followed>,
    versions: BoxStream<'static, Vec<Change>>,
    /// Whether it was reported that the store is unavailable.
    is_blind: bool,
}

/// The result for all workloads.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Each is complete, none of its pods fails, and it has remained so.
    RolledOut,
    /// A failure, as one sentence.
    Failed(String),
}

impl Rollouts {
    /// Applies the documents in order, and prints the changes. Definitions of kinds come first, because other documents may be of these
    /// kinds.
    ///
    /// # Errors
    /// Some documents are rejected. All others are applied.
    pub(crate) async fn apply(
        registry: &Registry,
        gates: &Arc<FeatureGates>,
        documents: &[Document],
        skips_unserved: bool,
        output: Output,
    ) -> Outcome<Self> {
        let started = Instant::now();
        let (mut order, mut faults, mut keeping) = (Vec::new(), Faults::default(), 0);
        let (definitions, others): (Vec<&Document>, Vec<&Document>) = documents.iter().partition(|document| document.is_definition());
        let mut are_served = definitions.is_empty();
        for document in definitions.into_iter().chain(others) {
            if !are_served && !document.is_definition() {
                registry.definitions_served().await?;
                are_served = true;
            }
            let applied = match apply::apply(registry, document).await {
                Ok(applied) => applied,
                Err(error) => {
                    faults.add(&error, skips_unserved, output);
                    continue;
                }
            };
            applied.lines().iter().for_each(|line| output.line(line));
            keeping += usize::from(applied.keeps());
            order.extend(workload(&applied).filter(|workload| !order.contains(workload)));
        }
        if 0 < keeping {
            let objects = if keeping == 1 { "1 object stays".to_owned() } else { format!("{keeping} objects stay") };
            output.line(&format!("{objects} as changed since the last apply of the manifests. `kubectl apply -f` restores the manifests"));
        }
        faults.into_result(registry)?;
        let versions = match order.is_empty() {
            true => stream::pending().boxed(),
            false => versions(registry, &order)?,
        };
        let followed = order.iter().map(|workload| (workload.clone(), Followed::new())).collect();
        Ok(Self { registry: registry.clone(), gates: Arc::clone(gates), output, started, order, followed, versions, is_blind: false })
    }

    /// Shows the workloads until all are complete and remain so for `steady`, until one has failed and no other is in progress, or until
    /// `timeout` has passed. Returns the result. While the store is unavailable, nothing is decided.
    pub(crate) async fn settle(&mut self, steady: Duration, timeout: Option<Duration>) -> Verdict {
        if self.order.is_empty() {
            return Verdict::RolledOut;
        }
        let mut screen = Screen::new(self.output, &self.order);
        let ended = self.until_settled(&mut screen, steady, timeout).await;
        screen.close();
        match ended {
            Ended::Done { at } => {
                let took = at.duration_since(self.started).as_secs_f64();
                self.output.line(&format!("{} after {took:.1} s", outcome(&self.order)));
                Verdict::RolledOut
            }
            Ended::Failed => Verdict::Failed(self.explain("")),
            Ended::Late { timeout } => Verdict::Failed(self.explain(&format!(" within {} s", timeout.as_secs_f64()))),
        }
    }

    async fn until_settled(&mut self, screen: &mut Screen, steady: Duration, timeout: Option<Duration>) -> Ended {
        let mut checks = tokio::time::interval(CHECK_INTERVAL);
        let mut done_at = None;
        loop {
            tokio::select! {
                Some(versions) = self.versions.next() => self.take(versions, |workload, followed| show(screen, workload, followed)),
                _ = checks.tick() => {
                    if !self.are_all_done() {
                        self.check_obstacles(|workload, followed| show(screen, workload, followed)).await;
                    }
                    screen.catch_up();
                }
                () = until(done_at.map(|at| at + steady)) => {
                    // The pods decide.
                    let is_known = self.check_obstacles(|workload, followed| show(screen, workload, followed)).await;
                    if let Some(at) = done_at.filter(|_| is_known && self.are_all_done()) {
                        return Ended::Done { at };
                    }
                }
                () = until(timeout.map(|timeout| self.started + timeout)) => {
                    self.check_obstacles(|_, _| ()).await;
                    return Ended::Late { timeout: timeout.unwrap_or_default() };
                }
            }
            done_at = self.are_all_done().then(|| done_at.unwrap_or_else(Instant::now));
            if done_at.is_none() && self.followed.values().all(Followed::has_ended) {
                let is_known = self.check_obstacles(|workload, followed| show(screen, workload, followed)).await;
                if is_known && self.followed.values().all(Followed::has_ended) {
                    return Ended::Failed;
                }
            }
        }
    }

    /// Continues indefinitely, and reports when a complete workload fails or a failed one is complete.
    pub(crate) async fn follow(&mut self) -> Infallible {
        let mut reported: BTreeMap<Workload, bool> =
            self.followed.iter().map(|(workload, followed)| (workload.clone(), followed.is_done())).collect();
        let output = self.output;
        let mut report = move |workload: &Workload, followed: &Followed| {
            let before =
                reported.insert(workload.clone(), followed.is_done() || !followed.has_ended() && reported.get(workload) == Some(&true));
            match (before, &followed.state) {
                (Some(true), Progress::Failed(_)) | (Some(false), Progress::Done(_) | Progress::Available(_) | Progress::Complete(_)) => {
                    output.line(&format!("{}: {}", title(workload), followed.state));
                }
                _ => (),
            }
        };
        let mut checks = tokio::time::interval(LATER_CHECK_INTERVAL);
        loop {
            tokio::select! {
                Some(versions) = self.versions.next() => self.take(versions, &mut report),
                _ = checks.tick() => {
                    if !self.are_all_done() {
                        self.check_obstacles(&mut report).await;
                    }
                }
            }
        }
    }

    fn are_all_done(&self) -> bool {
        self.followed.values().all(Followed::is_done)
    }

    /// Processes new versions. Calls `changed` with each workload whose state has changed.
    fn take(&mut self, changes: Vec<Change>, mut changed: impl FnMut(&Workload, &Followed)) {
        for change in changes {
            let (Change::Put(version) | Change::Deleted(version)) = &change;
            let workload = version.workload();
            let Some(followed) = self.followed.get_mut(&workload) else { continue };
            followed.take(change);
            rejudge(&workload, followed, &mut changed);
        }
    }

    /// Checks the obstacles of workloads that are not known to be complete, or no longer are. Returns `false` if the store is unavailable,
    /// which is reported once. The server continues meanwhile.
    async fn check_obstacles(&mut self, mut changed: impl FnMut(&Workload, &Followed)) -> bool {
        let seen = match trouble::Seen::read(&self.registry, self.followed.keys().map(|workload| &workload.1)).await {
            Ok(seen) => seen,
            Err(error) => {
                if !mem::replace(&mut self.is_blind, true) {
                    warn(&format!("berth: {error}; berth reports the workloads when the store is available again"));
                }
                sleep(CHECK_INTERVAL).await;
                return false;
            }
        };
        self.is_blind = false;
        for (workload, followed) in &mut self.followed {
            followed.trouble = match &followed.version {
                Some(Version::DaemonSet(set)) => seen.of_daemon_set(set),
                Some(Version::Deployment(deployment)) => seen.of_deployment(deployment, &self.gates),
                Some(Version::StatefulSet(set)) => seen.of_stateful_set(set),
                Some(Version::Replicas(set)) => seen.of_replica_set(set),
                Some(Version::Pod(pod)) => seen.of_pod(pod),
                Some(Version::Job(job)) => seen.of_job(job),
                None => continue,
            };
            rejudge(workload, followed, &mut changed);
        }
        true
    }

    /// Prints each incomplete workload with all its obstacles. Returns a summary.
    fn explain(&self, when: &str) -> String {
        let left: Vec<_> = self.order.iter().filter_map(|workload| Some((workload, self.followed.get(workload)?))).collect();
        let left: Vec<_> = left.into_iter().filter(|(_, followed)| !followed.is_done()).collect();
        for (workload, followed) in &left {
            // In line mode, failures have been printed in full before.
            if self.output.is_terminal() || !followed.has_ended() {
                self.output.line(&format!("{}: {}", title(workload), followed.state));
            }
            followed.trouble.causes.iter().skip(1).for_each(|cause| self.output.line(&format!("  {cause}")));
        }
        let names: Vec<_> = left.iter().map(|(workload, _)| title(workload)).collect();
        // The first kind of the list gives the word.
        let success = KINDS
            .iter()
            .find(|(kind, ..)| self.order.iter().any(|workload| workload.0 == *kind))
            .map_or(ROLLED_OUT, |(.., success)| success);
        format!("{} of {} not {success}{when}: {}", left.len(), count(&self.order), names.join(", "))
    }
}

/// How [`Rollouts::settle`] ends.
enum Ended {
    Done { at: Instant },
    Failed,
    Late { timeout: Duration },
}

fn show(screen: &mut Screen, workload: &Workload, followed: &Followed) {
    let pods = followed.version.as_ref().map(Version::pods).unwrap_or_default();
    screen.show(workload, pods, &followed.state);
}

fn rejudge(workload: &Workload, followed: &mut Followed, changed: &mut impl FnMut(&Workload, &Followed)) {
    let before = followed.state.clone();
    followed.judge();
    if followed.state != before {
        changed(workload, followed);
    }
}

/// Resolves at this time. Never resolves if there is none.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}

fn workload(applied: &Applied) -> Option<Workload> {
    let (kind, ..) = KINDS.iter().find(|(_, name, _)| *name == applied.resource.kind().as_str())?;
    Some((kind, applied.namespace.clone().unwrap_or_default(), applied.name.clone()))
}

/// `3 Deployments and 1 StatefulSet`
fn count(workloads: &[Workload]) -> String {
    listed(KINDS.iter().filter_map(|(kind, name, _)| count_of(workloads, kind, name)).collect())
}

fn count_of(workloads: &[Workload], kind: &str, name: &str) -> Option<String> {
    match workloads.iter().filter(|workload| workload.0 == kind).count() {
        0 => None,
        1 => Some(format!("1 {name}")),
        some => Some(format!("{some} {name}s")),
    }
}

/// `3 Deployments rolled out and 1 Job complete`
fn outcome(workloads: &[Workload]) -> String {
    let part = |success: &&str| {
        let is_one = |workload: &&Workload| KINDS.iter().any(|(kind, _, words)| *kind == workload.0 && words == success);
        let part: Vec<Workload> = workloads.iter().filter(is_one).cloned().collect();
        (!part.is_empty()).then(|| format!("{} {success}", count(&part)))
    };
    listed([ROLLED_OUT, AVAILABLE, COMPLETE].iter().filter_map(part).collect())
}

/// `a, b and c`
fn listed(mut parts: Vec<String>) -> String {
    match (parts.pop(), parts.is_empty()) {
        (Some(last), false) => format!("{} and {last}", parts.join(", ")),
        (last, _) => last.unwrap_or_default(),
    }
}

/// Every present object of the kinds of `workloads`, then each new version. Restarts after the watch is interrupted.
fn versions(registry: &Registry, workloads: &[Workload]) -> Outcome<BoxStream<'static, Vec<Change>>> {
    let kinds: [(&str, GroupVersionKind, Decode); 7] = [
        (DEPLOYMENTS, DEPLOYMENT, |json| Some(Version::Deployment(DeploymentView::decode(json, Revision(0)).ok()?.into()))),
        (STATEFUL_SETS, STATEFUL_SET, |json| Some(Version::StatefulSet(StatefulSetView::decode(json, Revision(0)).ok()?.into()))),
        (DAEMON_SETS, DAEMON_SET, |json| Some(Version::DaemonSet(DaemonSetView::decode(json, Revision(0)).ok()?.into()))),
        (REPLICA_SETS, REPLICA_SET, |json| Some(Version::Replicas(ReplicaSetView::decode(json, Revision(0)).ok()?.into()))),
        (CONTROLLERS, REPLICATION_CONTROLLER, |json| {
            Some(Version::Replicas(ReplicaSetView::decode_controller(json, Revision(0)).ok()?.into()))
        }),
        (PODS, POD, |json| Some(Version::Pod(PodView::decode(json, Revision(0)).ok()?.into()))),
        (JOBS, JOB, |json| Some(Version::Job(JobView::decode(json, Revision(0)).ok()?.into()))),
    ];
    let applied = kinds.into_iter().filter(|(kind, ..)| workloads.iter().any(|workload| workload.0 == *kind));
    let all: Vec<_> = applied.map(|(_, kind, read)| entries(registry, &kind, read)).collect::<Outcome<_>>()?;
    Ok(stream::select_all(all).ready_chunks(BATCH_MAX).boxed())
}

fn entries(registry: &Registry, kind: &GroupVersionKind, read: Decode) -> Outcome<BoxStream<'static, Change>> {
    let resource = resource::built_in().by_kind(kind).ok_or("a workload is not in the resource table")?;
    let (registry, resource) = (registry.clone(), Arc::clone(resource));
    let watch = move |is_first: bool| {
        let (registry, all) = (registry.clone(), Collection { resource: Arc::clone(&resource), namespace: None });
        async move {
            if !is_first {
                sleep(CHECK_INTERVAL).await;
            }
            // The check of obstacles reports that the store is unavailable.
            registry.watch(&Actor::System, &all, &WatchOptions::default()).await.unwrap_or_else(|_| stream::empty().boxed())
        }
    };
    let events = stream::once(ready(true)).chain(stream::repeat(false)).then(watch).flatten();
    let read = move |event| async move {
        match event {
            WatchEvent::Added(entry) => read(&entry.value).map(Change::Put),
            WatchEvent::Modified(event) => read(&event.entry.value).map(Change::Put),
            WatchEvent::Deleted { last, .. } => read(&last.value).map(Change::Deleted),
            WatchEvent::Bookmark { .. } | WatchEvent::Error(_) => None,
        }
    };
    Ok(events.filter_map(read).boxed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(metadata: &Value, status: &Value) -> Version {
        let mut object =
            json!({"metadata": {"name": "web", "namespace": "shop", "uid": "p"}, "spec": {"containers": []}, "status": status});
        metadata.as_object().into_iter().flatten().for_each(|(key, value)| object["metadata"][key] = value.clone());
        Version::Pod(Arc::new(PodView::decode(object.to_string().as_bytes(), Revision(0)).expect("a pod")))
    }

    fn after(changes: Vec<Change>) -> Progress {
        let mut followed = Followed::new();
        for change in changes {
            followed.take(change);
            followed.judge();
        }
        followed.state
    }

    #[test]
    fn a_deleted_object_is_no_success_unless_it_was_complete() {
        let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        let available = || pod(&json!({}), &ready);
        let going = pod(&json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}), &ready);
        let ended = || pod(&json!({}), &json!({"phase": "Succeeded"}));
        assert_eq!(after(vec![Change::Put(available())]), Progress::Available(1));
        assert_eq!(after(vec![Change::Put(available()), Change::Put(going)]), Progress::Waiting("it is being deleted".to_owned()));
        assert_eq!(after(vec![Change::Put(available()), Change::Deleted(available())]), Progress::Gone);
        assert_eq!(after(vec![Change::Deleted(available()), Change::Put(available())]), Progress::Available(1), "created again");
        assert_eq!(after(vec![Change::Put(ended()), Change::Deleted(ended())]), Progress::Complete(1));
    }
}
