//! Pods that wait for a ConfigMap or a Secret.

use super::agent::Nodes;
use berth_controllers::Change;
use berth_identity::GroupResource;
use futures::StreamExt;
use std::sync::Arc;

/// Wakes pods when the objects that they wait for change. A watch of the resource starts when a pod waits for one of its objects, and ends
/// at the first change after the last wait.
pub(super) fn follow(nodes: &Arc<Nodes>, resource: GroupResource) {
    let spawner = Arc::clone(&nodes.env.spawner);
    let nodes = Arc::clone(nodes);
    spawner.spawn("node references", Box::pin(async move { follow_all(&nodes, resource).await }));
}

async fn follow_all(nodes: &Nodes, resource: GroupResource) {
    loop {
        let wanted = nodes.sources.wanted.listen();
        if !nodes.waits_for_some(&resource) {
            wanted.await;
            continue;
        }
        drop(wanted);
        let mut changes = nodes.cluster.watch(resource.clone());
        while nodes.waits_for_some(&resource)
            && let Some(change) = changes.next().await
        {
            if let Change::Applied { key, .. } = change {
                nodes.wake_waiting(&resource, &key);
            }
        }
    }
}
