//! `RolloutRecords`: records in annotations of a workload which user changed its template or replicas, or promoted its
//! rollout.
//!
//! This requires the feature gate of that name. Without the gate, the plug-in still protects some annotations on the
//! objects of revisions: the progress of a rollout in steps, the results of analyses, and the end of a rollout. The
//! server ignores protected annotations in requests: it neither takes over nor removes them, and records no owner. It
//! does not reject them, because `kubectl rollout undo` and clients that write a manifest back send them. On the objects
//! of revisions only controllers write them: parts of this process, users with all rights, and the user of upstream's
//! controllers.

use super::{
    Admission, Operation,
    plug_in::{Chain, PlugIn},
};
use crate::{Actor, ApiError, Resource, ownership::Author, stamps::whole_seconds};
use berth_api::{
    Gate, Object,
    annotations::{
        BERTH_ANALYSIS, BERTH_CHANGED_BY, BERTH_COMPLETED_AT, BERTH_COMPLETED_REVISION, BERTH_PROGRESS, BERTH_PROMOTED, BERTH_PROMOTED_BY,
        BERTH_ROLLOUT, BERTH_SCALED_BY, BERTH_STEP, PLACES, RECORDS, REVISION,
    },
    apps::{
        Deployment, StatefulSet,
        records::{Change, Promotions, Scaling},
    },
    k8s_openapi::api::core::v1::PodTemplateSpec,
    metadata::has_room_for,
};
use serde_json::Value;

/// The user of upstream's controllers.
const CONTROLLERS: &str = "system:kube-controller-manager";

/// The annotations that only controllers write on the objects of revisions, with the gate.
const OF_CONTROLLERS: [&str; 8] = [
    BERTH_CHANGED_BY,
    BERTH_SCALED_BY,
    BERTH_ROLLOUT,
    BERTH_STEP,
    BERTH_ANALYSIS,
    BERTH_COMPLETED_REVISION,
    BERTH_COMPLETED_AT,
    BERTH_PROGRESS,
];

/// The object that has the annotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    /// A workload, whose annotations the server writes.
    ByServer,
    /// The object of a workload's revision, whose annotations controllers write.
    ByControllers,
}

impl Kept {
    fn of(resource: &Resource) -> Option<Self> {
        match (resource.group().as_str(), resource.plural().as_str()) {
            ("apps", "deployments" | "statefulsets") => Some(Self::ByServer),
            ("apps", "replicasets" | "controllerrevisions") => Some(Self::ByControllers),
            _ => None,
        }
    }
}

pub(super) struct RolloutRecords;

impl PlugIn for RolloutRecords {
    const NAME: &'static str = "RolloutRecords";

    async fn mutate(chain: &Chain, admission: &mut Admission<'_>) -> Result<(), ApiError> {
        keep_stored(chain, admission);
        Ok(())
    }

    fn record(chain: &Chain, admission: &mut Admission<'_>) {
        if admission.operation == Operation::Delete || !chain.gates.enabled(Gate::RolloutRecords) {
            return;
        }
        let Author { actor, manager, now, .. } = admission.author;
        let by = || Change::new(whole_seconds(now), actor.user().map(|user| user.name.as_str()), manager);
        let old = admission.old.as_ref().map(|old| &*old.object);
        note_promotion(&mut *admission.object, old, by);
        note_changes(&mut *admission.object, old, by);
    }
}

/// Keeps the stored values of protected annotations. Runs before owners are recorded, so that the sender owns none of
/// them.
pub(super) fn keep_stored(chain: &Chain, admission: &mut Admission<'_>) {
    if admission.operation != Operation::Delete {
        let kept = kept_from(chain, admission.author.actor, admission.at.resource);
        keep(kept, &mut *admission.object, admission.old.as_ref().map(|old| &*old.object));
    }
}

/// Removes protected annotations from an applied configuration, so that the applier owns none of them.
pub(crate) fn keep_out(chain: &Chain, actor: &Actor, resource: &Resource, config: &mut Value) {
    let kept = kept_from(chain, actor, resource);
    let Some(metadata) = config.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else { return };
    let sent = annotations.len();
    annotations.retain(|key, _| !kept.contains(&key.as_str()));
    if annotations.is_empty() && sent > 0 {
        metadata.remove("annotations");
    }
}

/// Returns the annotations of such objects that the actor cannot write.
fn kept_from(chain: &Chain, actor: &Actor, resource: &Resource) -> &'static [&'static str] {
    let is_on = chain.gates.enabled(Gate::RolloutRecords);
    let is_controller = || actor.user().is_none_or(|user| user.is_master() || user.name == CONTROLLERS);
    match Kept::of(resource) {
        Some(Kept::ByServer) if is_on => &RECORDS,
        None | Some(Kept::ByServer) => &[],
        Some(Kept::ByControllers) if is_controller() => &[],
        Some(Kept::ByControllers) if is_on => &OF_CONTROLLERS,
        Some(Kept::ByControllers) => &PLACES,
    }
}

