//! Node.

use super::text::{AGE, NAME, age_of, name, or, text, wide};
use crate::resource::{
    Column, Printed, Resource, Simulated, Subresource,
    merge_rules::{
        MergeRule,
        PatchStrategy::{Key, Primitive},
        Ssa::{MapOf, Set},
        atomic, conditions, list, to,
    },
};
use berth_api::k8s_openapi::{
    api::core::v1::{Node, NodeStatus},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const ROLE_LABEL: &str = "kubernetes.io/role";

const ROLE_LABEL_PREFIX: &str = "node-role.kubernetes.io/";

/// Its line of the resource table.
pub(super) fn resource() -> Resource {
    Resource::cluster::<Node>()
        .short(&["no"])
        .sub(&[Subresource::Status])
        .fields(&[("spec.unschedulable", "/spec/unschedulable")])
        .absent_is_false(&["spec.unschedulable"])
        .stored_at("minions")
        .merges(MERGE_RULES)
        .always_has(json!({"status": {"daemonEndpoints": {"kubeletEndpoint": {}}, "nodeInfo": {}}}))
        .refuses(&[Simulated { subresource: "proxy", why: "nodes are simulated: no kubelet answers", names_an_object: false }])
}

const MERGE_RULES: &[MergeRule] = &[
    to("Node", "spec", "NodeSpec"),
    to("Node", "status", "NodeStatus"),
    list("NodeSpec", "podCIDRs", Primitive, Set),
    atomic("NodeSpec", "taints"),
    atomic("ContainerImage", "names"),
    conditions("NodeStatus"),
    list("NodeStatus", "addresses", Key("type"), MapOf(&["type"])),
    atomic("NodeStatus", "declaredFeatures"),
    atomic("NodeStatus", "images"),
    atomic("NodeStatus", "runtimeHandlers"),
    atomic("NodeStatus", "volumesAttached"),
    atomic("NodeStatus", "volumesInUse"),
];

impl Printed for Node {
    const COLUMNS: &'static [Column] = &[
        NAME,
        text("Status", "Whether the node is ready and takes pods."),
        text("Roles", "The roles that the node's labels name."),
        AGE,
        text("Version", "Version of the kubelet."),
        wide("Internal-IP", "The node's address inside the cluster."),
        wide("External-IP", "The node's address outside the cluster."),
        wide("OS-Image", "The operating system."),
        wide("Kernel-Version", "The kernel, with the machine's architecture."),
        wide("Container-Runtime", "The container runtime and its version."),
    ];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let status = self.status.clone().unwrap_or_default();
        let info = status.node_info.clone().unwrap_or_default();
        let kernel = match (info.kernel_version.as_str(), info.architecture.as_str()) {
            ("", _) => "<unknown>".to_owned(),
            (kernel, "") => kernel.to_owned(),
            (kernel, architecture) => format!("{kernel} ({architecture})"),
        };
        vec![
            json!(name(&self.metadata)),
            json!(node_status(self, &status)),
            json!(roles(&self.metadata)),
            json!(age_of(&self.metadata, now)),
            json!(info.kubelet_version),
            json!(address(&status, "InternalIP")),
            json!(address(&status, "ExternalIP")),
            json!(or(Some(&info.os_image), "<unknown>")),
            json!(kernel),
            json!(or(Some(&info.container_runtime_version), "<unknown>")),
        ]
    }
}

fn node_status(node: &Node, status: &NodeStatus) -> String {
    let ready = status.conditions.iter().flatten().find(|condition| condition.type_ == "Ready");
    let word = match ready.map(|condition| condition.status.as_str()) {
        None => "Unknown",
        Some("True") => "Ready",
        Some(_) => "NotReady",
    };
    let cordoned = node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true));
    format!("{word}{}", if cordoned { ",SchedulingDisabled" } else { "" })
}

fn roles(meta: &ObjectMeta) -> String {
    let labels = meta.labels.iter().flatten();
    let roles: BTreeSet<&str> = labels
        .filter_map(|(key, value)| if key == ROLE_LABEL { Some(value.as_str()) } else { key.strip_prefix(ROLE_LABEL_PREFIX) })
        .filter(|role| !role.is_empty())
        .collect();
    let roles: Vec<&str> = roles.into_iter().collect();
    or(Some(&roles.join(",")), "<none>").to_owned()
}

fn address<'a>(status: &'a NodeStatus, kind: &str) -> &'a str {
    status.addresses.iter().flatten().find(|address| address.type_ == kind).map_or("<none>", |address| &address.address)
}
