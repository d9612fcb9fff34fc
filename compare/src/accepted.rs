//! The differences that docs/deviations.md lists.

use std::sync::LazyLock;

/// `ROW | PATTERN` a line: the first words of a row of docs/deviations.md, and the classes that it explains.
const ACCEPTED: &str = include_str!("accepted.txt");

/// A pattern of differences that are chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The first column of its row, or how that begins.
    pub(crate) row: &'static str,
    /// Of `KIND CLASS`. A `*` matches any text.
    pub(crate) pattern: &'static str,
}

/// The entry that explains a difference: its kind and class.
pub(crate) fn explains(name: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| fits(entry.pattern, name))
}

static ENTRIES: LazyLock<Vec<Entry>> = LazyLock::new(entries);

/// Every entry.
pub(crate) fn entries() -> Vec<Entry> {
    let lines = ACCEPTED.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let entry = |line: &'static str| {
        let (row, pattern) = line.split_once(" | ").unwrap_or_else(|| panic!("accepted.txt: {line:?} is not `ROW | PATTERN`"));
        Entry { row: row.trim(), pattern: pattern.trim() }
    };
    lines.map(entry).collect()
}

/// Whether a text is the pattern's.
pub(crate) fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(place) = rest.find(part) else { return false };
        rest = &rest[place + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVIATIONS: &str = include_str!("../../docs/deviations.md");

    #[test]
    fn every_accepted_difference_has_its_row_in_the_list_of_deviations() {
        let is_listed =
            |entry: &Entry| DEVIATIONS.lines().any(|line| line.strip_prefix("| ").is_some_and(|row| row.starts_with(entry.row)));
        let unlisted: Vec<Entry> = entries().into_iter().filter(|entry| !is_listed(entry)).collect();
        assert_eq!(unlisted, []);
    }

    #[test]
    fn a_star_matches_any_text() {
        assert!(fits("Pod field *.a: * → absent", "Pod field spec.b.a: {} → absent"));
        assert!(fits("*", "") && fits("a", "a") && !fits("a", "ab") && !fits("a*b", "a") && fits("a*b", "ab"));
    }
}
