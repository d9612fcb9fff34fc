//! The repository's copy of the shared test vectors.

use crate::run::{Outcome, root, say};
use std::{collections::BTreeMap, fs, path::Path};

/// Compares `testdata/` with `shared`; says so and succeeds where `shared` is not there.
pub(crate) fn compare(shared: &Path) -> Outcome {
    let shared = root().join(shared);
    if !shared.is_dir() {
        say(&format!("vectors: {} is not here; testdata/ stands alone", shared.display()));
        return Ok(());
    }
    let mut faults = differences(&root().join("testdata/vectors"), &shared)?;
    faults.extend(differences(&root().join("testdata/wire"), &shared.join("wire"))?);
    if faults.is_empty() { Ok(()) } else { Err(format!("testdata/ differs from {}:\n  {}", shared.display(), faults.join("\n  "))) }
}

fn differences(ours: &Path, theirs: &Path) -> Result<Vec<String>, String> {
    let (ours, theirs) = (files(ours)?, files(theirs)?);
    let missing = theirs.keys().filter(|name| !ours.contains_key(*name)).map(|name| format!("{name} is missing"));
    let differing =
        ours.iter().filter(|(name, text)| theirs.get(*name).is_none_or(|other| other != *text)).map(|(name, _)| format!("{name} differs"));
    Ok(missing.chain(differing).collect())
}

fn files(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut files = BTreeMap::new();
    for entry in entries.filter_map(Result::ok).filter(|entry| entry.path().is_file()) {
        let text = fs::read(entry.path()).map_err(|error| format!("{}: {error}", entry.path().display()))?;
        files.insert(entry.file_name().to_string_lossy().into_owned(), text);
    }
    Ok(files)
}
