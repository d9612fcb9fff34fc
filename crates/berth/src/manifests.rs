//! Manifests from files, folders, the web and standard input.

use crate::fetch::{self, FetchError};
use berth_api::decode::parse_json;
use berth_identity::GroupVersionKind;
use serde_json::Value;
use std::{
    fs,
    io::Read,
    mem,
    path::{Path, PathBuf},
};

/// One object of a manifest, with its location.
#[derive(Debug)]
pub(crate) struct Document {
    /// The location for messages: the file's name, and the document's number if the file has several.
    pub(crate) place: String,
    /// It has `apiVersion`, `kind` and `metadata.name`. berth has checked nothing else.
    pub(crate) object: Value,
}

/// Kinds whose objects create pods that no forecast contains: group and kind.
const NOT_PLANNED: [(&str, &str); 1] = [("batch", "CronJob")];

impl Document {
    /// Whether it defines a kind.
    pub(crate) fn is_definition(&self) -> bool {
        self.object["kind"] == "CustomResourceDefinition"
            && self.object["apiVersion"].as_str().is_some_and(|version| version.starts_with("apiextensions.k8s.io/"))
    }

    /// `Job migrate`, if no forecast contains the object's pods.
    pub(crate) fn without_forecast(&self) -> Option<String> {
        let text = |pointer: &str| self.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let kind = GroupVersionKind::as_written(text("/apiVersion"), text("/kind"));
        NOT_PLANNED.contains(&(kind.group.as_str(), kind.kind.as_str())).then(|| format!("{} {}", kind.kind, text("/metadata/name")))
    }
}

/// Why a manifest cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ManifestError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{} contains no *.yaml, *.yml or *.json file{}", path.display(), below(*depth))]
    EmptyFolder { path: PathBuf, depth: Depth },
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error("{place} is neither YAML nor JSON: {message}")]
    Syntax { place: String, message: String },
    #[error("{place} is not a Kubernetes object: {missing} is missing{}", generator(place))]
    NoObject { place: String, missing: &'static str },
    #[error("{place} contains no objects{}", instead(place))]
    Empty { place: String },
}

/// The program that generates objects from a file without objects.
fn generator(place: &str) -> &'static str {
    match Path::new(place).file_name().and_then(|name| name.to_str()) {
        Some("kustomization.yaml" | "kustomization.yml") => "; pipe them: kubectl kustomize DIR | berth … -f -",
        Some("Chart.yaml" | "values.yaml") => "; pipe them: helm template DIR | berth … -f -",
        _ => "",
    }
}

/// A hint for the user.
fn instead(place: &str) -> &'static str {
    if place == STANDARD_INPUT { "; the command before the pipe printed none" } else { "" }
}

/// The name of `-` in messages.
const STANDARD_INPUT: &str = "standard input";

fn below(depth: Depth) -> &'static str {
    match depth {
        Depth::Folder => "; --recursive also reads its subfolders",
        Depth::Tree => ", and neither do its subfolders",
    }
}

/// The depth of a read of folders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Only the folder's own files.
    Folder,
    /// The files of all nested folders too.
    Tree,
}

impl Depth {
    /// The depth for the option `--recursive`.
    pub(crate) fn of(recursive: bool) -> Self {
        if recursive { Self::Tree } else { Self::Folder }
    }
}

/// Reads every document of `paths`, in order: files as given, the files of a folder by name, URLs, and `-` for standard input.
///
/// # Errors
/// A source cannot be read, or contains no objects: a pipeline that printed nothing must not count as a success.
pub(crate) async fn read(paths: &[PathBuf], depth: Depth) -> Result<Vec<Document>, ManifestError> {
    let mut documents = Vec::new();
    for path in paths {
        let found = read_one(path, depth).await?;
        if found.is_empty() {
            return Err(ManifestError::Empty { place: name(path) });
        }
        documents.extend(found);
    }
    Ok(documents)
}

/// Reads a cluster's objects in kubectl's output. A cluster may have none.
pub(crate) async fn read_cluster(paths: &[PathBuf]) -> Result<Vec<Document>, ManifestError> {
    let mut documents = Vec::new();
    for path in paths {
        documents.extend(read_one(path, Depth::Folder).await?);
    }
    Ok(documents)
}

async fn read_one(path: &Path, depth: Depth) -> Result<Vec<Document>, ManifestError> {
    let mut documents = Vec::new();
    for (place, text) in texts(path, depth).await? {
        documents.extend(parse(&place, &text)?);
    }
    Ok(documents)
}

fn name(path: &Path) -> String {
    if path == Path::new("-") { STANDARD_INPUT.to_owned() } else { path.display().to_string() }
}

async fn texts(path: &Path, depth: Depth) -> Result<Vec<(String, String)>, ManifestError> {
    if let Some(url) = path.to_str().filter(|text| fetch::is_url(text)) {
        return Ok(vec![(url.to_owned(), fetch::text(url).await?)]);
    }
    if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map_err(failed(path))?;
        return Ok(vec![(name(path), text)]);
    }
    if !path.is_dir() {
        return Ok(vec![(path.display().to_string(), fs::read_to_string(path).map_err(failed(path))?)]);
    }
    let files = files(path, depth)?;
    if files.is_empty() {
        return Err(ManifestError::EmptyFolder { path: path.to_path_buf(), depth });
    }
    files.iter().map(|file| Ok((file.display().to_string(), fs::read_to_string(file).map_err(failed(file))?))).collect()
}

