//! The result of a check, and texts that checks share.

use std::collections::BTreeSet;

/// The result of one check.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Violation {
    /// The forbidden property, in a few words.
    pub(super) reason: &'static str,
    /// Its location, and the allowed values.
    pub(super) detail: String,
}

/// `"a", "b"`.
pub(super) fn quoted<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    texts.into_iter().map(|text| format!("\"{}\"", text.as_ref())).collect::<Vec<_>>().join(", ")
}

/// Returns the singular or the plural.
pub(super) fn plural(count: usize, one: &'static str, more: &'static str) -> &'static str {
    if count == 1 { one } else { more }
}

/// `container "a"`, `containers "a", "b"`.
pub(super) fn containers(names: &[&str]) -> String {
    format!("{} {}", plural(names.len(), "container", "containers"), quoted(names))
}

/// Describes who sets a forbidden value: `pod`, `container "a"`, `pod and containers "a", "b"`. `None`: the value is
/// not set.
pub(super) fn setters(is_pod: bool, names: &[&str]) -> Option<String> {
    match (is_pod, names) {
        (false, []) => None,
        (true, []) => Some("pod".to_owned()),
        (false, names) => Some(containers(names)),
        (true, names) => Some(format!("pod and {}", containers(names))),
    }
}

/// Returns the texts, sorted and without duplicates.
pub(super) fn unique<'a>(texts: impl IntoIterator<Item = &'a str>) -> BTreeSet<&'a str> {
    texts.into_iter().collect()
}
