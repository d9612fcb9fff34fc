//! Which lists and maps of the API are more than values: how strategic merge patch and server-side apply take them apart.
//!
//! The one source of both patching and what OpenAPI tells of it. A field that is not here merges by its JSON type: maps member by member,
//! lists as a whole.

use crate::resource;
use PatchStrategy::{Key, KeyRetainKeys, Primitive, Replace, RetainKeys};
use Ssa::{Atomic, AtomicMap, GranularMap, MapOf, Set};

/// How a strategic merge patch treats a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchStrategy {
    /// By its JSON type.
    Plain,
    /// A list of objects, told apart by this member.
    Key(&'static str),
    /// As `Key`; a patch may say which members of an element are to stay.
    KeyRetainKeys(&'static str),
    /// A list of scalars without duplicates.
    Primitive,
    /// An object; a patch may say which of its members are to stay.
    RetainKeys,
    /// An object that is replaced as a whole.
    Replace,
}

/// How server-side apply treats a list or map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ssa {
    /// By its JSON type.
    Granular,
    /// A list with one owner.
    Atomic,
    /// A list of scalars, each with its owners.
    Set,
    /// A list of objects, told apart by these members.
    MapOf(&'static [&'static str]),
    /// A map with one owner.
    AtomicMap,
    /// A map whose members have owners, although others of its type have one owner.
    GranularMap,
}

/// A field with a strategy, or one that leads to such.
#[derive(Debug)]
pub struct Field {
    /// The type that has it: the last part of the name of its schema.
    pub of: &'static str,
    /// Its name in JSON.
    pub name: &'static str,
    /// For strategic merge patch.
    pub strategy: PatchStrategy,
    /// For server-side apply.
    pub ssa: Ssa,
    /// The type of its value, or of its elements; empty if nothing of it is in the table.
    pub to: &'static str,
}

/// What keys of list elements are where they are left out: the type that has one, its name in JSON, its value.
pub const KEY_DEFAULTS: [(&str, &str, &str); 3] =
    [("ContainerPort", "protocol", "TCP"), ("LocalObjectReference", "name", ""), ("ServicePort", "protocol", "TCP")];

/// The entry of a member `name` of an object of type `of`, where `of` may be a built-in kind: no other takes strategic merge patches.
#[must_use]
pub fn field(of: &str, name: &str) -> Option<&'static Field> {
    let own = FIELDS.iter().find(|field| field.of == of && field.name == name);
    own.or_else(|| (name == "metadata" && resource::built_in().stored().any(|r| r.kind() == of)).then_some(&METADATA))
}

/// Every entry.
#[must_use]
pub fn all() -> &'static [Field] {
    FIELDS
}

const fn to(of: &'static str, name: &'static str, to: &'static str) -> Field {
    Field { of, name, strategy: PatchStrategy::Plain, ssa: Ssa::Granular, to }
}

const fn list(of: &'static str, name: &'static str, strategy: PatchStrategy, ssa: Ssa) -> Field {
    Field { of, name, strategy, ssa, to: "" }
}

const fn list_of(of: &'static str, name: &'static str, strategy: PatchStrategy, ssa: Ssa, to: &'static str) -> Field {
    Field { of, name, strategy, ssa, to }
}

const fn atomic(of: &'static str, name: &'static str) -> Field {
    Field { of, name, strategy: PatchStrategy::Plain, ssa: Atomic, to: "" }
}

const fn map(of: &'static str, name: &'static str, ssa: Ssa) -> Field {
    Field { of, name, strategy: PatchStrategy::Plain, ssa, to: "" }
}

const fn statuses(name: &'static str) -> Field {
    Field { of: "PodStatus", name, strategy: PatchStrategy::Plain, ssa: Atomic, to: "ContainerStatus" }
}

const fn conditions(of: &'static str) -> Field {
    list(of, "conditions", Key("type"), MapOf(&["type"]))
}

static METADATA: Field = to("", "metadata", "ObjectMeta");

const NAME: &[&str] = &["name"];

