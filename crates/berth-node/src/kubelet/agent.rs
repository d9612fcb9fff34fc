//! The simulated nodes' loop: the cache reports pods, the clock advances stages, and statuses and deletions are written to the cluster.

use super::{
    behavior::Behavior,
    held::{Due, Held, News, Report},
    images::pull_error,
    node::{self, NodeShape},
    references::{Faults, Step},
    sources::Sources,
    stage::PodStage,
    status::{DEADLINE_MESSAGE, DEADLINE_REASON, Ending, StatusInputs, backing_off, ended, status},
    view::{KubeletPod, WrittenStatus},
    volumes::Volumes,
};
use crate::about::about_pod;
use berth_api::{Subresource, annotations::CONTENT_IDS};
use berth_controllers::{
    Cluster, ClusterError, DeleteParams,
    cache::{AnyCache, Cache, Delta},
    events::Recorder,
    metrics::Metrics,
    worker::{Queue, Reconcile, ReconcileResult},
};
use berth_env::Env;
use berth_identity::{GroupResource, ObjectKey, Uid};
use berth_workloads::{
    plan::{EventRecord, Repeat, Severity},
    resources::PODS,
    view::View,
};
use futures::future::BoxFuture;
use serde_json::json;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// How many pods are processed at once: enough to fill a group commit.
const WORKERS: usize = 64;

/// `ContainerCreating` is reported only if it lasts this long: a shorter stage would be a write that no user sees.
const SHORTEST_REPORTED: Duration = Duration::from_millis(50);

/// In a forecast it is reported only if the containers take so long that a user would ask for the reason. No decision depends on it, and it
/// was a sixth of all writes.
const SHORTEST_PLANNED: Duration = Duration::from_secs(30);

/// The behavior of each pod on its node.
pub type Habits = Box<dyn Fn(&KubeletPod) -> Behavior + Send + Sync>;

/// All simulated nodes of a cluster.
pub struct Nodes {
    pub(super) cluster: Arc<dyn Cluster>,
    pub(super) env: Env,
    pub(super) count: u32,
    pub(super) shape: NodeShape,
    /// The nodes of another cluster, by name. `None` for `count` nodes of the shape.
    foreign: Option<BTreeMap<String, u32>>,
    /// The minimum duration of a reported `ContainerCreating`.
    shortest_reported: Duration,
    recorder: Recorder,
    habits: Habits,
    queue: Queue<Uid>,
    volumes: Volumes,
    pub(super) sources: Sources,
    held: Mutex<Held>,
}

