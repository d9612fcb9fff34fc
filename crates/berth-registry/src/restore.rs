//! Storing objects as another server has them.

use crate::{ApiError, Registry, key, stored};
use berth_api::Scope;
use berth_store::{Expected, Purpose, WriteError};
use serde_json::Value;

impl Registry {
    /// Stores an object as it is, with its uid, its status and its times: of a snapshot of another cluster, whose server has let it in. Nobody is asked
    /// about it, and nothing follows from it. Fields that this server does not know are left out, defaults that it knows are added.
    ///
    /// # Errors
    /// A kind that is not served, an object that cannot be read, one that is there already; the store's.
    pub async fn restore(&self, object: &Value) -> Result<(), ApiError> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let resources = self.resources();
        let Some(resource) = resources.by_kind(text("/apiVersion"), text("/kind")) else { return Err(ApiError::UnknownResource) };
        let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
        let unreadable = |why: String| ApiError::bad_request(format!("{} {name} cannot be read: {why}", resource.kind));
        let mut decoded = resource.rules.decode_stored(object.to_string().as_bytes()).map_err(|error| unreadable(error.to_string()))?;
        decoded.set_defaults();
        decoded.meta_mut().resource_version = None;
        let key = key::key_of(resource, (resource.scope == Scope::Namespaced).then_some(namespace), name);
        match self.put(resource, key, stored::encode(resource, &*decoded), Expected::Absent, Purpose::Upkeep).await {
            Ok(_) => Ok(()),
            Err(WriteError::Conflict { .. }) => Err(ApiError::already_exists(resource, name)),
            Err(error) => Err(ApiError::write_failed(&error)),
        }
    }
}
