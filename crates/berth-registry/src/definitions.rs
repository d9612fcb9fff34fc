//! Custom resource definitions: the table serves the kinds of the definitions in the store.
//!
//! Start with [`Registry::follow_definitions`]. Each API server of a store follows the definitions by itself. What it
//! serves is a function of the stored definitions alone ([`plan`]), so all servers agree. Servers also write what they
//! decide to the status of the definitions. All of them may, because they write the same: the first one succeeds.

mod finalize;
mod kinds;
mod plan;

pub use finalize::Finalization;

use crate::{
    Actor, ApiError, Patch, Registry, Resource, Subresource, Target, WriteOptions, key,
    options::Precondition,
    resource::{self, Lifecycle, ResourceTable, TableChange},
    stamps::whole_seconds,
    stored,
};
use berth_identity::{GroupResource, GroupVersionResource, Uid};
use berth_kinds::custom::is_established;
use berth_store::{Entry, Event, EventKind, RangeRequest, Revision, Watch, WatchItem, env::Spawner};
use futures::{FutureExt as _, StreamExt as _, future::join_all};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use plan::{Known, Plan, Serving};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

/// The field manager of what the server writes to definitions.
const SERVER: &str = "kube-apiserver";

/// The stored definitions, and what the table serves because of them.
///
/// Call [`DefinitionFollower::changed`] and [`DefinitionFollower::serve_changes`] in a loop. Between two rounds,
/// [`DefinitionFollower::unwritten`] has the status that each definition lacks, and
/// [`DefinitionFollower::terminating`] has the definitions whose objects must be deleted.
pub struct DefinitionFollower {
    registry: Registry,
    /// Where schemas are read.
    spawner: Arc<dyn Spawner>,
    /// `None`: the definitions must be listed.
    changes: Option<Watch>,
    /// The changes that are not served yet.
    arrived: Vec<Arc<Event>>,
    /// By name.
    known: BTreeMap<String, Known>,
    /// The revision of the definitions that are served.
    seen: Revision,
    faults: Vec<DefinitionFault>,
}

/// A definition that the server cannot serve.
#[derive(Debug, thiserror::Error)]
#[error("{name} is not served")]
pub struct DefinitionFault {
    /// Its name.
    pub name: String,
    /// Why.
    pub source: Unserved,
}

/// Why a definition is not served.
#[derive(Debug, thiserror::Error)]
pub enum Unserved {
    /// It cannot be read.
    #[error(transparent)]
    Unreadable(#[from] ApiError),
    /// It is inconsistent, or another resource has one of its names.
    #[error(transparent)]
    Undefined(#[from] resource::DefineError),
}

/// The status that a definition must get.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusWrite {
    /// The name of the definition.
    pub name: String,
    /// The revision of the definition from which it was decided.
    revision: Revision,
    status: Value,
}

/// A definition that a client deleted. Its objects are deleted before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerminatingDefinition {
    /// The name of the definition.
    pub name: String,
    /// Its uid.
    pub uid: Uid,
    /// The resource.
    pub resource: GroupResource,
}

impl fmt::Debug for DefinitionFollower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DefinitionFollower").field("seen", &self.seen).field("known", &self.known.keys()).finish_non_exhaustive()
    }
}

impl Registry {
    /// Serves all stored definitions. Returns the follower of later changes. Call it before the server is ready. Schemas
    /// are read in several tasks of `spawner`, because they are large.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn follow_definitions(&self, spawner: &Arc<dyn Spawner>) -> Result<DefinitionFollower, ApiError> {
        let (registry, spawner) = (self.clone(), Arc::clone(spawner));
        let (known, seen, faults) = (BTreeMap::new(), Revision(0), Vec::new());
        let mut follower = DefinitionFollower { registry, spawner, changes: None, arrived: Vec::new(), known, seen, faults };
        follower.relist().await?;
        Ok(follower)
    }

    /// Returns a resource that another server may have defined just now, or this one a moment ago: if its definition is
    /// stored, it is served when this returns. Costs one read of the store.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn defined_lately(&self, name: &GroupVersionResource) -> Result<Option<Arc<Resource>>, ApiError> {
        let Some(definitions) = definitions().filter(|_| !name.group.is_empty() && self.progress.is_followed()) else { return Ok(None) };
        let at = key::key_of(&definitions, None, &format!("{}.{}", name.plural, name.group));
        let Some(entry) = self.storage.store.get(&at).await? else { return Ok(None) };
        self.progress.wait_for(entry.mod_revision, &*self.storage.clock).await;
        Ok(self.resources().find(name).cloned())
    }

    /// Waits until every stored definition is served, as far as it can be, for a second at most.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn definitions_served(&self) -> Result<(), ApiError> {
        let Some(definitions) = definitions().filter(|_| self.progress.is_followed()) else { return Ok(()) };
        let stored = self.storage.store.range(RangeRequest::all(definitions.prefix())).await?;
        if let Some(newest) = stored.entries.iter().map(|entry| entry.mod_revision).max() {
            self.progress.wait_for(newest, &*self.storage.clock).await;
        }
        Ok(())
    }

    /// Writes what the server decided about a definition. Another server may have written it before.
    ///
    /// # Errors
    /// [`ApiError::Conflict`] or [`ApiError::NotFound`]: the definition has changed, and the follower decides again.
    /// Otherwise errors of the store.
    pub async fn write_definition_status(&self, write: &StatusWrite) -> Result<(), ApiError> {
        let patch = json!([{"op": "add", "path": "/status", "value": write.status}]);
        self.patch_definition(&write.name, Some(Subresource::Status), Patch::Json(patch.to_string().into_bytes()), write.revision).await
    }

    async fn patch_definition(
        &self,
        name: &str,
        subresource: Option<Subresource>,
        patch: Patch,
        revision: Revision,
    ) -> Result<(), ApiError> {
        let resource = definitions().ok_or(ApiError::UnknownResource)?;
        let target = Target { resource, namespace: None, name: name.to_owned(), subresource };
        let precondition = Precondition { resource_version: Some(revision.to_string()), uid: None };
        let options = WriteOptions { field_manager: SERVER.to_owned(), precondition, ..WriteOptions::default() };
        // Boxed, because the futures of writes are large.
        Box::pin(self.reviewed().patch(&Actor::System, &target, patch, &options)).await.map(drop)
    }
}

