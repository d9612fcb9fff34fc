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
use std::collections::BTreeMap;

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
    let of_version = |version: GroupVersion| (path_of(&version), Document::new(&build(resources, &version)));
    let by_path: BTreeMap<String, Document> = group_versions(resources).into_iter().map(of_version).collect();
    let entry = |(path, document): (&String, &Document)| {
        (path.clone(), json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={}", document.hash)}))
    };
    let index = Document::new(&json!({"paths": by_path.iter().map(entry).collect::<Map<_, _>>()}));
    OpenApi { index, by_path }
}

/// Returns the name of a kind's schema, and the schemas of all types that it contains.
pub(crate) fn schemas_of(resource: &Resource) -> (String, Map<String, Value>) {
    let mut schemas = schemas::Schemas::new();
    let (object, _) = schemas.resource(resource);
    (schemas::name_of(&object), schemas.finish())
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
