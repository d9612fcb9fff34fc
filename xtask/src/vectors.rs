//! Compares the repository's copy of the test vectors with the one that other implementations use.

use crate::run::{Outcome, root};
use std::{collections::BTreeMap, fs, path::Path};

/// The folder of the vectors that several implementations share.
const BESIDE: &str = "../shared/vectors";

/// Compares with the folder beside the repository, if it exists. Most clones have none.
pub(crate) fn compare_if_there() -> Outcome {
    let beside = root().join(BESIDE);
    if beside.is_dir() { compare(&beside) } else { Ok(()) }
}

/// Compares the cases in `testdata/` with those in `shared`.
pub(crate) fn compare(shared: &Path) -> Outcome {
    let mut faults = differences(&root().join("testdata/vectors"), shared)?;
    faults.extend(differences(&root().join("testdata/wire"), &shared.join("wire"))?);
    if faults.is_empty() { Ok(()) } else { Err(format!("testdata/ differs from {}:\n  {}", shared.display(), faults.join("\n  "))) }
}

fn differences(ours: &Path, theirs: &Path) -> Result<Vec<String>, String> {
    let (ours, theirs) = (cases(ours)?, cases(theirs)?);
    let missing = theirs.keys().filter(|name| !ours.contains_key(*name)).map(|name| format!("{name} is missing"));
    let differing =
        ours.iter().filter(|(name, text)| theirs.get(*name).is_none_or(|other| other != *text)).map(|(name, _)| format!("{name} differs"));
    Ok(missing.chain(differing).collect())
}

/// The files of a folder, without those that describe them.
fn cases(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut files = BTreeMap::new();
    let is_case = |path: &Path| path.is_file() && path.extension().is_none_or(|ending| ending != "md");
    for entry in entries.filter_map(Result::ok).filter(|entry| is_case(&entry.path())) {
        let text = fs::read(entry.path()).map_err(|error| format!("{}: {error}", entry.path().display()))?;
        files.insert(entry.file_name().to_string_lossy().into_owned(), text);
    }
    Ok(files)
}
