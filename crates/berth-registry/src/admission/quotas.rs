//! The quotas of namespaces, for charges.

use crate::{ApiError, resource, stored};
use berth_api::{
    Object,
    k8s_openapi::api::core::v1::ResourceQuota,
    quota::{Amounts, to_wire},
};
use berth_store::{Entry, Expected, Key, Purpose, Store, Write, WriteError};
use futures::lock::{Mutex, MutexGuard};
use std::sync::Arc;

/// The number of namespaces that can be charged concurrently.
const TURNS: usize = 64;

/// The stored quotas. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Quotas {
    store: Arc<dyn Store>,
    turns: Arc<Turns>,
}

/// Serializes the creates of one process for the quotas of a namespace, so that they do not conflict with each other.
struct Turns([Mutex<()>; TURNS]);

impl Turns {
    fn new() -> Self {
        Self(std::array::from_fn(|_| Mutex::default()))
    }

    fn of(&self, namespace: &str) -> &Mutex<()> {
        let hash = namespace.bytes().fold(0_usize, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
        &self.0[hash % TURNS]
    }
}

impl Quotas {
    pub(super) fn of(store: Arc<dyn Store>) -> Self {
        Self { store, turns: Arc::new(Turns::new()) }
    }

    /// Waits for all other charges of the namespace by this process.
    pub(super) async fn turn(&self, namespace: &str) -> MutexGuard<'_, ()> {
        self.turns.of(namespace).lock().await
    }

    /// Returns the current version of a quota.
    ///
    /// # Errors
    /// Errors of the store.
    pub(super) async fn newest(&self, key: &Key) -> Result<Option<Arc<Entry>>, ApiError> {
        Ok(self.store.get(key).await?)
    }

    /// Stores `after` as the usage of the quota, if the quota is unchanged since `entry`.
    ///
    /// # Errors
    /// Errors of the store.
    pub(super) async fn set_used(&self, entry: &Entry, mut quota: ResourceQuota, after: &Amounts) -> Result<(), WriteError> {
        quota.status.get_or_insert_default().used.get_or_insert_default().extend(to_wire(after));
        let value = quota.encode().into();
        let write = Write::put(entry.key.clone(), value, Expected::At(entry.mod_revision), Purpose::Upkeep);
        self.store.write(write).await.map(drop)
    }
}

/// Returns the quota of an entry.
///
/// # Errors
/// The entry cannot be decoded.
pub(super) fn load(entry: &Entry) -> Result<ResourceQuota, ApiError> {
    let object = stored::load(resource::of::<ResourceQuota>(), entry)?;
    object.into_any().downcast().map(|quota| *quota).map_err(|_| ApiError::UnknownResource)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_a_namespace_take_turns_at_one() {
        let turns = Turns::new();
        assert!(std::ptr::eq(turns.of("team"), turns.of("team")));
        assert!(!std::ptr::eq(turns.of("a"), turns.of("b")), "others do not wait");
    }
}
