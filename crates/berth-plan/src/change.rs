//! The change that a forecast is about.

use crate::{
    error::PlanError,
    simulation::{Simulation, Subject},
    snapshot::entries,
};
use berth_workloads::workload::{WorkloadId, WorkloadKind};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// The change: manifests are applied, then individual workloads are edited, then all of them.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// Applied as by `kubectl apply`. Kinds that forecasts do not use are ignored.
    pub manifests: Vec<Value>,
    /// The namespace of manifests without one.
    pub namespace: String,
    /// Changes of individual workloads.
    pub edits: Vec<Edit>,
    /// The change to all Deployments in manifests and edits.
    pub deployments: Edits,
    /// The change to all StatefulSets in manifests and edits.
    pub stateful_sets: Edits,
    /// The change to all DaemonSets in manifests and edits.
    pub daemon_sets: Edits,
    /// The server's dry-run results of manifests and edits, which replace them ([`Change::answered`]).
    pub served: Option<Vec<Value>>,
}

/// A change of one workload.
#[derive(Clone, Debug)]
pub struct Edit {
    /// The workload.
    pub workload: WorkloadId,
    /// The change.
    pub edits: Edits,
}

/// The change of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edits {
    /// Images by the names of containers.
    pub images: Vec<(String, String)>,
    /// `replicas`.
    pub replicas: Option<i32>,
    /// `podReplacementPolicy`, of Deployments.
    pub policy: Option<String>,
    /// `strategy.type`, `updateStrategy.type`.
    pub strategy: Option<String>,
}

/// The kind of a manifest, if it is a workload.
fn kind_of(manifest: &Value) -> Option<WorkloadKind> {
    WorkloadKind::of_manifest(manifest["apiVersion"].as_str()?, manifest["kind"].as_str()?)
}

pub(crate) fn subject(workload: &WorkloadId) -> Subject {
    Subject { kind: workload.kind.gvk(), namespace: workload.namespace.to_string(), name: workload.name.to_string() }
}

impl Change {
    /// The changed workloads, in order.
    ///
    /// # Errors
    /// The change contains no workload.
    pub(crate) fn targets(&self) -> Result<Vec<WorkloadId>, PlanError> {
        let of_manifests = self.manifests.iter().filter_map(|manifest| {
            Some(WorkloadId::new(kind_of(manifest)?, self.namespace_of(manifest), manifest["metadata"]["name"].as_str()?))
        });
        let of_edits = self.edits.iter().map(|edit| edit.workload.clone());
        let mut seen = BTreeSet::new();
        let targets: Vec<WorkloadId> = of_manifests.chain(of_edits).filter(|target| seen.insert(target.clone())).collect();
        if targets.is_empty() && self.others().is_empty() { Err(PlanError::NoTarget) } else { Ok(targets) }
    }

    pub(crate) fn namespace_of<'a>(&'a self, manifest: &'a Value) -> &'a str {
        let own = if self.namespace.is_empty() { "default" } else { &self.namespace };
        manifest["metadata"]["namespace"].as_str().filter(|namespace| !namespace.is_empty()).unwrap_or(own)
    }

    /// The manifests, each with its namespace.
    pub(crate) fn namespaced(&self) -> Vec<Value> {
        let named = |manifest: &Value| {
            let mut manifest = manifest.clone();
            manifest["metadata"]["namespace"] = json!(self.namespace_of(&manifest));
            manifest
        };
        self.manifests.iter().filter(|manifest| manifest["metadata"].is_object()).map(named).collect()
    }

    /// Replaces the manifests and edits by the server's dry-run results ([`crate::writes`]).
    #[must_use]
    pub fn answered(self, answers: Vec<Value>) -> Self {
        Self {
            served: Some(answers),
            deployments: Edits::default(),
            stateful_sets: Edits::default(),
            daemon_sets: Edits::default(),
            ..self
        }
    }

    /// The namespaces of its objects.
    pub(crate) fn namespaces(&self) -> BTreeSet<String> {
        let of_edits = self.edits.iter().map(|edit| edit.workload.namespace.to_string());
        self.manifests.iter().map(|manifest| self.namespace_of(manifest).to_owned()).chain(of_edits).collect()
    }

