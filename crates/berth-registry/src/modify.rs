//! The way of every change to an object that exists: read, change, check, compare-and-set; again when another writer was first.

use crate::{
    ApiError, BoxObject, Current, Registry, Subresource, Target, Written,
    admission::{pod_security::Remarks, quota::Charge},
    checks::Mode,
    consequences::Happened,
    options::{Precondition, parse_revision},
    ownership::{self, Author},
    stored,
};
use berth_api::{Object, metadata, object::GenerationRule};
use berth_fieldsets::Managers;
use berth_store::{Entry, Expected, WriteError};
use std::sync::Arc;

/// How often a change that carries no resource version is tried before the client hears of the conflict.
pub(crate) const ATTEMPTS: u32 = 5;

/// An object as it stands.
pub(crate) struct Stored {
    pub(crate) entry: Arc<Entry>,
    /// Decoded, with defaults, without resource version.
    pub(crate) object: BoxObject,
}

/// What should stand there instead, not yet checked.
pub(crate) struct Proposal {
    pub(crate) object: BoxObject,
    /// Texts for `Warning` headers.
    pub(crate) warnings: Vec<String>,
    pub(crate) owners: Owners,
}

/// Who owns the fields of an object after a write.
pub(crate) enum Owners {
    /// They follow the change: what is new or different is its author's.
    Follow,
    /// An apply has settled it.
    Decided(Managers),
    /// As before.
    Unchanged,
}

/// How an object is changed.
#[derive(Clone, Copy)]
pub(crate) struct Change<'a> {
    pub(crate) mode: Mode,
    pub(crate) precondition: &'a Precondition,
    pub(crate) author: Author<'a>,
}

/// Why one try did not write.
enum Failure {
    /// Another writer was first.
    Raced,
    Refused(ApiError),
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self::Refused(error)
    }
}

impl Registry {
    /// The target's object, decoded.
    pub(crate) async fn load(&self, target: &Target) -> Result<Stored, ApiError> {
        let entry = self.fetch(target).await?;
        let object = stored::load(&target.resource, &entry)?;
        Ok(Stored { entry, object })
    }

    /// Changes the target's object to what `change` proposes, under all rules of the resource.
    ///
    /// # Errors
    /// What `change` refuses; a failed precondition; a proposal that is invalid; too many writers at once.
    pub(crate) async fn modify(
        &self,
        target: &Target,
        by: Change<'_>,
        mut change: impl FnMut(&Stored) -> Result<Proposal, ApiError> + Send,
    ) -> Result<Written, ApiError> {
        for _ in 0..ATTEMPTS {
            let old = self.load(target).await?;
            check_precondition(target, &old, by.precondition)?;
            let new = change(&old)?;
            match self.replace(target, &by, old, new).await {
                Ok(written) => {
                    if by.mode == Mode::Real {
                        self.follow_up(Happened::Changed, &target.resource, target.namespace.as_deref(), &target.name).await?;
                    }
                    return Ok(written);
                }
                Err(Failure::Raced) => (),
                Err(Failure::Refused(error)) => return Err(error),
            }
        }
        Err(ApiError::modified(target))
    }

