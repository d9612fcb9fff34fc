//! A change as writes, for a live server to say what would become of them: its defaults, its webhooks and its admission count then.

use crate::{
    change::{Change, Changed},
    difference::{difference, written},
    error::PlanError,
    simulation::{Server, Simulation, Subject},
    snapshot::{KINDS, Snapshot, SnapshotKind, SnapshotScope},
};
use berth_identity::{GroupVersionKind, GroupVersionResource};
use serde_json::Value;

/// A write that a server is asked about.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// `apps/v1`, `Deployment`.
    pub kind: GroupVersionKind,
    /// `deployments` of `apps/v1`.
    pub resource: GroupVersionResource,
    /// Its namespace; `None`: its kind has none.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// What is sent.
    pub what: WriteBody,
}

/// What is sent.
#[derive(Clone, Debug, PartialEq)]
pub enum WriteBody {
    /// A whole object, which is not there yet.
    Create(Value),
    /// A JSON merge patch.
    Patch(Value),
}

/// The writes that the change comes to, in order: one for each object that is not as it should be.
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
