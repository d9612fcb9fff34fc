//! OpenAPI of what is served, in the shape that kubectl reads: validation, client-side apply and `kubectl explain`. v3, and v2 made of it.
//!
//! Start with [`index`] and [`document`]; [`v2`] is for old clients. Documents are made at the first call, from the resource table and the types' own schemas.

mod paths;
mod schemas;
mod v2;

use crate::{discovery::group_versions, resource::Resource};
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::OnceLock,
};

/// A document: of one group and version, or of all (v2).
#[derive(Debug)]
pub struct Document {
    /// Changes with the document; for `?hash=` and ETag.
    pub hash: String,
    /// The document, encoded.
    pub json: Vec<u8>,
}

/// `GET /openapi/v3`.
#[must_use]
pub fn index() -> Value {
    let entry = |(path, document): (&String, &Document)| {
        (path.clone(), json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={}", document.hash)}))
    };
    json!({"paths": documents().iter().map(entry).collect::<Map<_, _>>()})
}

/// `GET /openapi/v3/{path}`, where `path` is `api/v1`, `apis/apps/v1`, …; `None` if nothing is served there.
#[must_use]
pub fn document(path: &str) -> Option<&'static Document> {
    documents().get(path)
}

/// The name of a kind's schema, and the schemas of all that it is made of.
pub(crate) fn schemas_of(resource: &Resource) -> (String, Map<String, Value>) {
    let mut schemas = schemas::Schemas::new();
    let (object, _) = schemas.resource(resource);
    (schemas::name_of(&object), schemas.finish())
}

/// `GET /openapi/v2`. Made at the first call.
#[must_use]
pub fn v2() -> &'static Document {
    static DOCUMENT: OnceLock<Document> = OnceLock::new();
    DOCUMENT.get_or_init(|| encode(&v2::document()))
}

/// The documents by path. Making them takes some milliseconds, once in a process.
fn documents() -> &'static BTreeMap<String, Document> {
    static DOCUMENTS: OnceLock<BTreeMap<String, Document>> = OnceLock::new();
    DOCUMENTS.get_or_init(|| {
        group_versions().into_iter().map(|(group, version)| (path_of(group, version), encode(&build(group, version)))).collect()
    })
}

fn path_of(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

fn encode(document: &Value) -> Document {
    let json = document.to_string().into_bytes();
    let mut hasher = DefaultHasher::new();
    json.hash(&mut hasher);
    Document { hash: format!("{:016X}", hasher.finish()), json }
}

fn build(group: &str, version: &str) -> Value {
    let mut schemas = schemas::Schemas::new();
    let paths = paths::of(group, version, &mut schemas);
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
