//! Pods that a live server checks by dry run. A forecast rejects the pods that the server's admission policies and webhooks reject.

use crate::{
    change::Change,
    changed::Changed,
    dry_run::{Write, WriteBody},
    error::PlanError,
    extensions::{Evaluate, Extensions},
    simulation::{Server, Simulation, Subject},
    snapshot::{Snapshot, entries},
};
use berth_api::{Object, decode::Codec, k8s_openapi::api::core::v1::PodTemplateSpec};
use berth_identity::Revision;
use berth_registry::{AdmissionRequest, ApiError, BoxObject, Operation, Reinvocation, Remarks, Reviewer, Stage};
use berth_workloads::{
    hash::same_template,
    resources::{POD, PODS},
    view::{ReplicaSetView, RevisionView, View},
    workload::{WorkloadId, WorkloadKind},
};
use futures::{FutureExt, future::BoxFuture};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The label with the revision of a StatefulSet's or a DaemonSet's pods.
const REVISION: &str = "controller-revision-hash";

/// A pod as the controller of a workload would create it after the change, without its owner and its name.
#[derive(Clone, Debug)]
pub struct AskedPod {
    workload: WorkloadId,
    template: Value,
    /// The create request.
    pub write: Write,
}

/// A pod that the server rejects.
#[derive(Clone, Debug)]
pub struct RefusedPod {
    /// The pod.
    pub pod: AskedPod,
    /// The server's message.
    pub message: String,
}

/// One pod of each workload of the change that will have pods.
///
/// # Errors
/// Those of making the change.
pub fn asked_pods(snapshot: &Snapshot, change: &Change) -> Result<Vec<AskedPod>, PlanError> {
    let extensions = Extensions::of(snapshot, change, Evaluate::Nothing);
    let mut simulation = Simulation::new(0, snapshot.at, &Server::default());
    // Only the workloads themselves are read. The other kinds can be numerous.
    let is_large = |object: &Value| ["Pod", "ReplicaSet", "ControllerRevision"].iter().any(|kind| object["kind"] == *kind);
    simulation.restore(snapshot.stored().into_iter().filter(|object| !is_large(object)))?;
    extensions.install(&mut simulation)?;
    let changed = change.outcome(&mut simulation, &extensions)?;
    Ok(changed.iter().filter_map(asked).collect())
}

fn asked(Changed { subject, after, .. }: &Changed) -> Option<AskedPod> {
    let kind = WorkloadKind::ALL.into_iter().find(|kind| subject.kind == kind.gvk())?;
    if after["spec"]["replicas"] == 0 {
        return None;
    }
    let Subject { namespace, name, .. } = subject;
    let template = &after["spec"]["template"];
    let claims = entries(&after["spec"]["volumeClaimTemplates"]).filter_map(|claim| claim["metadata"]["name"].as_str());
    let volume = |claim: &str| json!({"name": claim, "persistentVolumeClaim": {"claimName": format!("{claim}-{name}-0")}});
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"generateName": format!("{name}-"), "labels": template["metadata"]["labels"], "annotations": template["metadata"]["annotations"]},
        "spec": template["spec"],
    });
    let volumes: Vec<Value> = entries(&template["spec"]["volumes"]).cloned().chain(claims.map(volume)).collect();
    if !volumes.is_empty() {
        pod["spec"]["volumes"] = json!(volumes);
    }
    let write = Write {
        kind: POD,
        resource: POD.group_version().with_resource(PODS.plural),
        namespace: Some(namespace.clone()),
        name: name.clone(),
        what: WriteBody::Create(pod),
    };
    let workload = WorkloadId::new(kind, namespace.as_str(), name.as_str());
    Some(AskedPod { workload, template: template.clone(), write })
}

/// Rejects what the server rejects: pods of the checked template, but no pods of earlier templates.
pub(crate) struct Refusals(Vec<Rule>);

struct Rule {
    workload: WorkloadId,
    message: String,
    /// ReplicaSets or revisions that have another template. Revisions by their hashes too, because pods of DaemonSets have only those.
    others: BTreeSet<String>,
}

