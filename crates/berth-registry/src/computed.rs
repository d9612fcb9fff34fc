//! Objects that are computed for each request, and never stored.

use crate::{ApiError, Collection, List, ListOptions, Registry, filter::Filter, header, key};
use berth_kinds::encode;
use berth_store::{Entry, Revision};
use serde_json::Value;
use std::sync::Arc;

impl Registry {
    /// Returns the computed objects that the selectors choose, as a list in their order. A limit has no effect.
    ///
    /// # Errors
    /// Invalid selectors.
    pub fn list_of_computed(at: &Collection, options: &ListOptions, objects: &[Value]) -> Result<List, ApiError> {
        let filter = Filter::parse(&at.resource, &options.label_selector, &options.field_selector)?;
        let entries = objects.iter().map(|object| Arc::new(entry(at, object)));
        let items = entries.filter(|entry| filter.matches(entry)).collect();
        Ok(List { items, revision: Revision(0), continue_token: String::new(), remaining: None })
    }
}

fn entry(at: &Collection, object: &Value) -> Entry {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let value = bytes::Bytes::from(encode(object));
    let header = header::read(&at.resource.selectable_fields, &value);
    Entry {
        key: key::key_of(&at.resource, at.namespace.as_deref(), name),
        value,
        header,
        create_revision: Revision(0),
        mod_revision: Revision(0),
    }
}
