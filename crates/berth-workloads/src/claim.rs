//! Adopting and releasing: an object belongs to the owner whose selector matches its labels, and to no other.

use crate::{
    plan::{Action, Outcome, Reason, Stage, Urgency},
    view::Meta,
};
use berth_identity::{GroupVersionKind, Name, ObjectRef, Uid};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::json;

/// The controller reference of `owner`, which is of `kind`.
#[must_use]
pub fn controller_reference(kind: &GroupVersionKind, owner: &Meta) -> OwnerReference {
    OwnerReference {
        api_version: kind.api_version(),
        kind: kind.kind.to_string(),
        name: owner.name.to_string(),
        uid: owner.uid.to_string(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Makes `owner` the controller of an object that has none.
#[must_use]
pub fn adopt(target: ObjectRef, meta: &Meta, owner: OwnerReference) -> Action {
    let reason = Reason::Selected { owner: Name::from(&owner.name) };
    // A plain reference to the same owner, if there is one, becomes the controller reference.
    let mut owners: Vec<_> = meta.owners.iter().filter(|other| other.uid != owner.uid).cloned().collect();
    owners.push(owner);
    set_owners(target, &owners, reason)
}

/// Removes the owner with this uid from an object.
#[must_use]
pub fn release(target: ObjectRef, meta: &Meta, owner_uid: &Uid) -> Action {
    let owners: Vec<_> = meta.owners.iter().filter(|owner| owner.uid != *owner_uid).cloned().collect();
    set_owners(target, &owners, Reason::NoLongerSelected)
}

/// The stages that adopt and release objects. `owner` is read again before an adoption. Releasing needs no such check.
#[must_use]
pub fn stages(owner: ObjectRef, adopt: Vec<Action>, release: Vec<Action>) -> Vec<Stage> {
    let confirm = if adopt.is_empty() { Vec::new() } else { vec![Action::ConfirmAlive { target: owner, reason: Reason::Adopts }] };
    let claims = adopt.into_iter().chain(release).collect();
    [confirm, claims].into_iter().filter(|actions| !actions.is_empty()).map(|actions| Stage { actions }).collect()
}

/// The list is replaced as a whole. The target's resource version protects other writers' changes.
fn set_owners(target: ObjectRef, owners: &[OwnerReference], reason: Reason) -> Action {
    let owners = if owners.is_empty() { json!(null) } else { json!(owners) };
    Action::Patch {
        target,
        subresource: None,
        patch: json!({"metadata": {"ownerReferences": owners}}),
        urgency: Urgency::Now,
        reason,
        events: Outcome::default(),
    }
}
