//! Starting simulated nodes.

use super::{
    agent::{Habits, Nodes},
    behavior::{Behavior, Latencies},
    heartbeat,
    images::MissingImages,
    node::NodeShape,
    sources::{KnownObjects, Sources},
    waiting,
};
use berth_controllers::{Cluster, events::Recorder, metrics::Metrics};
use berth_env::Env;
use berth_workloads::resources::{CONFIG_MAPS, SECRETS};
use std::sync::Arc;

/// Nodes that already exist: those of another cluster, in a forecast.
pub struct ForeignNodes {
    /// Their names.
    pub names: Vec<String>,
    /// Images that the nodes cannot pull.
    pub missing_images: MissingImages,
    /// The behavior of their pods.
    pub habits: Habits,
    /// The ConfigMaps and Secrets that are known to exist or to be missing.
    pub objects: KnownObjects,
}

impl Nodes {
    /// Registers `count` nodes and runs the pods that are bound to them, indefinitely.
    pub fn start(
        cluster: &Arc<dyn Cluster>,
        env: &Env,
        recorder: &Recorder,
        metrics: &Arc<Metrics>,
        (count, shape, latencies): (u32, NodeShape, Latencies),
    ) {
        let missing = shape.missing_images.clone();
        let habits: Habits = Box::new(move |pod| Behavior::of(pod, latencies, &missing));
        let nodes = Self::begin(cluster, env, recorder, metrics, (count, shape, None, habits), Sources::cluster());
        for resource in [CONFIG_MAPS, SECRETS] {
            waiting::follow(&nodes, resource);
        }
        heartbeat::start(&nodes, metrics);
    }

    /// Runs the pods that are bound to the nodes of another cluster, indefinitely. These nodes exist: this crate neither registers them nor sends their
    /// heartbeats.
    pub fn take_on(cluster: &Arc<dyn Cluster>, env: &Env, recorder: &Recorder, metrics: &Arc<Metrics>, foreign: ForeignNodes) {
        let ForeignNodes { names, missing_images, habits, objects } = foreign;
        let shape = NodeShape { missing_images, ..NodeShape::new("0", "0", 0) };
        let nodes = (0, shape, Some(names.into_iter().zip(0..).collect()), habits);
        drop(Self::begin(cluster, env, recorder, metrics, nodes, Sources::known(objects)));
    }
}
