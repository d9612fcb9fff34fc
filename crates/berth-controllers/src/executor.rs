//! Executes plans: stage after stage, the actions of one stage concurrently. It makes no decisions.

use crate::{
    cluster::{Cluster, ClusterError, DeleteParams, RawObject},
    creations::Creations,
    events::Recorder,
    own_writes::{Unsettled, Writes},
    panics::{Panicked, caught},
    worker::ReconcileResult,
};
use berth_api::{Subresource, decode::from_json, names};
use berth_env::Rng;
use berth_identity::{GroupResource, Name, ObjectKey, ObjectRef, Revision, Uid};
use berth_workloads::{
    Action, Plan,
    node_lifecycle::NODE_LEASES,
    plan::{Due, EventRecord, NewObject, Outcome, Propagation, STAGE_CONCURRENCY, Severity, SlowStart, Victims},
    resources::{LEASES, NODES, PODS},
};
use futures::{FutureExt, StreamExt, future::BoxFuture, stream};
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        coordination::v1::LeaseSpec,
        core::v1::{NodeStatus, Pod},
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{fmt::Display, sync::Arc};

/// How many names are tried for one pod if each of them exists.
const NAME_TRIES: usize = 8;

/// Executes the plans of one component.
pub struct Executor {
    cluster: Arc<dyn Cluster>,
    rng: Arc<dyn Rng>,
    events: Recorder,
    follower: Option<(&'static str, Arc<dyn PlanObserver>)>,
    owners: Option<Arc<dyn Owners>>,
    creations: Arc<Creations>,
}

/// The state of pod owners in the caches.
pub(crate) trait Owners: Send + Sync + 'static {
    /// Whether the caches show that this owner is deleted or terminating.
    fn have_lost(&self, owner: &ObjectRef) -> bool;
}

/// An observer of the controllers' plans.
pub trait PlanObserver: Send + Sync + 'static {
    /// `controller` is about to execute these actions of `plan` for `key`. The plan may only wait. The reconcile itself makes this call, so
    /// it must return quickly.
    fn planned(&self, controller: &'static str, key: &ObjectKey, plan: &Plan, due: Due);

    /// An object of a plan could not be created. Called when the event about it is recorded.
    fn not_created(&self, _: &NotCreated<'_>) {}
}

/// An object of a plan that could not be created.
#[derive(Debug)]
pub struct NotCreated<'a> {
    /// The object of the event: the ReplicaSet of a pod, or the Deployment of a ReplicaSet.
    pub about: &'a ObjectRef,
    /// The generated name of the object. `None` if the plan contains the name.
    pub drawn_name: Option<&'a str>,
    /// The message of the event.
    pub message: &'a str,
    /// The error.
    pub error: &'a ClusterError,
}

/// The result of a plan or an action.
#[derive(Debug, Default)]
pub struct Execution {
    /// What the caches must show before the same key is planned again.
    pub writes: Writes,
    /// The first action that failed.
    pub error: Option<ExecutionError>,
    /// Why an object could not be created, deleted or scaled, for its owner's status. A lost race is not reported.
    pub reportable: Option<ClusterError>,
}

/// An action that failed. Earlier actions are not undone.
#[derive(Debug, thiserror::Error)]
pub enum ExecutionError {
    /// The API server rejected the request or is unreachable.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// Nothing may be done in the name of a terminating or deleted object.
    #[error("{name} is being deleted or was replaced")]
    NotAlive {
        /// Its name.
        name: Name,
    },
    /// The remains of an object must not be deleted while the object exists.
    #[error("{name} is still there")]
    StillThere {
        /// Its name.
        name: Name,
    },
    /// The state of pods on unresponsive nodes is unknown.
    #[error("its pods are on nodes that are not ready: {nodes}")]
    NodesLost {
        /// Their names.
        nodes: String,
    },
    /// An object with another owner has the name.
    #[error("{name} already exists and belongs to another owner")]
    Taken {
        /// Its name.
        name: Name,
    },
    /// A fault in the program. Whether the write happened is unknown.
    #[error(transparent)]
    Panicked(#[from] Panicked),
}

impl ExecutionError {
    /// The result of a reconcile that ends with this error.
    pub(crate) fn reconcile_result(&self) -> ReconcileResult {
        match self {
            Self::Cluster(error) => ReconcileResult::failed(error),
            Self::Panicked(panicked) => ReconcileResult::Panicked(panicked.clone()),
            Self::NotAlive { .. } | Self::StillThere { .. } | Self::NodesLost { .. } | Self::Taken { .. } => ReconcileResult::Backoff,
        }
    }
}

/// The fields of an existing object that the executor reads.
#[derive(Default, Deserialize)]
struct Known {
    #[serde(default)]
    metadata: KnownMeta,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct KnownMeta {
    #[serde(default)]
    uid: Uid,
    deletion_timestamp: Option<Timestamp>,
    owner_references: Option<Vec<OwnerReference>>,
}

impl Execution {
    fn failed(error: impl Into<ExecutionError>) -> Self {
        Self { error: Some(error.into()), ..Self::default() }
    }

