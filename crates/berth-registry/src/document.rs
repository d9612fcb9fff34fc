//! A document about the API, made once for all who ask.

use bytes::Bytes;
use serde_json::Value;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A document, encoded.
#[derive(Clone, Debug)]
pub struct Document {
    /// Changes with the document; for `?hash=` and ETag.
    pub hash: String,
    /// Its JSON.
    pub json: Bytes,
}

impl Document {
    pub(crate) fn new(document: &Value) -> Self {
        let json = document.to_string();
        let mut hasher = DefaultHasher::new();
        json.as_bytes().hash(&mut hasher);
        Self { hash: format!("{:016X}", hasher.finish()), json: json.into() }
    }
}
