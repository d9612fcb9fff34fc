//! The documents that cases begin with.

use crate::served::Kind;
use serde_json::Value;
use std::{fs, path::Path};

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
        add_folder(&mut documents, kinds, folder);
    }
    documents
}

fn add_folder(documents: &mut [Vec<Value>], kinds: &[Kind], folder: &Path) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            add_folder(documents, kinds, &path);
        } else if path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml") {
            add(documents, kinds, &fs::read_to_string(&path).unwrap_or_default());
        }
    }
}

/// Adds the documents of a file, and the items of lists. What is not YAML is left out.
fn add(documents: &mut [Vec<Value>], kinds: &[Kind], text: &str) {
    let texts = format!("\n{text}");
    for document in texts.split("\n---").filter(|text| text.len() < BYTES_MAX) {
        let Ok(document) = serde_saphyr::from_str::<Value>(document) else { continue };
        match document["items"].as_array() {
            Some(items) => items.iter().for_each(|item| add_one(documents, kinds, item)),
            None => add_one(documents, kinds, &document),
        }
    }
}

fn add_one(documents: &mut [Vec<Value>], kinds: &[Kind], document: &Value) {
    let is_of = |kind: &Kind| document["apiVersion"] == kind.api_version.as_str() && document["kind"] == kind.kind.as_str();
    if let Some(place) = kinds.iter().position(is_of)
        && document["metadata"].is_object()
    {
        documents[place].push(document.clone());
    }
}
