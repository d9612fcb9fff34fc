//! The members of the workspace, as `cargo metadata` lists them, and the texts in it.

use crate::run::{output, root};
use serde::{Deserialize, Deserializer};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// A member.
#[derive(Clone, Default, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// Relative to the root: `crates/berth-api`.
    #[serde(rename = "manifest_path", deserialize_with = "folder")]
    pub(crate) folder: String,
    /// The first source file of each target, relative to the root.
    #[serde(rename = "targets", deserialize_with = "roots")]
    pub(crate) roots: Vec<String>,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) features: BTreeMap<String, Vec<String>>,
}

#[derive(Clone, Default, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) kind: Option<Kind>,
    pub(crate) features: Vec<String>,
    /// Whether a feature of the package adds it.
    #[serde(rename = "optional")]
    pub(crate) is_optional: bool,
}

/// The kind of a dependency that is not part of the product.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Dev,
    Build,
}

/// All members.
pub(crate) fn packages() -> Result<Vec<Package>, String> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    let metadata = output("cargo", &["metadata", "--format-version=1", "--no-deps", "--offline"])?;
    serde_json::from_str(&metadata).map(|Metadata { packages }| packages).map_err(|error| format!("cargo metadata: {error}"))
}

/// The handwritten sources, documents, manifests and protos, by their paths from the root.
pub(crate) fn texts() -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    read_files(&root(), &mut files);
    files
}

/// Reads a folder, without builds and installed tools.
fn read_files(folder: &Path, files: &mut BTreeMap<String, String>) {
    for path in fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if !name.starts_with('.') && !["target", "node_modules"].contains(&&*name) {
                read_files(&path, files);
            }
        } else if [".rs", ".md", ".toml", ".proto"].iter().any(|ending| name.ends_with(ending)) {
            files.insert(relative(&path), fs::read_to_string(&path).expect("texts are UTF-8"));
        }
    }
}

/// The path from the root.
pub(crate) fn relative(path: &Path) -> String {
    path.strip_prefix(root()).expect("it is in the repository").to_string_lossy().into_owned()
}

fn folder<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let manifest = PathBuf::deserialize(from)?;
    Ok(relative(manifest.parent().expect("a manifest is in a folder")))
}

fn roots<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    struct Target {
        src_path: PathBuf,
    }
    Ok(Vec::<Target>::deserialize(from)?.iter().map(|target| relative(&target.src_path)).collect())
}
