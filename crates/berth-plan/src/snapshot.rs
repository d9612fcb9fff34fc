//! The known state of a cluster at one moment, and the substitutes for unknown objects.

use berth_api::{FeatureGates, Gate};
use berth_controllers::cluster::FIELD_MANAGER;
use berth_identity::{GroupVersionKind, GroupVersionResource};
use berth_registry::resource::built_in;
use berth_store::env::Timestamp;
use jiff::SignedDuration;
use serde_json::{Map, Value, json};
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

/// The group of admission policies and webhooks.
pub(crate) const ADMISSION: &str = "admissionregistration.k8s.io";
/// The group of definitions of kinds.
pub(crate) const DEFINING: &str = "apiextensions.k8s.io";

/// Whether an object belongs to [`Snapshot::extensions`].
fn is_extension(object: &Value) -> bool {
    let text = |member: &str| object[member].as_str().unwrap_or_default();
    let kind = GroupVersionKind::as_written(text("apiVersion"), text("kind"));
    let is_core = !text("apiVersion").contains('/');
    [ADMISSION, DEFINING].contains(&kind.group.as_str()) || (!is_core && built_in().by_kind(&kind).is_none())
}

/// Whether a node is one of berth's simulated ones.
pub(crate) fn is_of_berth(node: &Value) -> bool {
    node["status"]["nodeInfo"]["kubeletVersion"].as_str().is_some_and(|version| version.contains("berth"))
}

/// A kind that forecasts use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotKind {
    /// `apps/v1`, `Deployment`.
    pub kind: GroupVersionKind,
    /// `deployments` of `apps/v1`.
    pub resource: GroupVersionResource,
    /// The objects of the kind that a forecast needs.
    pub scope: SnapshotScope,
    /// The assumption of a forecast without it.
    pub without: &'static str,
}

impl SnapshotKind {
    /// Whether an object has this kind.
    pub(crate) fn is_of(&self, object: &Value) -> bool {
        let text = |member: &str| object[member].as_str().unwrap_or_default();
        self.kind.is_written(text("apiVersion"), text("kind"))
    }
}

/// The objects of a kind that a forecast needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotScope {
    /// Those in the namespaces of the change.
    Namespace,
    /// Those in all namespaces, because they use resources of nodes.
    All,
    /// The cluster-scoped objects.
    Cluster,
}

const fn kind(
    (group, version): (&'static str, &'static str),
    kind: &'static str,
    plural: &'static str,
    scope: SnapshotScope,
    without: &'static str,
) -> SnapshotKind {
    let kind = GroupVersionKind::from_static(group, version, kind);
    let resource = GroupVersionResource::from_static(group, version, plural);
    SnapshotKind { kind, resource, scope, without }
}

const CORE: (&str, &str) = ("", "v1");
const APPS: (&str, &str) = ("apps", "v1");
const BATCH: (&str, &str) = ("batch", "v1");

