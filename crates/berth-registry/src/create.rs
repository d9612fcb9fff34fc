//! Creates objects.

use crate::{
    Actor, ApiError, Body, Collection, Current, Registry, Subresource, Target, WriteOptions, Written,
    admission::{Admission, At, Happened, Operation, Remarks},
    checks::{self, Mode, Verb},
    decoding::Incoming,
    failure::Failure,
    modify::check_namespace,
    ownership::{self, Author, Owners},
    pieces::Since,
    stamps::{new_uid, whole_seconds},
};
use berth_api::{
    Object,
    k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
    names,
};
use berth_store::env::Rng;

/// The maximum number of generated names that are tried.
const NAME_ATTEMPTS: u32 = 8;

/// Why a custom resource takes no new objects.
const TERMINATING: &str = "create not allowed while custom resource definition is terminating";

/// A new object.
pub(crate) struct New {
    pub(crate) object: Box<dyn Object>,
    /// Texts for `Warning` headers.
    pub(crate) warnings: Vec<String>,
    pub(crate) owners: Owners,
}

impl New {
    /// Returns a new object whose author owns its fields.
    pub(crate) fn of(incoming: Incoming) -> Self {
        Self { object: incoming.object, warnings: incoming.warnings, owners: Owners::Follow }
    }
}

impl Registry {
    /// Creates an object.
    ///
    /// # Errors
    /// An undecodable body, a missing or terminating namespace, field errors, or a name that exists.
    pub async fn create(&self, actor: &Actor, at: &Collection, body: Body, options: &WriteOptions) -> Result<Written, ApiError> {
        ApiError::check_writable(&at.resource)?;
        let checked = checks::write_options(Verb::Create, options)?;
        let owners = if ownership::is_recorded(&body) { Owners::Follow } else { Owners::Unchanged };
        let author = self.author(actor, options, None);
        let incoming = self.read_body(&at.resource, body, checked.validation, &mut Since(author.now)).await?;
        self.create_object(at, New { owners, ..New::of(incoming) }, checked.mode, &author).await
    }

    /// Handles a POST to a subresource: `pods/binding` and `pods/eviction`, whose result is a `Status`.
    ///
    /// # Errors
    /// [`ApiError::MethodNotAllowed`] for other subresources, otherwise those of binding and eviction.
    pub async fn create_subresource(
        &self,
        actor: &Actor,
        target: &Target,
        body: Body,
        options: &WriteOptions,
    ) -> Result<Written, ApiError> {
        target.check_subresource()?;
        match target.subresource {
            Some(Subresource::Binding) => self.create_binding(actor, target, body, options).await,
            Some(Subresource::Eviction) => self.create_eviction(actor, target, body, options).await,
            None
            | Some(
                Subresource::Status
                | Subresource::Scale
                | Subresource::Approval
                | Subresource::Finalize
                | Subresource::Log
                | Subresource::Token,
            ) => Err(ApiError::MethodNotAllowed),
        }
    }

    pub(crate) async fn create_object(&self, at: &Collection, new: New, mode: Mode, author: &Author<'_>) -> Result<Written, ApiError> {
        let New { mut object, warnings, owners } = new;
        let namespace = at.namespace.as_deref();
        check_namespace(namespace, &mut *object)?;
        let is_versioned = object.meta().resource_version.as_ref().is_some_and(|version| !version.is_empty());
        self.fill_in(&mut *object);
        let names = if generate_name(object.meta_mut(), &*self.chain.rng) { NAME_ATTEMPTS } else { 1 };
        if at.resource.is_terminating() {
            let name = object.meta().name.as_deref().unwrap_or_default();
            return Err(ApiError::forbidden(&at.resource, name, TERMINATING, Vec::new()));
        }
        let mut admission = Admission::create(At { resource: &at.resource, namespace, mode }, *author, object, owners);
        admission.remarks.warnings = warnings;
        self.admit(&mut admission).await?;
        if is_versioned {
            return Err(ApiError::bad_request("resourceVersion should not be set on objects to be created"));
        }
        let object = self.complete_named(&mut admission, names).await?;
        if mode == Mode::Real {
            let name = admission.name();
            self.follow_up(&Happened { operation: Operation::Create, resource: &at.resource, namespace, name }).await?;
        }
        let Remarks { warnings, audit } = admission.remarks;
        Ok(Written { object, created: true, warnings, audit })
    }

    /// Runs the rest of the chain. If a generated name exists, it tries up to `names` others.
    async fn complete_named(&self, admission: &mut Admission<'_>, names: u32) -> Result<Current, ApiError> {
        let remarks = admission.remarks.clone();
        let mut tried = 1;
        loop {
            let taken = match self.chain.complete(&self.storage, admission).await {
                Ok(current) => return Ok(current),
                Err(Failure::Raced) => ApiError::already_exists(admission.at.resource, admission.name()),
                Err(Failure::Refused(error @ ApiError::AlreadyExists { .. })) => error,
                Err(Failure::Refused(error)) => return Err(error),
            };
            if tried == names {
                return Err(taken);
            }
            tried += 1;
            admission.remarks.clone_from(&remarks);
            admission.object.meta_mut().name = None;
            generate_name(admission.object.meta_mut(), &*self.chain.rng);
        }
    }

    /// Sets the metadata that only the server sets.
    fn fill_in(&self, object: &mut dyn Object) {
        let meta = object.meta_mut();
        meta.uid = Some(new_uid(&*self.chain.rng));
        meta.creation_timestamp = Some(Time(whole_seconds(self.storage.clock.now())));
        meta.deletion_timestamp = None;
        meta.deletion_grace_period_seconds = None;
        meta.self_link = None;
        meta.resource_version = None;
    }
}

/// Generates a name from `generateName` if the object has no name.
fn generate_name(meta: &mut ObjectMeta, rng: &dyn Rng) -> bool {
    let is_named = meta.name.as_ref().is_some_and(|name| !name.is_empty());
    let Some(base) = meta.generate_name.as_deref().filter(|base| !is_named && !base.is_empty()) else { return false };
    meta.name = Some(names::generated(base, |bound| rng.below(bound)));
    true
}
