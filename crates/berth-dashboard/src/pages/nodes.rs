//! Nodes, and what runs there.

use super::{Page, ago, counted, pods, shown};
use crate::{address::plain, cluster_cache::ClusterCache, rows::Row, views::NodeView};
use berth_identity::ObjectKey;
use berth_workloads::{
    view::PodView,
    workload::{WorkloadId, WorkloadKind},
};
use jiff::Timestamp;
use maud::{Markup, html};
use std::sync::Arc;

/// The maximum number of nodes. Nodes that are not ready come first.
const NODES_MAX: usize = 500;

pub(super) fn all(cluster_cache: &ClusterCache, now: Timestamp) -> Vec<(&'static str, Markup)> {
    let mut nodes: Vec<Arc<NodeView>> = cluster_cache.nodes.read().iter().cloned().collect();
    nodes.sort_by(|one, other| (one.is_ready, one.name()).cmp(&(other.is_ready, other.name())));
    let unready = nodes.iter().filter(|node| !node.is_ready).count();
    let counts: Vec<(usize, usize)> = {
        let pods = cluster_cache.pods.read();
        let count = |node: &Arc<NodeView>| {
            // Finished pods do not use a node's capacity.
            let pods = pods.index().on_node(node.name()).filter(|pod| !pod.phase.is_finished());
            pods.fold((0, 0), |(all, unready), pod| (all + 1, unready + usize::from(!pod.ready)))
        };
        nodes.iter().take(NODES_MAX).map(count).collect()
    };
    let is_unreadable = cluster_cache.unreadable().contains_key("nodes");
    let headline = html! {
        h1 { "Nodes" }
        p .lead {
            @if is_unreadable && nodes.is_empty() { "You may not list nodes, so this page is empty" }
            @else { (counted(nodes.len(), "node", "nodes")) }
            @if 0 < unready { ", of which " (unready) @if unready == 1 { " is" } @else { " are" } " not ready" }
            "."
        }
    };
    let table = html! {
        @if !nodes.is_empty() {
            div .scroll role="region" tabindex="0" aria-label="Nodes" {
                table {
                    thead { tr {
                        th scope="col" { "Node" } th scope="col" { "State" } th scope="col" { "Zone" } th .number scope="col" { "Pods" }
                        th .number scope="col" { "Capacity" } th .number scope="col" { "Not ready" } th scope="col" { "Age" }
                    } }
                    tbody {
                        @for (node, (pods, unready)) in nodes.iter().zip(&counts) {
                            tr {
                                td .name { a href=(format!("/nodes/{}", plain(node.name()))) { (shown(node.name())) } }
                                td { (state(node)) }
                                td { @if node.zone.is_empty() { "–" } @else { (shown(&node.zone)) } }
                                td .number { (pods) } td .number { (shown(&node.pods_max)) } td .number { (unready) }
                                td { (ago(node.created(), now)) }
                            }
                        }
                    }
                }
            }
        }
        @if NODES_MAX < nodes.len() { p .quiet { "and " (nodes.len() - NODES_MAX) " more" } }
    };
    vec![("headline", headline), ("nodes", table)]
}

fn state(node: &NodeView) -> Markup {
    html! {
        @if node.is_ready { "ready" } @else { span .failed { "not ready" } @if !node.why.is_empty() { ": " (shown(&node.why)) } }
        @if node.is_cordoned { ", " span .held { "cordoned" } }
    }
}

pub(super) fn one(cluster_cache: &ClusterCache, name: &str, page: usize, now: Timestamp) -> Option<Vec<(&'static str, Markup)>> {
    let node = cluster_cache.nodes.get(&ObjectKey::cluster_scoped(name));
    let pods: Vec<Arc<PodView>> = cluster_cache.pods.read().index().on_node(name).cloned().collect();
    // A user may have the right to read the pods but not the nodes.
    if node.is_none() && pods.is_empty() {
        return None;
    }
    let headline = html! {
        h1 { "Node " (shown(name)) }
        @if let Some(node) = &node { p .lead { "It is " (state(node)) "." } }
    };
    let row = |pod: Arc<PodView>| {
        let owner = owner(cluster_cache, &pod);
        Row { owner, ..Row::new(pod, 0, now) }
    };
    let rows = pods.into_iter().map(row).collect();
    let address = |pods| Page::Node { name: name.to_owned(), pods }.address();
    Some(vec![("headline", headline), ("pods", pods::table(cluster_cache, rows, page, now, address))])
}

/// Returns the workload that owns the pod.
fn owner(cluster_cache: &ClusterCache, pod: &PodView) -> Option<WorkloadId> {
    let owner = pod.meta.controller()?;
    let namespace = pod.meta.namespace.clone();
    if let Some(kind) = WorkloadKind::named(&owner.kind) {
        return Some(WorkloadId::new(kind, namespace, owner.name.as_str()));
    }
    let set = cluster_cache.sets.get(&ObjectKey { namespace: namespace.clone(), name: owner.name.as_str().into() })?;
    let owner = set.meta.controller()?;
    Some(WorkloadId::new(WorkloadKind::named(&owner.kind)?, namespace, owner.name.as_str()))
}