/// All kinds that forecasts use. They include neither Secrets nor ConfigMaps.
pub static KINDS: &[SnapshotKind] = &[
    kind(CORE, "Namespace", "namespaces", SnapshotScope::Cluster, "assuming no pod security level"),
    kind(CORE, "Node", "nodes", SnapshotScope::Cluster, "assuming nodes with room for all pods"),
    kind(CORE, "ResourceQuota", "resourcequotas", SnapshotScope::Namespace, "assuming no quota"),
    kind(CORE, "LimitRange", "limitranges", SnapshotScope::Namespace, "assuming no LimitRange"),
    kind(CORE, "PersistentVolumeClaim", "persistentvolumeclaims", SnapshotScope::Namespace, "assuming no claims"),
    kind(CORE, "PersistentVolume", "persistentvolumes", SnapshotScope::Cluster, "assuming that bound claims have their volumes"),
    kind(("storage.k8s.io", "v1"), "StorageClass", "storageclasses", SnapshotScope::Cluster, "assuming that claims get volumes"),
    kind(("scheduling.k8s.io", "v1"), "PriorityClass", "priorityclasses", SnapshotScope::Cluster, "assuming the priorities of the pods"),
    kind(("node.k8s.io", "v1"), "RuntimeClass", "runtimeclasses", SnapshotScope::Cluster, "assuming the overhead of the pods"),
    kind(("policy", "v1"), "PodDisruptionBudget", "poddisruptionbudgets", SnapshotScope::Namespace, "assuming no disruption budget"),
    kind(APPS, "Deployment", "deployments", SnapshotScope::Namespace, "there is nothing to plan from"),
    kind(APPS, "StatefulSet", "statefulsets", SnapshotScope::Namespace, "there is nothing to plan from"),
    kind(APPS, "DaemonSet", "daemonsets", SnapshotScope::Namespace, "assuming no DaemonSets"),
    kind(BATCH, "Job", "jobs", SnapshotScope::Namespace, "assuming no Jobs"),
    kind(CORE, "ReplicationController", "replicationcontrollers", SnapshotScope::Namespace, "assuming no ReplicationControllers"),
    kind(("autoscaling", "v2"), "HorizontalPodAutoscaler", "horizontalpodautoscalers", SnapshotScope::Namespace, "assuming no autoscaler"),
    kind(APPS, "ReplicaSet", "replicasets", SnapshotScope::Namespace, "assuming that every rollout creates a new one"),
    kind(
        APPS,
        "ControllerRevision",
        "controllerrevisions",
        SnapshotScope::Namespace,
        "assuming StatefulSets and DaemonSets without history",
    ),
    kind(CORE, "Pod", "pods", SnapshotScope::All, "assuming no pods"),
];

/// The kind of a cluster's controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controllers {
    /// berth's: all policies and strategies have an effect.
    Berth,
    /// Kubernetes' own: they support neither `podReplacementPolicy`, nor Recreate of StatefulSets, nor berth's annotations.
    Kubernetes,
}

impl Controllers {
    /// The name for programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Berth => "berth",
            Self::Kubernetes => "kubernetes",
        }
    }

    /// The part of an object or patch that they support: Kubernetes' own controllers ignore berth's annotations.
    pub(crate) fn supported_part(self, object: &Value) -> Cow<'_, Value> {
        let is_ignored = |key: &str| key.starts_with("berth.dev/");
        let annotations = object["metadata"]["annotations"].as_object();
        if self == Self::Berth || !annotations.is_some_and(|all| all.keys().any(|key| is_ignored(key))) {
            return Cow::Borrowed(object);
        }
        let mut object = object.clone();
        let annotations = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
        annotations.into_iter().for_each(|all| all.retain(|key, _| !is_ignored(key)));
        Cow::Owned(object)
    }

    /// The gates that make berth's controllers act as these, with default gates.
    pub(crate) fn gates(self) -> FeatureGates {
        self.gates_of(&FeatureGates::default())
    }

    /// The gates that make berth's controllers act as these, with these gates.
    pub(crate) fn gates_of(self, own: &FeatureGates) -> FeatureGates {
        let mut gates = own.clone();
        Gate::ALL.iter().filter(|gate| !self.know(**gate)).for_each(|gate| gates.set(*gate, false));
        gates
    }

    /// Whether they support the feature of this gate.
    pub(crate) fn know(self, gate: Gate) -> bool {
        let is_berths = matches!(gate, Gate::DeploymentPodReplacementPolicy | Gate::RolloutRecords | Gate::StatefulSetRecreateStrategy);
        self == Self::Berth || !is_berths
    }
}

/// The known state of a cluster at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The objects as the server has them. Objects without a uid are manifests, which are created and rolled out before the change. Kinds
    /// that are not in [`KINDS`] are ignored, except events, which provide pod times.
    pub objects: Vec<Value>,
    /// The same of what extends the API server: definitions of kinds and their objects, admission policies, and webhooks.
    pub extensions: Vec<Value>,
    /// When it was taken.
    pub at: Timestamp,
    /// What could not be read, as sentences.
    pub missing: Vec<String>,
}

