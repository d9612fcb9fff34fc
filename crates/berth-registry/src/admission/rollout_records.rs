//! `RolloutRecords`: who changed a workload's template or its number of pods, or promoted its rollout, as the server knows them, in annotations of the workload.
//!
//! With the gate of that name. Without it too: where a rollout in steps is, what an analysis came to, and that a rollout was complete, on what keeps its revision. What clients send for these annotations is not taken over, and takes nothing away: neither refused, for `kubectl rollout undo` and
//! whoever writes a manifest back send them without a thought, nor owned. On what keeps a workload's revisions only controllers write them, who are
//! parts of this process or may do everything.

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

/// As which user upstream's controllers write.
const CONTROLLERS: &str = "system:kube-controller-manager";

/// What controllers alone write on what keeps revisions, with the gate.
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

/// What the annotations are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    /// A workload: the server writes them.
    ByServer,
    /// What keeps a workload's revisions: controllers do.
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

/// Leaves what only the server or a controller says as it is stored. Before owners are recorded, so that who sends it owns none of it.
pub(super) fn keep_stored(chain: &Chain, admission: &mut Admission<'_>) {
    if admission.operation != Operation::Delete {
        let kept = kept_from(chain, admission.author.actor, admission.at.resource);
        keep(kept, &mut *admission.object, admission.old.as_ref().map(|old| &*old.object));
    }
}

/// Takes out of what is applied what only the server says: who sends it is to own none of it.
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

/// Which annotations of such objects who asks may not write.
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

/// Leaves these annotations as they are stored, whatever was sent.
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

/// What of a workload is recorded when it changes.
struct Wanted<'a> {
    template: &'a PodTemplateSpec,
    /// Defaults are filled in.
    replicas: i32,
}

impl<'a> Wanted<'a> {
    /// `None`: the object is no workload.
    fn of(object: &'a dyn Object) -> Option<Self> {
        let wanted = |template: &'a PodTemplateSpec, replicas: Option<i32>| Self { template, replicas: replicas.unwrap_or(1) };
        let of_deployment = |Deployment { spec, .. }: &'a Deployment| wanted(&spec.template, spec.replicas);
        let of_stateful_set = |StatefulSet { spec, .. }: &'a StatefulSet| wanted(&spec.template, spec.replicas);
        object.downcast_ref().map(of_deployment).or_else(|| object.downcast_ref().map(of_stateful_set))
    }
}

/// Notes on a workload who has changed what of it. `old`: as it stands; none of a new one.
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

/// Notes on a Deployment who has said that a wait of its newest rollout is over.
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

/// Where there is no room for a note, an older one would be about something else: there is none then.
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
