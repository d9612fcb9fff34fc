//! The simulated nodes' loop: pods come in by the cache, stages move on by the clock, statuses and deletions go to the cluster.

use super::{
    addresses::Addresses,
    behaviour::{Behaviour, Latencies},
    heartbeat,
    images::{MissingImages, pull_error},
    node::{self, NodeShape},
    stage::{PodStage, begin, due, images_changed, mounted, step, terminating},
    status::{Place, backing_off, ended, status},
    view::{KubeletPod, WrittenStatus},
    volumes::{Contents, Volumes},
};
use crate::about::about_pod;
use berth_api::{Subresource, annotations::CONTENT_IDS};
use berth_controllers::{
    Cluster, ClusterError, DeleteParams,
    cache::{Cache, Delta, Warm},
    events::Recorder,
    metrics::Metrics,
    worker::{Looked, Queue, Reconcile},
};
use berth_identity::{Lookup, ObjectKey, Uid};
use berth_store::env::Env;
use berth_workloads::{plan::Severity, resources::PODS, view::View};
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// How many pods are worked on at once: what fills a group commit.
const WORKERS: usize = 64;

/// `ContainerCreating` is reported only if it lasts this long: a shorter stage is one write more that nobody sees.
const SHORTEST_REPORTED: Duration = Duration::from_millis(50);

/// In a plan it is reported where the containers take so long that somebody would ask why. Nothing is decided by it, and it was a sixth of all writes.
const SHORTEST_PLANNED: Duration = Duration::from_secs(30);

/// What each pod does on its node.
pub type Habits = Box<dyn Fn(&KubeletPod) -> Behaviour + Send + Sync>;

/// Nodes that are there already: another cluster's, in a plan of what will happen in it.
pub struct ForeignNodes {
    /// Their names.
    pub names: Vec<String>,
    /// Images that they cannot pull.
    pub missing_images: MissingImages,
    /// What their pods do.
    pub habits: Habits,
}

/// All simulated nodes of a cluster.
pub struct Nodes {
    pub(super) cluster: Arc<dyn Cluster>,
    pub(super) env: Env,
    pub(super) count: u32,
    pub(super) shape: NodeShape,
    /// The nodes of another cluster, by name; `None`: `count` nodes of the shape.
    foreign: Option<BTreeMap<String, u32>>,
    /// How long `ContainerCreating` lasts at least where it is reported.
    shortest_told: Duration,
    recorder: Recorder,
    habits: Habits,
    queue: Queue<Uid>,
    volumes: Volumes,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    /// Boxed: the places in a map are never all taken.
    pods: Lookup<Uid, Box<HeldPod>>,
    /// Pods whose volumes are not mounted, by claim.
    mounting: BTreeMap<ObjectKey, BTreeSet<Uid>>,
    /// Pods that a newer version said not to be ready although they had been reported so.
    contradicted: BTreeSet<Uid>,
    addresses: Addresses,
}

/// A pod on a node.
struct HeldPod {
    view: Arc<KubeletPod>,
    node: u32,
    behaviour: Behaviour,
    stage: PodStage,
    /// The stage that the pod's status shows; `None`: unknown, so it is written.
    reported: Option<PodStage>,
    address: Option<Box<str>>,
    /// What it found in its volumes.
    contents: Contents,
}

/// What is to be done for one pod now.
enum Due {
    Nothing,
    Report { pod: Arc<KubeletPod>, stage: PodStage, node: u32, address: Option<Box<str>>, contents: Contents },
    LetGo { pod: Arc<KubeletPod> },
}

impl Nodes {
    /// Registers `count` nodes and runs the pods that are bound to them, for ever.
    pub fn start(
        cluster: &Arc<dyn Cluster>,
        env: &Env,
        recorder: &Recorder,
        metrics: &Arc<Metrics>,
        (count, shape, latencies): (u32, NodeShape, Latencies),
    ) {
        let missing = shape.missing_images.clone();
        let habits: Habits = Box::new(move |pod| Behaviour::of(pod, latencies, &missing));
        let nodes = Self::begin(cluster, env, recorder, metrics, (count, shape, None, habits));
        heartbeat::start(&nodes, metrics);
    }