impl ResourceTable {
    /// Serves the kind of a stored definition, for programs that read a whole store. A definition whose names the
    /// server has not accepted has no objects.
    ///
    /// # Errors
    /// The definition cannot be served.
    pub fn define_stored(&self, json: &[u8]) -> Result<(), Unserved> {
        let stored = kinds::parse(json)?;
        if !is_established(&stored) {
            return Ok(());
        }
        let kind = kinds::read(json, &stored["status"]["acceptedNames"])?;
        let change = TableChange { defined: vec![(kind, Lifecycle::Active)], ..TableChange::default() };
        match self.apply(&change).pop() {
            Some((_, taken)) => Err(resource::DefineError::from(taken).into()),
            None => Ok(()),
        }
    }
}

/// Returns the resource of the definitions themselves, which is built in.
fn definitions() -> Option<Arc<Resource>> {
    resource::built_in().by_name(&GroupResource::from_static("apiextensions.k8s.io", "customresourcedefinitions")).cloned()
}

impl DefinitionFollower {
    /// Waits until definitions change, or must be listed again. A caller can drop the future: no change is lost.
    pub async fn changed(&mut self) {
        while self.arrived.is_empty() {
            let Some(changes) = &mut self.changes else { return };
            match changes.next().await {
                Some(Ok(WatchItem::Progress(revision))) => self.reached(revision),
                Some(Ok(WatchItem::Events(events))) => self.arrived.extend(events),
                // The revision may be compacted.
                Some(Err(_)) | None => self.changes = None,
            }
        }
    }

    /// Serves what has changed. Run it to its end.
    ///
    /// # Errors
    /// Errors of the store. The next call lists all definitions again.
    pub async fn serve_changes(&mut self) -> Result<(), ApiError> {
        let Some(changes) = &mut self.changes else {
            self.arrived.clear();
            return self.relist().await;
        };
        // Definitions often come many at once, and each change of the table has its price.
        while let Some(Some(Ok(WatchItem::Events(more)))) = changes.next().now_or_never() {
            self.arrived.extend(more);
        }
        let arrived = std::mem::take(&mut self.arrived);
        self.take(&arrived).await;
        Ok(())
    }

    /// Returns the status that definitions lack, as decided from what is known now.
    #[must_use]
    pub fn unwritten(&self) -> Vec<StatusWrite> {
        let write = |(name, known): (&String, &Known)| {
            let status = known.planned.clone()?;
            Some(StatusWrite { name: name.clone(), revision: known.entry.mod_revision, status })
        };
        self.known.iter().filter_map(write).collect()
    }

    /// Returns the definitions that are being deleted.
    #[must_use]
    pub fn terminating(&self) -> Vec<TerminatingDefinition> {
        let known = self.known.values().filter(|known| known.is_finalized_here());
        known.map(|known| TerminatingDefinition { name: known.name().to_owned(), uid: known.uid(), resource: known.resource() }).collect()
    }

    /// Returns the definitions that could not be served since the last call.
    pub fn take_faults(&mut self) -> Vec<DefinitionFault> {
        std::mem::take(&mut self.faults)
    }

