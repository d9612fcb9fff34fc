//! The scheduler's loop: changes go onto the board, decisions go to the cluster.

use super::{
    board::{Board, Placement},
    view::{NodeView, PodView},
};
use crate::about::about_pod;
use berth_api::k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use berth_controllers::{
    Cluster, ObjectName, ResourceName,
    cache::{Cache, Delta, Warm},
    events::Recorder,
    metrics::Metrics,
    volume_binder::{CLAIMS, CLASSES, ClassCache},
};
use berth_registry::{ApiError, Subresource};
use berth_store::env::Env;
use berth_workloads::{
    plan::Severity,
    volume_binding::{ClaimView, ClassView, SELECTED_NODE},
};
use event_listener::Event;
use futures::{StreamExt, stream};
use serde_json::json;
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

const PODS: ResourceName = ResourceName { group: "", plural: "pods" };
const NODES: ResourceName = ResourceName { group: "", plural: "nodes" };

/// How many pods are decided about before their bindings are sent: what fills a few group commits.
const BATCH: usize = 256;

/// How many bindings are under way at once.
const BINDINGS: usize = 64;

/// The scheduler.
pub struct Scheduler {
    cluster: Arc<dyn Cluster>,
    env: Env,
    recorder: Recorder,
    board: Mutex<Board>,
    changed: Event,
}

impl Scheduler {
    /// Starts it; it runs for ever.
    pub fn start(cluster: &Arc<dyn Cluster>, env: &Env, recorder: &Recorder, metrics: &Arc<Metrics>) {
        let scheduler = Arc::new(Self {
            cluster: Arc::clone(cluster),
            env: env.clone(),
            recorder: recorder.of("default-scheduler"),
            board: Mutex::default(),
            changed: Event::new(),
        });
        let pods = Arc::new(Cache::<PodView>::new(PODS));
        let nodes = Arc::new(Cache::<NodeView>::new(NODES));
        let own = Arc::clone(&scheduler);
        pods.on_change(move |delta| own.take_in(delta, Board::set_pod, Board::remove_pod));
        let own = Arc::clone(&scheduler);
        nodes.on_change(move |delta| own.take_in(delta, Board::set_node, |board, node| board.remove_node(&node.name)));
        let (claims, classes) = (Arc::new(Cache::<ClaimView>::new(CLAIMS)), Arc::new(ClassCache::new(CLASSES)));
        let own = Arc::clone(&scheduler);
        claims.on_change(move |delta| own.take_in(delta, Board::set_claim, Board::remove_claim));
        let own = Arc::clone(&scheduler);
        classes.on_change(move |delta| own.take_in(delta, |board, class: Arc<ClassView>| board.set_class(&class), Board::remove_class));
        let (cluster, spawner) = (cluster.as_ref(), env.spawner.as_ref());
        nodes.start(cluster, spawner, metrics);
        pods.start(cluster, spawner, metrics);
        claims.start(cluster, spawner, metrics);
        classes.start(cluster, spawner, metrics);
        spawner.spawn("scheduler", Box::pin(async move { scheduler.run([&*classes, &*claims, &*nodes, &*pods]).await }));
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a change onto the board.
    fn take_in<V>(&self, delta: &Delta<V>, set: impl FnOnce(&mut Board, Arc<V>), remove: impl FnOnce(&mut Board, &V)) {
        match delta {
            Delta { new: Some(new), .. } => set(&mut self.board(), Arc::clone(new)),
            Delta { old: Some(old), new: None } => remove(&mut self.board(), old),
            Delta { old: None, new: None } => (),
        }
        self.changed.notify(1);
    }

    async fn run(&self, caches: [&dyn Warm; 4]) {
        // What is bound already must be on the board before the first decision.
        for cache in caches {
            cache.warm().await;
        }
        loop {
            let changed = self.changed.listen();
            let placements = self.board().decide(BATCH);
            if placements.is_empty() {
                changed.await;
                continue;
            }
            stream::iter(placements).for_each_concurrent(BINDINGS, |placement| self.carry_out(placement)).await;
        }
    }

    async fn carry_out(&self, placement: Placement) {
        match placement {
            Placement::Node(pod, node) => self.bind(&pod, &node).await,
            Placement::Volumes(pod, node, claims) => self.select_node(&pod, &node, &claims).await,
            Placement::Nowhere(pod, message) => self.report(&pod, &message).await,
        }
    }

    async fn bind(&self, pod: &Arc<PodView>, node: &str) {
        match self.cluster.bind(&name(pod), &pod.uid, node).await {
            Ok(_) => {
                let message = format!("Successfully assigned {}/{} to {node}", pod.namespace, pod.name);
                self.record(pod, Severity::Normal, "Scheduled", message);
            }
            Err(error) => self.give_back(pod, &error).await,
        }
    }

    /// Tells the claims that they get their volumes for pods of that node. The pod is bound when they have them.
    async fn select_node(&self, pod: &Arc<PodView>, node: &str, claims: &[Arc<ClaimView>]) {
        for claim in claims.iter().filter(|claim| claim.selected_node() != Some(node)) {
            let name = ObjectName { resource: CLAIMS, namespace: claim.meta.namespace.clone(), name: claim.meta.name.clone() };
            let patch = json!({"metadata": {
                "uid": claim.meta.uid, "resourceVersion": claim.meta.revision.to_string(), "annotations": {SELECTED_NODE: node},
            }});
            if let Err(error) = self.cluster.patch(&name, None, patch).await {
                return self.give_back(pod, &error).await;
            }
        }
    }

    async fn give_back(&self, pod: &Arc<PodView>, error: &ApiError) {
        if !matches!(error, ApiError::NotFound { .. } | ApiError::Conflict { .. }) {
            tracing::warn!(namespace = pod.namespace, pod = pod.name, %error, "a binding failed");
        }
        // By then the caches tell whether the pod is gone, bound by somebody else, or still without a node, and how its claims are.
        self.env.clock.sleep_until(self.env.clock.now() + RETRY_AFTER).await;
        self.board().give_back(pod);
    }

    async fn report(&self, pod: &PodView, message: &str) {
        if pod.unschedulable_message.as_deref() == Some(message) {
            return;
        }
        self.record(pod, Severity::Warning, "FailedScheduling", message.to_owned());
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
            "lastProbeTime": null, "lastTransitionTime": Time(self.env.clock.now()),
        });
        let patch = json!({"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}});
        match self.cluster.patch(&name(pod), Some(Subresource::Status), patch).await {
            Ok(_) | Err(ApiError::NotFound { .. } | ApiError::Conflict { .. }) => (),
            Err(error) => tracing::warn!(namespace = pod.namespace, pod = pod.name, %error, "a pod's condition could not be written"),
        }
    }

    fn record(&self, pod: &PodView, severity: Severity, reason: &'static str, message: String) {
        self.recorder.record(&about_pod(&pod.namespace, &pod.name, &pod.uid, severity, reason, message));
    }
}

/// How long a binding that failed for no reason of the pod's is held back.
const RETRY_AFTER: Duration = Duration::from_millis(100);

fn name(pod: &PodView) -> ObjectName {
    ObjectName { resource: PODS, namespace: pod.namespace.clone(), name: pod.name.clone() }
}
