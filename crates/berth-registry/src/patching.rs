//! Changes an object by PATCH.

use crate::{
    Actor, ApiError, BoxObject, Patch, Registry, Resource, Subresource, Target, WriteOptions, Written,
    checks::{self, Verb},
    decoding,
    modify::{Change, Proposal},
    options::FieldValidation,
    ownership::Owners,
    patch::{self, Parsed},
    scale,
    stored::{self, Stored},
};
use berth_api::{StatusPart, k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde_json::{Value, json};
use std::borrow::Cow;

impl Registry {
    /// Patches the object or its subresource. After a conflict, a patch without a resource version is retried.
    /// `metadata.uid` and `metadata.resourceVersion` in a patch are preconditions.
    ///
    /// # Errors
    /// An undecodable or inapplicable patch, conflicts, or an invalid result.
    pub async fn patch(&self, actor: &Actor, target: &Target, patch: Patch, options: &WriteOptions) -> Result<Written, ApiError> {
        target.check_subresource()?;
        ApiError::check_writable(&target.resource)?;
        let verb = if matches!(patch, Patch::Apply(_)) { Verb::Apply } else { Verb::Patch };
        let checked = checks::write_options(verb, options)?;
        match target.subresource {
            Some(Subresource::Scale) => return scale::patch(self, actor, target, &patch, options, checked).await,
            Some(Subresource::Binding | Subresource::Eviction | Subresource::Log | Subresource::Token) => {
                return Err(ApiError::MethodNotAllowed);
            }
            None | Some(Subresource::Status | Subresource::Approval | Subresource::Finalize) => (),
        }
        if let Patch::Apply(bytes) = &patch {
            return self.apply(actor, target, bytes, options, checked).await;
        }
        let parsed = Parsed::new(&patch)?;
        let author = self.author(actor, options, target.subresource);
        let change = Change { mode: checked.mode, precondition: &options.precondition, author };
        self.modify(target, change, |old| parsed.propose(target, old, checked.validation)).await
    }
}

impl Registry {
    /// Patches the target's status, as [`Registry::patch`], with `part` as the patch.
    ///
    /// # Errors
    /// Those of [`Registry::patch`].
    pub async fn put_status(&self, actor: &Actor, target: &Target, part: &StatusPart, options: &WriteOptions) -> Result<Written, ApiError> {
        target.check_subresource()?;
        ApiError::check_writable(&target.resource)?;
        let checked = checks::write_options(Verb::Patch, options)?;
        let author = self.author(actor, options, target.subresource);
        let change = Change { mode: checked.mode, precondition: &options.precondition, author };
        self.modify(target, change, |old| propose_part(target, old, part, checked.validation)).await
    }
}

fn propose_part(target: &Target, old: &Stored, part: &StatusPart, validation: FieldValidation) -> Result<Proposal, ApiError> {
    let Some(mut object) = old.object.with_status(&*part.object, part.members) else {
        return Parsed::Merge(Cow::Owned(part.to_patch()), Vec::new()).propose(target, old, validation);
    };
    let (meta, wanted) = (object.meta_mut(), part.object.meta());
    meta.uid.clone_from(&wanted.uid);
    meta.resource_version.clone_from(&wanted.resource_version);
    meta.managed_fields = None;
    Ok(Proposal { object, warnings: Vec::new(), owners: Owners::Follow })
}

impl Parsed<'_> {
    fn propose(&self, target: &Target, old: &Stored, validation: FieldValidation) -> Result<Proposal, ApiError> {
        if let (Self::Merge(patch, _), Some(Subresource::Status)) = (self, target.subresource)
            && keeps_metadata(patch)
        {
            return self.propose_status(target, old, patch, validation);
        }
        let before = self.before(target, old)?;
        let after = match self {
            Self::Json(bytes) => patch::json(&before, bytes)?,
            Self::Merge(value, _) => patch::merge(before, value),
            Self::Strategic(value, _) => patch::strategic(&before, value, &target.resource)?,
        };
        self.read(&target.resource, after, validation)
    }

    /// Does the rest of [`Parsed::propose`] for a merge patch of a status alone, with the metadata of the stored
    /// object. This skips the conversion of the metadata to and from a JSON tree. It makes a pod's status update, the
    /// most frequent write, much cheaper.
    fn propose_status(&self, target: &Target, old: &Stored, patch: &Value, validation: FieldValidation) -> Result<Proposal, ApiError> {
        let resource = &target.resource;
        let named = json!({"name": target.name, "namespace": target.namespace});
        let mut before = json!({"apiVersion": resource.api_version(), "kind": resource.kind(), "metadata": named});
        before["status"] = stored::status(resource, &old.entry)?;
        let mut proposal = self.read(resource, patch::merge(before, patch), validation)?;
        let wanted = proposal.object.meta_mut();
        let (uid, resource_version) = (wanted.uid.take(), wanted.resource_version.take());
        *wanted = ObjectMeta { uid, resource_version, managed_fields: None, ..old.object.meta().clone() };
        Ok(proposal)
    }

    /// Returns the document that the patch applies to. A merge patch of a status needs no spec, which comes from the
    /// stored object.
    fn before(&self, target: &Target, old: &Stored) -> Result<Value, ApiError> {
        match (self, target.subresource) {
            (Self::Merge(..), Some(Subresource::Status)) => stored::status_document(&target.resource, &old.entry),
            _ => stored::document(&target.resource, &old.entry),
        }
    }

    fn read(&self, resource: &Resource, after: Value, validation: FieldValidation) -> Result<Proposal, ApiError> {
        let decoded = resource.rules.decode(after).map_err(|error| self.unfit(&error))?;
        let faults = decoding::faults(self.duplicates(), &decoded.unknown);
        let object: BoxObject = decoded.object;
        match validation {
            FieldValidation::Strict if !faults.is_empty() => Err(self.unreadable(&decoding::strict(&faults))),
            FieldValidation::Warn => Ok(Proposal { object, warnings: faults, owners: Owners::Follow }),
            FieldValidation::Strict | FieldValidation::Ignore => Ok(Proposal { object, warnings: Vec::new(), owners: Owners::Follow }),
        }
    }
}

/// Whether a patch's metadata contains only preconditions: uid and resource version.
fn keeps_metadata(patch: &Value) -> bool {
    match patch.get("metadata") {
        None => true,
        Some(Value::Object(members)) => members.keys().all(|member| matches!(member.as_str(), "uid" | "resourceVersion")),
        Some(_) => false,
    }
}