impl Snapshot {
    /// The snapshot in documents as `kubectl get -o yaml` prints them. Lists are expanded. Its time is the latest time in the objects.
    #[must_use]
    pub fn of_documents(documents: impl IntoIterator<Item = Value>) -> Self {
        let mut objects = Vec::new();
        documents.into_iter().for_each(|document| flatten(document, &mut objects));
        let at = objects.iter().map(newest).max().unwrap_or_default();
        let (extensions, objects): (Vec<Value>, Vec<Value>) = objects.into_iter().partition(is_extension);
        let missing = missing(&objects);
        Self { objects, extensions, at, missing }
    }

    /// The probable kind of the cluster's controllers, and the evidence for it.
    #[must_use]
    pub fn controllers(&self) -> (Controllers, String) {
        let workloads = || self.of_kinds(&["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"]);
        let manages =
            |name: &str| workloads().any(|object| entries(&object["metadata"]["managedFields"]).any(|entry| entry["manager"] == name));
        let has_policy = |object: &Value| object["spec"]["podReplacementPolicy"].is_string();
        if manages(FIELD_MANAGER) {
            (Controllers::Berth, "they write the workloads".to_owned())
        } else if manages("kube-controller-manager") {
            (Controllers::Kubernetes, "they write the workloads' status".to_owned())
        } else if self.of_kinds(&["Node"]).any(is_of_berth) {
            (Controllers::Berth, "the nodes are berth's".to_owned())
        } else if workloads().any(has_policy) {
            (Controllers::Berth, "the server knows podReplacementPolicy".to_owned())
        } else if workloads().any(|object| uid(object).is_some()) {
            (Controllers::Kubernetes, "no sign of others; if they are berth's, add --controllers berth".to_owned())
        } else {
            (Controllers::Berth, "there is no cluster, only manifests".to_owned())
        }
    }

    pub(crate) fn of_kinds<'a>(&'a self, kinds: &'a [&str]) -> impl Iterator<Item = &'a Value> {
        self.objects.iter().filter(move |object| kinds.iter().any(|kind| object["kind"] == *kind))
    }