impl Refusals {
    pub(crate) fn of(snapshot: &Snapshot, refused: &[RefusedPod]) -> Self {
        let rule = |RefusedPod { pod, message }: &RefusedPod| Rule {
            workload: pod.workload.clone(),
            message: message.clone(),
            others: others(snapshot, pod),
        };
        Self(refused.iter().map(rule).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn refuses(&self, pod: &dyn Object) -> Option<&Rule> {
        let owner = pod.meta().owner_references.iter().flatten().find(|owner| owner.controller == Some(true))?;
        let revision = pod.meta().labels.as_ref().and_then(|labels| labels.get(REVISION));
        self.0.iter().filter(|rule| pod.meta().namespace.as_deref() == Some(&*rule.workload.namespace)).find(|rule| {
            match rule.workload.kind {
                WorkloadKind::Deployment => {
                    owner.kind == "ReplicaSet"
                        && owner.name.rsplit_once('-').is_some_and(|(name, _)| name == &*rule.workload.name)
                        && !rule.others.contains(&owner.name)
                }
                WorkloadKind::StatefulSet => {
                    owner.kind == "StatefulSet"
                        && owner.name == *rule.workload.name
                        && revision.is_none_or(|revision| !rule.others.contains(revision))
                }
                WorkloadKind::DaemonSet => {
                    owner.kind == "DaemonSet"
                        && owner.name == *rule.workload.name
                        && revision.is_none_or(|hash| !rule.others.contains(hash))
                }
            }
        })
    }
}

/// The names of the ReplicaSets or revisions with another template of the workload, and the hashes of the revisions.
fn others(snapshot: &Snapshot, pod: &AskedPod) -> BTreeSet<String> {
    let Ok(template) = PodTemplateSpec::decode_tree(&pod.template) else { return BTreeSet::new() };
    let keepers = snapshot
        .of_kinds(&["ReplicaSet", "ControllerRevision"])
        .filter(|object| object["metadata"]["namespace"] == *pod.workload.namespace);
    let is_other = |object: &&Value| {
        let bytes = object.to_string();
        let kept = match object["kind"].as_str() {
            Some("ReplicaSet") => ReplicaSetView::decode(bytes.as_bytes(), Revision(0)).ok().map(|set| set.template),
            _ => RevisionView::decode(bytes.as_bytes(), Revision(0)).ok().and_then(|revision| revision.template),
        };
        kept.is_some_and(|kept| !same_template(&kept, &template))
    };
    let names = |object: &Value| {
        [&object["metadata"]["name"], &object["metadata"]["labels"][REVISION]].map(|text| text.as_str().map(str::to_owned))
    };
    keepers.filter(is_other).flat_map(names).flatten().collect()
}

impl Reviewer for Refusals {
    fn may_review(&self, stage: Stage, request: &AdmissionRequest<'_>) -> bool {
        stage == Stage::Validate && request.resource.plural() == "pods"
    }

    fn mutate<'a>(
        &'a self,
        _: &'a AdmissionRequest<'_>,
        _: Option<&'a mut BoxObject>,
        _: &'a mut Reinvocation,
    ) -> BoxFuture<'a, Result<Remarks, ApiError>> {
        async { Ok(Remarks::default()) }.boxed()
    }

    fn validate<'a>(
        &'a self,
        request: &'a AdmissionRequest<'_>,
        object: Option<&'a dyn Object>,
    ) -> BoxFuture<'a, Result<Remarks, ApiError>> {
        let is_new_pod = request.operation == Operation::Create && request.resource.plural() == "pods" && request.subresource.is_none();
        let refused = object.filter(|_| is_new_pod).and_then(|pod| self.refuses(pod));
        let refusal = refused.map(|rule| ApiError::Forbidden {
            resource: PODS,
            name: request.name.to_owned(),
            message: rule.message.clone(),
            causes: Vec::new(),
            refused_by: None,
        });
        async move { refusal.map_or(Ok(Remarks::default()), Err) }.boxed()
    }
}
