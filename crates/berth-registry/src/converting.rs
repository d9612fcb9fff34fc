//! Converts objects of kinds whose versions a webhook converts. All other conversions are synchronous, and part of the
//! kind.
//!
//! An entry is converted right after it is read, before anything else sees it: it then has the version of the request,
//! and the rest of the registry treats it as any other. A new object is converted right before it is stored.

use crate::{AdmissionRequest, ApiError, BoxObject, Registry, Resource, storage::Storage, stored};
use berth_api::{Object, decode::from_json};
use berth_kinds::ConversionWebhook;
use berth_store::{Entry, Event};
use bytes::Bytes;
use serde_json::Value;
use std::sync::{Arc, OnceLock};

/// The maximum number of objects that a webhook converts at once.
const OBJECTS_MAX: usize = 500;
/// The maximum size of these objects in bytes, but for a single larger one. The answer has about the same size.
const BYTES_MAX: usize = 1 << 20;

impl Registry {
    /// Returns what [`AdmissionRequest::document`] returns, also if a webhook converts the object.
    ///
    /// # Errors
    /// The conversion fails.
    pub async fn document_of(&self, request: &AdmissionRequest<'_>, object: &dyn Object, version: &Resource) -> Result<String, ApiError> {
        match version.conversion_webhook().filter(|_| !request.is_own(version)) {
            None => request.document(object, version),
            Some(webhook) => {
                let own: Value = json(&request.document(object, request.resource)?)?;
                Ok(self.storage.by_webhook(webhook, vec![own], version.api_version()).await?.remove(0).to_string())
            }
        }
    }

    /// Reads what [`AdmissionRequest::read`] reads, also if a webhook converts the object.
    ///
    /// # Errors
    /// It is no object of the kind, or the conversion fails.
    pub async fn object_of(&self, request: &AdmissionRequest<'_>, document: Value, version: &Resource) -> Result<BoxObject, ApiError> {
        match version.conversion_webhook().filter(|_| !request.is_own(version)) {
            None => request.read(document, version),
            Some(webhook) => {
                let own = self.storage.by_webhook(webhook, vec![document], request.resource.api_version()).await?.remove(0);
                request.read(own, request.resource)
            }
        }
    }
}

fn json(text: &str) -> Result<Value, ApiError> {
    serde_json::from_str(text).map_err(|error| ApiError::Internal { message: error.to_string() })
}

impl Storage {
    /// Returns the entries in the version of `resource`, if a webhook converts them. Otherwise they are unchanged.
    ///
    /// # Errors
    /// The conversion fails.
    pub(crate) async fn converted(&self, resource: &Resource, entries: Vec<Arc<Entry>>) -> Result<Vec<Arc<Entry>>, ApiError> {
        match resource.conversion_webhook() {
            None => Ok(entries),
            // Boxed, so that the futures of other reads stay small.
            Some(webhook) => Box::pin(self.converted_by(webhook, resource, entries)).await,
        }
    }

    /// Does the same as [`Storage::converted`] for one entry.
    pub(crate) async fn converted_one(&self, resource: &Resource, entry: Arc<Entry>) -> Result<Arc<Entry>, ApiError> {
        if resource.conversion_webhook().is_none() {
            return Ok(entry);
        }
        let mut converted = self.converted(resource, vec![entry]).await?;
        converted.pop().ok_or_else(|| ApiError::Internal { message: "one object is converted to none".to_owned() })
    }

    /// Does the same as [`Storage::converted`] for changes.
    pub(crate) async fn converted_events(&self, resource: &Resource, events: Vec<Arc<Event>>) -> Result<Vec<Arc<Event>>, ApiError> {
        let entries = events.iter().flat_map(|event| [Some(&event.entry), event.previous.as_ref()]).flatten().cloned().collect();
        let mut entries = self.converted(resource, entries).await?.into_iter();
        let mut next = || entries.next().ok_or_else(|| ApiError::Internal { message: "an object is not converted".to_owned() });
        let mut converted = Vec::with_capacity(events.len());
        for event in events {
            let (entry, previous) = (next()?, event.previous.as_ref().map(|_| next()).transpose()?);
            converted.push(Arc::new(Event { kind: event.kind, entry, previous, encoded: OnceLock::new() }));
        }
        Ok(converted)
    }

    /// Returns the stored form of an object.
    ///
    /// # Errors
    /// The conversion fails.
    pub(crate) async fn encoded(&self, resource: &Resource, object: &dyn Object) -> Result<Bytes, ApiError> {
        let to = resource.stored_api_version();
        let Some(webhook) = resource.conversion_webhook().filter(|_| to != resource.api_version()) else {
            return stored::encode(resource, object);
        };
        let document = object.to_value();
        Ok(Box::pin(self.by_webhook(webhook, vec![document], to)).await?.remove(0).to_string().into_bytes().into())
    }

    /// Returns an object's JSON in another version of its resource.
    ///
    /// # Errors
    /// The conversion fails.
    pub(crate) async fn by_webhook(&self, webhook: &ConversionWebhook, objects: Vec<Value>, to: &str) -> Result<Vec<Value>, ApiError> {
        let Some(converter) = self.converter.get() else {
            return Err(ApiError::NotSupported {
                message: "a webhook converts objects of this kind, and this server calls no webhooks".to_owned(),
            });
        };
        let count = objects.len();
        let converted = converter.convert(webhook, objects, to).await?;
        if converted.len() == count { Ok(converted) } else { Err(ApiError::Internal { message: "an object is not converted".to_owned() }) }
    }

    async fn converted_by(
        &self,
        webhook: &ConversionWebhook,
        resource: &Resource,
        mut entries: Vec<Arc<Entry>>,
    ) -> Result<Vec<Arc<Entry>>, ApiError> {
        let mut foreign: Vec<(usize, Value, usize)> = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            let document: Value = from_json(&entry.value).map_err(|error| stored::unreadable(entry, &error))?;
            if document["apiVersion"] != resource.api_version() {
                foreign.push((index, document, entry.value.len()));
            }
        }
        let mut foreign = foreign.into_iter().peekable();
        while foreign.peek().is_some() {
            let (mut places, mut objects, mut bytes) = (Vec::new(), Vec::new(), 0);
            while let Some((index, document, size)) =
                foreign.next_if(|(_, _, size)| objects.is_empty() || (objects.len() < OBJECTS_MAX && bytes + size <= BYTES_MAX))
            {
                places.push(index);
                objects.push(document);
                bytes += size;
            }
            let converted = self.by_webhook(webhook, objects, resource.api_version()).await?;
            for (index, document) in places.into_iter().zip(converted) {
                let value = document.to_string().into_bytes().into();
                entries[index] = stored::with_value(resource, &entries[index], value, None);
            }
        }
        Ok(entries)
    }
}
