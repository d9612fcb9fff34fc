//! Manifests from files, folders and standard input.

use serde_json::Value;
use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

/// One object of a manifest and where it stands.
#[derive(Debug)]
pub(crate) struct Document {
    /// For messages: the file's name, and the document's number where there are several.
    pub(crate) place: String,
    /// `apiVersion`, `kind`, `metadata.name` are there; nothing else is checked.
    pub(crate) object: Value,
}

/// Why a manifest cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ManifestError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{} holds no *.yaml, *.yml or *.json file", path.display())]
    EmptyFolder { path: PathBuf },
    #[error("{place} is neither YAML nor JSON: {message}")]
    Syntax { place: String, message: String },
    #[error("{place} is no Kubernetes object: {missing} is missing")]
    NoObject { place: String, missing: &'static str },
}

/// Reads every document of `paths`, in order: files as given, the files of a folder by name, `-` from standard input.
pub(crate) fn read(paths: &[PathBuf]) -> Result<Vec<Document>, ManifestError> {
    let mut documents = Vec::new();
    for path in paths {
        for (place, text) in texts(path)? {
            documents.extend(parse(&place, &text)?);
        }
    }
    Ok(documents)
}

fn texts(path: &Path) -> Result<Vec<(String, String)>, ManifestError> {
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |source| ManifestError::Read { path, source }
    };
    if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map_err(failed(path))?;
        return Ok(vec![("standard input".to_owned(), text)]);
    }
    if !path.is_dir() {
        return Ok(vec![(path.display().to_string(), fs::read_to_string(path).map_err(failed(path))?)]);
    }
    let entries = fs::read_dir(path).map_err(failed(path))?.collect::<Result<Vec<_>, _>>().map_err(failed(path))?;
    let is_manifest =
        |path: &PathBuf| path.extension().is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|known| extension == *known));
    let mut files: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).filter(is_manifest).collect();
    files.sort();
    if files.is_empty() {
        return Err(ManifestError::EmptyFolder { path: path.to_path_buf() });
    }
    files.iter().map(|file| Ok((file.display().to_string(), fs::read_to_string(file).map_err(failed(file))?))).collect()
}

fn parse(place: &str, text: &str) -> Result<Vec<Document>, ManifestError> {
    let values: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|error| ManifestError::Syntax { place: place.to_owned(), message: error.to_string() })?;
    let several = values.len() > 1;
    let mut documents = Vec::new();
    for (number, value) in values.into_iter().enumerate().filter(|(_, value)| !value.is_null()) {
        let place = if several { format!("{place} (document {})", number + 1) } else { place.to_owned() };
        flatten(place, value, &mut documents)?;
    }
    Ok(documents)
}

/// A `List` stands for its items, as with kubectl.
fn flatten(place: String, value: Value, documents: &mut Vec<Document>) -> Result<(), ManifestError> {
    if value["kind"] == "List" && value["items"].is_array() {
        let Value::Array(items) = value["items"].clone() else { unreachable!("checked the line above") };
        return items.into_iter().enumerate().try_for_each(|(index, item)| flatten(format!("{place} items[{index}]"), item, documents));
    }
    let wanted = [("apiVersion", "/apiVersion"), ("kind", "/kind"), ("metadata.name", "/metadata/name")];
    for (missing, pointer) in wanted {
        if value.pointer(pointer).and_then(Value::as_str).is_none_or(str::is_empty) {
            return Err(ManifestError::NoObject { place, missing });
        }
    }
    documents.push(Document { place, object: value });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let found = match parse("m.yaml", text) {
            Ok(documents) => documents
                .iter()
                .map(|d| format!("{}: {}", d.place, d.object["metadata"]["name"].as_str().unwrap_or("?")))
                .collect::<Vec<_>>()
                .join("; "),
            Err(error) => error.to_string(),
        };
        assert!(found.starts_with(expected), "{text:?} gave {found:?}");
    }

    #[test]
    fn documents_are_found_and_named() {
        check("{apiVersion: v1, kind: A, metadata: {name: a}}", "m.yaml: a");
        check(
            "apiVersion: v1\nkind: A\nmetadata: {name: a}\n---\n---\napiVersion: v1\nkind: B\nmetadata: {name: b}\n",
            "m.yaml (document 1): a; m.yaml (document 2): b",
        );
        check("{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: A, metadata: {name: a}}]}", "m.yaml items[0]: a");
        check("# nothing\n", "");
    }

    #[test]
    fn what_is_no_object_is_named_with_its_place() {
        check("kind: [", "m.yaml is neither YAML nor JSON");
        check("{kind: A, metadata: {name: a}}", "m.yaml is no Kubernetes object: apiVersion is missing");
        check("{apiVersion: v1, kind: A, metadata: {}}", "m.yaml is no Kubernetes object: metadata.name is missing");
    }
}
