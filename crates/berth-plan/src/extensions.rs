//! What extends the API server of a forecast: definitions of kinds and their objects, admission policies, and webhooks.
//!
//! A forecast evaluates the policies whose expressions depend on what it knows, and validates objects of defined kinds. It names the policies
//! that it does not evaluate and the webhooks, if they match an object of the forecast.

mod defined;
mod judged;
mod queries;
mod unevaluated;

pub use queries::{ADMISSION_KINDS, DEFINITIONS, ObjectQuery, QueriedObjects, needs_definitions, object_queries};
pub use unevaluated::UnevaluatedRule;

use crate::{
    change::Change,
    error::PlanError,
    simulation::{Reviewers, Simulation, Subject},
    snapshot::{ADMISSION, DEFINING, KINDS, Snapshot, uid},
};
use berth_identity::{GroupVersionKind, GroupVersionResource};
use berth_policies::Policies;
use berth_registry::{Registry, Reviewer};
use defined::{Defined, Served};
use judged::Judged;
use serde_json::Value;
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use unevaluated::{Recorder, Unevaluated};

/// What an object is to the API server of a forecast. The order is that in which a change is applied: policies and what they read come before the
/// objects that they review, because they review them at the next change, if not at this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// It defines a kind.
    Definition,
    /// A namespace.
    Namespace,
    /// Policies read it.
    Parameter,
    /// A policy that is evaluated, or a binding of one.
    Policy,
    /// An object of a defined kind.
    Custom,
    /// An object that the forecast simulates.
    Simulated,
    /// Only the API rules check it.
    Checked,
    /// Its kind is not known, or not usable.
    Unknown,
}

/// Whether admission policies are evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evaluate {
    Policies,
    /// A server evaluates them.
    Nothing,
}

/// What extends the API server of one forecast.
#[derive(Default)]
pub(crate) struct Extensions {
    defined: Defined,
    judged: Judged,
    /// The objects of the snapshot, in the order in which they are stored or applied.
    existing: Vec<(Role, Value)>,
    has_policies: bool,
    unevaluated: Arc<Unevaluated>,
    notes: Mutex<BTreeSet<String>>,
}

impl Extensions {
    pub(crate) fn of(snapshot: &Snapshot, change: &Change, evaluate: Evaluate) -> Self {
        let all = || snapshot.extensions.iter().chain(&change.manifests);
        let defined = Defined::of(all());
        let judged = Judged::of(snapshot, change, &defined);
        let mut found = Self { defined, judged, ..Self::default() };
        found.has_policies = evaluate == Evaluate::Policies && found.judged.has_policies();
        if evaluate == Evaluate::Policies {
            found.unevaluated = Arc::new(Unevaluated::of(all(), found.judged.take_skipped()));
        }
        found.existing = found.existing(snapshot, change);
        found.note_namespaces(snapshot, change);
        found
    }

    /// The objects of the snapshot that the change or its policies need. The other objects of defined kinds have no effect.
    fn existing(&self, snapshot: &Snapshot, change: &Change) -> Vec<(Role, Value)> {
        let changed: BTreeSet<_> = change.manifests.iter().map(|manifest| identity(manifest, change.namespace_of(manifest))).collect();
        let is_needed = |role: Role, object: &Value| match role {
            Role::Definition | Role::Policy | Role::Parameter => true,
            Role::Custom => changed.contains(&identity(object, "default")),
            Role::Namespace | Role::Simulated | Role::Checked | Role::Unknown => false,
        };
        let all = snapshot.extensions.iter().chain(&snapshot.objects);
        let with_roles = all.map(|object| (self.role(object), object)).filter(|(role, object)| is_needed(*role, object));
        let mut existing: Vec<(Role, Value)> = with_roles.map(|(role, object)| (role, object.clone())).collect();
        // Stored objects before manifests, which are applied to them.
        existing.sort_by_key(|(role, object)| (*role, uid(object).is_none()));
        existing
    }

