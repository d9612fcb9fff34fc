//! The scheduler's loop: changes go onto the board, decisions go to the cluster.

use super::{
    board::{Board, MakeRoom, Placement},
    claims::ClaimChoice,
    defaults::SelectorView,
    selecting_kind::SelectingKind,
    view::{NamespaceView, NodeView, PREEMPTED, PodInfo},
};
use crate::about::about_pod;
use berth_api::{
    Subresource,
    decode::Codec,
    k8s_openapi::{
        api::core::v1::{Pod, PodCondition},
        apimachinery::pkg::apis::meta::v1::Time,
    },
};
use berth_controllers::{
    Cluster, ClusterError, DeleteParams, RawObject,
    cache::{AnyCache, Cache, Delta},
    events::Recorder,
    metrics::{Metrics, RunningAges, RunningWork},
    panics::{Panicked, caught},
};
use berth_env::Env;
use berth_workloads::{
    plan::Severity,
    resources::{
        BUDGETS, CLAIMS, CLASSES, NAMESPACES, NODES, PODS, REPLICA_SETS, REPLICATION_CONTROLLERS, SERVICES, STATEFUL_SETS, VOLUMES,
    },
    view::View,
    volume_binding::{SELECTED_NODE, claim::reservation},
};
use event_listener::Event;
use futures::{StreamExt, stream};
use jiff::Timestamp;
use prometheus::IntCounter;
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// How many pods are decided about before their bindings are sent: what fills a few group commits.
const BATCH: usize = 256;

/// How often a pod to evict is read again because another client has written it.
const MARK_ATTEMPTS: u32 = 5;

/// How many bindings are under way at once.
const BINDINGS: usize = 64;

/// The scheduler.
pub struct Scheduler {
    cluster: Arc<dyn Cluster>,
    env: Env,
    recorder: Recorder,
    board: Mutex<Board>,
    changed: Event,
    panics: IntCounter,
    /// Since when a batch is being executed.
    busy_since: Mutex<Option<Timestamp>>,
}

/// Starts caches whose changes go onto the board.
struct Follow<'a> {
    scheduler: &'a Arc<Scheduler>,
    cluster: &'a dyn Cluster,
    env: &'a Env,
    metrics: &'a Arc<Metrics>,
}

impl Follow<'_> {
    fn start<V: View>(
        &self,
        cache: Cache<V>,
        set: impl Fn(&mut Board, Arc<V>) + Send + Sync + 'static,
        remove: impl Fn(&mut Board, &V) + Send + Sync + 'static,
    ) -> Arc<dyn AnyCache> {
        let (cache, scheduler) = (Arc::new(cache), Arc::clone(self.scheduler));
        cache.on_change(move |delta| scheduler.take_in(delta, &set, &remove));
        cache.start(self.cluster, self.env.spawner.as_ref(), self.metrics);
        cache
    }
}

impl RunningWork for Scheduler {
    fn ages(&self) -> RunningAges {
        let since = *self.busy_since.lock().unwrap_or_else(PoisonError::into_inner);
        let age = since.and_then(|since| Duration::try_from(self.env.clock.now().duration_since(since)).ok()).unwrap_or_default();
        RunningAges { sum: age, longest: age }
    }
}

