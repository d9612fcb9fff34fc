//! What a check finds, and the words that checks share.

use std::collections::BTreeSet;

/// What one check found.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Violation {
    /// What is forbidden, in a few words.
    pub(super) reason: &'static str,
    /// Where it is, and what there should be.
    pub(super) detail: String,
}

/// `"a", "b"`.
pub(super) fn quoted<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    texts.into_iter().map(|text| format!("\"{}\"", text.as_ref())).collect::<Vec<_>>().join(", ")
}

/// The word for one, or the one for more.
pub(super) fn plural(count: usize, one: &'static str, more: &'static str) -> &'static str {
    if count == 1 { one } else { more }
}

/// `container "a"`, `containers "a", "b"`.
pub(super) fn containers(names: &[&str]) -> String {
    format!("{} {}", plural(names.len(), "container", "containers"), quoted(names))
}

/// Who set something that must not be: `pod`, `container "a"`, `pod and containers "a", "b"`; `None`: nobody did.
pub(super) fn setters(is_pod: bool, names: &[&str]) -> Option<String> {
    match (is_pod, names) {
        (false, []) => None,
        (true, []) => Some("pod".to_owned()),
        (false, names) => Some(containers(names)),
        (true, names) => Some(format!("pod and {}", containers(names))),
    }
}

/// The texts, each once, in order.
pub(super) fn unique<'a>(texts: impl IntoIterator<Item = &'a str>) -> BTreeSet<&'a str> {
    texts.into_iter().collect()
}