    async fn replace(&self, target: &Target, by: &Change<'_>, mut old: Stored, mut new: Proposal) -> Result<Written, Failure> {
        let given = ownership::take_given(&mut *new.object);
        check_identity(target, &old, &mut *new.object)?;
        self.check_escalation(&target.resource, target.namespace.as_deref(), Some(&*old.object), &*new.object).await?;
        let applied = matches!(new.owners, Owners::Decided(_)).then(|| new.object.clone_object());
        self.settle(target, &*old.object, &mut *new.object)?;
        let mut remarks = Remarks::default();
        if target.subresource.is_none() {
            new.warnings.extend(new.object.warnings(Some(&*old.object)));
            remarks = self.admit_changed(target, &*old.object, &*new.object).await?;
            new.warnings.append(&mut remarks.warnings);
        }
        match &mut new.owners {
            Owners::Follow => ownership::record_update(&target.resource, &mut *old.object, &mut *new.object, given, &by.author),
            Owners::Decided(managers) => {
                if let Some(applied) = applied {
                    ownership::forget_dropped(&target.resource, managers, &*applied, &*new.object);
                }
                ownership::record_apply(&*old.object, &mut *new.object, managers);
            }
            Owners::Unchanged => new.object.meta_mut().managed_fields.clone_from(&old.object.meta().managed_fields),
        }
        let charge = match target.subresource {
            None => self.charge_growth(target, &*old.object, &*new.object, by.mode).await?,
            Some(_) => Charge::default(),
        };
        let object = match self.commit_allocated(target, by.mode, &old, &mut *new.object).await {
            Ok(object) => object,
            Err(failure) => {
                match &failure {
                    Failure::Raced => self.give_back(charge).await,
                    Failure::Refused(error) => self.give_back_unless_unknown(charge, error).await,
                }
                return Err(failure);
            }
        };
        Ok(Written { object, created: false, warnings: new.warnings, audit: remarks.audit })
    }

    /// Applies the rules of an update to what is proposed.
    fn settle(&self, target: &Target, old: &dyn Object, new: &mut dyn Object) -> Result<(), ApiError> {
        new.set_defaults();
        match target.subresource {
            Some(Subresource::Status) => new.prepare_status_update(old, &self.gates),
            Some(Subresource::Finalize) => new.prepare_finalize(old),
            _ => new.prepare_update(old, &self.gates),
        }
        metadata::restore_immutable(new.meta_mut(), old.meta());
        let mut errors = metadata::validate_update(new.meta(), old.meta());
        errors.extend(match target.subresource {
            Some(Subresource::Status) => new.validate_status_update(old, &self.gates),
            Some(Subresource::Finalize) => Vec::new(),
            _ => new.validate_update(old, &self.gates),
        });
        if !errors.is_empty() {
            return Err(ApiError::invalid(&target.resource, &target.name, errors));
        }
        // What a controller writes through `/status`, annotations included, asks for nothing new.
        if target.subresource != Some(Subresource::Status) {
            raise_generation(old, new);
        }
        Ok(())
    }

    /// [`Registry::commit`], with the addresses and node ports that a Service then has.
    async fn commit_allocated(&self, target: &Target, mode: Mode, old: &Stored, new: &mut dyn Object) -> Result<Current, Failure> {
        let allocation = self.allocate(target, Some(&*old.object), new, mode).await?;
        let object = match self.commit(target, mode, old, new).await {
            Ok(object) => object,
            Err(failure) => {
                match &failure {
                    Failure::Raced => self.take_back(allocation).await,
                    Failure::Refused(error) => self.take_back_unless_unknown(allocation, error).await,
                }
                return Err(failure);
            }
        };
        if let (Err(lost), Current::Stored(entry)) = (self.secure(target, &allocation).await, &object) {
            // The Service must not keep what is another's: it gets back what it had, unless somebody has changed it since.
            let _ = self.store.put(entry.key.clone(), old.entry.value.clone(), Expected::At(entry.mod_revision)).await;
            self.take_back(allocation).await;
            return Err(lost.into());
        }
        Ok(object)
    }

    /// Writes `new` in place of `old`, unless they are equal; removes the object where `new` was all that kept it from going.
    async fn commit(&self, target: &Target, mode: Mode, old: &Stored, new: &dyn Object) -> Result<Current, Failure> {
        if new.same_as(&*old.object) {
            return Ok(Current::Stored(stored::shown(&target.resource, Arc::clone(&old.entry))));
        }
        if mode == Mode::Dry {
            return Ok(Current::Made(with_revision(new.to_value(), &old.entry)));
        }
        let (key, value) = (old.entry.key.clone(), stored::encode(&target.resource, new));
        let written = if is_finished(new) {
            self.store.delete(key, value, old.entry.mod_revision).await
        } else {
            self.store.put(key, value, Expected::At(old.entry.mod_revision)).await
        };
        match written {
            Ok(entry) => Ok(Current::Stored(stored::shown(&target.resource, entry))),
            Err(WriteError::Conflict { .. }) => Err(Failure::Raced),
            Err(error) => Err(Failure::Refused(ApiError::write_failed(&error))),
        }
    }
}

