//! Creating objects.

use crate::{
    ApiError, Body, Collection, Current, Registry, Subresource, Target, WriteOptions, Written,
    admission::{limits, pod_security},
    checks::{self, Mode, Verb},
    consequences::Happened,
    decoding::{self, Incoming},
    key,
    modify::{Owners, check_namespace},
    ownership::{self, Author},
    stored,
};
use berth_api::{
    Object,
    k8s_openapi::{
        api::core::v1::Service,
        apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
    },
    metadata,
    object::GenerationRule,
};
use berth_store::{Entry, Expected, WriteError, env::Rng, env::Timestamp};
use std::sync::Arc;

/// Characters of generated names: no vowels and no look-alikes, so that no words come about.
const NAME_CHARACTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// How many of them are appended.
const NAME_SUFFIX_LENGTH: usize = 5;
/// How much of `generateName` is kept, so that the whole name fits a DNS label.
const NAME_BASE_MAX: usize = 63 - NAME_SUFFIX_LENGTH;
/// How many generated names are tried.
const NAME_ATTEMPTS: u32 = 8;

/// An object to be made.
pub(crate) struct New {
    pub(crate) object: Box<dyn Object>,
    /// Texts for `Warning` headers.
    pub(crate) warnings: Vec<String>,
    pub(crate) owners: Owners,
}

impl New {
    /// A new object whose author owns what it holds.
    pub(crate) fn of(incoming: Incoming) -> Self {
        Self { object: incoming.object, warnings: incoming.warnings, owners: Owners::Follow }
    }
}

impl Registry {
    /// Creates an object.
    ///
    /// # Errors
    /// A body that cannot be read, a namespace that is missing or terminating, faults of the object, a name that is taken.
    pub async fn create(&self, at: &Collection, body: Body, options: &WriteOptions) -> Result<Written, ApiError> {
        ApiError::check_writable(&at.resource)?;
        let checked = checks::write_options(Verb::Create, options)?;
        let owners = if ownership::is_recorded(&body) { Owners::Follow } else { Owners::Unchanged };
        let incoming = decoding::body(&at.resource, body, checked.validation)?;
        self.create_object(at, New { owners, ..New::of(incoming) }, checked.mode, &self.author(options, None)).await
    }

    /// POST to a subresource: `pods/binding` and `pods/eviction`, whose answer is a `Status`.
    ///
    /// # Errors
    /// [`ApiError::MethodNotAllowed`] for other subresources; else those of binding and eviction.
    pub async fn create_subresource(&self, target: &Target, body: Body, options: &WriteOptions) -> Result<Written, ApiError> {
        target.check_subresource()?;
        match target.subresource {
            Some(Subresource::Binding) => self.create_binding(target, body, options).await,
            Some(Subresource::Eviction) => self.create_eviction(target, body, options).await,
            None | Some(Subresource::Status | Subresource::Scale | Subresource::Finalize | Subresource::Log | Subresource::Token) => {
                Err(ApiError::MethodNotAllowed)
            }
        }
    }

    pub(crate) async fn create_object(&self, at: &Collection, new: New, mode: Mode, author: &Author<'_>) -> Result<Written, ApiError> {
        let New { mut object, mut warnings, owners } = new;
        let given = ownership::take_given(&mut *object);
        check_namespace(at.namespace.as_deref(), &mut *object)?;
        let namespace = self.admit_namespace(at, &*object).await?;
        if object.meta().resource_version.as_ref().is_some_and(|version| !version.is_empty()) {
            return Err(ApiError::bad_request("resourceVersion should not be set on objects to be created"));
        }
        self.fill_in(&mut *object);
        let is_generated = generate_name(object.meta_mut(), &*self.rng);
        object.set_defaults();
        self.check_escalation(&at.resource, at.namespace.as_deref(), None, &*object).await?;
        let ranges = self.limit_ranges(at.namespace.as_deref(), &*object).await?;
        self.admit_new(&mut *object, &ranges).await?;
        object.prepare_create(&self.gates);
        if object.generation_rule() != GenerationRule::None {
            object.meta_mut().generation = Some(1);
        }
        self.check_new(at, &*object)?;
        limits::check(&at.resource, &ranges, &*object)?;
        let remarks = pod_security::judge(&at.resource, namespace.as_deref(), &*object)?;
        match &owners {
            Owners::Follow => ownership::record_create(&at.resource, &mut *object, given.as_deref(), author),
            Owners::Decided(managers) => ownership::record_applied_create(&mut *object, managers),
            Owners::Unchanged => (),
        }
        warnings.extend(object.warnings(None));
        warnings.extend(remarks.warnings);
        let charge = self.charge_quotas(at, &*object, mode).await?;
        let stored = self.store_new(at, object, mode, if is_generated { NAME_ATTEMPTS } else { 1 }).await;
        if let Err(error) = &stored {
            self.give_back_unless_unknown(charge, error).await;
        }
        let object = stored?;
        if let Some(target) = created_target(at, &object) {
            self.follow_up(Happened::Created, &at.resource, target.namespace.as_deref(), &target.name).await?;
        }
        Ok(Written { object, created: true, warnings, audit: remarks.audit })
    }