    /// The change of a workload, in a few words.
    pub(crate) fn words(&self, workload: &WorkloadId) -> String {
        let is_it = |edit: &&Edit| edit.workload == *workload;
        let applied = |manifest: &&Value| {
            kind_of(manifest) == Some(workload.kind)
                && *self.namespace_of(manifest) == *workload.namespace
                && manifest["metadata"]["name"] == *workload.name
        };
        let manifest = self.manifests.iter().find(applied).map(|_| "manifest applied".to_owned());
        let edits = self.edits.iter().filter(is_it).map(|edit| &edit.edits).chain([self.of_all(workload.kind)]);
        let words: Vec<String> = manifest.into_iter().chain(edits.flat_map(Edits::words)).collect();
        words.join(", ")
    }

    pub(crate) fn of_all(&self, kind: WorkloadKind) -> &Edits {
        match kind {
            WorkloadKind::Deployment => &self.deployments,
            WorkloadKind::StatefulSet => &self.stateful_sets,
            WorkloadKind::DaemonSet => &self.daemon_sets,
        }
    }
}

impl Edits {
    fn words(&self) -> Vec<String> {
        let images = self.images.iter().map(|(container, image)| format!("image {container}={image}"));
        let replicas = self.replicas.iter().map(|replicas| format!("replicas {replicas}"));
        let choices = self.policy.iter().chain(&self.strategy).cloned();
        images.chain(replicas).chain(choices).collect()
    }

    pub(crate) fn make(&self, simulation: &mut Simulation, workload: &WorkloadId) -> Result<(), PlanError> {
        let subject = subject(workload);
        let live = simulation.get(&subject)?;
        if live.is_null() {
            return Err(PlanError::NoWorkload { workload: workload.clone() });
        }
        let patch = self.patch(workload.kind, &live)?;
        if patch.is_empty() { Ok(()) } else { simulation.patch(&subject, json!({"spec": patch})) }
    }

    /// A merge patch of the spec.
    fn patch(&self, kind: WorkloadKind, live: &Value) -> Result<Map<String, Value>, PlanError> {
        let mut patch = Map::new();
        if let Some(replicas) = self.replicas {
            if kind == WorkloadKind::DaemonSet {
                return Err(PlanError::Change("a DaemonSet has no replicas: it has a pod on each of its nodes".to_owned()));
            }
            patch.insert("replicas".to_owned(), json!(replicas));
        }
        if !self.images.is_empty() {
            patch.insert("template".to_owned(), json!({"spec": self.with_images(live)?}));
        }
        match (kind, &self.policy) {
            (_, None) => (),
            (WorkloadKind::Deployment, Some(policy)) => drop(patch.insert("podReplacementPolicy".to_owned(), json!(policy))),
            (WorkloadKind::StatefulSet | WorkloadKind::DaemonSet, Some(_)) => {
                return Err(PlanError::Change(format!("a {} has no podReplacementPolicy; use --strategy", kind.name())));
            }
        }
        if let Some(strategy) = &self.strategy {
            let member = if kind == WorkloadKind::Deployment { "strategy" } else { "updateStrategy" };
            // The parameters are valid for one type only.
            let mut wanted = json!({"type": strategy});
            if strategy != "RollingUpdate" {
                wanted["rollingUpdate"] = Value::Null;
            }
            patch.insert(member.to_owned(), wanted);
        }
        Ok(patch)
    }

