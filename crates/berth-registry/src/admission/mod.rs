//! The rules of the server for writes, beyond the rules of the object's kind.
//!
//! Start with [`chain`]: the stages, and the plug-ins in their order. Each plug-in is a file here. An [`Admission`] is
//! one write on its way through the chain.

mod aggregated_roles;
mod certificates;
pub(crate) mod chain;
mod classes;
mod default_storage_class;
mod default_toleration_seconds;
mod escalation;
mod limit_ranger;
mod namespace_lifecycle;
pub(crate) mod plug_in;
mod pod_security;
mod priority;
mod quotas;
mod reader;
pub(crate) mod resource_quota;
pub(crate) mod reviewer;
mod reviewers;
pub(crate) mod rollout_records;
mod room;
mod root_ca;
mod runtime_class;
mod service_account;
mod service_allocation;
mod storage_object_in_use_protection;
pub(crate) mod storing;
pub(crate) mod versions;

pub(crate) use root_ca::ROOT_CA;
pub(crate) use service_account::{DEFAULT_ACCOUNT, ServiceAccount};

use crate::{
    ApiError, BoxObject, Resource, Subresource, Target,
    allocation::Allocation,
    checks::Mode,
    fresh::SharedObject,
    key,
    ownership::{self, Author, Owners},
    pieces::Since,
    stamps::whole_seconds,
    stored::Stored,
};
use berth_api::{
    FeatureGates, FieldError, Kind, Object,
    k8s_openapi::{
        api::core::v1::LimitRange,
        apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, Time},
    },
    metadata,
    object::GenerationRule,
};
use berth_store::{Entry, Key, MinRevision};
use serde_json::Value;
use std::{borrow::Cow, fmt::Display, mem, sync::Arc};

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Creates an object, or the object of a subresource (`Binding`, `Eviction`).
    Create,
    /// Changes an object by PUT, PATCH or apply, also through a subresource.
    Update,
    /// Deletes one object. A collection is deleted object by object.
    Delete,
}

/// Warnings and audit annotations for a write that the server accepts.
#[derive(Clone, Debug, Default)]
pub struct Remarks {
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
    /// Annotations for the audit log: names and values.
    pub audit: Vec<(Cow<'static, str>, String)>,
}

impl Remarks {
    fn add(&mut self, more: Self) {
        self.warnings.extend(more.warnings);
        self.audit.extend(more.audit);
    }
}

/// The charges of a write against limits.
#[derive(Debug, Default)]
pub(crate) struct Charges {
    quota: resource_quota::Charge,
    allocation: Allocation,
}

/// The collection of a write, and whether it is a dry run.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    pub(crate) resource: &'a Arc<Resource>,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) mode: Mode,
}

impl<'a> At<'a> {
    /// Returns the target's collection.
    pub(crate) fn of(target: &'a Target, mode: Mode) -> Self {
        Self { resource: &target.resource, namespace: target.namespace.as_deref(), mode }
    }
}

/// A stored write, for its follow-up writes.
pub(crate) struct Happened<'a> {
    pub(crate) operation: Operation,
    pub(crate) resource: &'a Resource,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) name: &'a str,
}

impl<'a> Happened<'a> {
    /// Returns the write of the target's object.
    pub(crate) fn of(operation: Operation, target: &'a Target) -> Self {
        Self { operation, resource: &target.resource, namespace: target.namespace.as_deref(), name: &target.name }
    }

    fn group_and_plural(&self) -> (&str, &str) {
        (self.resource.group(), self.resource.plural())
    }
}

/// A follow-up write: objects that the registry writes as the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entailed {
    /// Creates the default service account of this namespace.
    DefaultAccount(String),
    /// Creates the config map with the server's CA in this namespace.
    RootCa(String),
    /// Copies the rules of the selected roles into aggregated roles.
    AggregatedRules,
}

/// Why a plug-in does not admit an object.
pub(crate) enum Refusal {
    /// The reason, which the client reads.
    Forbidden(String),
    /// The question had no answer.
    Failed(ApiError),
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Self {
        Self::Failed(error)
    }
}

