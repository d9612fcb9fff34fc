//! Options of the simulated nodes.

use crate::duration::duration;
use berth_controllers::{Cluster, events::Recorder, metrics::Metrics};
use berth_node::{Latencies, MissingImages, NodeShape, Nodes};
use berth_store::env::Env;
use clap::Args;
use std::{sync::Arc, time::Duration};

/// How many simulated nodes there are, what they have, and how their pods behave.
#[derive(Args, Debug)]
pub(crate) struct NodeOptions {
    /// How many simulated nodes to run.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) nodes: u32,

    /// Allocatable CPU of each node.
    #[arg(long, value_name = "QUANTITY", default_value = "32", value_parser = berth_node::parse_cpu)]
    pub(crate) node_cpu: String,

    /// Allocatable memory of each node.
    #[arg(long, value_name = "QUANTITY", default_value = "256Gi", value_parser = berth_node::parse_amount)]
    pub(crate) node_memory: String,

    /// How many pods each node accepts.
    #[arg(long, value_name = "N", default_value_t = 110)]
    pub(crate) node_pods: u32,

    /// The amount of a resource on each node, such as nvidia.com/gpu=8 or ephemeral-storage=20Gi [default: ephemeral-storage=1Ti].
    /// Overrides --node-cpu, --node-memory and --node-pods. Repeatable.
    #[arg(long = "node-resource", value_name = "NAME=QUANTITY", value_parser = berth_node::parse_resource)]
    pub(crate) node_resources: Vec<(String, String)>,

    /// A label of every node. Repeatable.
    #[arg(long = "node-label", value_name = "KEY=VALUE", value_parser = berth_node::parse_label)]
    pub(crate) node_labels: Vec<(String, String)>,

    /// The zones of the nodes, in turn: a,b,c, or with their regions eu/a,eu/b,us/c (labels topology.kubernetes.io/zone and .../region).
    #[arg(long, value_name = "ZONE,...", value_delimiter = ',')]
    pub(crate) zones: Vec<berth_node::Zone>,

    /// Images that cannot be pulled, as a pattern with * and ?, such as '*:404'. Their pods fail with ErrImagePull and ImagePullBackOff.
    /// Repeatable.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) image_fails: Vec<String>,

    /// How long a pod takes from its binding until it is ready, unless its annotation sim.berth.dev/ready-after overrides it.
    #[arg(long, value_name = "DURATION", default_value = "300ms", value_parser = duration)]
    pub(crate) pod_start_latency: Duration,

    /// How long a pod takes to terminate, unless its annotation sim.berth.dev/terminates-after overrides it. Never longer than its grace
    /// period.
    #[arg(long, value_name = "DURATION", default_value = "300ms", value_parser = duration)]
    pub(crate) pod_stop_latency: Duration,
}

/// Whether the nodes repel pods without a toleration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taint {
    /// They accept any pod: all nodes are simulated.
    None,
    /// They have the taint `berth.dev/simulated=true:NoSchedule`: other nodes are real.
    Simulated,
}

impl NodeOptions {
    /// Starts the nodes.
    pub(crate) fn start(&self, cluster: &Arc<dyn Cluster>, env: &Env, events: &Recorder, metrics: &Arc<Metrics>, taint: Taint) {
        let mut shape = NodeShape::new(&self.node_cpu, &self.node_memory, self.node_pods);
        shape.resources.extend(self.node_resources.iter().cloned());
        shape.labels.extend(self.node_labels.iter().cloned());
        shape.zones.clone_from(&self.zones);
        shape.is_tainted = taint == Taint::Simulated;
        shape.missing_images = MissingImages::matching(self.image_fails.clone());
        let latencies = Latencies { start: self.pod_start_latency, stop: self.pod_stop_latency };
        Nodes::start(cluster, env, events, metrics, (self.nodes, shape, latencies));
    }
}
