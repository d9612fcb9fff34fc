//! Documents about the API, which are built once for all requests.

use berth_identity::GroupVersion;
use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, OnceLock},
};

/// An encoded document.
#[derive(Clone, Debug)]
pub struct Document {
    /// Changes with the document. For `?hash=` and ETag.
    pub hash: String,
    /// Its JSON.
    pub json: Bytes,
}

impl Document {
    pub(crate) fn new(document: &Value) -> Self {
        Self::of(document.to_string())
    }

    /// A document of discovery, which ends with a line break.
    pub(crate) fn line(document: &impl Serialize) -> Self {
        Self::of(serde_json::to_string(document).expect("documents have string keys only") + "\n")
    }

    fn of(json: String) -> Self {
        let mut hasher = DefaultHasher::new();
        json.as_bytes().hash(&mut hasher);
        Self { hash: format!("{:016X}", hasher.finish()), json: json.into() }
    }
}

/// The documents of OpenAPI v3 that are built, each with the numbers of its resources. Tables share them, because a new
/// definition changes one document of many.
pub(crate) type BuiltOpenApi = Arc<Mutex<BTreeMap<GroupVersion, (Vec<u64>, Document)>>>;

/// The documents about the served resources. Each is built on its first request.
#[derive(Default)]
pub(crate) struct Documents {
    pub(crate) built: BuiltOpenApi,
    pub(crate) discovery: OnceLock<Discovery>,
    pub(crate) openapi: OnceLock<OpenApi>,
    pub(crate) openapi_v2: OnceLock<Document>,
}

/// The documents of discovery that change with the served resources.
#[derive(Debug)]
pub struct Discovery {
    /// `GET /`.
    pub root: Document,
    /// `GET /apis` without aggregation.
    pub groups: Document,
    /// `GET /api` as `APIGroupDiscoveryList`.
    pub aggregated_core: Document,
    /// `GET /apis` as `APIGroupDiscoveryList`.
    pub aggregated_groups: Document,
    /// By group name, without core.
    pub(crate) group: BTreeMap<String, Document>,
    /// By group and version: `apps/v1`.
    pub(crate) resource_lists: BTreeMap<GroupVersion, Document>,
}

impl Discovery {
    /// Returns `GET /apis/{group}`. `None` for an unknown group, and for core, which has no such document.
    #[must_use]
    pub fn group(&self, group: &str) -> Option<&Document> {
        self.group.get(group)
    }

    /// Returns `GET /api/v1` (group empty) and `GET /apis/{group}/{version}`, or `None` if it is unknown.
    #[must_use]
    pub fn resource_list(&self, version: &GroupVersion) -> Option<&Document> {
        self.resource_lists.get(version)
    }
}

/// The documents of OpenAPI v3.
#[derive(Debug)]
pub struct OpenApi {
    /// `GET /openapi/v3`.
    pub index: Document,
    pub(crate) by_path: BTreeMap<String, Document>,
}

impl OpenApi {
    /// Returns `GET /openapi/v3/{path}`, where `path` is `api/v1`, `apis/apps/v1`, …. `None` if it is unknown.
    #[must_use]
    pub fn document(&self, path: &str) -> Option<&Document> {
        self.by_path.get(path)
    }

    /// Returns the paths of all documents.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.by_path.keys().map(String::as_str)
    }
}