    /// The server's objects, with those that they depend on: namespaces, accounts, nodes, volumes, priorities.
    pub(crate) fn stored(&self) -> Vec<Cow<'_, Value>> {
        let known = |object: &&Value| KINDS.iter().any(|kind| kind.is_of(object));
        let had = self.objects.iter().filter(known).filter(|object| uid(object).is_some()).map(as_here);
        let supposed =
            [self.namespaces(), self.accounts(), self.nodes(), self.volumes(), self.priorities(), self.runtime_classes(), self.classes()];
        had.chain(supposed.into_iter().flatten().map(Cow::Owned)).collect()
    }

    /// The objects without a uid.
    pub(crate) fn manifests(&self) -> impl Iterator<Item = &Value> {
        let known = |object: &&Value| KINDS.iter().any(|kind| kind.is_of(object));
        self.objects.iter().filter(known).filter(|object| uid(object).is_none())
    }

    /// The names of the objects of a cluster-scoped kind.
    fn names(&self, kind: &str) -> BTreeSet<&str> {
        self.objects.iter().filter(|object| object["kind"] == kind).filter_map(|object| object["metadata"]["name"].as_str()).collect()
    }

    fn namespaces(&self) -> Vec<Value> {
        let named = self.objects.iter().chain(&self.extensions).filter_map(|object| object["metadata"]["namespace"].as_str());
        let (all, known): (BTreeSet<&str>, _) = (named.chain(["default"]).collect(), self.names("Namespace"));
        let namespace = |name: &&str| {
            let labels = json!({"kubernetes.io/metadata.name": name});
            let more = json!({"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
            supposed("v1", "Namespace", "", name, &labels, more)
        };
        all.difference(&known).map(namespace).collect()
    }

    fn pod_specs(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.objects.iter().filter_map(|object| {
            let spec = match object["kind"].as_str()? {
                "Pod" => &object["spec"],
                "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "Job" | "ReplicationController" => {
                    &object["spec"]["template"]["spec"]
                }
                _ => return None,
            };
            Some((object["metadata"]["namespace"].as_str().unwrap_or("default"), spec))
        })
    }

    fn accounts(&self) -> Vec<Value> {
        let named = |(namespace, spec): (&str, &Value)| Some((namespace.to_owned(), spec["serviceAccountName"].as_str()?.to_owned()));
        let all: BTreeSet<(String, String)> = self.pod_specs().filter_map(named).collect();
        let more = || json!({"automountServiceAccountToken": false});
        all.iter().map(|(namespace, name)| supposed("v1", "ServiceAccount", namespace, name, &Value::Null, more())).collect()
    }

    /// Substitutes for unknown nodes: those of existing pods, and one with enough room for all others.
    fn nodes(&self) -> Vec<Value> {
        let on = self.of_kinds(&["Pod"]).filter_map(|pod| pod["spec"]["nodeName"].as_str());
        let (named, known) = (self.names("Node"), self.of_kinds(&["Node"]).next().is_some());
        let all: BTreeSet<&str> = on.chain((!known).then_some(SUPPOSED_NODE)).filter(|name| !name.is_empty()).collect();
        let room =
            if known { json!({"pods": "0"}) } else { json!({"cpu": "1M", "memory": "1Pi", "pods": "1M", "ephemeral-storage": "1Pi"}) };
        let node = |name: &&str| {
            let status = json!({"allocatable": room, "capacity": room, "conditions": [{"type": "Ready", "status": "True"}]});
            // A node of a pod that is not among the known nodes is not schedulable.
            supposed(
                "v1",
                "Node",
                "",
                name,
                &json!({"kubernetes.io/hostname": name}),
                json!({"status": status, "spec": {"unschedulable": known}}),
            )
        };
        all.difference(&named).map(node).collect()
    }

    fn volumes(&self) -> Vec<Value> {
        let known = self.names("PersistentVolume");
        let volume = |claim: &Value| {
            let name = claim["spec"]["volumeName"].as_str().filter(|name| !name.is_empty() && !known.contains(name))?;
            let (meta, spec) = (&claim["metadata"], &claim["spec"]);
            let claim_ref = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]});
            let capacity = spec["resources"]["requests"].clone();
            let of = json!({"capacity": capacity, "accessModes": spec["accessModes"], "claimRef": claim_ref,
                "storageClassName": spec["storageClassName"], "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": "/supposed"}});
            Some(supposed("v1", "PersistentVolume", "", name, &Value::Null, json!({"spec": of, "status": {"phase": "Bound"}})))
        };
        self.of_kinds(&["PersistentVolumeClaim"]).filter_map(volume).collect()
    }

    fn priorities(&self) -> Vec<Value> {
        let (mut all, known): (BTreeMap<&str, i64>, _) = (BTreeMap::new(), self.names("PriorityClass"));
        for (_, spec) in self.pod_specs() {
            if let Some(name) = spec["priorityClassName"].as_str().filter(|name| !known.contains(name)) {
                let value = all.entry(name).or_default();
                *value = spec["priority"].as_i64().unwrap_or(*value);
            }
        }
        let class = |(name, value): (&&str, &i64)| {
            supposed("scheduling.k8s.io/v1", "PriorityClass", "", name, &Value::Null, json!({"value": value}))
        };
        all.iter().map(class).collect()
    }

    /// RuntimeClasses of pods, with the overhead of their pods.
    fn runtime_classes(&self) -> Vec<Value> {
        let (mut all, known): (BTreeMap<&str, Value>, _) = (BTreeMap::new(), self.names("RuntimeClass"));
        for (_, spec) in self.pod_specs() {
            if let Some(name) = spec["runtimeClassName"].as_str().filter(|name| !known.contains(name)) {
                let overhead = all.entry(name).or_default();
                if spec["overhead"].is_object() {
                    overhead.clone_from(&spec["overhead"]);
                }
            }
        }
        let class = |(name, overhead): (&&str, &Value)| {
            let more =
                if overhead.is_null() { json!({"handler": name}) } else { json!({"handler": name, "overhead": {"podFixed": overhead}}) };
            supposed("node.k8s.io/v1", "RuntimeClass", "", name, &Value::Null, more)
        };
        all.iter().map(class).collect()
    }

    /// The StorageClasses in claims of StatefulSets and a default one, if no class is known.
    fn classes(&self) -> Vec<Value> {
        if self.of_kinds(&["StorageClass"]).next().is_some() {
            return Vec::new();
        }
        let templates = self.of_kinds(&["StatefulSet"]).flat_map(|set| entries(&set["spec"]["volumeClaimTemplates"]));
        let named: BTreeSet<&str> = templates.filter_map(|claim| claim["spec"]["storageClassName"].as_str()).chain(["standard"]).collect();
        let class = |name: &str| {
            let default = json!({"storageclass.kubernetes.io/is-default-class": (name == "standard").to_string()});
            let mut class = supposed("storage.k8s.io/v1", "StorageClass", "", name, &Value::Null, json!({"provisioner": PROVISIONER}));
            class["metadata"]["annotations"] = default;
            class["reclaimPolicy"] = json!("Delete");
            class["volumeBindingMode"] = json!("Immediate");
            class
        };
        named.into_iter().map(class).collect()
    }
}