/// One write on its way through the chain.
pub(crate) struct Admission<'a> {
    pub(crate) operation: Operation,
    pub(crate) at: At<'a>,
    pub(crate) author: Author<'a>,
    /// The stored object, absent for a create.
    pub(crate) old: Option<Stored>,
    /// The new object. For a deletion, it is the last state, or the state with the deletion timestamp.
    pub(crate) object: SharedObject,
    /// Whether this write removes the object from the store.
    pub(crate) removes: bool,
    /// Whether no caller reads the last state of the removed object.
    pub(crate) is_last_unseen: bool,
    pub(crate) remarks: Remarks,
    owners: Owners,
    since: Since,
    /// The minimum revision for reads of the stages.
    as_of: MinRevision,
    /// The managed fields of the request.
    given: Option<Vec<ManagedFieldsEntry>>,
    /// The owners of the sent fields, out of reach of plug-ins and reviewers.
    recorded: Option<Vec<ManagedFieldsEntry>>,
    /// The sent fields of a change, with their defaults, if their owners are recorded.
    sent: Option<Value>,
    /// The result of an apply, before the rules of an update.
    applied: Option<BoxObject>,
    /// The namespace of a new object.
    namespace_entry: Option<Arc<Entry>>,
    /// Whether the namespace's default service account is missing and must be created before the object is stored.
    pub(crate) needs_account: bool,
    /// The limit ranges for a new object.
    limit_ranges: Vec<LimitRange>,
    /// The calls of the reviewers to mutate the object.
    rounds: reviewers::Rounds,
    is_changed_outside: bool,
}

impl<'a> Admission<'a> {
    /// Returns the admission of a new object, or of a POST to a subresource (`author` contains it).
    pub(crate) fn create(at: At<'a>, author: Author<'a>, mut object: BoxObject, owners: Owners) -> Self {
        let given = ownership::take_given(&mut *object);
        Self { given, owners, ..Self::of(Operation::Create, at, author, object) }
    }

    /// Returns the admission of a change to `object`.
    pub(crate) fn update(at: At<'a>, author: Author<'a>, old: Stored, mut object: BoxObject, owners: Owners) -> Self {
        let given = ownership::take_given(&mut *object);
        let applied = matches!(owners, Owners::Decided(_)).then(|| normalized(&*object));
        Self { old: Some(old), given, applied, owners, ..Self::of(Operation::Update, at, author, object) }
    }

    /// Returns the admission of a deletion, which `removes` the object or stores it as `object`.
    pub(crate) fn delete(at: At<'a>, author: Author<'a>, old: Stored, object: BoxObject, removes: bool) -> Self {
        Self { old: Some(old), removes, ..Self::of(Operation::Delete, at, author, object) }
    }

    fn of(operation: Operation, at: At<'a>, author: Author<'a>, object: BoxObject) -> Self {
        Self {
            operation,
            at,
            author,
            old: None,
            object: object.into(),
            removes: false,
            is_last_unseen: false,
            remarks: Remarks::default(),
            owners: Owners::Unchanged,
            since: Since(author.now),
            as_of: MinRevision::default(),
            given: None,
            recorded: None,
            sent: None,
            applied: None,
            namespace_entry: None,
            needs_account: false,
            limit_ranges: Vec::new(),
            rounds: reviewers::Rounds::default(),
            is_changed_outside: false,
        }
    }

    /// Returns the subresource of the request. `None`: the object itself.
    pub(crate) fn subresource(&self) -> Option<Subresource> {
        self.author.subresource
    }

    /// Returns the object's name.
    pub(crate) fn name(&self) -> &str {
        self.object.meta().name.as_deref().unwrap_or_default()
    }

    fn key(&self) -> Key {
        key::key_of(self.at.resource, self.at.namespace, self.name())
    }

    fn target(&self) -> Target {
        let namespace = self.at.namespace.map(str::to_owned);
        Target { resource: Arc::clone(self.at.resource), namespace, name: self.name().to_owned(), subresource: None }
    }