/// Keeps the stored values of these annotations.
fn keep(kept: &[&str], object: &mut dyn Object, old: Option<&dyn Object>) {
    let stored = old.and_then(|old| old.meta().annotations.as_ref());
    let sent = object.meta().annotations.as_ref();
    let is_as_stored = |key: &&str| sent.and_then(|sent| sent.get(*key)) == stored.and_then(|stored| stored.get(*key));
    if kept.iter().all(is_as_stored) {
        return;
    }
    let annotations = object.meta_mut().annotations.get_or_insert_default();
    for key in kept {
        match stored.and_then(|stored| stored.get(*key)) {
            Some(value) => annotations.insert((*key).to_owned(), value.clone()),
            None => annotations.remove(*key),
        };
    }
    if annotations.is_empty() {
        object.meta_mut().annotations = None;
    }
}

/// The fields of a workload whose changes are recorded.
struct Wanted<'a> {
    template: &'a PodTemplateSpec,
    /// With its default.
    replicas: i32,
}

impl<'a> Wanted<'a> {
    /// Returns `None` if the object is not a workload.
    fn of(object: &'a dyn Object) -> Option<Self> {
        let wanted = |template: &'a PodTemplateSpec, replicas: Option<i32>| Self { template, replicas: replicas.unwrap_or(1) };
        let of_deployment = |Deployment { spec, .. }: &'a Deployment| wanted(&spec.template, spec.replicas);
        let of_stateful_set = |StatefulSet { spec, .. }: &'a StatefulSet| wanted(&spec.template, spec.replicas);
        object.downcast_ref().map(of_deployment).or_else(|| object.downcast_ref().map(of_stateful_set))
    }
}

/// Records the author of a change on a workload. `old` is the stored object, or `None` for a new one.
fn note_changes(object: &mut dyn Object, old: Option<&dyn Object>, by: impl FnOnce() -> Change) {
    let Some(new) = Wanted::of(object) else { return };
    let old = old.and_then(Wanted::of);
    let is_another = old.as_ref().is_none_or(|old| old.template != new.template);
    let scaled = old.map(|old| (old.replicas, new.replicas)).filter(|(from, to)| from != to);
    if !is_another && scaled.is_none() {
        return;
    }
    let by = by();
    if let Some((from, to)) = scaled {
        note(object, BERTH_SCALED_BY, Scaling { by: by.clone(), from, to }.value());
    }
    if is_another {
        note(object, BERTH_CHANGED_BY, by.value());
    }
}

/// Records the user who promoted the newest rollout of a Deployment.
fn note_promotion(object: &mut dyn Object, old: Option<&dyn Object>, by: impl FnOnce() -> Change) {
    let (Some(Deployment { .. }), Some(old)) = (object.downcast_ref(), old) else { return };
    let of = |object: &dyn Object, key: &str| object.meta().annotations.as_ref()?.get(key).cloned();
    let (Some(named), Some(newest)) = (of(object, BERTH_PROMOTED), of(old, REVISION)) else { return };
    if of(old, BERTH_PROMOTED).as_ref() == Some(&named) {
        return;
    }
    let known = object.meta().annotations.as_ref().and_then(Promotions::of);
    let promotions = newest.parse().ok().and_then(|newest| Promotions::with(known, &named, newest, by));
    if let Some(promotions) = promotions {
        note(object, BERTH_PROMOTED_BY, promotions.value());
    }
}

/// Without room for the new record, an older record would describe another change, so it is removed.
fn note(object: &mut dyn Object, key: &str, value: String) {
    let annotations = object.meta_mut().annotations.get_or_insert_default();
    match has_room_for(annotations, key, &value) {
        true => annotations.insert(key.to_owned(), value),
        false => annotations.remove(key),
    };
    if annotations.is_empty() {
        object.meta_mut().annotations = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::built_in;
    use berth_identity::GroupResource;

    #[test]
    fn workloads_are_the_servers_and_what_keeps_their_revisions_is_the_controllers() {
        let kept = |name: &str| {
            let (plural, group) = name.split_once('.').unwrap_or((name, ""));
            Kept::of(built_in().by_name(&GroupResource::new(group, plural)).expect("a known resource"))
        };
        assert_eq!(["deployments.apps", "statefulsets.apps"].map(kept), [Some(Kept::ByServer); 2]);
        assert_eq!(["replicasets.apps", "controllerrevisions.apps"].map(kept), [Some(Kept::ByControllers); 2]);
        assert_eq!(["pods", "services", "leases.coordination.k8s.io"].map(kept), [None; 3]);
    }
}