static FIELDS: &[Field] = &[
    list("ObjectMeta", "ownerReferences", Key("uid"), MapOf(&["uid"])),
    list("ObjectMeta", "finalizers", Primitive, Set),
    atomic("ObjectMeta", "managedFields"),
    atomic("LabelSelector", "matchExpressions"),
    atomic("LabelSelectorRequirement", "values"),
    // Workloads.
    to("Deployment", "spec", "DeploymentSpec"),
    to("Deployment", "status", "DeploymentStatus"),
    to("DeploymentSpec", "template", "PodTemplateSpec"),
    Field { of: "DeploymentSpec", name: "strategy", strategy: RetainKeys, ssa: Ssa::Granular, to: "" },
    conditions("DeploymentStatus"),
    to("ReplicaSet", "spec", "ReplicaSetSpec"),
    to("ReplicaSet", "status", "ReplicaSetStatus"),
    to("ReplicaSetSpec", "template", "PodTemplateSpec"),
    conditions("ReplicaSetStatus"),
    to("StatefulSet", "spec", "StatefulSetSpec"),
    to("StatefulSet", "status", "StatefulSetStatus"),
    to("StatefulSetSpec", "template", "PodTemplateSpec"),
    atomic("StatefulSetSpec", "volumeClaimTemplates"),
    conditions("StatefulSetStatus"),
    to("PodDisruptionBudget", "spec", "PodDisruptionBudgetSpec"),
    to("PodDisruptionBudget", "status", "PodDisruptionBudgetStatus"),
    Field { of: "PodDisruptionBudgetSpec", name: "selector", strategy: Replace, ssa: Ssa::Granular, to: "" },
    conditions("PodDisruptionBudgetStatus"),
    // Pods.
    to("PodTemplateSpec", "metadata", "ObjectMeta"),
    to("PodTemplateSpec", "spec", "PodSpec"),
    to("Pod", "spec", "PodSpec"),
    to("Pod", "status", "PodStatus"),
    list_of("PodSpec", "containers", Key("name"), MapOf(NAME), "Container"),
    list_of("PodSpec", "initContainers", Key("name"), MapOf(NAME), "Container"),
    list_of("PodSpec", "ephemeralContainers", Key("name"), MapOf(NAME), "EphemeralContainer"),
    list_of("PodSpec", "volumes", KeyRetainKeys("name"), MapOf(NAME), "Volume"),
    list("PodSpec", "imagePullSecrets", Key("name"), MapOf(NAME)),
    list("PodSpec", "schedulingGates", Key("name"), MapOf(NAME)),
    list("PodSpec", "resourceClaims", KeyRetainKeys("name"), MapOf(NAME)),
    list("PodSpec", "hostAliases", Key("ip"), MapOf(&["ip"])),
    list("PodSpec", "topologySpreadConstraints", Key("topologyKey"), MapOf(&["topologyKey", "whenUnsatisfiable"])),
    atomic("PodSpec", "tolerations"),
    atomic("PodSpec", "readinessGates"),
    map("PodSpec", "nodeSelector", AtomicMap),
    to("Volume", "ephemeral", "EphemeralVolumeSource"),
    to("EphemeralVolumeSource", "volumeClaimTemplate", "PersistentVolumeClaimTemplate"),
    to("PersistentVolumeClaimTemplate", "metadata", "ObjectMeta"),
    atomic("ProjectedVolumeSource", "sources"),
    atomic("ConfigMapVolumeSource", "items"),
    atomic("SecretVolumeSource", "items"),
    atomic("DownwardAPIVolumeSource", "items"),
    list("Container", "env", Key("name"), MapOf(NAME)),
    list("Container", "ports", Key("containerPort"), MapOf(&["containerPort", "protocol"])),
    list("Container", "volumeMounts", Key("mountPath"), MapOf(&["mountPath"])),
    list("Container", "volumeDevices", Key("devicePath"), MapOf(&["devicePath"])),
    atomic("Container", "command"),
    atomic("Container", "args"),
    atomic("Container", "envFrom"),
    atomic("Container", "resizePolicy"),
    list("EphemeralContainer", "env", Key("name"), MapOf(NAME)),
    list("EphemeralContainer", "ports", Key("containerPort"), MapOf(&["containerPort", "protocol"])),
    list("EphemeralContainer", "volumeMounts", Key("mountPath"), MapOf(&["mountPath"])),
    list("EphemeralContainer", "volumeDevices", Key("devicePath"), MapOf(&["devicePath"])),
    atomic("EphemeralContainer", "command"),
    atomic("EphemeralContainer", "args"),
    atomic("EphemeralContainer", "envFrom"),
    atomic("EphemeralContainer", "resizePolicy"),
    list("ResourceRequirements", "claims", PatchStrategy::Plain, MapOf(NAME)),
    conditions("PodStatus"),
    list("PodStatus", "podIPs", Key("ip"), MapOf(&["ip"])),
    list("PodStatus", "hostIPs", Key("ip"), Atomic),
    list("PodStatus", "resourceClaimStatuses", KeyRetainKeys("name"), MapOf(NAME)),
    statuses("containerStatuses"),
    statuses("initContainerStatuses"),
    statuses("ephemeralContainerStatuses"),
    list("ContainerStatus", "allocatedResourcesStatus", Key("name"), MapOf(NAME)),
    list("ContainerStatus", "volumeMounts", Key("mountPath"), MapOf(&["mountPath"])),
    list("ResourceStatus", "resources", PatchStrategy::Plain, MapOf(&["resourceID"])),
    list("ContainerRestartRuleOnExitCodes", "values", PatchStrategy::Plain, Set),
    list("NodeAllocatableResourceClaimStatus", "containers", PatchStrategy::Plain, Set),
    // The cluster.
    to("Namespace", "status", "NamespaceStatus"),
    conditions("NamespaceStatus"),
    to("Node", "spec", "NodeSpec"),
    to("Node", "status", "NodeStatus"),
    list("NodeSpec", "podCIDRs", Primitive, Set),
    atomic("NodeSpec", "taints"),
    conditions("NodeStatus"),
    list("NodeStatus", "addresses", Key("type"), MapOf(&["type"])),
    list("ServiceAccount", "secrets", Key("name"), MapOf(NAME)),
    atomic("ServiceAccount", "imagePullSecrets"),
    // Services and volumes.
    to("Service", "spec", "ServiceSpec"),
    to("Service", "status", "ServiceStatus"),
    list("ServiceSpec", "ports", Key("port"), MapOf(&["port", "protocol"])),
    atomic("ServiceSpec", "clusterIPs"),
    atomic("ServiceSpec", "externalIPs"),
    atomic("ServiceSpec", "ipFamilies"),
    atomic("ServiceSpec", "loadBalancerSourceRanges"),
    map("ServiceSpec", "selector", AtomicMap),
    conditions("ServiceStatus"),
    to("PersistentVolumeClaim", "status", "PersistentVolumeClaimStatus"),
    conditions("PersistentVolumeClaimStatus"),
    map("PersistentVolumeClaimStatus", "allocatedResourceStatuses", GranularMap),
    map("PersistentVolumeSpec", "claimRef", GranularMap),
    list("Endpoint", "addresses", PatchStrategy::Plain, Set),
    to("ServiceCIDR", "status", "ServiceCIDRStatus"),
    conditions("ServiceCIDRStatus"),
    to("HorizontalPodAutoscaler", "status", "HorizontalPodAutoscalerStatus"),
    conditions("HorizontalPodAutoscalerStatus"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_field_is_listed_twice() {
        let mut names: Vec<(&str, &str)> = all().iter().map(|field| (field.of, field.name)).collect();
        names.sort_unstable();
        assert_eq!(names.windows(2).find(|pair| pair[0] == pair[1]), None);
    }

    #[test]
    fn every_type_can_be_reached_and_every_way_leads_somewhere() {
        let leads = |of: &str| all().iter().any(|field| field.of == of);
        for field in all() {
            assert!(field.to.is_empty() || leads(field.to), "{}.{} leads nowhere", field.of, field.name);
        }
    }

    #[test]
    fn every_kind_has_metadata() {
        assert_eq!(field("ConfigMap", "metadata").map(|field| field.to), Some("ObjectMeta"));
        assert!(field("Volume", "metadata").is_none());
    }
}