    /// Whether the write creates a stored object, unlike a POST to a subresource.
    fn is_new(&self) -> bool {
        self.operation == Operation::Create && self.subresource().is_none()
    }

    /// Returns the new object if it is a `K`.
    fn created<K: Kind>(&self) -> Option<&K> {
        if self.is_new() { self.object.downcast_ref() } else { None }
    }

    /// Returns the same as [`Admission::created`], mutable.
    fn created_mut<K: Kind>(&mut self) -> Option<&mut K> {
        if self.is_new() { self.object.downcast_mut() } else { None }
    }

    /// Returns the stored and the new object of an update that is not through a subresource.
    fn changed(&self) -> Option<(&dyn Object, &dyn Object)> {
        let old = self.old.as_ref().filter(|_| self.operation == Operation::Update && self.subresource().is_none())?;
        Some((&*old.object, &*self.object))
    }

    /// Returns the same as [`Admission::changed`] if both are a `K`.
    fn changed_kind<K: Kind>(&self) -> Option<(&K, &K)> {
        let (old, new) = self.changed()?;
        Some((old.downcast_ref()?, new.downcast_ref()?))
    }

    /// Returns the same as [`Admission::changed_kind`], with the new object mutable.
    fn changed_mut<K: Kind>(&mut self) -> Option<(&K, &mut K)> {
        let is_own_door = self.operation == Operation::Update && self.subresource().is_none();
        let old = self.old.as_ref().filter(|_| is_own_door)?;
        Some((old.object.downcast_ref()?, self.object.downcast_mut()?))
    }

    fn forbidden(&self, why: impl Display) -> ApiError {
        ApiError::forbidden(self.at.resource, self.name(), &why.to_string(), Vec::new())
    }

    fn refused(&self, refusal: Refusal) -> ApiError {
        match refusal {
            Refusal::Forbidden(why) => self.forbidden(&why),
            Refusal::Failed(error) => error,
        }
    }

    fn set_defaults(&mut self) {
        // A deleted object has its defaults from the store.
        if self.operation != Operation::Delete {
            self.object.set_defaults();
        }
    }

    /// Whether a reviewer has changed the object since the last call.
    fn take_changed_outside(&mut self) -> bool {
        mem::take(&mut self.is_changed_outside)
    }

    /// Applies the kind's rules for fields that clients cannot write.
    fn prepare(&mut self, gates: &FeatureGates) {
        let now = Time(whole_seconds(self.author.now));
        let (door, new) = (self.subresource(), &mut *self.object);
        let Some(old) = self.old.as_ref().map(|old| &*old.object) else {
            new.prepare_create(gates);
            new.stamp(None, &now);
            if matches!(new.rules().generation_rule, GenerationRule::Spec | GenerationRule::SpecAndAnnotations) {
                new.meta_mut().generation = Some(1);
            }
            return;
        };
        new.prepare_update(old, door, gates);
        if door != Some(Subresource::Finalize) {
            new.stamp(Some(old), &now);
        }
        metadata::restore_immutable(new.meta_mut(), old.meta());
        // A controller's write through `/status`, annotations included, is no new request to the controllers.
        if !matches!(door, Some(Subresource::Status | Subresource::Approval)) {
            raise_generation(old, new);
        }
        self.removes = is_finished(new);
    }

    /// Validates the object and collects warnings for its author.
    ///
    /// # Errors
    /// [`ApiError::Invalid`] with all field errors.
    fn check(&mut self, gates: &FeatureGates) -> Result<(), ApiError> {
        let errors = self.faults(gates);
        if !errors.is_empty() {
            return Err(ApiError::invalid(self.at.resource, self.name(), errors));
        }
        if matches!(self.subresource(), None | Some(Subresource::Scale)) {
            self.remarks.warnings.extend(self.object.warnings(self.old.as_ref().map(|old| &*old.object)));
        }
        Ok(())
    }

