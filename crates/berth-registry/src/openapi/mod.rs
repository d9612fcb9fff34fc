//! OpenAPI of the served resources, in the form that kubectl reads: for validation, client-side apply and
//! `kubectl explain`. v2 is derived from v3.
//!
//! Start with [`Resources::openapi`], which caches the documents until the resources change. v2
//! ([`Resources::openapi_v2`]) is for old clients. The documents are generated from the resources and the schemas of
//! kinds.

mod paths;
mod schemas;
mod v2;

use crate::{
    discovery::group_versions,
    document::{Document, OpenApi},
    resource::{Resource, Resources},
};
use berth_identity::GroupVersion;
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeMap,
    sync::{MutexGuard, PoisonError},
};

impl Resources {
    /// Returns the documents of OpenAPI v3. The first call builds them in some milliseconds.
    #[must_use]
    pub fn openapi(&self) -> &OpenApi {
        self.documents.openapi.get_or_init(|| made(self))
    }

    /// Returns `GET /openapi/v2`. The first call builds it in some milliseconds.
    #[must_use]
    pub fn openapi_v2(&self) -> &Document {
        self.documents.openapi_v2.get_or_init(|| Document::new(&v2::document(self)))
    }
}

fn made(resources: &Resources) -> OpenApi {
    let before = std::mem::take(&mut *built(resources));
    let mut now = BTreeMap::new();
    for version in group_versions(resources) {
        let of_version = resources.all().iter().filter(|resource| resource.gvk().group_version() == version);
        let numbers: Vec<u64> = of_version.map(|resource| resource.number()).collect();
        let document = match before.get(&version) {
            Some((same, document)) if *same == numbers => document.clone(),
            _ => Document::new(&build(resources, &version)),
        };
        now.insert(version, (numbers, document));
    }
    let by_path: BTreeMap<String, Document> = now.iter().map(|(version, (_, document))| (path_of(version), document.clone())).collect();
    *built(resources) = now;
    let entry = |(path, document): (&String, &Document)| {
        (path.clone(), json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={}", document.hash)}))
    };
    let index = Document::new(&json!({"paths": by_path.iter().map(entry).collect::<Map<_, _>>()}));
    OpenApi { index, by_path }
}

fn built(resources: &Resources) -> MutexGuard<'_, BTreeMap<GroupVersion, (Vec<u64>, Document)>> {
    // No code panics while it holds the lock.
    resources.documents.built.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Resource {
    /// Returns the name of the schema of its kind, and the schemas of all types that it contains, as OpenAPI publishes them.
    #[must_use]
    pub fn schemas(&self) -> (String, Map<String, Value>) {
        let mut schemas = schemas::Schemas::new();
        let (object, _) = schemas.resource(self);
        (schemas::name_of(&object), schemas.finish())
    }
}

fn path_of(version: &GroupVersion) -> String {
    let root = if version.group.is_empty() { "api" } else { "apis" };
    format!("{root}/{version}")
}

fn build(resources: &Resources, version: &GroupVersion) -> Value {
    let mut schemas = schemas::Schemas::new();
    let paths = paths::of(resources, version, &mut schemas);
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": format!("v{}.{}.0", crate::discovery::MAJOR, crate::discovery::MINOR)},
        "paths": paths,
        "components": {
            "schemas": Value::Object(schemas.finish()),
            "securitySchemes": {"BearerToken": {
                "type": "apiKey", "in": "header", "name": "authorization", "description": "Bearer token authentication",
            }},
        },
    })
}

#[cfg(test)]
mod tests;