impl Scheduler {
    /// Starts it. It runs indefinitely.
    pub fn start(cluster: &Arc<dyn Cluster>, env: &Env, recorder: &Recorder, metrics: &Arc<Metrics>) {
        let scheduler = Arc::new(Self {
            cluster: Arc::clone(cluster),
            env: env.clone(),
            recorder: recorder.of("default-scheduler"),
            board: Mutex::default(),
            changed: Event::new(),
            panics: metrics.panics_of("scheduler"),
            busy_since: Mutex::default(),
        });
        let running: Arc<dyn RunningWork> = Arc::<Self>::clone(&scheduler);
        metrics.follow("scheduler", Arc::downgrade(&running));
        let follow = Follow { scheduler: &scheduler, cluster: cluster.as_ref(), env, metrics };
        let decode_map = |raw: &RawObject| SelectorView::decode_map(&raw.json);
        let selecting = [
            (SelectingKind::Service, Cache::decoding(SERVICES, decode_map)),
            (SelectingKind::ReplicationController, Cache::decoding(REPLICATION_CONTROLLERS, decode_map)),
            (SelectingKind::ReplicaSet, Cache::new(REPLICA_SETS)),
            (SelectingKind::StatefulSet, Cache::new(STATEFUL_SETS)),
        ];
        let mut caches: Vec<Arc<dyn AnyCache>> = Vec::new();
        for (kind, cache) in selecting {
            let set = move |board: &mut Board, view: Arc<SelectorView>| board.set_selector(kind, &view);
            caches.push(follow.start(cache, set, move |board, view| board.remove_selector(kind, view)));
        }
        let set_namespace = |board: &mut Board, view: Arc<NamespaceView>| board.set_namespace(&view);
        caches.push(follow.start(Cache::new(NAMESPACES), set_namespace, Board::remove_namespace));
        caches.push(follow.start(Cache::new(CLASSES), Board::set_class, Board::remove_class));
        caches.push(follow.start(Cache::new(VOLUMES), Board::set_volume, Board::remove_volume));
        caches.push(follow.start(Cache::new(CLAIMS), Board::set_claim, Board::remove_claim));
        caches.push(follow.start(Cache::new(BUDGETS), Board::set_budget, Board::remove_budget));
        caches.push(follow.start(Cache::new(NODES), Board::set_node, |board: &mut Board, node: &NodeView| board.remove_node(&node.name)));
        caches.push(follow.start(Cache::new(PODS), Board::set_pod, Board::remove_pod));
        env.spawner.spawn("scheduler", Box::pin(async move { scheduler.run(&caches).await }));
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_busy_since(&self, since: Option<Timestamp>) {
        *self.busy_since.lock().unwrap_or_else(PoisonError::into_inner) = since;
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

    async fn run(&self, caches: &[Arc<dyn AnyCache>]) {
        // What is bound already must be on the board before the first decision.
        for cache in caches {
            cache.synced().await;
        }
        loop {
            let changed = self.changed.listen();
            let placements = self.board().decide(BATCH);
            if placements.is_empty() {
                changed.await;
                continue;
            }
            self.set_busy_since(Some(self.env.clock.now()));
            stream::iter(placements).for_each_concurrent(BINDINGS, |placement| self.execute_or_give_back(placement)).await;
            self.set_busy_since(None);
        }
    }

    /// A placement that panics has failed: its pod is requeued after a moment.
    async fn execute_or_give_back(&self, placement: Placement) {
        let Err(Panicked(text)) = caught(self.execute(&placement)).await else { return };
        self.panics.inc();
        let pod = placement.pod();
        tracing::error!(controller = "scheduler", key = ?pod.key(), panic = ?text, "a placement panicked; retrying");
        self.env.clock.sleep_until(self.env.clock.now() + RETRY_AFTER).await;
        match &placement {
            Placement::Node(..) | Placement::Volumes(..) => self.board().give_back(pod),
            // What was to be reported to users is not.
            Placement::Nowhere(..) => (),
            // Evicted pods are shown as terminating.
            Placement::Room(room) => self.board().try_room_again(pod, &room.victims),
        }
    }

    async fn execute(&self, placement: &Placement) {
        match placement {
            Placement::Node(pod, node) => self.bind(pod, node).await,
            Placement::Volumes(pod, node, choices) => self.provide_volumes(pod, node, choices).await,
            Placement::Nowhere(pod, message) => self.report(pod, message).await,
            Placement::Room(room) => self.make_room(room).await,
        }
    }

    async fn bind(&self, pod: &Arc<PodInfo>, node: &str) {
        match self.cluster.bind(&pod.key(), &pod.uid, node).await {
            Ok(_) => {
                let message = format!("Successfully assigned {}/{} to {node}", pod.namespace, pod.name);
                self.record(pod, Severity::Normal, "Scheduled", message);
            }
            Err(error) => self.give_back(pod, &error).await,
        }
    }

    /// Reserves volumes for claims, and writes the node to claims whose volumes are provisioned. The pod is bound when all have volumes.
    async fn provide_volumes(&self, pod: &Arc<PodInfo>, node: &str, choices: &[ClaimChoice]) {
        for choice in choices {
            let written = match choice {
                ClaimChoice::Provision(claim) if claim.selected_node() != Some(node) => {
                    let metadata = json!({
                        "uid": claim.meta.uid, "resourceVersion": claim.meta.revision.to_string(), "annotations": {SELECTED_NODE: node},
                    });
                    self.cluster.patch(CLAIMS, &claim.meta.key(), None, json!({"metadata": metadata})).await
                }
                ClaimChoice::Bind { claim, volume } if volume.claim_ref.is_none() => {
                    let mut patch = reservation(claim);
                    patch["metadata"]["uid"] = json!(volume.meta.uid);
                    patch["metadata"]["resourceVersion"] = json!(volume.meta.revision.to_string());
                    self.cluster.patch(VOLUMES, &volume.meta.key(), None, patch).await
                }
                ClaimChoice::Provision(_) | ClaimChoice::Bind { .. } => continue,
            };
            if let Err(error) = written {
                return self.give_back(pod, &error).await;
            }
        }
    }

    async fn give_back(&self, pod: &Arc<PodInfo>, error: &ClusterError) {
        if !matches!(error, ClusterError::NotFound(_) | ClusterError::Conflict(_)) {
            tracing::warn!(namespace = %pod.namespace, pod = %pod.name, %error, "a binding failed");
        }
        // By then the caches show whether the pod was deleted, bound by another scheduler, or still has no node, and the state of its claims.
        self.pause(error).await;
        self.board().give_back(pod);
    }

    /// Writes the reason why the pod has no node.
    async fn report(&self, pod: &PodInfo, message: &str) {
        let keeps_room = pod.nominated_node.is_none() || self.board().has_room(&pod.uid);
        if keeps_room && pod.unschedulable().is_some_and(|condition| condition.message.as_deref() == Some(message)) {
            return;
        }
        self.record(pod, Severity::Warning, "FailedScheduling", message.to_owned());
        let mut status = json!({"conditions": self.unschedulable(pod, message)});
        if !keeps_room {
            status["nominatedNodeName"] = Value::Null;
        }
        match self.patch_status(pod, status).await {
            Ok(()) | Err(ClusterError::NotFound(_) | ClusterError::Conflict(_)) => (),
            Err(error) => tracing::warn!(namespace = %pod.namespace, pod = %pod.name, %error, "a pod's condition could not be written"),
        }
    }

    /// The pod's conditions, with one that states why it has no node. Its transition time stays.
    fn unschedulable(&self, pod: &PodInfo, message: &str) -> Vec<PodCondition> {
        let since = pod.unschedulable().and_then(|condition| condition.last_transition_time.clone());
        let condition = PodCondition {
            type_: "PodScheduled".to_owned(),
            status: "False".to_owned(),
            reason: Some("Unschedulable".to_owned()),
            message: Some(message.to_owned()),
            last_transition_time: since.or_else(|| Some(Time(self.env.clock.now()))),
            ..PodCondition::default()
        };
        with_condition(pod.wishes().conditions.clone(), condition)
    }

    /// Makes room for a pod. The nomination is written first: a scheduler that restarts in between then makes the same room, not more.
    async fn make_room(&self, room: &MakeRoom) {
        let MakeRoom { pod, node, victims, outbid, why } = room;
        self.record(pod, Severity::Warning, "FailedScheduling", why.clone());
        let status = json!({"conditions": self.unschedulable(pod, why), "nominatedNodeName": node});
        if let Err(error) = self.patch_status(pod, status).await {
            self.record_failure(pod, &error).await;
            return self.board().give_room_back(pod, victims);
        }
        for other in outbid {
            // Where this fails, the other goes on believing in its room until it finds that it has none.
            if let Err(error) = self.patch_status(other, json!({"nominatedNodeName": null})).await {
                tracing::debug!(namespace = %other.namespace, pod = %other.name, %error, "could not write to a pod that its room is reserved for another");
            }
        }
        let told = |victim: Arc<PodInfo>| async move { self.preempt(&victim, pod, node).await.err().map(|error| (victim, error)) };
        let failed = stream::iter(victims.clone()).map(told).buffer_unordered(BINDINGS).filter_map(futures::future::ready);
        let failed: Vec<(Arc<PodInfo>, ClusterError)> = failed.collect().await;
        if let Some((_, error)) = failed.first() {
            self.record_failure(pod, error).await;
            let spared: Vec<Arc<PodInfo>> = failed.into_iter().map(|(victim, _)| victim).collect();
            self.board().try_room_again(pod, &spared);
        }
    }

    /// Records that room could not be made, and waits a moment: by then the caches show the state of the pods.
    async fn record_failure(&self, pod: &PodInfo, error: &ClusterError) {
        if !matches!(error, ClusterError::NotFound(_) | ClusterError::Conflict(_)) {
            tracing::warn!(namespace = %pod.namespace, pod = %pod.name, %error, "room could not be made for a pod");
        }
        self.pause(error).await;
    }

    /// A moment, or as long as the server wants to be left alone.
    async fn pause(&self, error: &ClusterError) {
        let pause = error.retry_after().unwrap_or_default().max(RETRY_AFTER);
        self.env.clock.sleep_until(self.env.clock.now() + pause).await;
    }

    /// Evicts a pod with its grace period, and writes the reason. A pod that was deleted is not an error.
    async fn preempt(&self, victim: &PodInfo, pod: &PodInfo, node: &str) -> Result<(), ClusterError> {
        match self.mark_preempted(victim).await {
            Ok(()) => (),
            Err(ClusterError::NotFound(_)) => return Ok(()),
            Err(error) => return Err(error),
        }
        match self.cluster.delete(PODS, &victim.key(), DeleteParams { uid: Some(victim.uid.clone()), ..DeleteParams::default() }).await {
            Ok(_) | Err(ClusterError::NotFound(_)) => (),
            Err(error) => return Err(error),
        }
        self.record(victim, Severity::Normal, "Preempted", format!("Preempted by pod {} on node {node}", pod.uid));
        Ok(())
    }

    /// Adds the condition with the reason of the eviction to a pod. Its other conditions belong to others and stay.
    async fn mark_preempted(&self, victim: &PodInfo) -> Result<(), ClusterError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let Some(found) = self.cluster.get(PODS, &victim.key()).await? else { return Ok(()) };
            let found = Pod::decode_json(&found.json).map_err(|error| ClusterError::Refused(error.to_string()))?;
            let condition = PodCondition {
                type_: "DisruptionTarget".to_owned(),
                status: "True".to_owned(),
                reason: Some(PREEMPTED.to_owned()),
                message: Some("default-scheduler: preempting to accommodate a higher priority pod".to_owned()),
                last_transition_time: Some(Time(self.env.clock.now())),
                ..PodCondition::default()
            };
            let conditions = with_condition(found.status.and_then(|status| status.conditions).unwrap_or_default(), condition);
            let patch = json!({
                "metadata": {"uid": victim.uid, "resourceVersion": found.metadata.resource_version},
                "status": {"conditions": conditions},
            });
            match self.cluster.patch(PODS, &victim.key(), Some(Subresource::Status), patch).await {
                // Its node may write at the same time.
                Err(ClusterError::Conflict(_)) if attempts < MARK_ATTEMPTS => (),
                other => return other.map(drop),
            }
        }
    }

    async fn patch_status(&self, pod: &PodInfo, status: Value) -> Result<(), ClusterError> {
        let patch = json!({"metadata": {"uid": pod.uid}, "status": status});
        self.cluster.patch(PODS, &pod.key(), Some(Subresource::Status), patch).await.map(drop)
    }

    fn record(&self, pod: &PodInfo, severity: Severity, reason: &'static str, message: String) {
        self.recorder.record(&about_pod(pod.key(), &pod.uid, severity, reason, message));
    }
}

/// How long a binding that failed for no reason of the pod's is held back.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// The conditions, with this one in the place of the one of its type.
fn with_condition(mut conditions: Vec<PodCondition>, condition: PodCondition) -> Vec<PodCondition> {
    conditions.retain(|other| other.type_ != condition.type_);
    conditions.push(condition);
    conditions
}