    /// Its writes, if any, were not recorded.
    fn panicked(panicked: Panicked) -> Self {
        Self { writes: Writes { in_doubt: true, ..Writes::default() }, ..Self::failed(panicked) }
    }

    fn wrote(resource: GroupResource, written: &RawObject) -> Self {
        let mut carried = Self::default();
        carried.writes.wrote(resource, written);
        carried
    }

    fn gone(target: ObjectRef) -> Self {
        Self { writes: Writes { gone: vec![target.in_any_version()], ..Writes::default() }, ..Self::default() }
    }

    /// A failure. If the write may have happened all the same, `repeat` returns how to find out.
    fn unknown_or(error: ClusterError, repeat: impl FnOnce() -> Unsettled) -> Self {
        let unsettled = if is_unknown(&error) { vec![repeat()] } else { Vec::new() };
        Self { writes: Writes { unsettled, ..Writes::default() }, ..Self::failed(error) }
    }

    /// Makes the error reportable in the owner's status.
    fn reported(mut self) -> Self {
        self.reportable = match &self.error {
            Some(ExecutionError::Cluster(error)) if !is_lost_race(error) => Some(error.clone()),
            _ => None,
        };
        self
    }

    fn add(&mut self, other: Self) {
        self.writes.merge(other.writes);
        self.error = self.error.take().or(other.error);
        self.reportable = self.reportable.take().or(other.reportable);
    }
}

impl Executor {
    /// An executor that writes to `cluster` and records events.
    #[must_use]
    pub fn new(cluster: Arc<dyn Cluster>, rng: Arc<dyn Rng>, events: Recorder) -> Self {
        Self { cluster, rng, events, follower: None, owners: None, creations: Arc::default() }
    }

    /// The same executor, with an observer of the plans of `controller`.
    #[must_use]
    pub fn followed_by(self, follower: Option<&Arc<dyn PlanObserver>>, controller: &'static str) -> Self {
        Self { follower: follower.map(|follower| (controller, Arc::clone(follower))), ..self }
    }

    /// The same executor, which creates no pods of an owner that `owners` reports as lost, and counts creations in progress in `creations`.
    pub(crate) fn minding(self, owners: Arc<dyn Owners>, creations: Arc<Creations>) -> Self {
        Self { owners: Some(owners), creations, ..self }
    }

    /// Reports the plan for `key` to the observer before its execution.
    pub(crate) fn report_plan(&self, key: &ObjectKey, plan: &Plan, due: Due) {
        if let Some((controller, follower)) = &self.follower {
            follower.planned(controller, key, plan, due);
        }
    }

    /// Records an event.
    pub(crate) fn record(&self, event: &EventRecord) {
        self.events.record(event);
    }

    fn report_not_created(&self, about: &ObjectRef, drawn_name: Option<&str>, message: &str, error: &ExecutionError) {
        if let (Some((_, follower)), ExecutionError::Cluster(error)) = (&self.follower, error) {
            follower.not_created(&NotCreated { about, drawn_name, message, error });
        }
    }

    /// Executes the plan for `key` up to the first stage with a failed action. The other actions of that stage are still executed.
    pub async fn execute(&self, key: impl Display + Send, plan: Plan) -> Execution {
        plan.events.iter().for_each(|event| self.events.record(event));
        self.execute_due(key, plan, Due::All).await
    }

    /// As [`Executor::execute`], but only the due actions and without events.
    pub(crate) async fn execute_due(&self, key: impl Display + Send, plan: Plan, due: Due) -> Execution {
        if !plan.is_idle_now(due) {
            tracing::debug!(%key, plan = %plan.brief(due), "carrying out");
        }
        let mut carried = Execution::default();
        for stage in plan.stages {
            let actions = stage.actions.into_iter().filter(|action| due.includes(action));
            carried.add(gather(actions.map(|action| self.act(action).boxed()).collect()).await);
            if carried.error.is_some() {
                break;
            }
        }
        carried
    }

