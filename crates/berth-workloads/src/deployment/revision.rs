//! The numbers of rollouts, the fields that a ReplicaSet copies from its Deployment, and the creation of a new one.

use super::{
    annotations::{self, Annotations, BeforeScale, DESIRED_REPLICAS, MAX_REPLICAS, REVISION, REVISION_HISTORY_CHARS_MAX},
    draft::Draft,
    observe::Observed,
    records, steps,
};
use crate::{
    claim::controller_reference,
    hash::{replica_set_name, template_hash, without_hash},
    resources::DEPLOYMENT,
    view::DeploymentView,
};
use berth_api::{
    annotations::{BERTH_STEP, POD_TEMPLATE_HASH},
    apps::{ReplicaSet, ReplicaSetSpec, ReplicaSetStatus},
};
use berth_identity::{RolloutRevision, TemplateHash};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Updates the new set's annotations, revision and `minReadySeconds`. A set whose revision is not a number keeps its annotations.
pub(super) fn sync(draft: &mut Draft<'_>, observed: &Observed<'_>) {
    let deployment = observed.deployment();
    draft.min_ready_seconds = deployment.spec.min_ready_seconds;
    if !annotations::is_numbered(draft.annotations()) {
        return;
    }
    for (key, value) in copied(deployment, observed.before_scale) {
        if draft.annotations().get(key) != Some(value) {
            draft.annotations_mut().insert(key.clone(), value.clone());
        }
    }
    let (revision, former) = (observed.new_revision(), annotations::revision(draft.annotations()));
    if former.unwrap_or_default() < revision {
        annotations::raise_revision(draft.annotations_mut(), revision, REVISION_HISTORY_CHARS_MAX);
        records::begin(draft.annotations_mut(), observed, revision, former);
    }
}

/// Copies the Deployment's policies for replacing pods and rolling back to a set.
pub(super) fn sync_policies(draft: &mut Draft<'_>, deployment: &DeploymentView) {
    for key in annotations::POLICIES {
        draft.annotate(key, annotations::policy(&deployment.annotations, key));
    }
}

fn copied(deployment: &DeploymentView, before_scale: BeforeScale) -> impl Iterator<Item = (&String, &String)> {
    deployment.annotations.iter().filter(move |(key, _)| !annotations::is_skipped(key, before_scale))
}

/// A ReplicaSet to create.
pub(super) struct NewSet {
    pub(super) object: ReplicaSet,
    pub(super) name: String,
    pub(super) size: i64,
    pub(super) revision: RolloutRevision,
}

/// Another object has the name of the new set: the next attempt must use another hash.
pub(super) struct Collision;

/// The name of the set for the Deployment's template, and the hash in it.
pub(super) fn name_of_new(observed: &Observed<'_>) -> (String, TemplateHash) {
    let deployment = observed.deployment();
    let hash = template_hash(&deployment.spec.template, deployment.status.collision_count);
    (replica_set_name(&deployment.meta.name, &hash), hash)
}

/// The set for the Deployment's template, if no set has it yet.
pub(super) fn new_set(observed: &Observed<'_>, size: i64) -> Result<NewSet, Collision> {
    let (name, hash) = name_of_new(observed);
    if observed.state.found.is_name_taken {
        return Err(Collision);
    }
    let revision = observed.new_revision();
    Ok(NewSet { object: object(observed, &name, &hash, size, revision), name, size, revision })
}

fn object(observed: &Observed<'_>, name: &str, hash: &TemplateHash, size: i64, revision: RolloutRevision) -> ReplicaSet {
    let deployment = observed.deployment();
    let mut template = without_hash(&deployment.spec.template);
    let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
    labels.insert(POD_TEMPLATE_HASH.to_owned(), hash.to_string());
    let labels = labels.clone();
    let mut selector = deployment.spec.selector.clone().unwrap_or_default();
    selector.match_labels.get_or_insert_default().insert(POD_TEMPLATE_HASH.to_owned(), hash.to_string());
    ReplicaSet {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(deployment.meta.namespace.to_string()),
            labels: Some(labels),
            annotations: Some(annotations_of_new(observed, revision)),
            owner_references: Some(vec![controller_reference(&DEPLOYMENT, &deployment.meta)]),
            ..ObjectMeta::default()
        },
        spec: ReplicaSetSpec {
            replicas: Some(i32::try_from(size).unwrap_or(i32::MAX)),
            min_ready_seconds: deployment.spec.min_ready_seconds,
            selector: Some(selector),
            template,
        },
        status: ReplicaSetStatus::default(),
    }
}

fn annotations_of_new(observed: &Observed<'_>, revision: RolloutRevision) -> Annotations {
    let deployment = observed.deployment();
    let policies = annotations::POLICIES.into_iter().filter_map(|key| deployment.annotations.get_key_value(key));
    let policies = policies.filter(|(key, _)| annotations::policy(&deployment.annotations, key).is_some());
    let copied = copied(deployment, observed.before_scale).chain(policies).map(|(key, value)| (key.clone(), value.clone()));
    let own = [(REVISION, revision.0), (DESIRED_REPLICAS, observed.size.desired), (MAX_REPLICAS, observed.size.max())];
    let mut all: Annotations = copied.chain(own.map(|(key, number)| (key.to_owned(), number.to_string()))).collect();
    records::begin(&mut all, observed, revision, None);
    if let Some(current_step) = steps::current_step(observed) {
        all.insert(BERTH_STEP.to_owned(), current_step.position().value(observed.state.now));
    }
    all
}
