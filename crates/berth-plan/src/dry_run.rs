//! A change as writes for the dry run of a live server, which applies its defaults, webhooks and admission.

use crate::{
    change::{Change, Changed},
    difference::{difference, written},
    error::PlanError,
    simulation::{Server, Simulation, Subject},
    snapshot::{KINDS, Snapshot, SnapshotKind, SnapshotScope},
};
use berth_identity::{GroupVersionKind, GroupVersionResource};
use serde_json::Value;

/// A write for the dry run.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// `apps/v1`, `Deployment`.
    pub kind: GroupVersionKind,
    /// `deployments` of `apps/v1`.
    pub resource: GroupVersionResource,
    /// Its namespace. `None` if its kind is cluster-scoped.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// The body.
    pub what: WriteBody,
}

/// The body of a write.
#[derive(Clone, Debug, PartialEq)]
pub enum WriteBody {
    /// A new object.
    Create(Value),
    /// A JSON merge patch.
    Patch(Value),
}

/// The writes of the change, in order: one for each object that differs from its target.
///
/// # Errors
/// Those of making the change.
pub fn writes(snapshot: &Snapshot, change: &Change) -> Result<Vec<Write>, PlanError> {
    let mut simulation = Simulation::new(0, snapshot.at, &Server::default());
    simulation.restore(snapshot.stored())?;
    let mut writes = Vec::new();
    for Changed { subject, before, after } in change.outcome(&mut simulation)? {
        let what =
            if before.is_null() { Some(WriteBody::Create(written(&after))) } else { difference(&before, &after).map(WriteBody::Patch) };
        let known = KINDS.iter().find(|kind| kind.kind == subject.kind);
        if let (Some(what), Some(SnapshotKind { resource, scope, .. })) = (what, known) {
            let Subject { kind, namespace, name } = subject;
            let namespace = (*scope != SnapshotScope::Cluster).then_some(namespace);
            writes.push(Write { kind, resource: resource.clone(), namespace, name, what });
        }
    }
    Ok(writes)
}
