//! The free capacity of nodes during the forecast.

use crate::{
    forecast::{NodeRoom, Peak},
    snapshot::SUPPOSED_NODE,
};
use berth_node::{resources::Amounts, scheduler::NodeView};
use std::{collections::BTreeMap, time::Duration};

/// All nodes, and their minimum free capacity in total.
#[derive(Default)]
pub(crate) struct Nodes {
    nodes: BTreeMap<String, Node>,
    /// The free capacity of all schedulable nodes.
    free: Amounts,
    /// By resource.
    least: BTreeMap<String, Peak<i64>>,
}

#[derive(Default)]
struct Node {
    takes_pods: bool,
    allocatable: Amounts,
    used: Amounts,
}

impl Node {
    /// The capacity for new pods. Negative if the node has more pods than fit.
    fn free(&self) -> Amounts {
        let mut free = Amounts::default();
        if self.takes_pods {
            free.add(&self.allocatable);
            free.subtract(&self.used);
        }
        free
    }
}

impl Nodes {
    /// Records the present state of a node.
    pub(crate) fn put(&mut self, view: NodeView) {
        let node = self.nodes.entry(view.name.to_string()).or_default();
        self.free.subtract(&node.free());
        (node.takes_pods, node.allocatable) = (view.ready && !view.unschedulable, view.allocatable);
        self.free.add(&node.free());
    }

    /// Adds a pod to a node, which may not be known yet.
    pub(crate) fn take(&mut self, node: &str, requests: &Amounts) {
        let node = self.nodes.entry(node.to_owned()).or_default();
        node.used.add(requests);
        if node.takes_pods {
            self.free.subtract(requests);
        }
    }

    /// Removes a pod from its node, if it has one.
    pub(crate) fn give_back(&mut self, node: &str, requests: &Amounts) {
        let Some(node) = self.nodes.get_mut(node) else { return };
        node.used.subtract(requests);
        if node.takes_pods {
            self.free.add(requests);
        }
    }

    /// Records the free capacity of these resources if it is a new minimum.
    pub(crate) fn note<'a>(&mut self, resources: impl IntoIterator<Item = &'a String>, at: Duration) {
        for resource in resources {
            let free = self.free.get(resource);
            let least = self.least.entry(resource.clone()).or_insert(Peak { value: free, at });
            if free < least.value {
                *least = Peak { value: free, at };
            }
        }
    }

    /// The minimum of each recorded resource. Empty if no node is known.
    pub(crate) fn room(&self) -> Vec<NodeRoom> {
        if self.nodes.contains_key(SUPPOSED_NODE) {
            return Vec::new();
        }
        let allocatable =
            |resource: &str| self.nodes.values().filter(|node| node.takes_pods).map(|node| node.allocatable.get(resource)).sum();
        let room = |(resource, least): (&String, &Peak<i64>)| NodeRoom {
            resource: resource.clone(),
            allocatable: allocatable(resource),
            least_free: *least,
        };
        self.least.iter().map(room).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(cpu: i64, ready: bool) -> NodeView {
        NodeView { name: "n".into(), ready, allocatable: Amounts::from([("cpu", cpu)]), ..NodeView::default() }
    }

    #[test]
    fn what_is_free_follows_nodes_and_pods_in_whatever_order_they_come() {
        let (mut nodes, cpu, one) = (Nodes::default(), "cpu".to_owned(), Amounts::from([("cpu", 100)]));
        let mut seen = Vec::new();
        let steps: [&dyn Fn(&mut Nodes); 8] = [
            &|nodes| nodes.take("n", &one),
            &|nodes| nodes.put(node(1000, true)),
            &|nodes| nodes.take("n", &one),
            &|nodes| nodes.put(node(1000, false)),
            &|nodes| nodes.give_back("n", &one),
            &|nodes| nodes.put(node(500, true)),
            &|nodes| nodes.give_back("n", &one),
            &|nodes| nodes.give_back("elsewhere", &one),
        ];
        for step in steps {
            step(&mut nodes);
            seen.push(nodes.free.get("cpu"));
        }
        assert_eq!(seen, [0, 900, 800, 0, 0, 400, 500, 500]);
        nodes.note([&cpu], Duration::from_secs(1));
        nodes.take("n", &one);
        nodes.note([&cpu], Duration::from_secs(2));
        nodes.note([&cpu], Duration::from_secs(3));
        let room = nodes.room();
        assert_eq!((room.len(), room[0].allocatable, room[0].least_free), (1, 500, Peak { value: 400, at: Duration::from_secs(2) }));
    }
}
