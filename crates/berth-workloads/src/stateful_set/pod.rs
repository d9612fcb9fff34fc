//! The pods of a set, as they are created.

use super::{
    NewPod, REVISION_LABEL, RevisionChoice,
    names::{claim_name, pod_name},
    new_pod_revision,
    observe::{Budget, Observed, Repair},
};
use crate::{claim::controller_reference, resources::STATEFUL_SET, view::PodManagement};
use berth_api::annotations::{POD_INDEX, STATEFUL_SET_POD_NAME};
use berth_identity::Ordinal;
use k8s_openapi::{
    api::core::v1::{PersistentVolumeClaimVolumeSource, Pod, PodSpec, PodTemplateSpec, Volume},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};

/// The revision of a missing pod. With repair, an update never returns to the current revision. The same holds where unavailable pods are
/// deleted first, whatever their ordinals: such a pod would be deleted again at once, indefinitely.
pub(super) fn revision_choice(observed: &Observed<'_>, ordinal: Ordinal) -> RevisionChoice {
    // Deletions by other clients count as soon as they are observed, whether the status includes them or not. Otherwise a pod that was
    // deleted before the status update would be recreated with its old revision and deleted again, indefinitely.
    let (recorded, live) = (observed.set().status.current_replicas, observed.pods().live(&observed.history.current));
    let pod =
        NewPod { ordinal, start: observed.ordinals.start, current_replicas: recorded.min(live).into(), partition: observed.partition };
    let is_out_of_order = observed.management == PodManagement::Parallel && matches!(observed.budget, Budget::Pods(_));
    if (observed.repair == Repair::Revision || is_out_of_order) && ordinal >= observed.update_from() {
        return RevisionChoice::Update;
    }
    new_pod_revision(observed.strategy, pod)
}

/// The pod with this ordinal, to be created.
pub(super) fn new_pod(observed: &Observed<'_>, ordinal: Ordinal) -> Pod {
    let (set, history) = (observed.set(), &observed.history);
    let current = history.current_template.as_deref().filter(|_| revision_choice(observed, ordinal) == RevisionChoice::Current);
    let (template, revision) = current.map_or((&set.spec.template, &history.update), |template| (template, &history.current));
    let name = pod_name(&set.meta.name, ordinal);
    let metadata = template.metadata.as_ref();
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", set.meta.name)),
            namespace: Some(set.meta.namespace.to_string()),
            labels: Some(labels(template, &name, ordinal, revision)),
            annotations: metadata.and_then(|metadata| metadata.annotations.clone()),
            finalizers: metadata.and_then(|metadata| metadata.finalizers.clone()),
            owner_references: Some(vec![owner_reference(observed)]),
            name: Some(name.clone()),
            ..ObjectMeta::default()
        },
        spec: Some(spec(observed, template, name, ordinal)),
        ..Pod::default()
    }
}

/// The controller reference of the set's pods.
pub(super) fn owner_reference(observed: &Observed<'_>) -> OwnerReference {
    controller_reference(&STATEFUL_SET, &observed.set().meta)
}

fn labels(template: &PodTemplateSpec, name: &str, ordinal: Ordinal, revision: &str) -> std::collections::BTreeMap<String, String> {
    let mut labels = template.metadata.as_ref().and_then(|metadata| metadata.labels.clone()).unwrap_or_default();
    labels.insert(STATEFUL_SET_POD_NAME.to_owned(), name.to_owned());
    labels.insert(POD_INDEX.to_owned(), ordinal.to_string());
    labels.insert(REVISION_LABEL.to_owned(), revision.to_owned());
    labels
}

fn spec(observed: &Observed<'_>, template: &PodTemplateSpec, name: String, ordinal: Ordinal) -> PodSpec {
    let set = observed.set();
    let mut spec = template.spec.clone().unwrap_or_default();
    spec.hostname = Some(name);
    spec.subdomain = Some(set.spec.service_name.clone()).filter(|service| !service.is_empty());
    let templates = set.spec.volume_claim_templates.iter().flatten().filter_map(|claim| claim.metadata.name.as_deref());
    let mut volumes: Vec<_> = templates.map(|template| volume(template, claim_name(template, &set.meta.name, ordinal))).collect();
    let replaced = |volume: &Volume| volumes.iter().any(|claim| claim.name == volume.name);
    let kept: Vec<_> = spec.volumes.take().unwrap_or_default().into_iter().filter(|volume| !replaced(volume)).collect();
    volumes.extend(kept);
    spec.volumes = Some(volumes).filter(|volumes| !volumes.is_empty());
    spec
}

fn volume(name: &str, claim_name: String) -> Volume {
    let source = PersistentVolumeClaimVolumeSource { claim_name, read_only: Some(false) };
    Volume { name: name.to_owned(), persistent_volume_claim: Some(source), ..Volume::default() }
}
