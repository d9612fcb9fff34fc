//! The schema of a version as its author wrote it, for what people read of it.

use flate2::{Compression, read::DeflateDecoder, write::DeflateEncoder};
use serde_json::Value;
use std::{
    fmt,
    io::{Read as _, Write as _},
    sync::Arc,
};

/// A schema with its descriptions, compressed. Few clients read it, and descriptions are half of a schema. Cheap to clone.
#[derive(Clone)]
pub struct Source(Arc<[u8]>);

impl Source {
    /// Compresses a schema.
    #[must_use]
    pub fn new(schema: &Value) -> Self {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
        let json = serde_json::to_vec(schema).unwrap_or_default();
        let written = encoder.write_all(&json).and_then(|()| encoder.finish());
        Self(written.unwrap_or_default().into())
    }

    /// The schema.
    #[must_use]
    pub fn schema(&self) -> Value {
        let mut json = Vec::new();
        let read = DeflateDecoder::new(&*self.0).read_to_end(&mut json);
        read.ok().and_then(|_| serde_json::from_slice(&json).ok()).unwrap_or_default()
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({} bytes)", self.0.len())
    }
}