impl Nodes {
    /// Runs the pods that are bound to the nodes, indefinitely.
    pub(super) fn begin(
        cluster: &Arc<dyn Cluster>,
        env: &Env,
        recorder: &Recorder,
        metrics: &Arc<Metrics>,
        (count, shape, foreign, habits): (u32, NodeShape, Option<BTreeMap<String, u32>>, Habits),
        sources: Sources,
    ) -> Arc<Self> {
        let nodes = Arc::new(Self {
            cluster: Arc::clone(cluster),
            env: env.clone(),
            count,
            shape,
            shortest_reported: if foreign.is_some() { SHORTEST_PLANNED } else { SHORTEST_REPORTED },
            foreign,
            recorder: recorder.of("kubelet"),
            habits,
            queue: Queue::new("node", Arc::clone(&env.clock), metrics),
            volumes: Volumes::default(),
            sources,
            held: Mutex::default(),
        });
        let pods = Arc::new(Cache::<KubeletPod>::new(PODS));
        let own = Arc::clone(&nodes);
        pods.on_change(move |delta| own.take_in(delta));
        let own = Arc::clone(&nodes);
        nodes.volumes.on_change(move |claim| own.wake_users(claim));
        pods.start(cluster.as_ref(), env.spawner.as_ref(), metrics);
        nodes.volumes.claims.start(cluster.as_ref(), env.spawner.as_ref(), metrics);
        nodes.volumes.volumes.start(cluster.as_ref(), env.spawner.as_ref(), metrics);
        let (env, own) = (env.clone(), Arc::clone(&nodes));
        let spawner = Arc::clone(&env.spawner);
        let work = async move {
            // Only then are all addresses of pods known as allocated.
            pods.synced().await;
            own.volumes.synced().await;
            own.queue.start(&env, "node", WORKERS, &own);
        };
        spawner.spawn("node", Box::pin(work));
        nodes
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports pods again that another client reported as not ready while the node was considered lost. Call it with each heartbeat, and
    /// not at once: the node must be considered healthy first, or the two would contradict each other indefinitely.
    pub(super) fn insist(&self) {
        let contradicted = self.held().take_contradicted();
        contradicted.into_iter().for_each(|uid| self.queue.add(uid));
    }

    fn index_of(&self, node_name: &str) -> Option<u32> {
        if let Some(foreign) = &self.foreign {
            return foreign.get(node_name).copied();
        }
        let index = node_name.strip_prefix("node-")?.parse().ok()?;
        (index < self.count && node::name(index) == node_name).then_some(index)
    }

    fn take_in(&self, delta: &Delta<KubeletPod>) {
        let now = self.env.clock.now();
        match delta {
            Delta { new: Some(pod), .. } => {
                let Some(node) = self.index_of(&pod.node_name) else { return };
                if self.held().take_in(pod, node, || (self.habits)(pod), now) {
                    self.queue.add(pod.uid.clone());
                }
            }
            Delta { old: Some(pod), new: None } => self.held().forget(&pod.uid),
            Delta { old: None, new: None } => (),
        }
    }

    fn wake_users(&self, claim: &ObjectKey) {
        let users = self.held().users_of(claim);
        users.into_iter().for_each(|uid| self.queue.add(uid));
    }

    /// Retries the pods that wait for this ConfigMap or Secret.
    pub(super) fn wake_waiting(&self, resource: &GroupResource, key: &ObjectKey) {
        let waiting = self.held().waiting_for(resource, key);
        waiting.into_iter().for_each(|uid| self.queue.add(uid));
    }

    /// Whether a pod waits for an object of the resource.
    pub(super) fn waits_for_some(&self, resource: &GroupResource) -> bool {
        self.held().waits_for_some(resource)
    }

    async fn work_on(&self, uid: &Uid) -> ReconcileResult {
        if let Err(error) = self.prepare(uid).await {
            tracing::debug!(uid = &**uid, %error, "the objects that a pod requires could not be read; retrying");
            return ReconcileResult::failed(&error);
        }
        let now = self.env.clock.now();
        let (due, again) = self.held().advance(uid, now, self.shortest_reported);
        let done = match due {
            Due::Nothing => Ok(()),
            Due::Report(report) => self.report(uid, report).await,
            Due::EndIt(report) => self.end(&report, Ending::DeadlineExceeded).await,
            Due::LetGo(report) => self.let_go(&report).await,
        };
        match (done, again) {
            // The pod has another version than the one of the decision, or is another pod of that name. The cache will report it.
            (Err(ClusterError::Conflict(_)), _) => ReconcileResult::Backoff,
            // The pod was deleted: the cache will report it.
            (Ok(()) | Err(ClusterError::NotFound(_)), Some(at)) => ReconcileResult::RequeueAt(at),
            (Ok(()) | Err(ClusterError::NotFound(_)), None) => ReconcileResult::Done,
            (Err(error), _) => {
                tracing::warn!(uid = &**uid, %error, "a simulated node could not write");
                ReconcileResult::failed(&error)
            }
        }
    }

    /// Ensures that the pod has what it needs for its next step. A pod that lacks something stays in its stage.
    async fn prepare(&self, uid: &Uid) -> Result<(), ClusterError> {
        let next = self.held().next_step(uid, self.env.clock.now());
        let Some((pod, step)) = next else { return Ok(()) };
        let references = if step == Step::Mount { pod.mounts_references } else { pod.reads_references };
        if references && !self.has_references(uid, &pod, step).await? {
            return Ok(());
        }
        if step == Step::Mount {
            let contents = self.volumes.mount(&*self.cluster, &*self.env.rng, &pod.namespace, &pod.claims).await?;
            if let Some(contents) = contents {
                self.held().mounted(uid, contents, self.env.clock.now());
            }
        }
        Ok(())
    }

    /// Whether the ConfigMaps and Secrets that the step needs exist. If not, the pod waits for them, and events report it.
    async fn has_references(&self, uid: &Uid, pod: &KubeletPod, step: Step) -> Result<bool, ClusterError> {
        let references = pod.references().map_err(|error| ClusterError::Refused(error.to_string()))?;
        let objects = references.objects(step);
        let mut found = self.sources.find(&*self.cluster, &pod.namespace, &objects).await?;
        let mut faults = references.faults(step, &pod.namespace, &found);
        if !faults.is_empty() {
            // Later changes wake the pod, and the second read finds earlier ones.
            self.held().wait_for(pod, &objects);
            self.sources.wanted.notify(usize::MAX);
            let again = self.sources.find(&*self.cluster, &pod.namespace, &objects).await;
            found = again.inspect_err(|_| self.held().stop_waiting(pod, &objects))?;
            faults = references.faults(step, &pod.namespace, &found);
        }
        let now = self.env.clock.now();
        if step == Step::Create && self.held().is_first_start(uid) {
            self.report_missing_pull_secrets(pod, &references.missing_pull_secrets(&found));
        }
        if faults.is_empty() {
            self.held().release(pod, step, &objects, now);
        } else if self.held().hold(pod, (step, &faults), objects, now) {
            self.report_faults(pod, step, &faults);
        }
        Ok(faults.is_empty())
    }

    async fn report(&self, uid: &Uid, report: Report) -> Result<(), ClusterError> {
        let Report { pod, stage, contents, .. } = &report;
        let inputs = self.inputs(&report);
        let Some(part) = status(pod, &written(pod)?, stage, &inputs, self.env.clock.now()) else { return Ok(()) };
        if contents.is_empty() {
            self.cluster.put_status(part).await?;
        } else {
            let mut patch = part.to_patch();
            patch["metadata"]["annotations"] = json!({CONTENT_IDS: contents.text()});
            self.cluster.patch(PODS, &pod.key(), Some(Subresource::Status), patch).await?;
        }
        self.report_news(&report);
        self.held().reported(uid, &report);
        Ok(())
    }

    fn inputs<'a>(&'a self, report: &'a Report) -> StatusInputs<'a> {
        StatusInputs {
            behavior: &report.behavior,
            host_ip: node::address(report.node),
            pod_ip: report.address.as_deref(),
            missing: &self.shape.missing_images,
            faults: &report.faults,
        }
    }

    async fn let_go(&self, report: &Report) -> Result<(), ClusterError> {
        let pod = &report.pod;
        // A pod that has ended no longer counts. A pod of a controller keeps its capacity until it is deleted, so that there are never more pods than
        // the controller's limits allow. A plan does not read it.
        let is_read = pod.has_finalizers || (!pod.has_owner && self.foreign.is_none());
        if is_read && !pod.status.finished {
            self.end(report, Ending::Deleted).await?;
        }
        let params = DeleteParams { uid: Some(pod.uid.clone()), grace_period_seconds: Some(0), ..DeleteParams::default() };
        self.cluster.delete(PODS, &pod.key(), params).await.map(drop)
    }

    /// Reports how the pod's containers ended.
    async fn end(&self, report: &Report, ending: Ending) -> Result<(), ClusterError> {
        let pod = &report.pod;
        let lives = (&report.stage, &self.inputs(report));
        self.cluster.put_status(ended(pod, &written(pod)?, lives, ending, self.env.clock.now())).await?;
        if ending == Ending::DeadlineExceeded {
            self.record(pod, Severity::Normal, DEADLINE_REASON, DEADLINE_MESSAGE.to_owned());
        }
        Ok(())
    }

    fn report_news(&self, report: &Report) {
        let Report { pod, stage, news, .. } = report;
        if let PodStage::PullFailing { backs_off, .. } = stage
            && report.is_news
        {
            return self.report_pull_failing(pod, *backs_off);
        }
        let all = || pod.init_containers.iter().chain(pod.containers.iter());
        let name = |index: usize| all().nth(index).map(|container| container.name.as_str());
        let started = news.iter().filter_map(|news| if let News::Started(index) = news { name(*index) } else { None });
        let started = started.collect::<Vec<_>>().join(", ");
        if !started.is_empty() {
            self.record(pod, Severity::Normal, "Started", format!("Started container {started}"));
        }
        for name in news.iter().filter_map(|news| if let News::BacksOff(index) = news { name(*index) } else { None }) {
            let message = format!("Back-off restarting failed container {name} in pod {}", pod.name);
            self.record(pod, Severity::Warning, "BackOff", message);
        }
        if report.is_news && matches!(stage, PodStage::Active(lives) if lives.are_never_ready()) {
            self.record(pod, Severity::Warning, "Unhealthy", "Readiness probe failed".to_owned());
        }
    }

    /// As a kubelet, reports the first init container whose image is missing, otherwise each container whose image is.
    fn report_pull_failing(&self, pod: &KubeletPod, backs_off: bool) {
        let missing = &self.shape.missing_images;
        let first = pod.init_containers.iter().find(|container| missing.fails(pod, container));
        let failing = pod.containers.iter().filter(|container| first.is_none() && missing.fails(pod, container));
        for image in first.into_iter().chain(failing).map(|container| &container.image) {
            if backs_off {
                self.record(pod, Severity::Normal, "BackOff", backing_off(image));
                self.record(pod, Severity::Warning, "Failed", "Error: ImagePullBackOff".to_owned());
            } else {
                self.record(pod, Severity::Normal, "Pulling", format!("Pulling image \"{image}\""));
                self.record(pod, Severity::Warning, "Failed", format!("Failed to pull image \"{image}\": {}", pull_error(image)));
                self.record(pod, Severity::Warning, "Failed", "Error: ErrImagePull".to_owned());
            }
        }
    }

    /// As a kubelet, reports after each attempt.
    fn report_faults(&self, pod: &KubeletPod, step: Step, faults: &Faults) {
        for (name, message) in faults {
            match step {
                Step::Mount => {
                    self.record(pod, Severity::Warning, "FailedMount", format!("MountVolume.SetUp failed for volume {name:?} : {message}"));
                }
                Step::Create => self.record(pod, Severity::Warning, "Failed", format!("Error: {message}")),
            }
        }
    }

    fn report_missing_pull_secrets(&self, pod: &KubeletPod, missing: &[&str]) {
        if missing.is_empty() {
            return;
        }
        let names = missing.join(", ");
        let message = format!("Unable to retrieve some image pull secrets ({names}); attempting to pull the image may not succeed.");
        let event = about_pod(pod.key(), &pod.uid, Severity::Warning, "FailedToRetrieveImagePullSecret", message);
        self.recorder.record(&EventRecord { repeat: Repeat::Once, ..event });
    }

    fn record(&self, pod: &KubeletPod, severity: Severity, reason: &'static str, message: String) {
        self.recorder.record(&about_pod(pod.key(), &pod.uid, severity, reason, message));
    }
}

impl Reconcile<Uid> for Nodes {
    fn reconcile<'a>(&'a self, key: &'a Uid) -> BoxFuture<'a, ReconcileResult> {
        Box::pin(self.work_on(key))
    }
}

fn written(pod: &KubeletPod) -> Result<WrittenStatus, ClusterError> {
    pod.written_status().map_err(|error| ClusterError::Refused(error.to_string()))
}
