//! Manifests that people really apply.

use crate::skipped::{Tool, skip};
use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// The YAML documents of a part of the folder of real manifests (`crds`, `charts`), each with the path of its file. The folder is the one that
/// `BERTH_REAL` names, else `../shared/real`. `None` where it is absent: the test then notes that it is skipped.
///
/// # Panics
/// A file of the folder cannot be read.
#[must_use]
pub fn real_manifests(part: &str) -> Option<Vec<(String, String)>> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/real");
    let folder = env::var_os("BERTH_REAL").map_or_else(beside, PathBuf::from).join(part);
    if !folder.is_dir() {
        skip(Tool::Manifests, &format!("BERTH_REAL names no folder with {part}, and {} is none", folder.display()));
        return None;
    }
    let mut documents = Vec::new();
    let mut open = vec![folder];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).expect("a folder of manifests");
            let mut inside: Vec<_> = entries.map(|entry| entry.expect("a manifest").path()).collect();
            inside.sort();
            open.extend(inside.into_iter().rev());
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            let text = format!("\n{}", fs::read_to_string(&path).expect("a manifest"));
            documents.extend(text.split("\n---").map(|document| (path.display().to_string(), document.to_owned())));
        }
    }
    Some(documents)
}
