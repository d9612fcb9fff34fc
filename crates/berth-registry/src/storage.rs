//! Reads and writes stored objects, without the rules of the API.

use crate::{
    ApiError, Resource, Target,
    checks::Mode,
    converter::SharedConverter,
    failure::Failure,
    fencing::{self, KnownLeases},
    fresh::{Fresh, SharedObject},
    stored::{self, Stored},
};
use berth_api::{Object, fencing::FencingToken};
use berth_store::{Entry, Expected, Key, Purpose, Store, Write, env::Clock};
use std::sync::Arc;

/// Objects in a store. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Storage {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) fresh: Arc<Fresh>,
    /// Fences writes of objects. `None`: no fencing.
    pub(crate) fencing_token: Option<Arc<FencingToken>>,
    leases: Arc<KnownLeases>,
    /// Converts objects of kinds with a conversion webhook.
    pub(crate) converter: SharedConverter,
}

impl Storage {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock, fresh: Arc::default(), fencing_token: None, leases: Arc::default(), converter: Arc::default() }
    }

    /// Stores an object in its final form.
    ///
    /// # Errors
    /// As [`Storage::write`].
    pub(crate) async fn put(
        &self,
        resource: &Resource,
        key: Key,
        object: &SharedObject,
        expected: Expected,
        purpose: Purpose,
    ) -> Result<Arc<Entry>, Failure> {
        let expires_at = resource.expires_at(self.clock.now());
        let value = self.encoded(resource, &**object).await?;
        let header = stored::header_of(resource, &**object, &value);
        let entry = self.write(resource, Write { expires_at, header, ..Write::put(key, value, expected, purpose) }).await?;
        if resource.is_built_in() && Fresh::takes(resource, &entry, object) {
            debug_assert!(
                stored::load(resource, &entry).is_ok_and(|read| read.same_as(&**object)),
                "{} is read as it was written",
                entry.key
            );
            self.fresh.put(&entry, object);
        }
        Ok(entry)
    }

    /// Writes an object.
    ///
    /// # Errors
    /// [`Failure::Raced`] if the object is not as expected.
    pub(crate) async fn write(&self, resource: &Resource, write: Write) -> Result<Arc<Entry>, Failure> {
        match &self.fencing_token {
            None => self.store.write(write).await.map_err(fencing::failed),
            // Boxed, so that the futures of other writes stay small.
            Some(fencing_token) => Box::pin(self.leases.write_during(&*self.store, fencing_token, resource, write)).await,
        }
    }

    /// Returns the entry of the target's object, converted if a webhook does that.
    pub(crate) async fn fetch(&self, target: &Target) -> Result<Arc<Entry>, ApiError> {
        let found = self.store.get(&target.key()).await?.ok_or_else(|| ApiError::not_found(&target.resource, &target.name))?;
        self.converted_one(&target.resource, found).await
    }

    /// Returns the target's object, decoded.
    pub(crate) async fn load(&self, target: &Target) -> Result<Stored, ApiError> {
        let entry = self.fetch(target).await?;
        let object = self.object_of(&target.resource, &entry)?;
        Ok(Stored { entry, object, may_be_old: false })
    }

    /// Returns the object that a write is based on. The first attempt of a compare-and-set uses the last known version
    /// without a read. If that is current, it saves a round trip to a remote store. If the attempt writes nothing, for
    /// any reason, the next attempt reads the current version and decides.
    pub(crate) async fn load_to_write(&self, target: &Target, mode: Mode, attempt: u32) -> Result<Stored, ApiError> {
        let is_known = attempt == 0 && mode == Mode::Real && target.resource.conversion_webhook().is_none();
        let known = if is_known { self.store.known(&target.key()) } else { None };
        let known =
            known.and_then(|entry| Some(Stored { object: self.object_of(&target.resource, &entry).ok()?, entry, may_be_old: true }));
        match known {
            Some(known) => Ok(known),
            None => self.load(target).await,
        }
    }

    /// Returns the object of an entry, with its defaults, without a resource version.
    pub(crate) fn object_of(&self, resource: &Resource, entry: &Entry) -> Result<SharedObject, ApiError> {
        let is_of_it = |object: &Arc<dyn Object>| object.kind() == resource.kind() && object.api_version() == resource.api_version();
        match self.fresh.get(entry).filter(is_of_it) {
            Some(object) => Ok(object.into()),
            None => stored::load(resource, entry).map(SharedObject::from),
        }
    }
}