    /// The lists of containers with the new images; `*` is every container.
    fn with_images(&self, live: &Value) -> Result<Value, PlanError> {
        let spec = &live["spec"]["template"]["spec"];
        let mut lists = Map::new();
        let mut left: BTreeSet<&str> = self.images.iter().map(|(container, _)| container.as_str()).collect();
        for member in ["containers", "initContainers"].into_iter().filter(|member| spec[*member].is_array()) {
            let mut list = spec[member].clone();
            for container in list.as_array_mut().into_iter().flatten() {
                let name = container["name"].as_str().unwrap_or_default().to_owned();
                for (of, image) in self.images.iter().filter(|(of, _)| *of == name || of == "*") {
                    container["image"] = json!(image);
                    left.remove(of.as_str());
                }
            }
            lists.insert(member.to_owned(), list);
        }
        if left.is_empty() {
            return Ok(Value::Object(lists));
        }
        let known: Vec<&str> = entries(&spec["containers"]).filter_map(|container| container["name"].as_str()).collect();
        let unknown: Vec<&str> = left.into_iter().collect();
        let name = live["metadata"]["name"].as_str().unwrap_or_default();
        Err(PlanError::Change(format!("{name} has no container {}; its containers are {}", unknown.join(", "), known.join(", "))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live() -> Value {
        json!({"metadata": {"name": "web"}, "spec": {"template": {"spec": {"containers": [{"name": "main", "image": "a:1"}, {"name": "log", "image": "l"}]}}}})
    }

    fn patch(edits: Edits, kind: WorkloadKind) -> Result<Value, String> {
        edits.patch(kind, &live()).map(Value::Object).map_err(|error| error.to_string())
    }

    #[test]
    fn edits_name_what_they_change_and_nothing_else() {
        let images = vec![("main".to_owned(), "a:2".to_owned())];
        let found = patch(Edits { images, replicas: Some(4), ..Edits::default() }, WorkloadKind::Deployment);
        let containers = json!([{"name": "main", "image": "a:2"}, {"name": "log", "image": "l"}]);
        assert_eq!(found, Ok(json!({"replicas": 4, "template": {"spec": {"containers": containers}}})));
        let recreate = Edits { strategy: Some("Recreate".to_owned()), ..Edits::default() };
        assert_eq!(patch(recreate, WorkloadKind::StatefulSet), Ok(json!({"updateStrategy": {"type": "Recreate", "rollingUpdate": null}})));
        assert_eq!(patch(Edits::default(), WorkloadKind::Deployment), Ok(json!({})));
    }

    #[test]
    fn what_cannot_be_edited_is_named() {
        let images = vec![("mian".to_owned(), "a:2".to_owned())];
        let found = patch(Edits { images, ..Edits::default() }, WorkloadKind::Deployment);
        assert_eq!(found, Err("web has no container mian; its containers are main, log".to_owned()));
        let policy = Edits { policy: Some("TerminationComplete".to_owned()), ..Edits::default() };
        assert!(patch(policy, WorkloadKind::StatefulSet).is_err_and(|text| text.contains("--strategy")));
    }

    #[test]
    fn a_change_has_words_for_what_it_does_to_a_workload() {
        let images = vec![("main".to_owned(), "a:2".to_owned())];
        let edit = |name: &str, edits: Edits| Edit { workload: WorkloadId::new(WorkloadKind::Deployment, "shop", name), edits };
        let change = Change {
            manifests: vec![json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}})],
            namespace: "shop".to_owned(),
            edits: vec![edit("web", Edits { images, replicas: Some(4), ..Edits::default() }), edit("till", Edits::default())],
            deployments: Edits { policy: Some("TerminationComplete".to_owned()), ..Edits::default() },
            ..Change::default()
        };
        let words = |kind, namespace: &str| change.words(&WorkloadId::new(kind, namespace, "web"));
        assert_eq!(words(WorkloadKind::Deployment, "shop"), "manifest applied, image main=a:2, replicas 4, TerminationComplete");
        assert_eq!(words(WorkloadKind::Deployment, "other"), "TerminationComplete");
        assert_eq!(words(WorkloadKind::StatefulSet, "shop"), "");
    }

    #[test]
    fn a_change_is_about_each_workload_once() {
        let manifest = |kind: &str, name: &str| json!({"apiVersion": if kind == "Service" { "v1" } else { "apps/v1" }, "kind": kind, "metadata": {"name": name}});
        let edit = Edit { workload: WorkloadId::new(WorkloadKind::Deployment, "shop", "web"), edits: Edits::default() };
        let change = Change {
            manifests: vec![manifest("Deployment", "web"), manifest("Service", "web")],
            namespace: "shop".to_owned(),
            edits: vec![edit],
            ..Change::default()
        };
        assert_eq!(change.targets().expect("one"), [WorkloadId::new(WorkloadKind::Deployment, "shop", "web")]);
        assert!(matches!(Change::default().targets(), Err(PlanError::NoTarget)));
    }
}