    fn faults(&self, gates: &FeatureGates) -> Vec<FieldError> {
        let new = &*self.object;
        let of_finalizers = || metadata::validate_finalizer_names(new.meta(), new.rules().finalizer_rule);
        let Some(old) = self.old.as_ref().map(|old| &*old.object) else {
            let mut errors = metadata::validate_new(new.meta(), new.rules().name_rule, self.at.resource.scope);
            errors.extend(of_finalizers());
            errors.extend(new.validate(gates));
            return errors;
        };
        let mut errors = metadata::validate_update(new.meta(), old.meta());
        errors.extend(of_finalizers());
        if self.subresource().is_none() && new.rules().checks_new_name_base {
            errors.extend(metadata::validate_new_name_base(new.meta(), old.meta(), new.rules().name_rule));
        }
        errors.extend(new.validate_update(old, self.subresource(), gates));
        errors
    }

    /// Removes duplicate owner references and adds a warning.
    fn dedup_owners(&mut self) {
        if self.object.meta().owner_references.as_ref().is_none_or(|owners| owners.len() < 2) {
            return;
        }
        let doubled = metadata::dedup_owner_references(self.object.meta_mut());
        if !doubled.is_empty() {
            self.remarks.warnings.push(format!(
                ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests \
                 as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
                doubled.join(", ")
            ));
        }
    }

    /// Records the owners of the sent fields, with their defaults. Fields that the server adds later have no owner.
    fn record_owners_of_sent(&mut self) {
        let (resource, author) = (self.at.resource, &self.author);
        match (&self.owners, &mut self.old) {
            (Owners::Follow, None) => ownership::record_create(resource, &mut *self.object, self.given.as_deref(), author),
            (Owners::Follow, Some(old)) => {
                self.sent = ownership::record_update(resource, &mut old.object, &mut *self.object, self.given.take(), author);
            }
            (Owners::Decided(_) | Owners::Unchanged, _) => return,
        }
        self.recorded = self.object.meta_mut().managed_fields.take();
    }

    /// Records the owners of fields: of the sent fields, of an apply, or the previous ones.
    fn record_decided_owners(&mut self) {
        let resource = self.at.resource;
        match (&mut self.owners, &mut self.old) {
            (Owners::Follow, _) => {
                // Only once: a create repeats this stage under another generated name.
                if let Some(mut entries) = self.recorded.take() {
                    if let Some(sent) = self.sent.take() {
                        ownership::forget_lost(resource, &mut entries, &sent, &*self.object);
                    }
                    self.object.meta_mut().managed_fields = Some(entries);
                }
            }
            (Owners::Unchanged, None) => (),
            (Owners::Decided(managers), None) => ownership::record_applied_create(&mut *self.object, managers),
            (Owners::Decided(managers), Some(old)) => {
                let new = &mut *self.object;
                if let Some(applied) = self.applied.take() {
                    ownership::forget_dropped(resource, managers, &*applied, new);
                }
                ownership::record_apply(&*old.object, new, managers);
            }
            (Owners::Unchanged, Some(old)) => self.object.meta_mut().managed_fields.clone_from(&old.object.meta().managed_fields),
        }
    }
}

/// Returns the result of an apply in its stored form. An empty value that this form omits stays the applier's, and so
/// does a write-only field (`stringData` of a Secret).
fn normalized(object: &dyn Object) -> BoxObject {
    let mut object = object.clone_object();
    object.normalize();
    object.set_defaults();
    object
}

fn raise_generation(old: &dyn Object, new: &mut dyn Object) {
    let raised = match new.rules().generation_rule {
        GenerationRule::None => false,
        GenerationRule::Spec | GenerationRule::SpecChanges => new.spec_differs(old),
        GenerationRule::SpecAndAnnotations => new.spec_differs(old) || new.meta().annotations != old.meta().annotations,
    };
    if raised {
        new.meta_mut().generation = Some(old.meta().generation.unwrap_or(0) + 1);
    }
}

/// Whether an object has a deletion timestamp and nothing delays its removal any more.
fn is_finished(object: &dyn Object) -> bool {
    let meta = object.meta();
    meta.deletion_timestamp.is_some()
        && meta.deletion_grace_period_seconds.unwrap_or(0) == 0
        && meta.finalizers.as_ref().is_none_or(Vec::is_empty)
        && !object.has_own_finalizers()
}