    /// Selectors of namespaces need their labels.
    fn note_namespaces(&self, snapshot: &Snapshot, change: &Change) {
        if !self.judged.selects_namespaces() && !self.unevaluated.selects_namespaces() {
            return;
        }
        let is_there = |name: &str| {
            let namespaces = snapshot.objects.iter().chain(&change.manifests).filter(|object| object["kind"] == "Namespace");
            namespaces.into_iter().any(|object| object["metadata"]["name"] == name)
        };
        for name in change.namespaces().into_iter().filter(|name| !is_there(name)) {
            self.note(format!(
                "namespace {name} is not in the snapshot: the plan assumes that it has no labels by which admission policies or webhooks select it"
            ));
        }
    }

    pub(crate) fn role(&self, object: &Value) -> Role {
        let text = |member: &str| object[member].as_str().unwrap_or_default();
        let kind = GroupVersionKind::as_written(text("apiVersion"), text("kind"));
        let is_simulated = KINDS.iter().any(|known| known.kind == kind);
        match self.defined.served(&kind) {
            _ if kind.group == DEFINING && kind.version == "v1" && kind.kind == "CustomResourceDefinition" => Role::Definition,
            _ if self.judged.is_evaluated(object) => Role::Policy,
            Some(Served { resource, .. }) if resource.group.is_empty() && resource.plural == "namespaces" => Role::Namespace,
            Some(_) if is_simulated => Role::Simulated,
            Some(_) if self.judged.is_parameter(&kind) => Role::Parameter,
            Some(served) if served.is_custom => Role::Custom,
            Some(_) => Role::Checked,
            None => Role::Unknown,
        }
    }

