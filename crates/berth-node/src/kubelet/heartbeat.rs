//! Registers the nodes, and renews their heartbeats.

use super::{
    agent::Nodes,
    node::{self, LEASE_SECONDS, SIMULATED},
};
use crate::scheduler::NodeView;
use berth_api::{
    Subresource,
    decode::Codec,
    k8s_openapi::{api::core::v1::Node, apimachinery::pkg::apis::meta::v1::MicroTime},
};
use berth_controllers::{
    ClusterError, DeleteParams,
    cache::{AnyCache, Cache},
    metrics::Metrics,
};
use berth_identity::{ObjectKey, Uid};
use berth_workloads::{
    node_lifecycle::NODE_LEASES,
    resources::{LEASES, NODES},
    view::View,
};
use futures::{StreamExt, stream};
use jiff::Timestamp;
use serde_json::json;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// How many nodes are written at once.
const CONCURRENCY: usize = 64;

/// A quarter of a lease's length: three renewals may fail before a node counts as lost.
const RENEWAL: Duration = Duration::from_secs(LEASE_SECONDS.unsigned_abs() as u64 / 4);

/// Starts registering and renewing.
pub(super) fn start(nodes: &Arc<Nodes>, metrics: &Arc<Metrics>) {
    let known = Arc::new(Cache::<NodeView>::new(NODES));
    known.start(nodes.cluster.as_ref(), nodes.env.spawner.as_ref(), metrics);
    let nodes = Arc::clone(nodes);
    let spawner = Arc::clone(&nodes.env.spawner);
    spawner.spawn("node heartbeat", Box::pin(async move { run(&nodes, &known).await }));
}

async fn run(nodes: &Nodes, known: &Cache<NodeView>) {
    known.synced().await;
    remove_surplus(nodes, known).await;
    let mut uids: BTreeMap<u32, Uid> = BTreeMap::new();
    loop {
        let now = nodes.env.clock.now();
        uids.retain(|index, uid| is_known_well(known, *index, uid));
        nodes.insist();
        let missing = (0..nodes.count).filter(|index| !uids.contains_key(index));
        let registered: Vec<(u32, Uid)> = stream::iter(missing)
            .map(|index| register(nodes, index, now))
            .buffer_unordered(CONCURRENCY)
            .filter_map(futures::future::ready)
            .collect()
            .await;
        uids.extend(registered);
        stream::iter(&uids).for_each_concurrent(CONCURRENCY, |(index, uid)| renew(nodes, *index, uid, now)).await;
        nodes.env.clock.sleep_until(now + RENEWAL).await;
    }
}

/// Whether the cluster considers this node ready, and has no other node of its name. The node can be lost if this process was stopped for a
/// while. A node that a user has deleted is not recreated.
fn is_known_well(known: &Cache<NodeView>, index: u32, uid: &Uid) -> bool {
    known.get(&key_of(index)).is_none_or(|node| node.ready && node.uid == *uid)
}

/// Deletes simulated nodes of an earlier run with more nodes, because they will never run again.
async fn remove_surplus(nodes: &Nodes, known: &Cache<NodeView>) {
    let simulated: Vec<Arc<NodeView>> = known.read().iter().filter(|node| node.labels.get(SIMULATED).is_some()).cloned().collect();
    let wanted: Vec<String> = (0..nodes.count).map(node::name).collect();
    for surplus in simulated.iter().filter(|node| !wanted.iter().any(|name| node.name == *name)) {
        if let Err(error) = nodes.cluster.delete(NODES, &surplus.key(), DeleteParams::default()).await {
            tracing::warn!(node = %surplus.name, %error, "a node of an earlier run could not be removed");
        }
    }
}

/// Registers the node as healthy, and returns its uid. A failed write is retried with the next renewal.
async fn register(nodes: &Nodes, index: u32, now: Timestamp) -> Option<(u32, Uid)> {
    match try_register(nodes, index, now).await {
        Ok(uid) => Some((index, uid)),
        Err(error) => {
            tracing::warn!(node = node::name(index), %error, "a node could not register");
            None
        }
    }
}

async fn try_register(nodes: &Nodes, index: u32, now: Timestamp) -> Result<Uid, ClusterError> {
    let key = key_of(index);
    let found = match nodes.cluster.get(NODES, &key).await? {
        Some(found) => found,
        None => nodes.cluster.create(Box::new(node::object(index, &nodes.shape, now))).await?,
    };
    let found = Node::decode_json(&found.json).map_err(|error| ClusterError::Refused(error.to_string()))?;
    // A create ignores the status, and an existing node may have had another shape. The taint comes first, because its patch is for this
    // version.
    let patches = [node::retaint(&nodes.shape, &found), node::relabel(index, &nodes.shape, &found)];
    for patch in patches.into_iter().flatten() {
        nodes.cluster.patch(NODES, &key, None, patch).await?;
    }
    let patch = node::heartbeat(index, &nodes.shape, now, &found);
    nodes.cluster.patch(NODES, &key, Some(Subresource::Status), patch).await?;
    Ok(found.metadata.uid.into())
}

async fn renew(nodes: &Nodes, index: u32, uid: &Uid, now: Timestamp) {
    let key = ObjectKey::new(NODE_LEASES, node::name(index));
    let patch = json!({"spec": {"renewTime": MicroTime(now)}});
    let renewed = match nodes.cluster.patch(LEASES, &key, None, patch).await {
        Err(ClusterError::NotFound(_)) => nodes.cluster.create(Box::new(node::lease(index, uid, now))).await,
        other => other,
    };
    if let Err(error) = renewed {
        tracing::warn!(node = node::name(index), %error, "a lease could not be renewed");
    }
}

fn key_of(index: u32) -> ObjectKey {
    ObjectKey::cluster_scoped(node::name(index))
}
