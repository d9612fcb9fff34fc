//! The documents that cases begin with.

use crate::served::Kind;
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The documents of this tool: each served kind at least once.
const BUILT_IN: &str = include_str!("documents.yaml");

/// A document that is larger is left out: its differences are hard to read.
const BYTES_MAX: usize = 64 << 10;

/// The built-in documents and those of a folder that are of these kinds, by kind.
pub(crate) fn read(kinds: &[Kind], folder: Option<&Path>) -> Vec<Vec<Value>> {
    let mut documents = vec![Vec::new(); kinds.len()];
    add(&mut documents, kinds, BUILT_IN);
    for (kind, documents) in kinds.iter().zip(&documents) {
        assert!(!documents.is_empty(), "documents.yaml has no {} of {}", kind.kind, kind.api_version);
    }
    if let Some(folder) = folder {
        files(folder).iter().for_each(|path| add(&mut documents, kinds, &fs::read_to_string(path).unwrap_or_default()));
    }
    documents
}

/// Every object of a file or folder, whatever its size.
pub(crate) fn all(path: &Path) -> Vec<Value> {
    let objects = files(path).into_iter().flat_map(|path| objects(&fs::read_to_string(path).unwrap_or_default(), usize::MAX));
    objects.filter(|object| object["kind"].is_string() && object["metadata"].is_object()).collect()
}

/// The YAML files at a path, sorted.
fn files(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() {
        return vec![path.to_owned()].into_iter().filter(|path| is_yaml(path)).collect();
    }
    let entries = fs::read_dir(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut paths: Vec<_> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().flat_map(|path| files(path)).collect()
}

fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|known| extension == *known))
}

/// The documents of a text, and the items of lists. What is not YAML is left out.
fn objects(text: &str, bytes_max: usize) -> Vec<Value> {
    let texts = format!("\n{text}");
    let documents =
        texts.split("\n---").filter(|text| text.len() < bytes_max).filter_map(|text| serde_saphyr::from_str::<Value>(text).ok());
    let flat = |document: Value| match document["items"].as_array() {
        Some(items) => items.clone(),
        None => vec![document],
    };
    documents.flat_map(flat).collect()
}

fn add(documents: &mut [Vec<Value>], kinds: &[Kind], text: &str) {
    objects(text, BYTES_MAX).iter().for_each(|object| add_one(documents, kinds, object));
}

fn add_one(documents: &mut [Vec<Value>], kinds: &[Kind], document: &Value) {
    let is_of = |kind: &Kind| document["apiVersion"] == kind.api_version.as_str() && document["kind"] == kind.kind.as_str();
    if let Some(place) = kinds.iter().position(is_of)
        && document["metadata"].is_object()
    {
        documents[place].push(document.clone());
    }
}
