//! The decision records: numbers in files and titles, none missing, and an index with every title.

use std::collections::BTreeMap;

const FOLDER: &str = "docs/decisions/";

/// Numbers of decisions that are being written. Remove a number when its file exists.
const RESERVED: &[u32] = &[];

/// The faults of the records. `files` contains all documents by path.
pub(crate) fn faults(files: &BTreeMap<String, String>) -> Vec<String> {
    let names = files.keys().filter_map(|path| path.strip_prefix(FOLDER));
    let records = names.filter(|name| *name != "README.md" && name.ends_with(".md") && !name.contains('/'));
    let index = files.get(&format!("{FOLDER}README.md")).map_or("", String::as_str);
    let mut faults = Vec::new();
    let mut numbers = BTreeMap::new();
    for name in records {
        let title = files[&format!("{FOLDER}{name}")].lines().next().and_then(|line| line.strip_prefix("# ")).unwrap_or_default();
        let Some(number) = number(name) else {
            faults.push(format!("{FOLDER}{name}: name it NNNN-title.md"));
            continue;
        };
        if title.strip_prefix(&format!("{number}. ")).is_none_or(|words| words.trim().is_empty()) {
            faults.push(format!("{FOLDER}{name}:1: begin with `# {number}. ` and a title"));
        }
        if !index.lines().any(|line| line == format!("- [{title}]({name})")) {
            faults.push(format!("{FOLDER}README.md: add the line `- [{title}]({name})`"));
        }
        if let Some(other) = numbers.insert(number, name) {
            faults.push(format!("{FOLDER}{name}: {other} has this number too"));
        }
        if RESERVED.contains(&number) {
            faults.push(format!("{FOLDER}{name}: remove {number} from RESERVED in xtask/src/decisions.rs"));
        }
    }
    let highest = numbers.keys().next_back().copied().unwrap_or_default();
    let missing = (1..highest).filter(|number| !numbers.contains_key(number) && !RESERVED.contains(number));
    faults.extend(missing.map(|number| format!("{FOLDER}: decision {number} is missing")));
    faults
}

/// 7 of `0007-title.md`.
fn number(name: &str) -> Option<u32> {
    let (digits, _) = name.split_once('-')?;
    if digits.len() == 4 { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The faults of records by name and title, with an index of all.
    fn faults_of(records: &[(&str, &str)]) -> Vec<String> {
        let lines: Vec<String> = records.iter().map(|(name, title)| format!("- [{title}]({name})")).collect();
        faults_with_index(records, &lines.join("\n"))
    }

    fn faults_with_index(records: &[(&str, &str)], index: &str) -> Vec<String> {
        let records = records.iter().map(|(name, title)| (format!("{FOLDER}{name}"), format!("# {title}\n\nText\n")));
        faults(&records.chain([(format!("{FOLDER}README.md"), format!("# Decisions\n\n{index}\n"))]).collect())
    }

    #[test]
    fn numbers_in_order_with_titles_and_an_index_are_no_fault() {
        assert_eq!(faults_of(&[("0001-a.md", "1. A"), ("0002-b.md", "2. B")]), [""; 0]);
        assert_eq!(faults(&BTreeMap::new()), [""; 0]);
    }

    #[test]
    fn a_title_without_the_number_of_its_file_is_found() {
        for title in ["A", "2. A", "1 A", "1.", "1. "] {
            assert_eq!(faults_of(&[("0001-a.md", title)]), ["docs/decisions/0001-a.md:1: begin with `# 1. ` and a title"], "{title}");
        }
        assert_eq!(faults_of(&[("1-a.md", "1. A")]), ["docs/decisions/1-a.md: name it NNNN-title.md"]);
    }

    #[test]
    fn missing_and_repeated_numbers_are_found() {
        assert_eq!(faults_of(&[("0001-a.md", "1. A"), ("0003-b.md", "3. B")]), ["docs/decisions/: decision 2 is missing"]);
        assert_eq!(faults_of(&[("0001-a.md", "1. A"), ("0001-b.md", "1. B")]), ["docs/decisions/0001-b.md: 0001-a.md has this number too"]);
    }

    #[test]
    fn a_reserved_number_may_be_missing_and_must_not_be_there() {
        let number = RESERVED.iter().max().map_or(1, |highest| highest + 1);
        let names: Vec<_> = (1..=number).map(|number| (format!("{number:04}-a.md"), format!("{number}. A"))).collect();
        let records: Vec<_> = names.iter().map(|(name, title)| (name.as_str(), title.as_str())).collect();
        let fault = |number| format!("docs/decisions/{number:04}-a.md: remove {number} from RESERVED in xtask/src/decisions.rs");
        assert_eq!(faults_of(&records), RESERVED.iter().map(fault).collect::<Vec<_>>());
        let others: Vec<_> =
            records.into_iter().filter(|(name, _)| !super::number(name).is_some_and(|of| RESERVED.contains(&of))).collect();
        assert_eq!(faults_of(&others), [""; 0]);
    }

    #[test]
    fn a_record_that_the_index_lacks_or_calls_something_else_is_found() {
        let fault = ["docs/decisions/README.md: add the line `- [1. A](0001-a.md)`"];
        for index in ["", "- [1. B](0001-a.md)", "- [1. A](0002-a.md)"] {
            assert_eq!(faults_with_index(&[("0001-a.md", "1. A")], index), fault, "{index}");
        }
    }
}