/// The JSON of a dry run's answer shows the resource version that the change was tried on.
fn with_revision(mut object: serde_json::Value, entry: &Entry) -> serde_json::Value {
    object["metadata"]["resourceVersion"] = entry.mod_revision.to_string().into();
    object
}

/// Whether an object is marked for deletion and nothing keeps it any more.
pub(crate) fn is_finished(object: &dyn Object) -> bool {
    let meta = object.meta();
    meta.deletion_timestamp.is_some()
        && meta.deletion_grace_period_seconds.unwrap_or(0) == 0
        && meta.finalizers.as_ref().is_none_or(Vec::is_empty)
        && !object.has_own_finalizers()
}

fn raise_generation(old: &dyn Object, new: &mut dyn Object) {
    let raised = match new.generation_rule() {
        GenerationRule::None => false,
        GenerationRule::Spec => new.spec_differs(old),
        GenerationRule::SpecAndAnnotations => new.spec_differs(old) || new.meta().annotations != old.meta().annotations,
    };
    if raised {
        new.meta_mut().generation = Some(old.meta().generation.unwrap_or(0) + 1);
    }
}

/// The proposal's name and namespace must be the target's; its uid and resource version, where given, the object's.
fn check_identity(target: &Target, old: &Stored, new: &mut dyn Object) -> Result<(), ApiError> {
    check_name(target, new)?;
    let meta = new.meta_mut();
    let (uid, resource_version) = (meta.uid.take(), meta.resource_version.take());
    meta.uid.clone_from(&old.object.meta().uid);
    check_precondition(target, old, &Precondition { uid, resource_version })
}

/// The name and namespace of an update's object must be the URL's; an empty namespace is filled in.
pub(crate) fn check_name(target: &Target, new: &mut dyn Object) -> Result<(), ApiError> {
    match new.meta().name.as_deref().unwrap_or_default() {
        "" => {
            let name = &target.name;
            let text = format!("the name of the object ({name} based on URL) was undeterminable: name must be provided");
            return Err(ApiError::bad_request(text));
        }
        name if name != target.name => {
            let text = format!("the name of the object ({name}) does not match the name on the URL ({})", target.name);
            return Err(ApiError::bad_request(text));
        }
        _ => (),
    }
    check_namespace(target.namespace.as_deref(), new)
}

/// The namespace of an object must be the URL's; an empty one is filled in.
pub(crate) fn check_namespace(wanted: Option<&str>, object: &mut dyn Object) -> Result<(), ApiError> {
    let meta = object.meta_mut();
    match meta.namespace.as_deref().unwrap_or_default() {
        "" => meta.namespace = wanted.map(str::to_owned),
        found if Some(found) != wanted => {
            return Err(ApiError::bad_request("the namespace of the provided object does not match the namespace sent on the request"));
        }
        _ => (),
    }
    Ok(())
}

fn check_precondition(target: &Target, old: &Stored, wanted: &Precondition) -> Result<(), ApiError> {
    let found = old.object.meta().uid.as_deref().unwrap_or_default();
    if let Some(uid) = wanted.uid.as_deref().filter(|uid| !uid.is_empty() && *uid != found) {
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {found}");
        return Err(ApiError::conflict(target, &why));
    }
    match wanted.resource_version.as_deref().unwrap_or_default() {
        "" | "0" => Ok(()),
        text => match parse_revision(text) {
            Some(revision) if revision == old.entry.mod_revision => Ok(()),
            Some(_) => Err(ApiError::modified(target)),
            None => Err(ApiError::bad_request(format!("invalid resource version: {text:?} is no number"))),
        },
    }
}
