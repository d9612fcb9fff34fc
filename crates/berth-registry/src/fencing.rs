//! Fenced writes: a write by the holder of a Lease is stored only while the Lease is held.
//!
//! The store compares the Lease in the commit of the write. The Lease's last known version is cached, so a write need
//! not read it first. If the Lease was renewed since, the commit fails and the version is read again.

use crate::{ApiError, Resource, failure::Failure, key, resource as resources, stored::ATTEMPTS};
use berth_api::{decode::Codec, fencing::FencingToken, k8s_openapi::api::coordination::v1::Lease};
use berth_store::{Entry, Key, Revision, Store, Unchanged, Write, WriteError};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The maximum number of cached Leases: more than a control plane has.
const KNOWN_MAX: usize = 64;

/// The version of each Lease at which it was held.
#[derive(Default)]
pub(crate) struct KnownLeases(Mutex<BTreeMap<Key, (Arc<FencingToken>, Revision)>>);

impl KnownLeases {
    /// Writes an object during the term of `fencing_token`.
    ///
    /// # Errors
    /// [`Failure::Raced`] if the object is not as expected, or a conflict if another holder has the Lease.
    pub(crate) async fn write_during(
        &self,
        store: &dyn Store,
        fencing_token: &Arc<FencingToken>,
        resource: &Resource,
        write: Write,
    ) -> Result<Arc<Entry>, Failure> {
        let lease = key::key_of(resources::of::<Lease>(), Some(&fencing_token.namespace), &fencing_token.name);
        let mut known = self.get(&lease, fencing_token);
        for _ in 0..ATTEMPTS {
            let revision = match known.take() {
                Some(revision) => revision,
                None => {
                    self.read_lease(store, &lease, fencing_token).await?.ok_or_else(|| not_held(resource, &write.key, fencing_token))?
                }
            };
            let only_while = Some(Unchanged { key: lease.clone(), revision });
            match store.write(Write { only_while, ..write.clone() }).await {
                // The holder renewed the Lease, or another one acquired it.
                Err(WriteError::Conflict { key, .. }) if key == lease => (),
                written => return written.map_err(failed),
            }
        }
        Err(not_held(resource, &write.key, fencing_token).into())
    }

    /// Returns the current version of the Lease if it is held as in `fencing_token`.
    async fn read_lease(&self, store: &dyn Store, lease: &Key, fencing_token: &Arc<FencingToken>) -> Result<Option<Revision>, ApiError> {
        let found = store.get(lease).await?;
        let lasts = |entry: &Arc<Entry>| Lease::decode_json(&entry.value).is_ok_and(|lease| fencing_token.lasts(&lease));
        let revision = found.filter(lasts).map(|entry| entry.mod_revision);
        if let Some(revision) = revision {
            self.set(lease, fencing_token, revision);
        }
        Ok(revision)
    }

    fn get(&self, lease: &Key, fencing_token: &FencingToken) -> Option<Revision> {
        self.lock().get(lease).filter(|(known, _)| **known == *fencing_token).map(|(_, revision)| *revision)
    }

    fn set(&self, lease: &Key, fencing_token: &Arc<FencingToken>, revision: Revision) {
        let mut known = self.lock();
        if KNOWN_MAX <= known.len() {
            known.clear();
        }
        known.insert(lease.clone(), (Arc::clone(fencing_token), revision));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, (Arc<FencingToken>, Revision)>> {
        // The map is consistent at any moment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn failed(error: WriteError) -> Failure {
    match error {
        WriteError::Conflict { .. } => Failure::Raced,
        error => ApiError::write_failed(&error).into(),
    }
}

/// The error does not name the current holder, whom the caller may not have the right to know.
fn not_held(resource: &Resource, key: &Key, fencing_token: &FencingToken) -> ApiError {
    let FencingToken { namespace, name, holder, transitions } = fencing_token;
    let why = format!("the lease {namespace}/{name} is not held by {holder:?} after {transitions} transitions: another may lead");
    let object = key.as_str().rsplit('/').next().unwrap_or_default();
    ApiError::conflict_about(resource, resource.plural(), object, &why)
}