/// The provisioner of a simulation.
const PROVISIONER: &str = "berth.dev/simulated";
/// The node of new pods if no node is known.
pub(crate) const SUPPOSED_NODE: &str = "supposed";

/// An object as the forecast stores it.
fn as_here(object: &Value) -> Cow<'_, Value> {
    let mut object = Cow::Borrowed(object);
    if object["kind"] == "StorageClass" {
        // berth provisions the volumes, whatever the cluster's provisioner.
        object.to_mut()["provisioner"] = json!(PROVISIONER);
    }
    // No client applies pods, and `managedFields` are the larger part of many.
    if object["kind"] == "Pod" && object["metadata"].get("managedFields").is_some() {
        object.to_mut()["metadata"].as_object_mut().map(|metadata| metadata.remove("managedFields"));
    }
    object
}

/// A substitute for an object that no server has reported.
fn supposed(api_version: &str, kind: &str, namespace: &str, name: &str, labels: &Value, more: Value) -> Value {
    let mut metadata =
        json!({"name": name, "uid": format!("supposed-{kind}-{namespace}-{name}"), "creationTimestamp": Timestamp::UNIX_EPOCH});
    if !namespace.is_empty() {
        metadata["namespace"] = json!(namespace);
    }
    if labels.is_object() {
        metadata["labels"] = labels.clone();
    }
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
    if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
        object.extend(more);
    }
    object
}

fn flatten(document: Value, objects: &mut Vec<Value>) {
    match document {
        Value::Object(mut list) if list.get("items").is_some_and(Value::is_array) => {
            // Items of a typed list may omit their kind.
            let kind = list.get("kind").and_then(Value::as_str).and_then(|kind| kind.strip_suffix("List")).map(str::to_owned);
            let api_version = list.get("apiVersion").cloned().unwrap_or_default();
            let Some(Value::Array(items)) = list.remove("items") else { return };
            for mut item in items {
                if let (Some(kind), Some(members)) = (kind.as_deref().filter(|kind| !kind.is_empty()), item.as_object_mut()) {
                    members.entry("kind").or_insert_with(|| json!(kind));
                    members.entry("apiVersion").or_insert_with(|| api_version.clone());
                }
                flatten(item, objects);
            }
        }
        object @ Value::Object(_) => objects.push(object),
        _ => (),
    }
}

/// The required kinds that a file does not contain.
fn missing(objects: &[Value]) -> Vec<String> {
    let is_cluster = objects.iter().any(|object| uid(object).is_some());
    let has = |kind: &str| objects.iter().any(|object| object["kind"] == kind);
    let needed = ["Node", "Pod", "ReplicaSet"].into_iter().filter(|kind| is_cluster && !has(kind));
    let sentence = |kind: &SnapshotKind| format!("the file contains no {}: {}", kind.resource.plural, kind.without);
    needed.filter_map(|needed| KINDS.iter().find(|kind| kind.kind.kind == needed)).map(sentence).collect()
}