    /// Sets what the server alone says, whatever the client sent.
    fn fill_in(&self, object: &mut dyn Object) {
        let meta = object.meta_mut();
        meta.uid = Some(new_uid(&*self.rng));
        meta.creation_timestamp = Some(Time(whole_seconds(self.clock.now())));
        meta.deletion_timestamp = None;
        meta.deletion_grace_period_seconds = None;
        meta.self_link = None;
        meta.resource_version = None;
    }

    fn check_new(&self, at: &Collection, object: &dyn Object) -> Result<(), ApiError> {
        let mut errors = metadata::validate_new(object.meta(), object.name_rule(), at.resource.scope);
        errors.extend(object.validate(&self.gates));
        if errors.is_empty() {
            return Ok(());
        }
        Err(ApiError::invalid(&at.resource, object.meta().name.as_deref().unwrap_or_default(), errors))
    }

    async fn store_new(&self, at: &Collection, mut object: Box<dyn Object>, mode: Mode, attempts: u32) -> Result<Current, ApiError> {
        for attempt in 0..attempts {
            if attempt != 0 {
                object.meta_mut().name = None;
                generate_name(object.meta_mut(), &*self.rng);
                // What is derived from the name (a namespace's label) is derived again.
                object.prepare_create(&self.gates);
            }
            if let Some(current) = self.try_store(at, &mut *object, mode).await? {
                return Ok(current);
            }
        }
        Err(ApiError::already_exists(&at.resource, object.meta().name.as_deref().unwrap_or_default()))
    }

    /// Stores the object if its name is free.
    async fn try_store(&self, at: &Collection, object: &mut dyn Object, mode: Mode) -> Result<Option<Current>, ApiError> {
        let name = object.meta().name.as_deref().unwrap_or_default();
        let key = key::key_of(&at.resource, at.namespace.as_deref(), name);
        if object.as_any().is::<Service>() {
            let target =
                Target { resource: Arc::clone(&at.resource), namespace: at.namespace.clone(), name: name.to_owned(), subresource: None };
            return self.store_new_service(&target, object, mode).await;
        }
        if mode == Mode::Dry {
            let is_free = self.store.get(&key).await?.is_none();
            return Ok(is_free.then(|| Current::Made(object.to_value())));
        }
        let value = stored::encode(&at.resource, object);
        let stored = accepted(self.store.put(key, value, Expected::Absent).await)?;
        Ok(stored.map(|entry| Current::Stored(stored::shown(&at.resource, entry))))
    }
}

/// The entry of a create; `None`: the name is taken.
pub(crate) fn accepted(written: Result<Arc<Entry>, WriteError>) -> Result<Option<Arc<Entry>>, ApiError> {
    match written {
        Ok(entry) => Ok(Some(entry)),
        Err(WriteError::Conflict { .. }) => Ok(None),
        Err(error) => Err(ApiError::write_failed(&error)),
    }
}

/// What was created; `None` for a dry run.
fn created_target(at: &Collection, object: &Current) -> Option<Target> {
    match object {
        Current::Stored(entry) => key::target_of(&at.resource, &entry.key),
        Current::Made(_) => None,
    }
}

/// Gives the object a name from its `generateName`, if it has none of its own.
fn generate_name(meta: &mut ObjectMeta, rng: &dyn Rng) -> bool {
    let is_named = meta.name.as_ref().is_some_and(|name| !name.is_empty());
    let Some(base) = meta.generate_name.as_deref().filter(|base| !is_named && !base.is_empty()) else { return false };
    let end = (0..=NAME_BASE_MAX.min(base.len())).rev().find(|&end| base.is_char_boundary(end)).unwrap_or(0);
    meta.name = Some(format!("{}{}", &base[..end], random_suffix(rng)));
    true
}

/// The random end of a generated name.
pub(crate) fn random_suffix(rng: &dyn Rng) -> String {
    (0..NAME_SUFFIX_LENGTH).map(|_| random_character(rng)).collect()
}

fn random_character(rng: &dyn Rng) -> char {
    let index = usize::try_from(rng.below(NAME_CHARACTERS.len() as u64)).expect("below the number of characters");
    NAME_CHARACTERS[index].into()
}

/// A version 4 UUID.
pub(crate) fn new_uid(rng: &dyn Rng) -> String {
    let mut bytes = [0; 16];
    rng.fill(&mut bytes);
    uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
}

/// Object timestamps have no fraction.
pub(crate) fn whole_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).expect("a timestamp's seconds are a timestamp")
}
