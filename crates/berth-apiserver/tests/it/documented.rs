//! Every test that the documentation names as a proof exists.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Returns the name of the function that a line begins, if any.
fn function(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("fn ")?;
    rest.split(['(', '<']).next()
}

#[test]
fn every_test_that_the_security_page_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    sources(&root.join("crates"), &mut files);
    let texts: Vec<String> = files.iter().map(|path| fs::read_to_string(path).expect("text")).collect();
    let functions: BTreeSet<&str> = texts.iter().flat_map(|text| text.lines().filter_map(function)).collect();

    let page = fs::read_to_string(root.join("docs/security.md")).expect("the page");
    let table = |title: &str| {
        let section = page.split(title).nth(1).expect("the table").split("\n## ").next().unwrap_or_default();
        section.lines().filter(|line| line.starts_with("| ")).skip(1)
    };
    let rows = ["## Classes of attack", "## What the disk may do"].into_iter().flat_map(table);
    let mut named = 0;
    for row in rows {
        let last = row.trim_end_matches([' ', '|']).rsplit_once('|').expect("columns").1;
        for name in last.split('`').skip(1).step_by(2) {
            named += 1;
            assert!(functions.contains(name), "{name} in: {row}");
        }
    }
    assert!(30 < named, "the table is read: {named}");
}