fn failed(path: &Path) -> impl Fn(std::io::Error) -> ManifestError + use<> {
    let path = path.to_path_buf();
    move |source| ManifestError::Read { path: path.clone(), source }
}

/// The manifests of a folder in the order of their paths.
fn files(folder: &Path, depth: Depth) -> Result<Vec<PathBuf>, ManifestError> {
    let mut found = Vec::new();
    let entries = fs::read_dir(folder).map_err(failed(folder))?.collect::<Result<Vec<_>, _>>().map_err(failed(folder))?;
    for entry in entries {
        // Follows links to files only, so that the traversal ends.
        let is_folder = entry.file_type().map_err(failed(&entry.path()))?.is_dir();
        let path = entry.path();
        let is_manifest = path.extension().is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|known| extension == *known));
        if is_folder && depth == Depth::Tree {
            found.extend(files(&path, depth)?);
        } else if !is_folder && is_manifest {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn parse(place: &str, text: &str) -> Result<Vec<Document>, ManifestError> {
    let values = values(text).map_err(|error| ManifestError::Syntax { place: place.to_owned(), message: error.to_string() })?;
    let several = values.len() > 1;
    let mut documents = Vec::new();
    for (number, value) in values.into_iter().enumerate().filter(|(_, value)| !value.is_null()) {
        let place = if several { format!("{place} (document {})", number + 1) } else { place.to_owned() };
        flatten(place, value, &mut documents)?;
    }
    Ok(documents)
}

/// The documents of a text. JSON is valid YAML, but berth reads it as JSON, which is faster. The YAML reader reports errors with their
/// line, including those in JSON and duplicate keys.
fn values(text: &str) -> Result<Vec<Value>, serde_saphyr::Error> {
    if text.trim_start().starts_with('{')
        && let Ok(parsed) = parse_json(text.as_bytes())
        && parsed.duplicates.is_empty()
    {
        return Ok(vec![parsed.value]);
    }
    // The user has chosen the file. It may contain thousands of pods, and each node of the document takes at least one byte. The reader's
    // own limits restrict the expansion of aliases.
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_reader_input_bytes: None,
            max_events: 4 * (EVENTS + text.len()),
            max_nodes: EVENTS + text.len(),
            max_documents: EVENTS + text.len(),
            max_total_scalar_bytes: SCALAR_BYTES + text.len(),
        },
    };
    serde_saphyr::from_multiple_with_options(text, options)
}

/// The minimum limit of events, for the shortest files.
const EVENTS: usize = 1_000_000;
/// The minimum limit of scalars, in bytes.
const SCALAR_BYTES: usize = 64 << 20;

/// Replaces a `List` by its items, as kubectl does.
fn flatten(place: String, mut value: Value, documents: &mut Vec<Document>) -> Result<(), ManifestError> {
    if value["kind"] == "List"
        && let Some(items) = value.get_mut("items").and_then(Value::as_array_mut).map(mem::take)
    {
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
        check("{apiVersion: v1, kind: List, items: []}", "");
    }

    /// Files as kubectl prints them for thousands of pods.
    #[test]
    fn long_files_are_read_whole_in_both_forms() {
        let item = |n: usize| format!("{{apiVersion: v1, kind: A, metadata: {{name: a-{n}, finalizers: [a, b, c, d]}}}}");
        let yaml: String = (0..25_000).map(|n| format!("- {}\n", item(n))).collect();
        let yaml = format!("apiVersion: v1\nkind: List\nitems:\n{yaml}");
        let value: Value = values(&yaml).expect("YAML").remove(0);
        for text in [yaml, value.to_string()] {
            let documents = parse("m.yaml", &text).expect("a list");
            assert_eq!((documents.len(), &documents[24_999].object["metadata"]["name"]), (25_000, &Value::from("a-24999")));
        }
    }

    #[test]
    fn files_of_generators_name_what_makes_objects_of_them() {
        let message = |place: &str| parse(place, "{kind: A}").expect_err("no object").to_string();
        assert!(message("a/kustomization.yaml").ends_with("apiVersion is missing; pipe them: kubectl kustomize DIR | berth … -f -"));
        assert!(message("chart/Chart.yaml").ends_with("helm template DIR | berth … -f -"));
        assert!(message("a.yaml").ends_with("apiVersion is missing"));
    }

    #[test]
    fn what_is_no_object_is_named_with_its_place() {
        check("kind: [", "m.yaml is neither YAML nor JSON");
        check(r#"{"apiVersion": "v1", "kind": "A", "kind": "B", "metadata": {"name": "a"}}"#, "m.yaml is neither YAML nor JSON");
        check("{kind: A, metadata: {name: a}}", "m.yaml is not a Kubernetes object: apiVersion is missing");
        check("{apiVersion: v1, kind: A, metadata: {}}", "m.yaml is not a Kubernetes object: metadata.name is missing");
    }
}
