//! A change as writes for the dry run of a live server, which applies its defaults, webhooks and admission.

use crate::{
    change::Change,
    changed::Changed,
    difference::{difference, written},
    error::PlanError,
    extensions::{Evaluate, Extensions},
    simulation::{Server, Simulation, Subject},
    snapshot::Snapshot,
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
    let extensions = Extensions::of(snapshot, change, Evaluate::Nothing);
    let mut simulation = Simulation::new(0, snapshot.at, &Server::default());
    simulation.restore(snapshot.stored())?;
    extensions.install(&mut simulation)?;
    let mut writes = Vec::new();
    for Changed { subject, before, after } in change.outcome(&mut simulation, &extensions)? {
        let what =
            if before.is_null() { Some(WriteBody::Create(written(&after))) } else { difference(&before, &after).map(WriteBody::Patch) };
        // The server does not serve the kinds that the change defines.
        let resource = extensions.resource_of(&subject.kind).filter(|_| !extensions.is_new(snapshot, &subject.kind));
        if let (Some(what), Some((resource, is_namespaced))) = (what, resource) {
            let Subject { kind, namespace, name } = subject;
            writes.push(Write { kind, resource, namespace: is_namespaced.then_some(namespace), name, what });
        }
    }
    Ok(writes)
}