    /// Repeats writes of unknown outcome. The result contains those that are still unknown.
    pub async fn settle(&self, unsettled: Vec<Unsettled>) -> Execution {
        gather(unsettled.into_iter().map(|write| self.settle_one(write).boxed()).collect()).await
    }

    /// The revision of `resource` that caches must reach to contain all writes before this call.
    ///
    /// # Errors
    /// The cluster does not report the revision.
    pub(crate) async fn newest(&self, resource: GroupResource) -> Result<Revision, ClusterError> {
        self.cluster.newest(resource).await
    }

    async fn act(&self, action: Action) -> Execution {
        match action {
            Action::ConfirmAlive { target, .. } => self.confirm_alive(&target).await,
            Action::ConfirmGone { target, .. } => self.confirm_gone(&target).await,
            Action::ConfirmNodeReady { nodes, answered_since, events, .. } => {
                self.noted(events, self.confirm_node_ready(nodes, answered_since)).await
            }
            Action::Create { object, events, .. } => {
                let failure = events.failure.clone();
                let carried = self.noted(events, self.create(object)).await.reported();
                if let (Some(error), Some(failure), true) = (&carried.error, failure, carried.reportable.is_some()) {
                    self.report_not_created(&failure.about, None, &format!("{}{error}", failure.message), error);
                }
                carried
            }
            Action::Patch { target, subresource, patch, events, .. } => {
                let carried = self.noted(events, self.patch(&target, subresource, patch)).await;
                if subresource == Some(Subresource::Scale) { carried.reported() } else { carried }
            }
            Action::Delete { target, propagation, grace_period_seconds, events, .. } => {
                self.noted(events, self.delete(&target, propagation, grace_period_seconds)).await
            }
            Action::CreatePods { template, count, owner, .. } => self.create_pods(&template, count, &owner).await.reported(),
            Action::DeletePods { victims, owner, .. } => self.delete_pods(&victims, &owner).await.reported(),
        }
    }

    /// Waits for `action`, then records the event of its outcome.
    async fn noted(&self, events: Outcome, action: impl Future<Output = Execution>) -> Execution {
        let carried = action.await;
        match (&carried.error, events.success, events.failure) {
            (None, Some(success), _) => self.events.record(&success),
            // Another client was first: the next reconcile observes its write.
            (Some(ExecutionError::Taken { .. }), _, _) => (),
            (Some(ExecutionError::Cluster(error)), _, _) if is_lost_race(error) => (),
            (Some(error), _, Some(mut failure)) => {
                failure.message.push_str(&error.to_string());
                self.events.record(&failure);
            }
            _ => (),
        }
        carried
    }

    async fn confirm_alive(&self, target: &ObjectRef) -> Execution {
        match self.cluster.get(target.resource.clone(), &target.key).await.map(|object| object.as_ref().map(known)) {
            Ok(Some(known)) if known.uid == target.uid && known.deletion_timestamp.is_none() => Execution::default(),
            Ok(_) => Execution::failed(ExecutionError::NotAlive { name: target.key.name.clone() }),
            Err(error) => Execution::failed(error),
        }
    }

    async fn confirm_gone(&self, target: &ObjectRef) -> Execution {
        match self.cluster.get(target.resource.clone(), &target.key).await.map(|object| object.as_ref().map(known)) {
            Ok(Some(known)) if known.uid == target.uid => Execution::failed(ExecutionError::StillThere { name: target.key.name.clone() }),
            Ok(_) => Execution::default(),
            Err(error) => Execution::failed(error),
        }
    }

    async fn confirm_node_ready(&self, nodes: Vec<String>, answered_since: Timestamp) -> Execution {
        for node in &nodes {
            match self.cluster.get(NODES, &ObjectKey::new("", node)).await {
                Ok(Some(object)) if is_ready_node(&object) && self.answers(node, answered_since).await => return Execution::default(),
                Ok(_) => (),
                Err(error) => return Execution::failed(error),
            }
        }
        Execution::failed(ExecutionError::NodesLost { nodes: nodes.join(", ") })
    }

    /// Whether a node has renewed its lease since then. Without a readable lease, its status counts.
    async fn answers(&self, node: &str, since: Timestamp) -> bool {
        let lease = self.cluster.get(LEASES, &ObjectKey::new(NODE_LEASES, node)).await;
        lease.ok().flatten().and_then(|lease| renewed(&lease)).is_none_or(|renewed| since <= renewed)
    }

    async fn create(&self, object: NewObject) -> Execution {
        match self.cluster.create(object.clone().into_object()).await {
            Ok(written) => Execution::wrote(object.resource(), &written),
            Err(ClusterError::AlreadyExists(_)) => self.accept_own(&object).await,
            Err(error) => Execution::unknown_or(error, || Unsettled::Create(object)),
        }
    }

