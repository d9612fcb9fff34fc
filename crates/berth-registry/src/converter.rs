//! The interface of what converts objects by webhooks.

use crate::ApiError;
use berth_kinds::ConversionWebhook;
use futures::future::BoxFuture;
use serde_json::Value;
use std::sync::{Arc, OnceLock};

/// Converts objects by a webhook, which may take long.
pub trait Converter: Send + Sync {
    /// Returns the objects in the version `to` (`example.com/v2`), in their order. Only labels and annotations of their
    /// metadata can differ.
    fn convert<'a>(
        &'a self,
        webhook: &'a ConversionWebhook,
        objects: Vec<Value>,
        to: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Value>, ApiError>>;
}

/// The converter of a registry, which is set once.
pub(crate) type SharedConverter = Arc<OnceLock<Arc<dyn Converter>>>;