    /// Runs the pods that are bound to the nodes of another cluster, for ever. Those are there: nobody registers them, or says that they are well.
    pub fn take_on(cluster: &Arc<dyn Cluster>, env: &Env, recorder: &Recorder, metrics: &Arc<Metrics>, foreign: ForeignNodes) {
        let ForeignNodes { names, missing_images, habits } = foreign;
        let shape = NodeShape { missing_images, ..NodeShape::new("0", "0", 0) };
        drop(Self::begin(cluster, env, recorder, metrics, (0, shape, Some(names.into_iter().zip(0..).collect()), habits)));
    }

    fn begin(
        cluster: &Arc<dyn Cluster>,
        env: &Env,
        recorder: &Recorder,
        metrics: &Arc<Metrics>,
        (count, shape, foreign, habits): (u32, NodeShape, Option<BTreeMap<String, u32>>, Habits),
    ) -> Arc<Self> {
        let nodes = Arc::new(Self {
            cluster: Arc::clone(cluster),
            env: env.clone(),
            count,
            shape,
            shortest_told: if foreign.is_some() { SHORTEST_PLANNED } else { SHORTEST_REPORTED },
            foreign,
            recorder: recorder.of("kubelet"),
            habits,
            queue: Queue::new("node", Arc::clone(&env.clock), metrics),
            volumes: Volumes::default(),
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
            // Only then all addresses that pods have are known as taken.
            pods.warm().await;
            own.volumes.warm().await;
            own.queue.start(&env, "node", WORKERS, &own);
        };
        spawner.spawn("node", Box::pin(work));
        nodes
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports pods again that others said not to be ready while the node counted as lost. To be called with each heartbeat, and not at once: the
    /// node must count as well first, or the two would contradict each other without end.
    pub(super) fn insist(&self) {
        let mut held = self.held();
        for uid in std::mem::take(&mut held.contradicted) {
            if let Some(pod) = held.pods.get_mut(&uid).filter(|pod| pod.is_contradicted()) {
                pod.reported = None;
                self.queue.add(uid);
            }
        }
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
        self.held().mounting.get(claim).into_iter().flatten().for_each(|uid| self.queue.add(uid.clone()));
    }

    async fn work_on(&self, uid: &Uid) -> Looked {
        if let Err(error) = self.mount(uid).await {
            tracing::debug!(uid = &**uid, %error, "a volume could not be mounted; trying again");
            return Looked::Failed;
        }
        let now = self.env.clock.now();
        let (due, again) = self.held().advance(uid, now, self.shortest_told);
        let done = match due {
            Due::Nothing => Ok(()),
            Due::Report { pod, stage, node, address, contents } => {
                self.report(uid, &pod, (stage, &contents), node, address.as_deref()).await
            }
            Due::LetGo { pod } => self.let_go(&pod).await,
        };
        match (done, again) {
            // It is another version than what was decided by, or another pod of that name: the cache will show it.
            (Err(ClusterError::Conflict(_)), _) => Looked::Failed,
            // Gone: the cache will tell.
            (Ok(()) | Err(ClusterError::NotFound(_)), Some(at)) => Looked::Again(at),
            (Ok(()) | Err(ClusterError::NotFound(_)), None) => Looked::Finished,
            (Err(error), _) => {
                tracing::warn!(uid = &**uid, %error, "a simulated node could not write");
                Looked::failed(&error)
            }
        }
    }

    /// Mounts the pod's volumes, if that is what it waits for and they are there.
    async fn mount(&self, uid: &Uid) -> Result<(), ClusterError> {
        let Some(pod) = self.held().mounting_pod(uid) else { return Ok(()) };
        let contents = self.volumes.mount(&*self.cluster, &*self.env.rng, &pod.namespace, &pod.claims).await?;
        if let Some(contents) = contents {
            self.held().mounted(uid, contents, self.env.clock.now());
        }
        Ok(())
    }

    async fn report(
        &self,
        uid: &Uid,
        pod: &KubeletPod,
        (stage, contents): (PodStage, &Contents),
        node: u32,
        address: Option<&str>,
    ) -> Result<(), ClusterError> {
        let place = Place { host_ip: &node::address(node), pod_ip: address };
        let missing = &self.shape.missing_images;
        let Some(part) = status(pod, &written(pod)?, &stage, &place, missing, self.env.clock.now()) else { return Ok(()) };
        if contents.is_empty() {
            self.cluster.put_status(part).await?;
        } else {
            let mut patch = part.to_patch();
            patch["metadata"]["annotations"] = json!({CONTENT_IDS: contents.text()});
            self.cluster.patch(PODS, &pod.key(), Some(Subresource::Status), patch).await?;
        }
        self.tell(pod, &stage);
        if let Some(held) = self.held().pods.get_mut(uid) {
            held.reported = Some(stage);
        }
        Ok(())
    }

    async fn let_go(&self, pod: &KubeletPod) -> Result<(), ClusterError> {
        if pod.has_finalizers && !pod.status.finished {
            let metadata = json!({"uid": pod.uid, "resourceVersion": pod.revision.to_string()});
            let patch = json!({"metadata": metadata, "status": ended(&written(pod)?, self.env.clock.now())});
            self.cluster.patch(PODS, &pod.key(), Some(Subresource::Status), patch).await?;
        }
        let params = DeleteParams { uid: Some(pod.uid.clone()), grace_period_seconds: Some(0), ..DeleteParams::default() };
        self.cluster.delete(PODS, &pod.key(), params).await.map(drop)
    }

    fn tell(&self, pod: &KubeletPod, stage: &PodStage) {
        let names = pod.containers.iter().map(|container| container.name.as_str()).collect::<Vec<_>>().join(", ");
        if let PodStage::PullFailing { backs_off, .. } = stage {
            return self.tell_pull_failing(pod, *backs_off);
        }
        let (severity, reason, message) = match stage {
            PodStage::Running { restarts: 0, ready, ready_at, .. } if *ready || ready_at.is_some() => {
                (Severity::Normal, "Started", format!("Started container {names}"))
            }
            PodStage::CrashLoop { .. } => {
                (Severity::Warning, "BackOff", format!("Back-off restarting failed container {names} in pod {}", pod.name))
            }
            PodStage::Running { ready: false, ready_at: None, crashes_at: None, .. } => {
                (Severity::Warning, "Unhealthy", "Readiness probe failed".to_owned())
            }
            _ => return,
        };
        self.record(pod, severity, reason, message);
    }

    /// As a kubelet: of the first init container whose image is missing, or else of each container whose is.
    fn tell_pull_failing(&self, pod: &KubeletPod, backs_off: bool) {
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

    fn record(&self, pod: &KubeletPod, severity: Severity, reason: &'static str, message: String) {
        self.recorder.record(&about_pod(pod.key(), &pod.uid, severity, reason, message));
    }
}

impl Reconcile<Uid> for Nodes {
    fn look<'a>(&'a self, key: &'a Uid) -> BoxFuture<'a, Looked> {
        Box::pin(self.work_on(key))
    }
}

impl Held {
    /// Takes in a version of a pod; gives whether there is something to do for it.
    fn take_in(&mut self, pod: &Arc<KubeletPod>, node: u32, behaviour: impl Fn() -> Behaviour, now: Timestamp) -> bool {
        if pod.status.finished && pod.deletion_deadline.is_none() {
            // Also if somebody else has ended it: no phase follows the last.
            self.forget(&pod.uid);
            return false;
        }
        if let Some(held) = self.pods.get_mut(&pod.uid) {
            let due = held.update(pod, behaviour, now);
            if held.is_contradicted() {
                self.contradicted.insert(pod.uid.clone());
            }
            return due;
        }
        if let Some(address) = &pod.status.pod_ip {
            self.addresses.note(address);
        }
        let behaviour = behaviour();
        let stage = begin(pod, &behaviour, now);
        // What a status shows already need not be written again.
        let reported = matches!(stage, PodStage::Running { .. }).then(|| stage.clone());
        if stage == PodStage::Mounting {
            for claim in claims(pod) {
                self.mounting.entry(claim).or_default().insert(pod.uid.clone());
            }
        }
        let (view, address, contents) = (Arc::clone(pod), pod.status.pod_ip.clone(), Contents::default());
        let held = HeldPod { view, node, behaviour, stage, reported, address, contents };
        self.pods.insert(pod.uid.clone(), Box::new(held));
        true
    }

    fn forget(&mut self, uid: &str) {
        let Some(held) = self.pods.remove(uid) else { return };
        self.forget_mounting(uid, &held.view);
        if let Some(address) = held.address {
            self.addresses.give_back(&address);
        }
    }

    fn forget_mounting(&mut self, uid: &str, pod: &KubeletPod) {
        for claim in claims(pod) {
            if let Some(users) = self.mounting.get_mut(&claim) {
                users.remove(uid);
                if users.is_empty() {
                    self.mounting.remove(&claim);
                }
            }
        }
    }

    /// The pod, if it waits for its volumes.
    fn mounting_pod(&self, uid: &str) -> Option<Arc<KubeletPod>> {
        let held = self.pods.get(uid).filter(|held| held.stage == PodStage::Mounting)?;
        Some(Arc::clone(&held.view))
    }

    fn mounted(&mut self, uid: &str, contents: Contents, now: Timestamp) {
        // It may have been told to go meanwhile.
        let Some(held) = self.pods.get_mut(uid).filter(|held| held.stage == PodStage::Mounting) else { return };
        held.stage = mounted(&held.behaviour, now);
        held.contents = contents;
        let pod = Arc::clone(&held.view);
        self.forget_mounting(uid, &pod);
    }

    /// Moves a pod's stage on to `now`; gives what is to be done and when to look again.
    fn advance(&mut self, uid: &Uid, now: Timestamp, shortest_told: Duration) -> (Due, Option<Timestamp>) {
        let Some(held) = self.pods.get_mut(uid) else { return (Due::Nothing, None) };
        let probed = held.view.has_readiness_probe();
        while let Some(next) = step(&held.stage, &held.behaviour, probed, now) {
            held.stage = next;
        }
        let again = due(&held.stage);
        let pod = Arc::clone(&held.view);
        if held.stage == PodStage::Gone {
            return (Due::LetGo { pod }, None);
        }
        if held.reported.as_ref() == Some(&held.stage)
            || held.passes_soon(now, shortest_told)
            || matches!(held.stage, PodStage::Terminating { .. })
        {
            return (Due::Nothing, again);
        }
        if held.address.is_none()
            && matches!(held.stage, PodStage::Running { .. } | PodStage::CrashLoop { .. } | PodStage::PullFailing { .. })
        {
            held.address = Some(self.addresses.take().into());
        }
        let (stage, node, address, contents) = (held.stage.clone(), held.node, held.address.clone(), held.contents.clone());
        (Due::Report { pod, stage, node, address, contents }, again)
    }
}

impl HeldPod {
    /// Whether something is to be done for the pod because of its new version.
    fn update(&mut self, pod: &Arc<KubeletPod>, behaviour: impl FnOnce() -> Behaviour, now: Timestamp) -> bool {
        let shortened = pod.deletion_deadline != self.view.deletion_deadline;
        let old = std::mem::replace(&mut self.view, Arc::clone(pod));
        if !shortened || pod.deletion_deadline.is_none() {
            // What a pod does is settled when it comes, but for an image that could not be pulled and is another one now.
            if images(&old).eq(images(pod)) {
                return false;
            }
            let behaviour = behaviour();
            let Some(stage) = images_changed(&self.stage, &behaviour, now) else { return false };
            self.behaviour.pull_fails = behaviour.pull_fails;
            self.stage = stage;
            return true;
        }
        let stage = terminating(pod, &self.behaviour, now);
        // A later delete may shorten what is left, never lengthen it.
        if due(&self.stage).is_none_or(|at| !matches!(self.stage, PodStage::Terminating { .. }) || due(&stage) < Some(at)) {
            self.stage = stage;
        }
        true
    }

    fn is_contradicted(&self) -> bool {
        matches!(self.stage, PodStage::Running { ready: true, .. })
            && self.reported.as_ref() == Some(&self.stage)
            && !self.view.status.ready
    }

    fn passes_soon(&self, now: Timestamp, shortest_told: Duration) -> bool {
        matches!(self.stage, PodStage::Creating { runs_at, .. } if runs_at < now + shortest_told)
    }
}

fn images(pod: &KubeletPod) -> impl Iterator<Item = &str> {
    pod.init_containers.iter().chain(pod.containers.iter()).map(|container| container.image.as_str())
}

fn written(pod: &KubeletPod) -> Result<WrittenStatus, ClusterError> {
    pod.written_status().map_err(|error| ClusterError::Refused(error.to_string()))
}

fn claims(pod: &KubeletPod) -> impl Iterator<Item = ObjectKey> + '_ {
    pod.claims.values().map(|claim| ObjectKey::new(&pod.namespace, claim))
}