    /// `AlreadyExists` is success if the existing object has the same controller.
    async fn accept_own(&self, object: &NewObject) -> Execution {
        let (resource, key, controller) = (object.resource(), object.key(), controller_uid(object));
        match self.cluster.get(resource.clone(), &key).await {
            Ok(Some(object)) if controller.is_some() && controller == controller_of(&known(&object)) => Execution::wrote(resource, &object),
            Ok(_) => Execution::failed(ExecutionError::Taken { name: key.name }),
            Err(error) => Execution::failed(error),
        }
    }

    async fn patch(&self, target: &ObjectRef, subresource: Option<Subresource>, mut patch: Value) -> Execution {
        patch["metadata"]["uid"] = json!(target.uid);
        if let Some(version) = target.resource_version {
            patch["metadata"]["resourceVersion"] = json!(version.to_string());
        }
        match self.cluster.patch(target.resource.clone(), &target.key, subresource, patch).await {
            Ok(written) => Execution::wrote(target.resource.clone(), &written),
            Err(error) => Execution::unknown_or(error, || Unsettled::Read(target.clone())),
        }
    }

    async fn delete(&self, target: &ObjectRef, propagation: Option<Propagation>, grace_period_seconds: Option<i64>) -> Execution {
        self.delete_with(target.clone(), DeleteParams { propagation, grace_period_seconds, ..params(target) }).await.1
    }

    /// Deletes an object, and also returns whether it existed.
    async fn delete_with(&self, target: ObjectRef, params: DeleteParams) -> (Presence, Execution) {
        match self.cluster.delete(target.resource.clone(), &target.key, params.clone()).await {
            Ok(Some(lingering)) => (Presence::Present, Execution::wrote(target.resource, &lingering)),
            Ok(None) => (Presence::Present, Execution::gone(target)),
            Err(ClusterError::NotFound(_)) => (Presence::Absent, Execution::gone(target)),
            Err(error) => (Presence::Present, Execution::unknown_or(error, || Unsettled::Delete(target, params))),
        }
    }

    /// Creates pods in [`SlowStart`] batches while the owner exists.
    async fn create_pods(&self, template: &Pod, count: usize, owner: &ObjectRef) -> Execution {
        let mut carried = Execution::default();
        for size in SlowStart::new(count) {
            carried.add(gather((0..size).map(|_| self.create_pod_if_owned(template, owner).boxed()).collect()).await);
            if carried.error.is_some() {
                break;
            }
        }
        carried
    }

    /// Creates no pod if the owner is deleted. The garbage collector would delete the pod, but until then it would count against another
    /// set.
    async fn create_pod_if_owned(&self, template: &Pod, owner: &ObjectRef) -> Execution {
        let mut creation = self.creations.begin(&owner.uid);
        if self.owners.as_ref().is_some_and(|owners| owners.have_lost(owner)) {
            return Execution::default();
        }
        let carried = self.create_pod(template, owner).await;
        carried.writes.revisions.get(&PODS).into_iter().for_each(|revision| creation.wrote(*revision));
        carried
    }

    async fn create_pod(&self, template: &Pod, owner: &ObjectRef) -> Execution {
        let mut name = String::new();
        let mut carried = Execution::default();
        for _ in 0..NAME_TRIES {
            let mut pod = template.clone();
            name = names::generated(pod.metadata.generate_name.as_deref().unwrap_or_default(), |bound| self.rng.below(bound));
            pod.metadata.name = Some(name.clone());
            carried = self.create(pod.into()).await;
            if !matches!(carried.error, Some(ExecutionError::Taken { .. })) {
                break;
            }
        }
        match &carried.error {
            None => self.record_pod(owner, Severity::Normal, "SuccessfulCreate", format!("Created pod: {name}")),
            // The namespace's pods are deleted with it, so nothing is reported or retried.
            Some(ExecutionError::Cluster(ClusterError::NamespaceTerminating(_))) => return Execution::default(),
            Some(error) => {
                let message = format!("Error creating: {error}");
                self.report_not_created(owner, Some(&name), &message, error);
                self.record_pod(owner, Severity::Warning, "FailedCreate", message);
            }
        }
        carried
    }

    async fn delete_pods(&self, victims: &[Victims], owner: &ObjectRef) -> Execution {
        gather(victims.iter().flat_map(|victims| &victims.pods).map(|pod| self.delete_pod(pod, owner).boxed()).collect()).await
    }