    /// The manifests of a change in the order in which they are applied.
    pub(crate) fn ordered<'c>(&self, change: &'c Change) -> Vec<(Role, &'c Value)> {
        let mut all: Vec<(Role, &Value)> = change.manifests.iter().map(|manifest| (self.role(manifest), manifest)).collect();
        all.sort_by_key(|(role, _)| *role);
        all
    }

    /// The resource of a kind, and whether it is namespaced.
    pub(crate) fn resource_of(&self, kind: &GroupVersionKind) -> Option<(GroupVersionResource, bool)> {
        self.defined.served(kind).map(|served| (served.resource, served.is_namespaced))
    }

    /// Whether the change defines the kind, so that the server does not serve it yet.
    pub(crate) fn is_new(&self, snapshot: &Snapshot, kind: &GroupVersionKind) -> bool {
        Defined::of(snapshot.extensions.iter()).served(kind).is_none()
    }

    /// Puts the objects of the snapshot into a simulation.
    ///
    /// # Errors
    /// An object cannot be used.
    pub(crate) fn install(&self, simulation: &mut Simulation) -> Result<(), PlanError> {
        let (definitions, others): (Vec<_>, Vec<_>) = self.existing.iter().partition(|(role, _)| *role == Role::Definition);
        self.install_definitions(simulation, definitions.into_iter().map(|(_, definition)| definition))?;
        for (_, object) in others {
            put(simulation, object)?;
        }
        Ok(())
    }

    fn install_definitions<'o>(&self, simulation: &mut Simulation, definitions: impl Iterator<Item = &'o Value>) -> Result<(), PlanError> {
        if self.defined.is_empty() {
            return Ok(());
        }
        simulation.follow_definitions()?;
        for definition in definitions {
            put(simulation, definition)?;
        }
        simulation.definitions_served()
    }

    /// Puts the objects that extend one simulation into another one, whose controllers do not run.
    ///
    /// # Errors
    /// An object cannot be used.
    pub(crate) fn copy(&self, from: &Simulation, to: &mut Simulation) -> Result<(), PlanError> {
        let copied = |plural: &GroupVersionResource| from.objects(&plural.group_resource());
        self.install_definitions(to, copied(&resource_of_definitions()).iter())?;
        let kinds = ADMISSION_KINDS.iter().map(|kind| kind.resource.clone());
        let copied_kinds = kinds.chain(self.existing_kinds()).chain(self.has_policies.then(namespaces));
        for resource in copied_kinds.collect::<BTreeSet<_>>() {
            to.restore(copied(&resource))?;
        }
        Ok(())
    }

    /// Whether [`Self::copy`] copies objects of this kind.
    pub(crate) fn copies(&self, kind: &GroupVersionKind) -> bool {
        let Some((resource, _)) = self.resource_of(kind) else { return false };
        let is_definition = resource.group == DEFINING;
        is_definition
            || resource.group == ADMISSION
            || (self.has_policies && resource == namespaces())
            || self.existing_kinds().any(|known| known == resource)
    }

    /// The resources of the parameters and of the custom objects in the snapshot.
    fn existing_kinds(&self) -> impl Iterator<Item = GroupVersionResource> + '_ {
        let others = self.existing.iter().filter(|(role, _)| [Role::Parameter, Role::Custom].contains(role));
        others.filter_map(|(_, object)| self.resource_of(&Subject::of(object, "").kind).map(|(resource, _)| resource))
    }

    /// Begins to record what the rules match that are not evaluated.
    pub(crate) fn begin(&self) {
        self.unevaluated.clear();
    }

    /// The rules that matched an object of the forecast, and are not evaluated. `are_pods_asked`: the server has judged the pods.
    pub(crate) fn unevaluated(&self, are_pods_asked: bool) -> Vec<UnevaluatedRule> {
        self.unevaluated.matched(are_pods_asked)
    }

    /// Records what a forecast does not know, as a sentence without a period.
    pub(crate) fn note(&self, sentence: String) {
        self.notes().insert(sentence);
    }

    /// Records that the kind of an object is not known.
    pub(crate) fn note_unknown(&self, subject: &Subject) {
        let Subject { kind, name, .. } = subject;
        let (of, kind) = (kind.group_version(), &kind.kind);
        let why = match self.defined.unusable(&subject.kind) {
            Some(why) => why,
            None => format!("neither the snapshot nor the change defines kind {kind} of {of}"),
        };
        self.note(format!("{kind} {name} is not checked, because {why}"));
    }

    /// The sentences about what a forecast does not know.
    pub(crate) fn noted(&self) -> Vec<String> {
        self.notes().iter().cloned().collect()
    }

    fn notes(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reviewers for Extensions {
    fn reviewers(&self, registry: &Registry) -> Vec<Arc<dyn Reviewer>> {
        let mut reviewers: Vec<Arc<dyn Reviewer>> = Vec::new();
        if self.has_policies {
            reviewers.push(Arc::new(Policies::new(registry.clone())));
        }
        if !self.unevaluated.is_empty() {
            reviewers.push(Arc::new(Recorder::new(registry.clone(), Arc::clone(&self.unevaluated))));
        }
        reviewers
    }
}

fn resource_of_definitions() -> GroupVersionResource {
    DEFINITIONS.resource.clone()
}

fn namespaces() -> GroupVersionResource {
    GroupVersionResource::from_static("", "v1", "namespaces")
}

/// Stores an object that a server had, and applies a manifest.
fn put(simulation: &mut Simulation, object: &Value) -> Result<(), PlanError> {
    if uid(object).is_some() {
        return simulation.restore([object]);
    }
    let subject = Subject::of(object, "default");
    simulation.make_namespace(&subject.namespace)?;
    simulation.apply_unreviewed(object, &subject.namespace)
}

/// The kind without its version, the namespace and the name.
fn identity(object: &Value, namespace: &str) -> (String, String, String, String) {
    let Subject { kind, namespace, name } = Subject::of(object, namespace);
    (kind.group.to_string(), kind.kind.to_string(), namespace, name)
}