    async fn relist(&mut self) -> Result<(), ApiError> {
        let Some(resource) = definitions() else { return Ok(()) };
        let store = &self.registry.storage.store;
        let listed = store.range(RangeRequest::all(resource.prefix())).await?;
        self.changes = Some(store.watch(resource.prefix(), listed.revision)?);
        let before = std::mem::take(&mut self.known);
        for entry in &listed.entries {
            self.learn(&resource, entry, before.get(entry.name()).and_then(|known| known.serving));
        }
        let gone: Vec<GroupResource> = before
            .values()
            .filter(|known| known.serving.is_some() && !self.known.contains_key(known.name()))
            .map(Known::resource)
            .collect();
        let all = self.known.values().map(|known| known.group().to_owned()).collect();
        self.serve(gone, all).await;
        self.reached(listed.revision);
        Ok(())
    }

    async fn take(&mut self, events: &[Arc<Event>]) {
        let Some(resource) = definitions() else { return };
        let (mut gone, mut groups) = (Vec::new(), BTreeSet::new());
        for event in events {
            let before = self.known.remove(event.entry.name());
            groups.extend(before.as_ref().map(|known| known.group().to_owned()));
            if event.kind == EventKind::Deleted {
                gone.extend(before.filter(|known| known.serving.is_some()).map(|known| known.resource()));
                continue;
            }
            // A definition that was deleted and created again is another one: the objects of the first are deleted.
            gone.retain(|name| format!("{}.{}", name.plural, name.group) != event.entry.name());
            self.learn(&resource, &event.entry, before.and_then(|known| known.serving));
            groups.extend(self.known.get(event.entry.name()).map(|known| known.group().to_owned()));
        }
        self.serve(gone, groups).await;
        if let Some(last) = events.last() {
            self.reached(last.entry.mod_revision);
        }
    }

    /// Reads a definition. One that cannot be read is not served.
    fn learn(&mut self, resource: &Resource, entry: &Arc<Entry>, serving: Option<Serving>) {
        let shown = stored::shown(resource, Arc::clone(entry));
        match shown.and_then(|shown| Known::read(shown, serving)) {
            Ok(known) => _ = self.known.insert(entry.name().to_owned(), known),
            Err(error) => self.faults.push(DefinitionFault { name: entry.name().to_owned(), source: error.into() }),
        }
    }

    /// Decides about the definitions of these groups, and changes the table.
    async fn serve(&mut self, gone: Vec<GroupResource>, groups: BTreeSet<String>) {
        let now = Time(whole_seconds(self.registry.now()));
        let mut change = TableChange { removed: gone, ..TableChange::default() };
        let mut wanted = Vec::new();
        for name in plan::decide(&mut self.known, &groups, &now) {
            let Some(known) = self.known.get_mut(&name) else { continue };
            match known.plan() {
                Plan::Keep => (),
                Plan::Stop => {
                    change.removed.push(known.resource());
                    known.serving = None;
                }
                plan @ (Plan::Define(serving) | Plan::Terminate(serving)) => {
                    known.serving = Some(serving);
                    wanted.push((plan, name.clone(), known.source()));
                }
            }
        }
        let sources = wanted.iter().map(|(_, _, source)| source.clone()).collect();
        for ((plan, name, _), kind) in wanted.into_iter().zip(kinds::read_all(sources, &*self.spawner).await) {
            match (plan, kind) {
                (Plan::Terminate(_), Ok(kind)) => change.terminating.push(kind),
                (Plan::Define(serving), Ok(kind)) => change.defined.push((kind, serving.lifecycle)),
                (Plan::Keep | Plan::Stop, Ok(_)) => (),
                (_, Err(source)) => {
                    // The earlier one, if any, would not fit the definition.
                    change.removed.extend(self.known.get(&name).map(Known::resource));
                    self.faults.push(DefinitionFault { name, source });
                }
            }
        }
        if change.is_empty() {
            return;
        }
        for (resource, taken) in self.registry.definitions.apply(&change) {
            let name = format!("{}.{}", resource.plural, resource.group);
            self.faults.push(DefinitionFault { name, source: resource::DefineError::from(taken).into() });
        }
    }

    fn reached(&mut self, revision: Revision) {
        self.seen = self.seen.max(revision);
        self.registry.progress.reach(self.seen);
    }
}

/// Writes the status of several definitions at once. Returns the first error that calls for another attempt.
///
/// # Errors
/// Errors of the store.
pub async fn write_statuses(registry: &Registry, writes: &[StatusWrite]) -> Result<(), ApiError> {
    let written = join_all(writes.iter().map(|write| registry.write_definition_status(write))).await;
    let is_decided_again = |error: &ApiError| matches!(error, ApiError::Conflict { .. } | ApiError::NotFound { .. });
    written.into_iter().find(|written| written.as_ref().is_err_and(|error| !is_decided_again(error))).unwrap_or(Ok(()))
}

#[cfg(test)]
mod tests;