    async fn delete_pod(&self, pod: &ObjectRef, owner: &ObjectRef) -> Execution {
        let (presence, carried) = self.delete_with(pod.clone(), params(pod)).await;
        match (&carried.error, presence) {
            (None, Presence::Present) => {
                self.record_pod(owner, Severity::Normal, "SuccessfulDelete", format!("Deleted pod: {}", pod.key.name));
            }
            (None, Presence::Absent) => (),
            (Some(error), _) => {
                self.record_pod(owner, Severity::Warning, "FailedDelete", format!("Error deleting: {error}"));
            }
        }
        carried
    }

    async fn settle_one(&self, write: Unsettled) -> Execution {
        match write {
            Unsettled::Create(object) => {
                let carried = self.create(object.clone()).await;
                match carried.error {
                    // The retry is rejected, but the first attempt may have succeeded: the quota that it exhausted rejects the second.
                    Some(ExecutionError::Cluster(_)) if carried.writes.unsettled.is_empty() => self.find_own(&object).await,
                    _ => carried,
                }
            }
            Unsettled::Delete(target, params) => self.delete_with(target, params).await.1,
            Unsettled::Read(target) => match self.cluster.get(target.resource.clone(), &target.key).await {
                Ok(Some(object)) => Execution::wrote(target.resource, &object),
                Ok(None) => Execution::gone(target),
                Err(error) => Execution::unknown_or(error, || Unsettled::Read(target)),
            },
        }
    }

    /// Finds the object of this name if its controller has this uid. Its absence is a definite result too.
    async fn find_own(&self, object: &NewObject) -> Execution {
        let carried = self.accept_own(object).await;
        if matches!(carried.error, Some(ExecutionError::Taken { .. })) { Execution::default() } else { carried }
    }

    fn record_pod(&self, owner: &ObjectRef, severity: Severity, reason: &'static str, message: String) {
        self.events.record(&EventRecord::new(owner.clone(), severity, reason, message));
    }
}

/// Whether a deleted object existed.
enum Presence {
    Present,
    Absent,
}

/// Runs actions concurrently, at most [`STAGE_CONCURRENCY`] at once. If one panics, the others still finish.
async fn gather(actions: Vec<BoxFuture<'_, Execution>>) -> Execution {
    let guarded: Vec<_> = actions.into_iter().map(|action| caught(action).map(|done| done.unwrap_or_else(Execution::panicked))).collect();
    let mut running = stream::iter(guarded).buffer_unordered(STAGE_CONCURRENCY);
    let mut carried = Execution::default();
    while let Some(one) = running.next().await {
        carried.add(one);
    }
    carried
}

/// Whether the write may have happened despite the error.
fn is_unknown(error: &ClusterError) -> bool {
    matches!(error, ClusterError::Unknown(_))
}

/// Whether another client was first: the next reconcile observes its write.
fn is_lost_race(error: &ClusterError) -> bool {
    matches!(error, ClusterError::Conflict(_) | ClusterError::AlreadyExists(_) | ClusterError::NamespaceTerminating(_))
}

/// Deletes only this object, and only this version if it has one.
fn params(target: &ObjectRef) -> DeleteParams {
    DeleteParams { uid: Some(target.uid.clone()), resource_version: target.resource_version, ..DeleteParams::default() }
}

/// The metadata of an existing object. Empty if its JSON cannot be decoded: then it has no owner.
fn known(object: &RawObject) -> KnownMeta {
    from_json::<Known>(&object.json).unwrap_or_default().metadata
}

/// Whether the condition Ready of a node is true.
fn is_ready_node(object: &RawObject) -> bool {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Readable {
        status: NodeStatus,
    }
    let Readable { status } = from_json(&object.json).unwrap_or_default();
    status.conditions.iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn renewed(lease: &RawObject) -> Option<Timestamp> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Readable {
        spec: LeaseSpec,
    }
    let Readable { spec } = from_json(&lease.json).unwrap_or_default();
    spec.renew_time.map(|time| time.0)
}

fn controller_of(known: &KnownMeta) -> Option<Uid> {
    find_controller(known.owner_references.as_deref())
}

fn controller_uid(object: &NewObject) -> Option<Uid> {
    find_controller(object.as_object().meta().owner_references.as_deref())
}

fn find_controller(owners: Option<&[OwnerReference]>) -> Option<Uid> {
    owners.unwrap_or_default().iter().find(|owner| owner.controller == Some(true)).map(|owner| Uid::from(&owner.uid))
}

#[cfg(test)]
mod tests;