/// Its uid, if a server has assigned one.
pub(crate) fn uid(object: &Value) -> Option<&str> {
    object["metadata"]["uid"].as_str().filter(|uid| !uid.is_empty())
}

pub(crate) fn entries(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// When it was deleted, if it is terminating.
pub(crate) fn termination_requested_at(object: &Value) -> Option<Timestamp> {
    let meta = &object["metadata"];
    let deadline: Timestamp = meta["deletionTimestamp"].as_str()?.parse().ok()?;
    deadline.checked_sub(SignedDuration::from_secs(meta["deletionGracePeriodSeconds"].as_i64().unwrap_or(0))).ok()
}

/// The latest time in an object.
fn newest(object: &Value) -> Timestamp {
    let mut newest = termination_requested_at(object).unwrap_or(Timestamp::UNIX_EPOCH);
    let Some(members) = object.as_object() else { return newest };
    for member in ["metadata", "status", "lastTimestamp", "spec"] {
        if let Some(value) = members.get(member) {
            walk(member, value, &mut newest);
        }
    }
    newest
}

fn walk(name: &str, value: &Value, newest: &mut Timestamp) {
    match value {
        // This time is in the future.
        Value::String(_) if name == "deletionTimestamp" => (),
        Value::String(text) if name.ends_with("ime") || name.ends_with("imestamp") || name.ends_with("At") => {
            *newest = text.parse().map_or(*newest, |time: Timestamp| time.max(*newest));
        }
        Value::Array(items) => items.iter().for_each(|item| walk(name, item, newest)),
        Value::Object(members) => walk_members(members, newest),
        _ => (),
    }
}

fn walk_members(members: &Map<String, Value>, newest: &mut Timestamp) {
    // Templates and annotations can contain any text.
    members
        .iter()
        .filter(|(name, _)| !["annotations", "template"].contains(&name.as_str()))
        .for_each(|(name, value)| walk(name, value, newest));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_was_taken_when_the_last_thing_happened() {
        let pod = json!({"kind": "Pod", "metadata": {
            "name": "a", "uid": "a", "creationTimestamp": "2026-03-01T10:00:00Z",
            "deletionTimestamp": "2026-03-01T10:01:00Z", "deletionGracePeriodSeconds": 30,
            "annotations": {"someTime": "2030-01-01T00:00:00Z"}},
            "status": {"conditions": [{"type": "Ready", "lastTransitionTime": "2026-03-01T10:00:07Z"}]}});
        let snapshot = Snapshot::of_documents([json!({"kind": "PodList", "apiVersion": "v1", "items": [pod]})]);
        assert_eq!(snapshot.at.to_string(), "2026-03-01T10:00:30Z", "it was told to go");
        assert_eq!(snapshot.objects[0]["apiVersion"], "v1");
        assert_eq!(snapshot.missing.len(), 2, "{:?}", snapshot.missing);
    }

    #[test]
    fn lists_are_replaced_by_their_items_and_templates_have_no_time() {
        let pod = json!({"metadata": {"name": "a", "uid": "a", "managedFields": [{"manager": "m", "time": "2026-03-01T10:00:09Z"}]}});
        let web = json!({"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "web", "uid": "w"},
            "spec": {"template": {"metadata": {"creationTimestamp": "2030-01-01T00:00:00Z"}, "spec": {"startTime": "2030-01-01T00:00:00Z"}}},
            "status": {"conditions": [{"lastUpdateTime": "2026-03-01T10:00:08Z"}]}});
        let inner = json!({"kind": "PodList", "apiVersion": "v1", "items": [pod]});
        let event = json!({"kind": "Event", "apiVersion": "v1", "metadata": {"name": "e"}, "lastTimestamp": "2026-03-01T10:00:05Z"});
        let snapshot =
            Snapshot::of_documents([json!({"kind": "List", "apiVersion": "v1", "items": [inner, web, event, 3]}), json!("text")]);
        let kinds: Vec<&Value> = snapshot.objects.iter().map(|object| &object["kind"]).collect();
        assert_eq!(kinds, ["Pod", "Deployment", "Event"]);
        assert_eq!(snapshot.at.to_string(), "2026-03-01T10:00:09Z", "the time of the last write");
    }

    #[test]
    fn the_writer_of_the_status_is_the_controller() {
        let check = |object: Value, wanted: Controllers| {
            let (found, why) = Snapshot::of_documents([object]).controllers();
            assert_eq!(found, wanted, "{why}");
        };
        let managed = |by: &str| json!({"kind": "ReplicaSet", "metadata": {"name": "a", "uid": "u", "managedFields": [{"manager": by}]}});
        check(managed("kube-controller-manager"), Controllers::Kubernetes);
        check(managed("berth-controller-manager"), Controllers::Berth);
        check(managed("somebody"), Controllers::Kubernetes);
        check(
            json!({"kind": "Node", "metadata": {"name": "n"}, "status": {"nodeInfo": {"kubeletVersion": "v1.36.0-berth"}}}),
            Controllers::Berth,
        );
        let asks =
            json!({"kind": "Deployment", "metadata": {"name": "a", "uid": "u"}, "spec": {"podReplacementPolicy": "TerminationStarted"}});
        check(asks, Controllers::Berth);
    }

    #[test]
    fn who_wrote_what_of_a_pod_is_left_out_and_what_can_be_applied_keeps_it() {
        let object = |api_version: &str, kind: &str| {
            json!({"apiVersion": api_version, "kind": kind,
                "metadata": {"name": "a", "namespace": "shop", "uid": kind, "managedFields": [{"manager": "kubelet"}]}})
        };
        let snapshot = Snapshot::of_documents([object("v1", "Pod"), object("apps/v1", "Deployment")]);
        let stored = snapshot.stored();
        let members = |kind: &str| {
            let object = stored.iter().find(|object| object["kind"] == kind).expect("it is there");
            object["metadata"].as_object().map(|metadata| metadata.keys().map(String::as_str).collect::<Vec<_>>())
        };
        assert_eq!(members("Pod"), Some(vec!["name", "namespace", "uid"]));
        assert_eq!(members("Deployment"), Some(vec!["managedFields", "name", "namespace", "uid"]));
    }

    #[test]
    fn what_is_needed_and_not_there_is_supposed() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "shop", "uid": "a"},
            "spec": {"nodeName": "n1", "serviceAccountName": "till", "priorityClassName": "high", "priority": 7,
                "runtimeClassName": "small", "overhead": {"cpu": "250m"}}});
        let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "shop", "uid": "c"},
            "spec": {"volumeName": "v", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "shop", "uid": "s"}});
        let snapshot = Snapshot::of_documents([pod, claim, secret]);
        let stored = snapshot.stored();
        let named = |kind: &str| -> Vec<&str> {
            stored.iter().filter(|object| object["kind"] == kind).filter_map(|object| object["metadata"]["name"].as_str()).collect()
        };
        assert_eq!(named("Namespace"), ["default", "shop"]);
        assert_eq!(named("ServiceAccount"), ["till"]);
        assert_eq!(named("Node"), ["n1", SUPPOSED_NODE]);
        assert_eq!(named("PersistentVolume"), ["v"]);
        assert_eq!(named("PriorityClass"), ["high"]);
        let value = |kind: &str, pointer: &str| {
            let object = stored.iter().find(|object| object["kind"] == kind);
            object.and_then(|object| object.pointer(pointer)).cloned().unwrap_or_default()
        };
        assert_eq!(value("PriorityClass", "/value"), 7, "as its pod has it");
        assert_eq!(value("RuntimeClass", "/overhead/podFixed/cpu"), "250m", "as its pod has it");
        assert_eq!(value("PersistentVolume", "/spec/claimRef/uid"), "c");
        assert_eq!(value("StorageClass", "/metadata/annotations/storageclass.kubernetes.io~1is-default-class"), "true");
        assert_eq!(named("Secret"), [] as [&str; 0]);
    }
}
